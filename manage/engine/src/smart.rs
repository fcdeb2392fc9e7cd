//! What disks tell of themselves: SMART, asked by `smartctl -j`.
//!
//! Invariant: the answer is taken for hostile: bounded in time and size, and of it only numbers and verdicts of known
//! places.

use std::io::ErrorKind;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use holdfast_api::DiskSmart;
use holdfast_model::{DiskState, Uuid};
use serde_json::Value;
use tokio::sync::watch;

use crate::engine::Engine;
use crate::tools;

const TIMEOUT: Duration = Duration::from_secs(30);
const MOST_BYTES: u64 = 256 << 10;
/// From so many sectors on that a disk could not read, or replaced, it is taken to be about to fail.
const MOST_PENDING: u64 = 16;
const MOST_REALLOCATED: u64 = 500;
/// Of the critical warnings of NVMe, those that are about more than temperature.
const CRITICAL: u64 = 0b1_1101;

/// The last answer of a disk, and how many it gave.
pub(crate) struct Answered {
    pub(crate) count: u64,
    pub(crate) smart: DiskSmart,
}

/// Asks all disks of pools in service again and again, until `stop` says so or the engine is gone.
pub(crate) async fn ask(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let Some(settings) =
        engine.upgrade().map(|engine| (engine.settings.health_interval, engine.settings.smart_interval))
    else {
        return;
    };
    let (mut pause, interval) = settings;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = interval;
        let Some(disks) = engine.upgrade().map(|engine| engine.disks_to_ask()) else { return };
        for (disk, path) in disks {
            let Some(program) = engine.upgrade().map(|engine| engine.settings.smartctl.clone()) else { return };
            let arguments = ["-j", "-H", "-A", &path];
            let asked = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                asked = tools::run(&program, &arguments, TIMEOUT, MOST_BYTES) => asked,
            };
            match asked.map(|printed| parse(&printed.output)) {
                Ok(Some(smart)) => {
                    let Some(engine) = engine.upgrade() else { return };
                    engine.note_smart(disk, smart);
                }
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => tracing::warn!("smartctl failed for disk {path}: {error}"),
            }
        }
    }
}

impl Engine {
    fn disks_to_ask(&self) -> Vec<(Uuid, String)> {
        let pools: Vec<_> = self.live().pools.values().cloned().collect();
        let disks = pools.iter().flat_map(|open| open.pool.disks()).map(|disk| disk.record);
        disks.filter(|record| record.state == DiskState::Online).map(|record| (record.id, record.path)).collect()
    }

    fn note_smart(&self, disk: Uuid, smart: DiskSmart) {
        let mut answers = self.smart.lock().unwrap_or_else(PoisonError::into_inner);
        let count = answers.get(&disk).map_or(0, |answered| answered.count) + 1;
        answers.insert(disk, Answered { count, smart });
    }
}

/// Reads what `smartctl -j -H -A` printed; `None` if it tells nothing of the disk's health.
pub(crate) fn parse(output: &[u8]) -> Option<DiskSmart> {
    let told: Value = serde_json::from_slice(output).ok()?;
    let number = |place: &str| told.pointer(place).and_then(Value::as_u64);
    let attributes =
        told.pointer("/ata_smart_attributes/table").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let attribute = |id: u64| attributes.iter().find(|attribute| attribute["id"].as_u64() == Some(id));
    let raw = |id: u64| attribute(id).and_then(|attribute| attribute["raw"]["value"].as_u64());
    let nvme = |field: &str| number(&format!("/nvme_smart_health_information_log/{field}"));
    let mut smart = DiskSmart {
        passed: told.pointer("/smart_status/passed").and_then(Value::as_bool),
        warnings: Vec::new(),
        temperature_celsius: told.pointer("/temperature/current").and_then(Value::as_i64),
        power_on_hours: number("/power_on_time/hours"),
        reallocated_sectors: raw(5).or_else(|| number("/scsi_grown_defect_list")),
        pending_sectors: raw(197),
        wear_percent: nvme("percentage_used").or_else(|| number("/scsi_percentage_used_endurance_indicator")),
    };
    if smart == DiskSmart::default() {
        return None;
    }
    let mut warn = |holds: bool, why: String| {
        if holds {
            smart.warnings.push(why);
        }
    };
    warn(smart.passed == Some(false), "its overall SMART verdict is that it is failing".into());
    let failing = attributes
        .iter()
        .filter(|attribute| attribute["when_failed"].as_str() == Some("now"))
        .filter_map(|it| it["id"].as_u64());
    failing.take(8).for_each(|id| warn(true, format!("its attribute {id} is below the threshold")));
    let critical = nvme("critical_warning").unwrap_or(0);
    warn(critical & CRITICAL != 0, format!("it reports the critical warning {critical:#x}"));
    if let (Some(spare), Some(threshold)) = (nvme("available_spare"), nvme("available_spare_threshold")) {
        warn(spare < threshold, format!("it has {spare} % spare blocks left"));
    }
    let (wear, pending, reallocated) = (smart.wear_percent, smart.pending_sectors, smart.reallocated_sectors);
    warn(wear.is_some_and(|wear| wear >= 100), "it has reached the end of its write endurance".into());
    warn(
        pending.is_some_and(|count| count >= MOST_PENDING),
        format!("{} sectors cannot be read", pending.unwrap_or(0)),
    );
    warn(
        reallocated.is_some_and(|count| count >= MOST_REALLOCATED),
        format!("{} sectors were reallocated", reallocated.unwrap_or(0)),
    );
    Some(smart)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(told: Value) -> Option<DiskSmart> {
        parse(told.to_string().as_bytes())
    }

    #[test]
    fn what_disks_tell_is_read() {
        let ata = |passed: bool, pending: u64, failed: &str| {
            read(json!({
                "smart_status": { "passed": passed }, "temperature": { "current": 31 }, "power_on_time": { "hours": 1200 },
                "ata_smart_attributes": { "table": [
                    { "id": 5, "raw": { "value": 3 }, "when_failed": "" },
                    { "id": 197, "raw": { "value": pending }, "when_failed": failed },
                ] },
            }))
            .expect("it tells something")
        };
        let well = ata(true, 0, "");
        assert_eq!((well.passed, well.temperature_celsius, well.power_on_hours), (Some(true), Some(31), Some(1200)));
        assert_eq!((well.reallocated_sectors, well.pending_sectors, well.warnings.len()), (Some(3), Some(0), 0));
        assert!(ata(false, 0, "").warnings[0].contains("verdict"));
        assert!(ata(true, 16, "").warnings[0].contains("16 sectors"));
        assert!(ata(true, 0, "now").warnings[0].contains("197"));
        let nvme = |critical: u64, spare: u64, used: u64| {
            let log = json!({ "critical_warning": critical, "available_spare": spare, "available_spare_threshold": 10, "percentage_used": used });
            read(json!({ "smart_status": { "passed": true }, "nvme_smart_health_information_log": log }))
                .expect("it tells something")
        };
        assert!(nvme(0, 100, 3).warnings.is_empty() && nvme(2, 100, 3).warnings.is_empty(), "heat alone is no end");
        assert_eq!([nvme(4, 100, 3), nvme(0, 9, 3), nvme(0, 100, 100)].map(|smart| smart.warnings.len()), [1, 1, 1]);
    }

    #[test]
    fn hostile_answers_tell_nothing() {
        let deep = "[".repeat(100_000);
        let odd = [
            "",
            "{}",
            "null",
            "[1, 2]",
            "{\"smart_status\": 7}",
            "{\"temperature\": {\"current\": 1e999}}",
            "\u{0}",
            &deep,
            "{\"ata_smart_attributes\": {\"table\": {\"id\": 5}}}",
            "{\"power_on_time\": {\"hours\": -1}}",
        ];
        for text in odd {
            assert_eq!(parse(text.as_bytes()), None, "{:.40}", text);
        }
        let many = json!({ "ata_smart_attributes": { "table": vec![json!({ "id": 5, "raw": { "value": 1 }, "when_failed": "now" }); 1000] } });
        assert_eq!(read(many).expect("it tells something").warnings.len(), 8);
    }
}
