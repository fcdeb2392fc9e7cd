//! Locks of programs, from processes of their own.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use holdfast_fuse::MountSettings;
use holdfast_harness::{LIMIT, wait_until};

use crate::programs::Program;
use crate::support::{Memory, Scene};

/// A mount with an empty file.
fn scene(settings: MountSettings) -> Option<Scene> {
    let scene = Scene::with(Memory::new(), settings)?;
    fs::write(scene.path("file"), b"").expect("written");
    Some(scene)
}

/// A mount, and two programs with the same file open.
fn two() -> Option<(Scene, Program, Program)> {
    let scene = scene(MountSettings::default())?;
    let programs = [(); 2].map(|()| Program::with(&scene.path("file")));
    let [one, other] = programs;
    Some((scene, one, other))
}

#[test]
fn processes_exclude_each_other_byte_by_byte() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does("lock posix f write 10 10");
    one.does("lock posix f read 30 0");
    assert_eq!(other.ask("lock posix f read 19 1"), "EAGAIN");
    assert_eq!(other.ask("lock posix f write 100 1"), "EAGAIN");
    other.does("lock posix f write 20 10");
    other.does("lock posix f read 30 5");
    assert_eq!(other.ask("test posix f write 0 15"), format!("1 10 10 {}", one.pid()));
    assert_eq!(other.ask("test posix f write 99 1"), format!("0 30 0 {}", one.pid()), "to the end");
    assert_eq!(
        (other.ask("test posix f read 99 1"), other.ask("test posix f write 0 10")),
        ("free".into(), "free".into())
    );
    one.does("lock posix f free 12 2");
    other.does("lock posix f write 12 2");
    assert_eq!(
        (other.ask("lock posix f write 11 1"), other.ask("lock posix f write 14 1")),
        ("EAGAIN".into(), "EAGAIN".into())
    );
    let counts = scene.opens.table().counts();
    assert_eq!((counts.files, counts.opens, counts.ranges), (1, 2, 6), "they are in the table");
    drop((one, other));
    wait_until("all is given back", || scene.opens.table().counts().opens == 0);
}

#[test]
fn who_waits_is_granted_when_the_way_is_free() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does("lock posix f write 0 10");
    other.tell("lock posix f read 0 5 wait");
    other.waits();
    one.does("lock posix f free 5 5");
    other.waits();
    fs::write(scene.path("more"), b"served meanwhile").expect("written");
    one.does("lock posix f read 0 5");
    assert_eq!(other.answer(), "done");
    one.tell("lock posix f write 0 5 wait");
    one.waits();
    other.does("close f");
    assert_eq!(one.answer(), "done", "a close lets go");
    let mut third = Program::with(&scene.path("file"));
    third.tell("lock posix f write 0 1 wait");
    third.waits();
    one.kill();
    assert_eq!(third.answer(), "done", "so does the end of a process");
}

#[test]
fn a_signal_ends_a_wait() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does("lock posix f write 0 10");
    one.does("flock f exclusive");
    for line in ["lock posix f write 5 1 wait", "flock f shared wait"] {
        other.does("alarm 0.1");
        assert_eq!(other.ask(line), "EINTR");
    }
    assert_eq!(scene.mounted().stats().count("interrupt"), 2);
    one.does("lock posix f free 0 0");
    one.does("flock f free");
    let mut third = Program::with(&scene.path("file"));
    third.does("lock posix f write 0 0");
    third.does("flock f exclusive");
    // A process that is killed while it waits.
    other.tell("lock posix f write 5 1 wait");
    other.waits();
    other.kill();
    third.does("lock posix f free 0 0");
    one.does("lock posix f write 0 0");
}

#[test]
fn a_circle_of_waits_is_refused() {
    let Some((scene, mut one, mut other)) = two() else { return };
    fs::write(scene.path("second"), b"").expect("written");
    for program in [&mut one, &mut other] {
        program.does(&format!("open s {}", scene.path("second").display()));
    }
    one.does("lock posix f write 0 1");
    other.does("lock posix s write 0 1");
    one.tell("lock posix s write 0 1 wait");
    one.waits();
    assert_eq!(other.ask("lock posix f write 0 1 wait"), "EDEADLOCK");
    other.does("lock posix s free 0 0");
    assert_eq!(one.answer(), "done");
}

#[test]
fn closing_any_descriptor_lets_go_of_the_locks_of_the_process() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does(&format!("open second {} r", scene.path("file").display()));
    one.does("dup f copy");
    for closed in ["second", "copy"] {
        one.does("lock posix f write 0 10");
        assert_eq!(other.ask("lock posix f write 0 1"), "EAGAIN");
        one.does(&format!("close {closed}"));
        other.does("lock posix f write 0 10");
        assert_eq!(one.ask("lock posix f write 0 1"), "EAGAIN");
        other.does("lock posix f free 0 10");
    }
    // What was locked through another open file stays when the first one goes.
    for _ in 0..50 {
        one.does(&format!("open again {}", scene.path("file").display()));
        one.does("lock posix again write 0 1");
        one.does("close again");
        one.does("lock posix f write 0 1");
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(other.ask("lock posix f write 0 1"), "EAGAIN");
    }
}

#[test]
fn a_child_keeps_open_files_and_not_the_locks_of_its_parent() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does("lock posix f write 0 1");
    let child = one.ask("fork");
    one.does("close f");
    other.does("lock posix f write 0 1");
    other.does("lock posix f free 0 1");
    one.does(&format!("end {child}"));
    // The end of an open file that a child had last takes nothing from who locked through it once.
    for name in ["f", "again"] {
        one.does(&format!("open {name} {}", scene.path("file").display()));
    }
    one.does("lock posix again write 0 1");
    one.does("lock posix again free 0 1");
    let child = one.ask("fork");
    one.does("close again");
    one.does("lock posix f write 0 1");
    let released = scene.mounted().stats().count("release");
    one.does(&format!("end {child}"));
    wait_until("it is closed", || scene.mounted().stats().count("release") > released);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(other.ask("lock posix f write 0 1"), "EAGAIN");
}

#[test]
fn locks_of_an_open_file_belong_to_it() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does(&format!("open second {}", scene.path("file").display()));
    one.does("dup f copy");
    one.does("lock ofd f write 0 10");
    assert_eq!(one.ask("lock ofd second write 5 1"), "EAGAIN", "another open file of the same process");
    assert_eq!(
        (one.ask("lock posix f write 5 1"), other.ask("lock posix f read 9 1")),
        ("EAGAIN".into(), "EAGAIN".into())
    );
    one.does("lock ofd copy write 0 20");
    assert!(other.ask("test ofd f read 0 1").starts_with("1 0 20 "), "one range");
    one.does("close second");
    one.does("close f");
    assert_eq!(other.ask("lock posix f read 9 1"), "EAGAIN", "it is open still");
    one.does("close copy");
    other.does("lock posix f write 0 0");
    other.does("lock posix f free 0 0");
    // A wait of theirs.
    one.does(&format!("open f {}", scene.path("file").display()));
    one.does("lock ofd f write 0 1");
    other.tell("lock ofd f read 0 1 wait");
    other.waits();
    one.does("close f");
    assert_eq!(other.answer(), "done");
}

#[test]
fn whole_files_are_locked_by_open_file() {
    let Some((scene, mut one, mut other)) = two() else { return };
    one.does("flock f shared");
    other.does("flock f shared");
    assert_eq!(one.ask("flock f exclusive"), "EAGAIN");
    other.does("flock f free");
    one.does("flock f exclusive");
    other.tell("flock f shared wait");
    other.waits();
    one.does("lock posix f write 0 10");
    one.does("flock f shared");
    assert_eq!(other.answer(), "done", "one that is lowered lets others in");
    one.does("dup f copy");
    one.does("close f");
    assert_eq!(other.ask("flock f exclusive"), "EAGAIN", "it is open still");
    one.does("close copy");
    other.does("flock f exclusive");
    drop((one, other));
    // What was closed is in nobody's way, although the kernel tells of it later.
    for _ in 0..300 {
        let file = File::open(scene.path("file")).expect("opened");
        file.try_lock().expect("free");
    }
}

/// A read that nobody waits for keeps the kernel from telling of a close.
#[test]
fn what_is_closed_and_not_told_of_yet_is_waited_for_a_little() {
    let attempt = || {
        let scene = Scene::with(Memory::with_held_reads(), MountSettings::default())?;
        fs::write(scene.path("file"), b"content").expect("written");
        let first = File::options().read(true).write(true).open(scene.path("file")).expect("opened");
        let second = File::open(scene.path("file")).expect("opened");
        // What was not written is not kept by the kernel.
        first.set_len(1 << 16).expect("grown");
        first.lock().expect("free");
        assert!(second.try_lock().is_err(), "it is open");
        rustix::fs::fadvise(&first, 0, None, rustix::fs::Advice::WillNeed).expect("advised");
        wait_until("it is read", || scene.mounted().stats().count("read") > 0);
        let released = scene.mounted().stats().count("release");
        drop(first);
        assert_eq!(scene.mounted().stats().count("release"), released);
        let locked = std::thread::scope(|scope| {
            let locking = scope.spawn(|| second.try_lock().is_ok());
            wait_until("it asks", || scene.mounted().stats().count("setlk") == 2);
            scene.service.reads.raise();
            locking.join().expect("it was answered")
        });
        Some(locked)
    };
    // On a machine with much to do a little is not always enough.
    let mut attempts = (0..10).map_while(|_| attempt()).peekable();
    assert!(attempts.peek().is_none() || attempts.any(|locked| locked));
}

#[test]
fn all_that_wait_keep_no_request_out() {
    let settings = MountSettings { requests: 2, slots: 2, ..MountSettings::default() };
    let Some(scene) = scene(settings) else { return };
    hold_many(&scene);
}

/// Twelve programs wait for one, which lets go.
pub fn hold_many(scene: &Scene) {
    let mut holder = Program::with(&scene.path("file"));
    holder.does("lock posix f write 0 0");
    let mut waiting: Vec<_> = (0..12).map(|_| Program::with(&scene.path("file"))).collect();
    for (program, count) in waiting.iter_mut().zip(1..) {
        program.tell("lock posix f write 0 0 wait");
        wait_until("it asks", || scene.mounted().stats().count("setlkw") == count);
    }
    waiting.iter_mut().for_each(Program::waits);
    fs::write(scene.path("more"), vec![7; 1 << 20]).expect("written");
    assert_eq!(fs::read(scene.path("more")).expect("read").len(), 1 << 20);
    holder.does("lock posix f free 0 0");
    while !waiting.is_empty() {
        let begun = Instant::now();
        let mut asked = (0..waiting.len()).cycle().take_while(|_| begun.elapsed() < LIMIT);
        let first = asked.find(|at| waiting[*at].has_answered(Duration::from_millis(50)));
        let first = first.expect("one of them has it");
        waiting.remove(first).kill();
    }
}

#[test]
fn a_mount_ends_while_programs_wait() {
    let Some(mut scene) = scene(MountSettings::default()) else { return };
    let (mut one, mut other) = (Program::with(&scene.path("file")), Program::with(&scene.path("file")));
    one.does("flock f exclusive");
    one.does("lock posix f write 0 0");
    other.tell("flock f exclusive wait");
    other.waits();
    let mounted = scene.take();
    scene.stop(mounted).expect("stopped");
    assert!(["ENOTCONN", "ECONNABORTED"].contains(&&*other.answer()));
    assert_eq!(one.ask("lock posix f free 0 0"), "ENOTCONN");
    assert_eq!(one.ask("write f 0 text"), "ENOTCONN", "nothing is written under a lock that is gone");
    assert_eq!(scene.opens.table().counts(), holdfast_opens::Counts::default(), "all is given back");
    scene.mount_with(MountSettings::default()).expect("mounted again");
    let mut next = Program::with(&scene.path("file"));
    next.does("lock posix f write 0 0");
    next.does("flock f exclusive");
}

#[test]
fn the_kernel_may_keep_locks_to_itself() {
    let settings = MountSettings { shared_locks: false, ..MountSettings::default() };
    let Some(scene) = scene(settings) else { return };
    let (mut one, mut other) = (Program::with(&scene.path("file")), Program::with(&scene.path("file")));
    one.does("lock posix f write 0 0");
    one.does("flock f exclusive");
    assert_eq!((other.ask("lock posix f read 0 1"), other.ask("flock f shared")), ("EAGAIN".into(), "EAGAIN".into()));
    one.does("close f");
    other.does("lock posix f read 0 1");
    let stats = scene.mounted().stats();
    assert_eq!((stats.count("setlk"), stats.count("flush"), scene.opens.table().counts().ranges), (0, 0, 0));
}

#[test]
fn leases_of_programs_are_kept_by_the_kernel_alone() {
    let Some((scene, mut one, mut other)) = two() else { return };
    other.does("close f");
    one.does(&format!("open r {} r", scene.path("file").display()));
    one.does("close f");
    one.does("lease r read");
    assert_eq!(scene.opens.table().counts().leases, 0, "others do not see them");
}
