//! What the tests of the server share: a server with units in memory, and an initiator.

pub mod client;
#[path = "../../../block/tests/support/memory.rs"]
pub mod memory;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_device::{BlockObject, StableId};
use holdfast_harness::wait_until;
use holdfast_iscsi::{
    Access, FailedLogin, IscsiSettings, Observer, SessionStatus, TargetLimits, TargetSettings, Targets,
};
use holdfast_listener::{Address, Server};
use holdfast_model::Uuid;
use holdfast_scsi::{Device, LogicalBlocks, ReservationKeeper, Shared, Unit, UnitSettings};

use memory::Memory;

pub const TARGET: &str = "iqn.2001-04.com.example:disk";
pub const INITIATOR: &str = "iqn.2001-04.com.example:initiator";

struct Forgetful;

impl ReservationKeeper for Forgetful {
    fn keep(&self, _: Uuid, _: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// What an observer heard.
#[derive(Default)]
pub struct Heard {
    pub failed: Mutex<Vec<FailedLogin>>,
    pub began: Mutex<Vec<SessionStatus>>,
    pub ended: Mutex<Vec<String>>,
}

impl Observer for Heard {
    fn login_failed(&self, failed: FailedLogin) {
        self.failed.lock().unwrap().push(failed);
    }

    fn session_began(&self, session: &SessionStatus) {
        self.began.lock().unwrap().push(session.clone());
    }

    fn session_ended(&self, _: &SessionStatus, why: &str) {
        self.ended.lock().unwrap().push(why.into());
    }
}

/// A server on two reactors, which goes away with this.
pub struct Fixture {
    pub targets: Arc<Targets>,
    pub heard: Arc<Heard>,
    pub server: Option<Server>,
    pub address: SocketAddr,
    pub reactors: Vec<ReactorHandle>,
}

pub fn open() -> Access {
    Access { open: true, ..Access::default() }
}

/// A device with one unit, of 512-byte blocks.
pub fn device(object: Memory) -> Arc<Device> {
    let object: Arc<dyn BlockObject> = Arc::new(object);
    let id = StableId::id(&*object);
    let service = Arc::new(ObjectService::new(object, Balancer::new(1), reactor::clock()));
    let target = Target::new("disk", "memory of a test".into(), service, false, &Qos::default()).unwrap();
    device_of(id, Arc::new(target))
}

/// A device with one unit, of this target.
pub fn device_of(id: Uuid, target: Arc<Target>) -> Arc<Device> {
    let shared = Shared::new(Arc::new(Forgetful), reactor::clock());
    let device = Device::new(TARGET, shared.clone());
    let settings = UnitSettings { id, name: "disk".into(), blocks: LogicalBlocks::B512e, thin: true };
    device.add_unit(0, Unit::new(settings, target, &shared)).unwrap();
    device
}

impl Fixture {
    /// One target of 16 MiB that anybody may log in to.
    pub fn new() -> Self {
        Self::with(Memory::new(16 << 20), open(), IscsiSettings::default(), TargetLimits::default())
    }

    pub fn settings(settings: IscsiSettings) -> Self {
        Self::with(Memory::new(16 << 20), open(), settings, TargetLimits::default())
    }

    pub fn with(object: Memory, access: Access, settings: IscsiSettings, limits: TargetLimits) -> Self {
        let quiet = |number| ReactorSettings {
            name: format!("reactor-{number}"),
            spin: Duration::from_micros(20),
            ..ReactorSettings::default()
        };
        let reactors: Vec<_> = (0..2).map(|number| reactor::start(quiet(number)).unwrap()).collect();
        let targets = Targets::new(limits);
        let heard = Arc::<Heard>::default();
        targets.set_observer(heard.clone());
        let wanted: Address = "tcp:127.0.0.1:0".parse().unwrap();
        let server = holdfast_iscsi::serve(reactors.clone(), targets.clone(), &[wanted], settings).unwrap();
        let Address::Tcp(address) = server.addresses()[0].clone() else { panic!("an address") };
        let fixture = Self { targets, heard, server: Some(server), address, reactors };
        fixture.add(TARGET, object, access);
        fixture
    }

    pub fn add(&self, iqn: &str, object: Memory, access: Access) {
        let settings =
            TargetSettings { iqn: iqn.into(), alias: None, device: device(object), access, portals: Vec::new() };
        self.targets.add(settings).unwrap();
    }

    /// Waits for the server to go down.
    pub fn shut_down(&mut self) {
        let server = self.server.take().unwrap();
        self.reactors[0].call(move || server.shutdown()).wait().unwrap();
    }

    /// Waits until so many sessions are there.
    pub fn sessions(&self, count: usize) {
        wait_until("the count of sessions", || self.targets.sessions(None).len() == count);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.server.take());
        for reactor in self.reactors.drain(..) {
            reactor.stop();
        }
    }
}
