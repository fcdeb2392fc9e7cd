//! fio as a load and as a judge: its nbd engine on a URI.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::command::Finished;
use crate::command::run;

/// How fio ends that is told to.
const INTERRUPTED: i32 = 128;

/// One direction of a job, as fio counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Bytes in all.
    pub total_bytes: f64,
}

/// Arguments of fio for a job on `uri` that is not told what to do yet.
pub fn fio_line(uri: &str) -> Vec<String> {
    let fixed = ["--name=job", "--ioengine=nbd", "--thread=1", "--group_reporting=1"].map(str::to_owned);
    let mut arguments = Vec::from(fixed);
    arguments.push(format!("--uri={uri}"));
    arguments
}

/// Arguments of fio for a job on a file or block device with direct I/O.
pub fn direct_line(engine: &str, file: &str) -> Vec<String> {
    let fixed = ["--name=job", "--direct=1", "--thread=1", "--group_reporting=1"].map(str::to_owned);
    let mut arguments = Vec::from(fixed);
    arguments.extend([format!("--ioengine={engine}"), format!("--filename={file}")]);
    arguments
}

/// Runs fio on `uri` to its end.
pub fn fio(uri: &str, options: &[&str]) -> Finished {
    let mut arguments = fio_line(uri);
    arguments.extend(options.iter().map(|&option| option.to_owned()));
    run("fio", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Writes all of `uri` and checks it, with checksums in each block.
#[track_caller]
pub fn verify(uri: &str, options: &[&str]) {
    let judge = ["--rw=randwrite", "--bs=16k", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    fio(uri, &[&judge, options].concat()).succeeded();
}

/// A part of an export that fio writes and reads back again and again, its two halves in turn. A round that is cut off
/// leaves the half of the round before it alone.
pub struct Rounds {
    offset: u64,
    half_bytes: u64,
    /// Rounds that came to their end.
    done: u64,
}

impl Rounds {
    /// The bytes from `offset` on, as many as two halves.
    pub fn new(offset: u64, half_bytes: u64) -> Self {
        Self { offset, half_bytes, done: 0 }
    }

    /// Rounds that came to their end.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Writes and reads back until `over`, or until a round is cut off once that is so.
    ///
    /// # Panics
    /// If fio reads what it did not write, or fails before it is over.
    pub fn run(&mut self, uri: &str, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let round = self.fio(uri, self.done, &["--do_verify=1", "--end_fsync=1"]);
            if round.success() {
                self.done += 1;
                continue;
            }
            let said = round.to_string();
            assert!(
                over.load(Ordering::SeqCst) && !said.contains("verify failed") && !said.contains("bad header"),
                "{said}"
            );
        }
    }

    /// Reads back what the last round wrote that came to its end.
    ///
    /// # Panics
    /// If fio reads something else.
    #[track_caller]
    pub fn check(&self, uri: &str) {
        if let Some(last) = self.done.checked_sub(1) {
            self.fio(uri, last, &["--verify_only"]).succeeded();
        }
    }

    fn fio(&self, uri: &str, round: u64, options: &[&str]) -> Finished {
        let place = [
            format!("--offset={}", self.offset + round % 2 * self.half_bytes),
            format!("--size={}", self.half_bytes),
            format!("--randseed={}", round + 1),
        ];
        let judge = ["--rw=randwrite", "--bs=16k", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"];
        let place = place.iter().map(String::as_str);
        fio(uri, &judge.into_iter().chain(place).chain(options.iter().copied()).collect::<Vec<_>>())
    }
}

/// A fio that runs beside the test.
pub struct Running {
    child: Child,
}

/// Starts fio on `uri`.
pub fn start(uri: &str, options: &[&str]) -> Running {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "fio"]).args(fio_line(uri)).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running { child: command.spawn().expect("setpriv of util-linux can be run") }
}

impl Running {
    /// Whether it runs still.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn finish(self) -> String {
        let output = self.child.wait_with_output().expect("a child can be waited for");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "fio failed: {}\n{printed}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }

    /// Ends it, and waits until all is verified that it has begun to read.
    ///
    /// # Panics
    /// If it had ended before, or found a fault.
    #[track_caller]
    pub fn stop(mut self) {
        if !self.runs() {
            panic!("it ended before its time: {}", self.finish());
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a child can be signalled");
        let output = self.child.wait_with_output().expect("a child can be waited for");
        let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let is_sound = output.status.code() == Some(INTERRUPTED) && printed.contains("err= 0");
        assert!(is_sound, "fio failed: {}\n{printed}", output.status);
    }

    /// Waits for its end, however it ended; true if it succeeded.
    pub fn end(self) -> bool {
        self.child.wait_with_output().is_ok_and(|output| output.status.success())
    }
}

/// Reads the rates of reads and writes from what `--output-format=json` printed.
///
/// # Panics
/// If it is not that.
pub fn rates(printed: &str) -> (Rate, Rate) {
    // Notes of fio may stand before the document.
    let document = printed.find('{').map_or("", |at| &printed[at..]);
    let document: Value =
        serde_json::from_str(document).unwrap_or_else(|error| panic!("fio printed no JSON: {error}\n{printed}"));
    let job = &document["jobs"][0];
    let rate = |direction: &str| {
        let number = |name: &str| job[direction][name].as_f64().unwrap_or_default();
        Rate { iops: number("iops"), bytes: number("bw_bytes"), total_bytes: number("io_bytes") }
    };
    (rate("read"), rate("write"))
}

/// The 99th percentile of all latencies that fio tells, in microseconds, of `read` or `write`.
///
/// # Panics
/// If it told none.
pub fn p99(printed: &str, direction: &str) -> f64 {
    let document: Value = serde_json::from_str(&printed[printed.find('{').expect("a document")..]).expect("JSON");
    document["jobs"][0][direction]["clat_ns"]["percentile"]["99.000000"].as_f64().expect("a percentile") / 1000.0
}
