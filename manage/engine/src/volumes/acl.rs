//! Permissions of files: shown, set, handed on to what is below, and explained for a user.
//!
//! Invariant: names are those of the server at the moment; what is kept are security identifiers.

mod entries;
mod principals;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::{ApiError, Code, EffectiveAccess, FileAcl, FileAclChanged, JobKind, Principal, SetFileAcl};
use holdfast_identity::{
    AccessMask, AclState, Control, Node, SecurityDescriptor, Sid, describe, sddl, trivial_mode, well_known,
};

use self::entries::entries;
use holdfast_volume::service::{Attributes, Caller, FileKind, FileService, Flush, NameRules, SecurityParts};
use holdfast_volume::{Volume, VolumeError};

use super::quotas::names;
use super::usage::{find_any, no_path};
use super::{KnownVolume, from_volume};
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::jobs::{JobSpec, Target};

/// The one who asked is an administrator of the server.
pub(crate) fn administrator() -> Caller {
    // Names are put back as they were, whoever gave them.
    Caller { is_checked: true, names: NameRules::Stored, ..Caller::default() }
}

/// A user or group of POSIX by its security identifier (S-1-22-1 and S-1-22-2).
fn number_of(sid: &Sid) -> Option<(bool, u32)> {
    match (sid.authority(), sid.subauthorities()) {
        (22, [1, uid]) => Some((true, *uid)),
        (22, [2, gid]) => Some((false, *gid)),
        _ => None,
    }
}

/// Names that are known of identifiers.
#[derive(Default)]
struct Names {
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Names {
    async fn of<'a>(sids: impl Iterator<Item = &'a Sid>) -> Self {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for (is_user, number) in sids.filter_map(number_of) {
            if is_user { &mut users } else { &mut groups }.push(number);
        }
        let (users, groups) = tokio::join!(names::names(names::USERS, users), names::names(names::GROUPS, groups));
        Self { users, groups }
    }

    fn name(&self, sid: &Sid) -> Option<String> {
        let known = match number_of(sid) {
            Some((true, uid)) => self.users.get(&uid).map(|name| format!("user {name}")),
            Some((false, gid)) => self.groups.get(&gid).map(|name| format!("group {name}")),
            None => None,
        };
        known.or_else(|| well_known::name(sid).map(str::to_owned))
    }

    fn principal(&self, sid: &Sid) -> Principal {
        Principal { sid: sid.to_string(), name: self.name(sid) }
    }
}

/// All identifiers of a descriptor.
fn sids(descriptor: &SecurityDescriptor) -> impl Iterator<Item = &Sid> {
    let lists = [&descriptor.dacl, &descriptor.sacl].into_iter().filter_map(AclState::acl);
    let entries = lists.flat_map(|list| list.entries());
    descriptor.owner.iter().chain(&descriptor.group).chain(entries.filter_map(|entry| entry.sid()))
}

fn node_of(facts: &Attributes) -> Node {
    if facts.kind == FileKind::Directory { Node::Directory } else { Node::File }
}

async fn shown(path: &str, facts: &Attributes, descriptor: &SecurityDescriptor) -> ApiResult<FileAcl> {
    let names = Names::of(sids(descriptor)).await;
    let unprintable = |error: sddl::SddlError| {
        ApiError::new(Code::Failed, format!("path {path}"), error.to_string(), "set other permissions")
    };
    let sddl = sddl::print(descriptor).map_err(unprintable)?;
    let entries = entries(&descriptor.dacl, &names).map_err(unprintable)?;
    Ok(FileAcl {
        path: path.to_owned(),
        directory: facts.kind == FileKind::Directory,
        own: trivial_mode(descriptor, node_of(facts)).is_none(),
        mode: format!("{:04o}", facts.mode),
        owner: descriptor.owner.as_ref().map(|sid| names.principal(sid)),
        group: descriptor.group.as_ref().map(|sid| names.principal(sid)),
        protected: descriptor.control.contains(Control::DACL_PROTECTED),
        sddl,
        entries,
        lines: describe(descriptor, |sid| names.name(sid)),
    })
}

/// The parts that a text has.
fn parts_of(given: &SecurityDescriptor) -> SecurityParts {
    let is_there = |list: &AclState| *list != AclState::Absent;
    let mut parts = SecurityParts::empty();
    parts.set(SecurityParts::OWNER, given.owner.is_some());
    parts.set(SecurityParts::GROUP, given.group.is_some());
    parts.set(SecurityParts::DACL, is_there(&given.dacl));
    parts.set(SecurityParts::SACL, is_there(&given.sacl));
    parts
}

/// A file of a volume that a request is about.
pub(super) struct Asked {
    pub(super) open: Arc<OpenPool>,
    pub(super) known: KnownVolume,
    pub(super) volume: Arc<Volume>,
    pub(super) facts: Attributes,
    pub(super) object: String,
}

impl Engine {
    pub(super) async fn file_asked(&self, path: &str, below: &str) -> ApiResult<Asked> {
        let (open, name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&name, &object)?;
        if !below.starts_with('/') {
            let next = "write the path from the volume's root on, as /projects; / is the root itself";
            let message = format!("path {below:?} does not begin at the volume's root");
            return Err(ApiError::invalid(object, message, next).at("path"));
        }
        let (looking, asked) = (volume.clone(), below.to_owned());
        let found = self.on_reactor(move || async move { find_any(&*looking, &asked).await }).await?;
        match found {
            Ok(Some(facts)) => {
                Ok(Asked { object: format!("path {below} of volume {path}"), open, known, volume, facts })
            }
            Ok(None) => Err(no_path(path, below)),
            Err(error) => Err(from_volume(object, &error)),
        }
    }

    async fn acl_of(&self, below: &str, asked: &Asked) -> ApiResult<FileAcl> {
        let (volume, id) = (asked.volume.clone(), asked.facts.id);
        let read = self.on_reactor(move || async move {
            let descriptor = volume.security(&administrator(), id).await?;
            Ok::<_, VolumeError>((volume.stat(id).await?, descriptor))
        });
        let (facts, descriptor) = read.await?.map_err(|error| from_volume(&asked.object, &error))?;
        shown(below, &facts, &descriptor).await
    }

    /// The permissions of a file of a volume.
    ///
    /// # Errors
    /// If there is no such volume or file, or the volume is not open.
    pub async fn file_acl(&self, path: &str, below: &str) -> ApiResult<FileAcl> {
        let asked = self.file_asked(path, below).await?;
        self.acl_of(below, &asked).await
    }

    /// Sets permissions of a file of a volume; a job hands those of a directory on to what is below, if that is asked for.
    ///
    /// # Errors
    /// If there is no such volume or file, the text cannot be read, or there is no room.
    pub async fn set_file_acl(self: &Arc<Self>, path: String, request: SetFileAcl) -> ApiResult<FileAclChanged> {
        self.change(move |engine| async move {
            let asked = engine.file_asked(&path, &request.path).await?;
            let given = sddl::parse(&request.sddl, None).map_err(|error| {
                let next = "write parts as O:S-1-22-1-1000 D:(A;OICI;FA;;;S-1-22-1-1000)";
                ApiError::invalid(&asked.object, error.to_string(), next).at("sddl")
            })?;
            let (parts, given) = (parts_of(&given), given.auto_inherited());
            if parts.is_empty() {
                let next = "begin parts with O:, G:, D: or S:";
                return Err(ApiError::invalid(&asked.object, "the text has no part of a descriptor", next).at("sddl"));
            }
            let is_handed_on = request.below && asked.facts.kind == FileKind::Directory;
            let target = Target::volume(&asked.open, asked.known.id, &asked.known.name);
            let spec = JobSpec { path: Some(request.path.clone()), ..JobSpec::new(JobKind::Inherit, target) };
            if is_handed_on {
                engine.refuse_unlike(&asked.object, &spec, "hands on those of another directory")?;
            }
            let (volume, id) = (asked.volume.clone(), asked.facts.id);
            let set = engine.on_reactor(move || async move {
                let before = volume.security(&administrator(), id).await?;
                volume.set_security(&administrator(), id, parts, &given).await?;
                volume.flush(id, Flush::All).await?;
                Ok::<_, VolumeError>(before != volume.security(&administrator(), id).await?)
            });
            let changed = set.await?.map_err(|error| {
                let mut refused = from_volume(&asked.object, &error);
                if refused.code == Code::Invalid {
                    refused.next_action = "choose other permissions".into();
                }
                refused
            })?;
            let Asked { open, known, .. } = &asked;
            if changed {
                engine.jobs.begin_anew(&spec);
                engine.note(&open.volume_object(known), &format!("permissions of {} set", request.path));
            }
            if let Some(notifier) = open.notifier_of(known.id) {
                let told = engine.blocking(move || notifier.file_changed(id)).await;
                told.unwrap_or_else(|error| tracing::warn!("the kernel was not told of permissions: {error}"));
            }
            let job = if is_handed_on { Some(engine.add_job(spec, request.pace)?.job) } else { None };
            let acl = engine.acl_of(&request.path, &asked).await?;
            Ok(FileAclChanged { changed: changed || job.is_some(), acl, job })
        })
        .await
    }

    /// What a user may do with a file of a volume, and why.
    ///
    /// # Errors
    /// If there is no such volume, file or user, or the volume is not open.
    pub async fn file_access(&self, path: &str, below: &str, user: &str) -> ApiResult<EffectiveAccess> {
        let asked = self.file_asked(path, below).await?;
        let looked_up = names::account(user).await.map_err(|why| {
            let next = format!(
                "see whether 'getent passwd {user}' and 'getent initgroups NAME' answer on the server, and repeat"
            );
            ApiError::new(Code::Failed, &asked.object, why, next)
        })?;
        let Some(who) = looked_up else {
            let message = format!("the server knows no user {user:?}");
            return Err(ApiError::invalid(&asked.object, message, "give the name or number of a user").at("user"));
        };
        let caller =
            Caller { uid: who.uid, gid: who.gid, groups: who.groups.iter().copied().collect(), ..Caller::default() };
        let (volume, id) = (asked.volume.clone(), asked.facts.id);
        let explained =
            self.on_reactor(move || async move { volume.explain(&caller, id, AccessMask::MAXIMUM_ALLOWED).await });
        let explained = explained.await?.map_err(|error| from_volume(&asked.object, &error))?;
        let sid = |kind: u32, number: u32| Sid::new(22, &[kind, number]);
        let own: Vec<Sid> = sid(1, who.uid).into_iter().collect();
        let groups = std::iter::once(who.gid).chain(who.groups.iter().copied().filter(|gid| *gid != who.gid));
        let groups: Vec<Sid> = groups.filter_map(|gid| sid(2, gid).ok()).collect();
        let names = Names::of(own.iter().chain(&groups)).await;
        let may = |rights: AccessMask| explained.granted.contains(rights);
        let stranger = (!who.is_known).then(|| {
            let uid = who.uid;
            format!("the server knows no user {uid}: only group {uid} is taken, as for files of such a user")
        });
        let user = own.first().map(|sid| names.principal(sid));
        Ok(EffectiveAccess {
            path: below.to_owned(),
            user: user.unwrap_or_else(|| Principal { sid: String::new(), name: Some(user_words(who.uid)) }),
            groups: groups.iter().map(|sid| names.principal(sid)).collect(),
            reads: may(AccessMask::READ_DATA),
            writes: may(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA),
            executes: may(AccessMask::EXECUTE),
            deletes: may(AccessMask::DELETE),
            changes_permissions: may(AccessMask::WRITE_DAC),
            reasons: explained.reasons.iter().map(ToString::to_string).chain(stranger).collect(),
        })
    }
}

fn user_words(uid: u32) -> String {
    format!("user {uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_that_a_text_has_are_set() {
        let parts = |text: &str| parts_of(&sddl::parse(text, None).expect("it can be read"));
        assert_eq!(parts("O:BA"), SecurityParts::OWNER);
        assert_eq!(parts("D:(A;;FA;;;WD)"), SecurityParts::DACL);
        assert_eq!(parts("O:BAG:BUD:"), SecurityParts::OWNER | SecurityParts::GROUP | SecurityParts::DACL);
    }

    #[tokio::test]
    async fn users_and_groups_of_the_server_have_their_names() {
        let sid = |text: &str| text.parse::<Sid>().expect("an identifier");
        let all = [sid("S-1-22-1-0"), sid("S-1-22-2-0"), sid("S-1-1-0"), sid("S-1-22-1-4000000001")];
        let names = Names::of(all.iter()).await;
        let shown: Vec<_> = all.iter().map(|one| names.name(one)).collect();
        assert_eq!(shown[..2], [Some("user root".into()), Some("group root".into())]);
        assert!(shown[2].is_some() && shown[3].is_none(), "{shown:?}");
    }
}
