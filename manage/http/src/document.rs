//! The OpenAPI document, and the routes that it is made from.

use utoipa::OpenApi;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{OpenApi as OpenApiDocument, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Api;
use crate::guard::COOKIE_NAME;
use crate::permissions::{self, Need};
use crate::routes::{
    accounts, acls, audit, disks, events, exports, history, integrity, iscsi, jobs, journals, live, luns,
    notifications, pools, sessions, settings, snapshots, spaces, status, targets, tokens, volumes,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Holdfast",
        description = "Management of a Holdfast storage server. Served on a unix socket to root and the daemon's own user, and over HTTPS to \
                       accounts and tokens. \
                       Sizes are numbers of bytes. Every change but the making of a snapshot can be repeated: the answer says whether anything changed. \
                       Every answer that is no success has the body ErrorBody.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    components(schemas(holdfast_api::ListsChanged)),
    tags(
        (name = "disks", description = "Disks of pools, and disks that belong to none."),
        (name = "pools", description = "Pools of disks."),
        (name = "spaces", description = "Virtual disks on pools."),
        (name = "volumes", description = "Files on spaces, and where they are mounted."),
        (name = "snapshots", description = "Files of volumes as they were."),
        (name = "exports", description = "Spaces that NBD clients can reach."),
        (name = "targets", description = "iSCSI targets, their LUNs, who may log in, and sessions. Secrets are written and never shown."),
        (name = "jobs", description = "Long work that is watched and steered while it runs."),
        (name = "events", description = "What happened, why, and what to do next."),
        (name = "notifications", description = "Events that go out by mail and webhooks. Secrets are written and never shown."),
        (name = "access", description = "Accounts, logins, tokens, the audit log, and how management is served."),
        (name = "status", description = "Health, metrics, what is asked of everything over time and now, and this document."),
    ),
)]
struct Document;

pub(crate) fn routes() -> OpenApiRouter<Api> {
    let version_one = OpenApiRouter::new()
        .routes(routes!(disks::list, disks::create_file))
        .routes(routes!(disks::show, disks::set))
        .routes(routes!(disks::wipe))
        .routes(routes!(disks::remove))
        .routes(routes!(disks::retire))
        .routes(routes!(disks::locate))
        .routes(routes!(pools::list, pools::create))
        .routes(routes!(pools::show, pools::set, pools::destroy))
        .routes(routes!(pools::add_disks))
        .routes(routes!(pools::export))
        .routes(routes!(pools::import))
        .routes(routes!(pools::salvage))
        .routes(routes!(spaces::list, spaces::create))
        .routes(routes!(spaces::plan))
        .routes(routes!(spaces::show, spaces::set, spaces::destroy))
        .routes(routes!(spaces::grow))
        .routes(routes!(spaces::accept))
        .routes(routes!(spaces::map))
        .routes(routes!(spaces::verify))
        .routes(routes!(volumes::list, volumes::create))
        .routes(routes!(volumes::show, volumes::set, volumes::destroy))
        .routes(routes!(volumes::mount, volumes::unmount))
        .routes(routes!(volumes::grow))
        .routes(routes!(volumes::shrink))
        .routes(routes!(volumes::plan_shrink))
        .routes(routes!(volumes::adopt))
        .routes(routes!(volumes::scan))
        .routes(routes!(volumes::spotfix))
        .routes(routes!(volumes::trim))
        .routes(routes!(volumes::salvage))
        .routes(routes!(volumes::findings))
        .routes(routes!(volumes::usage))
        .routes(routes!(volumes::files))
        .routes(routes!(volumes::quotas, volumes::set_quota, volumes::remove_quota))
        .routes(routes!(journals::show, journals::set, journals::remove))
        .routes(routes!(journals::read))
        .routes(routes!(integrity::show, integrity::set))
        .routes(routes!(integrity::scrub))
        .routes(routes!(volumes::gather))
        .routes(routes!(integrity::damage))
        .routes(routes!(acls::show, acls::set))
        .routes(routes!(acls::access))
        .routes(routes!(acls::principals))
        .routes(routes!(snapshots::list, snapshots::create))
        .routes(routes!(snapshots::show, snapshots::destroy))
        .routes(routes!(snapshots::diff))
        .routes(routes!(snapshots::restore))
        .routes(routes!(snapshots::schedule, snapshots::set_rule, snapshots::remove_rule))
        .routes(routes!(exports::list, exports::create))
        .routes(routes!(exports::show, exports::set, exports::remove))
        .routes(routes!(exports::connections))
        .routes(routes!(targets::list, targets::create))
        .routes(routes!(targets::show, targets::set, targets::destroy))
        .routes(routes!(targets::allow))
        .routes(routes!(targets::deny))
        .routes(routes!(targets::add_portal))
        .routes(routes!(targets::set_portal, targets::remove_portal))
        .routes(routes!(luns::add))
        .routes(routes!(luns::show, luns::set, luns::remove))
        .routes(routes!(luns::grow))
        .routes(routes!(luns::reservation, luns::clear_reservation))
        .routes(routes!(iscsi::sessions))
        .routes(routes!(iscsi::drop_session))
        .routes(routes!(iscsi::discovery, iscsi::set_discovery, iscsi::clear_discovery))
        .routes(routes!(jobs::scrub))
        .routes(routes!(jobs::convert))
        .routes(routes!(jobs::plan_conversion))
        .routes(routes!(jobs::repair))
        .routes(routes!(jobs::evacuate))
        .routes(routes!(jobs::plan_evacuation))
        .routes(routes!(jobs::replace))
        .routes(routes!(jobs::plan_replacement))
        .routes(routes!(jobs::rebalance))
        .routes(routes!(jobs::plan_rebalance))
        .routes(routes!(jobs::upgrade))
        .routes(routes!(jobs::plan_upgrade))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show, jobs::set))
        .routes(routes!(jobs::pause))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::cancel))
        .routes(routes!(events::list))
        .routes(routes!(events::follow))
        .routes(routes!(notifications::channels, notifications::create_channel))
        .routes(routes!(notifications::channel, notifications::set_channel, notifications::remove_channel))
        .routes(routes!(notifications::test_channel))
        .routes(routes!(notifications::rules, notifications::create_rule))
        .routes(routes!(notifications::rule, notifications::set_rule, notifications::remove_rule))
        .routes(routes!(notifications::deliveries))
        .routes(routes!(sessions::setup_state, sessions::set_up))
        .routes(routes!(sessions::log_in, sessions::show, sessions::log_out))
        .routes(routes!(sessions::change_password))
        .routes(routes!(accounts::list, accounts::create))
        .routes(routes!(accounts::show, accounts::set, accounts::remove))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::remove))
        .routes(routes!(audit::list))
        .routes(routes!(settings::show, settings::set))
        .routes(routes!(audit::backup))
        .routes(routes!(history::history))
        .routes(routes!(live::live))
        .routes(routes!(status::status))
        .routes(routes!(status::openapi));
    OpenApiRouter::with_openapi(Document::openapi())
        .nest(holdfast_api::BASE_PATH, version_one)
        .routes(routes!(status::metrics))
}

/// Says how each operation is reached from the network: the role that it needs, and how it refuses.
fn describe_access(document: &mut OpenApiDocument) {
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
        COOKIE_NAME,
        "What a login brings. Whatever is no GET carries the header X-CSRF-Token besides, with the csrf of GET /api/v1/session.",
    )));
    let token =
        SecurityScheme::Http(Http::builder().scheme(HttpAuthScheme::Bearer).description(Some("A token.")).build());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("session", cookie);
    components.add_security_scheme("token", token);
    for item in document.paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().filter_map(Option::as_mut) {
            let need = permissions::need(operation.operation_id.as_deref().unwrap_or_default());
            if need == Need::Public {
                operation.security = Some(Vec::new());
                continue;
            }
            let none: [&str; 0] = [];
            operation.security =
                Some(["session", "token"].map(|scheme| SecurityRequirement::new(scheme, none)).into_iter().collect());
            let Some(RefOr::T(refusal)) = operation.responses.responses.get("default").cloned() else { continue };
            let mut refuses = |status: &str, description: String| {
                let mut response = refusal.clone();
                response.description = description;
                operation.responses.responses.insert(status.into(), RefOr::T(response));
            };
            refuses("401", "Nobody is logged in, or the token has ended.".into());
            match need {
                Need::Role(role) => {
                    refuses("403", format!("The caller has not the role {role}, or the token not this area."))
                }
                Need::Own | Need::Person | Need::Public => {
                    refuses("403", "The header X-CSRF-Token is missing, or the token may not.".into())
                }
            }
        }
    }
}

/// Writes schemas that hold the fields of others as those that they are: one object with all fields.
fn merge_parts(document: &mut OpenApiDocument) {
    let components = document.components.get_or_insert_default();
    let known = components.schemas.clone();
    let part = |part: &RefOr<Schema>| match part {
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        RefOr::Ref(reference) => match known.get(reference.ref_location.rsplit('/').next()?)? {
            RefOr::T(Schema::Object(object)) => Some(object.clone()),
            _ => None,
        },
        RefOr::T(_) => None,
    };
    for schema in components.schemas.values_mut() {
        let RefOr::T(Schema::AllOf(all)) = schema else { continue };
        let Some(parts) = all.items.iter().map(part).collect::<Option<Vec<_>>>() else { continue };
        let mut whole = parts.last().cloned().unwrap_or_default();
        whole.description = all.description.take();
        for part in parts.iter().rev().skip(1) {
            whole.properties.extend(part.properties.clone());
            whole.required.extend(part.required.clone());
            whole.additional_properties = whole.additional_properties.or_else(|| part.additional_properties.clone());
        }
        *schema = RefOr::T(Schema::Object(whole));
    }
}

/// The document, as it is made from the routes.
pub(crate) fn openapi() -> OpenApiDocument {
    let mut document = routes().to_openapi();
    describe_access(&mut document);
    merge_parts(&mut document);
    document
}

/// The OpenAPI document of the API, as JSON that ends with a line feed.
pub fn document() -> String {
    let mut text = openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
