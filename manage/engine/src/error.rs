//! From the errors of the floors below to the one that the API speaks.
//!
//! Invariant: every error names an object and, where anything helps, the next step.

use std::io::ErrorKind;

use holdfast_api::{ApiError, Code};
use holdfast_device::{IoError, IoErrorKind};
use holdfast_pool::{PoolError, PoolErrorKind};
use holdfast_store::StoreError;

use crate::state::StateError;

/// What every operation of the engine answers.
pub type ApiResult<T> = Result<T, ApiError>;

/// There is no such object.
pub fn not_found(object: impl Into<String>, next_action: impl Into<String>) -> ApiError {
    let object = object.into();
    ApiError::new(Code::NotFound, object.clone(), format!("{object} does not exist"), next_action)
}

/// It is there already, and its `parameter` is another one.
pub fn exists_with(
    object: &str,
    parameter: &str,
    has: impl std::fmt::Display,
    wanted: impl std::fmt::Display,
) -> ApiError {
    ApiError::new(
        Code::Exists,
        object,
        format!("{object} already exists with another {parameter}: it has {has}, the request has {wanted}"),
        format!("choose another name, or request {parameter} {has}"),
    )
}

/// The object is in use or in a state so that this must not be done now.
pub fn conflict(object: impl Into<String>, message: impl Into<String>, next_action: impl Into<String>) -> ApiError {
    ApiError::new(Code::Conflict, object, message, next_action)
}

/// It would destroy something, and nobody said that it may.
pub fn not_confirmed(
    object: impl Into<String>,
    message: impl Into<String>,
    next_action: impl Into<String>,
) -> ApiError {
    ApiError::new(Code::NotConfirmed, object, message, next_action)
}

/// The operating system refused something about `object`.
pub fn system(object: impl Into<String>, tried: &str, error: &std::io::Error) -> ApiError {
    let (code, next) = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => (Code::Invalid, "check the path"),
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => (Code::Invalid, "choose another one"),
        ErrorKind::PermissionDenied => (Code::Failed, "run the daemon as a user with this permission"),
        ErrorKind::StorageFull => (Code::NoSpace, "make room on the file system, or ask for less"),
        ErrorKind::FileTooLarge => (Code::NoSpace, "ask for less: the file system has no files of that size"),
        _ => (Code::Failed, "see the daemon's log"),
    };
    ApiError::new(code, object, format!("{tried}: {error}"), next)
}

/// A pool's error about `object`.
pub fn from_pool(object: impl Into<String>, error: PoolError) -> ApiError {
    let (code, next) = match error.kind {
        PoolErrorKind::Invalid => (Code::Invalid, ""),
        PoolErrorKind::NotFound => (Code::NotFound, ""),
        PoolErrorKind::Exists => (Code::Exists, "choose another name"),
        PoolErrorKind::Conflict => (Code::Conflict, ""),
        PoolErrorKind::NoSpace => (Code::NoSpace, "add disks to the pool, or ask for less"),
        PoolErrorKind::NoQuorum => (Code::ReadOnly, "attach the missing disks"),
        PoolErrorKind::ReadOnly => (Code::ReadOnly, ""),
        PoolErrorKind::Damaged => (Code::Conflict, "check the disks named"),
        PoolErrorKind::Incomplete => (Code::Conflict, "attach the disks as they were last"),
        PoolErrorKind::Io => (Code::Failed, "check the pool's disks and events"),
    };
    let refused = ApiError::new(code, object, error.context, next);
    match error.parameter {
        Some(parameter) => refused.at(parameter),
        None => refused,
    }
}

/// A device's error about `object`.
pub fn from_io(object: impl Into<String>, error: IoError) -> ApiError {
    let code = match error.kind {
        IoErrorKind::NoSpace => Code::NoSpace,
        IoErrorKind::Invalid => Code::Invalid,
        IoErrorKind::ReadOnly => Code::ReadOnly,
        _ => Code::Failed,
    };
    ApiError::new(code, object, error.to_string(), "check the disk and the daemon's events")
}

/// A space's error about itself.
pub fn from_space(object: impl Into<String>, error: IoError) -> ApiError {
    match error.kind {
        IoErrorKind::Invalid => ApiError::invalid(object, error.context, ""),
        IoErrorKind::NoSpace => {
            ApiError::new(Code::NoSpace, object, error.context, "add disks to the pool, or ask for less")
        }
        _ => from_io(object, error),
    }
}

/// What is to be remembered cannot be written down.
pub fn unwritten(error: StateError) -> ApiError {
    let StateError::Store(StoreError::Failed { path, tried, reason }) = error else {
        return ApiError::new(Code::Failed, "state folder", error.to_string(), "");
    };
    let message = format!("changes cannot be saved: {}: cannot {tried}: {reason}", path.display());
    let folder = path.parent().unwrap_or(&path).display();
    let next = format!("make room on the file system of {folder}, or check its owner and its disk, then repeat");
    ApiError::new(Code::Failed, "state folder", message, next)
}

/// The reactors are stopping.
pub fn stopping() -> ApiError {
    ApiError::new(Code::Conflict, "daemon", "the daemon is stopping", "try again when it runs")
}
