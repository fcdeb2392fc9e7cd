//! Reservations of LUNs, as pools keep them.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Rig, eventually};
use crate::targets::{import, lun, made, start, with_pool};
use client::Client;
use holdfast_api::{AddLun, ApiError, Code, ImportPools, LunChanged, SetTarget};
use holdfast_engine::Engine;
use holdfast_harness::Wait;
use holdfast_iscsi::protocol::constants::{COMMAND_WRITE, FLAG_FINAL};
use holdfast_model::DiskState;
use tokio::task::JoinHandle;

/// Whom the initiator of tests takes itself for.
pub const INITIATOR: &str = "iqn.2000-01.org.example:host";
/// It is told its target at login.
const TARGET: &str = "";

#[path = "../../../../serve/iscsi/tests/iscsi/support/client.rs"]
#[allow(dead_code)]
pub mod client;

const KEY: u64 = 0xabc;
/// What no document but the one that is looked for has.
const READ_ONLY: &[u8] = br#""read_only":true"#;
/// The disks of the pool.
const DISKS: [&str; 2] = ["tank1", "tank2"];
/// How long a change waits for a state folder that cannot be written.
const GIVES_UP: Duration = Duration::from_secs(5);

/// A pool `tank`, and the target `vm` whose LUN 0 is a space of it, for anybody: an address of it, and its name.
pub async fn open_target(engine: &Arc<Engine>, rig: &Rig) -> (String, String) {
    with_pool(engine, rig, "tank").await;
    let target = made(engine, "vm", &["tank/vm"]).await;
    engine.set_target("vm".into(), SetTarget { open: Some(true), ..SetTarget::default() }).await.unwrap();
    (target.portals[0].address.clone(), target.iqn.clone())
}

/// Takes the disks of that pool away, or brings them back.
fn move_disks(rig: &Rig, is_away: bool) {
    for disk in DISKS {
        let (here, away) = (rig.path(disk), rig.path(&format!("{disk}.away")));
        let (from, to) = if is_away { (here, away) } else { (away, here) };
        std::fs::rename(from, to).unwrap();
    }
}

/// Takes the disks of that pool away until that is noticed, and brings them back until its LUNs are served again.
pub async fn reopen_pool(engine: &Arc<Engine>, rig: &Rig) {
    move_disks(rig, true);
    eventually(engine, "noticing", || {
        engine.pool("tank").unwrap().disks.iter().all(|disk| disk.state == DiskState::Missing)
    })
    .await;
    move_disks(rig, false);
    let is_reopened = || engine.events().list(0, 100).iter().any(|event| event.cause.contains("it is imported again"));
    let are_served = || {
        let luns = engine.target("vm").unwrap().luns;
        !luns.is_empty() && luns.iter().all(|lun| lun.served)
    };
    eventually(engine, "reopening", || is_reopened() && are_served()).await;
}

pub fn login(address: &str, iqn: &str, initiator: &str) -> Client {
    let mut client = Client::connect(address.parse().expect("an address"));
    assert_eq!(client.login_as(&[("InitiatorName", initiator), ("TargetName", iqn)], &[]), 0);
    client
}

/// Registers, and reserves LUN 0 by this type.
fn reserve_as(client: &mut Client, kind: u8, aptpl: u8) {
    let mut register = [0_u64.to_be_bytes(), KEY.to_be_bytes()].concat();
    register.extend([0, 0, 0, 0, aptpl, 0, 0, 0]);
    let mut reserve = [KEY.to_be_bytes(), [0; 8]].concat();
    reserve.extend([0; 8]);
    for (cdb, list) in
        [([0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], register), ([0x5f, 1, kind, 0, 0, 0, 0, 0, 24, 0], reserve)]
    {
        let header = client.command_header(&cdb, FLAG_FINAL | COMMAND_WRITE, list.len());
        client.send(header, &list);
        assert_eq!(client.finish(&list).0, 0, "{cdb:02x?}");
    }
}

/// Registers and reserves LUN 0, to outlive a loss of power.
fn reserve(address: &str, iqn: &str) {
    let mut client = login(address, iqn, INITIATOR);
    client.settle();
    reserve_as(&mut client, 1, 1);
}

/// Status, sense key and codes of a command without data to LUN 0.
pub fn outcome(client: &mut Client, cdb: &[u8]) -> (u8, [u8; 3]) {
    outcome_of(client, 0, cdb)
}

/// The same of any LUN.
pub fn outcome_of(client: &mut Client, lun: u64, cdb: &[u8]) -> (u8, [u8; 3]) {
    let header = client.command_header(cdb, FLAG_FINAL, 0).with_lun(lun << 48);
    client.send(header, &[]);
    let (status, _, pdu) = client.finish(&[]);
    let byte = |at: usize| pdu.data.get(2 + at).copied().unwrap_or(0);
    (status, [byte(2) & 0xf, byte(12), byte(13)])
}

/// Begins to add a space as a LUN that is read-only.
fn add_read_only(engine: &Arc<Engine>) -> JoinHandle<Result<LunChanged, ApiError>> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.add_lun("vm".into(), AddLun { read_only: true, ..lun("tank/vm") }).await })
}

/// How often a file holds these bytes; its holes are not read.
fn occurrences(path: &Path, wanted: &[u8]) -> usize {
    let mut file = std::fs::File::open(path).unwrap();
    let (mut at, mut found) = (0, 0);
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(data)).unwrap();
        (&file).take(at - data).read_to_end(&mut bytes).unwrap();
        found += bytes.windows(wanted.len()).filter(|part| *part == wanted).count();
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_crash_while_a_lun_is_added_brings_no_reservations_of_an_earlier_one_back() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let (address, iqn) = open_target(&engine, &rig).await;
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
    std::fs::create_dir(rig.path("image")).unwrap();
    let mut wait = Wait::new();
    let told = || DISKS.map(|disk| occurrences(&rig.path(disk), READ_ONLY));
    let adding = loop {
        let (before, adding, begun) = (told(), add_read_only(&engine), Instant::now());
        while !adding.is_finished() && told().iter().zip(before).any(|(now, before)| *now <= before) {
            tokio::time::sleep(wait.pause(|| "the pool has the LUN")).await;
        }
        for disk in DISKS {
            std::fs::copy(rig.path(disk), rig.path("image").join(disk)).unwrap();
        }
        // Later it is taken back: then this was no crash while it was added, and it is added again.
        if begun.elapsed() < GIVES_UP / 2 {
            break adding;
        }
        assert!(adding.await.unwrap().is_err(), "the state folder cannot be written");
        tokio::time::sleep(wait.pause(|| "an image of the disks is made in time")).await;
    };
    assert!(!adding.is_finished(), "it waits for the state folder");
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
    let (address, iqn) = open_target(&engine, &rig).await;
    let (at, name) = (address.clone(), iqn.clone());
    let entering = move || {
        let mut client = login(&at, &name, INITIATOR);
        client.settle();
        client
    };
    let client = tokio::task::spawn_blocking(entering).await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_pool_that_is_opened_again_lets_nobody_in_who_was_kept_out() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let (address, iqn) = open_target(&engine, &rig).await;
    let (holder, mut fenced) = tokio::task::spawn_blocking(move || {
        let mut holder = login(&address, &iqn, INITIATOR);
        holder.settle();
        // Write exclusive for registrants, of which nothing is kept.
        reserve_as(&mut holder, 5, 0);
        let mut fenced = login(&address, &iqn, "iqn.2000-01.org.example:fenced");
        fenced.settle();
        assert_eq!(fenced.write(0, 4096, &[1; 4096]), 0x18);
        (holder, fenced)
    })
    .await
    .unwrap();
    reopen_pool(&engine, &rig).await;
    let view = engine.reservation("vm", 0).unwrap();
    assert_eq!((view.registrants.len(), view.persists), (1, false), "{view:?}");
    tokio::task::spawn_blocking(move || {
        let told = outcome(&mut fenced, &[0; 6]);
        assert_eq!(told, (2, [6, 0x29, 0]), "it is told that the unit was away");
        assert_eq!(fenced.write(0, 4096, &[1; 4096]), 0x18, "it is kept out as before");
        drop(holder);
    })
    .await
    .unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_lun_whose_pool_is_looked_for_is_not_ready_until_it_is_there() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let (address, iqn) = open_target(&engine, &rig).await;
    tokio::task::spawn_blocking(move || reserve(&address, &iqn)).await.unwrap();
    engine.shutdown().await;
    drop(engine);
    move_disks(&rig, true);

    let engine = start(&rig, "state").await;
    let target = engine.target("vm").unwrap();
    assert!(!target.luns[0].served, "{target:?}");
    let (address, iqn) = (target.portals[0].address.clone(), target.iqn.clone());
    let mut client = tokio::task::spawn_blocking(move || {
        let mut client = login(&address, &iqn, "iqn.2000-01.org.example:other");
        let (status, list, _) = client.command(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], 16, 0, &[]);
        assert_eq!((status, list[..4].to_vec()), (0, vec![0, 0, 0, 8]));
        let (status, inquiry, _) = client.command(&[0x12, 0, 0, 0, 36, 0], 36, 0, &[]);
        assert_eq!((status, inquiry[0]), (0, 0));
        assert_eq!(outcome(&mut client, &[0; 6]), (2, [2, 4, 1]));
        client
    })
    .await
    .unwrap();
    move_disks(&rig, false);
    eventually(&engine, "importing", || engine.target("vm").unwrap().luns[0].served).await;
    let client = tokio::task::spawn_blocking(move || {
        client.settle();
        assert_eq!(client.write(0, 4096, &[1; 4096]), 0x18, "what was kept holds");
        client
    })
    .await
    .unwrap();
    engine.remove_lun("vm".into(), 0, true).await.unwrap();
    let mut client = client;
    let gone = tokio::task::spawn_blocking(move || outcome(&mut client, &[0; 6])).await.unwrap();
    assert_eq!(gone, (2, [5, 0x25, 0]));
    engine.shutdown().await;
}
