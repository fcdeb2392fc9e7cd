//! Pieces that are lost, made again from those that are left.
//!
//! With x and y lost, S the P sum and T the Q sum of what is left, parity included:
//!
//! | lost | from | so |
//! | --- | --- | --- |
//! | x | P | x = S |
//! | x and P | Q | x = g^-x T |
//! | x and y | P and Q | x = (g^y S + T) / (g^x + g^y), and y the same way round |
//!
//! A lost P or Q is then the sum of the data, which is S or T with the share of the lost column.

use crate::field::{Factor, power, quotient};
use crate::pass::{Pass, Value};
use crate::{Kernel, MAX_COLUMNS};

/// What is known of one data column.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// That it holds zeros; a column that was never written is known even where its disk is lost.
    Zeros,
    /// Nothing.
    Lost,
}

/// One piece of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// The data column of this index.
    Data(usize),
    /// The XOR.
    P,
    /// The weighted sum.
    Q,
}

/// What is left of a stripe.
#[derive(Clone, Copy, Debug)]
pub struct Stripe<'a> {
    /// All data columns, 1 to [`MAX_COLUMNS`].
    pub data: &'a [Column<'a>],
    /// P, unless it is lost.
    pub p: Option<&'a [u8]>,
    /// Q, unless it is lost or the layout has none.
    pub q: Option<&'a [u8]>,
}

impl Stripe<'_> {
    fn lost(&self) -> impl Iterator<Item = usize> {
        self.data.iter().enumerate().filter(|(_, column)| matches!(column, Column::Lost)).map(|(index, _)| index)
    }

    /// Whether every piece can be made again: no more data columns are lost than parity is left.
    pub fn is_recoverable(&self) -> bool {
        self.lost().count() <= usize::from(self.p.is_some()) + usize::from(self.q.is_some())
    }
}

/// What the sums of what is left say about the lost data columns.
#[derive(Clone, Copy)]
enum Lost {
    /// There are none.
    None,
    /// One, and P is there.
    ByP(usize),
    /// One, and P is not.
    ByQ(usize),
    /// Two, and so are P and Q.
    Two(usize, usize),
}

impl Lost {
    #[track_caller]
    fn of(stripe: &Stripe) -> Self {
        let mut lost = stripe.lost();
        match (lost.next(), lost.next(), lost.next(), stripe.p.is_some(), stripe.q.is_some()) {
            (None, ..) => Self::None,
            (Some(x), None, _, true, _) => Self::ByP(x),
            (Some(x), None, _, false, true) => Self::ByQ(x),
            (Some(x), Some(y), None, true, true) => Self::Two(x, y),
            _ => panic!("more data columns are lost than parity is left"),
        }
    }

    /// How to make `piece` from the P sum and the Q sum of what is left.
    #[track_caller]
    fn value(self, piece: Piece) -> Value {
        let one = Factor::power(0);
        let over = |exponent, x, y| Factor::of(quotient(power(exponent), power(x) ^ power(y)));
        let inverse = |exponent| Factor::of(quotient(1, power(exponent)));
        match (self, piece) {
            (Self::None, Piece::P) => Value::P,
            (Self::None, Piece::Q) => Value::Q,
            (Self::ByP(x), Piece::Data(wanted)) if wanted == x => Value::P,
            (Self::ByP(x), Piece::Q) => Value::Both(Factor::power(x), one),
            (Self::ByQ(x), Piece::Data(wanted)) if wanted == x => Value::Both(Factor::of(0), inverse(x)),
            (Self::ByQ(x), Piece::P) => Value::Both(one, inverse(x)),
            (Self::Two(x, y), Piece::Data(wanted)) if wanted == x => Value::Both(over(y, x, y), over(0, x, y)),
            (Self::Two(x, y), Piece::Data(wanted)) if wanted == y => Value::Both(over(x, x, y), over(0, x, y)),
            (_, piece) => panic!("{piece:?} is wanted and not lost"),
        }
    }
}

impl Kernel {
    /// Makes the `wanted` pieces of a stripe that lost up to two, in one walk. Lost pieces that nobody wants are not
    /// made.
    ///
    /// # Panics
    /// If more is lost than parity is left ([`Stripe::is_recoverable`]), if a wanted piece is not lost or more than two
    /// are wanted, if there are no columns or more than [`MAX_COLUMNS`], or if slices differ in length.
    #[track_caller]
    pub fn recover(self, stripe: &Stripe, wanted: &mut [(Piece, &mut [u8])]) {
        let columns = stripe.data.len();
        assert!((1..=MAX_COLUMNS).contains(&columns), "{columns} data columns; 1 to {MAX_COLUMNS} can be protected");
        let lost = Lost::of(stripe);
        let Some(len) = wanted.first().map(|(_, into)| into.len()) else { return };
        let mut pass = Pass::new(len);
        for (column, known) in stripe.data.iter().enumerate().rev() {
            if let Column::Bytes(bytes) = known {
                pass.source(column, bytes);
            }
        }
        // Of a parity that is there and not needed the walk keeps off.
        if let (Lost::ByP(_) | Lost::Two(..), Some(p)) = (lost, stripe.p) {
            pass.given_p(p);
        }
        if let (Lost::ByQ(_) | Lost::Two(..), Some(q)) = (lost, stripe.q) {
            pass.given_q(q);
        }
        let both = matches!((lost, &*wanted), (Lost::Two(..), [(one, _), (other, _)]) if one != other);
        for (place, (piece, into)) in wanted.iter_mut().enumerate() {
            let is_lost = match piece {
                Piece::P => stripe.p.is_none(),
                Piece::Q => stripe.q.is_none(),
                Piece::Data(_) => true,
            };
            assert!(is_lost, "{piece:?} is wanted and not lost");
            let value = lost.value(*piece);
            // Of two lost columns the second is what the first leaves of their sum.
            pass.output(into, if both && place == 1 { Value::Rest } else { value }, false);
        }
        self.walk(&mut pass);
    }
}
