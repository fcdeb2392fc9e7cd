//! Units over objects in memory, and commands that are answered at once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::Clock;
use holdfast_model::Uuid;
use holdfast_scsi::{
    AccessState, Code, Device, Held, InitiatorPort, LogicalBlocks, Nexus, Outcome, Port, ReservationKeeper, Response,
    SenseKey, Shared, Status, Unit, UnitSettings, lun_field,
};

use crate::memory::Memory;

pub const SIZE: u64 = 8 << 20;

pub struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

#[derive(Default)]
pub struct Keeper {
    pub kept: Mutex<HashMap<Uuid, Vec<u8>>>,
    pub broken: Mutex<bool>,
}

impl ReservationKeeper for Keeper {
    fn keep(&self, unit: Uuid, kept: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>> {
        if *self.broken.lock().unwrap() {
            return Box::pin(async { Err("the pool is gone".to_owned()) });
        }
        match kept {
            Some(kept) => drop(self.kept.lock().unwrap().insert(unit, kept)),
            None => drop(self.kept.lock().unwrap().remove(&unit)),
        }
        Box::pin(async { Ok(()) })
    }
}

pub struct Rig {
    pub keeper: Arc<Keeper>,
    pub shared: Arc<Shared>,
    pub device: Arc<Device>,
    pub unit: Arc<Unit>,
    pub memory: Arc<Memory>,
}

pub fn unit(memory: &Arc<Memory>, shared: &Arc<Shared>, blocks: LogicalBlocks, thin: bool) -> Arc<Unit> {
    resumed(memory, shared, blocks, thin, None)
}

/// A unit that has what stayed of one that was away.
pub fn resumed(
    memory: &Arc<Memory>,
    shared: &Arc<Shared>,
    blocks: LogicalBlocks,
    thin: bool,
    held: Option<Held>,
) -> Arc<Unit> {
    let service = ObjectService::new(memory.clone(), Balancer::new(1), Arc::new(Still));
    let target = Target::new("lun", "memory".into(), Arc::new(service), false, &Qos::default()).unwrap();
    let id = Uuid::from_u128(0x1234_5678_9abc_def0_1122_3344_5566_7788);
    Unit::resumed(UnitSettings { id, name: "pool/disk".into(), blocks, thin }, Arc::new(target), shared, held)
}

pub fn ports() -> Vec<Port> {
    let port = |relative_id, group| Port {
        relative_id,
        group,
        name: format!("iqn.2026-01.test:a,t,0x{group:04x}"),
        state: AccessState::ActiveOptimized,
    };
    vec![port(1, 1), port(2, 2)]
}

impl Rig {
    pub fn with(memory: Memory, blocks: LogicalBlocks, thin: bool) -> Self {
        let (keeper, memory) = (Arc::new(Keeper::default()), Arc::new(memory));
        let shared = Shared::new(keeper.clone(), Arc::new(Still));
        let device = Device::new("iqn.2026-01.test:a", shared.clone());
        device.set_ports(ports());
        let unit = unit(&memory, &shared, blocks, thin);
        device.add_unit(0, unit.clone()).unwrap();
        Self { keeper, shared, device, unit, memory }
    }

    pub fn new() -> Self {
        Self::with(Memory::new(SIZE), LogicalBlocks::B512, true)
    }

    /// A nexus that has been told all that waited.
    pub fn nexus(&self, number: u8) -> Nexus {
        self.nexus_at(number, 1)
    }

    pub fn nexus_at(&self, number: u8, port: u16) -> Nexus {
        let nexus = self.connect(number, port);
        told(&nexus);
        nexus
    }

    /// One that finds nobody who would tell it anything.
    pub fn nexus_away(&self, number: u8) -> Nexus {
        self.connect(number, 1)
    }

    /// Takes the unit away and brings it back, as a pool does that is opened again.
    pub fn comes_back(&self, meanwhile: impl FnOnce()) {
        self.device.suspend_unit(0).now_or_never().expect("nothing is under way");
        meanwhile();
        let held = self.device.held(0, self.unit.settings().id);
        let unit = resumed(&self.memory, &self.shared, LogicalBlocks::B512, true, held);
        self.device.add_unit(0, unit).unwrap();
    }

    fn connect(&self, number: u8, port: u16) -> Nexus {
        let name = format!("iqn.2026-01.test:host{number}");
        self.device.connect(InitiatorPort { name, isid: [0x80, 0, 0, 0, 0, number] }, port)
    }
}

/// Takes all attentions, and says which they were.
pub fn told(nexus: &Nexus) -> Vec<Code> {
    let mut codes = Vec::new();
    loop {
        let data = ok(nexus, &[3, 0, 0, 0, 18, 0], &[]);
        if data[2] & 0xf == 0 {
            return codes;
        }
        assert_eq!(data[2], SenseKey::UnitAttention as u8);
        codes.push(Code(data[12], data[13]));
    }
}

pub fn start(nexus: &Nexus, lun: u64, cdb: &[u8], data: &[u8]) -> Outcome {
    let mut prepared = nexus.prepare(lun, cdb, u32::MAX, data.len() as u32);
    let out = prepared.data_out();
    let len = out.len().min(data.len());
    out[..len].copy_from_slice(&data[..len]);
    nexus.start(prepared)
}

pub fn on_lun(nexus: &Nexus, lun: u64, cdb: &[u8], data: &[u8]) -> Response {
    match start(nexus, lun, cdb, data) {
        Outcome::Answered(response) => response,
        Outcome::Later(running) => running.now_or_never().expect("memory answers at once"),
    }
}

pub fn run(nexus: &Nexus, cdb: &[u8], data: &[u8]) -> Response {
    on_lun(nexus, lun_field(0), cdb, data)
}

/// The data of a command that must be served.
#[track_caller]
pub fn ok(nexus: &Nexus, cdb: &[u8], data: &[u8]) -> Vec<u8> {
    let response = run(nexus, cdb, data);
    assert_eq!((response.status, response.sense), (Status::Good, None), "{cdb:02x?}");
    response.data.bytes().to_vec()
}

/// Key and code of a command that must fail.
#[track_caller]
pub fn fails(nexus: &Nexus, cdb: &[u8], data: &[u8]) -> (SenseKey, Code) {
    let response = run(nexus, cdb, data);
    let sense = response.sense.unwrap_or_else(|| panic!("{cdb:02x?} ended by {:?}", response.status));
    (sense.key, sense.code)
}

#[track_caller]
pub fn conflicts(nexus: &Nexus, cdb: &[u8], data: &[u8]) {
    assert_eq!(run(nexus, cdb, data).status, Status::ReservationConflict, "{cdb:02x?}");
}

pub fn rw10(opcode: u8, flags: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let [a, b, c, d] = lba.to_be_bytes();
    let [e, f] = blocks.to_be_bytes();
    [opcode, flags, a, b, c, d, 0, e, f, 0]
}

pub fn rw16(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// PERSISTENT RESERVE OUT and its list.
pub fn pr_out(action: u8, kind: u8, key: u64, new_key: u64, flags: u8) -> ([u8; 10], Vec<u8>) {
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes()].concat();
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    ([0x5f, action, kind, 0, 0, 0, 0, 0, list.len() as u8, 0], list)
}

pub fn pr_in(nexus: &Nexus, action: u8) -> Vec<u8> {
    ok(nexus, &[0x5e, action, 0, 0, 0, 0, 0, 0x10, 0, 0], &[])
}
