//! A directory of this machine that takes what a salvage finds.
//!
//! ```text
//!   DIR/files/…        directories, files, links, special files, as they were in the volume
//!   DIR/beside.jsonl   what Windows knows of them: a line for each that has a descriptor, attributes, a reparse point or
//!                      named streams
//!   DIR/streams/N      the bytes of a named stream; its line says which N
//!   DIR/report.json    what was copied, and what is missing and why
//! ```
//!
//! The file system is asked on a thread of its own: a reactor must not wait for it.
//!
//! Invariant: nothing is written outside of the directory. A directory of the wreck is one that was made here, and files
//! are made new, so no link that the wreck has is followed.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use holdfast_api::ApiError;
use holdfast_space::Pace;
use holdfast_volume::salvage::{Beside, Found, Missing, Rescue, Salvaged};
use holdfast_volume::service::{Attributes, Data, FileKind, Time};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use serde::Serialize;
use tokio::sync::oneshot;

use self::beside::Lines;
use crate::error::ApiResult;

mod beside;

/// Where files are in the directory.
const FILES: &str = "files";
/// What tells what came of it.
const REPORT: &str = "report.json";

/// Refuses a directory that holds something, or cannot be made.
pub(crate) fn check_empty(object: &str, directory: &str) -> ApiResult<()> {
    let refuse = |why: String, next: &str| Err(ApiError::invalid(object, why, next).at("to"));
    let path = Path::new(directory);
    if !path.is_absolute() {
        return refuse(format!("{directory:?} is no absolute path"), "write it from / on");
    }
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => refuse(format!("{directory} is not empty"), "name a new directory, or an empty one"),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = path.parent().unwrap_or(path);
            if above.is_dir() {
                return Ok(());
            }
            refuse(format!("{} is no directory", above.display()), "make it first")
        }
        Err(error) => refuse(format!("{directory}: {error}"), "name a new directory, or an empty one"),
    }
}

/// Work for the thread.
type Work = Box<dyn FnOnce(&mut Writer) + Send>;

/// The directory.
pub(crate) struct Folder<'a> {
    work: mpsc::Sender<Work>,
    pace: &'a dyn Pace,
    /// Bytes that the pace knows of.
    told: u64,
}

/// What the thread has in its hands.
struct Writer {
    root: PathBuf,
    file: Option<File>,
    lines: Lines,
}

/// What is kept of a file for the thread.
struct Owned {
    path: Vec<Vec<u8>>,
    facts: Attributes,
    target: Vec<u8>,
    extended: Vec<(Vec<u8>, Vec<u8>)>,
    beside: Beside,
}

impl Owned {
    fn of(found: &Found<'_>) -> Self {
        let (target, extended, beside) = (found.target.to_vec(), found.extended.to_vec(), found.beside.clone());
        Self { path: found.path.to_vec(), facts: *found.facts, target, extended, beside }
    }
}

/// What the report says.
#[derive(Serialize)]
struct Report<'a> {
    directories: u64,
    files: u64,
    links: u64,
    streams: u64,
    other_objects: u64,
    bytes: u64,
    lost_bytes: u64,
    findings: Vec<String>,
    missing_count: u64,
    missing: &'a [Missing],
    complete: bool,
}

impl<'a> Folder<'a> {
    /// Makes the directory where it is not there yet.
    ///
    /// # Errors
    /// It cannot be made, or is not empty.
    pub(crate) async fn begin(directory: &str, pace: &'a dyn Pace) -> Result<Self, String> {
        let (work, todo) = mpsc::channel::<Work>();
        let root = PathBuf::from(directory);
        let (begun, is_begun) = oneshot::channel();
        let run = move || {
            let files = root.join(FILES);
            let made = make_root(&root, &files);
            let is_made = made.is_ok();
            if begun.send(made).is_err() || !is_made {
                return;
            }
            let mut writer = Writer { lines: Lines::new(&root), root: files, file: None };
            todo.into_iter().for_each(|work| work(&mut writer));
        };
        let thread = std::thread::Builder::new().name("salvage".into()).spawn(run);
        thread.map_err(|error| format!("a thread for it: {error}"))?;
        is_begun.await.map_err(|_| "its thread ended".to_owned())??;
        Ok(Self { work, pace, told: 0 })
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the thread that writes ended".to_owned();
        let work = Box::new(move |writer: &mut Writer| _ = answer.send(work(writer)));
        self.work.send(work).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Writes the report and makes all of it durable.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) async fn end(self, done: &Salvaged) -> Result<(), String> {
        let report = Report {
            directories: done.directories,
            files: done.files,
            links: done.links,
            streams: done.streams,
            other_objects: done.others,
            bytes: done.bytes,
            lost_bytes: done.lost_bytes,
            findings: done.findings.iter().map(ToString::to_string).collect(),
            missing_count: done.missing_count,
            missing: &done.missing,
            complete: done.missing_count == 0 && !done.is_cut,
        };
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        self.ask(move |writer| {
            let path = writer.root.with_file_name(REPORT);
            std::fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
            let root = File::open(&writer.root).map_err(|error| error.to_string())?;
            rustix::fs::syncfs(root).map_err(|error| format!("making it durable: {error}"))
        })
        .await
    }
}

impl Rescue for Folder<'_> {
    async fn make(&mut self, found: &Found<'_>) -> Result<(), String> {
        let owned = Owned::of(found);
        self.ask(move |writer| writer.make(&owned)).await
    }

    async fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), String> {
        let (first, path) = (first.to_vec(), path.to_vec());
        self.ask(move |writer| {
            std::fs::hard_link(writer.place(&first), writer.place(&path)).map_err(|error| error.to_string())
        })
        .await
    }

    async fn data(&mut self, _found: &Found<'_>, offset: u64, data: &Data) -> Result<(), String> {
        let bytes = data.to_vec();
        self.ask(move |writer| {
            let file = writer.file.as_ref().ok_or("no file is open")?;
            file.write_all_at(&bytes, offset).map_err(|error| error.to_string())
        })
        .await
    }

    async fn stream(&mut self, found: &Found<'_>, name: &[u8], bytes: &[u8]) -> Result<(), String> {
        let (path, name, bytes) = (found.path.to_vec(), name.to_vec(), bytes.to_vec());
        self.ask(move |writer| writer.lines.stream(path, name, &bytes)).await
    }

    async fn finish(&mut self, found: &Found<'_>) -> Result<(), String> {
        let owned = Owned::of(found);
        self.ask(move |writer| writer.finish(&owned)).await
    }

    async fn go_on(&mut self, bytes: u64) -> bool {
        let new = bytes.saturating_sub(self.told);
        self.told = bytes;
        self.pace.done(new);
        self.pace.step(new).await.is_ok()
    }
}

fn make_root(root: &Path, files: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", root.display());
    let mut private = DirBuilder::new();
    private.mode(0o700);
    match private.create(root) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if std::fs::read_dir(root).map_err(wrong)?.next().is_some() {
                return Err(format!("{} is not empty: name a new directory", root.display()));
            }
        }
        made => made.map_err(wrong)?,
    }
    private.create(files).map_err(wrong)
}

impl Writer {
    fn place(&self, path: &[Vec<u8>]) -> PathBuf {
        path.iter().fold(self.root.clone(), |place, name| place.join(OsStr::from_bytes(name)))
    }

    fn make(&mut self, found: &Owned) -> Result<(), String> {
        self.file = None;
        if found.path.is_empty() {
            return Ok(());
        }
        let place = self.place(&found.path);
        let wrong = |error: std::io::Error| error.to_string();
        let node = |kind: FileType, device: u32| {
            rustix::fs::mknodat(CWD, &place, kind, Mode::from_raw_mode(0o600), u64::from(device))
                .map_err(|error| error.to_string())
        };
        match found.facts.kind {
            FileKind::Directory => DirBuilder::new().mode(0o700).create(&place).map_err(wrong),
            FileKind::Symlink => symlink(OsStr::from_bytes(&found.target), &place).map_err(wrong),
            FileKind::Fifo => node(FileType::Fifo, 0),
            FileKind::Socket => node(FileType::Socket, 0),
            FileKind::CharDevice(device) => node(FileType::CharacterDevice, device),
            FileKind::BlockDevice(device) => node(FileType::BlockDevice, device),
            FileKind::Regular => {
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place).map_err(wrong)?;
                file.set_len(found.facts.size_bytes).map_err(wrong)?;
                self.file = Some(file);
                Ok(())
            }
        }
    }

    /// Gives an object the attributes that it had. What cannot be set is told; the rest is.
    fn finish(&mut self, found: &Owned) -> Result<(), String> {
        self.file = None;
        let mut refused = Vec::from_iter(self.lines.finish(found).err());
        // The directory that was named stays its owner's.
        if found.path.is_empty() {
            return if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) };
        }
        let (place, facts) = (self.place(&found.path), &found.facts);
        for (name, value) in &found.extended {
            let name = OsStr::from_bytes(name);
            if let Err(error) = rustix::fs::lsetxattr(&place, name, value, XattrFlags::empty()) {
                refused.push(format!("extended attribute {}: {error}", name.display()));
            }
        }
        if let Err(error) = lchown(&place, Some(facts.uid), Some(facts.gid)) {
            refused.push(format!("owner: {error}"));
        } else if facts.kind != FileKind::Symlink
            && let Err(error) = std::fs::set_permissions(&place, Permissions::from_mode(facts.mode))
        {
            refused.push(format!("mode: {error}"));
        }
        let time = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanos) };
        let times = Timestamps { last_access: time(facts.accessed), last_modification: time(facts.modified) };
        if let Err(error) = rustix::fs::utimensat(CWD, &place, &times, AtFlags::SYMLINK_NOFOLLOW) {
            refused.push(format!("times: {error}"));
        }
        if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_and_empty_directories_are_taken() {
        let above = tempfile::tempdir().expect("a folder");
        let path = |name: &str| above.path().join(name).to_str().expect("UTF-8").to_owned();
        assert!(check_empty("volume tank/files", &path("new")).is_ok());
        std::fs::create_dir(path("empty")).expect("made");
        assert!(check_empty("volume tank/files", &path("empty")).is_ok());
        std::fs::write(path("empty/file"), "x").expect("written");
        for (directory, why) in [
            (path("empty"), "is not empty"),
            (path("none/below"), "is no directory"),
            (path("empty/file"), "Not a directory"),
            ("relative".into(), "no absolute path"),
        ] {
            let error = check_empty("volume tank/files", &directory).expect_err(&directory);
            assert!(error.message.contains(why), "{error}");
            assert_eq!(error.field.as_deref(), Some("to"));
        }
    }
}
