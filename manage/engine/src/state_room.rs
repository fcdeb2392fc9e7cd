//! A state folder that is full: what is to be kept there is refused first, or written as soon as there is room.
//!
//! ```text
//!   to be known after a restart   check, refused where it fails ─▶ done ─▶ written down, or tried again each second
//!   done by itself, or kept on    done ─▶ written down, or tried again each second
//!   the pool's disks
//! ```
//!
//! Invariant: nobody is answered *refused* for what was done, and service goes on whether the folder can be written or
//! not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_api::Severity;
use holdfast_model::ObjectRef;

use crate::engine::Engine;
use crate::error::{ApiResult, unwritten};
use crate::status::state_folder;

impl Engine {
    /// Refuses a change that could not be written down, before anything is done.
    ///
    /// # Errors
    /// If nothing can be written down now.
    pub(crate) async fn check_state_folder(&self) -> ApiResult<()> {
        let store = self.store.clone();
        self.blocking(move || store.probe()).await?.map_err(|error| unwritten(error.into()))
    }

    /// Writes down what is open. Where that fails it is tried again; `otherwise` is what an event says of `object`
    /// until then.
    pub(crate) fn remember_or_retry(&self, object: &ObjectRef, otherwise: &str) {
        let Err(error) = self.remember() else { return };
        self.unremembered.store(true, Ordering::Relaxed);
        let next = format!(
            "make room on the file system of {}; the daemon retries every second",
            self.state_dir.path().display()
        );
        self.events.emit(Severity::Warning, object, &format!("{otherwise}: {}", error.message), &next);
    }

    /// Writes down what could not be so far, and looks whether trouble is over.
    pub(crate) async fn look_at_state_folder(self: &Arc<Self>) -> ApiResult<()> {
        let engine = self.clone();
        self.blocking(move || {
            engine.state_dir.keep_reserve(false);
            if engine.store.trouble().is_some() {
                // Else it would be told until somebody asks for the next change.
                let _ = engine.store.probe();
            }
        })
        .await?;
        if !self.unremembered.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.change(move |engine| async move {
            if engine.remember().is_ok() {
                engine.unremembered.store(false, Ordering::Relaxed);
                let cause = "can be written again and lists all imported pools";
                engine.events.emit(Severity::Info, &state_folder(), cause, "");
            }
            Ok(())
        })
        .await
    }
}
