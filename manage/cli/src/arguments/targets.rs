//! Commands about iSCSI targets, LUNs, initiators, sessions and reservations.
//!
//! Invariant: no secret is an argument, where every process of the machine would see it.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use holdfast_api::{LunBlocks, PortalState};
use holdfast_model::ByteSize;

use super::QosOptions;
use super::values::{LunAlertPercent, parse_lun_alert};

/// What initiators find at a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortalStateWord {
    /// To be used
    Active,
    /// To be used if no active portal is left
    NonOptimized,
    /// Answers what initiators ask about it, and no I/O
    Standby,
    /// Not to be used
    Unavailable,
}

impl From<PortalStateWord> for PortalState {
    fn from(word: PortalStateWord) -> Self {
        match word {
            PortalStateWord::Active => Self::Active,
            PortalStateWord::NonOptimized => Self::NonOptimized,
            PortalStateWord::Standby => Self::Standby,
            PortalStateWord::Unavailable => Self::Unavailable,
        }
    }
}

/// The blocks in which initiators address a LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BlockWord {
    /// 512 bytes
    #[value(name = "512")]
    B512,
    /// 512 bytes, and best written in units of 4096
    #[value(name = "512e")]
    B512e,
    /// 4096 bytes
    #[value(name = "4096")]
    B4096,
}

impl From<BlockWord> for LunBlocks {
    fn from(word: BlockWord) -> Self {
        match word {
            BlockWord::B512 => Self::B512,
            BlockWord::B512e => Self::B512e,
            BlockWord::B4096 => Self::B4096,
        }
    }
}

/// Where a secret comes from.
#[derive(Args, Debug)]
pub struct SecretOptions {
    /// Read the secret from the first line of this file instead of prompting for it or reading standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secret_file: Option<PathBuf>,
}

/// What to do with targets.
#[derive(Debug, Subcommand)]
pub enum TargetCommand {
    /// Create a target
    Create {
        /// Its name on this server
        target: String,
        /// The iSCSI name by which initiators know it; made from the server's name and its own by default
        #[arg(long, value_name = "IQN")]
        iqn: Option<String>,
        /// Address by which it is reached, HOST:PORT; can be repeated; all addresses of the daemon by default
        #[arg(long, value_name = "ADDRESS")]
        portal: Vec<String>,
        /// Let any initiator log in
        #[arg(long)]
        open: bool,
    },
    /// List all targets
    List,
    /// Show a target, with the commands to connect to it
    Show {
        /// Its name
        target: String,
    },
    /// Change a target while it is in use
    #[command(group = ArgGroup::new("change").required(true).multiple(true).args(["open", "closed", "mutual", "no_mutual"]))]
    Set {
        /// Its name
        target: String,
        /// Let any initiator log in
        #[arg(long, conflicts_with = "closed")]
        open: bool,
        /// Let only those initiators log in that are allowed by name
        #[arg(long)]
        closed: bool,
        /// Prove to initiators that ask for it who the target is, as this user; prompts for the secret, or reads it from
        /// standard input
        #[arg(long, value_name = "USER", conflicts_with = "no_mutual")]
        mutual: Option<String>,
        /// Prove nothing to initiators any more
        #[arg(long)]
        no_mutual: bool,
        #[command(flatten)]
        secret: SecretOptions,
    },
    /// The addresses by which a target is reached
    #[command(subcommand)]
    Portal(PortalCommand),
    /// Destroy a target and log out its initiators; the spaces and files of its LUNs stay
    Destroy {
        /// Its name
        target: String,
        /// Confirm: initiators that are logged in are cut off, and reservations of its LUNs are lost
        #[arg(long)]
        yes: bool,
    },
}

/// What to do with portals.
#[derive(Debug, Subcommand)]
pub enum PortalCommand {
    /// Add an address by which a target is reached
    Add {
        /// Name of the target
        target: String,
        /// HOST:PORT
        address: String,
        /// Its portal group, which is one port to SCSI; 1 by default
        #[arg(long, value_name = "N")]
        group: Option<u16>,
        /// State of all portals of its group
        #[arg(long)]
        state: Option<PortalStateWord>,
    },
    /// Change the group of an address, or the state of all portals of its group
    #[command(group = ArgGroup::new("change").required(true).multiple(true).args(["group", "state"]))]
    Set {
        /// Name of the target
        target: String,
        /// HOST:PORT
        address: String,
        /// Its portal group
        #[arg(long, value_name = "N")]
        group: Option<u16>,
        /// State of all portals of its group
        #[arg(long)]
        state: Option<PortalStateWord>,
    },
    /// Remove an address and end the sessions over it
    Remove {
        /// Name of the target
        target: String,
        /// HOST:PORT
        address: String,
    },
}

/// What to do with LUNs.
#[derive(Debug, Subcommand)]
pub enum LunCommand {
    /// Add a space or a file of a volume to a target
    Add {
        /// Name of the target
        target: String,
        /// POOL/SPACE or POOL/VOLUME:PATH
        backing: String,
        /// Its number, 0 to 255; the lowest that is free by default
        #[arg(long, value_name = "N")]
        lun: Option<u16>,
        /// The blocks in which initiators address it; 512e by default
        #[arg(long)]
        block: Option<BlockWord>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
        /// Create the file, of this size
        #[arg(long, value_name = "SIZE")]
        size: Option<ByteSize>,
        /// Give the file all of its room now, so that it cannot run out of it
        #[arg(long)]
        full: bool,
        /// Warn initiators when so much of its room is taken, in percent, none, or default for the alerts of its pool;
        /// for thin spaces and files
        #[arg(long, value_name = "PERCENT", value_parser = parse_lun_alert)]
        alert: Option<LunAlertPercent>,
    },
    /// Show a LUN
    Show {
        /// Name of the target
        target: String,
        /// Its number
        lun: u16,
    },
    /// Change the limits of a LUN while it is in use, and when initiators are warned that it runs out of room
    #[command(group = ArgGroup::new("change").required(true).multiple(true)
        .args(["max_iops", "burst_iops", "max_bandwidth", "burst_bandwidth", "min_iops", "alert"]))]
    Set {
        /// Name of the target
        target: String,
        /// Its number
        lun: u16,
        #[command(flatten)]
        qos: QosOptions,
        /// Warn initiators when so much of its room is taken, in percent, none, or default for the alerts of its pool;
        /// for thin spaces and files
        #[arg(long, value_name = "PERCENT", value_parser = parse_lun_alert)]
        alert: Option<LunAlertPercent>,
    },
    /// Make a LUN larger, with its space or file; its initiators are told
    Grow {
        /// Name of the target
        target: String,
        /// Its number
        lun: u16,
        /// The new size
        #[arg(long)]
        size: ByteSize,
    },
    /// Remove a LUN; its space or file stays
    Remove {
        /// Name of the target
        target: String,
        /// Its number
        lun: u16,
        /// Confirm: initiators that are logged in are cut off, and its reservations are lost
        #[arg(long)]
        yes: bool,
    },
}

/// What to do with initiators.
#[derive(Debug, Subcommand)]
pub enum InitiatorCommand {
    /// Let an initiator log in
    Allow {
        /// Name of the target
        target: String,
        /// iSCSI name of the initiator
        iqn: String,
        /// Have it prove who it is by CHAP as this user; prompts for the secret, or reads it from standard input
        #[arg(long, value_name = "USER", conflicts_with = "no_chap")]
        chap: Option<String>,
        /// Its name is enough, even if it needed an account so far
        #[arg(long)]
        no_chap: bool,
        #[command(flatten)]
        secret: SecretOptions,
    },
    /// Let an initiator log in no more, and end its sessions
    Deny {
        /// Name of the target
        target: String,
        /// iSCSI name of the initiator
        iqn: String,
    },
}

/// What to do with iSCSI.
#[derive(Debug, Subcommand)]
pub enum IscsiCommand {
    /// Sessions of initiators
    #[command(subcommand)]
    Session(IscsiSessionCommand),
    /// Who may ask which targets there are
    #[command(subcommand)]
    Discovery(DiscoveryCommand),
}

/// What to do with sessions of initiators.
#[derive(Debug, Subcommand)]
pub enum IscsiSessionCommand {
    /// List all sessions
    List,
    /// End a session; the initiator may log in again
    Drop {
        /// Its number
        id: u16,
    },
}

/// What to do about discovery.
#[derive(Debug, Subcommand)]
pub enum DiscoveryCommand {
    /// Have initiators prove who they are before they see which targets there are
    Set {
        /// The user; prompts for the secret, or reads it from standard input
        #[arg(long, value_name = "USER")]
        chap: String,
        #[command(flatten)]
        secret: SecretOptions,
    },
    /// Show who may ask
    Show,
    /// Let everybody ask
    Clear,
}

/// What to do with reservations.
#[derive(Debug, Subcommand)]
pub enum ReservationCommand {
    /// List who reserved LUNs, and who is registered
    List {
        /// Name of the target; all by default
        target: Option<String>,
        /// Number of the LUN; all by default
        #[arg(requires = "target")]
        lun: Option<u16>,
    },
    /// End all reservations and registrations of a LUN
    Clear {
        /// Name of the target
        target: String,
        /// Number of the LUN
        lun: u16,
        /// Confirm that its initiators lose what keeps them from writing over each other
        #[arg(long)]
        yes: bool,
    },
}
