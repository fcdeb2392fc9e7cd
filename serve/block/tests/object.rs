//! An object that is no space is served with all that the block service gives: bytes, limits, counters, exclusion.

#[path = "support/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_block::{Balancer, Change, Claimed, ObjectService, Qos, Session, Started, Target, clip};
use holdfast_device::reactor::{self, ReactorSettings, clock};
use holdfast_device::{Durability, Extent, ExtentKind, IoBuf, IoErrorKind};
use memory::Memory;

const SIZE: u64 = 1 << 20;

fn service(memory: Memory) -> Arc<ObjectService> {
    Arc::new(ObjectService::new(Arc::new(memory), Balancer::new(1), clock()))
}

fn target(name: &str, service: &Arc<ObjectService>, qos: Qos) -> Arc<Target> {
    Arc::new(Target::new(name, "memory".into(), service.clone(), false, &qos).unwrap())
}

/// Runs `test` on a reactor of its own.
fn on_reactor<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    let reactor = reactor::start(ReactorSettings::default()).unwrap();
    reactor.call(test).wait().unwrap();
    reactor.stop();
}

async fn change(session: &Session, offset: u64, len: u64, change: Change) -> Result<(), IoErrorKind> {
    let outcome = match session.change(offset, len, change, Durability::Cached) {
        Started::Answered(outcome) => outcome,
        Started::Later(later) => session.settle(later).await,
    };
    outcome.map_err(|error| error.kind)
}

async fn write(session: &Session, offset: u64, data: &[u8]) -> Result<(), IoErrorKind> {
    let blocks = holdfast_block::blocks_around(offset, data.len() as u64);
    let mut buf = IoBuf::new((blocks.end - blocks.start) as usize);
    buf[(offset - blocks.start) as usize..][..data.len()].copy_from_slice(data);
    change(session, offset, data.len() as u64, Change::Write(buf)).await
}

async fn read(session: &Session, offset: u64, len: usize) -> Vec<u8> {
    let buf = session.finish(session.read(offset, len as u64)).await.unwrap();
    buf[(offset % 4096) as usize..][..len].to_vec()
}

#[test]
fn bytes_are_changed_at_any_offset_and_nothing_beside_them() {
    for delay in [Duration::ZERO, Duration::from_micros(200)] {
        on_reactor(move || async move {
            let service = service(Memory::new(SIZE).slow(delay));
            let session = Session::new(target("a", &service, Qos::default()));
            let mut model = vec![0; 64 << 10];
            let ranges =
                [(0, 4096), (1, 1), (4095, 2), (512, 512), (3000, 9000), (8192, 100), (20_000, 30_001), (16384, 8192)];
            for (number, (offset, len)) in ranges.into_iter().enumerate() {
                let byte = number as u8 + 1;
                write(&session, offset as u64, &vec![byte; len]).await.unwrap();
                model[offset..offset + len].fill(byte);
                assert_eq!(read(&session, 0, model.len()).await, model, "after a write of {len} at {offset}");
            }
            for (offset, len) in [(100, 10), (4000, 200), (9000, 9000), (24576, 4096)] {
                change(&session, offset as u64, len as u64, Change::Zeroes { keep_room: true }).await.unwrap();
                model[offset..offset + len].fill(0);
                assert_eq!(read(&session, 0, model.len()).await, model, "after {len} zeroes at {offset}");
            }
            // Only the whole blocks of a discard are given back.
            change(&session, 4000, 10_000, Change::Discard).await.unwrap();
            model[4096..12288].fill(0);
            change(&session, 30_000, 100, Change::Discard).await.unwrap();
            assert_eq!(read(&session, 0, model.len()).await, model);
            let extents = session.target().extents(0, 16384, 10).await.unwrap();
            let run = |len, kind| Extent { len, kind };
            assert_eq!(
                clip(100, 13_000, extents),
                [run(3996, ExtentKind::Data), run(8192, ExtentKind::Hole), run(812, ExtentKind::Zero)]
            );
        });
    }
}

#[test]
fn parts_of_a_block_by_two_names_do_not_undo_each_other() {
    on_reactor(|| async {
        let service = service(Memory::new(SIZE).slow(Duration::from_micros(100)));
        let sessions: Vec<Session> =
            ["a", "b"].map(|name| Session::new(target(name, &service, Qos::default()))).into_iter().collect();
        for round in 1..20_u8 {
            let parts = (0..8_u64).map(|part| {
                let session = &sessions[(part % 2) as usize];
                async move { write(session, part * 512, &[round + part as u8; 512]).await.unwrap() }
            });
            join_all(parts).await;
            for part in 0..8_u64 {
                assert_eq!(
                    read(&sessions[0], part * 512, 512).await,
                    [round + part as u8; 512],
                    "round {round}, part {part}"
                );
            }
        }
    });
}

#[test]
fn limits_hold_up_what_ends_with_its_session() {
    on_reactor(|| async {
        let service = service(Memory::new(SIZE));
        let limited = Qos { max_iops: Some(1), ..Qos::default() };
        let (slow, free) =
            (Session::new(target("slow", &service, limited)), Session::new(target("free", &service, Qos::default())));
        write(&slow, 0, &[1; 4096]).await.unwrap();
        let waiting = write(&slow, 0, &[2; 4096]);
        let end = async {
            write(&free, 4096, &[3; 4096]).await.unwrap();
            slow.end();
        };
        let (given_up, ()) = join(waiting, end).await;
        assert_eq!(given_up, Err(IoErrorKind::GivenUp));
        assert_eq!(read(&free, 0, 8192).await, [[1; 4096], [3; 4096]].concat());
        // What was given up holds nothing: a part of the same block gets its turn.
        write(&free, 1, &[4; 2]).await.unwrap();
        let (of_slow, of_all) = (slow.target().counters().totals, service.traffic().totals());
        assert_eq!((of_slow.writes, of_slow.written_bytes), (2, 8192));
        assert_eq!((of_all.writes, of_all.reads), (4, 2), "with the part's own read and write");
    });
}

#[test]
fn a_target_knows_what_it_may() {
    on_reactor(|| async {
        let service = service(Memory::new(SIZE));
        let volume = service.claims().hold("files").unwrap();
        let refused = Target::new("a", String::new(), service.clone(), false, &Qos::default()).err();
        assert_eq!(refused, Some(Claimed::ByVolume("files".into())));
        drop(volume);
        let target = Target::new("a", String::new(), service.clone(), true, &Qos::default()).unwrap();
        assert!(target.info().read_only);
        assert_eq!(service.claims().hold("files").err(), Some(Claimed::ByExports(vec!["a".into()])));
        let session = Session::new(Arc::new(target));
        assert_eq!(write(&session, 0, &[1; 4096]).await, Err(IoErrorKind::ReadOnly));
        assert_eq!(change(&session, 0, 4096, Change::Discard).await, Err(IoErrorKind::ReadOnly));
        assert_eq!(read(&session, 0, 4096).await, [0; 4096]);
        drop(session);
        service.claims().hold("files").unwrap();
    });
}

#[test]
fn losses_are_counted_whoever_flushed_and_whether_or_not_anybody_waits() {
    on_reactor(|| async {
        let memory = Arc::new(Memory::new(SIZE).slow(Duration::from_millis(20)));
        let service = Arc::new(ObjectService::new(memory.clone(), Balancer::new(1), clock()));
        let target = target("one", &service, Qos::default());
        let session = Session::new(target.clone());
        assert!(!service.has_unflushed());
        let during = async {
            clock().sleep(Duration::from_millis(10)).await;
            change(&session, 0, 4096, Change::Discard).await.unwrap();
        };
        write(&session, 0, &[1; 4096]).await.unwrap();
        assert!(service.has_unflushed());
        let (flushed, ()) = join(target.flush(), during).await;
        flushed.unwrap();
        assert!(service.has_unflushed(), "it was answered after the flush began");
        target.flush().await.unwrap();
        assert_eq!((service.losses().get(), service.has_unflushed()), (0, false));
        *memory.broken.lock().unwrap() = Some(IoErrorKind::Media);
        assert_eq!(target.flush().await.unwrap_err().kind, IoErrorKind::Media);
        assert_eq!(service.losses().get(), 1);
        drop(target.flush());
        clock().sleep(Duration::from_millis(100)).await;
        assert_eq!(service.losses().get(), 2, "nobody waited for it");
        *memory.broken.lock().unwrap() = Some(IoErrorKind::Gone);
        target.flush().await.unwrap_err();
        assert_eq!(service.losses().get(), 2, "nothing is lost of what is only away");
    });
}
