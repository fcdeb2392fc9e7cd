//! Named documents that a pool keeps for those above it: what must go wherever the pool goes. What they say is no
//! matter of the pool.
//!
//! Invariant: their number and their size, each alone and all together, are bounded, and rows and spaces never take the
//! room that the disks have for them.

use std::ops::Bound;

use holdfast_model::ByteSize;

use crate::change::Change;
use crate::committer::Guard;
use crate::config::{Config, MOST_DOCUMENTS, MOST_KEY_BYTES};
use crate::features::Feature;
use crate::pool::Pool;
use crate::room::documents_room;
use crate::{PoolError, PoolErrorKind};

pub use crate::config::MOST_DOCUMENT_BYTES;

impl Pool {
    /// The document of this name.
    pub fn document(&self, key: &str) -> Option<Vec<u8>> {
        self.state().config.documents.get(key).map(|content| content.to_vec())
    }

    /// All documents whose names begin so, by name.
    pub fn documents(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let state = self.state();
        let from = state.config.documents.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, content)| (key.clone(), content.to_vec()))
            .collect()
    }

    /// Replaces a document, or removes it; durable when answered. False if it was so already.
    ///
    /// # Errors
    /// Too large a document or too many of them, a name that cannot be, a pool without the feature, no quorum.
    pub async fn set_document(&self, key: &str, content: Option<Vec<u8>>) -> Result<bool, PoolError> {
        // One after the other: each is held against the room that those before it left.
        let _writing = self.documents.lock().await;
        if self.state().config.documents.get(key).map(|known| &**known) == content.as_deref() {
            return Ok(false);
        }
        self.check_feature(&format!("document {key:?} cannot be kept"), Feature::Documents)?;
        self.check_open()?;
        if let Some(content) = &content {
            self.check_document(key, content.len())?;
        }
        self.commit(vec![Change::Document { key: key.into(), content: content.map(Into::into) }], Guard::None).await
    }

    fn check_document(&self, key: &str, bytes: usize) -> Result<(), PoolError> {
        if !Config::is_document_key(key) {
            let text = format!(
                "a document of pool {} cannot be named {key:?}: choose 1 to {MOST_KEY_BYTES} bytes",
                self.name()
            );
            return Err(PoolError::invalid(text));
        }
        let refuse = |what: String| {
            let text =
                format!("pool {} cannot keep document {key:?} of {}: {what}", self.name(), ByteSize(bytes as u64));
            Err(PoolError::new(PoolErrorKind::NoSpace, text))
        };
        if bytes > MOST_DOCUMENT_BYTES {
            return refuse(format!("one may have {}; shorten it", ByteSize(MOST_DOCUMENT_BYTES as u64)));
        }
        let state = self.state();
        let known = state.config.documents.get(key);
        if known.is_none() && state.config.documents.len() >= MOST_DOCUMENTS {
            return refuse(format!("it has {MOST_DOCUMENTS} already; remove what is not needed"));
        }
        let room = documents_room(&state);
        let before = known.map_or(0, |known| Config::document_bytes(key, known.len()));
        let wanted = state.config.documents_bytes() - before + Config::document_bytes(key, bytes);
        if wanted > room {
            let text = format!(
                "its smallest disk has room for {} of documents, and {} were wanted",
                ByteSize(room),
                ByteSize(wanted)
            );
            return refuse(text + "; remove what is not needed, or replace that disk with a larger one");
        }
        Ok(())
    }
}
