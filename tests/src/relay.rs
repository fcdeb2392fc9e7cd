//! A path that can be lost: a port of this machine that leads to another one, until it is cut or stands still.
//!
//! Invariant: what was lost stays lost for whoever used it; it takes new connections when it is whole again.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WHOLE: u8 = 0;
const CUT: u8 = 1;
const STILL: u8 = 2;
const GONE: u8 = 3;

/// A path.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: SocketAddr,
    state: AtomicU8,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// A path to `to`.
    pub fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared { to, state: AtomicU8::new(WHOLE), streams: Mutex::new(Vec::new()) });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                if accepting.state() == GONE {
                    return;
                }
                accepting.join(stream);
            }
        });
        Self { address, shared }
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections, and every new one at once.
    pub fn cut(&self) {
        self.shared.turn(CUT);
        self.end_all();
    }

    /// Lets nothing through any more, and tells nobody. Who says anything meanwhile, or comes anew, is never answered.
    pub fn stand_still(&self) {
        self.shared.turn(STILL);
    }

    /// Ends all connections, and answers no new one. (One that is taken and ended at once, between two steps of a login, makes
    /// Debian's initiator wait for itself for ever.)
    pub fn hang_up(&self) {
        self.stand_still();
        self.end_all();
    }

    /// Is as new.
    pub fn mend(&self) {
        self.shared.turn(WHOLE);
    }

    fn end_all(&self) {
        let streams = std::mem::take(&mut *self.shared.streams());
        streams.iter().for_each(|stream| _ = stream.shutdown(Shutdown::Both));
    }

    /// Connections that it has.
    pub fn connections(&self) -> usize {
        self.shared.streams().len() / 2
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.shared.turn(GONE);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> u8 {
        self.state.load(Ordering::SeqCst)
    }

    fn turn(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().expect("nobody fails while holding it")
    }

    fn join(self: &Arc<Self>, near: TcpStream) {
        if self.state() == CUT {
            return;
        }
        let Ok(far) = TcpStream::connect(self.to) else { return };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
        let (Ok(near_kept), Ok(far_kept)) = (near.try_clone(), far.try_clone()) else { return };
        self.streams().extend([near_kept, far_kept]);
        let lost = Arc::new(AtomicBool::new(self.state() == STILL));
        for (from, to) in [(near, far), (far_again, near_again)] {
            let (shared, lost) = (Arc::clone(self), Arc::clone(&lost));
            std::thread::spawn(move || shared.carry(from, to, &lost));
        }
        if self.state() == CUT {
            // It was cut meanwhile, perhaps before these were known.
            self.streams().iter().for_each(|stream| _ = stream.shutdown(Shutdown::Both));
        }
    }

    /// Carries what one side says to the other one, until the connection is `lost`.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, lost: &AtomicBool) {
        let mut bytes = vec![0; 128 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if self.state() == STILL {
                lost.store(true, Ordering::SeqCst);
            }
            if lost.load(Ordering::SeqCst) {
                continue;
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        while self.state() == STILL {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
