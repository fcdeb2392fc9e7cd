//! What the daemon counts, as its `/metrics` shows it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// One reading of all metrics.
pub struct Metrics(String);

impl Metrics {
    /// Reads them from the management socket of a daemon.
    ///
    /// # Panics
    /// If it does not answer as it should.
    #[track_caller]
    pub fn read(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).expect("the daemon can be reached");
        // The older protocol ends the answer with the connection.
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: holdfast\r\n\r\n").expect("the daemon can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the daemon answers with text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(head.lines().next().is_some_and(|line| line.contains(" 200 ")), "no metrics: {head}");
        Self(body.to_owned())
    }

    /// The sum of `name` over all objects of which the labels hold `label`.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let wanted = |line: &&str| {
            line.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')).is_some_and(|labels| labels.contains(label))
        };
        let values: Vec<f64> =
            self.0.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        assert!(!values.is_empty(), "no {name} with {label} in\n{}", self.0);
        values.iter().sum()
    }

    /// Whether there is a value of `name`.
    pub fn has(&self, name: &str) -> bool {
        self.0.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
    }

    /// Bytes that were written to all disks.
    pub fn written_to_disks(&self) -> f64 {
        self.sum("holdfast_disk_bytes_total", "operation=\"write\"")
    }

    /// Bytes that clients of all exports wrote.
    pub fn written_by_clients(&self) -> f64 {
        self.sum("holdfast_export_bytes_total", "operation=\"write\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_name_and_label_are_summed() {
        let text = "# HELP a x\na{disk=\"1\",operation=\"write\"} 3\na{disk=\"1\",operation=\"read\"} 5\n\
                    a{disk=\"2\",operation=\"write\"} 4\nab{operation=\"write\"} 100\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("a", "operation=\"write\""), 7.0);
        assert_eq!(metrics.sum("ab", "write"), 100.0);
    }
}
