//! Sessions with objects of a test, on a reactor.

use std::future::Future;
use std::sync::Arc;

use holdfast_block::{Balancer, Change, ObjectService, Qos, Session, Started, Target, blocks_around};
use holdfast_device::reactor::{self, ReactorSettings, clock};
use holdfast_device::{BlockObject, Durability, IoBuf, IoErrorKind};

/// Runs `test` on a reactor of its own.
pub fn on_reactor<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + Send + 'static) {
    let reactor = reactor::start(ReactorSettings::default()).unwrap();
    reactor.call(test).wait().unwrap();
    reactor.stop();
}

pub fn service(object: impl BlockObject + 'static) -> Arc<ObjectService> {
    Arc::new(ObjectService::new(Arc::new(object), Balancer::new(1), clock()))
}

pub fn limited(service: &Arc<ObjectService>, qos: Qos) -> Session {
    Session::new(Arc::new(Target::new("test", "memory".into(), service.clone(), false, &qos).unwrap()))
}

pub fn session(service: &Arc<ObjectService>) -> Session {
    limited(service, Qos::default())
}

pub async fn change(session: &Session, offset: u64, len: u64, change: Change) -> Result<(), IoErrorKind> {
    let outcome = match session.change(offset, len, change, Durability::Cached) {
        Started::Answered(outcome) => outcome,
        Started::Later(later) => session.settle(later).await,
    };
    outcome.map_err(|error| error.kind)
}

pub async fn write(session: &Session, offset: u64, data: &[u8]) -> Result<(), IoErrorKind> {
    let blocks = blocks_around(offset, data.len() as u64);
    let mut buf = IoBuf::new((blocks.end - blocks.start) as usize);
    buf[(offset - blocks.start) as usize..][..data.len()].copy_from_slice(data);
    change(session, offset, data.len() as u64, Change::Write(buf)).await
}

pub async fn read(session: &Session, offset: u64, len: usize) -> Vec<u8> {
    let buf = session.finish(session.read(offset, len as u64)).await.unwrap();
    buf[(offset % 4096) as usize..][..len].to_vec()
}
