//! A load of its own on several connections, the same over iSCSI and over NBD: so that two servers are told apart, and not
//! their clients.
//!
//! Invariant: as many requests are outstanding as were asked for, spread over the connections, until the time is over; all
//! that are counted were answered.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::random::{Random, bytes};

/// Connections that a load is spread over, where it has as many requests.
pub const CONNECTIONS: u32 = 4;

/// What a load asks for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a request.
    pub block: usize,
    /// Reads of a hundred requests.
    pub reads: u64,
    /// Whether each request goes anywhere, or behind the one before.
    pub random: bool,
    /// Bytes that it goes over.
    pub size: u64,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Whether it writes.
    pub write: bool,
    /// Where it begins.
    pub offset: u64,
    /// Bytes that it moves.
    pub len: usize,
}

/// A connection that takes several requests at once.
pub trait Pipe: Send {
    /// Sends a request; what it writes is the beginning of `data`.
    ///
    /// # Errors
    /// In words, if the connection is lost.
    fn send(&mut self, request: Request, data: &Arc<[u8]>) -> Result<(), String>;

    /// Waits until one of those that were sent is done.
    ///
    /// # Errors
    /// In words, if it failed or the connection is lost.
    fn finish_one(&mut self) -> Result<(), String>;
}

/// How many connections a load at `depth` uses.
pub fn connections(depth: u32) -> u32 {
    depth.min(CONNECTIONS)
}

/// Runs `load` over `pipes`, `depth` requests outstanding in all, and gives how many were done a second.
///
/// # Panics
/// If one fails.
pub fn drive(pipes: Vec<Box<dyn Pipe>>, load: Load, depth: u32, time: Duration, seed: u64) -> f64 {
    let count = pipes.len() as u32;
    let started = Instant::now();
    let threads: Vec<_> = pipes
        .into_iter()
        .zip(0..)
        .map(|(mut pipe, number)| {
            let depth = depth / count + u32::from(number < depth % count);
            let part = (u64::from(number), u64::from(count));
            thread::spawn(move || drive_one(&mut *pipe, load, depth, started + time, seed, part))
        })
        .collect();
    let done: u64 = threads.into_iter().map(|thread| thread.join().expect("no connection fails")).sum();
    done as f64 / started.elapsed().as_secs_f64()
}

fn drive_one(pipe: &mut dyn Pipe, load: Load, depth: u32, end: Instant, seed: u64, (part, parts): (u64, u64)) -> u64 {
    let mut random = Random::new(seed * 1000 + part);
    let data: Arc<[u8]> = bytes(seed, load.block).into();
    let blocks = load.size / load.block as u64;
    let mut next = blocks / parts * part;
    let mut send = |pipe: &mut dyn Pipe| {
        let at = if load.random { random.below(blocks) } else { next % blocks };
        next += 1;
        let write = random.below(100) >= load.reads;
        let request = Request { write, offset: at * load.block as u64, len: load.block };
        pipe.send(request, &data).unwrap_or_else(|error| panic!("{request:?}: {error}"));
    };
    (0..depth).for_each(|_| send(pipe));
    let mut done = 0;
    while Instant::now() < end {
        pipe.finish_one().unwrap_or_else(|error| panic!("{error}"));
        done += 1;
        send(pipe);
    }
    (0..depth).for_each(|_| pipe.finish_one().unwrap_or_else(|error| panic!("{error}")));
    done + u64::from(depth)
}
