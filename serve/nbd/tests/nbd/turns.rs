//! Requests that wait for their turn, and clients that leave meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::Fixture;
use crate::support::client::Client;
use crate::support::memory::Memory;
use holdfast_device::{
    BlockLimits, Device, Durability, Extent, Extents, Geometry, Io, IoBuf, IoSlice, Limits, StableId, Zeroes,
};
use holdfast_harness::wait_until;
use holdfast_model::Uuid;
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;

/// A target on which nothing but flushes and extents gets its turn.
struct Crowded {
    memory: Memory,
    waiting: Arc<AtomicU64>,
}

struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Crowded {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: Memory::new(1 << 20), waiting: Arc::default() })
    }

    fn queue<T: 'static>(&self) -> Io<T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self.waiting.clone());
        Io::queued(async move {
            let _counted = counted;
            std::future::pending().await
        })
    }

    fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::SeqCst)
    }
}

impl Device for Crowded {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn read(&self, _offset: u64, _buf: IoBuf) -> Io<IoBuf> {
        self.queue()
    }

    fn write(&self, _offset: u64, _data: IoSlice, _durability: Durability) -> Io<()> {
        self.queue()
    }

    fn flush(&self) -> Io<()> {
        self.memory.flush()
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        self.queue()
    }
}

impl Zeroes for Crowded {
    fn unmap(&self, _offset: u64, _len: u64, _durability: Durability) -> Io<()> {
        self.queue()
    }

    fn write_zeroes(&self, _offset: u64, _len: u64, _durability: Durability, _keep_room: bool) -> Io<()> {
        self.queue()
    }
}

impl StableId for Crowded {
    fn id(&self) -> Uuid {
        self.memory.id()
    }
}

impl BlockLimits for Crowded {
    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn is_read_only(&self) -> bool {
        false
    }
}

impl Extents for Crowded {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.memory.extents(offset, len, max)
    }
}

/// Sends one request of each kind, parts of blocks among them; gives how many that are.
fn ask(client: &mut Client) -> u64 {
    client.send(0, CMD_READ, 0, 4096, &[]);
    client.send(0, CMD_READ, 0, 64 << 10, &[]);
    client.send(0, CMD_WRITE, 0, 4096, &[1; 4096]);
    client.send(0, CMD_TRIM, 8192, 4096, &[]);
    client.send(0, CMD_WRITE_ZEROES, 16384, 4096, &[]);
    client.send(0, CMD_WRITE, 40_000, 100, &[1; 100]);
    client.send(0, CMD_WRITE_ZEROES, 80_000, 100, &[]);
    7
}

#[test]
fn what_waits_never_begins_when_its_client_has_left() {
    let target = Crowded::new();
    let fixture = Fixture::new(&[("disk", target.clone())]);
    for style in [ReplyStyle::Simple, ReplyStyle::Extended] {
        let (mut client, _) = Client::enter(&fixture.unix, "disk", style);
        ask(&mut client);
        // Writes of parts of blocks wait for those of whole ones before they ask the target.
        wait_until("requests wait", || target.waiting() >= 4);
        drop(client);
        wait_until("they are given up", || target.waiting() == 0 && fixture.server().connections().is_empty());
    }
}

#[test]
fn what_waits_is_refused_when_its_export_is_withdrawn() {
    let target = Crowded::new();
    let fixture = Fixture::new(&[("disk", target.clone())]);
    let (mut client, _) = Client::enter(&fixture.unix, "disk", ReplyStyle::Structured);
    let asked = ask(&mut client);
    wait_until("requests wait", || target.waiting() >= 4);
    let _removal = fixture.exports.remove("disk").unwrap();
    for _ in 0..asked {
        assert_eq!(client.reply().error, 108);
    }
    assert!(client.closed());
    wait_until("nothing waits", || target.waiting() == 0);
}
