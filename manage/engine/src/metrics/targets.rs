//! Targets and LUNs as Prometheus reads them.

use super::{Family, Kind};
use crate::engine::Engine;

impl Engine {
    pub(super) fn target_metrics(&self) -> Vec<Family> {
        const OPERATION: &[&str] = &["lun", "backing", "operation"];
        let mut operations =
            Family::new("holdfast_lun_operations_total", Kind::Counter, "Requests of initiators.", OPERATION);
        let mut bytes = Family::new("holdfast_lun_bytes_total", Kind::Counter, "Bytes of these requests.", OPERATION);
        let mut size =
            Family::new("holdfast_lun_size_bytes", Kind::Gauge, "Size as initiators see it.", &["lun", "backing"]);
        let mut reserved =
            Family::new("holdfast_lun_reserved", Kind::Gauge, "1 while it is reserved.", &["lun", "backing"]);
        let mut sessions = Family::new("holdfast_target_sessions", Kind::Gauge, "Sessions of initiators.", &["target"]);
        for target in self.targets() {
            sessions.add(&[&target.name], target.sessions);
            for lun in target.luns {
                let (name, backing, counters) = (lun.name.as_str(), lun.backing.as_str(), lun.counters);
                operations.add(&[name, backing, "read"], counters.reads);
                operations.add(&[name, backing, "write"], counters.writes);
                operations.add(&[name, backing, "flush"], counters.flushes);
                operations.add(&[name, backing, "discard"], counters.discards);
                bytes.add(&[name, backing, "read"], counters.read_bytes);
                bytes.add(&[name, backing, "write"], counters.written_bytes);
                bytes.add(&[name, backing, "discard"], counters.discarded_bytes);
                lun.size_bytes.into_iter().for_each(|bytes| size.add(&[name, backing], bytes));
                reserved.add(&[name, backing], lun.reserved.into());
            }
        }
        vec![operations, bytes, size, reserved, sessions]
    }
}
