//! Files that were written over in pieces, brought together; and what is to stay where it is.

use super::*;
use crate::checked::tests::{World, flip, pattern, with};
use crate::integrity::Integrity;
use crate::open_files::Handle;
use crate::service::{FileService, Flush};

const BLOCK: usize = BLOCK_BYTES as usize;

impl World {
    /// A file of 64 blocks of which every fourth lies elsewhere since a snapshot that is gone.
    async fn scattered(&self, name: &str, mode: Integrity) -> (Handle, Vec<u8>) {
        let mut bytes = pattern(1, 64);
        let handle = self.file(name, mode, &bytes).await;
        self.volume.create_snapshot("gone").await.expect("made");
        let new = pattern(2, 64);
        for block in (0..64).step_by(4) {
            let range = block * BLOCK..(block + 1) * BLOCK;
            self.write(&handle, range.start as u64, &new[range.clone()]).await.expect("written");
            bytes[range.clone()].copy_from_slice(&new[range]);
        }
        self.volume.flush(handle.id(), Flush::All).await.expect("durable");
        (handle, bytes)
    }

    async fn forget_snapshot(&self) {
        self.volume.destroy_snapshot("gone").await.expect("destroyed");
        self.volume.reclaim(&crate::checked::tests::Goes).await.expect("given back");
    }

    async fn gather_all(&self) -> Gathered {
        let (mut all, mut next) = (Gathered::default(), Some(GatherFrom::default()));
        while let Some(from) = next {
            let step = self.volume.gather(from, 3 * BLOCK_BYTES).await.expect("it goes through");
            next = step.next;
            all.moved += step.moved;
            all.pieces_before += step.pieces_before;
            all.pieces_after += step.pieces_after;
            all.left += step.left;
            all.unreadable += step.unreadable;
        }
        all
    }

    /// Runs on the device that a file lies in.
    async fn pieces_of(&self, handle: &Handle) -> usize {
        let extents = self.extents(handle).await;
        1 + extents.windows(2).filter(|two| two[0].1.end() != two[1].1.place).count()
    }
}

#[test]
fn what_a_snapshot_scattered_comes_together_when_that_is_gone() {
    with(1, async |world| {
        for (name, mode) in [("any", Integrity::PassThrough), ("strict", Integrity::Strict)] {
            let (handle, bytes) = world.scattered(name, mode).await;
            assert!(world.pieces_of(&handle).await > 16);
            // The snapshot has most of it.
            let done = world.gather_all().await;
            assert_eq!((done.left, done.unreadable), (0, 0));
            assert!(world.pieces_of(&handle).await > 16, "it would take its room twice");
            world.forget_snapshot().await;
            let done = world.gather_all().await;
            assert_eq!((done.moved, done.pieces_after, done.left, done.unreadable), (64, 1, 0, 0), "{name}");
            assert!(done.pieces_before > 16);
            assert_eq!(world.pieces_of(&handle).await, 1);
            assert!(world.read(&handle, 0, 64).await == Ok(bytes));
            assert_eq!(world.gather_all().await, Gathered::default(), "nothing is left to do");
        }
        world.is_sound().await;
    });
}

#[test]
fn no_more_is_moved_than_room_was_set_aside_for() {
    with(1, async |world| {
        let blocks = STEP_BLOCKS as usize;
        let mut bytes = pattern(1, blocks);
        let handle = world.file("strict", Integrity::Strict, &bytes).await;
        let other = world.file("behind", Integrity::Strict, &pattern(3, 2 * blocks)).await;
        let new = pattern(2, blocks);
        for block in (0..blocks).step_by(2) {
            let range = block * BLOCK..(block + 1) * BLOCK;
            world.write(&handle, range.start as u64, &new[range.clone()]).await.expect("written");
            bytes[range.clone()].copy_from_slice(&new[range]);
        }
        world.volume.flush(handle.id(), Flush::All).await.expect("durable");
        // More extents than a leaf has, as they may be by the time that the file is locked.
        let mut done = Gathered::default();
        {
            let _alone = handle.file.data.write().await;
            let mut at = Some(0);
            while let Some(from) = at {
                at = world.volume.gather_locked(&handle.file, from..blocks as u64, &mut done).await.expect("moved");
            }
        }
        assert_eq!((done.moved, done.left), (blocks as u64, 0), "{done:?}");
        assert!(world.read(&handle, 0, blocks).await == Ok(bytes));
        assert!(world.read(&other, 0, 2 * blocks).await == Ok(pattern(3, 2 * blocks)));
        world.is_sound().await;
    });
}

#[test]
fn what_clones_share_and_what_lies_well_stays() {
    with(1, async |world| {
        let (handle, bytes) = world.scattered("shared", Integrity::PassThrough).await;
        world.forget_snapshot().await;
        let other = world.create("clone", Integrity::PassThrough).await;
        world.volume.clone_range((&handle, 0), (&other, 0), 64 * BLOCK_BYTES).await.expect("cloned");
        let whole = world.file("whole", Integrity::PassThrough, &pattern(3, 300)).await;
        assert_eq!(world.gather_all().await.moved, 0);
        assert!(world.read(&handle, 0, 64).await == Ok(bytes));
        assert!(world.read(&whole, 0, 300).await == Ok(pattern(3, 300)));
        world.is_sound().await;
    });
}

#[test]
fn what_cannot_be_read_stays_and_what_is_lost_stays_lost() {
    with(1, async |world| {
        let (handle, bytes) = world.scattered("strict", Integrity::Strict).await;
        let (other, _) = world.scattered_beside("other").await;
        world.forget_snapshot().await;
        flip(&world.disks[0], world.at(&handle, 9).await);
        let at = world.at(&other, 5).await;
        world.disks[0].fail_reads(at..at + BLOCK_BYTES, holdfast_device::sim::ErrorPersistence::UntilRewritten);
        let done = world.gather_all().await;
        assert_eq!((done.moved, done.unreadable), (64, 1), "{done:?}");
        assert_eq!((world.pieces_of(&handle).await, world.at(&other, 5).await), (1, at));
        assert_eq!(world.read(&handle, 9, 1).await, Err(ErrorKind::Corrupt));
        assert!(world.read(&handle, 10, 54).await.as_deref() == Ok(&bytes[10 * BLOCK..]));
    });
}

impl World {
    /// A scattered file, by writes beside the snapshot that there is.
    async fn scattered_beside(&self, name: &str) -> (Handle, Vec<u8>) {
        self.volume.destroy_snapshot("gone").await.expect("destroyed");
        self.scattered(name, Integrity::PassThrough).await
    }
}
