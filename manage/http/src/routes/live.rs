//! What happens now, as server-sent events.
//!
//! Invariant: a console that reads too slowly is told that every list changed, and goes on with what comes; the stream ends when the daemon stops
//! or who listens counts no more. Events are for those who may see events.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use holdfast_api::{ErrorBody, LiveSample};
use holdfast_engine::Message;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{By, Over, over};
use crate::api::Api;

struct Listener {
    coming: Receiver<Message>,
    hears_events: bool,
    over: Over,
}

impl Listener {
    async fn next(&mut self) -> Option<Message> {
        loop {
            let received = tokio::select! {
                () = &mut self.over => return None,
                received = self.coming.recv() => received,
            };
            match received {
                Ok(message) if message.event == "noted" && !self.hears_events => {}
                Ok(message) => return Some(message),
                Err(RecvError::Lagged(_)) => return Some(Message::everything()),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Sends what happens as server-sent events: `sample` each second (LiveSample), `changed` when lists are not as they were (ListsChanged),
/// `noted` for each event (Event).
#[utoipa::path(get, path = "/live", tag = "status", operation_id = "live",
    responses((status = 200, body = LiveSample, content_type = "text/event-stream", description = "Endless: one message each."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn live(State(api): State<Api>, by: By) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let listener = Listener { coming: api.engine.listen_live(), hears_events: by.covers("events"), over: over(&api, &by) };
    let stream = unfold(listener, |mut listener| async move {
        let message = listener.next().await?;
        Some((Ok(Event::default().event(message.event).data(&*message.data)), listener))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
