//! Serves memory over NBD until its input ends: `serve_memory ADDRESS SIZE_MIB [REACTORS [SPIN_MICROSECONDS]]`.

#[path = "../../block/tests/support/memory.rs"]
mod memory;

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use holdfast_block::{Balancer, ObjectService, Qos, Target};
use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_nbd::{Exports, NbdSettings};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, size_mib, rest @ ..] = &arguments[..] else {
        return Err("usage: serve_memory ADDRESS SIZE_MIB [REACTORS [SPIN_MICROSECONDS]]".into());
    };
    let number = |at: usize, default: u64| rest.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let spin = Duration::from_micros(number(1, 200)?);
    let settings = |number| ReactorSettings { name: format!("reactor-{number}"), spin, ..ReactorSettings::default() };
    let reactors = (0..number(0, 2)?).map(|number| reactor::start(settings(number))).collect::<Result<Vec<_>, _>>()?;
    let exports = Exports::new();
    let object = Arc::new(memory::Memory::new(size_mib.parse::<u64>()? << 20));
    let service = Arc::new(ObjectService::new(object, Balancer::new(1), reactor::clock()));
    exports.add("memory", Arc::new(Target::new("memory", "memory".into(), service, false, &Qos::default())?))?;
    let server = holdfast_nbd::serve(reactors.clone(), exports, &[address.parse()?], NbdSettings::default())?;
    println!("serving on {}", server.addresses()[0]);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    reactors[0].call(move || server.shutdown()).wait()?;
    reactors.into_iter().for_each(reactor::ReactorHandle::stop);
    Ok(())
}
