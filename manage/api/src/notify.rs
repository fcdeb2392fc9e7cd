//! Notifications: the channels that messages go out by, the rules that say what goes out, and what became of each
//! message.
//!
//! Invariant: no answer carries a password, a secret, a token, or more of a webhook's URL than its server.

use holdfast_model::Condition;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Severity;
use crate::schema::ConditionSchema;

/// How a channel delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyChannelKind {
    /// Mail, by SMTP.
    Mail,
    /// An HTTP request.
    Webhook,
}

/// How the connection to a mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MailSecurity {
    /// STARTTLS, without which nothing is sent. Port 587 unless another is given.
    Starttls,
    /// TLS from the first byte. Port 465 unless another is given.
    Tls,
    /// Not at all, and without a password: for a mail server on this machine. Port 25 unless another is given.
    None,
}

/// What the body of a webhook's request looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookTemplate {
    /// JSON with every field, for programs.
    #[default]
    Generic,
    /// `{"text": ...}`, as Slack, Mattermost and Rocket.Chat take it.
    Slack,
    /// An adaptive card, as workflows of Microsoft Teams take it.
    Teams,
    /// A message for ntfy. The last part of the URL's path is the topic.
    Ntfy,
}

/// The settings of a mail channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MailChannel {
    /// Host name or address of the mail server.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub security: MailSecurity,
    /// The name to log in with; null if it does not log in.
    pub user: Option<String>,
    /// Whether a password is stored.
    pub password_set: bool,
    /// The sender's address.
    pub from: String,
    /// The recipients' addresses.
    pub to: Vec<String>,
    /// Whether the server's certificate is checked against an authority of its own instead of the system's.
    pub ca_certificate_set: bool,
}

/// The settings of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookChannel {
    /// Scheme, host and port of its URL. The rest is not shown: it often holds a token.
    pub server: String,
    /// What the body looks like.
    pub template: WebhookTemplate,
    /// Whether requests are signed.
    pub secret_set: bool,
    /// Whether requests carry a bearer token.
    pub token_set: bool,
    /// Whether the server's certificate is checked against an authority of its own instead of the system's.
    pub ca_certificate_set: bool,
}

/// A mail server or webhook that messages go out by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyChannel {
    /// Its name.
    pub name: String,
    /// How it delivers.
    pub kind: NotifyChannelKind,
    /// The settings of a mail channel.
    pub mail: Option<MailChannel>,
    /// The settings of a webhook.
    pub webhook: Option<WebhookChannel>,
    /// Why the last message could not be delivered; null once one was.
    #[schema(value_type = Option<ConditionSchema>)]
    pub trouble: Option<Condition>,
    /// Messages that wait to be delivered.
    pub queued: u32,
    /// Enabled rules that send events by it: with none, nothing is sent but tests.
    pub rules: u32,
}

/// Settings of a mail channel; what is left out stays, or is as usual for a new one.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetMail {
    /// Host name or address of the mail server.
    pub server: Option<String>,
    /// Its port; 0 for the usual one.
    pub port: Option<u16>,
    /// How the connection is encrypted; STARTTLS unless given.
    pub security: Option<MailSecurity>,
    /// The name to log in with; empty for none.
    pub user: Option<String>,
    /// The password; empty for none. It is stored and never shown.
    pub password: Option<String>,
    /// The sender's address.
    pub from: Option<String>,
    /// The recipients' addresses.
    pub to: Option<Vec<String>>,
    /// The authority that the server's certificate is checked against, as PEM; empty for those of the system.
    pub ca_certificate: Option<String>,
}

/// Settings of a webhook; what is left out stays, or is as usual for a new one.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetWebhook {
    /// Where requests go: `http://` or `https://`. It is stored, and only its server is shown.
    pub url: Option<String>,
    /// What the body looks like.
    pub template: Option<WebhookTemplate>,
    /// The key that requests are signed with; empty for none. It is stored and never shown.
    pub secret: Option<String>,
    /// A token that requests carry as `Authorization: Bearer`; empty for none. It is stored and never shown.
    pub token: Option<String>,
    /// The authority that the server's certificate is checked against, as PEM; empty for those of the system.
    pub ca_certificate: Option<String>,
}

/// Makes a channel: of mail or a webhook.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateNotifyChannel {
    /// Its name.
    pub name: String,
    /// The settings of a mail channel.
    pub mail: Option<SetMail>,
    /// The settings of a webhook.
    pub webhook: Option<SetWebhook>,
}

/// Changes a channel.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetNotifyChannel {
    /// What changes of a mail channel.
    pub mail: Option<SetMail>,
    /// What changes of a webhook.
    pub webhook: Option<SetWebhook>,
}

/// The answer to a change of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyChannelChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The channel as it is now.
    pub channel: NotifyChannel,
}

/// What became of a test message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyChannelTested {
    /// Whether it was delivered.
    pub delivered: bool,
    /// What the other side answered, or why it was not delivered.
    pub message: String,
}

/// Which events go out by which channel, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyRule {
    /// Its name.
    pub name: String,
    /// The channel.
    pub channel: String,
    /// Events of this severity and above.
    pub severity: Severity,
    /// Of objects that match one of these: `KIND`, or `KIND NAME`, with `*` for any text. All objects if empty.
    pub objects: Vec<String>,
    /// Events are collected for so long into one message; 0 to send at once.
    pub digest_seconds: u32,
    /// From when to when nothing is sent but collected, `HH:MM-HH:MM` in the server's time zone; null if there is no
    /// such time.
    pub quiet: Option<String>,
    /// Whether errors are sent in that time too.
    pub errors_pass_quiet: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Events that are collected for its next message.
    pub collected: u32,
}

/// Makes a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateNotifyRule {
    /// Its name.
    pub name: String,
    /// The channel.
    pub channel: String,
    /// Events of this severity and above; warning unless given.
    pub severity: Option<Severity>,
    /// Of objects that match one of these; all if empty.
    #[serde(default)]
    pub objects: Vec<String>,
    /// Events are collected for so long into one message; 0 to send at once.
    #[serde(default)]
    pub digest_seconds: u32,
    /// From when to when nothing is sent but collected, `HH:MM-HH:MM` in the server's time zone.
    pub quiet: Option<String>,
    /// Whether errors are sent in that time too; true unless given.
    pub errors_pass_quiet: Option<bool>,
    /// Whether it is enabled; true unless given.
    pub enabled: Option<bool>,
}

/// Changes a rule; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetNotifyRule {
    /// The channel.
    pub channel: Option<String>,
    /// Events of this severity and above.
    pub severity: Option<Severity>,
    /// Of objects that match one of these; all if empty.
    pub objects: Option<Vec<String>>,
    /// Events are collected for so long into one message; 0 to send at once.
    pub digest_seconds: Option<u32>,
    /// From when to when nothing is sent but collected, `HH:MM-HH:MM`; empty for no such time.
    pub quiet: Option<String>,
    /// Whether errors are sent in that time too.
    pub errors_pass_quiet: Option<bool>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
}

/// The answer to a change of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyRuleChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The rule as it is now.
    pub rule: NotifyRule,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyDeliveryState {
    /// It waits for its first attempt or for another one.
    Queued,
    /// The other side took it.
    Delivered,
    /// It was given up.
    Failed,
}

/// A message, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotifyDelivery {
    /// Counts up.
    pub id: u64,
    /// The channel.
    pub channel: String,
    /// The rule that it follows; null for a test.
    pub rule: Option<String>,
    /// Its state.
    pub state: NotifyDeliveryState,
    /// Its subject.
    pub subject: String,
    /// Number of events in it.
    pub events: u32,
    /// When it was made, RFC 3339.
    pub created: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried again, RFC 3339; null if it is under way or over.
    pub next_attempt: Option<String>,
    /// When it was delivered or given up, RFC 3339.
    pub ended: Option<String>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}
