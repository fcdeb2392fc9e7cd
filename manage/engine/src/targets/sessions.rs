//! Sessions of initiators: listed, and ended by hand.

use std::sync::Arc;

use holdfast_api::{Changed, IscsiSession};

use crate::engine::Engine;
use crate::error::ApiResult;

impl Engine {
    /// All sessions, the longest first.
    pub fn iscsi_sessions(&self) -> Vec<IscsiSession> {
        let mut sessions = self.front_ends.iscsi.sessions(None);
        let live = self.live();
        for session in &mut sessions {
            let Some(iqn) = &session.target else { continue };
            let named = live.targets.values().find(|target| target.known.iqn == *iqn);
            if let Some(target) = named {
                session.target = Some(target.known.name.clone());
            }
        }
        sessions.sort_by(|a, b| (&a.since, a.id).cmp(&(&b.since, b.id)));
        sessions
    }

    /// Ends a session. Its initiator may log in again.
    ///
    /// # Errors
    /// None; one that is not there is answered as no change.
    pub async fn drop_session(self: &Arc<Self>, id: u16) -> ApiResult<Changed> {
        let session = self.iscsi_sessions().into_iter().find(|session| session.id == id);
        let changed = self.front_ends.iscsi.drop_session(id);
        let message = match (changed, session) {
            (true, Some(session)) => format!("session {id} of {} is ended; it may log in again", session.initiator),
            (true, None) => format!("session {id} is ended"),
            (false, _) => format!("there is no session {id}"),
        };
        Ok(Changed { changed, message })
    }
}
