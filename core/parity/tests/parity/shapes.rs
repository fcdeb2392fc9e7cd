//! Every shape: column counts, lengths, columns of zeros, and every loss of one or two pieces.

use holdfast_parity::{Column, ColumnUpdate, Kernel, MAX_COLUMNS, Piece, Stripe as Left};
use proptest::prelude::*;
use rand::Rng;

use crate::reference::{Bytes, LENGTHS, Stripe, kernels, seeded};

/// Where a test would take hours byte by byte, it takes fewer.
const COLUMNS: &[usize] = if cfg!(miri) { &[1, 2, 5, 32] } else { &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 31, 32] };

fn lengths() -> impl Iterator<Item = usize> {
    LENGTHS.iter().copied().filter(|len| !cfg!(miri) || *len <= 127)
}

fn encodes(kernel: Kernel, stripe: &Stripe) {
    let len = stripe.p.len();
    let shape = format!("{} of {} columns of {len}", kernel.name(), stripe.data.len());
    let (mut p, mut q) = (vec![0xA5; len], vec![0x5A; len]);
    kernel.encode_p(&stripe.columns(), &mut p);
    assert!(p == stripe.p, "P by {shape}");
    p.fill(0xA5);
    kernel.encode_pq(&stripe.columns(), &mut p, &mut q);
    assert!(p == stripe.p && q == stripe.q, "P and Q by {shape}");
    assert!(kernel.check_p(&stripe.columns(), &p), "check of P by {shape}");
    assert!(kernel.check_pq(&stripe.columns(), &p, &q).is_whole(), "check of P and Q by {shape}");
}

#[test]
fn every_kernel_encodes_like_the_reference() {
    let mut random = seeded(1);
    for kernel in kernels() {
        for &columns in COLUMNS {
            for len in lengths() {
                for zeros in [0, 3] {
                    encodes(kernel, &Stripe::random(&mut random, columns, len, zeros));
                }
            }
        }
    }
}

#[test]
fn a_stripe_of_zeros_alone_has_parity_of_zeros() {
    for kernel in kernels() {
        let (mut p, mut q) = (vec![1; 333], vec![2; 333]);
        kernel.encode_pq(&[None; 7], &mut p, &mut q);
        assert!(p.iter().chain(&q).all(|byte| *byte == 0), "{}", kernel.name());
        assert!(kernel.check_pq(&[None; 7], &p, &q).is_whole());
    }
}

/// Removes `lost` from the stripe and has every subset of it made again.
fn recovers(kernel: Kernel, stripe: &Stripe, lost: &[Piece]) {
    let column = |index: usize| match &stripe.data[index] {
        _ if lost.contains(&Piece::Data(index)) => Column::Lost,
        Some(bytes) => Column::Bytes(bytes),
        None => Column::Zeros,
    };
    let columns: Vec<_> = (0..stripe.data.len()).map(column).collect();
    let left = Left {
        data: &columns,
        p: (!lost.contains(&Piece::P)).then_some(&stripe.p[..]),
        q: (!lost.contains(&Piece::Q)).then_some(&stripe.q[..]),
    };
    assert!(left.is_recoverable());
    let expected = |piece: &Piece| match *piece {
        Piece::Data(column) => stripe.bytes(column),
        Piece::P => stripe.p.clone(),
        Piece::Q => stripe.q.clone(),
    };
    for subset in 1..1 << lost.len() {
        let pieces: Vec<_> = (0..lost.len()).filter(|one| subset >> one & 1 == 1).map(|one| lost[one]).collect();
        let mut memory: Vec<_> = pieces.iter().map(|_| vec![0xEE; stripe.p.len()]).collect();
        let mut wanted: Vec<_> = pieces.iter().copied().zip(memory.iter_mut().map(|bytes| &mut bytes[..])).collect();
        kernel.recover(&left, &mut wanted);
        for (piece, bytes) in &wanted {
            assert!(bytes[..] == expected(piece), "{piece:?} of {pieces:?} of lost {lost:?} by {}", kernel.name());
        }
    }
}

#[test]
fn every_loss_of_one_or_two_is_made_good() {
    let mut random = seeded(2);
    for kernel in kernels() {
        for columns in (1..=MAX_COLUMNS).filter(|columns| !cfg!(miri) || COLUMNS[..3].contains(columns)) {
            for zeros in [0, 3] {
                let len = random.random_range(1..400);
                let stripe = Stripe::random(&mut random, columns, len, zeros);
                let mut pieces: Vec<_> = (0..columns).map(Piece::Data).collect();
                pieces.extend([Piece::P, Piece::Q]);
                for (place, &one) in pieces.iter().enumerate() {
                    recovers(kernel, &stripe, &[one]);
                    for &other in &pieces[place + 1..] {
                        recovers(kernel, &stripe, &[one, other]);
                    }
                }
            }
        }
    }
}

#[test]
fn long_and_odd_pieces_are_made_good() {
    let mut random = seeded(3);
    for kernel in kernels() {
        for len in lengths() {
            let stripe = Stripe::random(&mut random, 6, len, 0);
            for lost in [
                [Piece::Data(1), Piece::Data(4)],
                [Piece::Data(5), Piece::Data(0)],
                [Piece::P, Piece::Data(3)],
                [Piece::Data(2), Piece::Q],
                [Piece::P, Piece::Q],
            ] {
                recovers(kernel, &stripe, &lost);
            }
        }
    }
}

#[test]
fn with_p_alone_any_one_piece_is_made_good() {
    let mut random = seeded(4);
    for kernel in kernels() {
        let stripe = Stripe::random(&mut random, 9, 777, 4);
        for lost in 0..9 {
            let columns = stripe.columns();
            let known = |column: usize| {
                if column == lost { Column::Lost } else { columns[column].map_or(Column::Zeros, Column::Bytes) }
            };
            let known: Vec<_> = (0..9).map(known).collect();
            let mut made = vec![0; 777];
            let left = Left { data: &known, p: Some(&stripe.p), q: None };
            kernel.recover(&left, &mut [(Piece::Data(lost), &mut made)]);
            assert!(made == stripe.bytes(lost), "{lost} by {}", kernel.name());
        }
    }
}

fn updates(kernel: Kernel, stripe: &Stripe, seed: u64, changed: usize) {
    let mut random = seeded(seed);
    let len = stripe.p.len();
    let fresh = Stripe::random(&mut random, stripe.data.len(), len, 4);
    let mut order: Vec<_> = (0..stripe.data.len()).collect();
    (0..order.len()).for_each(|place| order.swap(place, random.random_range(place..stripe.data.len())));
    order.truncate(changed);
    let (old, new) = (stripe.columns(), fresh.columns());
    let changes: Vec<_> =
        order.iter().map(|&column| ColumnUpdate { column, old: old[column], new: new[column] }).collect();
    let (mut p, mut q, mut p_alone) = (stripe.p.clone(), stripe.q.clone(), stripe.p.clone());
    kernel.update_pq(&changes, &mut p, &mut q);
    kernel.update_p(&changes, &mut p_alone);
    let after: Vec<_> =
        (0..old.len()).map(|column| if order.contains(&column) { new[column] } else { old[column] }).collect();
    let (mut expected_p, mut expected_q) = (vec![0; len], vec![0; len]);
    Kernel::PORTABLE.encode_pq(&after, &mut expected_p, &mut expected_q);
    assert!(p == expected_p && q == expected_q && p_alone == expected_p, "{changes:?} by {}", kernel.name());
}

#[test]
fn an_update_is_a_new_encoding() {
    let mut random = seeded(5);
    for kernel in kernels() {
        for &columns in COLUMNS {
            for len in lengths().filter(|len| *len <= 4096) {
                let changed = random.random_range(0..=columns);
                updates(kernel, &Stripe::random(&mut random, columns, len, 4), random.random(), changed);
            }
            updates(kernel, &Stripe::random(&mut random, columns, 99, 4), 6, columns);
        }
    }
}

#[test]
fn a_difference_is_an_update_too() {
    let mut random = seeded(7);
    for kernel in kernels() {
        let stripe = Stripe::random(&mut random, 5, 500, 0);
        let fresh = Bytes::random(&mut random, 500);
        let mut difference = stripe.bytes(3);
        kernel.xor_into(&mut difference, &fresh);
        let both = ColumnUpdate { column: 3, old: stripe.columns()[3], new: Some(&fresh) };
        let alone = ColumnUpdate { column: 3, old: None, new: Some(&difference) };
        let made = [both, alone].map(|change| {
            let (mut p, mut q) = (stripe.p.clone(), stripe.q.clone());
            kernel.update_pq(&[change], &mut p, &mut q);
            (p, q)
        });
        assert!(made[0] == made[1] && made[0].1 != stripe.q);
    }
}

#[test]
fn one_wrong_bit_anywhere_is_found() {
    let mut random = seeded(8);
    for kernel in kernels() {
        for len in lengths().filter(|len| (1..=4096).contains(len)) {
            let mut stripe = Stripe::random(&mut random, 4, len, 0);
            let (place, bit) = (random.random_range(0..len), 1 << random.random_range(0..8));
            for wrong in [Piece::P, Piece::Q, Piece::Data(2)] {
                let mut flip = || match wrong {
                    Piece::Data(column) => stripe.data[column].as_mut().expect("no zeros")[place] ^= bit,
                    Piece::P => stripe.p[place] ^= bit,
                    Piece::Q => stripe.q[place] ^= bit,
                };
                flip();
                let agreement = kernel.check_pq(&stripe.columns(), &stripe.p, &stripe.q);
                assert_eq!(
                    (agreement.p, agreement.q),
                    (wrong == Piece::Q, wrong == Piece::P),
                    "{wrong:?} by {}",
                    kernel.name()
                );
                assert_eq!(kernel.check_p(&stripe.columns(), &stripe.p), wrong == Piece::Q);
                match wrong {
                    Piece::Data(column) => stripe.data[column].as_mut().expect("no zeros")[place] ^= bit,
                    Piece::P => stripe.p[place] ^= bit,
                    Piece::Q => stripe.q[place] ^= bit,
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stripe_at_any_address(seed: u64, columns in 1..=MAX_COLUMNS, len in 0..3000usize, zeros in 0..5u32, lost: [prop::sample::Index; 2]) {
        let stripe = Stripe::random(&mut seeded(seed), columns, len, zeros);
        let piece = |index: usize| match index {
            0 => Piece::P,
            1 => Piece::Q,
            _ => Piece::Data(index - 2),
        };
        let [one, other] = lost.map(|lost| lost.index(columns + 2));
        let lost: Vec<_> = [one, other][..if one == other { 1 } else { 2 }].iter().map(|index| piece(*index)).collect();
        for kernel in kernels() {
            encodes(kernel, &stripe);
            recovers(kernel, &stripe, &lost);
            updates(kernel, &stripe, seed, columns.div_ceil(2));
        }
    }
}
