//! The commands about who may manage, and from where.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use holdfast_api::Role;

use super::parse_duration;

/// Logs in to a server.
#[derive(Args, Debug)]
pub struct Login {
    /// The server, for example https://HOST:8443
    pub url: String,
    /// SHA-256 of its certificate, as printed by the server; needed if no trusted authority issued the certificate
    #[arg(long, value_name = "SHA256")]
    pub fingerprint: Option<String>,
    /// Account name; your local user name by default
    #[arg(long, value_name = "NAME", env = "USER")]
    pub account: String,
    /// How long the login is valid, for example 12h or 30d
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    pub expires: std::time::Duration,
}

/// What to do with accounts.
#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account; prompts for its password, or reads it from standard input
    Create {
        /// Its name
        account: String,
        /// Its role: viewer, operator or administrator
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
        /// Its role: viewer, operator or administrator
        #[arg(long)]
        role: Option<Role>,
        /// Prompt for a new password, or read it from standard input; ends its sessions
        #[arg(long)]
        password: bool,
        /// Allow it to log in
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Disable it: ends its sessions and suspends its tokens
        #[arg(long)]
        disable: bool,
    },
    /// Change your own password on --server; prompts for the current and the new one, or reads both from standard input
    Password,
    /// Delete an account with its tokens and sessions
    Delete {
        /// Its name
        account: String,
    },
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token for your own account and print its secret, which is shown only once
    Create {
        /// What it is for
        name: String,
        /// Its role: viewer, operator or administrator
        #[arg(long)]
        role: Role,
        /// Areas it gives access to: disks, pools, spaces, volumes, exports, targets, jobs, events, notifications, status; all by default
        #[arg(long, value_name = "AREA", value_delimiter = ',')]
        area: Vec<String>,
        /// How long it is valid, for example 12h or 90d
        #[arg(long, value_name = "TIME", default_value = "90d", value_parser = parse_duration)]
        expires: std::time::Duration,
    },
    /// List your tokens; administrators see all tokens
    List,
    /// Delete a token; programs that use it are refused at once
    Delete {
        /// Its id
        id: String,
    },
}

/// Which changes are shown.
#[derive(Args, Debug)]
pub struct Audit {
    /// Only changes after this number, oldest first
    #[arg(long, value_name = "ID")]
    pub after: Option<u64>,
    /// Maximum number of changes, up to 1000
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub limit: u32,
    /// Only changes by this account
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Only changes of objects of this kind, for example pool
    #[arg(long)]
    pub kind: Option<String>,
    /// Only changes of the object with this name or id, for example tank
    #[arg(long)]
    pub object: Option<String>,
}

/// Puts a backup in place.
#[derive(Args, Debug)]
pub struct Restore {
    /// The backup
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// State folder of the daemon, which must not be running
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state: PathBuf,
}
