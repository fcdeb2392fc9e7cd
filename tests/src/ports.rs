//! Ports of this machine for daemons of tests.
//!
//! Invariant: a port that was given out belongs to this process until that ends, also while nobody listens there: no other
//! test is given it, and no connection begins at it, since it lies below those that the kernel takes for connections.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;

/// The first port that is given out.
const FIRST: u16 = 20_000;
/// Where the kernel's own begin, unless it says otherwise.
const KERNELS: u16 = 32_768;

/// Locked as long as this process runs, one for each port.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// The first port that the kernel may give to a connection.
fn first_of_kernel() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range
        .split_whitespace()
        .next()
        .and_then(|first| first.parse().ok())
        .filter(|first| *first > FIRST)
        .unwrap_or(KERNELS)
}

/// A port on 127.0.0.1 where nobody listens, for this process alone.
///
/// # Panics
/// If there is none.
pub fn free_address() -> SocketAddr {
    let folder = std::env::temp_dir().join("holdfast-test-ports");
    std::fs::create_dir_all(&folder).expect("a folder of locks can be made");
    let mut held = HELD.lock().expect("nobody fails while holding it");
    // Processes begin at places of their own, since a lock that another has is found only by trying.
    let (count, begin) = (u32::from(first_of_kernel() - FIRST), std::process::id().wrapping_mul(97));
    for number in 0..count {
        let port = FIRST + (begin.wrapping_add(number) % count) as u16;
        let path = folder.join(port.to_string());
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if lock.try_lock().is_ok() && TcpListener::bind(address).is_ok() {
            held.push(lock);
            return address;
        }
    }
    panic!("no port is free");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once() {
        let first = free_address();
        assert!((0..50).all(|_| free_address() != first));
        TcpListener::bind(first).expect("nobody else has it");
    }
}
