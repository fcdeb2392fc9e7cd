//! Verbs of the change journal: it goes on behind what is wrong.

use super::*;
use crate::journal::{JournalRead, JournalRecord, Reasons};
use crate::{JOURNAL_TREE, JournalState};

fn state(world: &World) -> JournalState {
    world.volume.journal().expect("it is on")
}

/// All records that can be read.
async fn records(world: &World) -> Vec<JournalRecord> {
    match world.volume.read_journal(state(world).id, 0, 100, Reasons::ALL).await.expect("it can be read") {
        JournalRead::Records { records, next } if next == state(world).next => records,
        other => panic!("{other:?}"),
    }
}

fn key(usn: u64) -> Vec<u8> {
    usn.to_be_bytes().to_vec()
}

#[test]
fn a_journal_goes_on_behind_records_that_are_missing_or_cannot_be_read() {
    with(async |world| {
        world.volume.set_journal(64 << 10).await.expect("made");
        for number in 0..8 {
            let name = format!("file {number}");
            world.volume.create(&Caller::default(), world.below, name.as_bytes(), &FILE).await.expect("made");
        }
        let all = records(world).await;
        assert_eq!(all.len(), 8);
        world.finds(&[]).await;
        world.damage(|view| view.remove(JOURNAL_TREE, key(all[1].usn))).await;
        world.repaired(Verb::JournalGap { usn: all[1].usn }).await;
        assert_eq!(records(world).await, all[2..], "what lies before it is as good as lost");
        // Of other bytes than the record had, so that nothing follows them.
        world.damage(|view| view.put(JOURNAL_TREE, key(all[3].usn), vec![9; 3])).await;
        world.repaired(Verb::JournalGap { usn: all[3].usn }).await;
        assert_eq!(records(world).await, all[4..]);
        world.damage(|view| view.remove(JOURNAL_TREE, key(all[7].usn))).await;
        world.repaired(Verb::JournalGap { usn: all[7].usn }).await;
        assert_eq!((records(world).await, state(world).first), (Vec::new(), all[7].next), "no position is given twice");
        world.volume.create(&Caller::default(), world.below, b"last", &FILE).await.expect("made");
        assert_eq!(records(world).await.first().map(|record| record.usn), Some(all[7].next));
        assert_eq!(world.volume.scan().await, Ok(Vec::new()));
    });
}

#[test]
fn readers_are_told_of_a_gap_that_nobody_found_before() {
    with(async |world| {
        let JournalState { id, .. } = world.volume.set_journal(64 << 10).await.expect("made");
        for number in 0..4 {
            let name = format!("file {number}");
            world.volume.create(&Caller::default(), world.below, name.as_bytes(), &FILE).await.expect("made");
        }
        let all = records(world).await;
        world.damage(|view| view.remove(JOURNAL_TREE, key(all[2].usn))).await;
        let cut = world.volume.read_journal(id, all[1].usn, 100, Reasons::ALL).await;
        assert_eq!(cut, Ok(JournalRead::Cut { first: all[3].usn }));
        assert_eq!(records(world).await, all[3..]);
        world.finds(&[]).await;
    });
}

#[test]
fn a_note_that_cannot_be_read_is_taken_out() {
    with(async |world| {
        world.volume.set_journal(64 << 10).await.expect("made");
        let note = [&[255][..], &world.data.number.to_be_bytes()].concat();
        world.damage(|view| view.put(JOURNAL_TREE, note.clone(), vec![1, 2, 3])).await;
        world.repaired(Verb::JournalNote { file: world.data.number }).await;
        world.write(world.data, &pattern(3)).await;
        let last = records(world).await.pop().expect("it was written to");
        assert!(last.reasons.has(Reasons::CLOSE) && last.file == world.data, "{last:?}");
    });
}

#[test]
fn a_node_that_is_still_in_memory_costs_no_records() {
    with(async |world| {
        world.volume.set_journal(64 << 10).await.expect("made");
        for number in 0..4 {
            let name = format!("file {number}");
            world.volume.create(&Caller::default(), world.below, name.as_bytes(), &FILE).await.expect("made");
        }
        world.volume.checkpoint().await.expect("it lasts");
        let all = records(world).await;
        let place = world.volume.journal_place(all[0].usn).await.expect("read").expect("it is there");
        world.disk.poke(place + 9000, &[0x55; 64]);
        let done = world.volume.spotfix().await.expect("repaired");
        assert!(done.left.is_empty() && done.fixed > 0, "{done:?}");
        assert_eq!(records(world).await, all);
        world.finds(&[]).await;
    });
}
