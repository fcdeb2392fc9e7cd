//! Speed of parity: every kernel that the processor has, and Intel ISA-L as Debian ships it, in one run. Prints
//! Markdown.
//!
//! ```text
//!   ROUNDS=50 QUICK=1 SHAPES=6+2/256,4+1/256 parity          columns+parity/KiB
//! ```
//!
//! "data" counts the bytes of the stripe's data columns, of an update those of the column that changes. "touched"
//! counts every piece that is read or written once, which for encoding is how ISA-L's own programs count: columns and
//! parity.
//!
//! Invariant: subjects take turns within each round on the same memory; what is printed is the median over rounds,
//! of ratios the median of each round's ratio, so that what else the machine does meets both sides.

use std::time::{Duration, Instant};

use holdfast_parity::{Column, ColumnUpdate, Kernel, Piece, Stripe};
use holdfast_tests::rounds::{median, number, text};
use oracle::{Aligned, Isal, Tables};

// It calls a foreign library, and so lives where code of that kind may.
#[allow(unsafe_code, dead_code)]
#[path = "../../../core/parity/tests/parity/oracle.rs"]
mod oracle;

const TURN: Duration = Duration::from_millis(4);
const SHAPES: &str = "6+2/256,4+1/256,12+2/256,6+2/64";

/// The pieces of one stripe, which all subjects work on.
struct Pieces {
    data: Vec<Aligned>,
    p: Aligned,
    q: Aligned,
    /// A fresh column, and where lost columns go.
    spare: [Aligned; 2],
}

impl Pieces {
    fn new(columns: usize, len: usize) -> Self {
        let mut state = 1u64;
        let mut random = |_| {
            let mut bytes = Aligned::new(len);
            for byte in bytes.iter_mut() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (state >> 56) as u8;
            }
            bytes
        };
        let [p, q, one, other] = std::array::from_fn(&mut random);
        Self { data: (0..columns).map(random).collect(), p, q, spare: [one, other] }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Task {
    Encode,
    Check,
    Update,
    RecoverOne,
    RecoverTwo,
}

const TASKS: &[Task] = &[Task::Encode, Task::Check, Task::Update, Task::RecoverOne, Task::RecoverTwo];

impl Task {
    fn name(self, parity: usize) -> &'static str {
        match (self, parity) {
            (Self::Encode, 1) => "encode P",
            (Self::Encode, _) => "encode P+Q",
            (Self::Check, _) => "check",
            (Self::Update, _) => "update one column",
            (Self::RecoverOne, _) => "recover one",
            (Self::RecoverTwo, _) => "recover two",
        }
    }

    /// Data bytes, and bytes of all pieces touched.
    fn bytes(self, columns: usize, parity: usize, len: usize) -> (usize, usize) {
        match self {
            Self::Encode | Self::Check => (columns * len, (columns + parity) * len),
            Self::Update => (len, (2 + parity) * len),
            Self::RecoverOne => (columns * len, (columns + 1) * len),
            Self::RecoverTwo => (columns * len, (columns + 2) * len),
        }
    }
}

enum Subject<'a> {
    Ours(Kernel),
    Raid(&'a Isal),
    Erasure { isal: &'a Isal, encode: Tables, recover: Vec<Tables> },
}

/// The columns that recovery has lost.
const LOST: [usize; 2] = [1, 2];

impl<'a> Subject<'a> {
    fn erasure(isal: &'a Isal, columns: usize, parity: usize) -> Self {
        let rows = isal.parity_rows(columns);
        let encode = isal.tables(&rows[..columns * parity], columns);
        let recover = (1..=parity).map(|lost| {
            let mut code: Vec<u8> =
                (0..columns * columns).map(|place| u8::from(place / columns == place % columns)).collect();
            code.extend(&rows);
            let left = (0..columns).filter(|row| !LOST[..lost].contains(row)).chain(columns..columns + lost);
            let left: Vec<u8> = left.flat_map(|row| code[row * columns..(row + 1) * columns].to_vec()).collect();
            let inverse = isal.inverse(&left, columns);
            let wanted: Vec<u8> =
                LOST[..lost].iter().flat_map(|row| inverse[row * columns..(row + 1) * columns].to_vec()).collect();
            isal.tables(&wanted, columns)
        });
        let recover = recover.collect();
        Self::Erasure { isal, encode, recover }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Ours(kernel) => kernel.name(),
            Self::Raid(_) => "ISA-L pq_gen, xor_gen",
            Self::Erasure { .. } => "ISA-L ec_encode_data",
        }
    }

    fn can(&self, task: Task, parity: usize) -> bool {
        let possible = task != Task::RecoverTwo || parity == 2;
        possible
            && match self {
                Self::Ours(_) => true,
                Self::Raid(_) => task == Task::Encode,
                Self::Erasure { .. } => !matches!(task, Task::Update | Task::Check),
            }
    }

    fn run(&self, task: Task, parity: usize, pieces: &mut Pieces) {
        match self {
            Self::Ours(kernel) => ours(*kernel, task, parity, pieces),
            Self::Raid(isal) if parity == 1 => isal.encode_p(&slices(&pieces.data), &mut pieces.p),
            Self::Raid(isal) => isal.encode_pq(&slices(&pieces.data), &mut pieces.p, &mut pieces.q),
            Self::Erasure { isal, encode, recover } => {
                let Pieces { data, p, q, spare: [one, other] } = pieces;
                let lost = match task {
                    Task::RecoverTwo => 2,
                    Task::RecoverOne => 1,
                    _ if parity == 1 => return isal.multiply(encode, &slices(data), &mut [p]),
                    _ => return isal.multiply(encode, &slices(data), &mut [p, q]),
                };
                let kept = data.iter().enumerate().filter(|(column, _)| !LOST[..lost].contains(column));
                let mut sources: Vec<&[u8]> = kept.map(|(_, bytes)| &bytes[..]).collect();
                sources.extend([&p[..], &q[..]].into_iter().take(lost));
                isal.multiply(&recover[lost - 1], &sources, &mut [&mut one[..], &mut other[..]][..lost]);
            }
        }
    }
}

fn slices(data: &[Aligned]) -> Vec<&[u8]> {
    data.iter().map(|bytes| &bytes[..]).collect()
}

fn ours(kernel: Kernel, task: Task, parity: usize, pieces: &mut Pieces) {
    let Pieces { data, p, q, spare: [one, other] } = pieces;
    let given: Vec<_> = data.iter().map(|bytes| Some(&bytes[..])).collect();
    let recover = |lost: &[usize], wanted: &mut [(Piece, &mut [u8])]| {
        let known = |column| if lost.contains(&column) { Column::Lost } else { Column::Bytes(&data[column]) };
        let known: Vec<_> = (0..data.len()).map(known).collect();
        kernel.recover(&Stripe { data: &known, p: Some(p), q: (parity == 2).then_some(&q[..]) }, wanted);
    };
    match task {
        Task::Encode if parity == 1 => kernel.encode_p(&given, p),
        Task::Encode => kernel.encode_pq(&given, p, q),
        Task::Check if parity == 1 => _ = std::hint::black_box(kernel.check_p(&given, p)),
        Task::Check => _ = std::hint::black_box(kernel.check_pq(&given, p, q)),
        Task::RecoverOne => recover(&LOST[..1], &mut [(Piece::Data(LOST[0]), one)]),
        Task::RecoverTwo => recover(&LOST, &mut [(Piece::Data(LOST[0]), one), (Piece::Data(LOST[1]), other)]),
        Task::Update => {
            let change = ColumnUpdate { column: LOST[1], old: given[LOST[1]], new: Some(one) };
            match parity {
                1 => kernel.update_p(&[change], p),
                _ => kernel.update_pq(&[change], p, q),
            }
        }
    }
}

/// Seconds of one call, over a turn.
fn turn(mut call: impl FnMut()) -> f64 {
    call();
    let begin = Instant::now();
    let mut calls = 0;
    loop {
        (0..8).for_each(|_| call());
        calls += 8;
        let taken = begin.elapsed();
        if taken >= TURN {
            return taken.as_secs_f64() / f64::from(calls);
        }
    }
}

fn measure(isal: &Isal, columns: usize, parity: usize, len: usize, rounds: usize) {
    let mut pieces = Pieces::new(columns, len);
    let mut subjects: Vec<_> = Kernel::available().map(Subject::Ours).collect();
    subjects.extend([Subject::Raid(isal), Subject::erasure(isal, columns, parity)]);
    let pairs = TASKS.iter().flat_map(|task| (0..subjects.len()).map(move |subject| (*task, subject)));
    let pairs: Vec<_> = pairs.filter(|(task, subject)| subjects[*subject].can(*task, parity)).collect();
    let mut seconds = vec![Vec::new(); pairs.len()];
    for round in 0..rounds {
        for place in 0..pairs.len() {
            // Each round begins elsewhere.
            let place = (place + round * 5) % pairs.len();
            let (task, subject) = pairs[place];
            // Parity is true at the beginning of each turn, so that what is recovered is the data.
            ours(Kernel::best(), Task::Encode, parity, &mut pieces);
            seconds[place].push(turn(|| subjects[subject].run(task, parity, &mut pieces)));
            if matches!(task, Task::RecoverOne | Task::RecoverTwo) {
                assert!(
                    pieces.spare[0][..] == pieces.data[LOST[0]][..],
                    "{} recovers something else",
                    subjects[subject].name()
                );
            }
        }
    }
    println!("\n{columns}+{parity} at {} KiB, medians of {rounds} rounds:\n", len >> 10);
    println!("| task | subject | GB/s data | GB/s touched | to ISA-L raid | to ISA-L erasure code |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for ((task, subject), taken) in pairs.iter().zip(&seconds) {
        let (data, touched) = task.bytes(columns, parity, len);
        let to = |peer: usize| {
            let peer = pairs.iter().position(|pair| *pair == (*task, peer));
            let ratio = |peer: usize| median(seconds[peer].iter().zip(taken).map(|(peer, taken)| peer / taken));
            peer.map_or("-".to_owned(), |peer| format!("{:.2}", ratio(peer)))
        };
        let rate = |bytes: usize| bytes as f64 / median(taken.iter().copied()) / 1e9;
        let (name, peers) = (subjects[*subject].name(), [subjects.len() - 2, subjects.len() - 1]);
        let [raid, erasure] = peers.map(to);
        println!("| {} | {name} | {:.1} | {:.1} | {raid} | {erasure} |", task.name(parity), rate(data), rate(touched));
    }
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 10 } else { 50 });
    let isal = Isal::load();
    println!("Parity: GB/s on one core; the best kernel here is {}.", Kernel::best().name());
    for shape in text("SHAPES").as_deref().unwrap_or(SHAPES).split(',') {
        let numbers: Vec<usize> = shape.split(['+', '/']).filter_map(|number| number.parse().ok()).collect();
        let [columns, parity @ 1..=2, kib] = numbers[..] else { panic!("SHAPES: '{shape}' is not like 6+2/256") };
        measure(&isal, columns, parity, kib << 10, rounds);
    }
}
