//! Exports, their clients, quality of service, and what was asked for over time.

use holdfast_api::{Connection, Export, History, Qos, word};
use holdfast_model::Health;

use super::{Shown, facts, size, some, table};

/// The limits of an object for people.
pub(super) fn qos_text(qos: &Qos) -> String {
    let ios = |what: &str, value: Option<u64>| value.map(|value| format!("{what} {value} IOPS"));
    let bytes = |what: &str, value: Option<u64>| value.map(|value| format!("{what} {}/s", size(value)));
    let parts = [
        ios("max", qos.max_iops),
        qos.burst_iops.map(|burst| format!("burst {burst} I/Os")),
        bytes("max", qos.max_bytes_per_second),
        qos.burst_bytes_per_second.map(|burst| format!("burst {}", size(burst))),
        ios("min", qos.min_iops),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "-".into() } else { parts.join(", ") }
}

/// What an export does for its clients now.
fn state(export: &Export) -> &'static str {
    match (export.served, export.health) {
        (false, _) => "waiting",
        (true, Health::Unhealthy) => "reads fail",
        (true, _) => "served",
    }
}

impl Shown for Vec<Export> {
    fn text(&self) -> String {
        let rows = self.iter().map(|export| {
            vec![
                export.name.clone(),
                export.space.clone(),
                word(&export.protocol),
                if export.read_only { "read-only".into() } else { "read-write".into() },
                state(export).into(),
                export.size_bytes.map_or_else(|| "-".into(), size),
                export.connections.to_string(),
                qos_text(&export.qos),
                export.uris.join(" "),
            ]
        });
        table(&["EXPORT", "SPACE", "PROTOCOL", "ACCESS", "STATE", "SIZE", "CLIENTS", "LIMITS", "URI"], rows)
    }
}

impl Shown for Vec<Connection> {
    fn text(&self) -> String {
        let rows = self.iter().map(|client| {
            vec![
                client.client.clone(),
                if client.tls { "TLS".into() } else { "plain".into() },
                client.since.clone(),
                format!("{}, {}", client.reads, size(client.read_bytes)),
                format!("{}, {}", client.writes, size(client.written_bytes)),
                client.in_flight.to_string(),
            ]
        });
        table(&["CLIENT", "ENCRYPTION", "SINCE", "READS", "WRITES", "IN FLIGHT"], rows)
    }
}

impl Shown for History {
    fn text(&self) -> String {
        let rate = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
        let bytes = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| size(value as u64));
        let rows = (0..self.reads.len()).map(|at| {
            let ago = (self.reads.len() - at) as u64 * self.step_seconds;
            vec![
                format!("-{ago} s"),
                rate(self.reads[at]),
                bytes(self.read_bytes[at]),
                some(&self.read_p50_us[at]),
                some(&self.read_p99_us[at]),
                rate(self.writes[at]),
                bytes(self.written_bytes[at]),
                some(&self.write_p50_us[at]),
                some(&self.write_p99_us[at]),
            ]
        });
        let header = ["FROM", "READS/S", "READ/S", "P50 US", "P99 US", "WRITES/S", "WRITTEN/S", "P50 US", "P99 US"];
        format!("{}\n\n{}", facts(&[("step", format!("{} s", self.step_seconds))]), table(&header, rows))
    }
}
