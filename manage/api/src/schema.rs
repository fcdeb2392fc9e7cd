//! Schemas of the words that `holdfast-model` defines, which knows nothing of OpenAPI.
//!
//! Invariant, held by a test: each list has exactly the words that the model's type serialises to.

use holdfast_model::ObjectKind;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, RefOr};

const MEDIA: [&str; 3] = ["hdd", "ssd", "unknown"];
const USAGE: [&str; 5] = ["auto", "manual", "hot-spare", "journal", "retired"];
const HEALTH: [&str; 3] = ["healthy", "warning", "unhealthy"];
const DISK_STATE: [&str; 3] = ["online", "missing", "failed"];
const DISK_DETAIL: [&str; 9] =
    ["ok", "lost-communication", "io-error", "predictive-failure", "stale", "too-small", "slow", "retired", "removing"];
const RETIRE_POLICY: [&str; 3] = ["auto", "always", "never"];
const SPACE_STATE: [&str; 4] = ["ok", "resyncing", "degraded", "failed"];
const PROVISIONING: [&str; 2] = ["fixed", "thin"];
const INTEGRITY: [&str; 2] = ["none", "crc32c"];

const REASON: [&str; 7] = ["read-only", "no-room", "missing-slabs", "salvaged", "in-use", "unwritten", "lost-data"];

/// Which object something is about, for programs to decide on and for people to read: the schema of
/// [`holdfast_model::ObjectRef`].
#[derive(ToSchema)]
#[schema(as = ObjectRef)]
#[allow(dead_code, reason = "read by the derived schema")]
pub struct ObjectRefSchema {
    /// What kind of thing it is.
    #[schema(schema_with = object_kind)]
    kind: String,
    /// Its id among those of its kind, the same after a renaming; its name where it has no other.
    id: String,
    /// What people call it: `tank`, `tank/vm`, `S4NX`.
    name: String,
}

/// One thing that is not as it should be.
///
/// The schema of [`holdfast_model::Condition`].
#[derive(ToSchema)]
#[schema(as = Condition, description = "One thing that is not as it should be.")]
#[allow(dead_code, reason = "read by the derived schema")]
pub struct ConditionSchema {
    /// What is wrong, naming the object.
    cause: String,
    /// What its owner should do.
    next_action: String,
    /// Which condition it is, where programs act on it.
    #[schema(schema_with = reason_or_none)]
    reason: Option<String>,
    /// The part that it is about, where it is told of the whole: a disk or a space of a pool.
    #[schema(value_type = Option<ObjectRefSchema>)]
    about: Option<ObjectRefSchema>,
}

fn words(words: &[&'static str]) -> RefOr<Schema> {
    RefOr::T(Schema::Object(
        ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(words.iter().copied()))
            .build(),
    ))
}

fn words_or_none(words: &[&'static str]) -> RefOr<Schema> {
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    let values = words.iter().map(|word| Value::from(*word)).chain([Value::Null]);
    RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(types).enum_values(Some(values)).build()))
}

/// The words of [`holdfast_model::ObjectKind`].
pub fn object_kind() -> RefOr<Schema> {
    words(&ObjectKind::ALL.map(ObjectKind::word))
}

/// The words of [`holdfast_model::Reason`], or null.
pub fn reason_or_none() -> RefOr<Schema> {
    words_or_none(&REASON)
}

/// The words of [`holdfast_model::Media`].
pub fn media() -> RefOr<Schema> {
    words(&MEDIA)
}

/// The same, or null.
pub fn media_or_none() -> RefOr<Schema> {
    words_or_none(&MEDIA)
}

/// The words of [`holdfast_model::Usage`].
pub fn usage() -> RefOr<Schema> {
    words(&USAGE)
}

/// The same, or null.
pub fn usage_or_none() -> RefOr<Schema> {
    words_or_none(&USAGE)
}

/// The words of [`holdfast_model::Health`].
pub fn health() -> RefOr<Schema> {
    words(&HEALTH)
}

/// The words of [`holdfast_model::DiskState`].
pub fn disk_state() -> RefOr<Schema> {
    words(&DISK_STATE)
}

/// The words of [`holdfast_model::DiskDetail`], in a list.
pub fn disk_details() -> RefOr<Schema> {
    RefOr::T(Schema::Array(ArrayBuilder::new().items(words(&DISK_DETAIL)).build()))
}

/// The words of [`holdfast_model::RetirePolicy`].
pub fn retire_policy() -> RefOr<Schema> {
    words(&RETIRE_POLICY)
}

/// The same, or null.
pub fn retire_policy_or_none() -> RefOr<Schema> {
    words_or_none(&RETIRE_POLICY)
}

/// The words of [`holdfast_model::SpaceState`].
pub fn space_state() -> RefOr<Schema> {
    words(&SPACE_STATE)
}

/// The words of [`holdfast_model::Provisioning`].
pub fn provisioning() -> RefOr<Schema> {
    words(&PROVISIONING)
}

/// The words of [`holdfast_model::Integrity`].
pub fn integrity() -> RefOr<Schema> {
    words(&INTEGRITY)
}

/// The same, or null.
pub fn integrity_or_none() -> RefOr<Schema> {
    words_or_none(&INTEGRITY)
}

#[cfg(test)]
mod tests {
    use holdfast_model::{
        DiskDetail, DiskState, Health, Integrity, Media, Provisioning, Reason, RetirePolicy, SpaceState, Usage,
    };

    use super::*;
    use crate::word;

    #[test]
    fn the_words_are_those_of_the_model() {
        assert_eq!([Media::Hdd, Media::Ssd, Media::Unknown].map(|value| word(&value)), MEDIA);
        let usages = [Usage::Auto, Usage::Manual, Usage::HotSpare, Usage::Journal, Usage::Retired];
        assert_eq!(usages.map(|value| word(&value)), USAGE);
        assert_eq!([Health::Healthy, Health::Warning, Health::Unhealthy].map(|value| word(&value)), HEALTH);
        assert_eq!([DiskState::Online, DiskState::Missing, DiskState::Failed].map(|value| word(&value)), DISK_STATE);
        let details = [
            DiskDetail::Ok,
            DiskDetail::LostCommunication,
            DiskDetail::IoError,
            DiskDetail::PredictiveFailure,
            DiskDetail::Stale,
            DiskDetail::TooSmall,
            DiskDetail::Slow,
            DiskDetail::Retired,
            DiskDetail::Removing,
        ];
        assert_eq!(details.map(|value| word(&value)), DISK_DETAIL);
        let policies = [RetirePolicy::Auto, RetirePolicy::Always, RetirePolicy::Never];
        assert_eq!(policies.map(|value| word(&value)), RETIRE_POLICY);
        let states = [SpaceState::Ok, SpaceState::Resyncing, SpaceState::Degraded, SpaceState::Failed];
        assert_eq!(states.map(|value| word(&value)), SPACE_STATE);
        assert_eq!([Provisioning::Fixed, Provisioning::Thin].map(|value| word(&value)), PROVISIONING);
        let reasons = [
            Reason::ReadOnly,
            Reason::NoRoom,
            Reason::MissingSlabs,
            Reason::Salvaged,
            Reason::InUse,
            Reason::Unwritten,
            Reason::LostData,
        ];
        assert_eq!(reasons.map(|value| word(&value)), REASON);
        assert_eq!([Integrity::None, Integrity::Crc32c].map(|value| word(&value)), INTEGRITY);
    }
}
