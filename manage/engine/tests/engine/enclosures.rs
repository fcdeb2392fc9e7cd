//! Spaces that survive the loss of an enclosure: asked for, planned, shown, and refused where the pool cannot bear
//! them.

use holdfast_api::{Code, CreateSpace, SetDisk};

use crate::support::{MIB, Rig, mirror, parity, pool};

fn aware(request: CreateSpace) -> CreateSpace {
    CreateSpace { enclosure_aware: true, ..request }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_is_spread_over_enclosures_once_disks_have_a_place() {
    let rig = Rig::new();
    let (engine, disks) = rig.with_disks(6).await;
    engine.create_pool(pool("tank", &disks)).await.unwrap();
    let refused = engine.create_space(aware(mirror("tank/vm", 16 * MIB))).await.unwrap_err();
    assert!(refused.code == Code::Invalid && refused.message.contains("6 in no known enclosure"), "{refused}");
    for (index, disk) in disks.iter().enumerate() {
        let (enclosure, slot) = (Some(format!("shelf{}", index / 2)), Some(index as u32 % 2));
        engine.set_disk(disk.clone(), SetDisk { enclosure, slot, ..SetDisk::default() }).await.unwrap();
    }
    for request in [
        CreateSpace { copies: Some(3), ..mirror("tank/vm", 16 * MIB) },
        CreateSpace { columns: Some(6), ..parity("tank/dual", 2, 16 * MIB) },
    ] {
        let plan = engine.plan_space(&aware(request.clone())).unwrap();
        assert!(plan.enclosure_aware && plan.fits && plan.options[0].chosen, "{plan:?}");
        let made = engine.create_space(aware(request.clone())).await.unwrap();
        assert!(made.changed && made.space.enclosure_aware);
        assert!(!engine.create_space(aware(request.clone())).await.unwrap().changed);
        let other = engine.create_space(request).await.unwrap_err();
        assert!(other.code == Code::Exists && other.message.contains("spread over"), "{other}");
    }
    let single = CreateSpace { columns: Some(4), ..parity("tank/single", 1, 16 * MIB) };
    let refused = engine.create_space(aware(single.clone())).await.unwrap_err();
    assert!(refused.message.contains("4 disks in at least 4 enclosures"), "{refused}");
    assert!(engine.plan_space(&aware(single)).is_err());
    engine.shutdown().await;
    drop(engine);
    let engine = rig.start().await;
    assert!(engine.spaces().iter().all(|space| space.enclosure_aware), "it is remembered");
    engine.shutdown().await;
}
