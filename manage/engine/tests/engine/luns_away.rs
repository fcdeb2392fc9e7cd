//! What initiators are told of LUNs whose pools went, and of what they had written.

use crate::reservations::client::Client;
use crate::reservations::{INITIATOR, login, open_target, outcome, outcome_of, reopen_pool};
use crate::support::{MIB, Rig, eventually, mirror};
use crate::targets::{import, lun, start};

const READY: [u8; 6] = [0; 6];
const FLUSH: [u8; 10] = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const POWER_ON: (u8, [u8; 3]) = (2, [6, 0x29, 0]);
const GOOD: (u8, [u8; 3]) = (0, [0; 3]);

/// SYNCHRONIZE CACHE of a LUN.
fn flush(client: &mut Client, lun: u64) -> (u8, [u8; 3]) {
    outcome_of(client, lun, &FLUSH)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn what_was_written_last_to_a_pool_that_went_is_told_to_be_lost() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let (address, iqn) = open_target(&engine, &rig).await;
    engine.create_space(mirror("tank/idle", 16 * MIB)).await.unwrap();
    engine.add_lun("vm".into(), lun("tank/idle")).await.unwrap();
    let mut client = tokio::task::spawn_blocking({
        let (address, iqn) = (address.clone(), iqn.clone());
        move || {
            let mut client = login(&address, &iqn, INITIATOR);
            client.settle();
            assert_eq!(client.write(0, 4096, &[1; 4096]), 0);
            assert_eq!(flush(&mut client, 0), GOOD);
            assert_eq!(client.write(8, 4096, &[2; 4096]), 0);
            client
        }
    })
    .await
    .unwrap();
    reopen_pool(&engine, &rig).await;
    let events = engine.events().list(0, 100);
    let told: Vec<_> = events.iter().filter(|event| event.cause.contains("wrote to it last may be lost")).collect();
    assert_eq!(told.len(), 1, "{events:#?}");
    tokio::task::spawn_blocking(move || {
        assert_eq!(outcome(&mut client, &READY), POWER_ON);
        assert_eq!(flush(&mut client, 0), (2, [4, 0x0c, 0]), "nobody knows whether it is there");
        assert_eq!(flush(&mut client, 0), GOOD);
        assert_eq!(flush(&mut client, 1), POWER_ON);
        assert_eq!(flush(&mut client, 1), GOOD, "nothing was written to it");
        drop(client);
        let mut again = login(&address, &iqn, INITIATOR);
        again.settle();
        assert_eq!(flush(&mut again, 0), GOOD, "it has heard");
    })
    .await
    .unwrap();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_lun_of_an_exported_pool_waits_for_somebody_who_imports_it() {
    let rig = Rig::new();
    let engine = start(&rig, "state").await;
    let (_, iqn) = open_target(&engine, &rig).await;
    engine.export_pool("tank".into()).await.unwrap();
    for _ in 0..2 {
        let target = engine.target("vm").unwrap();
        let told = &target.luns[0].conditions[0].cause;
        assert!(told.contains("not ready until somebody imports it"), "{told}");
        let (address, iqn) = (target.portals[0].address.clone(), iqn.clone());
        let client = tokio::task::spawn_blocking(move || {
            let mut client = login(&address, &iqn, INITIATOR);
            assert_eq!(outcome(&mut client, &READY), (2, [2, 4, 3]), "to ask again is of no use");
            client
        });
        let mut client = client.await.unwrap();
        import(&engine, &rig, "tank").await;
        tokio::task::spawn_blocking(move || {
            assert_eq!(outcome(&mut client, &READY), POWER_ON);
            assert_eq!(outcome(&mut client, &READY), GOOD);
        })
        .await
        .unwrap();
        eventually(&engine, "the initiator leaves", || engine.iscsi_sessions().is_empty()).await;
        engine.export_pool("tank".into()).await.unwrap();
    }
    engine.shutdown().await;
    drop(engine);
    let engine = start(&rig, "state").await;
    let address = engine.target("vm").unwrap().portals[0].address.clone();
    let told = tokio::task::spawn_blocking(move || outcome(&mut login(&address, &iqn, INITIATOR), &READY));
    assert_eq!(told.await.unwrap(), (2, [2, 4, 3]), "also after a restart");
    engine.shutdown().await;
}
