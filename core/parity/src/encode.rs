//! Parity of a whole stripe: made, and compared with what is there.

use crate::pass::{MAX_SOURCES, Pass, Value};
use crate::{Kernel, MAX_COLUMNS};

const _: () = assert!(MAX_COLUMNS <= MAX_SOURCES);

/// Whether the parity of a stripe is what its data says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// P is.
    pub p: bool,
    /// Q is.
    pub q: bool,
}

impl Agreement {
    /// Both are.
    pub fn is_whole(self) -> bool {
        self.p && self.q
    }
}

/// The data columns as sources, from the highest down.
#[track_caller]
pub(crate) fn add_columns<'a>(pass: &mut Pass<'a, '_>, data: &[Option<&'a [u8]>]) {
    assert!(
        (1..=MAX_COLUMNS).contains(&data.len()),
        "{} data columns; 1 to {MAX_COLUMNS} can be protected",
        data.len()
    );
    for (column, bytes) in data.iter().enumerate().rev() {
        if let Some(bytes) = bytes {
            pass.source(column, bytes);
        }
    }
}

impl Kernel {
    /// Makes P, the XOR of all data columns. `None` is a column of zeros, and costs nothing.
    ///
    /// # Panics
    /// If there are no columns or more than [`MAX_COLUMNS`], or if slices differ in length.
    #[track_caller]
    pub fn encode_p(self, data: &[Option<&[u8]>], p: &mut [u8]) {
        let mut pass = Pass::new(p.len());
        add_columns(&mut pass, data);
        pass.output(p, Value::P, false);
        self.walk(&mut pass);
    }

    /// Makes P, and Q, the sum of g^i times data column i. `None` is a column of zeros, and costs nothing.
    ///
    /// # Panics
    /// As [`Kernel::encode_p`].
    #[track_caller]
    pub fn encode_pq(self, data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
        let mut pass = Pass::new(p.len());
        add_columns(&mut pass, data);
        pass.output(p, Value::P, false);
        pass.output(q, Value::Q, false);
        self.walk(&mut pass);
    }

    /// Whether P is what the data says. Reads everything once, and needs no memory.
    ///
    /// # Panics
    /// As [`Kernel::encode_p`].
    #[track_caller]
    pub fn check_p(self, data: &[Option<&[u8]>], p: &[u8]) -> bool {
        let mut pass = Pass::new(p.len());
        add_columns(&mut pass, data);
        pass.given_p(p);
        !self.walk(&mut pass).p
    }

    /// Whether P and Q are what the data says. Reads everything once, and needs no memory.
    ///
    /// # Panics
    /// As [`Kernel::encode_p`].
    #[track_caller]
    pub fn check_pq(self, data: &[Option<&[u8]>], p: &[u8], q: &[u8]) -> Agreement {
        let mut pass = Pass::new(p.len());
        add_columns(&mut pass, data);
        pass.given_p(p);
        pass.given_q(q);
        let differs = self.walk(&mut pass);
        Agreement { p: !differs.p, q: !differs.q }
    }
}
