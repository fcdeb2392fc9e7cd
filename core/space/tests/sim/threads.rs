//! One space used from two reactors at once, on files: what only real threads can break. Each client owns the blocks
//! that it writes and knows what they hold; all of them share rows, regions, block maps, flushes and maintenance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_device::{Durability, Io, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape};
use holdfast_pool::{Candidate, DiskInfo, Env, Event, EventSink, Pool, SpaceSpec, Witness, WitnessRecord, scan};
use holdfast_space::{Space, SpaceSettings};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CLIENTS: u64 = 8;
const BLOCKS: u64 = 4096;
const REQUESTS: u64 = 3000;

struct Nothing;

impl EventSink for Nothing {
    fn emit(&self, _event: Event) {}
}

impl Witness for Nothing {
    fn load(&self, _pool: holdfast_model::Uuid) -> Option<WitnessRecord> {
        None
    }

    fn store(&self, _pool: holdfast_model::Uuid, _record: WitnessRecord) -> Io<()> {
        Io::ready(Ok(()))
    }
}

/// Files that are removed in the end.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let folder = holdfast_harness::folder_for_tests().join(format!("holdfast-space-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        Self(folder)
    }

    fn disk(&self, index: usize, options: &FileOptions) -> Candidate {
        let path = self.0.join(format!("disk{index}"));
        let file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .expect("a file can be made");
        file.set_len(64 << 20).expect("room is there");
        let device = FileDevice::open(&path, options.clone()).expect("the file opens");
        let info = DiskInfo { path: path.display().to_string(), serial: format!("S{index}"), ..DiskInfo::default() };
        Candidate { device, info }
    }
}

fn env(seed: u64) -> Env {
    Env { clock: reactor::clock(), seed, witness: Arc::new(Nothing), events: Arc::new(Nothing) }
}

/// A block that says which client wrote it, where, and for which time.
fn block(client: u64, block: u64, version: u64) -> Vec<u8> {
    let words = [client + 1, block, version, !version];
    let stamp: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    stamp.repeat(BLOCK_BYTES as usize / stamp.len())
}

/// Blocks are dealt out in turn, so that neighbours belong to different clients.
async fn client(space: Arc<Space>, client: u64, done: Arc<AtomicU64>) -> Vec<u64> {
    let mut random = SmallRng::seed_from_u64(client);
    let mut versions = vec![0u64; (BLOCKS / CLIENTS) as usize];
    for request in 0..REQUESTS {
        let own = random.random_range(0..BLOCKS / CLIENTS);
        let (number, offset) = (own * CLIENTS + client, (own * CLIENTS + client) * BLOCK_BYTES);
        let durability = if random.random_bool(0.2) { Durability::Durable } else { Durability::Cached };
        match random.random_range(0..100u32) {
            0..=44 => {
                let data = IoSlice::padded(&block(client, number, request + 1));
                space.write(offset, data, durability).await.expect("written");
                versions[own as usize] = request + 1;
            }
            45..=84 => {
                let data = space.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await.expect("read");
                check(&data, client, number, versions[own as usize]);
            }
            85..=94 => {
                space.discard(offset, BLOCK_BYTES, durability).await.expect("discarded");
                versions[own as usize] = 0;
            }
            95..=97 => space.flush().await.expect("flushed"),
            _ => reactor::yield_now().await,
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    versions
}

fn check(data: &[u8], client: u64, number: u64, version: u64) {
    let wanted = if version == 0 { vec![0; BLOCK_BYTES as usize] } else { block(client, number, version) };
    assert!(data == wanted, "block {number} of client {client} is not version {version}: {:x?}", &data[..32]);
}

fn start(name: &str) -> ReactorHandle {
    let settings = ReactorSettings { name: name.into(), ..ReactorSettings::default() };
    reactor::start(settings).expect("the kernel gives a ring")
}

fn stress(name: &str, options: &FileOptions, layout: Layout) {
    let folder = Folder::new(name);
    let disks: Vec<Candidate> = (0..5).map(|index| folder.disk(index, options)).collect();
    let watched = disks[4].clone();
    let (first, second) = (start("first"), start("second"));
    let made = first.call(move || async move {
        let pool = Pool::create(env(1), "tank".parse().expect("a name"), disks).await.expect("a pool");
        let columns = if layout.parity() > 0 { 4 } else { 2.min(5 / u16::from(layout.copies())) };
        let shape = Shape::plain(layout, columns, ByteSize::kib(64)).with_integrity(Integrity::Crc32c);
        let size_bytes = BLOCKS * BLOCK_BYTES;
        let spec = SpaceSpec {
            name: "vol".parse().expect("a name"),
            shape,
            provisioning: Provisioning::Thin,
            size_bytes,
            journal_bytes: None,
            enclosure_aware: false,
        };
        let record = pool.create_space(spec).await.expect("a space");
        let settings = SpaceSettings {
            open_rows: 4,
            maintenance_interval: Duration::from_millis(5),
            write_buffer_bytes: 1 << 20,
            staged_bytes: 0,
            checksum_cache_bytes: 16 << 10,
            ..SpaceSettings::default()
        };
        let space = Space::open(pool.clone(), record.id, settings).expect("it opens");
        reactor::spawn_local(space.clone().maintain());
        reactor::spawn_local(space.clone().background_destage());
        (pool, space)
    });
    let (pool, space) = made.wait().expect("the reactor runs");
    let done = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (space, done) = (space.clone(), done.clone());
            let reactor = if number % 2 == 0 { &first } else { &second };
            reactor.call(move || client(space, number, done))
        })
        .collect();
    if layout != Layout::Simple {
        // Meanwhile a disk goes out and comes back, again and again.
        let (pool, done) = (pool.clone(), done.clone());
        let operated = second.call(move || async move {
            let clock = reactor::clock();
            while done.load(Ordering::Relaxed) < CLIENTS * REQUESTS {
                let index =
                    pool.disks().into_iter().find(|disk| disk.record.serial == "S4").expect("a member").record.index;
                pool.disk_out(index, DiskState::Missing, "pulled").await.expect("a quorum is there");
                clock.sleep(Duration::from_millis(3)).await;
                pool.disk_back(watched.clone()).await.expect("a member");
                clock.sleep(Duration::from_millis(10)).await;
            }
        });
        operated.wait().expect("the reactor runs");
    } else {
        drop(watched);
    }
    let versions: Vec<Vec<u64>> = clients.into_iter().map(|client| client.wait().expect("the reactor runs")).collect();
    let closed = second.call({
        let pool = pool.clone();
        move || async move {
            space.maintain_once().await.expect("copies come in step");
            space.close().await.expect("closes");
            pool.export().await.expect("exports");
            drop((pool, space));
        }
    });
    closed.wait().expect("the reactor runs");
    drop(pool);
    first.stop();
    second.stop();
    verify(&folder, options, versions);
}

/// Imports the pool anew and reads every block, from every copy by reading it often.
fn verify(folder: &Folder, options: &FileOptions, versions: Vec<Vec<u64>>) {
    let disks: Vec<Candidate> = (0..5).map(|index| folder.disk(index, options)).collect();
    let reader = start("reader");
    let read = reader.call(move || async move {
        let found = scan(disks).await.pools.pop().expect("the pool is there");
        let pool = Pool::import(env(2), found, false).await.expect("all disks are there");
        assert!(pool.was_closed());
        let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it opens");
        for _ in 0..4 {
            for number in 0..BLOCKS {
                let data = space.read(number * BLOCK_BYTES, IoBuf::new(BLOCK_BYTES as usize)).await.expect("read");
                let (client, own) = (number % CLIENTS, (number / CLIENTS) as usize);
                check(&data, client, number, versions[client as usize][own]);
            }
        }
        assert_eq!(space.status().stale_slabs, 0);
    });
    read.wait().expect("the reactor runs");
    reader.stop();
}

#[test]
fn two_reactors_share_a_mirror() {
    stress("mirror", &FileOptions::default(), Layout::Mirror { copies: 2 });
}

#[test]
fn two_reactors_share_three_copies_through_a_ring() {
    stress("ring", &FileOptions { force_buffered: true, ..FileOptions::default() }, Layout::Mirror { copies: 3 });
}

#[test]
fn two_reactors_share_parity() {
    stress("parity", &FileOptions::default(), Layout::Parity { parity: 1 });
}

#[test]
fn two_reactors_share_double_parity_through_a_ring() {
    let options = FileOptions { force_buffered: true, ..FileOptions::default() };
    stress("double", &options, Layout::Parity { parity: 2 });
}

#[test]
fn two_reactors_share_a_stripe() {
    stress("stripe", &FileOptions::default(), Layout::Simple);
}
