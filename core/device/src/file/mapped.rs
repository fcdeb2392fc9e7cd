//! Files whose medium is memory, mapped: a read is one copy, without a system call and without looking up each page. So is a write
//! of which nothing is needed should it be cut short.
//!
//! ```text
//!   blocks known to have a page      copy to or from the mapping ── bus error ──┐
//!   all others, and what is beyond   system call ◀──────────────────────────────┘
//! ```
//!
//! A page of a file in memory comes into being when it is touched, even by a read. So holes are left to system calls, which
//! read zeros and take no memory for them, and say so when there is none for a write. Any other write is left to the kernel too, which
//! copies whole pages, whenever the process is killed: by way of the file, or of the mapping if it is long.
//!
//! Invariant: a block counts as known only after a write to it succeeded, or the kernel said that it has a page. Where that is
//! no longer so, because somebody else cut the file short or made a hole in it, the request goes on as a system call, whose
//! answer counts; at worst a read gives a hole a page of zeros.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BLOCK_BYTES, blocking, guarded, pages};
use crate::reactor::Action;

/// Longer files are not mapped: what is known of their blocks would take more than 32 MiB.
const MOST_BYTES: u64 = 1 << 40;
/// Writes of so many bytes go page by page to the mapping; shorter ones are as quick by way of the file.
const PAGES_FROM: usize = 32 << 10;
const WORD_BLOCKS: u64 = 64;
const WORD_BYTES: u64 = WORD_BLOCKS * BLOCK_BYTES;

/// A mapped file. What it had when it was opened is mapped; what it grows by later is not.
#[derive(Debug)]
pub(super) struct Mapped {
    start: NonNull<u8>,
    len: u64,
    /// A bit for each block that is known to have a page.
    known: Box<[AtomicU64]>,
}

// SAFETY: the mapping has no ties to a thread, and is reached only by copies that allow for others at the same time.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `len` bytes of a file; `None` where that cannot be had or does not pay.
    pub(super) fn new(file: &File, len: u64) -> Option<Self> {
        if len > MOST_BYTES || !guarded::is_available() {
            return None;
        }
        let bytes = usize::try_from(len).ok()?;
        // SAFETY: a new mapping, chosen by the kernel, of an open file; it is taken away when this is dropped. Children of this
        // process and images of its memory do without it.
        let start = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            libc::madvise(start, bytes, libc::MADV_DONTFORK);
            libc::madvise(start, bytes, libc::MADV_DONTDUMP);
            NonNull::new(start.cast())?
        };
        let words = len.div_ceil(WORD_BYTES) as usize;
        // SAFETY: zeros are a valid value.
        let known = unsafe { Box::new_zeroed_slice(words).assume_init() };
        Some(Self { start, len, known })
    }

    /// Does all of `action` before it returns; as [`blocking::perform`], of whose file this is a mapping.
    pub(super) fn perform(&self, file: &File, offset: u64, action: &mut Action) -> Result<(), i32> {
        let len = match action {
            Action::Read(buf) => buf.len() as u64,
            Action::Write(data, _) => data.len() as u64,
            Action::Allocate(_, len) => *len,
            Action::Sync => 0,
        };
        if let Action::Allocate(..) = action {
            // Once more afterwards: whoever reads meanwhile may find that the pages are still there.
            self.forget(offset, len);
            let outcome = blocking::perform(file, offset, action);
            self.forget(offset, len);
            return outcome;
        }
        let mut known = self.is_known(offset, len);
        if let Action::Read(buf) = action
            && known
        {
            // SAFETY: guarded copies are available where there is a mapping, in which the range lies; the buffer is borrowed for
            // the call.
            if unsafe { guarded::copy(self.at(offset), buf.as_mut_ptr(), buf.len()) } {
                return Ok(());
            }
            self.forget(offset, len);
            known = false;
        }
        if let Action::Write(data, _) = action
            && known
            && data.len() >= PAGES_FROM
            && !pages::is_refused()
        {
            // SAFETY: the range lies in the mapping, which is reached only by copies that allow for others.
            if unsafe { pages::write(self.at(offset), data) } {
                return Ok(());
            }
            self.forget(offset, len);
            known = false;
        }
        blocking::perform(file, offset, action)?;
        match action {
            Action::Read(_) => self.ask(offset, len),
            Action::Write(..) if !known => self.note(offset, len),
            _ => {}
        }
        Ok(())
    }

    /// Writes by a copy, if all of the blocks are known to have pages; false if it was not done, or only in part. A crash of the
    /// process may leave any mixture of old and new, also within a block.
    pub(super) fn write_loosely(&self, offset: u64, data: &[u8]) -> bool {
        let len = data.len() as u64;
        if !self.is_known(offset, len) {
            return false;
        }
        // SAFETY: guarded copies are available where there is a mapping, in which the range lies; the data is borrowed for the call.
        let copied = unsafe { guarded::stream(data.as_ptr(), self.at(offset), data.len()) };
        if !copied {
            self.forget(offset, len);
        }
        copied
    }

    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: callers have held the range against the length of the mapping.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }

    fn is_known(&self, offset: u64, len: u64) -> bool {
        len > 0
            && offset + len <= self.len
            && words(offset, len).all(|(word, bits)| self.known[word].load(Ordering::Relaxed) & bits == bits)
    }

    fn forget(&self, offset: u64, len: u64) {
        let len = len.min(self.len.saturating_sub(offset));
        for (word, bits) in words(offset, len) {
            if self.known[word].load(Ordering::Relaxed) & bits != 0 {
                self.known[word].fetch_and(!bits, Ordering::Relaxed);
            }
        }
    }

    /// The blocks have pages. They are entered into the page tables together, which costs a quarter of a fault for each.
    fn note(&self, offset: u64, len: u64) {
        if offset + len > self.len {
            return;
        }
        for (word, bits) in words(offset, len) {
            self.known[word].fetch_or(bits, Ordering::Relaxed);
        }
        // SAFETY: the range lies in the mapping. Where the kernel does not know how, the pages are entered one by one.
        unsafe { libc::madvise(self.at(offset).cast(), len as usize, libc::MADV_POPULATE_READ) };
    }

    /// Finds out which blocks have pages.
    fn ask(&self, offset: u64, len: u64) {
        if offset + len > self.len {
            return;
        }
        for (word, bits) in words(offset, len) {
            let first = word as u64 * WORD_BYTES;
            let bytes = WORD_BYTES.min(self.len - first);
            let mut resident = [0_u8; WORD_BLOCKS as usize];
            // SAFETY: the range lies in the mapping, and there is a byte for each of its pages.
            if unsafe { libc::mincore(self.at(first).cast(), bytes as usize, resident.as_mut_ptr()) } != 0 {
                return;
            }
            let found = resident.iter().rev().fold(0, |found, page| found << 1 | u64::from(page & 1));
            if found & bits == bits {
                let (skip, count) = (u64::from(bits.trailing_zeros()), u64::from(bits.count_ones()));
                self.note(first + skip * BLOCK_BYTES, count * BLOCK_BYTES);
            }
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len as usize) };
    }
}

/// The words that tell of the blocks of a range, and which of their bits.
fn words(offset: u64, len: u64) -> impl Iterator<Item = (usize, u64)> {
    let (first, end) = (offset / BLOCK_BYTES, (offset + len) / BLOCK_BYTES);
    let after = if first < end { end.div_ceil(WORD_BLOCKS) } else { first / WORD_BLOCKS };
    (first / WORD_BLOCKS..after).map(move |word| {
        let from = first.max(word * WORD_BLOCKS) - word * WORD_BLOCKS;
        let to = end.min((word + 1) * WORD_BLOCKS) - word * WORD_BLOCKS;
        (word as usize, u64::MAX >> (WORD_BLOCKS - (to - from)) << from)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::{Path, PathBuf};

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::IoBuf;

    const BLOCK: usize = BLOCK_BYTES as usize;
    const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

    struct Scratch(File, PathBuf);

    impl Scratch {
        fn new(name: &str, blocks: u64) -> Option<Self> {
            let path = Path::new("/dev/shm").join(format!("holdfast-mapped-{name}-{}", std::process::id()));
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).ok()?;
            file.set_len(blocks * BLOCK_BYTES).expect("a sparse file");
            Some(Self(file, path))
        }

        fn punch(&self, block: u64, blocks: u64) {
            let mut action = Action::Allocate(PUNCH_HOLE, blocks * BLOCK_BYTES);
            blocking::perform(&self.0, block * BLOCK_BYTES, &mut action).expect("a hole");
        }

        fn pages(&self) -> u64 {
            self.0.metadata().expect("there").blocks() * 512 / BLOCK_BYTES
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.1);
        }
    }

    impl Mapped {
        fn read(&self, file: &File, block: u64, blocks: usize) -> Result<Vec<u8>, i32> {
            let mut action = Action::Read(IoBuf::new(blocks * BLOCK));
            self.perform(file, block * BLOCK_BYTES, &mut action)?;
            let Action::Read(buf) = action else { unreachable!("it stays a read") };
            Ok(buf.to_vec())
        }

        fn write(&self, file: &File, block: u64, blocks: usize, byte: u8) -> Result<(), i32> {
            let mut buf = IoBuf::new(blocks * BLOCK);
            buf.fill(byte);
            if !byte.is_multiple_of(3) && self.write_loosely(block * BLOCK_BYTES, &buf) {
                return Ok(());
            }
            self.perform(file, block * BLOCK_BYTES, &mut Action::Write(buf.freeze(), 0))
        }

        fn knows(&self, block: u64, blocks: u64) -> bool {
            self.is_known(block * BLOCK_BYTES, blocks * BLOCK_BYTES)
        }
    }

    #[test]
    fn words_cover_a_range_and_no_more() {
        let all = |first: u64, blocks: u64| -> Vec<_> { words(first * BLOCK_BYTES, blocks * BLOCK_BYTES).collect() };
        assert_eq!(all(0, 0), []);
        assert_eq!(all(0, 64), [(0, u64::MAX)]);
        assert_eq!(all(63, 2), [(0, 1 << 63), (1, 1)]);
        assert_eq!(all(65, 3), [(1, 0b1110)]);
        assert_eq!(all(1, 191), [(0, u64::MAX << 1), (1, u64::MAX), (2, u64::MAX)]);
    }

    #[test]
    fn holes_take_no_memory_and_pages_are_found_again() {
        let Some(scratch) = Scratch::new("holes", 200) else { return };
        let Some(mapped) = Mapped::new(&scratch.0, 200 * BLOCK_BYTES) else { return };
        assert!(mapped.read(&scratch.0, 0, 200).expect("zeros").iter().all(|byte| *byte == 0));
        assert!(mapped.read(&scratch.0, 0, 200).expect("zeros").iter().all(|byte| *byte == 0));
        assert_eq!(scratch.pages(), 0);
        mapped.write(&scratch.0, 60, 10, 7).expect("written");
        assert_eq!(scratch.pages(), 10);
        assert!(mapped.knows(60, 10) && !mapped.knows(59, 1) && !mapped.knows(70, 1));
        mapped.write(&scratch.0, 60, 10, 8).expect("written");
        assert_eq!(mapped.read(&scratch.0, 59, 12).expect("read")[BLOCK], 8);

        let again = Mapped::new(&scratch.0, 200 * BLOCK_BYTES).expect("as before");
        assert!(!again.knows(60, 1));
        for _ in 0..2 {
            assert!(again.read(&scratch.0, 60, 10).expect("read").iter().all(|byte| *byte == 8));
            assert!(again.knows(60, 10));
        }
        let mut hole = Action::Allocate(PUNCH_HOLE, 10 * BLOCK_BYTES);
        again.perform(&scratch.0, 60 * BLOCK_BYTES, &mut hole).expect("a hole");
        assert!(!again.knows(60, 1));
        assert!(again.read(&scratch.0, 60, 10).expect("zeros").iter().all(|byte| *byte == 0));
        assert_eq!(scratch.pages(), 0);
    }

    #[test]
    fn what_is_cut_off_ends_the_request_and_not_the_process() {
        let Some(scratch) = Scratch::new("cut", 100) else { return };
        let Some(mapped) = Mapped::new(&scratch.0, 100 * BLOCK_BYTES) else { return };
        mapped.write(&scratch.0, 0, 100, 1).expect("written");
        scratch.0.set_len(50 * BLOCK_BYTES).expect("cut");
        assert!(mapped.knows(0, 100));
        assert_eq!(mapped.read(&scratch.0, 40, 20), Err(blocking::ENDS_EARLY));
        assert!(!mapped.knows(40, 1) && mapped.knows(0, 40));
        assert!(mapped.knows(60, 1));
        // SAFETY: the range is mapped.
        let whole = |block: u64, blocks: usize| unsafe { pages::write(mapped.at(block * BLOCK_BYTES), &vec![9; blocks * BLOCK]) };
        assert!(!whole(45, 10), "half of it is cut off");
        assert!(!whole(60, 10) && !pages::is_refused());
        assert!(whole(30, 20));
        assert!(mapped.read(&scratch.0, 30, 20).expect("read").iter().all(|byte| *byte == 9));
        mapped.write(&scratch.0, 30, 20, 1).expect("written");
        for (block, byte) in [(60, 2), (70, 3)] {
            mapped.write(&scratch.0, block, 10, byte).expect("the file grows again, as by a system call");
            assert!(mapped.read(&scratch.0, block, 10).expect("read").iter().all(|found| *found == byte));
        }
        assert!(mapped.read(&scratch.0, 0, 50).expect("read").iter().all(|byte| *byte == 1));
    }

    /// Others write to the file and make holes in it meanwhile: what is read is always what the file holds.
    #[test]
    fn any_order_of_requests_reads_what_the_file_holds() {
        const BLOCKS: u64 = 150;
        let Some(scratch) = Scratch::new("any", BLOCKS) else { return };
        let Some(mapped) = Mapped::new(&scratch.0, BLOCKS * BLOCK_BYTES) else { return };
        let mut random = SmallRng::seed_from_u64(1);
        let mut model = vec![0_u8; BLOCKS as usize];
        for turn in 0..20_000_u32 {
            let block = random.random_range(0..BLOCKS);
            let blocks = random.random_range(1..=(BLOCKS - block).min(20));
            let range = block as usize..(block + blocks) as usize;
            let byte = turn as u8;
            match random.random_range(0..10) {
                0..5 => {
                    let found = mapped.read(&scratch.0, block, blocks as usize).expect("read");
                    let wrong =
                        found.chunks(BLOCK).zip(&model[range]).any(|(found, byte)| found.iter().any(|found| found != byte));
                    assert!(!wrong, "turn {turn}");
                }
                5..8 => {
                    mapped.write(&scratch.0, block, blocks as usize, byte).expect("written");
                    model[range].fill(byte);
                }
                8 => {
                    scratch.punch(block, blocks);
                    model[range].fill(0);
                }
                _ => {
                    scratch.0.write_all_at(&vec![byte; range.len() * BLOCK], block * BLOCK_BYTES).expect("written");
                    model[range].fill(byte);
                }
            }
        }
    }
}
