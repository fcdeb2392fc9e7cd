//! Whether the last owner of a pool that is found is still there.

use std::time::Duration;

use crate::common::*;
use holdfast_pool::Pool;

const WATCHED: Duration = Duration::from_secs(6);

fn is_in_use(lab: &Lab, disks: &[usize]) -> bool {
    let (found, clock): (_, std::sync::Arc<dyn holdfast_device::Clock>) = (lab.found(disks), lab.sim.clock());
    lab.run(async move { found.is_in_use(&clock, WATCHED).await })
}

fn shows_life(lab: &Lab, pool: &std::sync::Arc<Pool>) {
    let (pool, clock) = (pool.clone(), lab.sim.clock());
    lab.sim.spawn(async move {
        loop {
            pool.show_life("attic", 1_800_000_000).await;
            clock.sleep(WATCHED / 3).await;
        }
    });
}

#[test]
fn an_idle_owner_is_seen_on_any_of_its_disks() {
    let lab = Lab::small(1, 3);
    let pool = lab.created(&lab.all());
    assert!(!is_in_use(&lab, &lab.all()), "it showed nothing yet");
    shows_life(&lab, &pool);
    for disk in 0..3 {
        assert!(is_in_use(&lab, &[disk]), "disk {disk}");
    }
    let found = lab.found(&lab.all());
    let owner = found.last_owner().expect("it left its name");
    assert_eq!((owner.host.as_str(), owner.at_seconds), ("attic", 1_800_000_000));
    assert!(!found.is_free_for(None), "it was not closed");
    assert!(found.is_free_for(lab.witness.record(pool.id())), "whoever has its witness had it last");
    // Its disks are all the same to those who look for a quorum, and whole.
    assert!(found.stale().is_empty() && found.members.iter().all(|member| member.log_whole));
    lab.kill(pool);
    assert!(!is_in_use(&lab, &lab.all()), "it is dead");
    let later = lab.imported(&lab.all());
    assert_eq!(lab.found(&lab.all()).last_owner(), None, "what an earlier owner left says nothing of this one");
    let closing = later.clone();
    lab.run(async move { closing.export().await }).expect("a quorum");
    assert!(lab.found(&lab.all()).is_free_for(None), "it was closed in good order");
}

#[test]
fn an_owner_that_writes_is_seen_without_signs() {
    let lab = Lab::small(2, 2);
    let pool = lab.created(&lab.all());
    let (busy, clock) = (pool.clone(), lab.sim.clock());
    lab.sim.spawn(async move {
        for number in 0.. {
            clock.sleep(Duration::from_secs(1)).await;
            busy.set_document("note", Some(vec![number as u8])).await.expect("room");
        }
    });
    assert!(is_in_use(&lab, &lab.all()));
}

#[test]
fn a_disk_that_leaves_shows_no_sign() {
    let lab = Lab::small(3, 1);
    let pool = lab.created(&[0]);
    let shown = pool.clone();
    lab.run(async move { shown.show_life("attic", 1).await });
    assert_eq!(lab.disks[0].peek(4096, 8), b"HOLDFAST");
    let destroyed = pool.clone();
    lab.run(async move {
        destroyed.destroy().await.expect("wiped");
        destroyed.show_life("attic", 2).await;
    });
    assert!(lab.disks[0].peek(0, 8192).iter().all(|byte| *byte == 0));
    assert_eq!(lab.scan(&[0]).blank.len(), 1);
}
