//! A daemon's worth of units in memory, and initiators that are connected to them.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::reactor::{self, ReactorSettings, clock};
use holdfast_device::{BlockObject, Clock};
use holdfast_model::Uuid;
use holdfast_scsi::{
    Device, InitiatorPort, LogicalBlocks, Nexus, Outcome, Port, Proof, ReservationKeeper, Response, Shared, Status,
    Unit, UnitSettings, lun_field,
};

use crate::memory::Memory;

/// Bytes of a unit.
pub const SIZE: u64 = 8 << 20;

struct Forgetful;

impl ReservationKeeper for Forgetful {
    fn keep(&self, _: Uuid, _: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// The reactor's clock, which a test may put forward.
#[derive(Default)]
pub struct Hands(AtomicU64);

impl Hands {
    pub fn forward(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        clock().now() + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        clock().sleep(duration)
    }
}

/// Runs `test` on a reactor of its own.
pub fn on_reactor<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    let reactor = reactor::start(ReactorSettings::default()).unwrap();
    reactor.call(test).wait().unwrap();
    reactor.stop();
}

/// What a daemon has.
pub struct World {
    pub hands: Arc<Hands>,
    pub shared: Arc<Shared>,
    devices: Mutex<Vec<Arc<Device>>>,
}

impl World {
    pub fn new() -> Self {
        let hands = Arc::new(Hands::default());
        let shared = Shared::new(Arc::new(Forgetful), hands.clone());
        Self { hands, shared, devices: Mutex::default() }
    }

    pub fn device(&self, name: &str) -> Arc<Device> {
        let device = Device::new(name, self.shared.clone());
        let port = Port { relative_id: 1, group: 1, name: format!("{name},t,0x0001"), state: Default::default() };
        device.set_ports(vec![port]);
        self.devices.lock().unwrap().push(device.clone());
        device
    }

    pub fn unit(&self, object: Arc<dyn BlockObject>, blocks: LogicalBlocks) -> Arc<Unit> {
        let id = object.id();
        let service = Arc::new(ObjectService::new(object, Balancer::new(1), clock()));
        let target = Target::new("unit", "memory".into(), service, false, &Qos::default()).unwrap();
        let settings = UnitSettings { id, name: "unit".into(), blocks, thin: true };
        Unit::new(settings, Arc::new(target), &self.shared)
    }

    /// A device with a unit for each size of blocks, as LUN 0 and up.
    pub fn simple(&self, name: &str, blocks: &[LogicalBlocks]) -> Arc<Device> {
        let device = self.device(name);
        for (lun, blocks) in blocks.iter().enumerate() {
            device.add_unit(lun as u16, self.unit(Arc::new(Memory::new(SIZE)), *blocks)).unwrap();
        }
        device
    }
}

/// An initiator that is connected to a device.
pub struct Host {
    nexus: Nexus,
}

impl Host {
    pub async fn proved(device: &Arc<Device>, name: &str, proof: Proof) -> Self {
        let initiator = InitiatorPort { name: name.into(), isid: [0x80, 0, 0, 0, 0, 1] };
        let host = Self { nexus: device.connect_proved(initiator, 1, proof) };
        host.settle().await;
        host
    }

    pub async fn new(device: &Arc<Device>, name: &str) -> Self {
        Self::proved(device, name, Proof::Nothing).await
    }

    /// Hears of what waits to be told.
    pub async fn settle(&self) {
        for lun in 0..4 {
            for _ in 0..8 {
                if self.send(lun, &[0; 6], &[]).await.status == Status::Good {
                    break;
                }
            }
        }
    }

    pub fn begin(&self, lun: u16, cdb: &[u8], data: &[u8]) -> Outcome {
        let mut prepared = self.nexus.prepare(lun_field(lun), cdb, 1 << 20, data.len() as u32);
        let out = prepared.data_out();
        let len = out.len().min(data.len());
        out[..len].copy_from_slice(&data[..len]);
        self.nexus.start(prepared)
    }

    pub async fn send(&self, lun: u16, cdb: &[u8], data: &[u8]) -> Response {
        match self.begin(lun, cdb, data) {
            Outcome::Answered(response) => response,
            Outcome::Later(running) => running.await,
        }
    }

    /// The data of a command that must succeed.
    pub async fn good(&self, lun: u16, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let response = self.send(lun, cdb, data).await;
        assert_eq!((response.status, response.sense), (Status::Good, None), "{cdb:x?}");
        response.data.bytes().to_vec()
    }

    /// Key, code and qualifier of a command that must fail.
    pub async fn sense(&self, lun: u16, cdb: &[u8], data: &[u8]) -> (u8, u8, u8) {
        told(&self.send(lun, cdb, data).await)
    }

    pub async fn write(&self, lun: u16, block: u64, lba: u64, data: &[u8]) {
        let cdb = moving(0x8a, lba, data.len() as u64 / block);
        self.good(lun, &cdb, data).await;
    }

    pub async fn read(&self, lun: u16, block: u64, lba: u64, bytes: usize) -> Vec<u8> {
        self.good(lun, &moving(0x88, lba, bytes as u64 / block), &[]).await
    }
}

/// Key, code and qualifier of an answer.
pub fn told(response: &Response) -> (u8, u8, u8) {
    assert_eq!(response.status, Status::CheckCondition, "{response:?}");
    let sense = response.sense.unwrap();
    (sense.key as u8, sense.code.0, sense.code.1)
}

fn moving(opcode: u8, lba: u64, blocks: u64) -> Vec<u8> {
    let mut cdb = vec![opcode, 0];
    cdb.extend(lba.to_be_bytes());
    cdb.extend((blocks as u32).to_be_bytes());
    cdb.extend([0, 0]);
    cdb
}

/// Bytes without pattern, none of them zero.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(2 * seed + 0x9e37_79b9_7f4a_7c15) >> 31) as u8 | 1).collect()
}
