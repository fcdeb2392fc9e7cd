//! Reservations of LUNs, as pools keep them.

use std::time::Duration;

use crate::support::{Rig, eventually};
use crate::targets::{import, lun, made, start, with_pool};
use client::Client;
use holdfast_api::{AddLun, Code, ImportPools, SetTarget};
use holdfast_iscsi::protocol::constants::{COMMAND_WRITE, FLAG_FINAL};

/// Whom the initiator of tests takes itself for.
const INITIATOR: &str = "iqn.2000-01.org.example:host";
/// It is told its target at login.
const TARGET: &str = "";

#[path = "../../../../serve/iscsi/tests/iscsi/support/client.rs"]
#[allow(dead_code)]
mod client;

const KEY: u64 = 0xabc;
/// What no document but the one that is looked for has.
const READ_ONLY: &[u8] = br#""read_only":true"#;

/// Registers and reserves LUN 0, to outlive a loss of power.
fn reserve(address: &str, iqn: &str) {
    let mut client = Client::connect(address.parse().expect("an address"));
    assert_eq!(client.login_as(&[("InitiatorName", INITIATOR), ("TargetName", iqn)], &[]), 0);
    client.settle();
    let mut register = [0_u64.to_be_bytes(), KEY.to_be_bytes()].concat();
    register.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let mut reserve = [KEY.to_be_bytes(), [0; 8]].concat();
    reserve.extend([0; 8]);
    for (cdb, list) in [([0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], register), ([0x5f, 1, 1, 0, 0, 0, 0, 0, 24, 0], reserve)] {
        let header = client.command_header(&cdb, FLAG_FINAL | COMMAND_WRITE, list.len());
        client.send(header, &list);
        assert_eq!(client.finish(&list).0, 0, "{cdb:02x?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_crash_while_a_lun_is_added_brings_no_reservations_of_an_earlier_one_back() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    let target = made(&engine, "vm", &["tank/vm"]).await;
    engine.set_target("vm".into(), SetTarget { open: Some(true), ..SetTarget::default() }).await.unwrap();
    let (address, iqn) = (target.portals[0].address.clone(), target.iqn.clone());
    tokio::task::spawn_blocking(move || reserve(&address, &iqn)).await.unwrap();
    assert_eq!(engine.reservation("vm", 0).unwrap().registrants.len(), 1);
    // The connection that went is noticed in its own time; a pool with initiators on it stays.
    eventually(&engine, "the initiator leaves", || engine.iscsi_sessions().is_empty()).await;
    // It is removed while its pool is away, which so does not hear of it.
    engine.export_pool("tank".into()).await.unwrap();
    engine.remove_lun("vm".into(), 0, false).await.unwrap();
    import(&engine, &rig, "tank").await;
    assert!(engine.target("vm").unwrap().luns.is_empty());

    // The state folder cannot be written for a while: the pool has the LUN by then. What its disks hold is what a crash
    // leaves.
    let store = rusqlite::Connection::open(rig.path("state/config.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let adding = tokio::spawn({
        let engine = engine.clone();
        async move { engine.add_lun("vm".into(), AddLun { read_only: true, ..lun("tank/vm") }).await }
    });
    std::fs::create_dir(rig.path("image")).unwrap();
    let is_kept = || {
        let mut disks = ["tank1", "tank2"].into_iter().map(|disk| {
            let image = rig.path("image").join(disk);
            std::fs::copy(rig.path(disk), &image).unwrap();
            let bytes = std::fs::read(image).unwrap();
            bytes.windows(READ_ONLY.len()).any(|found| found == READ_ONLY)
        });
        disks.next() == Some(true) && disks.next() == Some(true)
    };
    while !is_kept() {
        assert!(!adding.is_finished(), "it waits for the state folder");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!adding.is_finished());
    store.execute_batch("ROLLBACK").unwrap();
    drop(store);
    let _ = adding.await.unwrap();
    engine.shutdown().await;

    let after = start(&rig, "state2").await;
    let request = ImportPools { pool: Some("tank".into()), disk_dirs: vec![rig.disk("image")], force: true };
    assert!(after.import_pools(request).await.unwrap().changed);
    let found = after.target("vm").unwrap();
    assert!(found.luns.len() == 1 && found.luns[0].served, "the LUN was kept: {found:?}");
    let reservation = after.reservation("vm", 0).unwrap();
    assert!(reservation.registrants.is_empty() && reservation.kind.is_none(), "{reservation:?}");
    after.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn initiators_are_cut_off_only_by_who_means_it() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    with_pool(&engine, &rig, "tank").await;
    let target = made(&engine, "vm", &["tank/vm"]).await;
    engine.set_target("vm".into(), SetTarget { open: Some(true), ..SetTarget::default() }).await.unwrap();
    let (address, iqn) = (target.portals[0].address.clone(), target.iqn.clone());
    let login = {
        let (address, iqn) = (address.clone(), iqn.clone());
        move || {
            let mut client = Client::connect(address.parse().expect("an address"));
            assert_eq!(client.login_as(&[("InitiatorName", INITIATOR), ("TargetName", &iqn)], &[]), 0);
            client.settle();
            client
        }
    };
    let client = tokio::task::spawn_blocking(login).await.unwrap();
    let refused = [
        engine.remove_lun("vm".into(), 0, false).await.unwrap_err(),
        engine.destroy_target("vm".into(), false).await.unwrap_err(),
    ];
    for (refused, object) in refused.iter().zip(["lun vm/0", "target vm"]) {
        assert!(refused.code == Code::NotConfirmed && refused.object.contains(object), "{refused}");
        assert!(refused.message.contains(INITIATOR) && !refused.message.contains("reservations"), "{refused}");
    }
    assert_eq!(engine.iscsi_sessions().len(), 1, "nothing is changed");
    tokio::task::spawn_blocking(move || drop(client)).await.unwrap();
    eventually(&engine, "the initiator leaves", || engine.iscsi_sessions().is_empty()).await;

    tokio::task::spawn_blocking(move || reserve(&address, &iqn)).await.unwrap();
    eventually(&engine, "it leaves again", || engine.iscsi_sessions().is_empty()).await;
    for refused in [
        engine.remove_lun("vm".into(), 0, false).await.unwrap_err(),
        engine.destroy_target("vm".into(), false).await.unwrap_err(),
    ] {
        let told = format!("the reservations of LUN vm/0 would be lost, which are of {INITIATOR}");
        assert!(refused.code == Code::NotConfirmed && refused.message.starts_with(&told), "{refused}");
    }
    assert_eq!(engine.reservation("vm", 0).unwrap().registrants.len(), 1, "nothing is changed");
    assert!(engine.remove_lun("vm".into(), 0, true).await.unwrap().changed);
    // Nobody is logged in or registered: the plain form will do.
    engine.add_lun("vm".into(), lun("tank/vm")).await.unwrap();
    assert!(engine.remove_lun("vm".into(), 0, false).await.unwrap().changed);
    assert!(engine.destroy_target("vm".into(), false).await.unwrap().changed);
    engine.shutdown().await;
}
