//! Health of everything, and what the daemon says of itself.

use holdfast_api::{Condition, Daemon, ObjectHealth, Status};
use holdfast_model::Health;

use crate::engine::Engine;

/// Memory that this process holds, in bytes: its own and its program's. Disks that are files in memory are mapped, and not counted.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own = status.lines().filter_map(|line| line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("RssFile:")));
    own.filter_map(|size| size.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).sum::<u64>() << 10
}

impl Engine {
    /// The health of every pool, disk of a pool, space and export, of the state folder where it is not well, and the daemon itself.
    pub fn status(&self) -> Status {
        let mut objects: Vec<ObjectHealth> = Vec::new();
        for pool in self.pools() {
            objects.push(ObjectHealth {
                object: format!("pool {}", pool.name),
                health: pool.health,
                conditions: pool.conditions,
            });
        }
        let open: Vec<_> = self.live().pools.values().cloned().collect();
        for open in open {
            for disk in open.disk_statuses() {
                objects.push(ObjectHealth {
                    object: format!("disk {}", disk.record.label()),
                    health: disk.health,
                    conditions: disk.conditions.into_iter().map(Condition::from).collect(),
                });
            }
        }
        for space in self.spaces() {
            objects.push(ObjectHealth {
                object: format!("space {}", space.name),
                health: space.health,
                conditions: space.conditions,
            });
        }
        for export in self.exports() {
            let waiting = (!export.served).then(|| Condition {
                cause: format!("export {} is not served: space {} is not open", export.name, export.space),
                next_action: "see the health of its pool".into(),
            });
            let health = if waiting.is_some() { Health::Unhealthy } else { Health::Healthy };
            objects.push(ObjectHealth {
                object: format!("export {}", export.name),
                health,
                conditions: waiting.into_iter().collect(),
            });
        }
        objects.extend(self.store().trouble().map(|trouble| ObjectHealth {
            object: "state folder".into(),
            health: Health::Unhealthy,
            conditions: vec![Condition {
                cause: format!("changes cannot be kept: {trouble}"),
                next_action: format!("look at the room and the rights in {}", self.state_dir.path().display()),
            }],
        }));
        Status {
            health: objects.iter().map(|object| object.health).max().unwrap_or_default(),
            objects,
            daemon: Daemon {
                version: env!("CARGO_PKG_VERSION").into(),
                pid: std::process::id(),
                started: self.started.clone(),
                state_dir: self.state_dir.path().display().to_string(),
                reactors: self.reactors.len() as u32,
                nbd_addresses: self.uris(""),
                resident_bytes: resident_bytes(),
            },
        }
    }
}
