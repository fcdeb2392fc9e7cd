//! What happens to a session from outside, and with time.
//!
//! ```text
//!   orders      leave: ask for a logout, wait, end · end now
//!   watch       silent: asked whether it is there · no answer, nothing taken, or no data: dropped
//!   events      of units, told by an asynchronous message
//! ```
//!
//! Invariant: a peer that is dead, takes nothing, or keeps back the data that was asked for holds its session, and the
//! memory of it, no longer than the settings allow.

use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::Clock;

use super::requests::Early;
use super::{Connection, End};
use crate::orders::Order;
use crate::outbound::Pdus;
use crate::protocol::Header;
use crate::protocol::constants::*;

/// An initiator sends the data that was asked for at this pace at least.
const BYTES_A_SECOND: u64 = 512 << 10;
/// The longest answer.
const ANSWER_BYTES: u64 = 16 << 20;

/// How long an initiator may take to move so many bytes.
fn time_for(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / BYTES_A_SECOND)
}

/// Looks at a session in the shortest of its times.
const LOOKS: u32 = 4;
const LOOK_RANGE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

impl Connection {
    /// Ends when the session is told to end.
    pub(super) async fn follow_orders(&self, clock: &dyn Clock) -> End {
        let shutdown = self.tracked.stop.wait();
        let mut next = Box::pin(self.orders());
        let why = match select(shutdown, &mut next).await {
            Either::Left(_) => "the server is shut down",
            Either::Right((Order::End(why), _)) => return End::Told(why),
            Either::Right((Order::Leave(why), _)) => why,
        };
        self.ask_for_logout();
        match select(clock.sleep(self.settings.drain_timeout), Box::pin(self.told_to_end())).await {
            Either::Left(_) => End::Told(why),
            Either::Right((why, _)) => End::Told(why),
        }
    }

    async fn orders(&self) -> Order {
        self.entry.orders.next().await
    }

    async fn told_to_end(&self) -> &'static str {
        loop {
            if let Order::End(why) = self.orders().await {
                return why;
            }
        }
    }

    /// Asks the initiator to log out (RFC 7143 11.9.1).
    fn ask_for_logout(&self) {
        let seconds = self.settings.drain_timeout.as_secs().clamp(1, 3600) as u16;
        let message = Header::new(ASYNC_MESSAGE, FLAG_FINAL).with_task_tag(NO_TAG).with_u8(36, ASYNC_LOGOUT);
        self.put_answer(message.with_u16(42, seconds), &[]);
        self.flush();
    }

    /// Tells what happens to units.
    pub(super) async fn tell_events(&self) {
        let Some(nexus) = &self.nexus else { return std::future::pending().await };
        loop {
            let event = nexus.event().await;
            // It is told with the next command, too.
            if self.is_crowded() {
                continue;
            }
            let sense = event.sense.bytes();
            let data = [&(sense.len() as u16).to_be_bytes()[..], &sense].concat();
            let message = Header::new(ASYNC_MESSAGE, FLAG_FINAL).with_task_tag(NO_TAG).with_lun(event.lun);
            self.put_answer(message.with_u8(36, ASYNC_SCSI), &data);
        }
    }

    /// Ends when the initiator seems to be dead.
    pub(super) async fn watch(&self, clock: &dyn Clock) -> End {
        let settings = &self.settings;
        let shortest = settings.ping_after.min(settings.ping_timeout).min(settings.send_timeout);
        let pause = (shortest / LOOKS).clamp(LOOK_RANGE.0, LOOK_RANGE.1);
        let (mut heard, mut sent, mut sent_bytes, mut asked) = (clock.now(), clock.now(), 0, None);
        let mut data = heard;
        loop {
            if let Either::Right(_) = select(clock.sleep(pause), Box::pin(self.failed_bell.wait())).await {
                return End::Told("its initiator takes no answers");
            }
            let now = clock.now();
            self.now.set(now);
            if self.heard.replace(false) {
                heard = now;
                asked = None;
            }
            let moved = self.writer.sent_bytes();
            if moved != sent_bytes || !self.writer.is_busy() {
                (sent, sent_bytes) = (now, moved);
            }
            if now - sent >= settings.send_timeout {
                return End::Told("its initiator takes no answers");
            }
            let owed = self.owed();
            if self.data_came.replace(false) || owed.is_none() || self.writer.is_busy() {
                data = now;
            }
            if let Some((since, bytes)) = owed
                && (now - data >= settings.send_timeout || now - since >= settings.send_timeout + time_for(bytes))
            {
                return End::Told("its initiator does not send what its commands wait for");
            }
            if self.writer.is_busy() {
                continue;
            }
            match asked {
                Some(since) if now - since >= settings.ping_timeout => {
                    return End::Told("its initiator is silent");
                }
                None if now - heard >= settings.ping_after => {
                    self.ask_whether_there();
                    asked = Some(now);
                }
                _ => {}
            }
        }
    }

    /// Of what waits for something from the initiator: since when the first does, and how many bytes may
    /// have to move before it has it.
    fn owed(&self) -> Option<(Duration, u64)> {
        let early = self.early.borrow();
        let early = early.values().filter_map(|early| match early {
            Early::Pdu(_, _, since) => Some((*since, 0)),
            Early::Task(_) | Early::Nothing => None,
        });
        let all = self.tasks.owed().into_iter().chain(self.arriving.get()).chain(early);
        let (since, bytes) = all.reduce(|one, other| (one.0.min(other.0), one.1 + other.1))?;
        // What was asked for may stand behind the answer that the initiator is taking.
        let before = if self.writer.is_busy() { ANSWER_BYTES + self.writer.waiting_bytes() as u64 } else { 0 };
        Some((since, bytes + before))
    }

    fn ask_whether_there(&self) {
        let tag = self.new_transfer_tag();
        self.ping.set(Some(tag));
        let header = Header::new(NOP_IN, FLAG_FINAL).with_task_tag(NO_TAG).with_transfer_tag(tag);
        let header = self.numbered(header, false);
        self.put(|out| out.pdu(&header, &[], self.digests));
        self.flush();
    }
}
