//! What the tests of the server share: a server over a memory target, and a client.

pub mod client;
#[path = "../../../block/tests/support/memory.rs"]
pub mod memory;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::BlockObject;
use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_listener::{Address, Server};
use holdfast_nbd::{Exports, NbdError, NbdSettings};

/// A server on two reactors, which goes away with this.
pub struct Fixture {
    pub exports: Arc<Exports>,
    pub server: Option<Server>,
    pub unix: Address,
    pub tcp: Address,
    pub reactors: Vec<ReactorHandle>,
    services: Mutex<Vec<Weak<ObjectService>>>,
}

/// A path that no other test uses.
pub fn fresh_path(ending: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("holdfast-nbd-{}-{number}{ending}", std::process::id()))
}

impl Fixture {
    pub fn new(objects: &[(&str, Arc<dyn BlockObject>)]) -> Self {
        Self::with(objects, NbdSettings::default())
    }

    pub fn with(objects: &[(&str, Arc<dyn BlockObject>)], settings: NbdSettings) -> Self {
        let quiet = |number| ReactorSettings {
            name: format!("reactor-{number}"),
            spin: Duration::from_micros(20),
            ..ReactorSettings::default()
        };
        let reactors: Vec<_> = (0..2).map(|number| reactor::start(quiet(number)).unwrap()).collect();
        let exports = Exports::new();
        let wanted = [Address::Unix(fresh_path(".sock")), "tcp:127.0.0.1:0".parse().unwrap()];
        let server = holdfast_nbd::serve(reactors.clone(), exports.clone(), &wanted, settings).unwrap();
        let [unix, tcp] = server.addresses() else { panic!("two addresses") };
        let (unix, tcp) = (unix.clone(), tcp.clone());
        let fixture = Self { exports, server: Some(server), unix, tcp, reactors, services: Mutex::default() };
        for (name, object) in objects {
            fixture.offer(name, object.clone()).unwrap();
        }
        fixture
    }

    /// Exports `object` under one more name; all its names share one service.
    pub fn offer(&self, name: &str, object: Arc<dyn BlockObject>) -> Result<(), NbdError> {
        let mut services = self.services.lock().unwrap();
        let of_object = |service: &Weak<ObjectService>| service.upgrade().filter(|service| service.id() == object.id());
        let service = services.iter().find_map(of_object).unwrap_or_else(|| {
            let service = Arc::new(ObjectService::new(object.clone(), Balancer::new(1), reactor::clock()));
            services.push(Arc::downgrade(&service));
            service
        });
        let target = Target::new(name, "memory of a test".into(), service, false, &Qos::default()).unwrap();
        self.exports.add(name, Arc::new(target))
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Waits for the server to go down.
    pub fn shut_down(&mut self) {
        let server = self.server.take().unwrap();
        self.reactors[0].call(move || server.shutdown()).wait().unwrap();
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
