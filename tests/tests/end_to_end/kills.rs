//! A daemon that is killed while snapshots are destroyed, files are cloned, and rules make and destroy snapshots by the
//! clock: what was answered is there, nothing is half there, and a scan finds nothing.
//!
//! `HOLDFAST_KILLS` says how often each; 4 times without it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_tests::command::wait_until;
use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::random::{Random, bytes};
use holdfast_tests::scene::Scene;

const MIB: usize = 1 << 20;
/// Bytes of the file that snapshots keep the states of.
const LEN: usize = 3 * MIB;

fn rounds() -> u64 {
    std::env::var("HOLDFAST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

fn mounted() -> (Scene, Janitor, Daemon, String) {
    let (scene, janitor, directory) = Janitor::with_mount_point();
    let daemon = Daemon::start(&scene);
    daemon.pool(&scene, "tank", 3, "512MiB");
    daemon.please(&["volume", "create", "tank/files", "--size", "384MiB", "--layout", "mirror"]);
    daemon.please(&["volume", "mount", "tank/files", &directory]);
    (scene, janitor, daemon, directory)
}

/// Starts a daemon that was killed, and has it scan: nothing is wrong, and what was begun is done.
fn start_again(daemon: &mut Daemon, there: &str) {
    daemon.kill();
    daemon.start_again();
    wait_until("it is mounted", 30, || Path::new(there).exists());
    wait_until("all jobs are over", 60, || {
        daemon.json(&["job", "list"]).as_array().is_some_and(|jobs| jobs.is_empty())
    });
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}

fn snapshots(daemon: &Daemon) -> Vec<String> {
    let listed = daemon.json(&["snapshot", "list", "tank/files"]);
    let names = listed.as_array().expect("a list").iter().filter_map(|one| one["name"].as_str().map(str::to_owned));
    names.collect()
}

/// Asks for something, and kills the daemon so many microseconds later; whether it was answered as done.
fn cut(daemon: &Daemon, arguments: &[&str], micros: u64) -> bool {
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| daemon.cli(arguments).success());
        std::thread::sleep(Duration::from_micros(micros));
        daemon.strike();
        asked.join().expect("it answers or fails")
    })
}

/// Leaves it to the volume to have one file be what another is, which does that by the same blocks.
fn clone(from: &File, to: &File) -> Result<(), std::io::Error> {
    let (len, mut done) = (from.metadata()?.len(), 0);
    while done < len {
        let (mut at, mut into) = (done, done);
        match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut into), (len - done) as usize)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            some => done += some as u64,
        }
    }
    Ok(())
}

#[test]
fn a_snapshot_whose_destruction_is_cut_short_is_whole_or_gone() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let (path, mut random) = (format!("{directory}/file"), Random::new(11));
    let mut known: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut held = bytes(1, LEN);
    std::fs::write(&path, &held).expect("written");
    for round in 0..rounds() {
        while known.len() < 3 {
            let name = format!("s{round}-{}", known.len());
            daemon.please(&["snapshot", "create", &format!("tank/files@{name}")]);
            known.insert(name, held.clone());
            // Pages that are the snapshot's alone from now on.
            let file = File::options().write(true).open(&path).expect("opened");
            for page in 0..60 {
                let at = random.below((LEN / 8192) as u64) as usize * 8192;
                let new = bytes(round * 100 + page, 8192);
                file.write_all_at(&new, at as u64).expect("written");
                held[at..at + 8192].copy_from_slice(&new);
            }
            file.sync_all().expect("durable");
        }
        let names: Vec<String> = known.keys().cloned().collect();
        let gone = &names[random.below(3) as usize];
        let asked = ["snapshot", "destroy", &format!("tank/files@{gone}"), "--yes"];
        // Also while a job gives back what it kept.
        let was_done = cut(&daemon, &asked, random.below(80_000));
        start_again(&mut daemon, &path);
        let there = snapshots(&daemon);
        if was_done || !there.contains(gone) {
            known.remove(gone);
        }
        assert!(!was_done || !there.contains(gone), "round {round}: {gone} was destroyed, and is there: {there:?}");
        assert_eq!(there.len(), known.len(), "round {round}: {there:?}");
        for (name, has) in &known {
            let kept = std::fs::read(format!("{directory}/.snapshots/{name}/file")).expect("it is there");
            assert!(kept == *has, "round {round}: {name} has something else");
        }
        assert!(std::fs::read(&path).expect("read") == held, "round {round}");
    }
    for name in known.keys() {
        daemon.please(&["snapshot", "destroy", &format!("tank/files@{name}"), "--yes"]);
    }
    wait_until("its room is back", 60, || {
        let shown = daemon.json(&["volume", "show", "tank/files"]);
        shown["snapshot_bytes"] == 0
    });
}

#[test]
fn a_clone_that_is_cut_short_has_what_it_is_of_or_nothing_and_takes_nothing_from_it() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let (path, mut random) = (format!("{directory}/file"), Random::new(12));
    let at = |number: u64| format!("{directory}/clone{number}");
    let mut held = bytes(2, 4 * LEN);
    std::fs::write(&path, &held).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("durable");
    // So that it lies in many pieces, and cloning it takes many changes.
    daemon.please(&["snapshot", "create", "tank/files@pieces"]);
    let file = File::options().write(true).open(&path).expect("opened");
    for begin in (0..held.len()).step_by(16 << 10) {
        let new = bytes(begin as u64, 4096);
        file.write_all_at(&new, begin as u64).expect("written");
        held[begin..begin + 4096].copy_from_slice(&new);
    }
    file.sync_all().expect("durable");
    drop(file);
    daemon.please(&["snapshot", "destroy", "tank/files@pieces", "--yes"]);
    let mut durable: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut next = 0;
    for round in 0..rounds() {
        let first = next;
        let delay = Duration::from_micros(random.below(60_000));
        let mut done: Vec<u64> = Vec::new();
        std::thread::scope(|scope| {
            let (daemon, path, at, done, next) = (&daemon, &path, &at, &mut done, &mut next);
            let cloning = scope.spawn(move || {
                loop {
                    *next += 1;
                    let number = *next;
                    // Once it is killed, nothing answers.
                    let Ok(from) = File::open(path) else { return };
                    let Ok(to) = File::create(at(number)) else { return };
                    if clone(&from, &to).is_err() || to.sync_all().is_err() {
                        return;
                    }
                    done.push(number);
                }
            });
            std::thread::sleep(delay);
            daemon.strike();
            cloning.join().expect("it ends");
        });
        start_again(&mut daemon, &path);
        durable.extend(done.iter().map(|number| (*number, held.clone())));
        assert!(std::fs::read(&path).expect("read") == held, "round {round}: the source");
        for (number, has) in &durable {
            assert!(std::fs::read(at(*number)).expect("read") == *has, "round {round}: clone {number}");
        }
        for number in (first + 1..=next).filter(|number| !done.contains(number)) {
            // A part of it may be there, from the beginning.
            if let Ok(part) = std::fs::read(at(number)) {
                assert!(held.starts_with(&part), "round {round}: {} bytes of clone {number}", part.len());
                std::fs::remove_file(at(number)).expect("removed");
            }
        }
        // Whoever writes to one of them changes no other.
        let begin = random.below((held.len() / 4096) as u64) as usize * 4096;
        let new = bytes(round, 4096);
        let write = |path: &str, has: &mut Vec<u8>| {
            let file = File::options().write(true).open(path).expect("opened");
            file.write_all_at(&new, begin as u64).expect("written");
            file.sync_all().expect("durable");
            has[begin..begin + 4096].copy_from_slice(&new);
        };
        match durable.iter_mut().next_back().filter(|_| round % 2 == 0) {
            Some((number, has)) => write(&at(*number), has),
            None => write(&path, &mut held),
        }
        while durable.len() > 5 {
            let (number, _) = durable.pop_first().expect("one");
            std::fs::remove_file(at(number)).expect("removed");
        }
    }
    assert!(std::fs::read(&path).expect("read") == held);
}

#[test]
fn a_schedule_that_is_cut_short_goes_on_and_leaves_no_part_of_a_snapshot() {
    let (_scene, _janitor, mut daemon, directory) = mounted();
    let (path, mut random) = (format!("{directory}/file"), Random::new(13));
    // Whoever looks at any moment sees all of the old or all of the new.
    let replace = |round: u64| {
        let new = format!("{directory}/new");
        std::fs::write(&new, bytes(round, LEN)).expect("written");
        File::open(&new).and_then(|file| file.sync_all()).expect("durable");
        std::fs::rename(&new, &path).expect("renamed");
    };
    replace(0);
    let minutely = ["snapshot", "schedule", "set", "tank/files", "--every", "1m", "--keep", "1"];
    daemon.please(&minutely);
    let mut before = snapshots(&daemon);
    for round in 0..rounds() {
        replace(round);
        // Another rule has its first one made at once; the one of each minute makes one and destroys one at its turn.
        let every = format!("{}m", 60 * 24 * (1 + round));
        let set = ["snapshot", "schedule", "set", "tank/files", "--every", &every, "--keep", "1"];
        daemon.please(&set);
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_millis() as u64 % 60_000;
        let to_the_minute = 60_000 - millis;
        let wait = if to_the_minute < 10_000 { to_the_minute + 200 } else { 0 };
        std::thread::sleep(Duration::from_millis(wait) + Duration::from_micros(random.below(1_500_000)));
        daemon.strike();
        start_again(&mut daemon, &path);
        wait_until("both rules have theirs", 90, || {
            let there = snapshots(&daemon);
            let of = |prefix: &str| there.iter().filter(|name| name.starts_with(prefix)).count();
            of("auto-1m-") == 1 && of("auto-") == 2
        });
        let there = snapshots(&daemon);
        for name in &there {
            let kept = std::fs::read(format!("{directory}/.snapshots/{name}/file")).expect("it is there");
            let is_one = (0..=round).any(|one| kept == bytes(one, LEN));
            assert!(is_one, "round {round}: {name} has what no file ever had, or only a part");
        }
        let is_new = |name: &&String| !before.contains(name);
        assert!(there.iter().any(|name| is_new(&name)), "round {round}: the new rule made one: {there:?}");
        daemon.please(&["snapshot", "schedule", "remove", "tank/files", "--every", &every]);
        for name in there.iter().filter(|name| !name.starts_with("auto-1m-")) {
            daemon.please(&["snapshot", "destroy", &format!("tank/files@{name}"), "--yes"]);
        }
        before = snapshots(&daemon);
    }
    daemon.please(&["snapshot", "schedule", "remove", "tank/files"]);
    wait_until("all jobs are over", 60, || {
        daemon.json(&["job", "list"]).as_array().is_some_and(|jobs| jobs.is_empty())
    });
    let scanned = daemon.please(&["volume", "scan", "tank/files", "--wait"]);
    assert!(scanned.contains("all metadata agrees"), "{scanned}");
}
