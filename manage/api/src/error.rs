//! How the API refuses: a code that programs act on, and a text that names object, reason and next step.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a client can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// An argument cannot be.
    Invalid,
    /// The named object is not there.
    NotFound,
    /// It is there already, with other parameters.
    Exists,
    /// The object is in a state or in use so that this must not be done now.
    Conflict,
    /// It would destroy something, and nobody said that it may.
    NotConfirmed,
    /// Not enough room on enough disks.
    NoSpace,
    /// The pool is read-only, or too few of its disks are there.
    ReadOnly,
    /// Nobody knows who the caller is: no login, no token, or one that has ended.
    NotAuthenticated,
    /// Too many tries: wait as long as the header `Retry-After` says.
    Throttled,
    /// The caller may not.
    Forbidden,
    /// The request is larger than the server takes.
    TooLarge,
    /// It takes longer than the server waits; it goes on.
    Timeout,
    /// A disk or the operating system failed.
    Failed,
}

impl Code {
    /// The HTTP status that goes with it. One from 500 on is a fault of the server, never a refusal.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::NotAuthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Exists | Self::Conflict | Self::NotConfirmed | Self::NoSpace => 409,
            Self::TooLarge => 413,
            Self::ReadOnly => 423,
            Self::Throttled => 429,
            Self::Failed => 500,
            Self::Timeout => 504,
        }
    }
}

/// Why a request was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    /// What can be done about it.
    pub code: Code,
    /// The reason.
    pub message: String,
    /// The object, with its kind: `pool tank`.
    pub object: String,
    /// What to do next; empty where nothing helps.
    pub next_action: String,
    /// The field of the request that it is about, by its JSON name; one inside another has a dot: `qos.max_iops`. Null
    /// where it is about no single field.
    pub field: Option<String>,
}

/// What the body of every refused or failed request looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

impl ApiError {
    /// An error about `object`: the reason, and what to do next.
    pub fn new(
        code: Code,
        object: impl Into<String>,
        message: impl Into<String>,
        next_action: impl Into<String>,
    ) -> Self {
        let one_line = |text: String| crate::one_line(&text).into_owned();
        Self {
            code,
            message: one_line(message.into()),
            object: one_line(object.into()),
            next_action: one_line(next_action.into()),
            field: None,
        }
    }

    /// An argument of `object` that cannot be.
    pub fn invalid(object: impl Into<String>, message: impl Into<String>, next_action: impl Into<String>) -> Self {
        Self::new(Code::Invalid, object, message, next_action)
    }

    /// The same error, about a field of the request; one that already names a field keeps it.
    #[must_use]
    pub fn at(mut self, field: &str) -> Self {
        self.field.get_or_insert_with(|| field.to_owned());
        self
    }

    /// The same error, of a request whose field `outer` holds the one that it names.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.field = self.field.map(|field| format!("{outer}.{field}"));
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.object.is_empty() || self.message.starts_with(&self.object) {
            f.write_str(&self.message)?;
        } else {
            write!(f, "{}: {}", self.object, self.message)?;
        }
        if !self.next_action.is_empty() {
            write!(f, "; next: {}", self.next_action)?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_break_no_line() {
        let error = ApiError::new(Code::NotFound, "disk /x\ny", "disk /x\ny: \u{1b}[2J is not there", "look at /x\ry");
        assert_eq!(error.to_string(), "disk /x\\ny: \\u{1b}[2J is not there; next: look at /x\\ry");
    }

    #[test]
    fn the_innermost_field_is_named_with_the_ones_around_it() {
        let error = || ApiError::invalid("export vm", "8 B a second is too little", "allow 8 KiB or more");
        assert_eq!(error().field, None);
        assert_eq!(error().inside("qos").field, None);
        let error = error().at("max_bytes_per_second").at("name").inside("qos");
        assert_eq!(error.field.as_deref(), Some("qos.max_bytes_per_second"));
        assert_eq!(serde_json::to_value(&error).expect("JSON")["field"], "qos.max_bytes_per_second");
    }

    #[test]
    fn a_refusal_reads_object_reason_next_step() {
        let error = ApiError::new(Code::Conflict, "pool tank", "a space of it is exported", "unexport it first");
        assert_eq!(error.to_string(), "pool tank: a space of it is exported; next: unexport it first");
        let error = ApiError::new(Code::Conflict, "pool tank", "pool tank is there already", "");
        assert_eq!(error.to_string(), "pool tank is there already");
    }
}
