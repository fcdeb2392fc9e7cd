//! Health of everything, and what the daemon says of itself.

use holdfast_api::{Condition, Daemon, ObjectHealth, Protocol, Status};
use holdfast_model::{Health, ObjectKind, ObjectRef};

use crate::engine::Engine;
use crate::exports::export_object;

/// Memory that this process holds, in bytes: its own and its program's.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    size.and_then(|size| size.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The state folder, as events and health name it.
pub(crate) fn state_folder() -> ObjectRef {
    ObjectRef::server("state folder")
}

impl Engine {
    /// What is wrong, the health of every pool, disk of a pool, space, volume, export, target and LUN, of the state folder and of
    /// channels where they are not well, and the daemon itself.
    pub fn status(&self) -> Status {
        let (pools, spaces, exports) = (self.pools(), self.spaces(), self.exports());
        let volumes = self.volumes_on(&spaces);
        let targets = self.targets();
        let causes = self.causes(&pools, &spaces, &volumes, &exports, &targets);
        let mut objects: Vec<ObjectHealth> = Vec::new();
        for pool in pools {
            objects.push(ObjectHealth {
                object: ObjectRef::pool(pool.id, pool.name),
                health: pool.health,
                conditions: pool.conditions,
            });
        }
        let open: Vec<_> = self.live().pools.values().cloned().collect();
        for open in open {
            for disk in self.member_views(&open) {
                let object = disk.id.map(|id| open.disk_object(id));
                let object = object.unwrap_or_else(|| ObjectRef::named(ObjectKind::Disk, disk.path));
                objects.push(ObjectHealth { object, health: disk.health, conditions: disk.conditions });
            }
        }
        for space in spaces {
            objects.push(ObjectHealth {
                object: ObjectRef::space(space.id, space.name),
                health: space.health,
                conditions: space.conditions,
            });
        }
        for volume in volumes {
            objects.push(ObjectHealth {
                object: ObjectRef::new(ObjectKind::Volume, volume.id.to_string(), volume.name),
                health: volume.health,
                conditions: volume.conditions,
            });
        }
        for export in exports {
            objects.push(ObjectHealth {
                object: export_object(&export.name),
                health: export.health,
                conditions: export.conditions,
            });
        }
        let (all_targets, sessions) = (targets.len() as u64, self.front_ends.iscsi.sessions(None).len() as u64);
        for target in targets {
            let named = |lun: &holdfast_api::Lun| ObjectRef::new(ObjectKind::Lun, lun.id.to_string(), &lun.name);
            let luns: Vec<ObjectHealth> = target
                .luns
                .into_iter()
                .map(|lun| ObjectHealth { object: named(&lun), health: lun.health, conditions: lun.conditions })
                .collect();
            objects.push(ObjectHealth {
                object: ObjectRef::new(ObjectKind::Target, target.id.to_string(), target.name),
                health: target.health,
                conditions: target.conditions,
            });
            objects.extend(luns);
        }
        objects.extend(self.store().trouble().map(|trouble| ObjectHealth {
            object: state_folder(),
            health: Health::Unhealthy,
            conditions: vec![self.unwritable(&trouble)],
        }));
        objects.extend(self.notifications.troubles());
        Status {
            health: objects.iter().map(|object| object.health).max().unwrap_or_default(),
            causes,
            objects,
            daemon: Daemon {
                host_name: self.host_name(),
                version: env!("CARGO_PKG_VERSION").into(),
                pid: std::process::id(),
                started: self.started.clone(),
                state_dir: self.state_dir.path().display().to_string(),
                reactors: self.reactors.len() as u32,
                nbd_addresses: self.front_ends.of(Protocol::Nbd).uris(""),
                iscsi_addresses: self.front_ends.iscsi.addresses().iter().map(ToString::to_string).collect(),
                targets: all_targets,
                iscsi_sessions: sessions,
                resident_bytes: resident_bytes(),
            },
        }
    }

    /// That changes of the configuration cannot be kept.
    pub(crate) fn unwritable(&self, trouble: &str) -> Condition {
        let next = format!("check the free room and permissions of {}", self.state_dir.path().display());
        Condition::new(format!("changes cannot be saved: {trouble}"), next)
    }
}
