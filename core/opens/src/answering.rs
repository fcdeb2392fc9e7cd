//! Answers of clients to breaks.
//!
//! Invariant: an answer lets a client keep no more than the break left it.

use std::time::Duration;

use crate::caching::Caching;
use crate::error::Error;
use crate::key::FileKey;
use crate::leases::LeaseKey;
use crate::table::Table;

impl Table {
    /// A client keeps `state` of what a break was to take: what the break left, or less. Answers with what it holds then;
    /// another break may follow at once, as more was asked meanwhile. Giving a lease back unasked is closing its opens,
    /// or for a delegation an answer to a break, or [`Table::give_up`].
    ///
    /// # Errors
    /// [`Error::Answer`] if no break waits, or it left less: nothing changes then.
    pub fn answer(&self, file: FileKey, lease: LeaseKey, state: Caching, now: Duration) -> Result<Caching, Error> {
        let seat = self.find(file).ok_or(Error::Answer { file })?;
        self.act(&seat, now, |of, context| of.leases.answer(lease, state, context))
    }

    /// A client gives a lease back of its own accord (NFSv4 `DELEGRETURN`), broken or not.
    ///
    /// # Errors
    /// [`Error::Answer`] if it has none.
    pub fn give_up(&self, file: FileKey, lease: LeaseKey, now: Duration) -> Result<(), Error> {
        let seat = self.find(file).ok_or(Error::Answer { file })?;
        self.act(&seat, now, |state, context| {
            let given = state.leases.change(lease, |lease| (lease.held, lease.breaking) = (Caching::NONE, None));
            (context.released, context.timed) = (true, true);
            given.ok_or(Error::Answer { file })
        })
    }
}
