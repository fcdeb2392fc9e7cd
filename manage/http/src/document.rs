//! The OpenAPI document, and the routes that it is made from.

use std::sync::Arc;

use holdfast_engine::Engine;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::routes::{disks, events, exports, jobs, pools, spaces, status};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Holdfast",
        description = "Management of a Holdfast storage server. Served on a unix socket to root and the daemon's own user. \
                       Sizes are numbers of bytes. Every change can be repeated: the answer says whether anything changed. \
                       Every answer that is no success has the body ErrorBody.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    tags(
        (name = "disks", description = "Disks of pools, and disks that belong to none."),
        (name = "pools", description = "Pools of disks."),
        (name = "spaces", description = "Virtual disks on pools."),
        (name = "exports", description = "Spaces that NBD clients can reach."),
        (name = "jobs", description = "Long work that is watched and steered while it runs."),
        (name = "events", description = "What happened, why, and what to do next."),
        (name = "status", description = "Health, metrics and this document."),
    ),
)]
struct Document;

pub(crate) fn routes() -> OpenApiRouter<Arc<Engine>> {
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
        .routes(routes!(exports::list, exports::create))
        .routes(routes!(exports::show, exports::remove))
        .routes(routes!(jobs::scrub))
        .routes(routes!(jobs::convert))
        .routes(routes!(jobs::plan_conversion))
        .routes(routes!(jobs::repair))
        .routes(routes!(jobs::evacuate))
        .routes(routes!(jobs::replace))
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
        .routes(routes!(status::status))
        .routes(routes!(status::openapi));
    OpenApiRouter::with_openapi(Document::openapi()).nest(holdfast_api::BASE_PATH, version_one).routes(routes!(status::metrics))
}

/// The OpenAPI document of the API, as JSON that ends with a line feed.
pub fn document() -> String {
    let mut text = routes().to_openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
