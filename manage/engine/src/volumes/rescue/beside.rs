//! What Windows knows of files that a salvage finds: a line of JSON for each that it knows anything of, and named streams as
//! files beside them.
//!
//! ```text
//!   { "path": "docs/report", "attributes": ["hidden"], "sddl": "O:BAG:…",
//!     "reparse": { "tag": "0xa0000003", "data": "…" }, "streams": [{ "name": "Zone.Identifier", "bytes": 26, "file": "streams/1" }] }
//! ```
//!
//! No file system that takes a copy needs to know any of it, and no name of the wreck becomes one here.
//!
//! Invariant: a line names only streams that were written.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holdfast_identity::sddl;
use holdfast_volume::service::{DosAttributes, FileKind};
use serde::Serialize;

use super::Owned;

/// What has the lines.
const LINES: &str = "beside.jsonl";
/// What has the streams.
const STREAMS: &str = "streams";

/// Names of attributes.
const ATTRIBUTES: [(DosAttributes, &str); 9] = [
    (DosAttributes::READ_ONLY, "read_only"),
    (DosAttributes::HIDDEN, "hidden"),
    (DosAttributes::SYSTEM, "system"),
    (DosAttributes::ARCHIVE, "archive"),
    (DosAttributes::SPARSE, "sparse"),
    (DosAttributes::OFFLINE, "offline"),
    (DosAttributes::NOT_CONTENT_INDEXED, "not_content_indexed"),
    (DosAttributes::INTEGRITY_STREAM, "integrity_stream"),
    (DosAttributes::NO_SCRUB_DATA, "no_scrub_data"),
];

#[derive(Serialize)]
struct Line<'a> {
    path: String,
    /// The bytes of the path, in hexadecimal, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    attributes: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sddl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reparse: Option<Reparse>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    streams: &'a [Kept],
}

#[derive(Serialize)]
struct Reparse {
    tag: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    guid: Option<String>,
    data: String,
}

#[derive(Serialize)]
struct Kept {
    name: String,
    bytes: usize,
    file: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes them.
pub(super) struct Lines {
    root: PathBuf,
    lines: Option<File>,
    /// Streams that were written so far.
    count: u64,
    /// Those of objects that are not finished, by path.
    streams: HashMap<Vec<Vec<u8>>, Vec<Kept>>,
}

fn new_file(path: &Path) -> Result<File, String> {
    let made = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}

impl Lines {
    /// In a directory that holds none yet.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), lines: None, count: 0, streams: HashMap::new() }
    }

    /// Writes a stream of an object.
    pub(super) fn stream(&mut self, path: Vec<Vec<u8>>, name: Vec<u8>, bytes: &[u8]) -> Result<(), String> {
        let folder = self.root.join(STREAMS);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("{}: {error}", folder.display()));
            }
            _ => {}
        }
        self.count += 1;
        let number = self.count.to_string();
        new_file(&folder.join(&number))?.write_all(bytes).map_err(|error| error.to_string())?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let kept = Kept { name, bytes: bytes.len(), file: format!("{STREAMS}/{number}") };
        self.streams.entry(path).or_default().push(kept);
        Ok(())
    }

    /// Writes the line of an object, if there is anything to say.
    pub(super) fn finish(&mut self, found: &Owned) -> Result<(), String> {
        let streams = self.streams.remove(&found.path).unwrap_or_default();
        let dos = found.facts.dos;
        // Every file may have the one, and every link has the other.
        let is_plain = dos.difference(DosAttributes::ARCHIVE | DosAttributes::DIRECTORY | DosAttributes::REPARSE_POINT);
        let is_link = found.facts.kind == FileKind::Symlink;
        let beside = &found.beside;
        let has_none = is_link || is_plain.is_empty();
        if has_none && streams.is_empty() && beside.descriptor.is_none() && beside.reparse.is_none() {
            return Ok(());
        }
        let unprinted = |error: sddl::SddlError| format!("security descriptor: {error}");
        let (sddl, refused) = match beside.descriptor.as_ref().map(sddl::print).transpose() {
            Ok(text) => (text, None),
            Err(error) => (None, Some(unprinted(error))),
        };
        let path = found.path.join(&b'/');
        let is_text = std::str::from_utf8(&path).is_ok();
        let line = Line {
            path: String::from_utf8_lossy(&path).into_owned(),
            path_bytes: (!is_text).then(|| hex(&path)),
            attributes: ATTRIBUTES.iter().filter(|(one, _)| dos.contains(*one)).map(|(_, name)| *name).collect(),
            sddl,
            reparse: beside.reparse.as_ref().map(|point| Reparse {
                tag: format!("{:#010x}", point.tag),
                guid: point.guid.map(|guid| hex(&guid)),
                data: hex(&point.data),
            }),
            streams: &streams,
        };
        let mut text = serde_json::to_vec(&line).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => none.insert(new_file(&self.root.join(LINES))?),
        };
        lines.write_all(&text).map_err(|error| format!("{LINES}: {error}"))?;
        refused.map_or(Ok(()), Err)
    }
}
