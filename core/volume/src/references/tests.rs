//! References looked up among many, held against all of them.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_model::Uuid;

use super::*;
use crate::store::{Format, Settings};
use crate::transaction::Transaction;

/// References of a zone, of all lengths, some of them in the same place.
fn draw(random: &SimRandom, zone: u64, of_zone: u64) -> Vec<Reference> {
    let mut all = Vec::new();
    for number in 0..random.range(1..200u64) {
        let most = [1, 3, 20, of_zone / 2][random.range(0..4usize)];
        let blocks = random.range(1..=most);
        let place = match all.last() {
            Some(Reference { place, .. }) if random.chance(1, 3) && place + blocks < zone + of_zone => *place,
            _ => zone + random.range(8..of_zone - blocks),
        };
        let whose = match random.chance(1, 5) {
            true => Whose::Snapshots(Span { birth: number, death: number + 3 }),
            false => Whose::File { file: number, stream: 0, block: random.range(0..1000u64) },
        };
        all.push(Reference { place, blocks: blocks as u32, whose });
    }
    all
}

#[test]
fn those_over_a_range_are_found_and_no_others() {
    holdfast_harness::over_seeds(60, |seed| {
        let sim = Sim::new(seed);
        let random = sim.random();
        let disk: Arc<dyn Device> = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            Store::format(&disk, Format { volume: Uuid::from_u128(7), log_bytes: None }).await.expect("formatted");
            let store = Store::open(disk, Settings::default()).await.expect("it opens");
            let of_zone = store.superblock().zone_bytes / BLOCK_BYTES;
            let start = |zone| store.address_in(zone, 0) / BLOCK_BYTES;
            let mut all: Vec<Reference> =
                [3, 4, 5].into_iter().flat_map(|zone| draw(&random, start(zone), of_zone)).collect();
            all.sort_by_key(|one| store.reference_key(one));
            all.dedup();
            // Owners stand behind the references of their zone, and before those of the next.
            let owners: Vec<(u64, u32)> = (0..20)
                .map(|at| (start(4) + 8 + at * 12, random.range(1..12u32)))
                .filter(|_| random.chance(2, 3))
                .collect();
            for some in all.chunks(20) {
                let mut transaction = Transaction::new();
                for one in some {
                    let key = store.reference_key(one).expect("in a zone");
                    assert_eq!(Reference::decode(&key), Some(*one));
                    transaction.put(OWNER_TREE, &key, &[]);
                }
                store.apply(&transaction).await.expect("there is room");
            }
            for (place, blocks) in &owners {
                let value = keys::owner_value(9, 0, 0, *blocks, true);
                let mut transaction = Transaction::new();
                transaction.put(OWNER_TREE, &keys::owner(*place), &value);
                store.apply(&transaction).await.expect("there is room");
            }
            for _ in 0..200 {
                let from = start(4) + random.range(8..of_zone - 1);
                let range = from..random.range(from + 1..start(5));
                let mut found = Vec::new();
                let look = store.look([OWNER_TREE], |view| {
                    found.clear();
                    store.each_over(view, range.clone(), |_, one| {
                        found.push(*one);
                        ControlFlow::Continue(())
                    })
                });
                look.await.expect("looked up");
                let is_over =
                    |one: &&Reference| one.place < range.end && one.end() > range.start && one.place > start(4);
                let expected: Vec<Reference> = all.iter().filter(is_over).copied().collect();
                assert_eq!(found, expected, "over {range:?}");

                let mut left = BTreeMap::from([(range.start, range.end - range.start)]);
                let mut bits = left.clone();
                expected.iter().skip(1).for_each(|one| runs::cut(&mut bits, one.place, one.blocks.into()));
                let but: BTreeSet<Vec<u8>> =
                    expected.first().and_then(|one| store.reference_key(one)).into_iter().collect();
                let look = store.look([OWNER_TREE], |view| store.uncovered(view, &mut left, &but));
                look.await.expect("looked up");
                assert_eq!(left, bits, "in {range:?}");

                let look = store.look([OWNER_TREE], |view| store.owners_over(view, range.clone(), usize::MAX));
                let found: Vec<u64> = look.await.expect("looked up").into_iter().map(|(place, _)| place).collect();
                let is_over =
                    |(place, blocks): &&(u64, u32)| *place < range.end && place + u64::from(*blocks) > range.start;
                let expected: Vec<u64> = owners.iter().filter(is_over).map(|(place, _)| *place).collect();
                assert_eq!(found, expected, "owners over {range:?}");
            }
        });
        ran.expect("powered");
    });
}

#[test]
fn keys_that_say_what_cannot_be_are_refused() {
    let file = Reference { place: 1100, blocks: 3, whose: Whose::File { file: 7, stream: 0, block: 5 } };
    let kept = Reference { whose: Whose::Snapshots(Span { birth: 4, death: 9 }), ..file };
    for one in [file, kept] {
        let key = one.key(1000);
        assert_eq!(Reference::decode(&key), Some(one));
        assert!((0..key.len()).all(|len| Reference::decode(&key[..len]).is_none()), "cut short");
        let changed = |at: usize, byte: u8| Reference::decode(&[&key[..at], &[byte], &key[at + 1..]].concat());
        assert_eq!(changed(8, 3), None, "of another class");
        assert_eq!(changed(21, 3), None, "of nobody");
        assert_eq!(changed(20, 0), None, "of no blocks");
        assert_eq!(changed(9, 1), None, "of another zone");
    }
    assert_eq!(Reference::decode(&file.key(1100)), None, "where its zone begins");
    let endless = Reference { whose: Whose::File { file: 7, stream: 0, block: u64::MAX - 1 }, ..file };
    assert_eq!(Reference::decode(&endless.key(1000)), None);
    assert_eq!([1, 2, 3, 4, 5, 65_535, 65_536].map(class_of), [0, 1, 2, 2, 3, 16, 16]);
}
