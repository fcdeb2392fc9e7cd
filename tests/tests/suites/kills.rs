//! Trees of files under kills: clones of a repository and archives that are unpacked. What was synced before a kill is
//! there after it, whole. The kernel does not pass `syncfs` on to mounts of this kind, so each file is synced.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use holdfast_tests::command::run;
use holdfast_tests::random::Random;
use holdfast_tests::scene::Scene;

use crate::support::{Files, length};

/// A repository of this project's sources, with two commits.
fn repository(scene: &Scene) -> String {
    let path = scene.folder("repository");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("it is there");
    let source = |name: &str| root.join(name).to_str().expect("text").to_owned();
    run("git", &["init", "-q", &path]).succeeded();
    for (folders, message) in [(["core", "docs"], "first"), (["serve", "tests"], "second")] {
        run("cp", &["-r", &source(folders[0]), &source(folders[1]), &path]).succeeded();
        run("git", &["-C", &path, "add", "."]).succeeded();
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        run("git", &[&["-C", &path], &who[..], &["commit", "-q", "-m", message]].concat()).succeeded();
    }
    path
}

/// Starts a line of shell.
fn shell(line: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell runs")
}

#[test]
fn clones_and_archives_that_were_synced_are_whole_after_each_kill() {
    let mut random = Random::announced();
    let mut files = Files::new("2GiB");
    let directory = files.volume("files", &["--size", "2GiB", "--layout", "mirror", "--thin"]);
    let repository = repository(&files.scene);
    let archive = files.scene.path("tree.tar");
    run("tar", &["-C", &repository, "-cf", &archive, "."]).succeeded();
    let notes = files.scene.folder("notes");
    let mut whole: Vec<String> = Vec::new();
    let rounds = length(3, 30);
    for round in 0..rounds {
        let (clone, tree) = (format!("clone{round}"), format!("tree{round}"));
        let mut child = shell(&format!(
            "cd '{directory}' && git clone -q --no-local '{repository}' {clone} && \
             find {clone} -not -type l -exec sync {{}} + && sync . && touch '{notes}/{clone}' && \
             mkdir {tree} && tar -C {tree} -xf '{archive}' && \
             find {tree} -not -type l -exec sync {{}} + && sync . && touch '{notes}/{tree}'"
        ));
        if round + 1 == rounds {
            assert!(child.wait().expect("it ends").success(), "the last round is not cut short");
        } else {
            std::thread::sleep(Duration::from_millis(500 + random.below(4000)));
        }
        files.daemon.kill();
        let _ = child.wait();
        files.daemon.start_again();
        whole.extend([clone, tree].into_iter().filter(|name| Path::new(&format!("{notes}/{name}")).exists()));
        for name in &whole {
            let path = format!("{directory}/{name}");
            if name.starts_with("clone") {
                run("git", &["-C", &path, "fsck", "--full", "--strict"]).succeeded();
                let status = run("git", &["-C", &path, "status", "--porcelain"]).succeeded();
                assert_eq!(status, "", "{name} is as it was checked out");
            } else {
                run("diff", &["-r", &repository, &path]).succeeded();
            }
        }
        files.scan("files");
        // Room for the next ones; what a kill cut short is removed like anything else.
        whole.drain(..whole.len().saturating_sub(3));
        for entry in std::fs::read_dir(&directory).expect("it can be listed") {
            let entry = entry.expect("a name");
            if !whole.iter().any(|kept| entry.file_name() == kept.as_str()) {
                run("rm", &["-rf", entry.path().to_str().expect("text")]).succeeded();
            }
        }
    }
    assert!(whole.len() >= 2, "the last round was whole");
}
