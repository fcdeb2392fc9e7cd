//! What all copies of a daemon share.

use std::sync::Arc;

use holdfast_block::{Copier, CopySettings, TokenLimits, Tokens};
use holdfast_device::Clock;

use super::proof::Proofs;

/// See the module.
pub(crate) struct Copies {
    pub(super) copier: Arc<Copier>,
    pub(super) tokens: Tokens,
    pub(crate) proofs: Proofs,
}

impl Copies {
    pub(crate) fn new(settings: CopySettings, clock: Arc<dyn Clock>) -> Self {
        let tokens = Tokens::new(TokenLimits::default(), clock);
        Self { copier: Copier::new(settings), tokens, proofs: Proofs::default() }
    }
}
