//! Flushes over a device that tells once of what it lost.

use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use holdfast_device::{Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};

use super::*;
use crate::error::ErrorKind;

/// Fails the next flush when it is told to.
#[derive(Default)]
struct Forgetful(AtomicBool);

impl Device for Forgetful {
    fn geometry(&self) -> Geometry {
        unreachable!("nobody asks")
    }

    fn read(&self, _: u64, _: IoBuf) -> Io<IoBuf> {
        unreachable!("nobody reads")
    }

    fn write(&self, _: u64, _: IoSlice, _: Durability) -> Io<()> {
        unreachable!("nobody writes")
    }

    fn flush(&self) -> Io<()> {
        match self.0.swap(false, Ordering::SeqCst) {
            true => Io::ready(Err(IoError::new(IoErrorKind::Media, "writes are lost"))),
            false => Io::ready(Ok(())),
        }
    }

    fn discard(&self, _: u64, _: u64) -> Io<()> {
        unreachable!("nobody discards")
    }
}

#[test]
fn no_flush_covers_what_one_before_it_told_is_lost() {
    let now = |flush: Result<(), VolumeError>| flush.map_err(|error| error.kind);
    let device = Arc::new(Forgetful::default());
    let flush = DataFlush::new(device.clone());
    let kept = flush.note();
    assert_eq!(flush.flush(kept).now_or_never().map(now), Some(Ok(())));
    let lost = flush.note();
    device.0.store(true, Ordering::SeqCst);
    assert_eq!(flush.flush_device().now_or_never().map(now), Some(Err(ErrorKind::Io)));
    assert_eq!(flush.flush(lost).now_or_never().map(now), Some(Err(ErrorKind::Io)));
    assert_eq!(flush.flush_device().now_or_never().map(now), Some(Err(ErrorKind::Io)));
    assert_eq!(flush.flush(kept).now_or_never().map(now), Some(Ok(())), "that was durable before");
}
