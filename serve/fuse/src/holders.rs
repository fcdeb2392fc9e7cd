//! Who uses a mount, as `/proc` tells: programs that run from it, stand in it, or have files of it open or mapped, and
//! mounts below it.
//!
//! Invariant: nothing here asks the mount itself, so that it may be asked of one that does not answer.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::mount::{Mount, mounts};

/// Holders that a message names.
const NAMED: usize = 5;

/// Something that keeps a mount from being taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A program.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        command: String,
        /// What it uses.
        path: PathBuf,
    },
    /// Something that is mounted below.
    Mount(PathBuf),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, command, path } => write!(f, "{command} (pid {pid}: {})", path.display()),
            Self::Mount(path) => write!(f, "a mount on {}", path.display()),
        }
    }
}

/// Holders in words.
pub(crate) fn words(holders: &[Holder]) -> String {
    let named: Vec<String> = holders.iter().take(NAMED).map(ToString::to_string).collect();
    match (holders.len(), holders.len().saturating_sub(NAMED)) {
        (0, _) => {
            "something that /proc does not show, such as an NFS server, a loop device or another container".into()
        }
        (_, 0) => named.join(", "),
        (_, more) => format!("{}, and {more} more", named.join(", ")),
    }
}

/// Who uses what is mounted on a directory.
pub(crate) fn holders(directory: &Path) -> Vec<Holder> {
    let Ok(table) = mounts() else { return Vec::new() };
    let Some(mount) = table.iter().rfind(|mount| mount.directory == directory) else { return Vec::new() };
    let below = table.iter().filter(|other| other.directory != directory && other.directory.starts_with(directory));
    let mut found: Vec<Holder> = below.map(|other| Holder::Mount(other.directory.clone())).collect();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(path) = used_by(&process.path(), mount) {
            let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default().trim_end().to_owned();
            found.push(Holder::Process { pid, command, path });
        }
    }
    found
}

/// What a process uses of a mount; of one that ends meanwhile, nothing.
fn used_by(process: &Path, mount: &Mount) -> Option<PathBuf> {
    let link = |name: &OsStr| fs::read_link(process.join(name)).ok();
    let within = ["cwd", "root", "exe"].into_iter().filter_map(|name| link(OsStr::new(name)));
    let within = within.into_iter().find(|path| path.starts_with(&mount.directory));
    let opened = || {
        let open = fs::read_dir(process.join("fdinfo")).ok()?.flatten();
        let is_its =
            |text: &str| text.lines().any(|line| line.strip_prefix("mnt_id:").map(str::trim) == Some(&mount.id));
        let number = open.into_iter().find(|file| fs::read_to_string(file.path()).is_ok_and(|text| is_its(&text)))?;
        Some(link(Path::new("fd").join(number.file_name()).as_os_str()).unwrap_or_else(|| mount.directory.clone()))
    };
    let mapped = || {
        let maps = fs::read_to_string(process.join("maps")).ok()?;
        maps.lines().find_map(|line| mapped_of(line, &mount.device))
    };
    within.or_else(opened).or_else(mapped)
}

/// The file of a line of `/proc/PID/maps`, if it is on this device: `ADDRESS PERMS OFFSET MAJOR:MINOR INODE PATH`, the
/// numbers of the device in hexadecimal.
fn mapped_of(line: &str, device: &str) -> Option<PathBuf> {
    let mut fields = line.split_ascii_whitespace();
    let (major, minor) = fields.nth(3)?.split_once(':')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let is_its = format!("{}:{}", number(major)?, number(minor)?) == device;
    is_its.then(|| fields.skip(1).collect::<Vec<_>>().join(" ").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_known_by_its_device() {
        let line = "7f0c-7f0d rw-p 00021000 00:3b 1234                   /mnt/a file";
        assert_eq!(mapped_of(line, "0:59"), Some("/mnt/a file".into()));
        assert_eq!(mapped_of(line, "0:60"), None);
        assert_eq!(mapped_of("7f0c-7f0d rw-p 00000000 00:00 0 ", "0:59"), None);
    }

    #[test]
    fn a_few_are_named_and_the_rest_counted() {
        let one = |pid| Holder::Process { pid, command: "cp".into(), path: "/mnt/file".into() };
        assert_eq!(words(&[one(7), Holder::Mount("/mnt/x".into())]), "cp (pid 7: /mnt/file), a mount on /mnt/x");
        assert!(words(&(0..7).map(one).collect::<Vec<_>>()).ends_with("(pid 4: /mnt/file), and 2 more"));
        assert!(words(&[]).contains("/proc does not show"));
    }
}
