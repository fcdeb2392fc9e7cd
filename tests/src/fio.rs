//! fio as a load and as a judge: its nbd engine on a URI.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command::Finished;
use crate::command::run;

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
        assert!(output.status.success(), "fio failed: {}\n{printed}{}", output.status, String::from_utf8_lossy(&output.stderr));
        printed
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
