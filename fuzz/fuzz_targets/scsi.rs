//! What initiators send to SCSI units: CDBs and parameter lists, from two nexuses, one command after the other.
//!
//! ```text
//!   command   who, LUN | length of the CDB | CDB | length of the data, two bytes | data      as long as bytes are left
//! ```
//!
//! Held up: no panic, no byte touched beyond the disk, an answer to every command, and what a unit has kept of its
//! reservations is read back as it was.

#![no_main]

#[path = "scsi/disk.rs"]
mod disk;

use std::collections::HashMap;
use std::future::{Future, Ready, ready};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use disk::Disk;
use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::Clock;
use holdfast_model::Uuid;
use holdfast_scsi::{
    AccessState, Device, InitiatorPort, LogicalBlocks, Outcome, Port, ReservationKeeper, Shared, Unit, UnitSettings,
    lun_field,
};
use libfuzzer_sys::fuzz_target;

struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

#[derive(Default)]
struct Keeper(Mutex<HashMap<Uuid, Vec<u8>>>);

impl ReservationKeeper for Keeper {
    fn keep(
        &self,
        unit: Uuid,
        kept: Option<Vec<u8>>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'static>> {
        let mut all = self.0.lock().expect("it is not poisoned");
        match kept {
            Some(kept) => drop(all.insert(unit, kept)),
            None => drop(all.remove(&unit)),
        }
        let done: Ready<Result<(), String>> = ready(Ok(()));
        Box::pin(done)
    }
}

fn unit(shared: &Arc<Shared>) -> Arc<Unit> {
    let service = ObjectService::new(Arc::new(Disk::new()), Balancer::new(1), Arc::new(Still));
    let target = Target::new("lun", String::new(), Arc::new(service), false, &Qos::default()).expect("it is free");
    let settings =
        UnitSettings { id: Uuid::from_u128(7), name: "lun".into(), blocks: LogicalBlocks::B512e, thin: true };
    Unit::new(settings, Arc::new(target), shared)
}

fuzz_target!(|bytes: &[u8]| {
    let keeper = Arc::new(Keeper::default());
    let shared = Shared::new(keeper.clone(), Arc::new(Still));
    let device = Device::new("iqn.2026-01.test:a", shared.clone());
    let port = |relative_id| Port {
        relative_id,
        group: relative_id,
        name: format!("iqn.2026-01.test:a,t,0x{relative_id:04x}"),
        state: AccessState::ActiveOptimized,
    };
    device.set_ports(vec![port(1), port(2)]);
    let unit = unit(&shared);
    device.add_unit(0, unit.clone()).expect("the number is free");
    let nexuses = [1, 2].map(|number| {
        let initiator = InitiatorPort { name: format!("iqn.2026-01.test:h{number}"), isid: [0, 0, 0, 0, 0, number] };
        device.connect(initiator, number.into())
    });
    let mut rest = bytes;
    while let Some((&who, behind)) = rest.split_first() {
        let Some((&len, behind)) = behind.split_first() else { break };
        let (cdb, behind) = behind.split_at(usize::from(len % 20).min(behind.len()));
        let Some((len, behind)) = behind.split_first_chunk::<2>() else { break };
        let (data, behind) = behind.split_at(usize::from(u16::from_be_bytes(*len)).min(behind.len()));
        rest = behind;
        let (nexus, lun) = (&nexuses[usize::from(who & 1)], lun_field(u16::from(who >> 1) / 32));
        let mut prepared = nexus.prepare(lun, cdb, 1 << 20, data.len() as u32);
        let out = prepared.data_out();
        let len = out.len().min(data.len());
        out[..len].copy_from_slice(&data[..len]);
        if let Outcome::Later(running) = nexus.start(prepared) {
            let poll = pin!(running).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Ready(_)), "{cdb:02x?} was not answered");
        }
    }
    if let Some(kept) = keeper.0.lock().expect("it is not poisoned").get(&unit.settings().id) {
        let before = unit.reservations();
        unit.restore_reservations(kept).expect("what was kept is read back");
        let after = unit.reservations();
        assert_eq!((before.registrants, before.kind), (after.registrants, after.kind));
    }
});
