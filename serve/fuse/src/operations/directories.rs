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
    /// Opens a directory. What it is of, as a snapshot, stays as long as it is open, where that could go.
    pub(super) async fn open_directory(&self, header: &Header) -> Answered {
        let held = self.service().hold_directory(self.subject(header)?).await?;
        // Numbers begin behind that of those that hold nothing.
        let number = held.map_or(0, |held| 1 + self.connection.directories.insert(held, false));
        let answer = Answer::of(|writer| crate::protocol::reply::open(writer, number, 0));
        Ok(if number == 0 { answer } else { answer.with_directory(number) })
    }

    pub(super) async fn release_directory(&self, number: u64) -> Answered {
        self.let_directory_go(number).await?;
        Ok(Answer::nothing())
    }

    /// A directory is not open any more.
    pub(crate) async fn let_directory_go(&self, number: u64) -> Result<(), Errno> {
        let held = number.checked_sub(1).and_then(|number| self.connection.directories.remove(number));
        if let Some(held) = held {
            self.service().close(held).await?;
        }
        Ok(())
    }

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
        let removals = self.service().removals();
        let cursor = if offset <= BEHIND_PARENT { 0 } else { offset };
        let usual = dirent_bytes(USUAL_NAME_BYTES) + if plus { ENTRY_BYTES } else { 0 };
        let most = size.div_ceil(usual);
        for found in self.service().list(&caller(header), dir, cursor, most, plus).await? {
            if found.cursor <= BEHIND_PARENT {
                tracing::error!("a listing has the cursor {}, which stands for another place", found.cursor);
                self.take_back_nodes(&listing.nodes).await;
                return Err(Errno(EIO));
            }
            if !self.add(&mut listing, &found) {
                break;
            }
        }
        if plus && !listing.nodes.is_empty() && self.service().removals() != removals {
            // Some of them may be gone, by a removal that did not see that the kernel is to know them: it asks again.
            self.take_back_nodes(&listing.nodes).await;
            return Box::pin(self.list_plain(header, (offset, cursor), size)).await;
        }
        Ok(listing.finish())
    }

    /// A listing of names that the kernel learns nothing else of, in the form that tells more.
    async fn list_plain(&self, header: &Header, (offset, cursor): (u64, u64), size: usize) -> Answered {
        let dir = self.subject(header)?;
        let mut listing = Listing { writer: Writer::new(), size, plus: true, nodes: Default::default() };
        if offset < BEHIND_SELF {
            listing.plain(dir, BEHIND_SELF, FileKind::Directory, b".");
        }
        if offset < BEHIND_PARENT {
            let parent = self.service().parent(dir).await.map_or(dir, |parent| parent.id);
            listing.plain(parent, BEHIND_PARENT, FileKind::Directory, b"..");
        }
        let most = size.div_ceil(dirent_bytes(USUAL_NAME_BYTES) + ENTRY_BYTES);
        for found in self.service().list(&caller(header), dir, cursor, most, false).await? {
            if !listing.plain(found.id, found.cursor, found.kind, &found.name) {
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
            entry(&mut listing.writer, node, &self.told(node, *attributes), &self.connection.timeouts);
            dirent(&mut listing.writer, found.id.number, found.cursor, found.kind, &found.name);
        }
        fits
    }
}

impl Listing {
    fn finish(self) -> Answer {
        let mut answer = Answer::new(Body::Bytes(self.writer.into_bytes()));
        answer.nodes = self.nodes;
        answer
    }
}
