//! One walk over pieces of equal length, which is all that encoding, updating, checking and recovering are.
//!
//! At each place the walk forms two sums in registers over several cache lines, and makes from them what is wanted
//! before it goes on. Every byte is read once and written once, and nothing lies in between.
//!
//! ```text
//!   P sum  =  sum of the sources               (+ a given P)
//!   Q sum  =  sum of g^exponent * source       (+ a given Q)
//!   output =  P sum | Q sum | a * P sum + b * Q sum,    set or added;  without outputs the sums are compared with zero
//! ```
//!
//! Invariant: all slices of a [`Pass`] have its length. The places that add one see to it.

use crate::field::Factor;
use crate::lanes::{Lanes, MAX_LANES_BYTES};

/// Sources of a pass, at most.
pub(crate) const MAX_SOURCES: usize = 32;

#[derive(Clone, Copy)]
struct Source<'a> {
    bytes: &'a [u8],
    exponent: usize,
    factor: &'static Factor,
}

/// What an output is made of.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    /// The P sum.
    P,
    /// The Q sum.
    Q,
    /// The one times the first constant plus the other times the second.
    Both(&'static Factor, &'static Factor),
    /// The P sum without the output before.
    Rest,
}

impl Value {
    #[inline(always)]
    fn of<V: Lanes, const N: usize>(self, p: [V; N], q: [V; N], before: [V; N]) -> [V; N] {
        let mut value = before;
        match self {
            Self::P => value = p,
            Self::Q => value = q,
            Self::Both(a, b) => {
                for i in 0..N {
                    value[i] = p[i].mixed(a, q[i], b);
                }
            }
            Self::Rest => {
                for i in 0..N {
                    value[i] = p[i].plus(before[i]);
                }
            }
        }
        value
    }
}

struct Output<'a> {
    into: &'a mut [u8],
    value: Value,
    add: bool,
}

impl Output<'_> {
    /// # Safety
    /// As for [`Pass::step`].
    #[inline(always)]
    unsafe fn put<V: Lanes, const N: usize, const RAGGED: bool>(&mut self, mut value: [V; N], at: usize) {
        // SAFETY: as for `step`.
        unsafe {
            if self.add {
                for (i, value) in value.iter_mut().enumerate() {
                    *value = value.plus(load::<V, RAGGED>(self.into, at + i * V::BYTES));
                }
            }
            for (i, value) in value.into_iter().enumerate() {
                store::<V, RAGGED>(value, self.into, at + i * V::BYTES);
            }
        }
    }
}

/// Which of the two sums were not zero everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differs {
    pub(crate) p: bool,
    pub(crate) q: bool,
}

/// What one walk reads and writes.
pub(crate) struct Pass<'a, 'o> {
    len: usize,
    sources: [Source<'a>; MAX_SOURCES],
    count: usize,
    p: Option<&'a [u8]>,
    q: Option<&'a [u8]>,
    outputs: [Option<Output<'o>>; 2],
}

impl<'a, 'o> Pass<'a, 'o> {
    /// A walk over `len` bytes of nothing yet.
    pub(crate) fn new(len: usize) -> Self {
        let none = Source { bytes: &[], exponent: 0, factor: Factor::power(0) };
        Self { len, sources: [none; MAX_SOURCES], count: 0, p: None, q: None, outputs: [None, None] }
    }

    #[track_caller]
    fn of_length(&self, len: usize) {
        assert_eq!(len, self.len, "pieces of one stripe have one length");
    }

    /// Adds a source. Exponents come from the highest to the lowest, and may repeat.
    #[track_caller]
    pub(crate) fn source(&mut self, exponent: usize, bytes: &'a [u8]) {
        self.of_length(bytes.len());
        assert!(self.count < MAX_SOURCES, "more than {MAX_SOURCES} sources");
        debug_assert!(
            self.count == 0 || self.sources[self.count - 1].exponent >= exponent,
            "from the highest to the lowest"
        );
        self.sources[self.count] = Source { bytes, exponent, factor: Factor::power(exponent) };
        self.count += 1;
    }

    /// Adds a given P to the P sum.
    #[track_caller]
    pub(crate) fn given_p(&mut self, p: &'a [u8]) {
        self.of_length(p.len());
        self.p = Some(p);
    }

    /// Adds a given Q to the Q sum.
    #[track_caller]
    pub(crate) fn given_q(&mut self, q: &'a [u8]) {
        self.of_length(q.len());
        self.q = Some(q);
    }

    /// Asks for an output, the first or the second; with `add` it is added to what is there.
    #[track_caller]
    pub(crate) fn output(&mut self, into: &'o mut [u8], value: Value, add: bool) {
        self.of_length(into.len());
        let free = self.outputs.iter_mut().find(|output| output.is_none()).expect("a pass has two outputs at most");
        *free = Some(Output { into, value, add });
    }

    fn sources(&self) -> &[Source<'a>] {
        &self.sources[..self.count]
    }

    fn needs_q(&self) -> bool {
        self.q.is_some() || self.outputs.iter().flatten().any(|output| !matches!(output.value, Value::P))
    }

    /// Walks, `N` registers at a time.
    ///
    /// # Safety
    /// The processor has what `V` needs.
    #[inline(always)]
    pub(crate) unsafe fn walk<V: Lanes, const N: usize>(&mut self) -> Differs {
        // SAFETY: the caller vouches for the processor.
        unsafe { if self.needs_q() { self.walk_sums::<V, N, true>() } else { self.walk_sums::<V, N, false>() } }
    }

    /// # Safety
    /// As for [`Pass::walk`].
    #[inline(always)]
    unsafe fn walk_sums<V: Lanes, const N: usize, const Q: bool>(&mut self) -> Differs {
        // SAFETY: the caller vouches for the processor; each step lies within the length.
        unsafe {
            let mut left = [V::zero(); 2];
            // Taken out, so that the compiler knows them unchanged by what is written.
            let mut outputs = std::mem::take(&mut self.outputs);
            let mut at = 0;
            while self.len - at >= N * V::BYTES {
                self.step::<V, N, Q, false>(at, &mut outputs, &mut left);
                at += N * V::BYTES;
            }
            while self.len - at >= V::BYTES {
                self.step::<V, 1, Q, false>(at, &mut outputs, &mut left);
                at += V::BYTES;
            }
            if at < self.len {
                self.step::<V, 1, Q, true>(at, &mut outputs, &mut left);
            }
            Differs { p: !left[0].is_zero(), q: !left[1].is_zero() }
        }
    }

    /// One step: `N` registers from `at`, or with `RAGGED` what is left there, which is less than one register.
    ///
    /// # Safety
    /// The processor has what `V` needs; without `RAGGED` the step lies within the length, with it `at` does.
    #[inline(always)]
    unsafe fn step<V: Lanes, const N: usize, const Q: bool, const RAGGED: bool>(
        &self,
        at: usize,
        outputs: &mut [Option<Output>; 2],
        left: &mut [V; 2],
    ) {
        // SAFETY: all slices have the length of the pass, of which the caller keeps within.
        unsafe {
            let (mut p, mut q) = if V::CHEAP_PRODUCT {
                self.sums_by_products::<V, N, Q, RAGGED>(at)
            } else {
                self.sums_by_doubling::<V, N, Q, RAGGED>(at)
            };
            // Plain loops: a closure would not be sure to run with the processor's features.
            if let Some(given) = self.p {
                for (i, p) in p.iter_mut().enumerate() {
                    *p = p.plus(load::<V, RAGGED>(given, at + i * V::BYTES));
                }
            }
            if Q && let Some(given) = self.q {
                for (i, q) in q.iter_mut().enumerate() {
                    *q = q.plus(load::<V, RAGGED>(given, at + i * V::BYTES));
                }
            }
            let [first, second] = outputs;
            let Some(first) = first else {
                for i in 0..N {
                    *left = [left[0].or(p[i]), left[1].or(q[i])];
                }
                return;
            };
            let value = first.value.of(p, q, p);
            first.put::<V, N, RAGGED>(value, at);
            if let Some(second) = second {
                second.put::<V, N, RAGGED>(second.value.of(p, q, value), at);
            }
        }
    }

    /// Both sums where a product is cheap: each source times its constant, two sources at a time.
    ///
    /// # Safety
    /// As for [`Pass::step`].
    #[inline(always)]
    unsafe fn sums_by_products<V: Lanes, const N: usize, const Q: bool, const RAGGED: bool>(
        &self,
        at: usize,
    ) -> ([V; N], [V; N]) {
        // SAFETY: as for `step`.
        unsafe {
            let (mut p, mut q) = ([V::zero(); N], [V::zero(); N]);
            let (pairs, single) = self.sources().as_chunks::<2>();
            for [one, other] in pairs {
                for i in 0..N {
                    let place = at + i * V::BYTES;
                    let bytes = [load::<V, RAGGED>(one.bytes, place), load::<V, RAGGED>(other.bytes, place)];
                    p[i] = p[i].plus_both(bytes[0], bytes[1]);
                    if Q {
                        q[i] = q[i].plus_both(bytes[0].times(one.factor), bytes[1].times(other.factor));
                    }
                }
            }
            for source in single {
                for i in 0..N {
                    let bytes = load::<V, RAGGED>(source.bytes, at + i * V::BYTES);
                    p[i] = p[i].plus(bytes);
                    if Q {
                        q[i] = q[i].plus(bytes.times(source.factor));
                    }
                }
            }
            (p, q)
        }
    }

    /// Both sums where only doubling is cheap: from the highest exponent down, the Q sum doubled once for each
    /// exponent.
    ///
    /// # Safety
    /// As for [`Pass::step`].
    #[inline(always)]
    unsafe fn sums_by_doubling<V: Lanes, const N: usize, const Q: bool, const RAGGED: bool>(
        &self,
        at: usize,
    ) -> ([V; N], [V; N]) {
        // SAFETY: as for `step`.
        unsafe {
            let (mut p, mut q) = ([V::zero(); N], [V::zero(); N]);
            let mut exponent = self.sources().first().map_or(0, |source| source.exponent);
            for source in self.sources() {
                if Q {
                    raise(&mut q, exponent - source.exponent);
                    exponent = source.exponent;
                }
                for i in 0..N {
                    let bytes = load::<V, RAGGED>(source.bytes, at + i * V::BYTES);
                    p[i] = p[i].plus(bytes);
                    if Q {
                        q[i] = q[i].plus(bytes);
                    }
                }
            }
            if Q {
                raise(&mut q, exponent);
            }
            (p, q)
        }
    }
}

/// Multiplies by g^`exponent`.
#[inline(always)]
fn raise<V: Lanes, const N: usize>(lanes: &mut [V; N], exponent: usize) {
    for lanes in lanes {
        match exponent {
            0 => (),
            1 => *lanes = lanes.doubled(),
            _ => *lanes = lanes.times(Factor::power(exponent)),
        }
    }
}

/// A register from `bytes` at `at`; with `RAGGED` filled up with zeros.
///
/// # Safety
/// The processor has what `V` needs, and without `RAGGED` the register lies within `bytes`.
#[inline(always)]
unsafe fn load<V: Lanes, const RAGGED: bool>(bytes: &[u8], at: usize) -> V {
    if RAGGED {
        let mut whole = [0; MAX_LANES_BYTES];
        whole[..bytes.len() - at].copy_from_slice(&bytes[at..]);
        // SAFETY: lanes have at most as many bytes as there are.
        unsafe { V::load(whole.as_ptr()) }
    } else {
        debug_assert!(at + V::BYTES <= bytes.len());
        // SAFETY: within the slice, by the caller's word.
        unsafe { V::load(bytes.as_ptr().add(at)) }
    }
}

/// Writes a register to `bytes` at `at`; with `RAGGED` as much of it as there is room for.
///
/// # Safety
/// Without `RAGGED` the register lies within `bytes`.
#[inline(always)]
unsafe fn store<V: Lanes, const RAGGED: bool>(lanes: V, bytes: &mut [u8], at: usize) {
    if RAGGED {
        let mut whole = [0; MAX_LANES_BYTES];
        // SAFETY: lanes have at most as many bytes as there are.
        unsafe { lanes.store(whole.as_mut_ptr()) };
        let room = bytes.len() - at;
        bytes[at..].copy_from_slice(&whole[..room]);
    } else {
        debug_assert!(at + V::BYTES <= bytes.len());
        // SAFETY: within the slice, by the caller's word.
        unsafe { lanes.store(bytes.as_mut_ptr().add(at)) }
    }
}
