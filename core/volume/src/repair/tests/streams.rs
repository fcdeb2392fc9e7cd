//! Verbs of streams and reparse points.

use super::*;
use crate::ErrorKind;
use crate::service::{DosAttributes, MOUNT_POINT_TAG, ReparsePoint};

const NAME: &[u8] = b"stream";

/// A stream of `data` of four parts, and where it stands.
async fn prepare(world: &World) -> u64 {
    let caller = Caller::default();
    world.volume.create_stream(&caller, world.data, NAME, SetMode::Any).await.expect("made");
    world.volume.write_stream(&caller, world.data, NAME, 0, &[7; 9000]).await.expect("written");
    world.volume.create_stream(&caller, world.data, b"beside", SetMode::Any).await.expect("made");
    world.finds(&[]).await;
    world.volume.names.bucket(NAME).start
}

async fn lens(world: &World) -> Vec<u64> {
    let all = world.volume.streams(&Caller::default(), world.data).await.expect("listed");
    all.into_iter().map(|stream| stream.size_bytes).collect()
}

/// A change of the parts of a stream of a file in a tree, and how many parts there are more then.
type Damage = (fn(&mut View<'_>, u64, u8, u64) -> Result<(), Stop>, i64);

/// One part less, at each place; one more; and one that is shorter.
const DAMAGES: [Damage; 5] = [
    (|view, file, shard, slot| view.remove(shard, keys::stream(file, slot, 2)), -1),
    (|view, file, shard, slot| view.remove(shard, keys::stream(file, slot, 3)), -1),
    (|view, file, shard, slot| view.remove(shard, keys::stream(file, slot, 0)), -1),
    (|view, file, shard, slot| view.put(shard, keys::stream(file, slot, 4), vec![1]), 1),
    (|view, file, shard, slot| view.put(shard, keys::stream(file, slot, 1), vec![1]), 0),
];

#[test]
fn a_stream_that_lacks_a_part_is_told_and_taken_out() {
    for (damage, by) in DAMAGES {
        with(async move |world| {
            let slot = prepare(world).await;
            let (file, shard) = (world.data.number, keys::shard(world.data.number));
            world
                .damage(|view| {
                    damage(view, file, shard, slot)?;
                    edit(view, world.data, |record| record.blocks = record.blocks.saturating_add_signed(by))
                })
                .await;
            world.repaired(Verb::Stream { file, slot }).await;
            assert_eq!(lens(world).await, [0], "the other one is as it was");
            assert_eq!(kind_of_read(world).await, Some(ErrorKind::NotFound));
            assert!(world.read(world.data).await.expect("read") == pattern(1));
        });
    }
}

async fn kind_of_read(world: &World) -> Option<ErrorKind> {
    let read = world.volume.read_stream(&Caller::default(), world.data, NAME, 0, 9).await;
    read.err().map(|error| error.kind)
}

#[test]
fn a_stream_that_lacks_bytes_is_an_error_to_read() {
    with(async |world| {
        let slot = prepare(world).await;
        let file = world.data.number;
        world.damage(|view| view.remove(keys::shard(file), keys::stream(file, slot, 1))).await;
        assert_eq!(kind_of_read(world).await, Some(ErrorKind::Corrupt));
    });
}

#[test]
fn what_a_record_counts_of_streams_is_counted_anew() {
    with(async |world| {
        prepare(world).await;
        world.volume.create_stream(&Caller::default(), world.below, NAME, SetMode::Any).await.expect("made");
        for id in [world.data, world.below] {
            world.damage(|view| edit(view, id, |record| record.blocks += 3)).await;
            world.repaired(Verb::Count { file: id.number }).await;
        }
        let facts = world.volume.stat(world.below).await.expect("it is there");
        assert_eq!((facts.kind, facts.allocated_bytes), (FileKind::Directory, 4096));
    });
}

#[test]
fn a_reparse_point_and_its_file_agree_again() {
    with(async |world| {
        let caller = Caller::default();
        let point = ReparsePoint { tag: MOUNT_POINT_TAG, guid: None, data: vec![7; 9000] };
        let (file, shard) = (world.other.number, keys::shard(world.other.number));
        let verb = Verb::Reparse { file };
        world.volume.set_reparse(&caller, world.other, &point).await.expect("set");
        world.finds(&[]).await;
        let bit = DosAttributes::REPARSE_POINT.bits();
        // The file does not know of it.
        world.damage(|view| edit(view, world.other, |record| record.attributes &= !bit)).await;
        world.repaired(verb.clone()).await;
        assert_eq!(world.volume.reparse(&caller, world.other).await, Ok(point.clone()));
        // It is not whole.
        world.damage(|view| view.remove(shard, keys::reparse_part(file, 1))).await;
        assert_eq!(world.volume.reparse(&caller, world.other).await.expect_err("damaged").kind, ErrorKind::Corrupt);
        world.repaired(verb.clone()).await;
        assert_eq!(world.volume.reparse(&caller, world.other).await.expect_err("gone").kind, ErrorKind::NoReparse);
        // There is none.
        world.damage(|view| edit(view, world.other, |record| record.attributes |= bit)).await;
        world.repaired(verb).await;
        assert!(world.read(world.other).await.expect("read") == pattern(2));
    });
}
