//! Who may manage, and what they did.
//!
//! ```text
//!   accounts.rs   accounts and their roles       sessions.rs   logins with cookies
//!   setup.rs      the first administrator        tokens.rs     what programs show instead
//!   password.rs   hashing, a few at a time       throttle.rs   logins that fail too often
//!   secret.rs     random secrets, their hashes   audit.rs      who changed what
//! ```
//!
//! Invariants: a request has an identity or none, and its role is never more than its account's now; secrets are kept
//! as hashes only; what is in memory is what is in the store, but for logins while that cannot be written; every table
//! has a limit, and whoever meets it is told so.

mod accounts;
mod audit;
mod password;
mod secret;
mod sessions;
mod setup;
mod throttle;
mod tokens;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::{ApiError, Code, Role, Via};
use holdfast_store::{AccountRow, SessionRow, Store, StoreError, TokenRow};

pub use audit::redact;
pub use secret::{hex, random_secret, sha256};
pub use sessions::LoggedIn;
pub use throttle::ThrottleSettings;
pub use tokens::{AREAS, TOKEN_PREFIX};

/// What is refused, and after how long it may be tried again.
#[derive(Debug)]
pub struct Denied {
    /// Why.
    pub error: ApiError,
    /// How long to wait.
    pub retry_after: Option<Duration>,
}

impl From<ApiError> for Denied {
    fn from(error: ApiError) -> Self {
        Self { error, retry_after: None }
    }
}

/// How often it is looked whether somebody still counts who follows what goes on.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What callers are answered.
pub type ApiResult<T> = Result<T, ApiError>;

/// Milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// How access is set up.
#[derive(Clone)]
pub struct AccessSettings {
    /// After how long without a request a session ends.
    pub session_idle: Duration,
    /// After how long a session ends in any case.
    pub session_life: Duration,
    /// How long the link of the first start counts.
    pub setup_life: Duration,
    /// How logins that fail are slowed down.
    pub throttle: ThrottleSettings,
    /// The time.
    pub clock: Clock,
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            session_idle: Duration::from_secs(30 * 60),
            session_life: Duration::from_secs(12 * 60 * 60),
            setup_life: Duration::from_secs(24 * 60 * 60),
            throttle: ThrottleSettings::default(),
            clock: Arc::new(|| {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
            }),
        }
    }
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The account.
    pub account: String,
    /// What it may do by this request.
    pub role: Role,
    /// How it proved who it is.
    pub via: Via,
    /// The tags that it may use; all if empty.
    pub areas: Vec<String>,
    /// What changes must carry beside the cookie.
    pub csrf: Option<String>,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    pub(crate) session: Option<[u8; 32]>,
    pub(crate) token: Option<String>,
}

impl Identity {
    /// Who comes through the daemon's socket: the kernel let only root and the daemon's own user through.
    pub fn socket() -> Self {
        Self {
            account: "root".into(),
            role: Role::Administrator,
            via: Via::Socket,
            areas: Vec::new(),
            csrf: None,
            expires_ms: None,
            session: None,
            token: None,
        }
    }

    /// Who uses an operation that needs no login, and has none.
    pub fn nobody() -> Self {
        Self { account: String::new(), role: Role::Viewer, ..Self::socket() }
    }

    /// Whether it is an administrator whom no area limits.
    pub fn is_unlimited(&self) -> bool {
        self.role == Role::Administrator && self.areas.is_empty()
    }

    /// Whether it may use operations with the tag `area`.
    pub fn covers(&self, area: &str) -> bool {
        self.areas.is_empty() || self.areas.iter().any(|one| one == area)
    }
}

#[derive(Default)]
struct Tables {
    accounts: BTreeMap<String, AccountRow>,
    tokens: HashMap<[u8; 32], TokenRow>,
    sessions: HashMap<[u8; 32], SessionRow>,
}

/// Accounts, sessions and tokens, in memory and in the store.
pub struct Access {
    store: Arc<Store>,
    settings: AccessSettings,
    tables: Mutex<Tables>,
    changing: tokio::sync::Mutex<()>,
    setup: Mutex<Option<setup::Link>>,
    passwords: password::Passwords,
    throttle: throttle::Throttle,
}

impl Access {
    /// Reads what `store` holds.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(store: Arc<Store>, settings: AccessSettings) -> Result<Arc<Self>, StoreError> {
        let tables = Tables {
            accounts: store.accounts()?.into_iter().map(|row| (row.name.clone(), row)).collect(),
            tokens: store.tokens()?.into_iter().map(|row| (row.hash, row)).collect(),
            sessions: store.sessions()?.into_iter().map(|row| (row.hash, row)).collect(),
        };
        Ok(Arc::new(Self {
            store,
            throttle: throttle::Throttle::new(settings.throttle),
            settings,
            tables: Mutex::new(tables),
            changing: tokio::sync::Mutex::default(),
            setup: Mutex::default(),
            passwords: password::Passwords::new(),
        }))
    }

    /// How it is set up.
    pub fn settings(&self) -> &AccessSettings {
        &self.settings
    }

    fn now_ms(&self) -> i64 {
        (self.settings.clock)()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the store work on a thread that may wait for the disk.
    async fn stored<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> ApiResult<T> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || act(&store)).await;
        let failed = |message: String| {
            ApiError::new(
                Code::Failed,
                "configuration store",
                message,
                "see the daemon's log, and check the free room on its file system",
            )
        };
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    /// A copy of the store, as an open file without a name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn backup(&self) -> ApiResult<std::fs::File> {
        self.stored(Store::passing_copy).await
    }

    /// Whether what `identity` proved counts still.
    fn counts(&self, identity: &Identity) -> bool {
        let (now, tables) = (self.now_ms(), self.tables());
        let enabled = || tables.accounts.get(&identity.account).is_some_and(|account| account.enabled);
        match identity.via {
            Via::Socket => true,
            Via::Session | Via::Setup => {
                let session = identity.session.and_then(|hash| tables.sessions.get(&hash));
                session.is_some_and(|row| !self.has_ended(row, now)) && enabled()
            }
            Via::Token => {
                let token = tables.tokens.values().find(|row| Some(&row.id) == identity.token.as_ref());
                token.is_some_and(|row| now < row.expires_ms) && enabled()
            }
        }
    }

    /// Ends, within a few seconds, when `identity` counts no more; what goes on for long ends with it.
    pub async fn ended(&self, identity: &Identity) {
        while self.counts(identity) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// The role that a word of the store stands for. What nobody knows may least.
fn role(word: &str) -> Role {
    word.parse().unwrap_or(Role::Viewer)
}

/// A time, in milliseconds since 1970, as answers carry it.
pub fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// The addresses that one who has an IPv6 network can choose from count as one.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((u128::from(six) & !u128::from(u64::MAX)).into()),
        four => four,
    }
}
