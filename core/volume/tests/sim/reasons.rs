//! Every request that changes files, and what the journal and a watch tell of it. The requests are those of the service: one
//! that comes to be is told of here, or the test fails.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, IoSlice};
use holdfast_identity::sddl;
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Allocate, Caller, DosAttributes, FileId, FileKind, FileService, Flush, MOUNT_POINT_TAG, NewFile, OpenMode, Remove,
    Rename, ReparsePoint, SecurityParts, SetAttributes, SetMode, SetTime, Time,
};
use holdfast_volume::{
    Browsed, BrowsedHandle, ErrorKind, Format, Integrity, JournalRead, Reasons, Reinheriting, Settings, Volume,
    VolumeFormat, WatchKind, WatchSettings,
};

use crate::plain::{NEW, WRITING};
use crate::watch::all_now;

const BLOCK: usize = 4096;
const DIRECTORY: NewFile<'static> = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
const READING: OpenMode = OpenMode { read: true, write: false, truncate: false };
const NONE: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size_bytes: None,
    accessed: None,
    modified: None,
    created: None,
    dos: None,
};

/// Requests that change nothing.
const READS: [&str; 20] = [
    "access",
    "explain",
    "extended",
    "find",
    "forgotten",
    "granted",
    "hold_directory",
    "list",
    "list_extended",
    "lookup",
    "parent",
    "read",
    "read_link",
    "read_stream",
    "reparse",
    "security",
    "seek",
    "stat",
    "streams",
    "usage",
];

/// What is done: the request, and which one of that request.
type Act = (&'static str, &'static str);
/// The names that records are about, in order, each with all reasons of records that follow each other.
type Records = &'static [(&'static str, Reasons)];

const CREATE: Reasons = Reasons::FILE_CREATE;
const DELETE: Reasons = Reasons::FILE_DELETE;
const LINK: Reasons = Reasons::HARD_LINK_CHANGE;
const OLD: Reasons = Reasons::RENAME_OLD_NAME;
const NEW_NAME: Reasons = Reasons::RENAME_NEW_NAME;
const SECURITY: Reasons = Reasons::SECURITY_CHANGE;
const BASIC: Reasons = Reasons::BASIC_INFO_CHANGE;
const OVER: Reasons = Reasons::DATA_OVERWRITE;
const EXTEND: Reasons = Reasons::DATA_EXTEND;
const CUT: Reasons = Reasons::DATA_TRUNCATION;
const BOTH: Reasons = Reasons(OVER.0 | EXTEND.0);
const EXTENDED: Reasons = Reasons::EA_CHANGE;
const STREAM: Reasons = Reasons::STREAM_CHANGE;
const REPARSE: Reasons = Reasons::REPARSE_POINT_CHANGE;
const NAMED_OVER: Reasons = Reasons::NAMED_DATA_OVERWRITE;
const NAMED_EXTEND: Reasons = Reasons::NAMED_DATA_EXTEND;
const NAMED_CUT: Reasons = Reasons::NAMED_DATA_TRUNCATION;
const INTEGRITY: Reasons = Reasons::INTEGRITY_CHANGE;
const RENAMED: [WatchKind; 2] = [WatchKind::RenamedFrom, WatchKind::RenamedTo];

const TABLE: &[(Act, Records, &[WatchKind])] = &[
    (("create", "file"), &[("new", CREATE)], &[WatchKind::Created]),
    (("create", "directory"), &[("new", CREATE)], &[WatchKind::Created]),
    (("create", "symbolic link"), &[("new", CREATE)], &[WatchKind::Created]),
    (("create_secured", ""), &[("new", CREATE)], &[WatchKind::Created]),
    (("create_unnamed", "without a name"), &[], &[]),
    (("create_unnamed", "that gets a name"), &[("new", CREATE)], &[WatchKind::Created]),
    (("link", ""), &[("new", LINK)], &[WatchKind::Created]),
    (("remove", "last name"), &[("file", DELETE)], &[WatchKind::Removed]),
    (("remove", "one of two names"), &[("second", LINK)], &[WatchKind::Removed]),
    (("remove", "open file"), &[("file", DELETE)], &[WatchKind::Removed]),
    (("remove", "directory"), &[("dir", DELETE)], &[WatchKind::Removed]),
    (("rename", "name"), &[("file", OLD), ("new", NEW_NAME)], &RENAMED),
    (("rename", "directory"), &[("dir", OLD), ("new", NEW_NAME)], &RENAMED),
    (("rename", "case"), &[("file", OLD), ("FILE", NEW_NAME)], &RENAMED),
    (
        ("rename", "over another"),
        &[("file", OLD), ("other", DELETE), ("other", NEW_NAME)],
        &[WatchKind::Removed, WatchKind::RenamedFrom, WatchKind::RenamedTo],
    ),
    (
        ("rename", "exchange"),
        &[("file", OLD), ("other", OLD), ("other", NEW_NAME), ("file", NEW_NAME)],
        &[WatchKind::RenamedFrom, WatchKind::RenamedTo, WatchKind::RenamedFrom, WatchKind::RenamedTo],
    ),
    (("set", "mode"), &[("file", SECURITY)], &[WatchKind::Security]),
    (("set", "owner"), &[("file", SECURITY)], &[WatchKind::Security]),
    (("set", "group"), &[("dir", SECURITY)], &[WatchKind::Security]),
    (("set", "mode of two names"), &[("small", SECURITY)], &[WatchKind::Security, WatchKind::Security]),
    (("set", "accessed"), &[("file", BASIC)], &[WatchKind::Attributes]),
    (("set", "modified"), &[("file", BASIC)], &[WatchKind::Attributes]),
    (("set", "created"), &[("dir", BASIC)], &[WatchKind::Attributes]),
    (("set", "hidden"), &[("file", BASIC)], &[WatchKind::Attributes]),
    (("set", "not to be archived"), &[("file", BASIC)], &[WatchKind::Attributes]),
    (("set_integrity", "file"), &[("file", INTEGRITY)], &[WatchKind::Attributes]),
    (("set_integrity", "directory"), &[("dir", INTEGRITY)], &[WatchKind::Attributes]),
    (("set", "longer"), &[("file", EXTEND)], &[WatchKind::Modified]),
    (("set", "shorter"), &[("file", CUT)], &[WatchKind::Modified]),
    (("set", "small one shorter"), &[("small", CUT)], &[WatchKind::Modified, WatchKind::Modified]),
    (("open", "cut"), &[("file", CUT)], &[WatchKind::Modified]),
    (("open", "only"), &[], &[]),
    (("close", ""), &[], &[]),
    (("write", "in place"), &[("file", OVER)], &[WatchKind::Modified]),
    (("write", "in place, what a snapshot has"), &[("file", OVER)], &[WatchKind::Modified]),
    (("write", "part of a block"), &[("file", OVER)], &[WatchKind::Modified]),
    (("write", "behind the end"), &[("file", EXTEND)], &[WatchKind::Modified]),
    (("write", "across the end"), &[("file", BOTH)], &[WatchKind::Modified]),
    (("write", "into a hole"), &[("holes", OVER)], &[WatchKind::Modified]),
    (("write", "small one"), &[("small", OVER)], &[WatchKind::Modified, WatchKind::Modified]),
    (("write", "small one, longer"), &[("small", EXTEND)], &[WatchKind::Modified, WatchKind::Modified]),
    (("write", "small one, out of its record"), &[("small", BOTH)], &[WatchKind::Modified, WatchKind::Modified]),
    (("allocate", "reserve"), &[("file", EXTEND)], &[WatchKind::Modified]),
    (("allocate", "punch"), &[("file", OVER)], &[WatchKind::Modified]),
    (("allocate", "zero"), &[("file", OVER)], &[WatchKind::Modified]),
    (("allocate", "zero a part of a block"), &[("file", OVER)], &[WatchKind::Modified]),
    (("allocate", "reserve, no longer"), &[("file", OVER)], &[WatchKind::Modified]),
    // Room for it is set aside first, and the time of its data says so.
    (("allocate", "zero behind the end"), &[("file", BOTH)], &[WatchKind::Modified]),
    (("clone_range", "over"), &[("file", OVER)], &[WatchKind::Modified]),
    (("clone_range", "behind the end"), &[("file", EXTEND)], &[WatchKind::Modified]),
    (("clone_range", "across the end"), &[("file", BOTH)], &[WatchKind::Modified]),
    (("clone_range", "small one"), &[("file", EXTEND)], &[WatchKind::Modified]),
    (("clone_range", "from a snapshot"), &[("file", OVER)], &[WatchKind::Modified]),
    (("clone_range", "of itself as it was"), &[("file", OVER)], &[WatchKind::Modified]),
    (("copy", "over"), &[("file", OVER)], &[WatchKind::Modified]),
    (("copy", "unlike in blocks"), &[("file", OVER)], &[WatchKind::Modified]),
    (("copy", "from a snapshot"), &[("file", OVER)], &[WatchKind::Modified]),
    (("set_extended", "new"), &[("file", EXTENDED)], &[WatchKind::Attributes]),
    (("set_extended", "other"), &[("file", EXTENDED)], &[WatchKind::Attributes]),
    (("remove_extended", ""), &[("file", EXTENDED)], &[WatchKind::Attributes]),
    (("set_security", "of a file"), &[("file", SECURITY)], &[WatchKind::Security]),
    (("set_security", "of a directory"), &[("dir", SECURITY)], &[WatchKind::Security]),
    (("set_security", "handed on"), &[("below", SECURITY)], &[WatchKind::Security]),
    (("create_stream", "new"), &[("file", STREAM)], &[WatchKind::Streams]),
    (("create_stream", "of a directory"), &[("dir", STREAM)], &[WatchKind::Streams]),
    (("create_stream", "replaced"), &[("file", NAMED_CUT)], &[WatchKind::Streams]),
    (("write_stream", "over"), &[("file", NAMED_OVER)], &[WatchKind::Streams]),
    (("write_stream", "over, the same"), &[("file", NAMED_OVER)], &[WatchKind::Streams]),
    (("write_stream", "behind the end"), &[("file", NAMED_EXTEND)], &[WatchKind::Streams]),
    (("write_stream", "far behind the end"), &[("file", NAMED_EXTEND)], &[WatchKind::Streams]),
    (("write_stream", "across the end"), &[("file", Reasons(NAMED_OVER.0 | NAMED_EXTEND.0))], &[WatchKind::Streams]),
    (("set_stream_length", "longer"), &[("file", NAMED_EXTEND)], &[WatchKind::Streams]),
    (("set_stream_length", "shorter"), &[("file", NAMED_CUT)], &[WatchKind::Streams]),
    (("remove_stream", ""), &[("file", STREAM)], &[WatchKind::Streams]),
    (("rename_stream", "name"), &[("file", STREAM)], &[WatchKind::Streams]),
    (("rename_stream", "case"), &[("file", STREAM)], &[WatchKind::Streams]),
    (
        ("rename_stream", "over another"),
        &[("file", Reasons(STREAM.0 | NAMED_EXTEND.0 | NAMED_OVER.0))],
        &[WatchKind::Streams],
    ),
    (("set_reparse", "of a file"), &[("file", REPARSE)], &[WatchKind::Attributes]),
    (("set_reparse", "of a directory"), &[("dir", REPARSE)], &[WatchKind::Attributes]),
    (("set_reparse", "other data"), &[("point", REPARSE)], &[WatchKind::Attributes]),
    (("remove_reparse", ""), &[("point", REPARSE)], &[WatchKind::Attributes]),
    (("flush", ""), &[], &[]),
    (("sync", ""), &[], &[]),
];

struct World {
    volume: Arc<Volume>,
    browsed: Browsed,
    caller: Caller,
    root: FileId,
}

fn point(data: u8) -> ReparsePoint {
    ReparsePoint { tag: MOUNT_POINT_TAG, guid: None, data: vec![data; 9] }
}

impl World {
    async fn id(&self, name: &str) -> FileId {
        let found = self.volume.lookup(&self.caller, self.root, name.as_bytes()).await.expect("looked up");
        found.unwrap_or_else(|| panic!("{name} is there")).id
    }

    /// The same in a snapshot.
    async fn past(&self, name: &str) -> FileId {
        let mut at = self.root;
        for name in [".snapshots", "before", name] {
            let found = self.browsed.lookup(&self.caller, at, name.as_bytes()).await.expect("looked up");
            at = found.unwrap_or_else(|| panic!("{name} is there")).id;
        }
        at
    }

    async fn make(&self, dir: FileId, name: &str, new: &NewFile<'_>) -> FileId {
        self.volume.create(&self.caller, dir, name.as_bytes(), new).await.expect("created").id
    }

    async fn open(&self, id: FileId, mode: OpenMode) -> BrowsedHandle {
        self.browsed.open(&self.caller, id, mode).await.expect("opened")
    }

    async fn close(&self, handle: BrowsedHandle) {
        self.browsed.close(handle).await.expect("closed");
    }

    async fn write(&self, name: &str, at: usize, len: usize, byte: u8) {
        let handle = self.open(self.id(name).await, WRITING).await;
        let data = IoSlice::padded(&vec![byte; len]);
        assert_eq!(self.browsed.write(&handle, at as u64, data, len).await, Ok(len));
        self.close(handle).await;
    }

    async fn set(&self, name: &str, set: SetAttributes) {
        self.volume.set(&self.caller, self.id(name).await, &set).await.expect("set");
    }

    async fn allocate(&self, at: usize, len: usize, how: Allocate) {
        let handle = self.open(self.id("file").await, WRITING).await;
        self.browsed.allocate(&handle, at as u64, len as u64, how).await.expect("done");
        self.close(handle).await;
    }

    /// Has a range of "file" be what a range of another file is, cloned or copied.
    async fn take(&self, is_copied: bool, from: FileId, at: (usize, usize), len: usize) {
        let (from, to) = (self.open(from, READING).await, self.open(self.id("file").await, WRITING).await);
        let (source, target, len) = ((&from, at.0 as u64), (&to, at.1 as u64), len as u64);
        match is_copied {
            true => assert_eq!(self.browsed.copy(source, target, len).await, Ok(len)),
            false => self.browsed.clone_range(source, target, len).await.expect("cloned"),
        }
        self.close(from).await;
        self.close(to).await;
    }

    /// All that is there before a request.
    async fn prepare(&self) {
        let root = self.root;
        for name in ["file", "other", "small", "holes", "point"] {
            self.make(root, name, &NEW).await;
        }
        let dir = self.make(root, "dir", &DIRECTORY).await;
        let full = self.make(root, "full", &DIRECTORY).await;
        self.make(full, "below", &NEW).await;
        self.write("file", 0, 3 * BLOCK, 1).await;
        self.write("other", 0, 2 * BLOCK, 2).await;
        self.write("small", 0, 100, 3).await;
        self.write("holes", 9 * BLOCK, BLOCK, 4).await;
        self.volume.link(&self.caller, self.id("small").await, root, b"second").await.expect("linked");
        let file = self.id("file").await;
        for name in [&b"s"[..], b"t"] {
            let len = if name == b"s" { 10 } else { 5 };
            self.volume.create_stream(&self.caller, file, name, SetMode::Create).await.expect("made");
            self.volume.write_stream(&self.caller, file, name, 0, &vec![name[0]; len]).await.expect("written");
        }
        self.volume.set_extended(&self.caller, file, b"user.a", b"value", SetMode::Any).await.expect("set");
        let place = self.id("point").await;
        self.volume.set_reparse(&self.caller, place, &point(1)).await.expect("set");
        assert_ne!(dir, full);
    }

    async fn act(&self, (request, which): Act) {
        let (volume, caller, root) = (&self.volume, &self.caller, self.root);
        let file = self.id("file").await;
        let at = Some(SetTime::At(Time { seconds: 77, nanos: 0 }));
        match (request, which) {
            ("create", "file") => _ = self.make(root, "new", &NEW).await,
            ("create", "directory") => _ = self.make(root, "new", &DIRECTORY).await,
            ("create", _) => {
                let new = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"there" };
                self.make(root, "new", &new).await;
            }
            ("create_secured", _) => {
                let given = sddl::parse("D:(A;;FA;;;WD)", None).expect("a descriptor");
                volume.create_secured(caller, root, b"new", &NEW, &given).await.expect("created");
            }
            ("create_unnamed", which) => {
                let (made, handle) = volume.create_unnamed(caller, root, &NEW).await.expect("created");
                if which == "that gets a name" {
                    volume.link(caller, made.id, root, b"new").await.expect("linked");
                }
                volume.close(handle).await.expect("closed");
            }
            ("link", _) => _ = volume.link(caller, file, root, b"new").await.expect("linked"),
            ("remove", "last name") => volume.remove(caller, root, b"file", Remove::File).await.expect("removed"),
            ("remove", "open file") => {
                let handle = self.open(file, WRITING).await;
                volume.remove(caller, root, b"file", Remove::File).await.expect("removed");
                let data = IoSlice::padded(&[9; BLOCK]);
                assert_eq!(self.browsed.write(&handle, 0, data, BLOCK).await, Ok(BLOCK));
                self.close(handle).await;
            }
            ("remove", "directory") => volume.remove(caller, root, b"dir", Remove::Directory).await.expect("removed"),
            ("remove", _) => volume.remove(caller, root, b"second", Remove::File).await.expect("removed"),
            ("rename", which) => {
                let (from, to, mode) = match which {
                    "directory" => ("dir", "new", Rename::Replace),
                    "case" => ("file", "FILE", Rename::Replace),
                    "over another" => ("file", "other", Rename::Replace),
                    "exchange" => ("file", "other", Rename::Exchange),
                    _ => ("file", "new", Rename::Replace),
                };
                let (from, to) = ((root, from.as_bytes()), (root, to.as_bytes()));
                volume.rename(caller, from, to, mode).await.expect("renamed");
            }
            ("set", "mode") => self.set("file", SetAttributes { mode: Some(0o600), ..NONE }).await,
            ("set", "mode of two names") => self.set("small", SetAttributes { mode: Some(0o600), ..NONE }).await,
            ("set", "owner") => self.set("file", SetAttributes { uid: Some(9), ..NONE }).await,
            ("set", "group") => self.set("dir", SetAttributes { gid: Some(9), ..NONE }).await,
            ("set", "accessed") => self.set("file", SetAttributes { accessed: at, ..NONE }).await,
            ("set", "modified") => self.set("file", SetAttributes { modified: at, ..NONE }).await,
            ("set", "created") => self.set("dir", SetAttributes { created: at, ..NONE }).await,
            ("set", "hidden") => {
                let dos = Some(DosAttributes::HIDDEN | DosAttributes::ARCHIVE);
                self.set("file", SetAttributes { dos, ..NONE }).await;
            }
            ("set", "not to be archived") => {
                self.set("file", SetAttributes { dos: Some(DosAttributes::empty()), ..NONE }).await;
            }
            ("set_integrity", which) => {
                let id = if which == "file" { file } else { self.id("dir").await };
                volume.set_integrity(caller, id, Integrity::Strict).await.expect("set");
            }
            ("set", "longer") => self.set("file", SetAttributes { size_bytes: Some(1 << 20), ..NONE }).await,
            ("set", "shorter") => self.set("file", SetAttributes { size_bytes: Some(5000), ..NONE }).await,
            ("set", _) => self.set("small", SetAttributes { size_bytes: Some(50), ..NONE }).await,
            ("open", "cut") => self.close(self.open(file, OpenMode { truncate: true, ..WRITING }).await).await,
            ("open" | "close", _) => self.close(self.open(file, WRITING).await).await,
            ("write", "part of a block") => self.write("file", 5000, 7, 9).await,
            ("write", "behind the end") => self.write("file", 3 * BLOCK, BLOCK, 9).await,
            ("write", "across the end") => self.write("file", 2 * BLOCK, 2 * BLOCK, 9).await,
            ("write", "into a hole") => self.write("holes", BLOCK, BLOCK, 9).await,
            ("write", "small one") => self.write("small", 10, 10, 9).await,
            ("write", "small one, longer") => self.write("small", 100, 10, 9).await,
            ("write", "small one, out of its record") => self.write("small", 50, 2 * BLOCK, 9).await,
            ("write", _) => self.write("file", BLOCK, BLOCK, 9).await,
            ("allocate", "reserve") => {
                self.allocate(0, 8 * BLOCK, Allocate::Reserve { keep_size: false }).await;
            }
            ("allocate", "reserve, no longer") => {
                self.allocate(0, 8 * BLOCK, Allocate::Reserve { keep_size: true }).await;
            }
            ("allocate", "punch") => self.allocate(BLOCK, BLOCK, Allocate::Punch).await,
            ("allocate", "zero") => self.allocate(BLOCK, BLOCK, Allocate::Zero { keep_size: true }).await,
            ("allocate", "zero a part of a block") => {
                self.allocate(5000, 100, Allocate::Zero { keep_size: true }).await;
            }
            ("allocate", _) => self.allocate(3 * BLOCK, BLOCK, Allocate::Zero { keep_size: false }).await,
            ("clone_range", "small one") => self.take(false, self.id("small").await, (0, 3 * BLOCK), 100).await,
            ("clone_range", "behind the end") => {
                self.take(false, self.id("other").await, (0, 3 * BLOCK), 2 * BLOCK).await;
            }
            ("clone_range", "across the end") => {
                self.take(false, self.id("other").await, (0, 2 * BLOCK), 2 * BLOCK).await;
            }
            ("clone_range", "from a snapshot") => self.take(false, self.past("other").await, (0, 0), BLOCK).await,
            ("clone_range", "of itself as it was") => self.take(false, self.past("file").await, (0, 0), BLOCK).await,
            ("clone_range", _) => self.take(false, self.id("other").await, (0, BLOCK), BLOCK).await,
            ("copy", "unlike in blocks") => self.take(true, self.id("other").await, (7, 0), BLOCK).await,
            ("copy", "from a snapshot") => self.take(true, self.past("other").await, (0, 0), BLOCK).await,
            ("copy", _) => self.take(true, self.id("other").await, (0, BLOCK), BLOCK).await,
            ("set_extended", which) => {
                let name: &[u8] = if which == "new" { b"user.b" } else { b"user.a" };
                volume.set_extended(caller, file, name, b"other", SetMode::Any).await.expect("set");
            }
            ("remove_extended", _) => volume.remove_extended(caller, file, b"user.a").await.expect("removed"),
            ("set_security", "handed on") => {
                let full = self.id("full").await;
                let mut walk = Reinheriting::below(full);
                while !walk.is_over() {
                    volume.reinherit(caller, &mut walk, 100).await.expect("handed on");
                }
            }
            ("set_security", which) => {
                let id = if which == "of a file" { file } else { self.id("dir").await };
                self.secure(id).await;
            }
            ("create_stream", "new") => {
                volume.create_stream(caller, file, b"new", SetMode::Create).await.expect("made");
            }
            ("create_stream", "replaced") => {
                volume.create_stream(caller, file, b"s", SetMode::Replace).await.expect("made");
            }
            ("create_stream", _) => {
                let dir = self.id("dir").await;
                volume.create_stream(caller, dir, b"new", SetMode::Any).await.expect("made");
            }
            ("write_stream", which) => {
                let (at, bytes): (u64, &[u8]) = match which {
                    "over" => (2, b"xy"),
                    "over, the same" => (2, b"ss"),
                    "behind the end" => (10, b"more"),
                    "far behind the end" => (9000, b"more"),
                    _ => (8, b"across"),
                };
                volume.write_stream(caller, file, b"s", at, bytes).await.expect("written");
            }
            ("set_stream_length", which) => {
                let len = if which == "longer" { 5000 } else { 3 };
                volume.set_stream_length(caller, file, b"s", len).await.expect("set");
            }
            ("remove_stream", _) => volume.remove_stream(caller, file, b"s").await.expect("removed"),
            ("rename_stream", which) => {
                let to: &[u8] = match which {
                    "name" => b"new",
                    "case" => b"S",
                    _ => b"t",
                };
                volume.rename_stream(caller, file, b"s", to, true).await.expect("renamed");
            }
            ("set_reparse", which) => {
                let (id, point) = match which {
                    "of a file" => (file, point(1)),
                    "of a directory" => (self.id("dir").await, point(1)),
                    _ => (self.id("point").await, point(2)),
                };
                volume.set_reparse(caller, id, &point).await.expect("set");
            }
            ("remove_reparse", _) => {
                let place = self.id("point").await;
                volume.remove_reparse(caller, place, MOUNT_POINT_TAG, None).await.expect("removed");
            }
            ("flush", _) => volume.flush(file, Flush::All).await.expect("it lasts"),
            ("sync", _) => volume.sync().await.expect("it lasts"),
            other => panic!("{other:?} is no request"),
        }
    }

    async fn secure(&self, id: FileId) {
        let given = sddl::parse("D:(A;OICI;FA;;;WD)(A;OICI;FR;;;S-1-22-1-5)", None).expect("a descriptor");
        self.volume.set_security(&self.caller, id, SecurityParts::DACL, &given).await.expect("set");
    }
}

fn with(test: impl AsyncFnOnce(World) + 'static) {
    let sim = Sim::new(5);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 32 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk.clone();
        let store = Format { volume: Uuid::from_u128(7), log_bytes: None };
        let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        // Time goes on, as it does.
        let seconds = Arc::new(AtomicI64::new(1000));
        let clock = Arc::new(move || Time { seconds: seconds.fetch_add(1, Ordering::Relaxed), nanos: 0 });
        let volume = Arc::new(Volume::open(device, Settings::default(), clock).await.expect("opened"));
        let (browsed, root) = (Browsed::new(volume.clone()), volume.root());
        let world = World { volume, browsed, caller: Caller::default(), root };
        world.prepare().await;
        test(world).await;
    });
    ran.expect("powered");
}

/// Does one thing, and holds what is told of it against the table; answers where they differ.
async fn check(world: World, act: Act, expected: Records, watched: &[WatchKind]) -> Option<String> {
    let volume = &world.volume;
    if act.1.contains("snapshot") || act.1.contains("as it was") {
        volume.create_snapshot("before").await.expect("made");
    }
    if act.1 == "of itself as it was" {
        world.write("file", 0, BLOCK, 8).await;
    }
    if act.1 == "handed on" {
        world.secure(world.id("full").await).await;
    }
    volume.sync().await.expect("it lasts");
    let state = volume.set_journal(64 << 10).await.expect("made");
    let deep = WatchSettings { deep: true, ..WatchSettings::default() };
    let mut watch = volume.watch(world.root, deep).await.expect("watched");
    world.act(act).await;
    // What waits is written, and its file is at its end then.
    volume.sync().await.expect("it lasts");

    let read = volume.read_journal(state.id, state.next, 100, Reasons::ALL).await.expect("read");
    let JournalRead::Records { records, .. } = read else { panic!("{act:?}: {read:?}") };
    let mut told: Vec<(FileId, String, Reasons)> = Vec::new();
    for record in &records {
        let name = String::from_utf8(record.name.clone()).expect("text");
        match told.last_mut() {
            Some((file, last, reasons)) if *file == record.file && *last == name => *reasons |= record.new,
            _ => told.push((record.file, name, record.new)),
        }
    }
    // Whatever happened is closed: nobody has any of the files open.
    let closes = |at: usize| {
        records[at..].iter().any(|record| record.file == records[at].file && record.reasons.has(Reasons::CLOSE))
    };
    assert!((0..records.len()).all(closes), "{act:?}: {records:?}");
    let own = |(_, name, reasons): (FileId, String, Reasons)| (name, Reasons(reasons.0 & !Reasons::CLOSE.0));
    let told: Vec<(String, Reasons)> = told.into_iter().map(own).collect();
    let expected: Vec<(String, Reasons)> = expected.iter().map(|(name, reasons)| ((*name).into(), *reasons)).collect();
    let mut kinds: Vec<WatchKind> = all_now(&mut watch, volume).await.into_iter().map(|told| told.0).collect();
    // Data that comes in parts is told of more than once.
    if watched.iter().all(|kind| *kind == WatchKind::Modified) {
        kinds.truncate(watched.len().max(usize::from(!kinds.is_empty())));
    }
    assert_eq!(volume.scan().await, Ok(Vec::new()));
    let is_right = told == expected && kinds == watched;
    (!is_right).then(|| format!("{act:?}: {told:?} and {kinds:?} instead of {expected:?} and {watched:?}"))
}

#[test]
fn every_request_tells_why_a_file_is_another_one() {
    let wrong: Rc<RefCell<Vec<String>>> = Rc::default();
    for (act, expected, watched) in TABLE {
        let wrong = wrong.clone();
        with(async move |world| {
            let found = check(world, *act, expected, watched).await;
            wrong.borrow_mut().extend(found);
        });
    }
    assert!(wrong.borrow().is_empty(), "{:#?}", wrong.borrow());
}

#[test]
fn no_request_of_the_service_is_left_out() {
    let service = include_str!("../../src/service.rs");
    let name = |line: &'static str| -> Option<&str> {
        let rest = line.trim().strip_prefix("async fn ")?;
        rest.split(['(', '<']).next()
    };
    let requests: BTreeSet<&str> = service.lines().filter_map(name).collect();
    assert!(requests.len() > 40, "{requests:?}");
    let changes = TABLE.iter().map(|((request, _), ..)| *request);
    let told: BTreeSet<&str> = changes.chain(READS).collect();
    assert_eq!(requests, told);
}

#[test]
fn a_snapshot_has_no_journal_and_nothing_to_watch() {
    with(async |world| {
        let volume = &world.volume;
        volume.sync().await.expect("it lasts");
        let state = volume.set_journal(64 << 10).await.expect("made");
        volume.create_snapshot("before").await.expect("made");
        let view = volume.open_snapshot("before").expect("it is there");
        assert_eq!(view.journal(), None);
        let read = view.read_journal(state.id, 0, 10, Reasons::ALL).await;
        assert_eq!(read, Ok(JournalRead::Other { id: None }));
        let kind = |error: holdfast_volume::VolumeError| error.kind;
        assert_eq!(view.set_journal(64 << 10).await.map_err(kind), Err(ErrorKind::ReadOnly));
        assert_eq!(view.remove_journal().await.map_err(kind), Err(ErrorKind::ReadOnly));
        let watched = view.watch(view.root(), WatchSettings::default()).await;
        assert_eq!(watched.err().map(kind), Some(ErrorKind::ReadOnly));
        for id in [world.past("dir").await, FileId { number: 1 << 62, generation: 1 }] {
            let watched = world.browsed.watch(id, WatchSettings::default()).await;
            assert_eq!(watched.err().map(kind), Some(ErrorKind::ReadOnly));
        }
        let mut watch = world.browsed.watch(world.root, WatchSettings::default()).await.expect("as it is");
        world.make(world.root, "new", &NEW).await;
        assert_eq!(all_now(&mut watch, volume).await.len(), 1);
        // That of the volume goes on beside its snapshots, and when they go.
        volume.destroy_snapshot("before").await.expect("destroyed");
        let read = volume.read_journal(state.id, state.next, 10, Reasons::ALL).await;
        let Ok(JournalRead::Records { records, .. }) = read else { panic!("{read:?}") };
        assert_eq!(records.len(), 1);
    });
}
