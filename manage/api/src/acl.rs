//! Permissions of files, by the rules of NT, and what they come to for somebody.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Job, SetPace};

/// Somebody, or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Principal {
    /// The security identifier, as `S-1-22-1-1000`.
    pub sid: String,
    /// The name, where one is known.
    pub name: Option<String>,
}

/// What becomes of the rights that an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AclEntryKind {
    /// They are granted.
    Allow,
    /// They are refused.
    Deny,
    /// Neither, or only under a condition: such an entry is kept as its text has it.
    Other,
}

/// An entry of the list of who may do what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AclEntry {
    /// Whom it is about, where it says so.
    pub who: Option<Principal>,
    /// What becomes of the rights.
    pub kind: AclEntryKind,
    /// The rights, as bits of an access mask ([MS-DTYP] 2.4.3); generic ones are those that they stand for.
    pub mask: u32,
    /// Whether it applies to the file or directory itself.
    pub here: bool,
    /// Whether files below inherit it.
    pub files: bool,
    /// Whether directories below inherit it.
    pub directories: bool,
    /// Whether it goes no deeper than directly below.
    pub one_level: bool,
    /// Whether it came from a directory above.
    pub inherited: bool,
    /// The entry as text (SDDL).
    pub sddl: String,
}

/// Which accounts are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PrincipalKind {
    /// A user of the server.
    User,
    /// A group of the server.
    Group,
    /// One that every system knows, as Everyone.
    WellKnown,
}

/// Somebody whom permissions can name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KnownPrincipal {
    /// What it is.
    pub kind: PrincipalKind,
    /// The name.
    pub name: String,
    /// The security identifier, as `S-1-22-1-1000`.
    pub sid: String,
}

/// The security descriptor of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileAcl {
    /// The file, from the volume's root on.
    pub path: String,
    /// Whether it is a directory, whose entries may be for what is below.
    pub directory: bool,
    /// Whether it has a descriptor of its own: otherwise owner, group and mode are all there is, and the descriptor is what
    /// these amount to.
    pub own: bool,
    /// The twelve permission bits that programs of POSIX see, as `0640`.
    pub mode: String,
    /// Who owns it.
    pub owner: Option<Principal>,
    /// Its primary group.
    pub group: Option<Principal>,
    /// Whether what directories above hand on is kept off.
    pub protected: bool,
    /// The descriptor as text (SDDL, [MS-DTYP] 2.5.1).
    pub sddl: String,
    /// Who may do what, in the order in which it is looked at. Where there is no list at all, everybody may do everything.
    pub entries: Option<Vec<AclEntry>>,
    /// The same for people, a line for the owner, the group and each entry.
    pub lines: Vec<String>,
}

/// Puts parts of a security descriptor in place of those of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetFileAcl {
    /// The file, from the volume's root on.
    pub path: String,
    /// The parts, as text (SDDL): `O:` the owner, `G:` the group, `D:` who may do what, `S:` what is audited. What is left out
    /// stays.
    pub sddl: String,
    /// Of a directory, also have what is below inherit it, as a job.
    #[serde(default)]
    pub below: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

/// The answer to a change of permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileAclChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The permissions as they are now.
    pub acl: FileAcl,
    /// The job that hands them on to what is below.
    pub job: Option<Job>,
}

/// What somebody may do with a file, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveAccess {
    /// The file, from the volume's root on.
    pub path: String,
    /// The user.
    pub user: Principal,
    /// The groups that count.
    pub groups: Vec<Principal>,
    /// Whether the user reads it, or lists it.
    pub reads: bool,
    /// Whether the user writes to it, or makes files in it.
    pub writes: bool,
    /// Whether the user executes it, or passes through it.
    pub executes: bool,
    /// Whether the user removes or renames it, by its own permissions: those of its directory may allow it, too.
    pub deletes: bool,
    /// Whether the user changes its permissions.
    pub changes_permissions: bool,
    /// Why, a line for each decision. Entries are numbered as the lines of the descriptor are.
    pub reasons: Vec<String>,
}
