//! Exercisers of files that others wrote: `fsx`, which compares each read with what it wrote, on four volumes at once; and
//! the classes of `stress-ng` that are about files.

use std::process::{Command, Stdio};

use holdfast_tests::random::Random;

use crate::support::{Files, length, tool};

/// Every operation that `fsx` has.
const CONFIGURATION: &str = r#"
flen = 1048576

[opsize]
max = 131072

[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 5
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
"#;

/// Classes of `stress-ng`.
const CLASSES: &str = "access chmod chown copy-file dentry dir dirdeep dirmany fallocate fcntl fiemap filename flock \
                       fpunch fstat getdent hdd iomix lease link lockf mknod open rename revio seek symlink sync-file \
                       touch utime xattr";

#[test]
fn fsx_reads_what_it_wrote_on_four_volumes_at_once() {
    let Some(fsx) = tool("fsx") else { return };
    let operations = length(3_000, 1_000_000).to_string();
    let mut random = Random::announced();
    let mut files = Files::new("1GiB");
    let layouts: [(&str, &[&str]); 4] = [
        ("simple", &["--layout", "simple"]),
        ("mirror", &["--layout", "mirror", "--case-sensitive"]),
        ("parity", &["--layout", "parity"]),
        ("thin", &["--layout", "mirror", "--thin"]),
    ];
    let configuration = files.scene.path("fsx.toml");
    std::fs::write(&configuration, CONFIGURATION).expect("written");
    let artifacts = files.scene.folder("artifacts");
    let running = layouts.map(|(name, layout)| {
        let directory = files.volume(name, &[&["--size", "256MiB"], layout].concat());
        let seed = (random.next_u64() >> 1).to_string();
        let mut command = Command::new(&fsx);
        command.args(["-N", &operations, "-S", &seed, "-f", &configuration, "-P", &artifacts]);
        command.arg(format!("{directory}/file")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        (name, command.spawn().expect("it runs"))
    });
    for (name, child) in running {
        let output = child.wait_with_output().expect("it ends");
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        let end = text.lines().rev().take(60).collect::<Vec<_>>();
        assert!(output.status.success(), "{name}: {}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    layouts.iter().for_each(|(name, _)| files.scan(name));
}

#[test]
fn stress_ng_finds_no_fault_and_leaves_none() {
    let mut files = Files::new("2GiB");
    let directory = files.volume("files", &["--size", "2GiB", "--layout", "simple", "--thin"]);
    let stress = |seconds: u64, classes: &[&str]| {
        let seconds = seconds.to_string();
        let mut command = Command::new("stress-ng");
        command.args(["--temp-path", &directory, "--verify", "--timeout", &seconds, "--no-rand-seed"]);
        command.args(classes.iter().flat_map(|class| [format!("--{class}"), "1".into()]));
        let output = command.output().expect("stress-ng can be run: scripts/packages.sh installs it");
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        assert!(output.status.success(), "{classes:?}: {text}");
    };
    let classes: Vec<&str> = CLASSES.split_whitespace().collect();
    for few in classes.chunks(8) {
        stress(length(2, 60), few);
    }
    files.scan("files");
    let left = std::fs::read_dir(&directory).expect("it can be listed").count();
    assert_eq!(left, 0, "it cleans up");
}
