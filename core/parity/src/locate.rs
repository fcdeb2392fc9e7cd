//! Which piece of a stripe is wrong, found by P and Q.
//!
//! With S the P sum and T the Q sum of all that is there, parity included, and e what was added to the wrong piece:
//!
//! | wrong | S | T |
//! | --- | --- | --- |
//! | nothing | 0 | 0 |
//! | P | e | 0 |
//! | Q | 0 | e |
//! | data column x | e | g^x e |
//!
//! So T / S names the column, and each byte that differs must name the same. Where they do not, or name a column that
//! is not there, more than one piece is wrong.

use crate::encode::{Agreement, add_columns};
use crate::field::exponent;
use crate::pass::{Pass, Value};
use crate::{Kernel, MAX_COLUMNS, Piece};

/// Bytes of the sums that are looked at together.
const WINDOW: usize = 256;

/// What P and Q say of the pieces of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All agree.
    None,
    /// This piece is wrong, if only one is.
    One(Piece),
    /// No one piece accounts for what does not agree.
    Several,
}

impl Kernel {
    /// Which piece of a stripe is wrong. `None` is a column that is known to be zeros, and never at fault.
    ///
    /// # Panics
    /// As [`Kernel::encode_p`].
    #[track_caller]
    pub fn locate(self, data: &[Option<&[u8]>], p: &[u8], q: &[u8]) -> Fault {
        match self.check_pq(data, p, q) {
            Agreement { p: true, q: true } => return Fault::None,
            Agreement { p: false, q: true } => return Fault::One(Piece::P),
            Agreement { p: true, q: false } => return Fault::One(Piece::Q),
            Agreement { p: false, q: false } => {}
        }
        let mut named = None;
        for start in (0..p.len()).step_by(WINDOW) {
            let window = start..p.len().min(start + WINDOW);
            let mut columns: [Option<&[u8]>; MAX_COLUMNS] = [None; MAX_COLUMNS];
            for (into, column) in columns.iter_mut().zip(data) {
                *into = column.map(|bytes| &bytes[window.clone()]);
            }
            let mut sums = [[0; WINDOW]; 2];
            let [p_sum, q_sum] = sums.each_mut().map(|sum| &mut sum[..window.len()]);
            let mut pass = Pass::new(window.len());
            add_columns(&mut pass, &columns[..data.len()]);
            pass.given_p(&p[window.clone()]);
            pass.given_q(&q[window]);
            pass.output(p_sum, Value::P, false);
            pass.output(q_sum, Value::Q, false);
            self.walk(&mut pass);
            for (p_byte, q_byte) in sums[0].into_iter().zip(sums[1]).filter(|sums| *sums != (0, 0)) {
                if p_byte == 0 || q_byte == 0 {
                    return Fault::Several;
                }
                let column = exponent(q_byte, p_byte);
                if *named.get_or_insert(column) != column {
                    return Fault::Several;
                }
            }
        }
        match named {
            Some(column) if data.get(column).is_some_and(Option::is_some) => Fault::One(Piece::Data(column)),
            _ => Fault::Several,
        }
    }
}
