//! Which role each operation needs.
//!
//! Invariant: what is not in this table is for administrators and counts as a change, so nothing is open by accident; a
//! test compares the table with the API's document.

use std::collections::HashMap;

use axum::http::Method;
use holdfast_api::Role;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;

/// Who may use an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Everybody, also without a login.
    Public,
    /// Everybody who is logged in or has a token, whatever its areas: it concerns themselves.
    Own,
    /// The same, but no token that may less than everything: what it grants would outlive the token.
    Person,
    /// Who has this role or a higher one.
    Role(Role),
}

/// Whether an operation changes anything, and so goes to the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
    /// It goes to the audit log, and writes that itself since it knows better what happens.
    Recorded,
}

use Effect::{Changes, Reads, Recorded};

const VIEWER: Need = Need::Role(Role::Viewer);
const OPERATOR: Need = Need::Role(Role::Operator);
const ADMINISTRATOR: Need = Need::Role(Role::Administrator);

const TABLE: &[(&str, Need, Effect)] = &[
    ("setup_show", Need::Public, Reads),
    ("setup", Need::Public, Recorded),
    ("session_create", Need::Public, Recorded),
    ("session_show", Need::Own, Reads),
    ("session_delete", Need::Own, Changes),
    ("session_password", Need::Person, Changes),
    ("account_list", ADMINISTRATOR, Reads),
    ("account_create", ADMINISTRATOR, Changes),
    ("account_show", ADMINISTRATOR, Reads),
    ("account_set", ADMINISTRATOR, Changes),
    ("account_delete", ADMINISTRATOR, Changes),
    ("token_list", Need::Own, Reads),
    ("token_create", Need::Person, Changes),
    ("token_delete", Need::Own, Changes),
    ("audit_list", ADMINISTRATOR, Reads),
    ("settings_show", ADMINISTRATOR, Reads),
    ("settings_set", ADMINISTRATOR, Changes),
    ("backup", ADMINISTRATOR, Recorded),
    ("disk_list", VIEWER, Reads),
    ("disk_create_file", ADMINISTRATOR, Changes),
    ("disk_show", VIEWER, Reads),
    ("disk_set", OPERATOR, Changes),
    ("disk_wipe", ADMINISTRATOR, Changes),
    ("disk_remove", ADMINISTRATOR, Changes),
    ("disk_retire", OPERATOR, Changes),
    ("disk_locate", OPERATOR, Changes),
    ("disk_evacuate", OPERATOR, Changes),
    ("disk_evacuate_plan", VIEWER, Reads),
    ("disk_replace", OPERATOR, Changes),
    ("disk_replace_plan", VIEWER, Reads),
    ("pool_list", VIEWER, Reads),
    ("pool_create", ADMINISTRATOR, Changes),
    ("pool_show", VIEWER, Reads),
    ("pool_set", OPERATOR, Changes),
    ("pool_destroy", ADMINISTRATOR, Changes),
    ("pool_add", OPERATOR, Changes),
    ("pool_export", ADMINISTRATOR, Changes),
    ("pool_import", ADMINISTRATOR, Changes),
    ("pool_salvage", ADMINISTRATOR, Changes),
    ("pool_rebalance", OPERATOR, Changes),
    ("pool_rebalance_plan", VIEWER, Reads),
    ("pool_upgrade", ADMINISTRATOR, Changes),
    ("pool_upgrade_plan", VIEWER, Reads),
    ("history", VIEWER, Reads),
    ("live", VIEWER, Reads),
    ("space_list", VIEWER, Reads),
    ("space_create", OPERATOR, Changes),
    ("space_plan", VIEWER, Reads),
    ("space_show", VIEWER, Reads),
    ("space_set", OPERATOR, Changes),
    ("space_destroy", ADMINISTRATOR, Changes),
    ("space_grow", OPERATOR, Changes),
    ("space_accept", ADMINISTRATOR, Changes),
    ("space_map", VIEWER, Reads),
    ("space_verify", OPERATOR, Reads),
    ("space_scrub", OPERATOR, Changes),
    ("space_repair", OPERATOR, Changes),
    ("space_convert", OPERATOR, Changes),
    ("space_convert_plan", VIEWER, Reads),
    ("volume_list", VIEWER, Reads),
    ("volume_create", OPERATOR, Changes),
    ("volume_show", VIEWER, Reads),
    ("volume_destroy", ADMINISTRATOR, Changes),
    ("volume_set", ADMINISTRATOR, Changes),
    ("volume_mount", ADMINISTRATOR, Changes),
    ("volume_unmount", ADMINISTRATOR, Changes),
    ("volume_adopt", OPERATOR, Changes),
    ("volume_grow", OPERATOR, Changes),
    ("volume_shrink", OPERATOR, Changes),
    ("volume_shrink_plan", VIEWER, Reads),
    ("volume_scan", OPERATOR, Changes),
    ("volume_spotfix", OPERATOR, Changes),
    ("volume_trim", OPERATOR, Changes),
    // It writes to a directory of the server.
    ("volume_salvage", ADMINISTRATOR, Changes),
    ("volume_findings", VIEWER, Reads),
    ("volume_usage", OPERATOR, Reads),
    ("volume_quota_list", VIEWER, Reads),
    ("volume_quota_set", OPERATOR, Changes),
    ("volume_quota_remove", OPERATOR, Changes),
    ("volume_integrity_show", OPERATOR, Reads),
    ("volume_integrity_set", OPERATOR, Changes),
    ("volume_scrub", OPERATOR, Changes),
    ("volume_gather", OPERATOR, Changes),
    ("volume_damage", VIEWER, Reads),
    ("volume_journal_show", VIEWER, Reads),
    ("volume_journal_set", OPERATOR, Changes),
    ("volume_journal_remove", ADMINISTRATOR, Changes),
    ("volume_journal_read", OPERATOR, Reads),
    ("volume_files", OPERATOR, Reads),
    ("volume_acl_show", OPERATOR, Reads),
    ("volume_acl_set", ADMINISTRATOR, Changes),
    ("volume_acl_access", OPERATOR, Reads),
    ("principal_list", OPERATOR, Reads),
    ("snapshot_list", VIEWER, Reads),
    ("snapshot_create", OPERATOR, Changes),
    ("snapshot_show", VIEWER, Reads),
    // A snapshot is what protects from mistakes of others.
    ("snapshot_destroy", ADMINISTRATOR, Changes),
    ("snapshot_diff", OPERATOR, Reads),
    ("snapshot_restore", ADMINISTRATOR, Changes),
    ("snapshot_schedule_show", VIEWER, Reads),
    ("snapshot_schedule_set", ADMINISTRATOR, Changes),
    ("snapshot_schedule_remove", ADMINISTRATOR, Changes),
    ("nbd_list", VIEWER, Reads),
    ("nbd_export", OPERATOR, Changes),
    ("nbd_show", VIEWER, Reads),
    ("nbd_set", OPERATOR, Changes),
    ("nbd_connections", VIEWER, Reads),
    ("nbd_unexport", OPERATOR, Changes),
    ("target_list", VIEWER, Reads),
    // To open one to anybody is for administrators: see `routes/targets.rs`.
    ("target_create", OPERATOR, Changes),
    ("target_show", VIEWER, Reads),
    ("target_set", OPERATOR, Changes),
    ("target_destroy", OPERATOR, Changes),
    ("initiator_allow", OPERATOR, Changes),
    ("initiator_deny", OPERATOR, Changes),
    ("portal_add", OPERATOR, Changes),
    ("portal_set", OPERATOR, Changes),
    ("portal_remove", OPERATOR, Changes),
    ("lun_add", OPERATOR, Changes),
    ("lun_show", VIEWER, Reads),
    ("lun_set", OPERATOR, Changes),
    ("lun_grow", OPERATOR, Changes),
    ("lun_remove", OPERATOR, Changes),
    ("reservation_show", VIEWER, Reads),
    // It takes away what keeps machines from writing over each other.
    ("reservation_clear", ADMINISTRATOR, Changes),
    ("iscsi_session_list", VIEWER, Reads),
    ("iscsi_session_drop", OPERATOR, Changes),
    ("iscsi_discovery_show", VIEWER, Reads),
    ("iscsi_discovery_set", ADMINISTRATOR, Changes),
    ("iscsi_discovery_clear", ADMINISTRATOR, Changes),
    ("job_list", VIEWER, Reads),
    ("job_show", VIEWER, Reads),
    ("job_set", OPERATOR, Changes),
    ("job_pause", OPERATOR, Changes),
    ("job_resume", OPERATOR, Changes),
    ("job_cancel", OPERATOR, Changes),
    ("event_list", VIEWER, Reads),
    ("event_follow", VIEWER, Reads),
    ("notify_channel_list", VIEWER, Reads),
    ("notify_channel_create", ADMINISTRATOR, Changes),
    ("notify_channel_show", VIEWER, Reads),
    ("notify_channel_set", ADMINISTRATOR, Changes),
    ("notify_channel_delete", ADMINISTRATOR, Changes),
    ("notify_channel_test", ADMINISTRATOR, Changes),
    ("notify_rule_list", VIEWER, Reads),
    ("notify_rule_create", ADMINISTRATOR, Changes),
    ("notify_rule_show", VIEWER, Reads),
    ("notify_rule_set", ADMINISTRATOR, Changes),
    ("notify_rule_delete", ADMINISTRATOR, Changes),
    ("notify_deliveries", VIEWER, Reads),
    ("status", VIEWER, Reads),
    ("openapi", VIEWER, Reads),
    ("metrics", VIEWER, Reads),
];

/// What the guard knows of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) operation: String,
    pub(crate) area: String,
    pub(crate) need: Need,
    pub(crate) effect: Effect,
    /// The path pattern of the object that it changes, where that can be shown.
    pub(crate) shown_by: Option<String>,
}

/// The rules of all operations, by method and pattern of the path.
pub(crate) struct Rules(HashMap<(Method, String), Rule>);

/// The operations of a document: method, path pattern and operation.
pub(crate) fn operations(document: &OpenApi) -> impl Iterator<Item = (Method, &str, &Operation)> {
    document.paths.paths.iter().flat_map(|(path, item)| {
        let methods = [
            (Method::GET, &item.get),
            (Method::PUT, &item.put),
            (Method::POST, &item.post),
            (Method::DELETE, &item.delete),
            (Method::PATCH, &item.patch),
            (Method::HEAD, &item.head),
            (Method::OPTIONS, &item.options),
            (Method::TRACE, &item.trace),
        ];
        methods.into_iter().filter_map(move |(method, operation)| Some((method, path.as_str(), operation.as_ref()?)))
    })
}

/// The role that the operation `id` needs; for the document.
pub(crate) fn need(id: &str) -> Need {
    TABLE.iter().find(|(known, ..)| *known == id).map_or(ADMINISTRATOR, |(_, need, _)| *need)
}

/// The pattern up to its last parameter: `/pools/{pool}` of `/pools/{pool}/disks`.
fn object(pattern: &str) -> Option<&str> {
    Some(&pattern[..=pattern.rfind('}')?])
}

impl Rules {
    /// The rules of the operations in `document`.
    pub(crate) fn new(document: &OpenApi) -> Self {
        let rule = |method: &Method, path: &str, operation: &Operation| {
            let id = operation.operation_id.clone().unwrap_or_default();
            let known = TABLE.iter().find(|(known, ..)| *known == id);
            let guess = if *method == Method::GET { Reads } else { Changes };
            let (need, effect) = known.map_or((ADMINISTRATOR, guess), |(_, need, effect)| (*need, *effect));
            let is_shown = |object: &&str| document.paths.paths.get(*object).is_some_and(|item| item.get.is_some());
            Rule {
                operation: id,
                area: operation.tags.as_ref().and_then(|tags| tags.first()).cloned().unwrap_or_default(),
                need,
                effect,
                shown_by: object(path)
                    .or((*method == Method::PATCH).then_some(path))
                    .filter(is_shown)
                    .map(str::to_owned),
            }
        };
        let rules = operations(document).map(|(method, path, operation)| {
            let rule = rule(&method, path, operation);
            ((method, path.to_owned()), rule)
        });
        Self(rules.collect())
    }

    /// The rule of a request to the path `pattern`.
    pub(crate) fn of(&self, method: &Method, pattern: &str) -> Option<&Rule> {
        let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(method, pattern.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_its_line_and_every_line_its_operation() {
        let document = crate::document::routes().to_openapi();
        let served: BTreeSet<&str> =
            operations(&document).filter_map(|(_, _, operation)| operation.operation_id.as_deref()).collect();
        let listed: BTreeSet<&str> = TABLE.iter().map(|(id, ..)| *id).collect();
        assert_eq!(listed.len(), TABLE.len(), "an operation stands there twice");
        let missing: Vec<_> = served.difference(&listed).collect();
        assert!(missing.is_empty(), "say in the table who may use {missing:?}");
        let gone: Vec<_> = listed.difference(&served).collect();
        assert!(gone.is_empty(), "nothing serves {gone:?}");
    }

    #[test]
    fn no_change_is_open_to_viewers_or_passes_for_reading() {
        let document = crate::document::routes().to_openapi();
        let rules = Rules::new(&document);
        for (method, path, operation) in operations(&document) {
            let rule = rules.of(&method, path).unwrap();
            assert!(operation.tags.is_some(), "{path} has no tag");
            let viewers = matches!(rule.need, Need::Role(Role::Viewer));
            assert!(!viewers || rule.effect == Reads, "{method} {path} changes something and is open to viewers");
            assert!(method != Method::GET || rule.effect != Changes, "{method} {path} changes something by GET");
        }
    }

    #[test]
    fn an_object_is_what_the_path_names() {
        assert_eq!(object("/api/v1/spaces/{pool}/{space}/grow"), Some("/api/v1/spaces/{pool}/{space}"));
        assert_eq!(object("/api/v1/pools"), None);
    }
}
