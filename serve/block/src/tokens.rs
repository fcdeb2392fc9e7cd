//! Tokens that stand for data of objects: who holds one has it copied by the server, without moving it himself.
//!
//! ```text
//!   issue ─▶ live ─▶ find ─▶ … ─▶ ended ─▶ forgotten
//!             │                     ├─ a change of the data began, the object shrank, or room for another was needed
//!             │                     ├─ it was not used for as long as it said
//!             │                     ├─ the object is not there any more
//!             │                     └─ it was deleted
//!             └─ 512 bytes: bytes 8 to 15 are its number, the last 256 are from the system's random source
//! ```
//!
//! One registry serves all front ends, which give the other bytes their form. Which of a token's bytes differ cannot be
//! told from how long the comparison took.
//!
//! Invariant: what a token stands for never changes. A change of the data ends it.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use holdfast_device::{Clock, Device};
use holdfast_model::Uuid;
use ring::rand::{SecureRandom, SystemRandom};

use crate::ranges::WatchedRange;
use crate::service::ObjectService;

/// The length of a token.
pub const TOKEN_BYTES: usize = 512;
/// Where its number lies in it.
const NUMBER: Range<usize> = 8..16;
/// The random bytes of a token, which are its last.
pub const SECRET_BYTES: usize = 256;
const SECRET: Range<usize> = TOKEN_BYTES - SECRET_BYTES..TOKEN_BYTES;
/// The part of the secret that is kept of a token that has ended.
const KEPT: Range<usize> = TOKEN_BYTES - SECRET_BYTES..TOKEN_BYTES - SECRET_BYTES + 32;

/// How many tokens there are at once, at most. The one that was not used for longest ends where another needs room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    /// All.
    pub tokens: usize,
    /// Those of one owner.
    pub of_owner: usize,
    /// Ranges of all together.
    pub ranges: usize,
    /// Ended ones that are remembered, with why.
    pub ended: usize,
}

impl Default for TokenLimits {
    fn default() -> Self {
        Self { tokens: 2048, of_owner: 512, ranges: 32768, ended: 8192 }
    }
}

/// Why a token is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenEnd {
    /// No token of this server, of this life.
    Unknown,
    /// The data changed, or room for others was needed.
    Cancelled,
    /// It was not used for too long.
    Expired,
    /// The object is not served any more.
    Revoked,
    /// Its holder deleted it.
    Deleted,
}

/// What a token is made of.
pub struct TokenSource {
    /// Whose token it is: limits are counted by it.
    pub owner: String,
    /// The object with the data.
    pub object: Arc<ObjectService>,
    /// The ranges of bytes, in the order in which the token stands for them.
    pub ranges: Vec<Range<u64>>,
    /// The same, watched since before the token is issued.
    pub watched: Vec<Arc<WatchedRange>>,
    /// How long it lives without being used.
    pub timeout: Duration,
}

/// A token that was issued.
pub struct Token {
    number: u64,
    data: [u8; TOKEN_BYTES],
    owner: String,
    id: Uuid,
    object: Weak<ObjectService>,
    ranges: Vec<Range<u64>>,
    watched: Vec<Arc<WatchedRange>>,
    timeout: Duration,
}

impl Token {
    /// Its bytes.
    pub fn data(&self) -> &[u8; TOKEN_BYTES] {
        &self.data
    }

    /// Whose it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The ranges that it stands for, in order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The bytes that it stands for.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Its object, where that is still served.
    pub fn object(&self) -> Option<Arc<ObjectService>> {
        self.object.upgrade()
    }

    /// Whether its data is what it was.
    pub fn holds(&self) -> bool {
        !self.watched.iter().any(|range| range.is_changed())
    }

    fn end(&self) -> Option<TokenEnd> {
        let Some(object) = self.object.upgrade() else { return Some(TokenEnd::Revoked) };
        let size = Device::geometry(&*object.object).size_bytes;
        let whole = self.ranges.iter().all(|range| range.end <= size);
        (!whole || !self.holds()).then_some(TokenEnd::Cancelled)
    }
}

struct Live {
    token: Arc<Token>,
    used: Duration,
}

struct State {
    next: u64,
    live: HashMap<u64, Live>,
    ended: HashMap<u64, ([u8; 32], TokenEnd)>,
    order: VecDeque<u64>,
}

/// The tokens of a server.
pub struct Tokens {
    limits: TokenLimits,
    clock: Arc<dyn Clock>,
    random: SystemRandom,
    state: Mutex<State>,
}

impl Tokens {
    /// None yet.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    pub fn new(limits: TokenLimits, clock: Arc<dyn Clock>) -> Self {
        let random = SystemRandom::new();
        let mut next = [0; 8];
        random.fill(&mut next).expect("the system gives random bytes");
        let state = State {
            next: u64::from_be_bytes(next),
            live: HashMap::new(),
            ended: HashMap::new(),
            order: VecDeque::new(),
        };
        Self { limits, clock, random, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Issues a token. `form` gives it the bytes before its secret; those of its number are set afterwards.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn issue(&self, source: TokenSource, form: impl FnOnce(&mut [u8])) -> Result<Arc<Token>, TokenEnd> {
        let mut data = [0; TOKEN_BYTES];
        self.random.fill(&mut data[SECRET]).map_err(|_| TokenEnd::Unknown)?;
        form(&mut data[..SECRET.start]);
        let now = self.clock.now();
        let mut state = self.state();
        state.sweep(now, self.limits.ended);
        self.make_room(&mut state, &source);
        let number = state.next;
        state.next = number.wrapping_add(1);
        data[NUMBER].copy_from_slice(&number.to_be_bytes());
        let TokenSource { owner, object, ranges, watched, timeout } = source;
        let (id, object) = (object.id(), Arc::downgrade(&object));
        let token = Arc::new(Token { number, data, owner, id, object, ranges, watched, timeout });
        state.live.insert(number, Live { token: token.clone(), used: now });
        Ok(token)
    }

    /// Ends what was not used for longest, of this owner or of all, until there is room.
    fn make_room(&self, state: &mut State, source: &TokenSource) {
        loop {
            let of_owner = state.live.values().filter(|live| live.token.owner == source.owner).count();
            let ranges: usize = state.live.values().map(|live| live.token.ranges.len()).sum();
            let own_only = of_owner >= self.limits.of_owner;
            let full = state.live.len() >= self.limits.tokens || ranges + source.ranges.len() > self.limits.ranges;
            if !own_only && !full {
                return;
            }
            let among = state.live.values().filter(|live| !own_only || live.token.owner == source.owner);
            let Some(oldest) = among.min_by_key(|live| live.used).map(|live| live.token.number) else { return };
            state.end(oldest, TokenEnd::Cancelled, self.limits.ended);
        }
    }

    /// The token of these bytes, which counts as used now.
    ///
    /// # Errors
    /// Why it is of no use.
    pub fn find(&self, data: &[u8; TOKEN_BYTES]) -> Result<Arc<Token>, TokenEnd> {
        let number = number_of(data);
        let now = self.clock.now();
        let mut state = self.state();
        state.sweep(now, self.limits.ended);
        if let Some(live) = state.live.get_mut(&number).filter(|live| same(&live.token.data, data)) {
            live.used = now;
            return Ok(live.token.clone());
        }
        let known = state.ended.get(&number).filter(|(kept, _)| same(kept, &data[KEPT]));
        Err(known.map_or(TokenEnd::Unknown, |(_, end)| *end))
    }

    /// A use of a token is over: its time begins anew.
    pub fn used(&self, token: &Token) {
        let now = self.clock.now();
        if let Some(live) = self.state().live.get_mut(&token.number) {
            live.used = now;
        }
    }

    /// Its holder wants it no more.
    pub fn delete(&self, token: &Token) {
        self.state().end(token.number, TokenEnd::Deleted, self.limits.ended);
    }

    /// Tokens that stand for data of an object, in the order in which they were issued.
    pub fn of_object(&self, id: Uuid) -> Vec<Arc<Token>> {
        let now = self.clock.now();
        let mut state = self.state();
        state.sweep(now, self.limits.ended);
        let mut tokens: Vec<_> =
            state.live.values().filter(|live| live.token.id == id).map(|live| live.token.clone()).collect();
        tokens.sort_unstable_by_key(|token| token.number.wrapping_sub(state.next));
        tokens
    }

    /// Tokens that are live.
    pub fn len(&self) -> usize {
        self.state().live.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    /// Ends what has had its time.
    fn sweep(&mut self, now: Duration, remembered: usize) {
        let ended: Vec<_> = self
            .live
            .values()
            .filter_map(|live| {
                let idle = now.saturating_sub(live.used);
                let end = live.token.end().or((idle > live.token.timeout).then_some(TokenEnd::Expired));
                Some((live.token.number, end?))
            })
            .collect();
        ended.into_iter().for_each(|(number, end)| self.end(number, end, remembered));
    }

    fn end(&mut self, number: u64, end: TokenEnd, remembered: usize) {
        let Some(live) = self.live.remove(&number) else { return };
        let mut kept = [0; 32];
        kept.copy_from_slice(&live.token.data[KEPT]);
        self.ended.insert(number, (kept, end));
        self.order.push_back(number);
        while self.order.len() > remembered {
            if let Some(forgotten) = self.order.pop_front() {
                self.ended.remove(&forgotten);
            }
        }
    }
}

fn number_of(data: &[u8; TOKEN_BYTES]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&data[NUMBER]);
    u64::from_be_bytes(number)
}

/// Whether two are the same; takes as long whatever differs.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && black_box(one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b))) == 0
}
