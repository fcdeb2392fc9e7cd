//! P and P+Q over slices; nothing else.
//!
//! A stripe has k data columns, 1 to [`MAX_COLUMNS`], of equal length. With data column i called D_i, over GF(2^8) with
//! the polynomial 0x11D and the generator g = 2:
//!
//! ```text
//!   P = D_0 + D_1 + .. + D_k-1                      XOR; makes any one lost piece good
//!   Q = D_0 + g D_1 + g^2 D_2 + .. + g^(k-1) D_k-1  with P; makes any two lost pieces good
//! ```
//!
//! **That data column i has the constant g^i is part of the on-disk format.** It is what Linux RAID 6 and Intel ISA-L
//! use.
//!
//! Everything is a method of [`Kernel`], which stands for the instructions at hand. No call allocates, locks or fails;
//! slices need no alignment and may have any length, multiples of 256 being the fastest. All work is done in one walk
//! over all pieces at once, a few cache lines at a time, so a caller need not cut long pieces up.
//!
//! ```text
//!   encode · update · recover · locate   what is asked for
//!   pass                                 one walk: two sums, and what is made of them
//!   lanes                                a register of bytes: AVX-512 with GFNI, AVX2 with or without, portable
//!   field                                the arithmetic of single bytes, at build time
//! ```
//!
//! One invariant: every kernel gives the same bytes.

mod encode;
mod field;
mod kernel;
mod lanes;
mod locate;
mod pass;
mod recover;
mod update;

pub use encode::Agreement;
pub use kernel::Kernel;
pub use locate::Fault;
pub use recover::{Column, Piece, Stripe};
pub use update::ColumnUpdate;

/// Data columns of a stripe, at most.
pub const MAX_COLUMNS: usize = 32;
