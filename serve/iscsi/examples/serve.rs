//! Serves memory over iSCSI until its input ends: `serve ADDRESS SIZE_MIB [REACTORS [USER SECRET]]`, as the target
//! `iqn.2001-04.com.example:memory`, unit 0. With a user and a secret initiators of libiscsi's tests must prove their names.

#[path = "../../block/tests/support/memory.rs"]
mod memory;

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::BlockObject;
use holdfast_device::StableId;
use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_iscsi::{Access, Account, Allowed, IscsiSettings, TargetLimits, TargetSettings, Targets};
use holdfast_model::Uuid;
use holdfast_scsi::{AccessState, Device, LogicalBlocks, Port, ReservationKeeper, Shared, Unit, UnitSettings};

/// Forgets reservations when the process ends.
struct Forgetful;

impl ReservationKeeper for Forgetful {
    fn keep(&self, _: Uuid, _: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, size_mib, rest @ ..] = &arguments[..] else {
        return Err("usage: serve ADDRESS SIZE_MIB [REACTORS [USER SECRET]]".into());
    };
    let count = rest.first().map_or(Ok(2), |text| text.parse::<u64>())?;
    let settings = |number| ReactorSettings { name: format!("reactor-{number}"), ..ReactorSettings::default() };
    let reactors = (0..count).map(|number| reactor::start(settings(number))).collect::<Result<Vec<_>, _>>()?;
    let object: Arc<dyn BlockObject> = Arc::new(memory::Memory::new(size_mib.parse::<u64>()? << 20));
    let id = StableId::id(&*object);
    let service = Arc::new(ObjectService::new(object, Balancer::new(1), reactor::clock()));
    let target = Arc::new(Target::new("memory", "memory".into(), service, false, &Qos::default())?);
    let shared = Shared::new(Arc::new(Forgetful), reactor::clock());
    let name = "iqn.2001-04.com.example:memory";
    let device = Device::new(name, shared.clone());
    let settings = UnitSettings { id, name: "memory".into(), blocks: LogicalBlocks::B512e, thin: true };
    device.add_unit(0, Unit::new(settings, target, &shared))?;
    let port = Port { relative_id: 1, group: 1, name: format!("{name},t,0x0001"), state: AccessState::default() };
    device.set_ports(vec![port]);
    let chap = match rest {
        [_, user, secret] => Some(Account::new(user, secret)),
        _ => None,
    };
    let initiators = ["", "-2"].map(|end| Allowed {
        iqn: format!("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test{end}"),
        chap: chap.clone(),
    });
    let access = Access { open: chap.is_none(), initiators: initiators.into(), mutual: None };
    let targets = Targets::new(TargetLimits::default());
    targets.add(TargetSettings { iqn: name.into(), alias: None, device, access, portals: Vec::new() })?;
    let server = holdfast_iscsi::serve(reactors.clone(), targets, &[address.parse()?], IscsiSettings::default())?;
    println!("serving on {}", server.addresses()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    reactors[0].call(move || server.shutdown()).wait()?;
    reactors.into_iter().for_each(reactor::ReactorHandle::stop);
    Ok(())
}
