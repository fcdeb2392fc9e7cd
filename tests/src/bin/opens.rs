//! Speed of the table of opens, on one core and on all: files that nobody else has open are opened, locked, unlocked and
//! closed; writes pass before and after. Prints Markdown.
//!
//! ```text
//!   ROUNDS=20 QUICK=1 opens
//! ```
//!
//! Invariant: each thread has files of its own, as most files have one user; what is printed is the median over rounds.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::task::Waker;
use std::time::{Duration, Instant};

use holdfast_opens::*;
use holdfast_tests::rounds::{median, number, text};

/// Files that take turns, of each thread.
const FILES: u64 = 4096;
const CYCLES: u64 = 200_000;

/// A client that is told nothing.
struct Silent;

impl Recall for Silent {
    fn broken(&self, _: &Notice) {}

    fn closed(&self, _: FileKey, _: OpenId) {}
}

fn request(client: u64, recall: &Arc<Silent>) -> OpenRequest {
    OpenRequest {
        file: FileKey { volume: 1, number: client * FILES, generation: 1, stream: 0 },
        client: ClientId(client.into()),
        protocol: "bench",
        access: Access::READ.and(Access::WRITE),
        share: Access::READ,
        ignores_denials: false,
        excludes_all: false,
        overwrites: false,
        delete_on_close: None,
        lease: None,
        waits_for_kept: false,
        recall: recall.clone(),
    }
}

fn open(table: &Table, request: &OpenRequest) -> Seat {
    match table.poll_open(request, &mut Waiting::new(), Duration::ZERO, Waker::noop()) {
        std::task::Poll::Ready(Ok(Opening::Opened(opened))) => opened.seat,
        other => panic!("nobody else has it open: {other:?}"),
    }
}

/// What is measured: a name, and one turn of it on a file.
type Turn = (&'static str, fn(&Table, &mut OpenRequest, u64));

fn open_and_close(table: &Table, request: &mut OpenRequest, file: u64) {
    request.file.number = file;
    let seat = open(table, request);
    black_box(table.close(&seat, Duration::ZERO)).expect("it is open");
}

fn cycle(table: &Table, request: &mut OpenRequest, file: u64) {
    request.file.number = file;
    let seat = open(table, request);
    let range = ByteRange::new(file * 10, 10).expect("it fits");
    let lock = LockRequest { by: LockBy::Nt, range, exclusive: true };
    let locked = table.poll_lock(&seat, &lock, false, &mut Waiting::new(), Duration::ZERO, Waker::noop());
    assert!(locked.is_ready());
    table.unlock(&seat, LockBy::Nt, range, Duration::ZERO).expect("it is locked");
    black_box(table.close(&seat, Duration::ZERO)).expect("it is open");
}

fn leased(table: &Table, request: &mut OpenRequest, file: u64) {
    let wanted = Caching::ALL;
    request.lease = Some(LeaseRequest { key: Some(file.into()), kind: LeaseKind::Lease, wanted, parent: None });
    open_and_close(table, request, file);
    request.lease = None;
}

const TURNS: &[Turn] =
    &[("open, close", open_and_close), ("open, lock, unlock, close", cycle), ("open with a lease, close", leased)];

/// Nanoseconds a turn, on so many threads at once.
fn measure(threads: u64, turn: Turn) -> f64 {
    let (table, begin) = (Table::new(Settings::default()), Barrier::new(threads as usize));
    let run = |client: u64| {
        // Each client has its own way.
        let mut request = request(client, &Arc::new(Silent));
        begin.wait();
        let begun = Instant::now();
        (0..CYCLES).for_each(|at| turn.1(&table, &mut request, client * FILES + at % FILES));
        begun.elapsed().as_nanos() as f64 / CYCLES as f64
    };
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|client| scope.spawn(move || run(client))).collect();
        median(threads.into_iter().map(|thread| thread.join().expect("it ends")))
    })
}

/// Nanoseconds of what a write pays before and after, on a file that nobody else caches.
fn gate() -> f64 {
    let (table, recall) = (Table::new(Settings::default()), Arc::new(Silent));
    let seat = open(&table, &request(1, &recall));
    let act = Act::Write(Some(ByteRange::new(0, 4096).expect("it fits")));
    let (mut before, mut after) = (Waiting::new(), Waiting::new());
    let begun = Instant::now();
    for _ in 0..CYCLES {
        let ready = table.poll_begin(&seat, black_box(act), &mut before, Duration::ZERO, Waker::noop()).is_ready()
            && table.poll_end(&seat, black_box(act), &mut after, Duration::ZERO, Waker::noop()).is_ready();
        assert!(ready);
    }
    begun.elapsed().as_nanos() as f64 / CYCLES as f64
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds: usize = number("ROUNDS", if quick { 5 } else { 20 });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    println!("The table of opens: medians of {rounds} rounds.\n");
    println!("| what | ns on one core | million a second | ns on each of {cores} cores |");
    println!("| --- | ---: | ---: | ---: |");
    for turn in TURNS {
        let alone = median((0..rounds).map(|_| measure(1, *turn)));
        let together = median((0..rounds).map(|_| measure(cores, *turn)));
        println!("| {} | {alone:.0} | {:.2} | {together:.0} |", turn.0, 1e3 / alone);
    }
    let gate = median((0..rounds).map(|_| gate()));
    println!("| before and after a write | {gate:.1} | {:.1} | |", 1e3 / gate);
}
