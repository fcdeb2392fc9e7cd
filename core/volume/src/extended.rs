//! Extended attributes: names with values of up to 64 KiB, in parts that fit into the trees.
//!
//! Invariant: all parts of a value are changed together.

use holdfast_identity::AccessMask;

use crate::access;
use crate::change::{Need, Pair, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::service::{Caller, FileId, SetMode};
use crate::volume::{Volume, put_record, record_of};

/// Bytes of a value (`XATTR_SIZE_MAX` of Linux).
const MAX_VALUE: usize = 64 << 10;
/// Bytes of a name (`XATTR_NAME_MAX` of Linux).
const MAX_NAME: usize = 255;
/// Bytes of all names of a file with their ends (`XATTR_LIST_MAX` of Linux).
const MAX_LIST: usize = 64 << 10;
/// Why one that is not there is not removed.
const NONE: &str = "there is no such extended attribute";
/// Bytes of a part.
pub(crate) const PART: usize = 4000;

fn check_name(name: &[u8]) -> Result<(), VolumeError> {
    if name.len() > MAX_NAME {
        return Err(VolumeError::new(
            ErrorKind::NameTooLong,
            "the name of an extended attribute has 255 bytes at most",
        ));
    }
    if name.is_empty() || name.contains(&0) {
        return Err(VolumeError::new(ErrorKind::Invalid, "the name of an extended attribute is empty or has a NUL"));
    }
    Ok(())
}

/// The parts of a value, in order.
fn parts(view: &View<'_>, file: u64, name: &[u8]) -> Result<Vec<Pair>, Stop> {
    let first = keys::extended(file, name, 0);
    view.range(keys::shard(file), &first, &first[..first.len() - 1], 256)
}

impl Volume {
    pub(crate) async fn extended_value(&self, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>, VolumeError> {
        check_name(name)?;
        let found = self.store.look([keys::shard(id.number)], |view| {
            record_of(view, id)?;
            parts(view, id.number, name)
        });
        let found = found.await?;
        Ok((!found.is_empty()).then(|| found.into_iter().flat_map(|(_, part)| part).collect()))
    }

    pub(crate) async fn set_extended_value(
        &self,
        caller: &Caller,
        id: FileId,
        name: &[u8],
        value: Option<&[u8]>,
        mode: SetMode,
    ) -> Result<(), VolumeError> {
        check_name(name)?;
        if value.is_some_and(|value| value.len() > MAX_VALUE) {
            return Err(VolumeError::new(ErrorKind::TooLarge, "an extended attribute has 64 KiB at most"));
        }
        let now = self.now();
        let shard = keys::shard(id.number);
        let need = if value.is_some() { Need::More } else { Need::Less };
        let change = self.store.change([shard], need, |view| {
            let mut record = record_of(view, id)?;
            let before = parts(view, id.number, name)?;
            if value.is_none() && before.is_empty() && caller.is_checked {
                // Whoever writes to a program asks to take away what gives it privileges, mostly nothing.
                return refuse(ErrorKind::NoData, NONE);
            }
            let by_descriptor = access::allow_rights(view, caller, &record, AccessMask::WRITE_EA)?;
            if !by_descriptor && !caller.is_owner(&record) {
                access::allow(view, caller, &record, access::WRITE)?;
            }
            match (before.is_empty(), mode) {
                (true, SetMode::Replace) => return refuse(ErrorKind::NoData, NONE),
                (false, SetMode::Create) => {
                    return refuse(ErrorKind::Exists, "the extended attribute is there already");
                }
                _ => {}
            }
            if before.is_empty() && value.is_some() {
                let used: usize = self.names_in(view, id.number)?.iter().map(|name| name.len() + 1).sum();
                if used + name.len() + 1 > MAX_LIST {
                    return refuse(ErrorKind::NoSpace, "the file has as many extended attributes as can be listed");
                }
            }
            for (key, _) in before {
                view.remove(shard, key)?;
            }
            if let Some(value) = value {
                // An empty value has one empty part.
                let parts = value.chunks(PART).chain(value.is_empty().then_some(value));
                for (number, part) in parts.enumerate() {
                    view.put(shard, keys::extended(id.number, name, number as u8), part.to_vec())?;
                }
            }
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)
        });
        change.await.map(drop)
    }

    fn names_in(&self, view: &View<'_>, file: u64) -> Result<Vec<Vec<u8>>, Stop> {
        let prefix = keys::prefix(file, kind::EXTENDED);
        let all = view.range(keys::shard(file), &prefix, &prefix, usize::MAX)?;
        // Of each value the first part.
        let firsts = all.into_iter().filter(|(key, _)| key.ends_with(&[0, 0]));
        Ok(firsts.map(|(key, _)| key[9..key.len() - 2].to_vec()).collect())
    }

    pub(crate) async fn extended_names(&self, id: FileId) -> Result<Vec<Vec<u8>>, VolumeError> {
        let names = self.store.look([keys::shard(id.number)], |view| {
            record_of(view, id)?;
            self.names_in(view, id.number)
        });
        names.await
    }
}
