//! Listings of directories.
//!
//! The service lists neither `.` nor `..`; here they come first, and the cursors 1 and 2 stand behind them.
//!
//! Invariant: a listing may go on behind any name that was handed out, and an empty one is the end.

use holdfast_model::wire::Writer;
use holdfast_volume::service::{Entry, FileId, FileKind, FileService};

use super::caller;
use crate::answer::{Answer, Answered, Body, Errno};
use crate::connection::Channel;
use crate::protocol::constants::EIO;
use crate::protocol::reply::{ENTRY_BYTES, dirent, dirent_bytes, entry};
use crate::protocol::request::Header;

/// Behind `.` and `..`; the service's cursors are larger.
const BEHIND_SELF: u64 = 1;
const BEHIND_PARENT: u64 = 2;
/// What a name is reckoned to take when names are asked for.
const USUAL_NAME_BYTES: usize = 24;

/// A listing that is being made.
struct Listing {
    writer: Writer,
    size: usize,
    plus: bool,
    nodes: smallvec::SmallVec<[u64; 1]>,
}

impl Listing {
    fn room_for(&self, name: &[u8]) -> bool {
        let entry = if self.plus { ENTRY_BYTES } else { 0 };
        self.writer.len() + entry + dirent_bytes(name.len()) <= self.size
    }

    /// A name that the kernel learns nothing else of.
    fn plain(&mut self, id: FileId, cursor: u64, kind: FileKind, name: &[u8]) -> bool {
        let fits = self.room_for(name);
        if fits {
            if self.plus {
                self.writer.raw(&[0; ENTRY_BYTES]);
            }
            dirent(&mut self.writer, id.number, cursor, kind, name);
        }
        fits
    }
}

impl<S: FileService> Channel<S> {
    pub(super) async fn list(&self, header: &Header, offset: u64, size: usize, plus: bool) -> Answered {
        let dir = self.subject(header)?;
        let size = size.min(crate::protocol::init::MAX_PAYLOAD_BYTES);
        let mut listing = Listing { writer: Writer::new(), size, plus, nodes: Default::default() };
        if offset < BEHIND_SELF && !listing.plain(dir, BEHIND_SELF, FileKind::Directory, b".") {
            return Ok(listing.finish());
        }
        if offset < BEHIND_PARENT {
            // A directory that was removed meanwhile has none any more.
            let parent = self.service().parent(dir).await.map_or(dir, |parent| parent.id);
            if !listing.plain(parent, BEHIND_PARENT, FileKind::Directory, b"..") {
                return Ok(listing.finish());
            }
        }
        let cursor = if offset <= BEHIND_PARENT { 0 } else { offset };
        let usual = dirent_bytes(USUAL_NAME_BYTES) + if plus { ENTRY_BYTES } else { 0 };
        let most = size.div_ceil(usual);
        for found in self.service().list(&caller(header), dir, cursor, most, plus).await? {
            if found.cursor <= BEHIND_PARENT {
                tracing::error!("a listing has the cursor {}, which stands for another place", found.cursor);
                self.take_back_nodes(&listing);
                return Err(Errno(EIO));
            }
            if !self.add(&mut listing, &found) {
                break;
            }
        }
        Ok(listing.finish())
    }

    /// Whether there was room for it.
    fn add(&self, listing: &mut Listing, found: &Entry) -> bool {
        let Some(attributes) = found.attributes.as_ref().filter(|_| listing.plus) else {
            return listing.plain(found.id, found.cursor, found.kind, &found.name);
        };
        let fits = listing.room_for(&found.name);
        if fits {
            let node = self.connection.nodes.add(found.id);
            listing.nodes.push(node);
            entry(&mut listing.writer, node, attributes, &self.connection.timeouts);
            dirent(&mut listing.writer, found.id.number, found.cursor, found.kind, &found.name);
        }
        fits
    }

    fn take_back_nodes(&self, listing: &Listing) {
        listing.nodes.iter().for_each(|node| self.connection.nodes.forget(*node, 1));
    }
}

impl Listing {
    fn finish(self) -> Answer {
        let mut answer = Answer::new(Body::Bytes(self.writer.into_bytes()));
        answer.nodes = self.nodes;
        answer
    }
}
