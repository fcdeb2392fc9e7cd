//! What a file holds, and where.
//!
//! Invariant: what cannot be read is not what it was; that alone is no error here.

use holdfast_volume::service::{FileService, Seek};
use holdfast_volume::{ErrorKind, Handle, Volume};

use super::Step;

/// What a file holds of a range; nothing where blocks of it cannot be read.
pub(super) async fn found(volume: &Volume, handle: &Handle, at: u64, len: usize) -> Step<Option<Vec<u8>>> {
    match volume.read(handle, at, len).await {
        Ok(found) => Ok(Some(found.to_vec())),
        Err(error) if error.kind == ErrorKind::Corrupt => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The next data or hole, if there is any.
pub(super) async fn next(volume: &Volume, handle: &Handle, at: u64, what: Seek) -> Step<Option<u64>> {
    match volume.seek(handle, at, what).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind == ErrorKind::NoData => Ok(None),
        Err(error) => Err(error.into()),
    }
}
