//! What a disk carries that is none of ours: the signatures that `blkid` finds on it, or data without any.
//!
//! Invariant: nothing here writes, and where nobody can tell, that is said.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast_model::BLOCK_BYTES;

/// Up to here a disk that left a pool is all zeros.
const FRONT_BYTES: u64 = 64 << 10;

/// What `blkid` finds on the disk at `path`: a file system, a partition table, a member of something; `None` if
/// nothing.
///
/// # Errors
/// If `blkid` cannot be run or cannot read the disk: then nobody knows.
pub fn carries(path: &Path) -> Result<Option<String>, String> {
    // One disk a run: of several, blkid looks at none behind the first that has no signature.
    let mut command = Command::new("blkid");
    command.args(["-p", "-o", "export"]).arg(path).env("PATH", search_path()).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "blkid is not installed: install the package util-linux".to_string(),
        _ => format!("blkid cannot be run: {error}"),
    })?;
    match output.status.code() {
        Some(0) => Ok(describe(&String::from_utf8_lossy(&output.stdout))),
        Some(2) => unsigned(path),
        Some(8) => Ok(Some("several contradictory signatures".into())),
        _ => Err(format!("blkid failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Data without a signature: anything but zeros where ours is all wiped when a disk leaves a pool, in front and at the
/// end.
fn unsigned(path: &Path) -> Result<Option<String>, String> {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.seek(SeekFrom::End(0))? / BLOCK_BYTES * BLOCK_BYTES;
        let mut holds = false;
        for (from, bytes) in [(0, FRONT_BYTES.min(size)), (size.saturating_sub(BLOCK_BYTES), BLOCK_BYTES.min(size))] {
            let mut data = vec![0; bytes as usize];
            file.read_exact_at(&mut data, from)?;
            holds |= data.iter().any(|byte| *byte != 0);
        }
        Ok::<_, std::io::Error>(holds.then(|| "data of an unknown kind".into()))
    };
    read().map_err(|error| format!("it cannot be read: {error}"))
}

/// The search path with the system folders, which the path of a service or a plain user often lacks.
pub(crate) fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin:/usr/bin:/bin", std::env::var("PATH").unwrap_or_default())
}

fn describe(export: &str) -> Option<String> {
    let value = |key: &str| export.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let label = value("LABEL").map(|label| format!(" named {label:?}")).unwrap_or_default();
    match (value("TYPE"), value("PTTYPE")) {
        (Some(kind), _) if value("USAGE") == Some("filesystem") => Some(format!("a file system ({kind}){label}")),
        (Some(kind), _) => Some(format!("{kind}{label}")),
        (None, Some(table)) => Some(format!("a partition table ({table})")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_named() {
        let ext4 = "DEVNAME=/x\nLABEL=data\nUUID=1\nTYPE=ext4\nUSAGE=filesystem\n";
        assert_eq!(describe(ext4).as_deref(), Some("a file system (ext4) named \"data\""));
        assert_eq!(describe("DEVNAME=/x\nPTTYPE=gpt\n").as_deref(), Some("a partition table (gpt)"));
        assert_eq!(describe("TYPE=LVM2_member\nUSAGE=raid\n").as_deref(), Some("LVM2_member"));
        assert_eq!(describe("DEVNAME=/x\n"), None);
    }

    #[test]
    fn blkid_tells_a_blank_file_from_a_partition_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert_eq!(carries(&path), Ok(None));
        for at in [0, 5000, (1 << 20) - 1] {
            let mut data = vec![0; 1 << 20];
            data[at] = 7;
            std::fs::write(&path, data).unwrap();
            assert_eq!(carries(&path), Ok(Some("data of an unknown kind".into())), "a byte at {at}");
        }
        let mut table = vec![0; 1 << 20];
        table[446 + 4] = 0x83;
        table[446 + 8..446 + 12].copy_from_slice(&64u32.to_le_bytes());
        table[446 + 12..446 + 16].copy_from_slice(&512u32.to_le_bytes());
        table[510..512].copy_from_slice(&[0x55, 0xaa]);
        std::fs::write(&path, table).unwrap();
        assert_eq!(carries(&path), Ok(Some("a partition table (dos)".into())));
    }
}
