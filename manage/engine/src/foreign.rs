//! What a disk carries that is none of ours: the signatures that `blkid` finds on it, or data without any.
//!
//! Invariant: nothing here writes, and where nobody can tell, that is said.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast_model::BLOCK_BYTES;

/// Up to here a disk that left a pool is all zeros.
const FRONT_BYTES: u64 = 64 << 10;

/// Disks that one run of `blkid` looks at: starting it costs more than looking.
pub const AT_ONCE: usize = 16;

/// What a disk carries: a file system, a partition table, a member of something; `None` if nothing. An error is why nobody knows.
pub type Carried = Result<Option<String>, String>;

/// What `blkid` finds on the disks at `paths`, of each in order.
pub fn carries_each(paths: &[PathBuf]) -> Vec<Carried> {
    paths.chunks(AT_ONCE).flat_map(|group| group_carries(group, &mut blkid)).collect()
}

fn blkid(paths: &[PathBuf]) -> io::Result<Output> {
    let mut command = Command::new("blkid");
    command.args(["-p", "-o", "export"]).args(paths).env("PATH", search_path()).stdin(Stdio::null());
    command.output()
}

/// Looks at disks in one run. That one tells the disks apart that have a signature; of the others it says nothing unless one of
/// them is out of the ordinary, and then each is looked at by itself.
fn group_carries(paths: &[PathBuf], run: &mut impl FnMut(&[PathBuf]) -> io::Result<Output>) -> Vec<Carried> {
    if let [path] = paths {
        return vec![carries(path, run)];
    }
    let Ok(output) = run(paths) else { return paths.iter().map(|path| carries(path, run)).collect() };
    let text = String::from_utf8_lossy(&output.stdout);
    let signed: BTreeMap<&str, &str> = text
        .split("\n\n")
        .filter_map(|export| Some((export.trim_start().lines().next()?.strip_prefix("DEVNAME=")?, export)))
        .collect();
    let ordinary = matches!(output.status.code(), Some(0 | 2)) && output.stderr.is_empty();
    let known = signed.keys().all(|name| paths.iter().any(|path| path.to_str() == Some(name)));
    let of = |path: &PathBuf| match path.to_str().and_then(|path| signed.get(path)) {
        Some(export) => Ok(describe(export)),
        None if ordinary && known => unsigned(path),
        None => carries(path, run),
    };
    paths.iter().map(of).collect()
}

/// What one disk carries.
fn carries(path: &Path, run: &mut impl FnMut(&[PathBuf]) -> io::Result<Output>) -> Carried {
    let output = run(&[path.into()]).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "blkid is not installed: install the package util-linux".to_string(),
        _ => format!("blkid cannot be run: {error}"),
    })?;
    match output.status.code() {
        Some(0) => Ok(describe(&String::from_utf8_lossy(&output.stdout))),
        Some(2) => unsigned(path),
        Some(8) => Ok(Some("several contradictory signatures".into())),
        _ => Err(format!("blkid failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Data without a signature: anything but zeros where ours is all wiped when a disk leaves a pool, in front and at the end.
fn unsigned(path: &Path) -> Carried {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.seek(SeekFrom::End(0))? / BLOCK_BYTES * BLOCK_BYTES;
        let mut holds = false;
        for (from, bytes) in [(0, FRONT_BYTES.min(size)), (size.saturating_sub(BLOCK_BYTES), BLOCK_BYTES.min(size))] {
            let mut data = vec![0; bytes as usize];
            file.read_exact_at(&mut data, from)?;
            holds |= data.iter().any(|byte| *byte != 0);
        }
        Ok::<_, io::Error>(holds.then(|| "data of an unknown kind".into()))
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

    fn alone(path: &Path) -> Carried {
        carries(path, &mut blkid)
    }

    #[test]
    fn many_disks_take_few_runs_and_each_is_seen_as_it_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = vec![0; 1 << 16];
        table[446 + 4] = 0x83;
        table[446 + 8..446 + 16].copy_from_slice(&[64, 0, 0, 0, 32, 0, 0, 0]);
        table[510..512].copy_from_slice(&[0x55, 0xaa]);
        let swap = |page: &mut Vec<u8>| {
            page[1024..1032].copy_from_slice(&[1, 0, 0, 0, 15, 0, 0, 0]);
            page[4086..4096].copy_from_slice(b"SWAPSPACE2");
        };
        let make = |number: usize| {
            let mut data = vec![0; 1 << 16];
            match number % 3 {
                0 => {}
                1 => data.copy_from_slice(&table),
                _ => swap(&mut data),
            }
            let path = folder.path().join(format!("a disk {number}"));
            std::fs::write(&path, data).unwrap();
            path
        };
        let mut paths: Vec<PathBuf> = (0..300).map(make).collect();
        let mut runs = 0;
        let mut counted = |paths: &[PathBuf]| {
            runs += 1;
            blkid(paths)
        };
        let found: Vec<Carried> = paths.chunks(AT_ONCE).flat_map(|group| group_carries(group, &mut counted)).collect();
        assert_eq!(runs, 300_usize.div_ceil(AT_ONCE));
        let expected = [None, Some("a partition table (dos)".to_string()), Some("swap".into())];
        assert!(found.iter().enumerate().all(|(at, found)| *found == Ok(expected[at % 3].clone())), "{found:?}");
        // One that is not there, and one that contradicts itself, behind which blkid looks at no more.
        paths[7] = folder.path().join("none");
        let mut both = std::fs::read(&paths[1]).unwrap();
        both[0x410..0x412].copy_from_slice(&[0x7f, 0x13]);
        swap(&mut both);
        std::fs::write(&paths[4], both).unwrap();
        let group = &paths[..AT_ONCE];
        let each: Vec<Carried> = group.iter().map(|path| alone(path)).collect();
        assert_eq!(carries_each(group), each);
        assert!(each[7].is_err() && each[8].is_ok(), "{each:?}");
    }

    #[test]
    fn what_a_run_says_of_a_group_is_believed_only_where_all_is_ordinary() {
        use std::os::unix::process::ExitStatusExt;
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
        paths.iter().for_each(|path| std::fs::write(path, vec![0; 1 << 16]).unwrap());
        let output = |code: i32, stdout: String, stderr: &str| {
            let status = std::process::ExitStatus::from_raw(code << 8);
            Ok(Output { status, stdout: stdout.into_bytes(), stderr: stderr.into() })
        };
        let export = |path: &Path| format!("DEVNAME={}\nTYPE=ext4\nUSAGE=filesystem\n", path.display());
        let ext4 = Some("a file system (ext4)".to_string());
        for (code, stderr) in [(8, "b: ambivalent"), (2, "error: b: no such device"), (8, "")] {
            let mut runs = Vec::new();
            let mut run = |asked: &[PathBuf]| {
                runs.push(asked.len());
                match asked {
                    [one] if *one == paths[1] => output(8, String::new(), "ambivalent"),
                    [one] if *one == paths[2] => output(0, export(one), ""),
                    _ => output(code, export(&paths[0]), stderr),
                }
            };
            let found = group_carries(&paths, &mut run);
            assert_eq!(found, [Ok(ext4.clone()), Ok(Some("several contradictory signatures".into())), Ok(ext4.clone())]);
            assert_eq!(runs, [3, 1, 1]);
        }
        let mut missing = |_: &[PathBuf]| Err(io::ErrorKind::NotFound.into());
        assert!(group_carries(&paths, &mut missing).iter().all(|one| one.as_ref().is_err_and(|why| why.contains("util-linux"))));
    }

    #[test]
    fn blkid_tells_a_blank_file_from_a_partition_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert_eq!(alone(&path), Ok(None));
        for at in [0, 5000, (1 << 20) - 1] {
            let mut data = vec![0; 1 << 20];
            data[at] = 7;
            std::fs::write(&path, data).unwrap();
            assert_eq!(alone(&path), Ok(Some("data of an unknown kind".into())), "a byte at {at}");
        }
        let mut table = vec![0; 1 << 20];
        table[446 + 4] = 0x83;
        table[446 + 8..446 + 12].copy_from_slice(&64u32.to_le_bytes());
        table[446 + 12..446 + 16].copy_from_slice(&512u32.to_le_bytes());
        table[510..512].copy_from_slice(&[0x55, 0xaa]);
        std::fs::write(&path, table).unwrap();
        assert_eq!(alone(&path), Ok(Some("a partition table (dos)".into())));
    }
}
