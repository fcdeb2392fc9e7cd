//! What no careful program does: the longest names and paths, names that are no text, many names of one file, trees that are
//! deep, a volume mounted twice, a pool opened by two daemons. Each is done or refused by a clear error, and nothing is
//! lost.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use holdfast_tests::command::run;
use holdfast_tests::daemon::Daemon;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::support::{Files, length};

const LAYOUT: [&str; 6] = ["--size", "512MiB", "--layout", "simple", "--case-sensitive", "--thin"];

fn error<T>(outcome: std::io::Result<T>) -> Option<Errno> {
    outcome.err().as_ref().and_then(Errno::from_io_error)
}

#[test]
fn names_and_paths_at_their_limits_and_beyond() {
    let mut files = Files::new("512MiB");
    let directory = files.volume("files", &LAYOUT);
    let at = |name: &[u8]| Path::new(&directory).join(OsStr::from_bytes(name));
    fs::write(at(b"file"), b"kept").expect("written");
    // 255 bytes of names that have fewer letters.
    let wide = [&b"x"[..], "é".repeat(127).as_bytes()].concat();
    for (name, refusal) in [
        (vec![b'n'; 255], None),
        (vec![b'n'; 256], Some(Errno::NAMETOOLONG)),
        (wide.clone(), None),
        ([&wide[..], b"x"].concat(), Some(Errno::NAMETOOLONG)),
        (b"no text \xff".to_vec(), Some(Errno::ILSEQ)),
        (b"\xed\xa0\x80".to_vec(), Some(Errno::ILSEQ)),
        (b"line\nfeed and \x01".to_vec(), None),
    ] {
        let path = at(&name);
        assert_eq!(error(File::create_new(&path)), refusal, "{name:?}");
        if refusal.is_none() {
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(error(fs::create_dir(&path)), refusal);
        if refusal.is_none() {
            fs::remove_dir(&path).expect("removed");
        }
        assert_eq!(error(std::os::unix::fs::symlink("file", &path)), refusal);
        if refusal.is_none() {
            assert_eq!(fs::read(&path).expect("it leads there"), b"kept");
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(error(fs::hard_link(at(b"file"), &path)), refusal);
        if refusal.is_none() {
            fs::remove_file(&path).expect("removed");
        }
        assert_eq!(error(fs::rename(at(b"file"), &path)), refusal);
        if refusal.is_none() {
            fs::rename(&path, at(b"file")).expect("renamed");
        }
        assert_eq!(fs::read(at(b"file")).expect("it is there"), b"kept");
    }
    let path = [directory.as_bytes(), &b"/d".repeat(2048)].concat();
    assert_eq!(error(File::open(OsStr::from_bytes(&path))), Some(Errno::NAMETOOLONG));
    let target = vec![b't'; 4095];
    std::os::unix::fs::symlink(OsStr::from_bytes(&target), at(b"longest")).expect("made");
    assert_eq!(fs::read_link(at(b"longest")).expect("read").as_os_str().as_bytes(), target);
    let longer = rustix::fs::symlink(OsStr::from_bytes(&[b't'; 4096]), at(b"longer"));
    assert_eq!(longer, Err(Errno::NAMETOOLONG));
    files.scan("files");
}

#[test]
fn one_file_has_very_many_names() {
    let mut files = Files::new("1GiB");
    let directory = files.volume("files", &["--size", "1GiB", "--layout", "simple", "--thin"]);
    // What a file of a volume may have at most, with the first name.
    let count = 64_999;
    let first = format!("{directory}/first");
    fs::write(&first, b"one content").expect("written");
    let name = |number: u64| format!("{directory}/d{}/{number}", number / 10_000);
    for number in 0..count {
        if number % 10_000 == 0 {
            fs::create_dir(format!("{directory}/d{}", number / 10_000)).expect("made");
        }
        fs::hard_link(&first, name(number)).unwrap_or_else(|error| panic!("name {number}: {error}"));
    }
    assert_eq!(error(fs::hard_link(&first, format!("{directory}/more"))), Some(Errno::MLINK));
    assert_eq!(fs::metadata(&first).expect("facts").nlink(), count + 1);
    assert_eq!(fs::read(name(count - 1)).expect("read"), b"one content");
    files.scan("files");
    files.daemon.kill();
    files.daemon.start_again();
    fs::remove_file(&first)
        .or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .expect("removed");
    for folder in 0..count.div_ceil(10_000) {
        run("rm", &["-rf", &format!("{directory}/d{folder}")]).succeeded();
    }
    assert_eq!(fs::read_dir(&directory).expect("listed").count(), 0);
    files.scan("files");
}

#[test]
fn a_tree_is_deep() {
    let mut files = Files::new("512MiB");
    let directory = files.volume("files", &LAYOUT);
    let depth = length(3_000, 50_000);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at: OwnedFd = rustix::fs::open(directory.as_str(), flags, Mode::empty()).expect("opened");
    for level in 0..depth {
        rustix::fs::mkdirat(&at, "deeper", Mode::from(0o755)).unwrap_or_else(|error| panic!("level {level}: {error}"));
        at = rustix::fs::openat(&at, "deeper", flags, Mode::empty()).expect("opened");
    }
    rustix::fs::openat(&at, "file", OFlags::WRONLY | OFlags::CREATE, Mode::from(0o644)).expect("made");
    // Not below itself, however deep that is.
    let below = rustix::fs::renameat(CWD, format!("{directory}/deeper"), &at, "again");
    assert_eq!(below, Err(Errno::INVAL));
    drop(at);
    run("sync", &["-f", &directory]).succeeded();
    files.scan("files");
    files.daemon.kill();
    files.daemon.start_again();
    files.scan("files");
    run("rm", &["-rf", &format!("{directory}/deeper")]).succeeded();
    assert_eq!(fs::read_dir(&directory).expect("listed").count(), 0);
    files.scan("files");
}

#[test]
fn a_volume_is_mounted_once_and_its_pool_is_one_daemons() {
    let mut files = Files::new("512MiB");
    let directory = files.volume("files", &LAYOUT);
    fs::write(format!("{directory}/file"), b"kept").expect("written");
    let second = files.scene.folder("second");
    let refusal = files.daemon.cli(&["volume", "mount", "tank/files", &second]).refused();
    assert!(refusal.contains("mounted on") && refusal.contains("unmount"), "{refusal}");
    assert_eq!(fs::read_dir(&second).expect("listed").count(), 0, "nothing is mounted there");

    let other = Daemon::start_with(&files.scene, "b", &[]);
    let disks = files.scene.path("disks");
    let told = other.cli(&["pool", "import", "--disk-dir", &disks]).to_string();
    assert!(told.contains("another program, or another pool, uses it"), "{told}");
    assert_eq!(other.json(&["pool", "list"]), serde_json::json!([]));
    assert_eq!(other.json(&["volume", "list"]), serde_json::json!([]));
    let taken = other.cli(&["volume", "mount", "tank/files", &directory]).refused();
    assert!(taken.contains("tank"), "{taken}");
    drop(other);
    assert_eq!(fs::read(format!("{directory}/file")).expect("read"), b"kept");
    fs::write(format!("{directory}/more"), b"too").expect("written");
    files.scan("files");
}
