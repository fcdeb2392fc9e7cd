//! Copies inside the server: what arrives, what moves, what is counted, and how one ends early.

#[path = "support/memory.rs"]
#[allow(dead_code)]
mod memory;
#[path = "support/sessions.rs"]
#[allow(dead_code)]
mod sessions;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join, join_all};
use holdfast_block::{Copier, CopyError, CopySettings, Order, Piece, Progress, Qos, Session, Source};
use holdfast_device::reactor::clock;
use holdfast_device::{Durability, ExtentKind, IoErrorKind};
use memory::{Domain, Memory};
use sessions::{on_reactor, read, service, session, write};

const SMALL: CopySettings = CopySettings { chunk_bytes: 64 << 10, in_flight_bytes: 512 << 10, memory_bytes: 1 << 20 };

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(seed | 1) >> 7) as u8 | 1).collect()
}

fn order<'a>(source: Source<'a>, destination: &'a Session, pieces: &'a [Piece]) -> Order<'a> {
    Order { source, destination, pieces, durability: Durability::Cached, stop: &|| false }
}

async fn copy(from: &Session, to: &Session, pieces: &[Piece]) -> (Result<(), CopyError>, u64) {
    let progress = Progress::default();
    let holds = || true;
    let source = Source::Data(from, &holds);
    let outcome = Copier::new(SMALL).copy(&order(source, to, pieces), &progress).await;
    (outcome, progress.done())
}

#[test]
fn bytes_arrive_wherever_they_lie_and_nothing_beside_them() {
    for delay in [Duration::ZERO, Duration::from_micros(100)] {
        on_reactor(move || async move {
            let source = session(&service(Memory::new(4 << 20).slow(delay)));
            let data = pattern(3 << 20, 77);
            write(&source, 4096, &data).await.unwrap();
            let lists: [&[(u64, u64, u64)]; 6] = [
                &[(4096, 8192, 3 << 20)],
                &[(4096, 512, 1 << 20)],
                &[(5120, 1024, 777 * 512)],
                &[(4608, 9728, 512), (8192, 0, 512), (1 << 20, 65536, 131_072)],
                &[(0, 0, 20_000)],
                &[(4096, 4096, 0)],
            ];
            let len = 4 << 20;
            let before = read(&source, 0, len).await;
            for list in lists {
                let target = session(&service(Memory::new(4 << 20).slow(delay)));
                let old = pattern(len, 5);
                write(&target, 0, &old).await.unwrap();
                let mut model = old;
                let pieces: Vec<_> = list.iter().map(|&(from, to, len)| Piece { from, to, len }).collect();
                for piece in &pieces {
                    let from = &before[piece.from as usize..][..piece.len as usize];
                    model[piece.to as usize..][..piece.len as usize].copy_from_slice(from);
                }
                let bytes = pieces.iter().map(|piece| piece.len).sum();
                assert_eq!(copy(&source, &target, &pieces).await, (Ok(()), bytes));
                assert!(read(&target, 0, len).await == model, "{list:?}");
            }
        });
    }
}

#[test]
fn holes_stay_holes_and_no_byte_of_them_is_read() {
    on_reactor(|| async {
        let from = service(Memory::new(64 << 20));
        let (source, target) = (session(&from), session(&service(Memory::new(64 << 20))));
        write(&source, 1 << 20, &pattern(8192, 3)).await.unwrap();
        write(&target, 0, &pattern(2 << 20, 9)).await.unwrap();
        let whole = Piece { from: 0, to: 0, len: 64 << 20 };
        assert_eq!(copy(&source, &target, &[whole]).await, (Ok(()), 64 << 20));
        let extents = target.target().extents(0, 64 << 20, 10).await.unwrap();
        let runs: Vec<_> = extents.iter().map(|extent| (extent.kind, extent.len)).collect();
        let rest = (64 << 20) - (1 << 20) - 8192;
        assert_eq!(runs, [(ExtentKind::Hole, 1 << 20), (ExtentKind::Data, 8192), (ExtentKind::Hole, rest)]);
        assert_eq!(from.traffic().totals().read_bytes, 8192);
    });
}

#[test]
fn objects_of_one_domain_are_cloned_and_their_ragged_ends_copied() {
    on_reactor(|| async {
        let domain = Arc::new(Domain::default());
        let services = [(); 2].map(|()| service(Memory::new(4 << 20).of_domain(&domain)));
        let [source, target] = services.each_ref().map(session);
        let data = pattern(2 << 20, 31);
        write(&source, 0, &data).await.unwrap();
        let pieces = [
            Piece { from: 512, to: 512 + 8192, len: 1 << 20 },
            Piece { from: 1 << 20, to: 2 << 20, len: 1 << 20 },
            // Lies otherwise in its blocks: it is moved.
            Piece { from: 512, to: 3 << 20, len: 100 << 10 },
        ];
        let bytes = pieces.iter().map(|piece| piece.len).sum();
        assert_eq!(copy(&source, &target, &pieces).await, (Ok(()), bytes));
        for piece in pieces {
            let from = &data[piece.from as usize..][..piece.len as usize];
            assert!(read(&target, piece.to, piece.len as usize).await == from, "{piece:?}");
        }
        assert_eq!(domain.clones.load(Ordering::SeqCst), 2);
        let moved = services[0].traffic().totals().read_bytes;
        assert!(moved <= (100 << 10) + 5 * 4096, "{moved} bytes were read");
    });
}

#[test]
fn a_range_may_overlap_its_copy() {
    on_reactor(|| async {
        for (from, to) in [(0, 100 << 10), (100 << 10, 0), (512, 0), (0, 512), (4096, 4096)] {
            let session = session(&service(Memory::new(4 << 20)));
            let data = pattern(1 << 20, 7);
            write(&session, 0, &data).await.unwrap();
            let len = 700 << 10;
            assert_eq!(copy(&session, &session, &[Piece { from, to, len }]).await, (Ok(()), len));
            let mut model = data;
            model.copy_within(from as usize..(from + len) as usize, to as usize);
            assert!(read(&session, 0, 1 << 20).await == model, "{from} to {to}");
        }
    });
}

#[test]
fn a_source_that_changes_ends_the_copy_and_what_is_done_is_right() {
    on_reactor(|| async {
        let from = service(Memory::new(8 << 20).slow(Duration::from_micros(300)));
        let (source, writer) = (session(&from), session(&from));
        let target = session(&service(Memory::new(8 << 20).slow(Duration::from_micros(300))));
        let data = pattern(8 << 20, 11);
        write(&source, 0, &data).await.unwrap();
        let watched = from.watch(0..8 << 20).await;
        let holds = || !watched.is_changed();
        let progress = Progress::default();
        let whole = [Piece { from: 0, to: 0, len: 8 << 20 }];
        let copier = Copier::new(SMALL);
        let order = order(Source::Data(&source, &holds), &target, &whole);
        let copied = copier.copy(&order, &progress);
        let disturb = async {
            while progress.done() < 1 << 20 {
                clock().sleep(Duration::from_micros(200)).await;
            }
            // What lies behind is changed as well as what lies ahead: both count.
            write(&writer, 0, &[0; 4096]).await.unwrap();
        };
        let (outcome, ()) = join(copied, disturb).await;
        assert_eq!(outcome, Err(CopyError::Changed));
        let done = progress.done() as usize;
        assert!((1 << 20..8 << 20).contains(&done), "{done} bytes");
        assert!(read(&target, 0, done).await == data[..done]);
    });
}

#[test]
fn errors_say_which_side_they_are_of() {
    on_reactor(|| async {
        let whole = [Piece { from: 0, to: 0, len: 1 << 20 }];
        let good = session(&service(Memory::new(1 << 20)));
        write(&good, 0, &pattern(1 << 20, 3)).await.unwrap();
        let broken = Memory::new(1 << 20);
        *broken.broken.lock().unwrap() = Some(IoErrorKind::Media);
        let broken = session(&service(broken));
        let (outcome, done) = copy(&broken, &good, &whole).await;
        assert!(matches!(outcome, Err(CopyError::Source(error)) if error.kind == IoErrorKind::Media));
        let (outcome, also) = copy(&good, &broken, &whole).await;
        assert!(matches!(outcome, Err(CopyError::Destination(error)) if error.kind == IoErrorKind::Media));
        assert_eq!((done, also), (0, 0));
        let progress = Progress::default();
        progress.abort();
        let outcome = Copier::new(SMALL).copy(&order(Source::Zeros, &good, &whole), &progress).await;
        assert_eq!(outcome, Err(CopyError::Aborted));
        let unwanted = Order { stop: &|| true, ..order(Source::Zeros, &good, &whole) };
        assert_eq!(Copier::new(SMALL).copy(&unwanted, &Progress::default()).await, Err(CopyError::Aborted));
    });
}

#[test]
fn zeros_are_written_without_data_and_made_durable_at_the_end() {
    on_reactor(|| async {
        let memory = Arc::new(Memory::new(4 << 20));
        let to =
            Arc::new(holdfast_block::ObjectService::new(memory.clone(), holdfast_block::Balancer::new(1), clock()));
        let target = session(&to);
        write(&target, 0, &pattern(4 << 20, 3)).await.unwrap();
        let pieces = [Piece { from: 0, to: 512, len: 10_000 }, Piece { from: 0, to: 1 << 20, len: 2 << 20 }];
        let progress = Progress::default();
        let order = Order { durability: Durability::Durable, ..order(Source::Zeros, &target, &pieces) };
        Copier::new(SMALL).copy(&order, &progress).await.unwrap();
        assert!(read(&target, 512, 10_000).await.iter().all(|byte| *byte == 0));
        assert!(read(&target, 1 << 20, 2 << 20).await.iter().all(|byte| *byte == 0));
        assert_ne!(read(&target, 10_512, 1).await, [0]);
        assert_eq!(memory.flushes.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn all_copies_share_one_budget_and_go_on_within_it() {
    on_reactor(|| async {
        let settings = CopySettings { memory_bytes: 128 << 10, ..SMALL };
        let copier = Copier::new(settings);
        let source = session(&service(Memory::new(4 << 20).slow(Duration::from_micros(50))));
        write(&source, 0, &pattern(4 << 20, 3)).await.unwrap();
        let ended = Cell::new(0);
        let copies = (0..6).map(|_| async {
            let target = session(&service(Memory::new(4 << 20).slow(Duration::from_micros(50))));
            let (holds, progress) = (|| true, Progress::default());
            let whole = [Piece { from: 0, to: 0, len: 4 << 20 }];
            let from = Source::Data(&source, &holds);
            copier.copy(&order(from, &target, &whole), &progress).await.unwrap();
            ended.set(ended.get() + 1);
        });
        join_all(copies).await;
        assert_eq!(ended.get(), 6);
    });
}

#[test]
fn a_change_whose_answer_nobody_wants_is_still_waited_for() {
    on_reactor(|| async {
        let object = service(Memory::new(1 << 20).slow(Duration::from_millis(5)));
        let one = session(&object);
        let limited = sessions::limited(&object, Qos::default());
        {
            let mut dropped = Box::pin(write(&one, 0, &[7; 4096]));
            assert!(futures_util::poll!(&mut dropped).is_pending(), "the write is under way");
        }
        drop(one);
        // Part of the same block, and whoever watches it, come after the write that was dropped.
        write(&limited, 1, &[9; 2]).await.unwrap();
        assert_eq!(read(&limited, 0, 4).await, [7, 9, 9, 7]);
        let watched = object.watch(0..4096).await;
        clock().sleep(Duration::from_millis(10)).await;
        assert!(!watched.is_changed());
    });
}
