//! Access: who manages, how they prove it, and what was done by whom.
//!
//! Invariant: no answer carries a password or its hash; the secret of a token is in one answer only, the one to the
//! request that made it.

use std::fmt;
use std::str::FromStr;

use holdfast_model::ObjectRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema::ObjectRefSchema;
use crate::settings::Preferences;

/// What an account or a token may do. Each role may all that the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sees everything but accounts, tokens of others and the audit log.
    Viewer,
    /// Besides, does what daily work needs: jobs, lights, spaces, exports, disks that are added.
    Operator,
    /// Everything.
    Administrator,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Administrator];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        })
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is no role: viewer, operator or administrator"))
    }
}

/// How a request proved who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Through the daemon's socket.
    Socket,
    /// By the cookie of a login.
    Session,
    /// By a bearer token.
    Token,
    /// By the one-time link of the first start.
    Setup,
}

/// Whether the first administrator is still to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// True while there is no account.
    pub needed: bool,
}

/// Makes the first administrator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The token of the link that the daemon printed at its start.
    pub token: String,
    /// Name of the account.
    pub name: String,
    /// Its password, 10 to 1,024 bytes.
    pub password: String,
}

/// Logs in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name of the account.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The account.
    pub account: String,
    /// What it may do.
    pub role: Role,
    /// How it proved who it is.
    pub via: Via,
    /// What the header `X-CSRF-Token` of every change must carry; none where no cookie is used.
    pub csrf: Option<String>,
    /// When it ends, however much it is used, RFC 3339; none where it does not.
    pub expires_at: Option<String>,
}

/// Changes one's own password. All other sessions of the account end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// The password so far.
    pub current: String,
    /// The new one, 10 to 1,024 bytes.
    pub new: String,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whether it may log in, and its tokens count.
    pub enabled: bool,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// When it last logged in, RFC 3339.
    pub last_login_at: Option<String>,
}

/// Makes an account.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAccount {
    /// Its name: 1 to 64 letters, digits, `-`, `_`, `.` and `@`, a letter or digit first.
    pub name: String,
    /// Its password, 10 to 1,024 bytes.
    pub password: String,
    /// What it may do.
    pub role: Role,
}

/// Changes an account. What is left out stays as it is.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAccount {
    /// A new password; all sessions of the account end.
    #[serde(default)]
    pub password: Option<String>,
    /// What it may do from now on.
    #[serde(default)]
    pub role: Option<Role>,
    /// Whether it may log in; if not, its sessions end and its tokens do not count.
    #[serde(default)]
    pub enabled: Option<bool>,
}

/// The answer to a change of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The account as it is now.
    pub account: Account,
}

/// A token: what a program shows instead of a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id; no secret.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// The account that it acts for.
    pub account: String,
    /// What it may do; never more than its account may.
    pub role: Role,
    /// The tags of the operations that it may use; all if empty.
    pub areas: Vec<String>,
    /// When it was made, RFC 3339.
    pub created_at: String,
    /// When it ends, RFC 3339.
    pub expires_at: String,
    /// When it was last used, to the minute, RFC 3339.
    pub last_used_at: Option<String>,
}

/// Makes a token for one's own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for, 1 to 64 bytes.
    pub name: String,
    /// What it may do; no more than its account may.
    pub role: Role,
    /// The tags of the operations that it may use: disks, pools, spaces, volumes, exports, jobs, events, notifications, status; all if left
    /// out.
    #[serde(default)]
    pub areas: Vec<String>,
    /// For how long it counts: a minute to ten years.
    pub expires_in_seconds: u64,
}

/// A token and its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// The token.
    pub token: Token,
    /// What requests carry as `Authorization: Bearer SECRET`. It is shown once and kept nowhere.
    pub secret: String,
}

/// A change that somebody asked for, as the audit log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its number; later ones have higher numbers.
    pub id: u64,
    /// When it was done, RFC 3339.
    pub time: String,
    /// What was done.
    #[serde(flatten)]
    pub change: AuditChange,
}

/// Who asked for which change, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditChange {
    /// Who did it.
    pub account: String,
    /// What they might do then.
    pub role: Option<Role>,
    /// How they proved who they were.
    pub via: Option<Via>,
    /// From where: an address, or `socket`.
    pub from: String,
    /// What was asked for: the operation's id in the API's document.
    pub operation: String,
    /// The request's method.
    pub method: String,
    /// The request's path.
    pub path: String,
    /// The object that was changed.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// The object before, where there was one.
    pub before: Option<Value>,
    /// The object afterwards, where there is one.
    pub after: Option<Value>,
    /// The status of the answer.
    pub status: u16,
    /// The request's id.
    pub request_id: String,
}

/// The certificate that HTTPS clients see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Certificate {
    /// SHA-256 of it, as pairs of hexadecimal digits with colons between.
    pub sha256_fingerprint: String,
    /// Until when it counts, RFC 3339.
    pub not_after: String,
    /// Whether the daemon made it itself.
    pub self_signed: bool,
}

/// How management is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerSettings {
    /// What administrators may change.
    pub preferences: Preferences,
    /// Where HTTPS is served.
    pub https: Vec<String>,
    /// The certificate; none where no HTTPS is served.
    pub certificate: Option<Certificate>,
    /// After how long without a request a session ends.
    pub session_idle_seconds: u64,
    /// After how long a session ends in any case.
    pub session_seconds: u64,
    /// Where the daemon keeps what outlives it.
    pub state_folder: String,
    /// The daemon's version.
    pub version: String,
}
