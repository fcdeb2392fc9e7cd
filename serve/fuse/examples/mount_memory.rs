//! Mounts files in memory until its input ends: `mount_memory DIRECTORY [REACTORS [SPIN_MICROSECONDS [SHARED_LOCKS]]]`, the
//! last 0 or 1.

#[path = "../tests/support/memory.rs"]
mod memory;

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_fuse::{MountSettings, Opens};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, rest @ ..] = &arguments[..] else {
        return Err("usage: mount_memory DIRECTORY [REACTORS [SPIN_MICROSECONDS [SHARED_LOCKS]]]".into());
    };
    let number = |at: usize, default: u64| rest.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let spin = Duration::from_micros(number(1, 200)?);
    let reactor = |number| ReactorSettings { name: format!("reactor-{number}"), spin, ..ReactorSettings::default() };
    let reactors = (0..number(0, 2)?).map(|number| reactor::start(reactor(number))).collect::<Result<Vec<_>, _>>()?;
    let settings = MountSettings { shared_locks: number(2, 1)? != 0, ..MountSettings::default() };
    let service = Arc::new(memory::Memory::new());
    let caller = reactor::start(ReactorSettings { name: "main".into(), ..ReactorSettings::default() })?;
    let (directory, used) = (Path::new(directory).to_owned(), reactors.clone());
    let mounting = caller.call(move || async move {
        holdfast_fuse::mount(service, Opens::default(), &directory, settings, &used).await
    });
    let mounted = mounting.wait()??;
    println!("serving on {}", mounted.directory().display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:?}", mounted.stats());
    caller.call(move || mounted.stop()).wait()??;
    reactors.into_iter().for_each(reactor::ReactorHandle::stop);
    Ok(())
}
