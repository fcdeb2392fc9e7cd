//! Tells the kernel that what it keeps is not true any more.
//!
//! Needed as soon as files change by another way than the mount, such as another protocol. The kernel may wait for
//! requests of its own before it takes a notification about data or names, so these are sent on a thread that serves none.
//!
//! Invariant: a notification about what the kernel does not know, or of a mount that has ended, does nothing.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, Weak};

use holdfast_model::wire::Writer;
use holdfast_volume::service::FileId;

use crate::connection::Life;
use crate::nodes::Nodes;
use crate::protocol::constants::{NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE};
use crate::protocol::reply::header;

/// The way to tell it, for any thread that serves no requests.
#[derive(Clone, Debug)]
pub struct Notifier {
    nodes: Arc<Nodes>,
    device: Weak<OwnedFd>,
}

impl Notifier {
    pub(crate) fn new(nodes: Arc<Nodes>, life: &Life) -> Self {
        let device = life.notify.lock().unwrap_or_else(PoisonError::into_inner);
        Self { nodes, device: device.as_ref().map_or_else(Weak::new, Arc::downgrade) }
    }

    /// The attributes and all data of a file changed.
    pub fn file_changed(&self, id: FileId) {
        if let Some(node) = self.nodes.known(id) {
            let mut body = Writer::new();
            // From the first byte to the end.
            body.u64(node).u64(0).u64(0);
            self.send(NOTIFY_INVAL_INODE, &body.into_bytes());
        }
    }

    /// The attributes of a file changed by a request that is not about them. The kernel waits for nothing to take that, so
    /// it may be told from anywhere.
    pub(crate) fn attributes_changed(&self, id: FileId) {
        if let Some(node) = self.nodes.known(id) {
            let mut body = Writer::new();
            // No data.
            body.u64(node).u64(-1_i64 as u64).u64(0);
            self.send(NOTIFY_INVAL_INODE, &body.into_bytes());
        }
    }

    /// A name in a directory is of another file, or of none, or of one for the first time.
    pub fn name_changed(&self, dir: FileId, name: &[u8]) {
        if let Some(node) = self.nodes.known(dir) {
            let mut body = Writer::new();
            body.u64(node).u32(name.len() as u32).u32(0).raw(name).u8(0);
            self.send(NOTIFY_INVAL_ENTRY, &body.into_bytes());
        }
    }

    fn send(&self, code: i32, body: &[u8]) {
        let Some(device) = self.device.upgrade() else { return };
        let header = header(0, code, body.len());
        // ENOENT: the kernel keeps nothing of it. ENODEV: the mount is gone.
        let _ = rustix::io::writev(&*device, &[IoSlice::new(&header), IoSlice::new(body)]);
    }
}
