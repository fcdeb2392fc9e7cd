//! A pool that was salvaged is known to the daemon.

use std::os::unix::fs::FileExt;

use holdfast_api::{ImportPools, SalvagePool};

use super::{MIB, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_salvaged_pool_is_found_by_the_import_that_follows() {
    let rig = Rig::new();
    let engine = rig.with_spaces(&["tank/a"]).await;
    let disks: Vec<String> = (1..=3).map(|number| rig.path(&format!("d{number}")).display().to_string()).collect();
    engine.shutdown().await;
    drop(engine);
    for disk in &disks {
        let file = std::fs::File::options().write(true).open(disk).unwrap();
        file.write_all_at(&vec![0; 4 * MIB as usize], 0).unwrap();
        file.write_all_at(&[0; 4096], 128 * MIB - 4096).unwrap();
    }
    // A daemon that has never heard of these files.
    std::fs::remove_dir_all(rig.path("state")).unwrap();
    let engine = rig.start().await;
    let request = SalvagePool { disks, pool: None, write: true, name: Some("saved".into()) };
    assert!(engine.salvage_pool(request).await.unwrap().changed);
    let import = ImportPools { pool: Some("saved".into()), ..ImportPools::default() };
    assert_eq!(engine.import_pools(import).await.unwrap().pools.len(), 1);
    engine.shutdown().await;
}
