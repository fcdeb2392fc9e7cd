//! Mounts of volumes: what programs rely on of the file system that other file systems give them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use holdfast_device::Device;
use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::reactor::ReactorHandle;
use holdfast_fuse::{MountSettings, Mounted, Opens};
use holdfast_model::Uuid;
use holdfast_volume::service::{FileService, Time};
use holdfast_volume::{Browsed, ErrorKind, Format, Settings, Volume, VolumeFormat};
use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom as Place};
use rustix::io::Errno;

use crate::support::{may_mount, names, pattern, start_reactor};

const MIB: u64 = 1 << 20;

/// A volume in a file, mounted. Unmounted, closed and scanned when it is dropped.
struct Files {
    volume: Arc<Volume>,
    reactors: Vec<ReactorHandle>,
    mounted: Option<Mounted>,
    folder: tempfile::TempDir,
}

impl Files {
    fn new(size_bytes: u64) -> Option<Self> {
        Self::with(size_bytes, MountSettings::default())
    }

    fn with(size_bytes: u64, settings: MountSettings) -> Option<Self> {
        if !may_mount() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, top) = (folder.path().join("disk"), folder.path().join("top"));
        File::create(&disk).and_then(|file| file.set_len(size_bytes)).expect("made");
        fs::create_dir(&top).expect("made");
        let reactors: Vec<ReactorHandle> = ["one", "two"].map(start_reactor).into();
        let make = move || async move {
            let device: Arc<dyn Device> = FileDevice::open(&disk, FileOptions::default()).expect("opened");
            let store = Format { volume: Uuid::from_u128(9), log_bytes: None };
            let format = VolumeFormat { store, secret: [5; 16], owner: (0, 0), mode: 0o755, is_case_sensitive: true };
            Volume::format(&device, format, now()).await.expect("formatted");
            Volume::open(device, Settings::default(), Arc::new(now)).await.expect("opened")
        };
        let volume = Arc::new(reactors[0].call(make).wait().expect("the reactor runs"));
        let served = Arc::new(Browsed::new(volume.clone()));
        let on = reactors.clone();
        let mount = move || async move { holdfast_fuse::mount(served, Opens::default(), &top, settings, &on).await };
        let mounted = reactors[0].call(mount).wait().expect("the reactor runs").expect("mounted");
        Some(Self { volume, reactors, mounted: Some(mounted), folder })
    }

    fn top(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join("top")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top().join(name)
    }

    /// A path that is not on the volume.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Asks the volume itself.
    fn ask<R: Send + 'static, F: Future<Output = R> + 'static>(
        &self,
        ask: impl FnOnce(Arc<Volume>) -> F + Send + 'static,
    ) -> R {
        let volume = self.volume.clone();
        self.reactors[1].call(move || ask(volume)).wait().expect("the reactor runs")
    }

    /// Files that the volume has, once the kernel said what it does not know any more.
    fn wait_for_files(&self, count: u64) {
        for _ in 0..2000 {
            if self.volume.room().files == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{} files, and {count} are to be there", self.volume.room().files);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let mounted = self.mounted.take().expect("it is mounted");
        let stopped = self.reactors[1].call(move || mounted.stop()).wait().expect("the reactor runs");
        if !std::thread::panicking() {
            stopped.expect("unmounted");
            let ended = self.ask(|volume| async move {
                let found = volume.scan().await;
                volume.shut_down().await.map(|()| found)
            });
            assert_eq!(ended, Ok(Ok(Vec::new())), "a scan finds nothing");
        }
        self.reactors.drain(..).for_each(ReactorHandle::stop);
        let _ = rustix::mount::unmount(self.folder.path().join("top"), rustix::mount::UnmountFlags::DETACH);
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

#[track_caller]
fn run(program: &str, arguments: &[&dyn AsRef<OsStr>]) {
    let mut command = Command::new(program);
    for argument in arguments {
        let argument: &OsStr = (**argument).as_ref();
        command.arg(argument);
    }
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn archives_of_sparse_files_have_the_bytes_of_small_ones() {
    let Some(files) = Files::new(64 * MIB) else { return };
    let sizes = [1, 511, 512, 513, 1000, 1024, 2047, 2048, 2049, 4096, 70_000];
    fs::create_dir(files.path("from")).expect("made");
    for size in sizes {
        fs::write(files.path(&format!("from/{size}")), pattern(size, size as u64)).expect("written");
    }
    fs::create_dir(files.beside("to")).expect("made");
    run("tar", &[&"--sparse", &"-cf", &files.beside("archive"), &"-C", &files.top(), &"from"]);
    run("tar", &[&"-xf", &files.beside("archive"), &"-C", &files.beside("to")]);
    for size in sizes {
        let got = fs::read(files.beside(&format!("to/from/{size}"))).expect("read");
        assert!(got == pattern(size, size as u64), "{size} bytes");
        assert!(fs::metadata(files.path(&format!("from/{size}"))).expect("facts").blocks() > 0, "{size} bytes");
    }
}

/// Writes to memory that is mapped to a file, and keeps it mapped until its input ends.
const WRITER: &str = r"
import mmap, os, sys
path, size = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, size)
memory = mmap.mmap(file, size)
os.close(file)
for line in sys.stdin:
    at, text = line.split()
    memory[int(at):int(at) + len(text)] = text.encode()
    print('written', flush=True)
";

struct Writer(Child);

impl Writer {
    fn new(path: &Path, size: u64) -> Self {
        let mut command = Command::new("python3");
        command.arg("-c").arg(WRITER).arg(path).arg(size.to_string());
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python runs"))
    }

    fn write(&mut self, at: u64, text: &str) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        writeln!(input, "{at} {text}").expect("told");
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("answered");
        assert_eq!(line, "written\n");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn copies_have_what_is_written_to_mapped_memory() {
    let Some(files) = Files::new(128 * MIB) else { return };
    let (path, size) = (files.path("mapped"), 16 * MIB);
    let mut writer = Writer::new(&path, size);
    let mut model = vec![0; size as usize];
    for (round, at) in [5 * MIB + 17, 9 * MIB, 0, 15 * MIB + 4096, 5 * MIB + 8192].into_iter().enumerate() {
        // Each way to copy is the first to look at it once.
        let text = format!("round-{round}");
        writer.write(at, &text);
        model[at as usize..at as usize + text.len()].copy_from_slice(text.as_bytes());
        let ways = ["seek", "cp", "tar", "cat", "copy_file_range"];
        for turn in 0..ways.len() {
            let way = ways[(round + turn) % ways.len()];
            let to = files.beside(&format!("{way} {round}"));
            match way {
                "seek" => {
                    let file = File::open(&path).expect("opened");
                    let (mut end, mut got) = (0, vec![0; size as usize]);
                    while let Ok(start) = rustix::fs::seek(&file, Place::Data(end)) {
                        end = rustix::fs::seek(&file, Place::Hole(start)).expect("a hole follows");
                        file.read_exact_at(&mut got[start as usize..end as usize], start).expect("read");
                    }
                    assert!(got == model, "round {round}: by the data that is told");
                    continue;
                }
                "cp" => run("cp", &[&"--sparse=auto", &"--reflink=never", &path, &to]),
                "cat" => {
                    fs::write(&to, fs::read(&path).expect("read")).expect("written");
                }
                "copy_file_range" => {
                    let copy = files.path(&format!("copy {round}"));
                    let (from, into) = (File::open(&path).expect("opened"), File::create(&copy).expect("made"));
                    let mut at = 0;
                    while rustix::fs::copy_file_range(&from, Some(&mut at), &into, None, 1 << 30).expect("copied") > 0 {
                    }
                    drop(into);
                    fs::copy(&copy, &to).expect("copied");
                }
                _ => {
                    fs::create_dir(&to).expect("made");
                    let archive = files.beside(&format!("archive {round}"));
                    // The time of the file changes when the kernel hands over what was mapped, which tar tells with 1.
                    let mut tar = Command::new("tar");
                    tar.args(["--sparse", "-cf"]).arg(&archive).arg("-C").arg(files.top()).arg("mapped");
                    let output = tar.output().expect("it runs");
                    let told = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success() || told.contains("changed as we read it"), "{told}");
                    run("tar", &[&"-xf", &archive, &"-C", &to]);
                }
            }
            let to = if way == "tar" { to.join("mapped") } else { to };
            assert!(fs::read(&to).expect("read") == model, "round {round}: {way}");
        }
    }
    drop(writer);
    assert!(fs::read(&path).expect("read") == model);
}

#[test]
fn a_file_lives_as_long_as_a_program_may_come_back_to_it() {
    let Some(files) = Files::new(64 * MIB) else { return };
    let before = files.volume.room().files;
    for len in [0, 100, 3000, 3 << 20] {
        let path = files.path("file");
        fs::write(&path, pattern(len, 1)).expect("written");
        let known = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("opened");
        fs::remove_file(&path).expect("removed");
        let facts = rustix::fs::fstat(&known).expect("facts");
        assert_eq!((facts.st_nlink, facts.st_size), (0, len as i64));
        let own = PathBuf::from(format!("/proc/self/fd/{}", known.as_raw_fd()));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o640)).expect("set");
        assert_eq!(fs::metadata(&own).expect("facts").mode() & 0o7777, 0o640);
        let mut again = OpenOptions::new().read(true).write(true).open(&own).expect("opened again");
        assert!(fs::read(&own).expect("read") == pattern(len, 1));
        again.write_all(b"more").expect("written");
        drop(again);
        assert!(fs::read(&own).expect("read").starts_with(b"more"));
        fs::write(&path, b"another").expect("written");
        assert!(fs::read(&own).expect("read").starts_with(b"more"), "it is another file");
        fs::remove_file(&path).expect("removed");
        drop(known);
        files.wait_for_files(before);
    }
    fs::create_dir(files.path("dir")).expect("made");
    let known = rustix::fs::open(files.path("dir"), OFlags::PATH, Mode::empty()).expect("opened");
    fs::remove_dir(files.path("dir")).expect("removed");
    assert_eq!(rustix::fs::fstat(&known).expect("facts").st_nlink, 0);
    drop(known);
    files.wait_for_files(before);
    // What the kernel knows when the mount ends goes with it, which the scan at the end sees.
    fs::write(files.path("file"), b"content").expect("written");
    let known = rustix::fs::open(files.path("file"), OFlags::PATH, Mode::empty()).expect("opened");
    fs::remove_file(files.path("file")).expect("removed");
    drop(known);
}

#[test]
fn names_that_change_hands_are_never_stale() {
    let Some(files) = Files::new(64 * MIB) else { return };
    let (path, new, over) = (files.path("name"), files.path("new"), AtomicBool::new(false));
    fs::write(&path, b"first").expect("written");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..6000 {
                fs::write(&new, format!("{number}")).expect("written");
                fs::rename(&new, &path).expect("renamed");
            }
            over.store(true, Ordering::Release);
        });
        for worker in 0..3 {
            let (path, over) = (&path, &over);
            scope.spawn(move || {
                let mut turn = worker;
                while !over.load(Ordering::Acquire) {
                    let done = match turn % 4 {
                        0 => fs::read(path).map(drop),
                        1 => fs::set_permissions(path, fs::Permissions::from_mode(0o600)),
                        2 => File::open(path).and_then(|file| file.set_modified(SystemTime::now())),
                        _ => OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop),
                    };
                    turn += 1;
                    done.unwrap_or_else(|error| panic!("turn {turn}: {error}"));
                }
            });
        }
    });
    fs::remove_file(&path).expect("removed");
}

#[test]
fn a_snapshot_stays_while_its_directories_are_read() {
    let Some(files) = Files::new(64 * MIB) else { return };
    fs::create_dir(files.path("dir")).expect("made");
    for number in 0..300 {
        fs::write(files.path(&format!("dir/a name of a file that is rather long {number}")), b"").expect("written");
    }
    files.ask(|volume| async move { volume.create_snapshot("before").await }).expect("made");
    let dir = files.path(".snapshots/before/dir");
    let mut listing = fs::read_dir(&dir).expect("a directory");
    listing.next().expect("a name").expect("a name");
    let refused = files.ask(|volume| async move { volume.destroy_snapshot("before").await });
    let refused = refused.expect_err("it is being read");
    assert!(refused.kind == ErrorKind::Busy && refused.to_string().contains("open"), "{refused}");
    assert_eq!(listing.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.metadata().is_ok())).count(), 299);
    let mut tries = 0;
    // The kernel tells of a close a little later.
    while let Err(error) = files.ask(|volume| async move { volume.destroy_snapshot("before").await }) {
        tries += 1;
        assert!(error.kind == ErrorKind::Busy && tries < 1000, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(fs::read_dir(&dir).is_err());
}

#[test]
fn the_top_directory_made_durable_makes_all_durable() {
    let Some(files) = Files::new(64 * MIB) else { return };
    fs::create_dir(files.path("dir")).expect("made");
    for number in 0..20 {
        fs::write(files.path(&format!("dir/{number}")), pattern(30_000, number)).expect("written");
    }
    assert!(files.volume.waiting_files() > 0, "they wait in memory");
    let mut writer = Writer::new(&files.path("mapped"), MIB);
    writer.write(77, "mapped");
    File::open(files.top()).expect("opened").sync_all().expect("synced");
    assert_eq!(files.volume.waiting_files(), 0);
    let root = files.volume.root();
    let mapped = files.ask(move |volume| async move {
        let caller = holdfast_volume::service::Caller::default();
        volume.lookup(&caller, root, b"mapped").await.expect("known").expect("there").allocated_bytes
    });
    assert!(mapped > 0, "what was mapped has its place");
}

#[test]
fn ranges_that_a_full_volume_refuses_show_what_is_there() {
    let Some(files) = Files::new(32 * MIB) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(files.path("file")).expect("made");
    let bytes = pattern(2 << 20, 1);
    file.write_all_at(&bytes, 0).expect("written");
    let kept = File::create(files.path("kept")).expect("made");
    rustix::fs::fallocate(&kept, FallocateFlags::empty(), 0, 4 * MIB).expect("there is room");
    file.sync_all().expect("synced");
    files.ask(|volume| async move { volume.create_snapshot("before").await }).expect("made");
    let full = File::create(files.path("full")).expect("made");
    for len in [1 << 20, 64 << 10, 4096] {
        while full.write_all_at(&vec![7; len], full.metadata().expect("facts").len()).is_ok() {}
        let _ = full.sync_all();
    }
    let read = || {
        let mut read = vec![0; 2 << 20];
        file.read_exact_at(&mut read, 0).expect("read");
        let mut own = vec![0; 2 << 20];
        let direct = OFlags::RDONLY | OFlags::DIRECT;
        let direct = rustix::fs::open(files.path("file"), direct, Mode::empty()).expect("opened");
        let mut at = 0;
        while at < own.len() {
            at += rustix::io::pread(&direct, &mut own[at..], at as u64).expect("read");
        }
        (read, own)
    };
    let mut model = bytes;
    for (at, len) in [(4096, 1 << 20), (100, 9000), (0, 2 << 20), (1 << 20, 8192)] {
        let zeroed = rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, at, len);
        match zeroed {
            Ok(()) => model[at as usize..(at + len) as usize].fill(0),
            Err(error) => assert_eq!(error, Errno::NOSPC),
        }
        let (kept, own) = read();
        assert!(kept == model, "{len} bytes at {at}: {zeroed:?}; as the kernel keeps it");
        assert!(own == model, "{len} bytes at {at}: {zeroed:?}; as the volume has it");
    }
    kept.write_all_at(&vec![9; 3 << 20], MIB / 2).expect("room that was set aside takes a write of any size");
}

#[test]
fn another_file_system_lies_over_a_volume() {
    let Some(files) = Files::new(64 * MIB) else { return };
    let (lower, merged) = (files.beside("lower"), files.beside("merged"));
    for folder in [&lower, &merged, &files.path("upper"), &files.path("work")] {
        fs::create_dir(folder).expect("made");
    }
    fs::create_dir_all(lower.join("dir/inner")).expect("made");
    for name in ["keep", "gone", "changed", "moved", "dir/one", "dir/inner/two"] {
        fs::write(lower.join(name), name).expect("written");
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={},redirect_dir=on",
        lower.display(),
        files.path("upper").display(),
        files.path("work").display()
    );
    let mounted = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged).output();
    let mounted = mounted.expect("it runs");
    if !mounted.status.success() && String::from_utf8_lossy(&mounted.stderr).contains("unknown filesystem type") {
        return holdfast_harness::note_left_out("a file system over a volume", "overlay");
    }
    assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    let at = |name: &str| merged.join(name);
    let used = std::panic::catch_unwind(|| {
        fs::remove_file(at("gone")).expect("removed");
        fs::rename(at("moved"), at("there")).expect("renamed");
        fs::write(at("changed"), b"anew").expect("written");
        fs::rename(at("dir"), at("other")).expect("a directory renamed");
        fs::create_dir(at("dir")).expect("made anew: it hides what is below");
        fs::remove_file(at("other/one")).expect("removed");
        fs::remove_dir_all(at("other/inner")).expect("removed");
        fs::write(at("new"), b"new").expect("written");
        let own = rustix::fs::open(&merged, OFlags::TMPFILE | OFlags::RDWR, Mode::from(0o600)).expect("unnamed");
        drop(own);
        rustix::fs::setxattr(at("new"), "user.kind", b"test", rustix::fs::XattrFlags::empty()).expect("set");
        names(&merged)
    });
    let listed = |dir: &Path| -> Vec<String> {
        names(dir).into_iter().map(|name| String::from_utf8(name).expect("text")).collect()
    };
    let shown = listed(&merged);
    run("umount", &[&merged]);
    used.expect("all of it is done");
    assert_eq!(shown, ["changed", "dir", "keep", "new", "other", "there"]);
    let is_whiteout = |name: &str| {
        let facts = fs::symlink_metadata(files.path("upper").join(name)).expect("facts");
        facts.file_type().is_char_device() && facts.rdev() == 0
    };
    assert!(is_whiteout("gone") && is_whiteout("moved"));
    assert_eq!(fs::read(files.path("upper/changed")).expect("read"), b"anew");
    run("mount", &[&"-t", &"overlay", &"overlay", &"-o", &options, &merged]);
    let again = listed(&merged);
    let inner = (listed(&at("dir")), listed(&at("other")), fs::read(at("there")));
    run("umount", &[&merged]);
    assert_eq!(again, ["changed", "dir", "keep", "new", "other", "there"]);
    assert_eq!((inner.0, inner.1, inner.2.expect("read")), (vec![], vec![], b"moved".to_vec()));
}

#[test]
fn a_whiteout_stands_where_a_name_was() {
    let Some(files) = Files::new(64 * MIB) else { return };
    let rename = |from: &str, to: &str, flags: RenameFlags| {
        let top = File::open(files.top()).expect("opened");
        rustix::fs::renameat_with(top.as_fd(), from, top.as_fd(), to, flags)
    };
    fs::write(files.path("one"), b"one").expect("written");
    fs::write(files.path("two"), b"two").expect("written");
    let whiteout = RenameFlags::WHITEOUT;
    assert_eq!(rename("one", "two", whiteout | RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(fs::read(files.path("one")).expect("read"), b"one", "nothing changed");
    rename("one", "two", whiteout).expect("renamed");
    assert_eq!(fs::read(files.path("two")).expect("read"), b"one");
    let left = fs::symlink_metadata(files.path("one")).expect("facts");
    assert!(left.file_type().is_char_device() && left.rdev() == 0 && left.nlink() == 1);
    rename("two", "three", whiteout | RenameFlags::NOREPLACE).expect("renamed");
    assert!(fs::symlink_metadata(files.path("two")).expect("facts").file_type().is_char_device());
    fs::create_dir(files.path("dir")).expect("made");
    rename("dir", "other", whiteout).expect("a directory renamed");
    assert!(files.path("other").is_dir());
    assert_eq!(names(&files.top()).len(), 5);
    assert_eq!(rename("absent", "there", whiteout), Err(Errno::NOENT));
}

#[test]
fn a_mount_may_be_read_only_or_give_rights() {
    let settings = MountSettings { read_only: true, ..MountSettings::default() };
    let Some(files) = Files::with(64 * MIB, settings) else { return };
    assert_eq!(fs::write(files.path("file"), b"").expect_err("refused").raw_os_error(), Some(30));
    File::open(files.top()).and_then(|top| top.sync_all()).expect("nothing is to be done");
}

/// Only kernels from 6.18 on pass it on, for mounts of block devices.
#[test]
fn a_sync_of_the_system_makes_all_durable() {
    let names = tempfile::tempdir().expect("a folder");
    let settings = MountSettings {
        source: "tank/files".into(),
        names: Some(names.path().canonicalize().expect("it is there")),
        ..MountSettings::default()
    };
    let Some(files) = Files::with(64 * MIB, settings) else { return };
    let mounted = files.mounted.as_ref().expect("it is mounted");
    if mounted.source() == "tank/files" {
        return holdfast_harness::note_left_out("sync of volumes", "Linux 6.18 and loop devices");
    }
    assert_eq!(Path::new(mounted.source()), names.path().canonicalize().expect("it is there").join("tank/files"));
    assert!(mounted.is_there());
    fs::write(files.path("file"), pattern(30_000, 1)).expect("written");
    assert!(files.volume.waiting_files() > 0, "it waits in memory");
    let mut writer = Writer::new(&files.path("mapped"), MIB);
    writer.write(77, "mapped");
    rustix::fs::syncfs(File::open(files.top()).expect("opened")).expect("synced");
    assert_eq!(files.volume.waiting_files(), 0);
    assert!(files.mounted.as_ref().expect("it is mounted").stats().count("syncfs") > 0);
    drop(writer);
    drop(files);
    assert!(!names.path().join("tank").exists(), "the name goes with the mount");
}
