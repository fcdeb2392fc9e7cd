//! Flushes over a disk that tells once of what it lost.

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};

use super::*;
use crate::error::ErrorKind;

#[test]
fn no_flush_covers_what_one_before_it_told_is_lost() {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec::default());
    let ran = sim.run(async move {
        let kind = |flush: Result<(), VolumeError>| flush.map_err(|error| error.kind);
        let flush = DataFlush::new(disk.clone());
        let kept = flush.note();
        assert_eq!(kind(flush.flush(kept).await), Ok(()));
        let lost = flush.note();
        disk.fail_next_flushes(1);
        assert_eq!(kind(flush.flush_device().await), Err(ErrorKind::Io));
        assert_eq!(kind(flush.flush(lost).await), Err(ErrorKind::Io));
        assert_eq!(kind(flush.flush_device().await), Err(ErrorKind::Io));
        assert_eq!(kind(flush.flush(kept).await), Ok(()), "that was durable before");
    });
    ran.expect("powered");
}
