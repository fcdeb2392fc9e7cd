//! The wrong piece of a stripe, found by P and Q.

use std::collections::BTreeSet;

use holdfast_parity::{Fault, Kernel, MAX_COLUMNS, Piece};
use proptest::prelude::*;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::reference::{Stripe, kernels, seeded};

fn locate(kernel: Kernel, stripe: &Stripe) -> Fault {
    kernel.locate(&stripe.columns(), &stripe.p, &stripe.q)
}

/// Changes `count` bytes of a piece, each to another value.
fn spoil(stripe: &mut Stripe, piece: Piece, places: &BTreeSet<usize>, random: &mut SmallRng) {
    let bytes: &mut [u8] = match piece {
        Piece::Data(column) => stripe.data[column].as_mut().expect("a column that is there"),
        Piece::P => &mut stripe.p,
        Piece::Q => &mut stripe.q,
    };
    places.iter().for_each(|place| bytes[*place] ^= random.random_range(1..=255u8));
}

/// The pieces of a stripe that can be wrong.
fn pieces(stripe: &Stripe) -> Vec<Piece> {
    let there = (0..stripe.data.len()).filter(|column| stripe.data[*column].is_some());
    there.map(Piece::Data).chain([Piece::P, Piece::Q]).collect()
}

#[test]
fn each_piece_of_the_widest_stripe_is_found_from_one_bit() {
    let mut random = seeded(21);
    for kernel in kernels() {
        for piece in pieces(&Stripe::random(&mut random, MAX_COLUMNS, 1, 0)) {
            let mut stripe = Stripe::random(&mut random, MAX_COLUMNS, 300, 0);
            assert_eq!(locate(kernel, &stripe), Fault::None);
            spoil(&mut stripe, piece, &BTreeSet::from([299]), &mut random);
            assert_eq!(locate(kernel, &stripe), Fault::One(piece), "by {}", kernel.name());
        }
    }
}

#[test]
fn a_column_of_zeros_is_never_at_fault() {
    let mut random = seeded(22);
    let mut stripe = Stripe::random(&mut random, 6, 64, 0);
    spoil(&mut stripe, Piece::Data(3), &BTreeSet::from([7]), &mut random);
    let mut columns = stripe.columns();
    let mut p = stripe.p.clone();
    let mut q = stripe.q.clone();
    columns[3] = None;
    Kernel::PORTABLE.encode_pq(&columns, &mut p, &mut q);
    p[7] ^= 1;
    q[7] ^= 8;
    assert_eq!(Kernel::PORTABLE.locate(&columns, &p, &q), Fault::Several);
    columns[3] = Some(&[0; 64]);
    assert_eq!(Kernel::PORTABLE.locate(&columns, &p, &q), Fault::One(Piece::Data(3)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_wrong_piece_is_reported_and_two_are_not_taken_for_one(
        seed: u64,
        columns in 1..=MAX_COLUMNS,
        len in 40..3000usize,
        zeros in 0..5u32,
        wrong: [prop::sample::Index; 2],
        places in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let mut random = seeded(seed);
        let mut stripe = Stripe::random(&mut random, columns, len, zeros);
        let places = places.into_iter().map(|place| place.index(len)).collect();
        let pieces = pieces(&stripe);
        let [one, other] = wrong.map(|index| *index.get(&pieces));
        spoil(&mut stripe, one, &places, &mut random);
        for kernel in kernels() {
            prop_assert_eq!(locate(kernel, &stripe), Fault::One(one));
        }
        // Bytes enough that no third piece accounts for all of them by chance.
        spoil(&mut stripe, other, &(0..40).collect(), &mut random);
        let found = locate(Kernel::best(), &stripe);
        prop_assert_eq!(found, if one == other { Fault::One(one) } else { Fault::Several });
    }
}
