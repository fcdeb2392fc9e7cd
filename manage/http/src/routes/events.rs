//! Events, and following them as server-sent events.
//!
//! Invariant: a follower misses no event that is still kept, however slow it reads; it ends when the daemon stops or
//! who follows counts no more.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use holdfast_api::{ErrorBody, Event};
use holdfast_engine::EventLog;
use serde::Deserialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use utoipa::IntoParams;

use super::{By, OnEngine, Over, over};
use crate::api::Api;
use crate::refusal::{Answered, InQuery};

/// Which events.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only events with ids above this one.
    #[serde(default)]
    after: u64,
    /// At most so many, the newest.
    limit: Option<usize>,
}

/// Lists the events that are kept, oldest first.
#[utoipa::path(get, path = "/events", tag = "events", operation_id = "event_list", params(Which),
    responses((status = 200, body = [Event], description = "The events."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn list(engine: OnEngine, InQuery(which): InQuery<Which>) -> Answered<Json<Vec<Event>>> {
    Ok(Json(engine.events().list(which.after, which.limit.unwrap_or(usize::MAX))))
}

struct Follower {
    log: Arc<EventLog>,
    waiting: VecDeque<Event>,
    coming: Receiver<Event>,
    last: u64,
    over: Over,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.last = event.id;
                return Some(event);
            }
            let received = tokio::select! {
                () = &mut self.over => return None,
                received = self.coming.recv() => received,
            };
            match received {
                Ok(event) if event.id > self.last => self.waiting.push_back(event),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.waiting = self.log.list(self.last, usize::MAX).into(),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Sends the events that are kept, and each one that comes, as server-sent events with the event's JSON as data.
#[utoipa::path(get, path = "/events/follow", tag = "events", operation_id = "event_follow", params(Which),
    responses((status = 200, body = Event, content_type = "text/event-stream", description = "Endless: one event each."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn follow(
    State(api): State<Api>,
    by: By,
    InQuery(which): InQuery<Which>,
) -> Answered<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>> {
    let (kept, coming) = api.engine.events().follow(which.after);
    let skipped = kept.len().saturating_sub(which.limit.unwrap_or(usize::MAX));
    let follower = Follower {
        log: api.engine.events().clone(),
        last: kept.last().map_or(which.after, |event| event.id),
        waiting: kept.into_iter().skip(skipped).collect(),
        coming,
        over: over(&api, &by),
    };
    let stream = unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        let data = serde_json::to_string(&event).unwrap_or_default();
        Some((Ok(sse::Event::default().id(event.id.to_string()).data(data)), follower))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}
