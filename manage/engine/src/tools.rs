//! Programs of the system that know more of disks than we do: run with a bound on their time and on what they print.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// What a program printed, and how it ended.
pub(crate) struct Printed {
    pub(crate) success: bool,
    /// What it ended with; none where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: String,
}

/// What is taken of the messages of a program.
const MOST_ERROR_BYTES: u64 = 4096;

/// Runs `program` for at most `timeout` and takes at most `most_bytes` of what it prints.
///
/// # Errors
/// If it cannot be run, takes too long, or prints more.
pub(crate) async fn run(program: &Path, arguments: &[&str], timeout: Duration, most_bytes: u64) -> Result<Printed> {
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", crate::foreign::search_path()).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::other("its output cannot be read"));
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let reading = async {
        let (mut out, mut err) = (stdout.take(most_bytes + 1), stderr.take(MOST_ERROR_BYTES));
        let bounded = async {
            match out.read_to_end(&mut output).await? as u64 {
                printed if printed > most_bytes => {
                    Err(Error::new(ErrorKind::FileTooLarge, format!("it printed more than {most_bytes} bytes")))
                }
                _ => Ok(()),
            }
        };
        tokio::try_join!(bounded, err.read_to_end(&mut errors))?;
        let ended = child.wait().await?;
        Ok(Printed {
            success: ended.success(),
            code: ended.code(),
            output,
            errors: String::from_utf8_lossy(&errors).trim().into(),
        })
    };
    match tokio::time::timeout(timeout, reading).await {
        Ok(printed) => printed,
        Err(_) => Err(Error::new(ErrorKind::TimedOut, format!("it did not end within {} s", timeout.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_harness::LIMIT;

    use super::*;

    async fn shell(script: &str, timeout: Duration) -> Result<Printed> {
        run(Path::new("sh"), &["-c", script], timeout, 1000).await
    }

    #[tokio::test]
    async fn what_is_printed_is_bounded_and_so_is_the_time() {
        let printed = shell("echo yes; echo no >&2; exit 3", LIMIT).await.unwrap();
        assert_eq!(printed.code, Some(3));
        assert_eq!((printed.success, printed.output.as_slice(), printed.errors.as_str()), (false, &b"yes\n"[..], "no"));
        assert_eq!(shell("yes", LIMIT).await.err().map(|error| error.kind()), Some(ErrorKind::FileTooLarge));
        assert_eq!(
            shell("exec sleep 60", Duration::from_millis(100)).await.err().map(|error| error.kind()),
            Some(ErrorKind::TimedOut)
        );
        let missing = run(Path::new("/nonexistent/tool"), &[], LIMIT, 1).await;
        assert_eq!(missing.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}
