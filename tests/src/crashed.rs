//! A volume whose process is killed, and a new process that takes it up: each a run of this program by itself, so that
//! nothing but what the volume needs is in memory.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Instant;

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_volume::Volume;
use holdfast_volume::service::{Caller, FileId, FileKind, FileService};

use crate::files::{NEW, open_volume};
use crate::process::{most_resident_bytes, resident_bytes};
use crate::rounds::text;
use crate::wounded::OF_DIRECTORY;

/// What a run is told to do, and how many files the volume has.
const TASK: &str = "HOLDFAST_CRASHED";
const FILES: &str = "HOLDFAST_CRASHED_FILES";
/// Bytes of the log that a creation takes, about.
const LOGGED_BYTES: u64 = 350;
/// Creations that are one to a directory, at most: each changes nodes of its own, of which a checkpoint writes so many.
const MOST_SCATTERED: u64 = 2500;

/// What was seen after a process was killed.
#[derive(Clone, Copy, Debug)]
pub struct TakenUp {
    /// Creations that only the log had.
    pub logged: u64,
    /// From the beginning of the process until a file was found by its name.
    pub answers_seconds: f64,
    /// Memory of the process then.
    pub opened_bytes: u64,
    /// Memory after all directories were listed with the attributes of their files.
    pub walked_bytes: u64,
    /// The most that there was.
    pub most_bytes: u64,
}

async fn lookup(volume: &Volume, dir: FileId, name: String) -> FileId {
    let found = volume.lookup(&Caller::default(), dir, name.as_bytes()).await.expect("looked up");
    found.expect("it is there").id
}

/// Creates files until a checkpoint is nearly due, some of them all over the volume, and dies.
async fn create_and_die(path: &str, files: u64) {
    let volume = open_volume(path).await;
    let (caller, directories) = (Caller::default(), files / OF_DIRECTORY);
    let all = volume.size_bytes() / 64 / 5 / LOGGED_BYTES;
    let scattered = directories.min(MOST_SCATTERED).min(all / 2);
    let first = lookup(&volume, volume.root(), "d0".into()).await;
    for number in 0..all {
        let dir = match number {
            number if number < scattered => {
                lookup(&volume, volume.root(), format!("d{}", number * (directories / scattered))).await
            }
            _ => first,
        };
        volume.create(&caller, dir, format!("new {number}").as_bytes(), &NEW).await.expect("created");
    }
    volume.sync().await.expect("durable");
    println!("{all}");
    let this = rustix::process::getpid();
    rustix::process::kill_process(this, rustix::process::Signal::KILL).expect("it may kill itself");
}

/// Opens the volume, and reads all that it holds.
async fn take_up(path: &str, files: u64, begun: Instant) {
    let volume = open_volume(path).await;
    let last = lookup(&volume, volume.root(), format!("d{}", files / OF_DIRECTORY - 1)).await;
    lookup(&volume, last, format!("file {}", OF_DIRECTORY - 1)).await;
    let (answered, own) = (begun.elapsed().as_secs_f64(), std::process::id());
    let opened = resident_bytes(own);
    let (mut seen, mut waiting) = (0, vec![volume.root()]);
    while let Some(dir) = waiting.pop() {
        let mut cursor = 0;
        loop {
            let entries = volume.list(&Caller::default(), dir, cursor, 1024, true).await.expect("listed");
            let Some(last) = entries.last() else { break };
            cursor = last.cursor;
            seen += entries.len() as u64;
            waiting.extend(entries.iter().filter(|entry| entry.kind == FileKind::Directory).map(|entry| entry.id));
        }
    }
    assert!(seen >= files, "{seen} of {files} files");
    println!("{answered} {opened} {} {}", resident_bytes(own), most_resident_bytes(own));
    volume.shut_down().await.expect("closed");
}

/// Does what this run of the program was started for, if it is one of these.
///
/// # Panics
/// If that fails.
pub fn was_told() -> bool {
    let begun = Instant::now();
    let (Some(task), Some(path)) = (text(TASK), std::env::args().nth(1)) else { return false };
    let files = text(FILES).and_then(|files| files.parse().ok()).expect("so many files");
    let settings = ReactorSettings { name: "crashed".into(), ..ReactorSettings::default() };
    let done = reactor::block_on(settings, async move {
        match task.as_str() {
            "die" => create_and_die(&path, files).await,
            _ => take_up(&path, files, begun).await,
        }
    });
    done.expect("the kernel gives a ring");
    true
}

/// Has a process die while a volume of so many files is in use, and another one take it up.
///
/// # Panics
/// If one of them does something else.
pub fn crash(path: &str, files: u64) -> TakenUp {
    let run = |task: &str| {
        let program = std::env::current_exe().expect("it runs");
        let done = Command::new(program).arg(path).env(TASK, task).env(FILES, files.to_string()).output();
        let done = done.expect("it begins");
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let is_killed = done.status.signal() == Some(9);
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() || (task == "die" && is_killed), "{task}: {complaint}");
        printed.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let logged = run("die");
    let seen = run("take up");
    let bytes = |at: usize| seen[at].parse().expect("a number");
    TakenUp {
        logged: logged[0].parse().expect("a number"),
        answers_seconds: seen[0].parse().expect("a number"),
        opened_bytes: bytes(1),
        walked_bytes: bytes(2),
        most_bytes: bytes(3),
    }
}
