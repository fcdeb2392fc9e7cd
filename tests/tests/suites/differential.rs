//! One list of operations on ext4, on xfs and on a volume: each answers alike, by error, facts and bytes.
//!
//! Where ext4 and xfs differ, the volume may do as either.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use holdfast_tests::command::run;
use holdfast_tests::random::{Random, bytes};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, RenameFlags, StatxFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::support::{Files, length};

/// What times are set to before an operation, to see which ones it changes.
const LONG_AGO: i64 = 1_000_000_000;
const MOST_BYTES: u64 = 200_000;

#[derive(Clone, Debug)]
enum Operation {
    Create(String, u32),
    Write { path: String, offset: u64, len: usize, seed: u64, append: bool },
    Read(String),
    Truncate(String, u64),
    Allocate { path: String, offset: u64, len: u64, how: u32 },
    MakeDirectory(String, u32),
    RemoveDirectory(String),
    Remove(String),
    Rename(String, String, RenameFlags),
    Link(String, String),
    Symlink(String, String),
    ReadLink(String),
    SetMode(String, u32),
    SetOwner(String, u32, u32),
    SetExtended(String, String, usize, XattrFlags),
    GetExtended(String, String),
    RemoveExtended(String, String),
    ListExtended(String),
    List(String),
}

fn component(random: &mut Random) -> String {
    match random.below(40) {
        0 => ".".into(),
        1 => "..".into(),
        2 => "n".repeat(255),
        3 => "n".repeat(256),
        other => ["a", "b", "c", "d", "é"][(other % 5) as usize].into(),
    }
}

/// A path of one to three names, now and then with a slash behind.
fn path(random: &mut Random) -> String {
    let depth = 1 + random.below(3);
    let mut path = (0..depth).map(|_| component(random)).collect::<Vec<_>>().join("/");
    // Out of the folder that is compared leads no path.
    path = path.trim_start_matches("../").to_owned();
    if path == ".." || path.contains("../..") || path.ends_with("/..") || path.starts_with("./..") {
        path = "a".into();
    }
    if random.below(30) == 0 {
        path.push('/');
    }
    path
}

fn operation(random: &mut Random) -> Operation {
    let at = path(random);
    let mode = [0o644, 0o755, 0o600, 0o4755, 0o2755, 0o1777][random.below(6) as usize];
    let name = ["user.one", "user.two", "trusted.three", "nonsense", "user."][random.below(5) as usize].to_owned();
    let offset = random.below(MOST_BYTES);
    let len = random.below(MOST_BYTES / 4);
    match random.below(24) {
        0..=2 => Operation::Create(at, mode),
        3 | 4 => Operation::Write {
            path: at,
            offset,
            len: len as usize,
            seed: random.next_u64(),
            append: len.is_multiple_of(5),
        },
        5 | 6 => Operation::Read(at),
        7 => Operation::Truncate(at, offset),
        8 => Operation::Allocate { path: at, offset, len, how: random.below(5) as u32 },
        9 | 10 => Operation::MakeDirectory(at, mode),
        11 => Operation::RemoveDirectory(at),
        12 | 13 => Operation::Remove(at),
        14 | 15 => {
            let flags = [RenameFlags::empty(), RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            Operation::Rename(at, path(random), flags[random.below(4) as usize])
        }
        16 => Operation::Link(at, path(random)),
        17 => Operation::Symlink(path(random), at),
        18 => Operation::ReadLink(at),
        19 => Operation::SetMode(at, mode),
        20 => Operation::SetOwner(at, random.below(3) as u32, random.below(3) as u32),
        21 => {
            let flags = [XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE][random.below(3) as usize];
            Operation::SetExtended(at, name, random.below(300) as usize, flags)
        }
        22 => match random.below(3) {
            0 => Operation::GetExtended(at, name),
            1 => Operation::RemoveExtended(at, name),
            _ => Operation::ListExtended(at),
        },
        _ => Operation::List(at),
    }
}

/// What an operation came to, in words that are compared.
fn told<T>(outcome: Result<T, Errno>, tell: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(value) => tell(value),
        Err(error) => format!("{error:?}"),
    }
}

fn errno<T>(outcome: std::io::Result<T>) -> Result<T, Errno> {
    outcome.map_err(|error| Errno::from_io_error(&error).expect("the kernel says why"))
}

fn done<T>(outcome: Result<T, Errno>) -> String {
    told(outcome, |_| "done".into())
}

/// The facts that do not depend on how a file system keeps them.
fn facts(path: &Path) -> String {
    let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
    told(found, |found| {
        let is_directory = found.stx_mode & 0o170_000 == 0o040_000;
        let size = if is_directory { 0 } else { found.stx_size };
        let is_modified = found.stx_mtime.tv_sec != LONG_AGO;
        let (mode, links, owner) = (found.stx_mode, found.stx_nlink, (found.stx_uid, found.stx_gid));
        format!("{mode:o} {links} {owner:?} {size} modified={is_modified}")
    })
}

fn age(path: &Path) {
    let time = Timespec { tv_sec: LONG_AGO, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    // What is not there has no times.
    let _ = rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| holdfast_tests::random::mix(sum ^ u64::from(*byte)))
}

fn parts(root: &Path, name: &str) -> (PathBuf, PathBuf) {
    // By text: a slash behind a name means something.
    let path = PathBuf::from(format!("{}/{name}", root.display()));
    let parent = path.parent().unwrap_or(root).to_owned();
    (path, parent)
}

fn perform(root: &Path, operation: &Operation) -> String {
    let at = |name: &str| parts(root, name).0;
    match operation {
        Operation::Create(path, mode) => {
            let mut options = OpenOptions::new();
            done(errno(options.write(true).create_new(true).mode(*mode).open(at(path))))
        }
        Operation::Write { path, offset, len, seed, append } => {
            let file = errno(OpenOptions::new().write(!append).append(*append).open(at(path)));
            let data = bytes(*seed, *len);
            let write = |file: File| {
                if *append { std::io::Write::write_all(&mut &file, &data) } else { file.write_all_at(&data, *offset) }
            };
            done(file.and_then(|file| errno(write(file))))
        }
        Operation::Read(path) => told(errno(std::fs::read(at(path))), |bytes| format!("{:x}", sum(&bytes))),
        Operation::Truncate(path, len) => {
            let file = errno(OpenOptions::new().write(true).open(at(path)));
            done(file.and_then(|file| errno(file.set_len(*len))))
        }
        Operation::Allocate { path, offset, len, how } => {
            let how = match how {
                0 => FallocateFlags::empty(),
                1 => FallocateFlags::KEEP_SIZE,
                2 => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                3 => FallocateFlags::ZERO_RANGE,
                _ => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            };
            let file = errno(OpenOptions::new().write(true).open(at(path)));
            done(file.and_then(|file| rustix::fs::fallocate(file, how, *offset, *len)))
        }
        Operation::MakeDirectory(path, mode) => done(rustix::fs::mkdir(at(path), Mode::from(*mode))),
        Operation::RemoveDirectory(path) => done(rustix::fs::rmdir(at(path))),
        Operation::Remove(path) => done(rustix::fs::unlink(at(path))),
        Operation::Rename(from, to, flags) => done(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), *flags)),
        Operation::Link(from, to) => done(rustix::fs::link(at(from), at(to))),
        Operation::Symlink(target, path) => done(rustix::fs::symlink(target.as_str(), at(path))),
        Operation::ReadLink(path) => told(rustix::fs::readlink(at(path), Vec::new()), |target| format!("{target:?}")),
        Operation::SetMode(path, mode) => done(rustix::fs::chmod(at(path), Mode::from(*mode))),
        Operation::SetOwner(path, user, group) => {
            let (user, group) = (Uid::from_raw(*user), Gid::from_raw(*group));
            done(rustix::fs::chownat(CWD, at(path), Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW))
        }
        Operation::SetExtended(path, name, len, flags) => {
            done(rustix::fs::lsetxattr(at(path), name.as_str(), &bytes(*len as u64, *len), *flags))
        }
        Operation::GetExtended(path, name) => {
            let mut value = vec![0; 1024];
            let found = rustix::fs::lgetxattr(at(path), name.as_str(), &mut value[..]);
            told(found, |len| format!("{:x}", sum(&value[..len])))
        }
        Operation::RemoveExtended(path, name) => done(rustix::fs::lremovexattr(at(path), name.as_str())),
        Operation::ListExtended(path) => {
            let mut list = vec![0; 4096];
            let found = rustix::fs::llistxattr(at(path), &mut list[..]);
            told(found, |len| {
                let mut names: Vec<_> = list[..len].split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
                names.sort();
                format!("{names:?}")
            })
        }
        Operation::List(path) => told(errno(listing(&at(path))), |names| format!("{names:?}")),
    }
}

fn listing(path: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = String::from_utf8_lossy(entry.file_name().as_bytes()).into_owned();
        names.push(format!("{name} {:?}", entry.file_type()?));
    }
    names.sort();
    Ok(names)
}

/// The paths that an operation is about.
fn subjects(operation: &Operation) -> Vec<&str> {
    match operation {
        Operation::Rename(one, two, _) | Operation::Link(one, two) => vec![one, two],
        Operation::Symlink(_, path) => vec![path],
        Operation::Create(path, _)
        | Operation::Write { path, .. }
        | Operation::Read(path)
        | Operation::Truncate(path, _)
        | Operation::Allocate { path, .. }
        | Operation::MakeDirectory(path, _)
        | Operation::RemoveDirectory(path)
        | Operation::Remove(path)
        | Operation::ReadLink(path)
        | Operation::SetMode(path, _)
        | Operation::SetOwner(path, ..)
        | Operation::SetExtended(path, ..)
        | Operation::GetExtended(path, _)
        | Operation::RemoveExtended(path, _)
        | Operation::ListExtended(path)
        | Operation::List(path) => vec![path],
    }
}

/// Performs an operation below `root`: what it answers, and what is there then.
fn observe(root: &Path, operation: &Operation) -> String {
    let about: Vec<_> = subjects(operation).into_iter().map(|name| parts(root, name)).collect();
    about.iter().flat_map(|(path, parent)| [path, parent]).for_each(|path| age(path));
    let mut seen = perform(root, operation);
    for (path, parent) in &about {
        let _ = write!(seen, " | {} | {}", facts(path), facts(parent));
    }
    seen
}

/// A file system of the machine on a file.
fn mounted(files: &mut Files, kind: &str) -> PathBuf {
    let (image, directory) = (files.scene.path(&format!("{kind}.img")), files.scene.folder(kind));
    File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("made");
    run(&format!("mkfs.{kind}"), &["-q", &image]).succeeded();
    files.janitor.later(&format!("umount -l '{directory}'"));
    run("mount", &["-o", "loop", &image, &directory]).succeeded();
    let root = Path::new(&directory).join("compared");
    std::fs::create_dir(&root).expect("made");
    root
}

#[test]
fn a_volume_answers_as_ext4_and_xfs_do() {
    let mut random = Random::announced();
    let mut files = Files::new("512MiB");
    let roots = [mounted(&mut files, "ext4"), mounted(&mut files, "xfs")];
    let volume = Path::new(&files.volume("files", &["--size", "512MiB", "--layout", "simple"])).join("compared");
    std::fs::create_dir(&volume).expect("made");
    let mut last = Vec::new();
    for step in 0..length(6_000, 300_000) {
        let operation = operation(&mut random);
        let [ext4, xfs] = [&roots[0], &roots[1]].map(|root| observe(root, &operation));
        let found = observe(&volume, &operation);
        last.push(format!("{operation:?}"));
        assert!(
            found == ext4 || found == xfs,
            "step {step}: {operation:?}\n  ext4   {ext4}\n  xfs    {xfs}\n  volume {found}\nafter {}",
            last[last.len().saturating_sub(12)..].join("\n      ")
        );
    }
    files.scan("files");
}
