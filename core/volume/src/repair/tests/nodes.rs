//! Verbs of nodes: what stands in one that is lost fails, all else is served.

use super::*;
use crate::ErrorKind;
use crate::store::held;

#[test]
fn only_what_stands_in_a_lost_node_fails() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let place = world.volume.store.place_of(shard, &keys::record(world.deep.number)).await;
        let address = place.expect("read").expect("it is there");
        world.disk.poke(address + 9000, &[0x55; 64]);
        let again = World {
            volume: open(&world.disk).await,
            disk: world.disk.clone(),
            dir: world.dir,
            below: world.below,
            data: world.data,
            other: world.other,
            deep: world.deep,
        };
        let verb = Verb::NodeLost { tree: shard, address, low: Vec::new(), high: None };
        again.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(again.volume.repair(&verb).await, Ok(Repaired::NeedsOffline));
        assert_eq!(again.read(again.deep).await.expect_err("lost").kind, ErrorKind::Corrupt);
        for (file, seed) in
            [(again.data, 1), (again.other, 2)].into_iter().filter(|(f, _)| keys::shard(f.number) != shard)
        {
            assert!(again.read(file).await.expect("read") == pattern(seed));
        }
        assert_eq!(again.lookup(again.volume.root(), "dir").await, Some(again.dir.number));
        // What goes on beside it lasts.
        again.volume.create(&Caller::default(), again.volume.root(), b"new", &FILE).await.expect("made");
        again.finds(&[verb]).await;
    });
}

#[test]
fn room_of_nodes_is_made_right_by_what_trees_refer_to() {
    with(async |world| {
        let shard = keys::shard(world.deep.number);
        let place = world.volume.store.place_of(shard, &keys::record(world.deep.number)).await;
        let address = place.expect("read").expect("it is there");
        held(&world.volume.store.zones).correct(address, 4, false);
        world.repaired(Verb::NodeFree { address, blocks: 4 }).await;
        let address = held(&world.volume.store.zones).take().expect("room");
        world.repaired(Verb::NodeLeak { address, blocks: 4 }).await;
    });
}
