//! Writes that remember what each block may hold, and hold the daemon to it.
//!
//! Each block has a history: what is settled (durable by a flush or by FUA), and what was issued after that. After a
//! crash a block holds what is settled or something issued since, whole, and every later read returns the same.
//! Invariant: only one client writes to a block, so the order of its history is the order of its requests.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::nbd::{Client, NbdError};
use crate::random::{Random, mix};

/// A client with one request at a time.
pub trait Blocks {
    /// Reads `len` bytes from `offset`.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, NbdError>;

    /// Writes `data` at `offset`; with `fua` it is durable when answered.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), NbdError>;

    /// Makes what was answered so far durable.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    fn flush(&mut self) -> Result<(), NbdError>;

    /// Makes a range read as zeros, and gives it back where `discard` says so.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    fn zero(&mut self, offset: u64, len: u32, discard: bool) -> Result<(), NbdError>;
}

impl Blocks for Client {
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, NbdError> {
        Client::read(self, offset, len)
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), NbdError> {
        Client::write(self, offset, data, fua)
    }

    fn flush(&mut self) -> Result<(), NbdError> {
        Client::flush(self)
    }

    fn zero(&mut self, offset: u64, len: u32, discard: bool) -> Result<(), NbdError> {
        if discard { self.trim(offset, len) } else { self.write_zeroes(offset, len) }
    }
}

/// Makes a client.
pub type Connect<'a> = &'a (dyn Fn() -> Result<Box<dyn Blocks>, NbdError> + Sync);

/// Makes clients of `export` at the unix socket `path`.
fn over_nbd(path: &Path, export: &str) -> impl Fn() -> Result<Box<dyn Blocks>, NbdError> + Sync {
    move || Ok(Box::new(Client::connect(path, export)?))
}

/// Unit of histories.
pub const BLOCK_BYTES: usize = 4096;
/// The most blocks that a request covers.
const MAX_BLOCKS: u64 = 24;

/// What a block holds: zeros, or the pattern of this number.
type Content = u64;
const ZEROS: Content = 0;
/// Blocks that a check reads at once.
const STEP_BLOCKS: u64 = 64;
/// How long a client rests after a refusal.
const AFTER_REFUSAL: Duration = Duration::from_millis(1);
/// What a server that ends in order answers: the request was not done.
const SHUT_DOWN: u32 = 108;

#[derive(Clone, Default)]
struct History {
    settled: Content,
    settled_count: u64,
    issued: VecDeque<Content>,
    answered_count: u64,
}

impl History {
    fn issue(&mut self, content: Content) {
        self.issued.push_back(content);
    }

    /// All that was issued is answered: a client has one request at a time.
    fn answer(&mut self) {
        self.answered_count = self.settled_count + self.issued.len() as u64;
    }

    fn settle(&mut self, count: u64) {
        while self.settled_count < count {
            self.settled = self.issued.pop_front().expect("what is answered was issued");
            self.settled_count += 1;
        }
    }

    fn may_hold(&self) -> impl Iterator<Item = Content> {
        std::iter::once(self.settled).chain(self.issued.iter().copied())
    }

    /// What a read may return while the daemon runs: what was answered last, or was refused since.
    fn may_show(&self) -> impl Iterator<Item = Content> {
        self.may_hold().skip(self.answered_count.saturating_sub(self.settled_count) as usize)
    }

    fn is(&mut self, content: Content) {
        *self = Self { settled: content, ..Self::default() };
    }
}

struct Region {
    first: u64,
    blocks: Vec<History>,
    next: Content,
}

/// The blocks of an export, cut into one region a client.
pub struct Load {
    regions: Vec<Mutex<Region>>,
    /// Requests that were answered so far.
    answered: AtomicU64,
}

/// What a round of load did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Requests that were answered.
    pub answered: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// What a load makes of a request that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// It fails: the daemon has all that it needs.
    Fault,
    /// It goes on: what a refused write was to change holds the old or the new.
    Expected,
}

/// What was found by reading every block.
#[derive(Debug, Default)]
pub struct Checked {
    /// What is not as it may be.
    pub faults: Vec<String>,
    /// Blocks that could not be read.
    pub unreadable: Vec<u64>,
}

fn pattern(block: u64, content: Content) -> Vec<u8> {
    if content == ZEROS {
        return vec![0; BLOCK_BYTES];
    }
    let seed = mix(block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ content);
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    for word in 0..BLOCK_BYTES as u64 / 8 {
        let value = if word == 0 { content } else { seed.wrapping_add(word.wrapping_mul(0xff51_afd7_ed55_8ccd)) };
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn lock(region: &Mutex<Region>) -> MutexGuard<'_, Region> {
    region.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// A load of `clients` on an export of `size_bytes` that reads as zeros.
    pub fn new(clients: usize, size_bytes: u64) -> Self {
        let blocks = size_bytes / BLOCK_BYTES as u64 / clients as u64;
        let region =
            |number: u64| Region { first: number * blocks, blocks: vec![History::default(); blocks as usize], next: 1 };
        let regions = (0..clients as u64).map(|number| Mutex::new(region(number))).collect();
        Self { regions, answered: AtomicU64::new(0) }
    }

    /// Lets a load run for a while, and at least until it was answered something.
    pub fn wait(&self, while_ms: u64) {
        let before = self.answered.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(while_ms));
        holdfast_harness::wait_until("a request is answered", || self.answered.load(Ordering::Relaxed) > before);
    }

    /// Loads `export` until the connections are lost, a client for each region.
    ///
    /// # Panics
    /// If a read returns what it must not, or a request is refused.
    pub fn run(&self, socket: &Path, export: &str, random: &mut Random) -> Done {
        self.run_with(socket, export, random, Refusals::Fault)
    }

    /// As [`run`](Self::run), where requests may be refused.
    ///
    /// # Panics
    /// If a read returns what it must not, or a request is refused that must not be.
    pub fn run_with(&self, socket: &Path, export: &str, random: &mut Random, refusals: Refusals) -> Done {
        self.run_on(&over_nbd(socket, export), random, refusals)
    }

    /// As [`run_with`](Self::run_with), with other clients.
    ///
    /// # Panics
    /// If a read returns what it must not, or a request is refused that must not be.
    pub fn run_on(&self, connect: Connect<'_>, random: &mut Random, refusals: Refusals) -> Done {
        let seeds: Vec<_> = self.regions.iter().map(|_| random.next_u64()).collect();
        std::thread::scope(|scope| {
            let clients = seeds.into_iter().enumerate().map(|(region, seed)| {
                scope.spawn(move || {
                    let mut done = Done::default();
                    let lost = self.client(connect, region, Random::new(seed), refusals, &mut done);
                    match lost {
                        Err(NbdError::Lost(_) | NbdError::Refused(SHUT_DOWN)) => done,
                        Err(NbdError::Refused(number)) => panic!("a request was refused with {number}"),
                        Ok(never) => match never {},
                    }
                })
            });
            let clients: Vec<_> = clients.collect();
            clients.into_iter().map(|client| client.join().expect("a client of the load fails")).fold(
                Done::default(),
                |sum, one| Done {
                    answered: sum.answered + one.answered,
                    flushes: sum.flushes + one.flushes,
                    refused: sum.refused + one.refused,
                },
            )
        })
    }

    fn client(
        &self,
        connect: Connect<'_>,
        region: usize,
        mut random: Random,
        refusals: Refusals,
        done: &mut Done,
    ) -> Result<std::convert::Infallible, NbdError> {
        let mut client = connect()?;
        loop {
            match self.request(&mut *client, region, &mut random, done) {
                Err(NbdError::Refused(number)) if refusals == Refusals::Expected && number != SHUT_DOWN => {
                    done.refused += 1;
                    std::thread::sleep(AFTER_REFUSAL);
                }
                answered => {
                    answered?;
                    done.answered += 1;
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn request(
        &self,
        client: &mut dyn Blocks,
        region: usize,
        random: &mut Random,
        done: &mut Done,
    ) -> Result<(), NbdError> {
        let count = lock(&self.regions[region]).blocks.len() as u64;
        let from = random.below(count);
        let blocks = from..(from + 1 + random.below(MAX_BLOCKS)).min(count);
        match random.below(20) {
            0..=11 => self.write(client, region, blocks, false),
            12 | 13 => self.write(client, region, blocks, true),
            14 => {
                let discard = random.below(2) == 0;
                self.zero(client, region, blocks, discard)
            }
            15..=17 => self.read(client, region, blocks),
            _ => {
                self.flush(client)?;
                done.flushes += 1;
                Ok(())
            }
        }
    }

    fn write(
        &self,
        client: &mut dyn Blocks,
        region: usize,
        blocks: std::ops::Range<u64>,
        fua: bool,
    ) -> Result<(), NbdError> {
        let mut data = Vec::new();
        let offset = {
            let mut region = lock(&self.regions[region]);
            let content = region.next;
            region.next += 1;
            for block in blocks.clone() {
                data.extend(pattern(region.first + block, content));
                region.blocks[block as usize].issue(content);
            }
            (region.first + blocks.start) * BLOCK_BYTES as u64
        };
        client.write(offset, &data, fua)?;
        let mut region = lock(&self.regions[region]);
        for history in &mut region.blocks[blocks.start as usize..blocks.end as usize] {
            history.answer();
            if fua {
                // Durable is this write; what was issued before it lies below it.
                history.settle(history.answered_count);
            }
        }
        Ok(())
    }

    /// Zeros, by a write of them or by a discard: both read as zeros from then on.
    fn zero(
        &self,
        client: &mut dyn Blocks,
        region: usize,
        blocks: std::ops::Range<u64>,
        discard: bool,
    ) -> Result<(), NbdError> {
        let range = blocks.start as usize..blocks.end as usize;
        let first = {
            let mut region = lock(&self.regions[region]);
            region.blocks[range.clone()].iter_mut().for_each(|history| history.issue(ZEROS));
            region.first
        };
        let offset = (first + blocks.start) * BLOCK_BYTES as u64;
        let len = ((blocks.end - blocks.start) * BLOCK_BYTES as u64) as u32;
        client.zero(offset, len, discard)?;
        lock(&self.regions[region]).blocks[range].iter_mut().for_each(History::answer);
        Ok(())
    }

    fn read(&self, client: &mut dyn Blocks, region: usize, blocks: std::ops::Range<u64>) -> Result<(), NbdError> {
        let first = lock(&self.regions[region]).first;
        let data = client
            .read((first + blocks.start) * BLOCK_BYTES as u64, (blocks.end - blocks.start) as usize * BLOCK_BYTES)?;
        let region = lock(&self.regions[region]);
        for (block, found) in blocks.zip(data.chunks_exact(BLOCK_BYTES)) {
            let history = &region.blocks[block as usize];
            assert!(
                history.may_show().any(|content| found == pattern(first + block, content)),
                "block {} shows none of writes {:?}: {}",
                first + block,
                history.may_show().collect::<Vec<_>>(),
                describe(found)
            );
        }
        Ok(())
    }

    /// A flush covers what was answered on any connection before it.
    fn flush(&self, client: &mut dyn Blocks) -> Result<(), NbdError> {
        let answered = |region: &Mutex<Region>| {
            lock(region).blocks.iter().map(|history| history.answered_count).collect::<Vec<_>>()
        };
        let answered: Vec<_> = self.regions.iter().map(answered).collect();
        client.flush()?;
        for (region, counts) in self.regions.iter().zip(answered) {
            lock(region).blocks.iter_mut().zip(counts).for_each(|(history, count)| history.settle(count));
        }
        Ok(())
    }

    /// Takes all that was answered as durable, as an orderly end of the daemon makes it.
    pub fn settle_answered(&self) {
        for region in &self.regions {
            lock(region).blocks.iter_mut().for_each(|history| history.settle(history.answered_count));
        }
    }

    /// Reads every block `times` over, and says what is not as it may be. What is read is settled from then on.
    ///
    /// # Panics
    /// If the connection is lost.
    pub fn check(&self, socket: &Path, export: &str, times: usize) -> Vec<String> {
        self.check_on(&over_nbd(socket, export), times)
    }

    /// As [`check`](Self::check), with another client.
    ///
    /// # Panics
    /// If the connection is lost.
    pub fn check_on(&self, connect: Connect<'_>, times: usize) -> Vec<String> {
        let Checked { mut faults, unreadable } = self.look_on(connect, times);
        faults.extend(unreadable.into_iter().map(|block| format!("block {block} cannot be read")));
        faults
    }

    /// As [`check`](Self::check), where blocks may be unreadable: those stay as they are known.
    ///
    /// # Panics
    /// If the connection is lost.
    pub fn look(&self, socket: &Path, export: &str, times: usize) -> Checked {
        self.look_on(&over_nbd(socket, export), times)
    }

    fn look_on(&self, connect: Connect<'_>, times: usize) -> Checked {
        let mut checked = Checked::default();
        let mut client = connect().expect("it is served");
        for region in &self.regions {
            let mut region = lock(region);
            let count = region.blocks.len() as u64;
            for from in (0..count).step_by(STEP_BLOCKS as usize) {
                let blocks = from..(from + STEP_BLOCKS).min(count);
                for _ in 0..times {
                    if !region.look(&mut *client, blocks.clone(), &mut checked) {
                        for block in blocks.clone() {
                            if !region.look(&mut *client, block..block + 1, &mut checked) {
                                checked.unreadable.push(region.first + block);
                            }
                        }
                    }
                }
            }
        }
        checked.unreadable.sort_unstable();
        checked.unreadable.dedup();
        checked
    }
}

impl Region {
    /// Whether blocks can be read; if so, they are compared and settled.
    fn look(&mut self, client: &mut dyn Blocks, blocks: std::ops::Range<u64>, checked: &mut Checked) -> bool {
        let len = (blocks.end - blocks.start) as usize * BLOCK_BYTES;
        let data = match client.read((self.first + blocks.start) * BLOCK_BYTES as u64, len) {
            Ok(data) => data,
            Err(NbdError::Refused(_)) => return false,
            Err(NbdError::Lost(error)) => panic!("the connection is lost: {error}"),
        };
        for (block, found) in blocks.zip(data.chunks_exact(BLOCK_BYTES)) {
            let (number, history) = (self.first + block, &mut self.blocks[block as usize]);
            let known = history.may_hold().find(|&content| found == pattern(number, content));
            match known {
                Some(content) => history.is(content),
                None => {
                    let may: Vec<_> = history.may_hold().collect();
                    checked.faults.push(format!("block {number} may hold {may:?}, but: {}", describe(found)));
                }
            }
        }
        true
    }
}

fn describe(found: &[u8]) -> String {
    if found.iter().all(|&byte| byte == 0) {
        return "zeros".into();
    }
    let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
    format!("something that begins like write {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_what_is_settled_or_what_came_after() {
        let mut history = History::default();
        history.issue(1);
        history.answer();
        history.issue(2);
        assert_eq!(history.may_hold().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(history.may_show().collect::<Vec<_>>(), [1, 2], "write 2 was refused, or is not answered yet");
        history.settle(1);
        assert_eq!(history.may_show().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(history.may_hold().collect::<Vec<_>>(), [1, 2]);
        history.answer();
        history.settle(history.answered_count);
        history.settle(1);
        assert_eq!(history.may_hold().collect::<Vec<_>>(), [2]);
        assert_eq!(history.may_show().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn patterns_tell_blocks_and_writes_apart() {
        assert_ne!(pattern(1, 1), pattern(2, 1));
        assert_ne!(pattern(1, 1), pattern(1, 2));
        assert_eq!(describe(&pattern(1, ZEROS)), "zeros");
        assert!(describe(&pattern(7, 3)).ends_with("write 3"));
    }
}
