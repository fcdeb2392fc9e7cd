//! What happens now, as server-sent events.
//!
//! Invariant: a console that reads too slowly is told that every list changed, and goes on with what comes; the stream ends when the daemon stops.

use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use holdfast_api::{ErrorBody, LiveSample};
use holdfast_engine::Message;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::OnEngine;

struct Listener {
    coming: Receiver<Message>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Listener {
    async fn next(&mut self) -> Option<Message> {
        tokio::select! {
            () = &mut self.stopped => None,
            received = self.coming.recv() => match received {
                Ok(message) => Some(message),
                Err(RecvError::Lagged(_)) => Some(Message::everything()),
                Err(RecvError::Closed) => None,
            },
        }
    }
}

/// Sends what happens as server-sent events: `sample` each second (LiveSample), `changed` when lists are not as they were (ListsChanged),
/// `noted` for each event (Event).
#[utoipa::path(get, path = "/live", tag = "status", operation_id = "live",
    responses((status = 200, body = LiveSample, content_type = "text/event-stream", description = "Endless: one message each."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn live(engine: OnEngine) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let listener = Listener { coming: engine.listen_live(), stopped: Box::pin(engine.stopped()) };
    let stream = unfold(listener, |mut listener| async move {
        let message = listener.next().await?;
        Some((Ok(Event::default().event(message.event).data(&*message.data)), listener))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
