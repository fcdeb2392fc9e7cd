//! The commands about notifications.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use holdfast_api::{MailSecurity, Severity, WebhookTemplate};

use super::parse_duration;
use super::values::parse_word;

fn parse_security(text: &str) -> Result<MailSecurity, String> {
    parse_word(text, "starttls, tls, none")
}

fn parse_template(text: &str) -> Result<WebhookTemplate, String> {
    parse_word(text, "generic, slack, teams, ntfy")
}

fn parse_severity(text: &str) -> Result<Severity, String> {
    parse_word(text, "info, warning, error")
}

/// Quiet hours; empty for none.
fn parse_quiet(text: &str) -> Result<String, String> {
    Ok(if text == "none" { String::new() } else { text.into() })
}

fn parse_digest(text: &str) -> Result<u32, String> {
    let time: Duration = if text == "none" { Duration::ZERO } else { parse_duration(text)? };
    match u32::try_from(time.as_secs()) {
        Ok(seconds) if time.subsec_nanos() == 0 => Ok(seconds),
        _ => Err("write whole seconds, 7d at most, for example 15m, or none".into()),
    }
}

/// What to do with notifications.
#[derive(Debug, Subcommand)]
pub enum NotifyCommand {
    /// Channels: mail servers and webhooks that messages go out by
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Rules: which events go out by which channel, and when
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Send a test message and show the result
    Test {
        /// Name of the channel
        channel: String,
    },
    /// List waiting messages, and the last ones that were delivered or given up
    Deliveries,
}

/// What to do with channels.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// Add a channel
    #[command(subcommand)]
    Add(AddChannel),
    /// List all channels
    List,
    /// Show a channel
    Show {
        /// Its name
        name: String,
    },
    /// Change a channel; waiting messages are retried at once
    Set {
        /// Its name
        name: String,
        /// Options of mail.
        #[command(flatten)]
        mail: Box<MailOptions>,
        /// Ask for a new password, or read it from standard input
        #[arg(long, conflicts_with = "password_file")]
        password: bool,
        /// Remove user and password
        #[arg(long, conflicts_with_all = ["user", "password", "password_file"])]
        no_login: bool,
        /// Options of webhooks.
        #[command(flatten)]
        webhook: Box<WebhookOptions>,
        /// Remove the secret; requests are not signed any more
        #[arg(long, conflicts_with_all = ["secret", "secret_file"])]
        no_secret: bool,
        /// Remove the token
        #[arg(long, conflicts_with_all = ["token", "token_file"])]
        no_token: bool,
        /// File with the authority (PEM) that the server's certificate is checked against
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        ca_file: Option<PathBuf>,
        /// Check the server's certificate against the system's authorities again
        #[arg(long, conflicts_with = "ca_file")]
        no_ca: bool,
    },
    /// Remove a channel that no rule uses
    Remove {
        /// Its name
        name: String,
    },
}

/// Kinds of channels.
#[derive(Debug, Subcommand)]
pub enum AddChannel {
    /// Add a mail server; the password is asked for, or read from standard input, where there is a user and no file
    Mail {
        /// Name of the channel
        name: String,
        /// Its options.
        #[command(flatten)]
        mail: Box<MailOptions>,
        /// File with the authority (PEM) that the server's certificate is checked against instead of the system's
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        ca_file: Option<PathBuf>,
    },
    /// Add a webhook; the URL is asked for, or read from standard input, where neither --url nor --url-file is given
    Webhook {
        /// Name of the channel
        name: String,
        /// Its options.
        #[command(flatten)]
        webhook: Box<WebhookOptions>,
        /// File with the authority (PEM) that the server's certificate is checked against instead of the system's
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        ca_file: Option<PathBuf>,
    },
}

/// Options of mail.
#[derive(Args, Debug)]
pub struct MailOptions {
    /// Host name or address of the mail server
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Its port; 587 for starttls, 465 for tls and 25 for none if left out
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// How the connection is encrypted: starttls, tls, or none for a mail server on this machine; starttls if left out
    #[arg(long, value_name = "starttls|tls|none", value_parser = parse_security)]
    pub security: Option<MailSecurity>,
    /// Name to log in with
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub password_file: Option<PathBuf>,
    /// Address of the sender
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<String>,
    /// Addresses of the recipients
    #[arg(long, value_name = "ADDRESS", num_args = 1..)]
    pub to: Vec<String>,
}

impl MailOptions {
    /// Whether any is given.
    pub fn is_any(&self) -> bool {
        let texts = [&self.host, &self.user, &self.from];
        texts.iter().any(|text| text.is_some())
            || self.port.is_some()
            || self.security.is_some()
            || self.password_file.is_some()
            || !self.to.is_empty()
    }
}

/// Options of webhooks.
#[derive(Args, Debug)]
pub struct WebhookOptions {
    /// Where requests go, as in https://HOST/PATH; other users of this machine can see it, so give one that holds a
    /// token by a file
    #[arg(long, value_name = "URL", conflicts_with = "url_file")]
    pub url: Option<String>,
    /// File with the URL
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub url_file: Option<PathBuf>,
    /// What the body looks like: generic (JSON with every field), slack, teams or ntfy; generic if left out
    #[arg(long, value_name = "generic|slack|teams|ntfy", value_parser = parse_template)]
    pub template: Option<WebhookTemplate>,
    /// Ask for the secret that requests are signed with, or read it from standard input
    #[arg(long, conflicts_with = "secret_file")]
    pub secret: bool,
    /// File with the secret
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secret_file: Option<PathBuf>,
    /// Ask for the token that requests carry, or read it from standard input
    #[arg(long, conflicts_with = "token_file")]
    pub token: bool,
    /// File with the token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
}

impl WebhookOptions {
    /// Whether any is given.
    pub fn is_any(&self) -> bool {
        let files = [&self.url_file, &self.secret_file, &self.token_file];
        files.iter().any(|file| file.is_some())
            || self.url.is_some()
            || self.template.is_some()
            || self.secret
            || self.token
    }
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Add a rule, for events from now on
    Add {
        /// Its name
        name: String,
        /// The channel
        #[arg(long, value_name = "NAME")]
        channel: String,
        /// When it sends what.
        #[command(flatten)]
        options: RuleOptions,
    },
    /// List all rules
    List,
    /// Show a rule
    Show {
        /// Its name
        name: String,
    },
    /// Change a rule
    Set {
        /// Its name
        name: String,
        /// The channel
        #[arg(long, value_name = "NAME")]
        channel: Option<String>,
        /// When it sends what.
        #[command(flatten)]
        options: RuleOptions,
        /// Send events of all objects
        #[arg(long, conflicts_with = "object")]
        all_objects: bool,
        /// Enable it
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Disable it, and drop the events that it collected
        #[arg(long)]
        disable: bool,
    },
    /// Remove a rule
    Remove {
        /// Its name
        name: String,
    },
}

/// Which events a rule sends, and when.
#[derive(Args, Debug)]
pub struct RuleOptions {
    /// Events of this severity and above: info, warning or error; warning if left out
    #[arg(long, value_name = "info|warning|error", value_parser = parse_severity)]
    pub severity: Option<Severity>,
    /// Only events of these objects, as in 'pool tank', 'space tank/*' or disk; may be given several times
    #[arg(long, value_name = "OBJECT")]
    pub object: Vec<String>,
    /// Collect events of this time into one message, for example 15m; none to send each at once
    #[arg(long, value_name = "TIME", value_parser = parse_digest)]
    pub digest: Option<u32>,
    /// Hold messages between these times (server time), for example 22:00-07:00, and send them afterwards; none for no
    /// quiet hours
    #[arg(long, value_name = "HH:MM-HH:MM", value_parser = parse_quiet)]
    pub quiet: Option<String>,
    /// Send errors in quiet hours too
    #[arg(long, value_name = "true|false")]
    pub errors_pass_quiet: Option<bool>,
}
