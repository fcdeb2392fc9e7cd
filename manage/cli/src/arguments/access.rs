//! The commands about who may manage, and from where.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use holdfast_api::Role;

use super::parse_duration;

/// Logs in to a server.
#[derive(Args, Debug)]
pub struct Login {
    /// The server, as in https://HOST:8443
    pub url: String,
    /// SHA-256 of its certificate, as the server printed it; needed where no authority vouches for it
    #[arg(long, value_name = "SHA256")]
    pub fingerprint: Option<String>,
    /// Name of the account; your own name here if left out
    #[arg(long, value_name = "NAME", env = "USER")]
    pub account: String,
    /// For how long the login counts, for example 12h or 30d
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    pub expires: std::time::Duration,
}

/// What to do with accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account; its password is asked for, or read from standard input
    Create {
        /// Its name
        account: String,
        /// What it may do: viewer, operator or administrator
        #[arg(long)]
        role: Role,
    },
    /// List all accounts
    List,
    /// Show an account
    Show {
        /// Its name
        account: String,
    },
    /// Change an account
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["role", "password", "enable", "disable"]))]
    Set {
        /// Its name
        account: String,
        /// What it may do: viewer, operator or administrator
        #[arg(long)]
        role: Option<Role>,
        /// Ask for a new password, or read it from standard input; its sessions end
        #[arg(long)]
        password: bool,
        /// Let it log in
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Let it not log in; its sessions end and its tokens do not count
        #[arg(long)]
        disable: bool,
    },
    /// Give your own account on the server of --server another password; both are asked for, or read from standard input
    Password,
    /// Remove an account with its tokens and sessions
    Delete {
        /// Its name
        account: String,
    },
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token for your own account, and print its secret, which is shown once
    Create {
        /// What it is for
        name: String,
        /// What it may do: viewer, operator or administrator
        #[arg(long)]
        role: Role,
        /// What it may be used for: disks, pools, spaces, exports, jobs, events, status; all if left out
        #[arg(long, value_name = "AREA", value_delimiter = ',')]
        area: Vec<String>,
        /// For how long it counts, for example 12h or 90d
        #[arg(long, value_name = "TIME", default_value = "90d", value_parser = parse_duration)]
        expires: std::time::Duration,
    },
    /// List your own tokens; administrators see all
    List,
    /// Remove a token; what shows it is refused from then on
    Delete {
        /// Its id
        id: String,
    },
}

/// Which changes are shown.
#[derive(Args, Debug)]
pub struct Audit {
    /// Only changes after the one of this number, those that follow it first
    #[arg(long, value_name = "ID")]
    pub after: Option<u64>,
    /// At most so many, 1000 at most
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub limit: u32,
    /// Only changes by this account
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Only changes of this object, as in pools/tank
    #[arg(long)]
    pub object: Option<String>,
}

/// Puts a backup in place.
#[derive(Args, Debug)]
pub struct Restore {
    /// The backup
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Folder of the daemon, which must not run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state: PathBuf,
}
