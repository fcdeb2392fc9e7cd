//! Channels, rules and deliveries of notifications.

use axum::Json;
use axum::http::StatusCode;
use holdfast_api::{
    Changed, CreateNotifyChannel, CreateNotifyRule, ErrorBody, NotifyChannel, NotifyChannelChanged,
    NotifyChannelTested, NotifyDelivery, NotifyRule, NotifyRuleChanged, SetNotifyChannel, SetNotifyRule,
};

use super::{OnEngine, made};
use crate::refusal::{Answered, Body, InPath};

/// Lists all channels. Secrets are not shown, nor more of a webhook's URL than its server.
#[utoipa::path(get, path = "/notifications/channels", tag = "notifications", operation_id = "notify_channel_list",
    responses((status = 200, body = [NotifyChannel], description = "All channels."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn channels(engine: OnEngine) -> Json<Vec<NotifyChannel>> {
    Json(engine.notifications().channels())
}

/// Makes a channel, of mail or a webhook.
#[utoipa::path(post, path = "/notifications/channels", tag = "notifications", operation_id = "notify_channel_create",
    request_body = CreateNotifyChannel,
    responses((status = 201, body = NotifyChannelChanged, description = "Made."),
        (status = 200, body = NotifyChannelChanged, description = "It already existed, with these settings."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create_channel(
    engine: OnEngine,
    Body(request): Body<CreateNotifyChannel>,
) -> Answered<(StatusCode, Json<NotifyChannelChanged>)> {
    let answer = engine.notifications().create_channel(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a channel.
#[utoipa::path(get, path = "/notifications/channels/{name}", tag = "notifications", operation_id = "notify_channel_show",
    params(("name" = String, Path, description = "Name of the channel.")),
    responses((status = 200, body = NotifyChannel, description = "The channel."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn channel(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<NotifyChannel>> {
    Ok(Json(engine.notifications().channel(&name)?))
}

/// Changes a channel. What waits for it is sent with the new settings, at once.
#[utoipa::path(patch, path = "/notifications/channels/{name}", tag = "notifications", operation_id = "notify_channel_set",
    request_body = SetNotifyChannel, params(("name" = String, Path, description = "Name of the channel.")),
    responses((status = 200, body = NotifyChannelChanged, description = "The channel as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_channel(
    engine: OnEngine,
    InPath(name): InPath<String>,
    Body(request): Body<SetNotifyChannel>,
) -> Answered<Json<NotifyChannelChanged>> {
    Ok(Json(engine.notifications().set_channel(&name, request).await?))
}

/// Removes a channel that no rule uses, with what waits for it.
#[utoipa::path(delete, path = "/notifications/channels/{name}", tag = "notifications", operation_id = "notify_channel_delete",
    params(("name" = String, Path, description = "Name of the channel.")),
    responses((status = 200, body = Changed, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove_channel(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<Changed>> {
    Ok(Json(engine.notifications().remove_channel(&name).await?))
}

/// Sends a test message, waits for what becomes of it (10 s at most), and says that. A message that is not delivered is
/// no error of this request.
#[utoipa::path(post, path = "/notifications/channels/{name}/test", tag = "notifications", operation_id = "notify_channel_test",
    params(("name" = String, Path, description = "Name of the channel.")),
    responses((status = 200, body = NotifyChannelTested, description = "What became of it."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn test_channel(
    engine: OnEngine,
    InPath(name): InPath<String>,
) -> Answered<Json<NotifyChannelTested>> {
    Ok(Json(engine.notifications().test_channel(&name).await?))
}

/// Lists all rules.
#[utoipa::path(get, path = "/notifications/rules", tag = "notifications", operation_id = "notify_rule_list",
    responses((status = 200, body = [NotifyRule], description = "All rules."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn rules(engine: OnEngine) -> Json<Vec<NotifyRule>> {
    Json(engine.notifications().rules())
}

/// Makes a rule. It is for events from now on.
#[utoipa::path(post, path = "/notifications/rules", tag = "notifications", operation_id = "notify_rule_create",
    request_body = CreateNotifyRule,
    responses((status = 201, body = NotifyRuleChanged, description = "Made."),
        (status = 200, body = NotifyRuleChanged, description = "It already existed, with these settings."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn create_rule(
    engine: OnEngine,
    Body(request): Body<CreateNotifyRule>,
) -> Answered<(StatusCode, Json<NotifyRuleChanged>)> {
    let answer = engine.notifications().create_rule(request).await?;
    Ok(made(answer.changed, answer))
}

/// Shows a rule.
#[utoipa::path(get, path = "/notifications/rules/{name}", tag = "notifications", operation_id = "notify_rule_show",
    params(("name" = String, Path, description = "Name of the rule.")),
    responses((status = 200, body = NotifyRule, description = "The rule."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn rule(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<NotifyRule>> {
    Ok(Json(engine.notifications().rule(&name)?))
}

/// Changes a rule, also for what it has collected.
#[utoipa::path(patch, path = "/notifications/rules/{name}", tag = "notifications", operation_id = "notify_rule_set",
    request_body = SetNotifyRule, params(("name" = String, Path, description = "Name of the rule.")),
    responses((status = 200, body = NotifyRuleChanged, description = "The rule as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set_rule(
    engine: OnEngine,
    InPath(name): InPath<String>,
    Body(request): Body<SetNotifyRule>,
) -> Answered<Json<NotifyRuleChanged>> {
    Ok(Json(engine.notifications().set_rule(&name, request).await?))
}

/// Removes a rule with what it has collected.
#[utoipa::path(delete, path = "/notifications/rules/{name}", tag = "notifications", operation_id = "notify_rule_delete",
    params(("name" = String, Path, description = "Name of the rule.")),
    responses((status = 200, body = Changed, description = "Removed, or it was not there."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove_rule(engine: OnEngine, InPath(name): InPath<String>) -> Answered<Json<Changed>> {
    Ok(Json(engine.notifications().remove_rule(&name).await?))
}

/// Lists messages that wait, and the last 200 that were delivered or given up, oldest first.
#[utoipa::path(get, path = "/notifications/deliveries", tag = "notifications", operation_id = "notify_deliveries",
    responses((status = 200, body = [NotifyDelivery], description = "The messages."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn deliveries(engine: OnEngine) -> Json<Vec<NotifyDelivery>> {
    Json(engine.notifications().deliveries())
}
