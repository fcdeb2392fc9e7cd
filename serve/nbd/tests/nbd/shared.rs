//! One target under two names: writes of parts of its blocks never undo each other, whichever name they came by.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

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

#[derive(Default)]
struct Gate {
    open: AtomicBool,
    reads: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

/// Memory whose first read, done already, is answered only when the gate is opened.
struct Gated {
    memory: Memory,
    gate: Arc<Gate>,
}

impl Gated {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: Memory::new(1 << 20), gate: Arc::default() })
    }

    fn reads(&self) -> u64 {
        self.gate.reads.load(Ordering::SeqCst)
    }

    fn open(&self) {
        let mut waiting = self.gate.waiting.lock().unwrap();
        self.gate.open.store(true, Ordering::SeqCst);
        waiting.drain(..).for_each(Waker::wake);
    }
}

impl Device for Gated {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let io = self.memory.read(offset, buf);
        if self.gate.reads.fetch_add(1, Ordering::SeqCst) > 0 {
            return io;
        }
        let gate = self.gate.clone();
        let Io::Ready(Some(answer)) = io else { panic!("memory answers at once") };
        Io::pending(async move {
            std::future::poll_fn(|cx| {
                let mut waiting = gate.waiting.lock().unwrap();
                if gate.open.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                waiting.push(cx.waker().clone());
                Poll::Pending
            })
            .await;
            answer
        })
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.memory.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.memory.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.memory.discard(offset, len)
    }
}

impl Zeroes for Gated {
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.memory.unmap(offset, len, durability)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        self.memory.write_zeroes(offset, len, durability, keep_room)
    }
}

impl StableId for Gated {
    fn id(&self) -> Uuid {
        self.memory.id()
    }
}

impl BlockLimits for Gated {
    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn is_read_only(&self) -> bool {
        false
    }
}

impl Extents for Gated {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.memory.extents(offset, len, max)
    }
}

/// A write of bytes 0 to 511 by one name stands between its read and its write while `change` comes by another name;
/// then the block is read. `rename`: the other name is withdrawn and offered anew before.
fn meet(rename: bool, change: impl FnOnce(&mut Client) -> u64) -> Vec<u8> {
    let target = Gated::new();
    let fixture = Fixture::new(&[("one", target.clone()), ("other", target.clone())]);
    if rename {
        drop(fixture.exports.remove("other").unwrap());
        fixture.offer("other", target.clone()).unwrap();
    }
    let (mut one, _) = Client::enter(&fixture.unix, "one", ReplyStyle::Simple);
    let (mut other, _) = Client::enter(&fixture.tcp, "other", ReplyStyle::Simple);
    one.send(0, CMD_WRITE, 0, 512, &[1; 512]);
    wait_until("the block is read", || target.reads() == 1);
    change(&mut other);
    // It is answered once what came before it has begun, or waits.
    other.send(0, CMD_FLUSH, 0, 0, &[]);
    let first = other.reply();
    target.open();
    assert_eq!((first.error, other.reply().error, one.reply().error), (0, 0, 0));
    one.read(0, 4096)
}

#[test]
fn a_part_of_a_block_waits_for_another_part_of_it() {
    for rename in [false, true] {
        let found = meet(rename, |other| other.send(0, CMD_WRITE, 512, 512, &[2; 512]));
        assert_eq!([&found[..512], &found[512..1024]].concat(), [[1; 512], [2; 512]].concat());
    }
}

#[test]
fn a_whole_block_waits_for_a_part_of_it() {
    for rename in [false, true] {
        let found = meet(rename, |other| other.send(0, CMD_WRITE, 0, 4096, &[2; 4096]));
        assert_eq!(found, [2; 4096]);
        let found = meet(rename, |other| other.send(0, CMD_WRITE_ZEROES, 0, 8192, &[]));
        assert_eq!(found, [0; 4096]);
    }
}
