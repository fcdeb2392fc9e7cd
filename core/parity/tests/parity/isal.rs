//! Bit for bit what Intel ISA-L makes, by its RAID functions and by its general erasure code.

use holdfast_parity::{Column, Piece, Stripe};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore};

use crate::oracle::{ALIGN_BYTES, Aligned, Isal};
use crate::reference::{kernels, seeded};

const ROUNDS: usize = 400;

fn random_columns(random: &mut SmallRng, columns: usize, len: usize) -> Vec<Aligned> {
    let column = |_| {
        let mut bytes = Aligned::new(len);
        random.fill_bytes(&mut bytes);
        bytes
    };
    (0..columns).map(column).collect()
}

fn slices(data: &[Aligned]) -> Vec<&[u8]> {
    data.iter().map(|bytes| &bytes[..]).collect()
}

#[test]
fn parity_is_that_of_its_raid_functions() {
    let isal = Isal::load();
    let mut random = seeded(21);
    for _ in 0..ROUNDS {
        let (columns, len) = (random.random_range(2..=32), ALIGN_BYTES * random.random_range(1..200));
        let data = random_columns(&mut random, columns, len);
        let (mut p_alone, mut p, mut q) = (Aligned::new(len), Aligned::new(len), Aligned::new(len));
        isal.encode_p(&slices(&data), &mut p_alone);
        isal.encode_pq(&slices(&data), &mut p, &mut q);
        let given: Vec<_> = slices(&data).into_iter().map(Some).collect();
        for kernel in kernels() {
            let (mut our_p, mut our_q) = (vec![0; len], vec![0; len]);
            kernel.encode_p(&given, &mut our_p);
            assert!(our_p[..] == p_alone[..], "P of {columns} columns of {len} by {}", kernel.name());
            kernel.encode_pq(&given, &mut our_p, &mut our_q);
            assert!(our_p[..] == p[..] && our_q[..] == q[..], "{columns} columns of {len} by {}", kernel.name());
        }
    }
}

#[test]
fn parity_is_that_of_its_erasure_code() {
    let isal = Isal::load();
    let mut random = seeded(22);
    for _ in 0..ROUNDS {
        let (columns, len) = (random.random_range(1..=32), random.random_range(1..10_000));
        let data = random_columns(&mut random, columns, len);
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        let tables = isal.tables(&isal.parity_rows(columns), columns);
        isal.multiply(&tables, &slices(&data), &mut [&mut p, &mut q]);
        let given: Vec<_> = slices(&data).into_iter().map(Some).collect();
        for kernel in kernels() {
            let (mut our_p, mut our_q) = (vec![0; len], vec![0; len]);
            kernel.encode_pq(&given, &mut our_p, &mut our_q);
            assert!(our_p == p && our_q == q, "{columns} columns of {len} by {}", kernel.name());
        }
    }
}

/// Rows that make each lost data column of what is left, by its own inversion: `left` names the rows of the code that
/// are left.
fn recovery_rows(isal: &Isal, columns: usize, left: &[usize], lost: &[usize]) -> Vec<u8> {
    let mut code: Vec<u8> = (0..columns * columns).map(|place| u8::from(place / columns == place % columns)).collect();
    code.extend(isal.parity_rows(columns));
    let rows: Vec<u8> = left.iter().flat_map(|row| code[row * columns..(row + 1) * columns].iter().copied()).collect();
    let inverse = isal.inverse(&rows, columns);
    lost.iter().flat_map(|row| inverse[row * columns..(row + 1) * columns].iter().copied()).collect()
}

#[test]
fn what_is_lost_is_made_as_its_erasure_code_makes_it() {
    let isal = Isal::load();
    let mut random = seeded(23);
    for _ in 0..ROUNDS {
        let (columns, len) = (random.random_range(2..=32), random.random_range(1..6_000));
        // Any bytes will do as P and Q: what is compared is the arithmetic, not that it comes true.
        let pieces = random_columns(&mut random, columns + 2, len);
        let (p, q) = (&pieces[columns][..], &pieces[columns + 1][..]);
        let mut lost: Vec<usize> = (0..random.random_range(1..=2)).map(|_| random.random_range(0..columns)).collect();
        lost.sort_unstable();
        lost.dedup();
        // Of one lost column, at times by Q.
        let by_q = lost.len() == 1 && random.random_bool(0.5);
        let mut left: Vec<usize> = (0..columns).filter(|row| !lost.contains(row)).collect();
        left.extend(if by_q { columns + 1..columns + 2 } else { columns..columns + lost.len() });
        let tables = isal.tables(&recovery_rows(&isal, columns, &left, &lost), columns);
        let sources: Vec<&[u8]> = left.iter().map(|row| &pieces[*row][..]).collect();
        let mut theirs = vec![vec![0; len]; lost.len()];
        isal.multiply(&tables, &sources, &mut theirs.iter_mut().map(|bytes| &mut bytes[..]).collect::<Vec<_>>());

        let known = |row: usize| if lost.contains(&row) { Column::Lost } else { Column::Bytes(&pieces[row]) };
        let data: Vec<_> = (0..columns).map(known).collect();
        let stripe = Stripe { data: &data, p: (!by_q).then_some(p), q: Some(q) };
        for kernel in kernels() {
            let mut ours = vec![vec![0; len]; lost.len()];
            let wanted = lost.iter().zip(&mut ours).map(|(row, bytes)| (Piece::Data(*row), &mut bytes[..]));
            kernel.recover(&stripe, &mut wanted.collect::<Vec<_>>());
            assert!(ours == theirs, "{lost:?} of {columns} columns of {len} by {}, by Q: {by_q}", kernel.name());
        }
    }
}
