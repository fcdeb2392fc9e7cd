//! What happens now, as server-sent events.
//!
//! Invariant: a console that reads too slowly is told that every list changed, and goes on with what comes; the stream
//! ends when the daemon stops or who listens counts no more. Events are for those who may see events. While nothing
//! else is sent a beat is, so that a console that hears nothing knows that what it shows is old.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use holdfast_api::{ErrorBody, LiveSample};
use holdfast_engine::Message;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::sleep;

use super::{By, Over, over};
use crate::api::Api;

/// How long the stream is silent at most.
const BEAT: Duration = Duration::from_secs(3);

struct Listener {
    coming: Receiver<Message>,
    hears_events: bool,
    over: Over,
    /// How long it hears nothing at most.
    silence: Duration,
}

impl Listener {
    async fn next(&mut self) -> Option<Message> {
        let beat = sleep(self.silence);
        tokio::pin!(beat);
        loop {
            let received = tokio::select! {
                () = &mut self.over => return None,
                received = self.coming.recv() => received,
                () = &mut beat => return Some(Message::beat()),
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

/// Sends what happens as server-sent events: `sample` each second (LiveSample), `changed` when lists are not as they
/// were (ListsChanged), `noted` for each event (Event), `beat` after three seconds without any of them: who hears
/// nothing for ten has lost the connection.
#[utoipa::path(get, path = "/live", tag = "status", operation_id = "live",
    responses((status = 200, body = LiveSample, content_type = "text/event-stream", description = "Endless: one message each."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn live(State(api): State<Api>, by: By) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let coming = api.engine.listen_live();
    let listener = Listener { coming, hears_events: by.covers("events"), over: over(&api, &by), silence: BEAT };
    let stream = unfold(listener, |mut listener| async move {
        let message = listener.next().await?;
        Some((Ok(Event::default().event(message.event).data(&*message.data)), listener))
    });
    Sse::new(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::broadcast;

    #[tokio::test]
    async fn a_stream_on_which_nothing_happens_beats() {
        let (sender, coming) = broadcast::channel(4);
        let (over, silence) = (Box::pin(std::future::pending()), Duration::from_millis(20));
        let mut listener = Listener { coming, hears_events: false, over, silence };
        sender.send(Message { event: "noted", data: "{}".into() }).unwrap();
        assert_eq!(listener.next().await.unwrap().event, "beat", "an event that it may not see is no beat");
        sender.send(Message::everything()).unwrap();
        assert_eq!(listener.next().await.unwrap().event, "changed");
        assert_eq!(listener.next().await.unwrap().event, "beat");
    }
}
