//! Task management (RFC 7143 11.5, 11.6; SAM-5 7).
//!
//! The transport ends its own tasks at once; what other sessions have running is ended by the SCSI layer.
//!
//! Invariants: a task that a function has ended is not answered, and the function is answered after what it ended has no
//! effect any more. No more functions wait for that than commands may be in flight.

use std::rc::Rc;

use holdfast_device::reactor::spawn_local;
use holdfast_scsi::{Manage, ManageAnswer};

use super::Connection;
use super::requests::Early;
use crate::orders::Order;
use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::window::{Turn, before};

impl Connection {
    /// Serves a function.
    pub(super) fn manage(self: &Rc<Self>, header: &Header) {
        if self.nexus.is_none() {
            return self.reject(header, REJECT_PROTOCOL);
        }
        if self.managing.get() >= self.settings.tasks.max(1) {
            return self.managed(header.task_tag(), FUNCTION_REJECTED);
        }
        let lun = header.lun();
        let function = match header.flags() & 0x7f {
            ABORT_TASK => return self.abort_task(header),
            ABORT_TASK_SET => Manage::AbortTaskSet,
            CLEAR_TASK_SET => Manage::ClearTaskSet,
            LOGICAL_UNIT_RESET => Manage::LogicalUnitReset,
            TARGET_WARM_RESET => Manage::TargetWarmReset,
            TARGET_COLD_RESET => Manage::TargetColdReset,
            CLEAR_ACA => return self.managed(header.task_tag(), FUNCTION_NOT_SUPPORTED),
            TASK_REASSIGN => return self.managed(header.task_tag(), REASSIGNMENT_NOT_SUPPORTED),
            _ => return self.managed(header.task_tag(), FUNCTION_REJECTED),
        };
        let every = matches!(function, Manage::TargetWarmReset | Manage::TargetColdReset);
        self.abort((!every).then_some(lun));
        self.finish_managing(header.task_tag(), function, lun);
    }

    fn abort_task(self: &Rc<Self>, header: &Header) {
        let (referred, ref_cmd_sn) = (header.transfer_tag(), header.u32(32));
        if let Some(task) = self.tasks.remove(referred) {
            if task.command().lun != header.lun() {
                self.tasks.insert(task);
                return self.managed(header.task_tag(), TASK_DOES_NOT_EXIST);
            }
            let (over, tag) = (self.forget(task), header.task_tag());
            self.note_in_flight();
            let Some(over) = over else { return self.managed(tag, FUNCTION_COMPLETE) };
            let waiting = Managing::new(self);
            spawn_local(async move {
                over.await;
                waiting.0.managed(tag, FUNCTION_COMPLETE);
            });
            return;
        }
        // A command that is still to come counts as having come (RFC 7143 11.6.1).
        let turn = self.window.get().look(ref_cmd_sn);
        if turn == Turn::Ignored || !before(ref_cmd_sn, header.cmd_sn()) {
            return self.managed(header.task_tag(), TASK_DOES_NOT_EXIST);
        }
        self.early.borrow_mut().entry(ref_cmd_sn).or_insert(Early::Nothing);
        self.managed(header.task_tag(), FUNCTION_COMPLETE);
    }

    fn finish_managing(self: &Rc<Self>, tag: u32, function: Manage, lun: u64) {
        let waiting = Managing::new(self);
        spawn_local(async move {
            let connection = &waiting.0;
            let Some(nexus) = &connection.nexus else { return };
            let response = match nexus.manage(function, lun).await {
                ManageAnswer::Complete => FUNCTION_COMPLETE,
                ManageAnswer::NoUnit => LUN_DOES_NOT_EXIST,
            };
            connection.managed(tag, response);
            if function == Manage::TargetColdReset {
                connection.end_sessions();
            }
        });
    }

    fn managed(&self, tag: u32, response: u8) {
        self.put_answer(Header::new(TASK_MANAGEMENT_RESPONSE, FLAG_FINAL).with_u8(2, response).with_task_tag(tag), &[]);
    }

    /// After a cold reset all sessions of the target begin anew.
    fn end_sessions(&self) {
        let Some(target) = &self.entry.identity.target else { return };
        let sessions = self.targets.registry().of(target);
        sessions.iter().for_each(|session| session.orders.give(Order::End("its target was reset")));
    }
}

/// A function that waits for what it has ended.
struct Managing(Rc<Connection>);

impl Managing {
    fn new(connection: &Rc<Connection>) -> Self {
        connection.managing.set(connection.managing.get() + 1);
        Self(connection.clone())
    }
}

impl Drop for Managing {
    fn drop(&mut self) {
        self.0.managing.set(self.0.managing.get() - 1);
    }
}
