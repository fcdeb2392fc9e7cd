//! Mistakes of callers, which are refused before a byte is touched.

use holdfast_parity::{Column, ColumnUpdate, Kernel, MAX_COLUMNS, Piece, Stripe};

const KERNEL: Kernel = Kernel::PORTABLE;

#[test]
#[should_panic(expected = "one length")]
fn columns_of_different_lengths() {
    KERNEL.encode_p(&[Some(&[0; 64]), Some(&[0; 63])], &mut [0; 64]);
}

#[test]
#[should_panic(expected = "one length")]
fn parity_of_another_length() {
    KERNEL.encode_pq(&[Some(&[0; 64])], &mut [0; 64], &mut [0; 65]);
}

#[test]
#[should_panic(expected = "one length")]
fn parity_to_check_of_another_length() {
    KERNEL.check_pq(&[None], &[0; 64], &[0; 65]);
}

#[test]
#[should_panic(expected = "0 data columns")]
fn no_columns() {
    KERNEL.encode_p(&[], &mut [0; 64]);
}

#[test]
#[should_panic(expected = "33 data columns")]
fn too_many_columns() {
    KERNEL.encode_p(&[None; MAX_COLUMNS + 1], &mut [0; 64]);
}

#[test]
#[should_panic(expected = "data column 32")]
fn a_change_beyond_the_last_column() {
    KERNEL.update_p(&[ColumnUpdate { column: MAX_COLUMNS, old: None, new: None }], &mut [0; 64]);
}

#[test]
#[should_panic(expected = "one length")]
fn a_sum_of_different_lengths() {
    KERNEL.xor_into(&mut [0; 64], &[0; 128]);
}

#[test]
#[should_panic(expected = "than parity is left")]
fn three_lost() {
    let stripe = Stripe { data: &[Column::Lost, Column::Lost, Column::Lost], p: Some(&[0; 8]), q: Some(&[0; 8]) };
    assert!(!stripe.is_recoverable());
    KERNEL.recover(&stripe, &mut [(Piece::Data(0), &mut [0; 8])]);
}

#[test]
#[should_panic(expected = "than parity is left")]
fn two_lost_with_p_alone() {
    let stripe = Stripe { data: &[Column::Lost, Column::Lost, Column::Zeros], p: Some(&[0; 8]), q: None };
    assert!(!stripe.is_recoverable());
    KERNEL.recover(&stripe, &mut [(Piece::Data(0), &mut [0; 8])]);
}

#[test]
#[should_panic(expected = "Data(1) is wanted and not lost")]
fn a_wanted_column_that_is_there() {
    let stripe = Stripe { data: &[Column::Lost, Column::Zeros], p: Some(&[0; 8]), q: None };
    KERNEL.recover(&stripe, &mut [(Piece::Data(1), &mut [0; 8])]);
}

#[test]
#[should_panic(expected = "P is wanted and not lost")]
fn a_wanted_parity_that_is_there() {
    let stripe = Stripe { data: &[Column::Zeros, Column::Zeros], p: Some(&[0; 8]), q: None };
    KERNEL.recover(&stripe, &mut [(Piece::P, &mut [0; 8])]);
}

#[test]
fn nothing_wanted_is_nothing_done() {
    for kernel in Kernel::available() {
        let (mut p, mut q) = ([7; 200], [9; 200]);
        kernel.recover(&Stripe { data: &[Column::Lost], p: Some(&p), q: None }, &mut []);
        kernel.update_pq(&[], &mut p, &mut q);
        kernel.update_p(&[], &mut p);
        assert_eq!((p, q), ([7; 200], [9; 200]), "{}", kernel.name());
    }
}

#[test]
fn the_best_kernel_comes_first_and_the_portable_one_last() {
    let kernels: Vec<_> = Kernel::available().collect();
    assert_eq!((kernels.first(), kernels.last()), (Some(&Kernel::best()), Some(&Kernel::PORTABLE)));
}
