//! The table that a mount shares with other protocols: here with clients that stand in it directly.

use std::fs::{self, File};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use holdfast_device::IoSlice;
use holdfast_device::reactor::clock;
use holdfast_fuse::{MountSettings, Opens};
use holdfast_harness::{LIMIT, wait_until};
use holdfast_opens::*;
use holdfast_volume::service::{Caller, FileId, FileService, OpenMode};

use crate::programs::Program;
use crate::support::{Memory, Scene, start_reactor};

const ALL: Access = Access::ALL;
const DENIED: Option<i32> = Some(11);

/// What a client of another protocol is told.
struct Told(Mutex<Sender<Notice>>);

impl Recall for Told {
    fn broken(&self, notice: &Notice) {
        self.0.lock().expect("no test panicked").send(notice.clone()).expect("it is read");
    }

    fn closed(&self, _: FileKey, _: OpenId) {}
}

/// A client of another protocol.
struct Other {
    opens: Opens,
    notices: Receiver<Notice>,
    recall: Arc<Told>,
}

fn scene_with(settings: MountSettings, table: Settings) -> Option<(Scene, Other)> {
    let opens = Opens::new(Arc::new(Table::new(table)), 7);
    let scene = Scene::with_opens(Memory::new(), settings, opens.clone())?;
    let (sender, notices) = channel();
    Some((scene, Other { opens, notices, recall: Arc::new(Told(Mutex::new(sender))) }))
}

fn scene() -> Option<(Scene, Other)> {
    let (scene, other) = scene_with(MountSettings::default(), Settings::default())?;
    fs::write(scene.path("file"), b"content").expect("written");
    closed(&scene);
    Some((scene, other))
}

/// Waits until all that programs closed is closed here too: the kernel tells that after it answered.
fn closed(scene: &Scene) {
    wait_until("it is closed", || scene.service.counts().1 == 0);
}

/// The file of a name.
fn id(scene: &Scene, name: &'static str) -> Option<FileId> {
    let (service, reactor) = (scene.service.clone(), start_reactor("look"));
    let look = move || async move {
        let found = service.lookup(&Caller::default(), service.root(), name.as_bytes()).await;
        found.expect("looked up").map(|found| found.id)
    };
    let found = reactor.call(look).wait().expect("it ran");
    reactor.stop();
    found
}

impl Other {
    fn request(&self, file: FileId) -> OpenRequest {
        OpenRequest {
            file: self.opens.key(file),
            client: ClientId(99),
            protocol: "other",
            access: Access::READ.and(Access::WRITE),
            share: ALL,
            ignores_denials: false,
            excludes_all: false,
            overwrites: false,
            delete_on_close: None,
            lease: None,
            waits_for_kept: false,
            recall: self.recall.clone(),
        }
    }

    fn open(&self, request: &OpenRequest) -> Seat {
        match self.opens.table().poll_open(request, &mut Waiting::new(), clock().now(), Waker::noop()) {
            Poll::Ready(Ok(Opening::Opened(opened))) => opened.seat,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a file with a lease under key 5.
    fn lease(&self, file: FileId, wanted: Caching) -> Seat {
        let lease = LeaseRequest { key: Some(5), kind: LeaseKind::Lease, wanted, parent: None };
        let request = OpenRequest { lease: Some(lease), ..self.request(file) };
        let seat = self.open(&request);
        assert_eq!(self.opens.table().leases_of(request.file, 1)[0].held, wanted);
        seat
    }

    /// The next break: from, to, and whether it is waited for.
    fn told(&self) -> (Caching, Caching, bool) {
        let notice = self.notices.recv_timeout(LIMIT).expect("a break");
        (notice.from, notice.to, notice.answer)
    }

    fn is_told_nothing(&self) {
        assert!(self.notices.try_recv().is_err());
    }

    fn answer(&self, seat: &Seat, state: Caching) {
        let lease = LeaseKey { client: ClientId(99), name: LeaseName::Key(5) };
        self.opens.table().answer(seat.file(), lease, state, clock().now()).expect("a break waits");
    }

    fn lock(&self, seat: &Seat, start: u64, len: u64, exclusive: bool) -> Result<(), Error> {
        let range = ByteRange::new(start, len).expect("it fits");
        let request = LockRequest { by: LockBy::Nt, range, exclusive };
        match self.opens.table().poll_lock(seat, &request, false, &mut Waiting::new(), clock().now(), Waker::noop()) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("nobody caches"),
        }
    }

    fn close(&self, seat: &Seat) -> Option<Deletion> {
        self.opens.table().close(seat, clock().now()).expect("it is open")
    }
}

/// Does something while a break is answered only after a while, and asserts that it waited for the answer.
#[track_caller]
fn waits_for_answer<R: Send>(
    other: &Other,
    seat: &Seat,
    told: (Caching, Caching),
    act: impl FnOnce() -> R + Send,
) -> R {
    std::thread::scope(|scope| {
        let acting = scope.spawn(act);
        assert_eq!(other.told(), (told.0, told.1, true));
        std::thread::sleep(Duration::from_millis(60));
        assert!(!acting.is_finished(), "it waits");
        other.answer(seat, told.1);
        acting.join().expect("it went on")
    })
}

#[test]
fn a_write_cache_is_given_back_before_a_program_opens_the_file() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let seat = other.lease(file, Caching::ALL);
    let read = waits_for_answer(&other, &seat, (Caching::ALL, Caching::READ_HANDLE), || fs::read(scene.path("file")));
    assert_eq!(read.expect("read"), b"content");
    fs::read(scene.path("file")).expect("read");
    other.is_told_nothing();
    other.close(&seat);
}

#[test]
fn a_read_cache_is_broken_before_a_write_is_answered() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let mut program = Program::with(&scene.path("file"));
    let seat = other.lease(file, Caching::READ);
    assert_eq!(program.ask("read f 0 7"), "content");
    other.is_told_nothing();
    program.does("write f 3 TENT");
    assert_eq!(other.notices.try_recv().map(|notice| (notice.from, notice.to)), Ok((Caching::READ, Caching::NONE)));
    other.close(&seat);
    // The same for its length, through a name and through an open file.
    for by_name in [true, false] {
        let seat = other.lease(file, Caching::READ);
        match by_name {
            true => program.does(&format!("truncate {} 3", scene.path("file").display())),
            false => program.does("truncate f 2"),
        }
        assert_eq!(other.notices.try_recv().map(|notice| (notice.from, notice.to)), Ok((Caching::READ, Caching::NONE)));
        other.close(&seat);
    }
    assert_eq!(program.ask("read f 0 7"), "co");
}

#[test]
fn who_does_not_give_back_loses_it_after_a_while() {
    let table = Settings { break_timeout: Duration::from_millis(300), ..Settings::default() };
    let Some((scene, other)) = scene_with(MountSettings::default(), table) else { return };
    fs::write(scene.path("file"), b"content").expect("written");
    closed(&scene);
    let seat = other.lease(id(&scene, "file").expect("it is there"), Caching::READ_WRITE);
    let begun = Instant::now();
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"content");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(other.told(), (Caching::READ_WRITE, Caching::READ, true));
    assert!(other.notices.try_recv().expect("told").revoked);
    other.close(&seat);
}

#[test]
fn a_signal_ends_the_wait_for_a_cache() {
    let Some((scene, other)) = scene() else { return };
    let seat = other.lease(id(&scene, "file").expect("it is there"), Caching::READ_WRITE);
    let mut program = Program::start();
    program.does("alarm 0.1");
    assert_eq!(program.ask(&format!("open f {}", scene.path("file").display())), "EINTR");
    assert_eq!(other.told(), (Caching::READ_WRITE, Caching::READ, true));
    // What a program began to write or read is brought to its end.
    other.answer(&seat, Caching::READ);
    program.does(&format!("open f {}", scene.path("file").display()));
    other.close(&seat);
}

#[test]
fn mandatory_locks_bind_programs_and_theirs_bind_others() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let seat = other.open(&other.request(file));
    let mut program = Program::with(&scene.path("file"));
    program.does("lock posix f write 100 10");
    program.does("write f 100 own");
    assert!(other.lock(&seat, 105, 10, false).is_err(), "a program has it");
    other.lock(&seat, 2, 2, true).expect("free");
    other.lock(&seat, 200, 10, false).expect("free");
    assert_eq!(program.ask("write f 3 x"), "EAGAIN");
    assert_eq!(program.ask("write f 200 x"), "EAGAIN", "a shared one keeps writes out");
    assert_eq!(program.ask("lock posix f read 0 4"), "EAGAIN");
    assert_eq!(program.ask("test posix f write 0 0"), "1 2 2 0", "of no process here");
    assert_eq!(program.ask("flock f shared"), "EAGAIN");
    program.does("write f 4 x");
    program.does("write f 0 xy");
    assert_eq!(program.ask("truncate f 3"), "EAGAIN");
    assert_eq!(
        fs::File::options()
            .write(true)
            .truncate(true)
            .open(scene.path("file"))
            .err()
            .and_then(|error| error.raw_os_error()),
        DENIED
    );
    program.does("truncate f 300");
    // Past what the kernel keeps, each read asks.
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    let direct = std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true), direct).open(scene.path("file"));
    let direct = direct.expect("opened");
    let read = |at: u64, len: usize| std::os::unix::fs::FileExt::read_at(&direct, &mut vec![0; len], at);
    assert_eq!(read(0, 3).err().and_then(|error| error.raw_os_error()), DENIED);
    assert_eq!((read(0, 2).expect("read"), read(200, 10).expect("read")), (2, 10));
    program.tell("lock posix f write 0 10 wait");
    program.waits();
    other.close(&seat);
    assert_eq!(program.answer(), "done");
    program.does("write f 3 x");
    assert_eq!(read(0, 3).expect("read"), 3);
}

#[test]
fn denials_keep_programs_out_where_that_is_wished() {
    for honours_denials in [false, true] {
        let settings = MountSettings { honours_denials, ..MountSettings::default() };
        let Some((scene, other)) = scene_with(settings, Settings::default()) else { return };
        fs::write(scene.path("file"), b"content").expect("written");
        closed(&scene);
        let file = id(&scene, "file").expect("it is there");
        let seat = other.open(&OpenRequest { share: Access::READ, ..other.request(file) });
        assert_eq!(fs::read(scene.path("file")).expect("read"), b"content");
        let expected = if honours_denials { Some(16) } else { None };
        let error = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
        assert_eq!(error(File::options().write(true).open(scene.path("file")).map(drop)), expected);
        assert_eq!(error(fs::rename(scene.path("file"), scene.path("renamed"))), expected);
        let name = if honours_denials { "file" } else { "renamed" };
        assert_eq!(error(fs::remove_file(scene.path(name))), expected);
        other.close(&seat);
    }
}

/// Writes to a file by another way than the mount.
fn overwrite(scene: &Scene, file: FileId, bytes: &'static [u8]) {
    let (service, reactor) = (scene.service.clone(), start_reactor("write"));
    let write = move || async move {
        let mode = OpenMode { read: true, write: true, truncate: false };
        let handle = service.open(&Caller::default(), file, mode).await.expect("opened");
        service.write(&handle, 0, IoSlice::padded(bytes), bytes.len()).await.expect("written");
        service.close(handle).await.expect("closed");
    };
    reactor.call(write).wait().expect("it ran");
    reactor.stop();
}

#[test]
fn a_disk_is_read_past_what_the_kernel_keeps_and_changed_by_no_program() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    fs::write(scene.path("other"), b"other").expect("written");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"content");
    closed(&scene);
    let seat = other.open(&OpenRequest { share: Access::READ, excludes_all: true, ..other.request(file) });
    let reader = File::open(scene.path("file")).expect("it may be read");
    for content in [b"CONTENT", b"CoNtEnT"] {
        overwrite(&scene, file, content);
        let mut found = [0; 7];
        std::os::unix::fs::FileExt::read_exact_at(&reader, &mut found, 0).expect("read");
        assert_eq!(&found, content);
        assert_eq!(fs::read(scene.path("file")).expect("read"), content);
    }
    drop(reader);
    let busy = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error()) == Some(16);
    assert!(busy(File::options().write(true).open(scene.path("file")).map(drop)));
    assert!(busy(File::create(scene.path("file")).map(drop)));
    assert!(busy(fs::rename(scene.path("file"), scene.path("renamed"))));
    assert!(busy(fs::rename(scene.path("other"), scene.path("file"))));
    assert!(busy(fs::remove_file(scene.path("file"))));
    assert_eq!(Program::start().ask(&format!("truncate {} 3", scene.path("file").display())), "EBUSY");
    assert_eq!(fs::read(scene.path("file")).expect("read"), b"CoNtEnT");
    other.close(&seat);
    fs::write(scene.path("file"), b"again").expect("it is a file like any");
}

#[test]
fn names_change_after_handles_were_given_back() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let told = (Caching::READ_HANDLE, Caching::READ);
    let seat = other.lease(file, Caching::READ_HANDLE);
    waits_for_answer(&other, &seat, told, || fs::rename(scene.path("file"), scene.path("second"))).expect("renamed");
    other.close(&seat);
    let seat = other.lease(file, Caching::READ_HANDLE);
    waits_for_answer(&other, &seat, told, || fs::hard_link(scene.path("second"), scene.path("third"))).expect("linked");
    other.close(&seat);
    fs::write(scene.path("replacing"), b"").expect("written");
    let seat = other.lease(file, Caching::READ_HANDLE);
    let replace = || fs::rename(scene.path("replacing"), scene.path("second"));
    waits_for_answer(&other, &seat, told, replace).expect("replaced");
    other.close(&seat);
    let seat = other.lease(file, Caching::READ_HANDLE);
    waits_for_answer(&other, &seat, told, || fs::remove_file(scene.path("third"))).expect("removed");
    other.close(&seat);
}

#[test]
fn who_caches_a_directory_is_told_of_its_names() {
    let Some((scene, other)) = scene() else { return };
    let root = scene.service.root();
    let acts: [&dyn Fn() -> std::io::Result<()>; 7] = [
        &|| fs::write(scene.path("new"), b""),
        &|| fs::create_dir(scene.path("directory")),
        &|| std::os::unix::fs::symlink("file", scene.path("link")),
        &|| fs::hard_link(scene.path("new"), scene.path("second")),
        &|| fs::rename(scene.path("new"), scene.path("renamed")),
        &|| fs::remove_file(scene.path("renamed")),
        &|| fs::remove_dir(scene.path("directory")),
    ];
    let lease =
        LeaseRequest { key: Some(5), kind: LeaseKind::DirectoryLease, wanted: Caching::READ_HANDLE, parent: None };
    for (number, act) in acts.iter().enumerate() {
        let seat = other.open(&OpenRequest { lease: Some(lease), access: Access::READ, ..other.request(root) });
        fs::read(scene.path("file")).expect("read");
        other.is_told_nothing();
        act().expect("done");
        let told = other.notices.try_recv().map(|notice| (notice.from, notice.to));
        assert_eq!(told, Ok((Caching::READ_HANDLE, Caching::NONE)), "{number}");
        other.close(&seat);
    }
}

#[test]
fn a_file_goes_with_its_last_close_whoever_that_is() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let root = scene.service.root();
    let link = LinkName { directory: root.number, generation: root.generation, name: b"file".to_vec() }.to_link();
    let going = OpenRequest { delete_on_close: Some(link), access: Access::DELETE, ..other.request(file) };
    let mut program = Program::with(&scene.path("file"));
    let seat = other.open(&going);
    fs::rename(scene.path("file"), scene.path("renamed")).expect("renamed: it goes by that name");
    assert!(other.close(&seat).is_none(), "a program has it open");
    assert_eq!(fs::read(scene.path("renamed")).err().and_then(|error| error.raw_os_error()), Some(2), "it goes");
    assert_eq!(program.ask("read f 0 7"), "content");
    program.does("close f");
    closed(&scene);
    wait_until("it is deleted, and the kernel knows", || {
        id(&scene, "renamed").is_none() && !fs::exists(scene.path("renamed")).expect("looked up")
    });
    assert_eq!(scene.opens.table().counts(), Counts::default());
}

#[test]
fn a_file_that_programs_removed_lives_on_for_others() {
    let Some((scene, other)) = scene() else { return };
    let file = id(&scene, "file").expect("it is there");
    let mut program = Program::with(&scene.path("file"));
    let seat = other.open(&other.request(file));
    fs::remove_file(scene.path("file")).expect("removed");
    assert_eq!(program.ask("read f 0 7"), "content");
    assert!(!scene.opens.table().is_delete_pending(seat.file()));
    program.does("close f");
    assert!(other.close(&seat).is_none(), "the volume itself forgets it");
}

#[test]
fn an_open_is_there_as_long_as_its_descriptors() {
    let Some((scene, other)) = scene() else { return };
    let file = other.opens.key(id(&scene, "file").expect("it is there"));
    let reading = File::open(scene.path("file")).expect("opened");
    let writing = File::options().append(true).open(scene.path("file")).expect("opened");
    let copy = writing.try_clone().expect("duplicated");
    let opens = other.opens.table().opens_of(file, 9);
    let found: Vec<_> = opens.iter().map(|open| (open.protocol, open.access, open.share)).collect();
    assert_eq!(found, [("fuse", Access::READ, ALL), ("fuse", Access::WRITE, ALL)]);
    other.opens.table().force_close(file, opens[0].open, clock().now()).expect("open");
    let refused = std::os::unix::fs::FileExt::read_at(&reading, &mut [0; 1], 0);
    assert_eq!(refused.err().and_then(|error| error.raw_os_error()), Some(9), "its open was closed by order");
    drop(writing);
    std::os::unix::fs::FileExt::write_at(&copy, b"more", 0).expect("it is open still");
    drop((reading, copy));
    closed(&scene);
    assert_eq!(other.opens.table().counts(), Counts::default());
}
