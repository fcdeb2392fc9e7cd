//! Targets, LUNs, sessions and reservations.

use holdfast_api::{InitiatorSystem, IscsiDiscovery, IscsiSession, Lun, LunAlert, Reservation, Target, word};
use holdfast_model::Health;

use super::exports::qos_text;
use super::{Shown, facts, grouped, harmless, or_dash, size, table};

fn access(read_only: bool) -> String {
    if read_only { "read-only".into() } else { "read-write".into() }
}

/// What a LUN does for its initiators now.
fn state(lun: &Lun) -> &'static str {
    match (lun.served, lun.health) {
        (false, _) => "unavailable",
        (true, Health::Unhealthy) => "fails",
        (true, _) if lun.reserved => "reserved",
        (true, _) => "served",
    }
}

/// When initiators are warned that it runs out of room.
fn warns(alert: Option<LunAlert>) -> String {
    let Some(alert) = alert else { return "-".into() };
    let now = if alert.reached { ", now" } else { "" };
    match alert.percent {
        0 => "never".into(),
        percent => format!("at {percent} %{now}"),
    }
}

/// Who may log in, in a word or two.
fn who(target: &Target) -> String {
    match (target.open, target.initiators.len()) {
        (true, _) => "anybody".into(),
        (false, 0) => "nobody".into(),
        (false, 1) => "1 initiator".into(),
        (false, count) => format!("{count} initiators"),
    }
}

impl Shown for Vec<Target> {
    fn text(&self) -> String {
        let rows = self.iter().map(|target| {
            vec![
                target.name.clone(),
                target.iqn.clone(),
                target.luns.len().to_string(),
                who(target),
                if target.served { "served".into() } else { "not served".into() },
                word(&target.health),
                target.sessions.to_string(),
                or_dash(&target.portals.iter().map(|portal| portal.address.as_str()).collect::<Vec<_>>().join(" ")),
            ]
        });
        table(&["TARGET", "ISCSI NAME", "LUNS", "LETS IN", "STATE", "HEALTH", "SESSIONS", "PORTALS"], rows)
    }
}

fn luns(luns: &[Lun]) -> String {
    let rows = luns.iter().map(|lun| {
        vec![
            lun.lun.to_string(),
            lun.backing.clone(),
            lun.size_bytes.map_or_else(|| "-".into(), size),
            word(&lun.blocks),
            access(lun.read_only),
            state(lun).into(),
            warns(lun.alert),
            lun.id.to_string(),
            qos_text(&lun.qos),
        ]
    });
    table(&["LUN", "BACKING", "SIZE", "BLOCKS", "ACCESS", "STATE", "WARNS", "ID", "LIMITS"], rows)
}

impl Shown for Target {
    fn text(&self) -> String {
        let mut parts = vec![facts(&[
            ("target", self.name.clone()),
            ("iSCSI name", self.iqn.clone()),
            ("id", self.id.to_string()),
            ("health", word(&self.health)),
            ("lets in", who(self)),
            ("proves itself as", or_dash(self.mutual_user.as_deref().unwrap_or_default())),
            ("sessions", self.sessions.to_string()),
        ])];
        let portals = self.portals.iter().map(|portal| {
            vec![
                portal.address.clone(),
                portal.group.to_string(),
                word(&portal.state),
                if portal.listening { "yes".into() } else { "no".into() },
            ]
        });
        parts.push(table(&["PORTAL", "GROUP", "STATE", "LISTENING"], portals));
        if !self.luns.is_empty() {
            parts.push(luns(&self.luns));
        }
        if !self.initiators.is_empty() {
            let rows = self.initiators.iter().map(|initiator| {
                let user = initiator.chap_user.as_deref().unwrap_or_default();
                vec![initiator.iqn.clone(), or_dash(user), initiator.sessions.to_string()]
            });
            parts.push(table(&["INITIATOR", "CHAP USER", "SESSIONS"], rows));
        }
        let told = grouped(self.conditions.iter());
        if !told.is_empty() {
            parts.push(told.join("\n"));
        }
        for way in &self.connect {
            let system = match way.system {
                InitiatorSystem::Linux => "Linux",
                InitiatorSystem::Windows => "Windows",
                InitiatorSystem::Esxi => "ESXi",
            };
            let lines = way.commands.iter().map(|line| format!("    {}", harmless(line)));
            parts.push(format!("connect from {system}:\n{}", lines.collect::<Vec<_>>().join("\n")));
        }
        parts.join("\n\n")
    }
}

impl Shown for Lun {
    fn text(&self) -> String {
        let text = facts(&[
            ("LUN", self.name.clone()),
            ("backing", self.backing.clone()),
            ("id", self.id.to_string()),
            ("size", self.size_bytes.map_or_else(|| "-".into(), size)),
            ("blocks", word(&self.blocks)),
            ("access", access(self.read_only)),
            ("room", if self.full { "all given".into() } else { "as its space or volume has it".into() }),
            ("state", state(self).into()),
            ("health", word(&self.health)),
            ("limits", qos_text(&self.qos)),
            (
                "warns",
                warns(self.alert) + if self.alert.is_some_and(|alert| alert.default) { " (default)" } else { "" },
            ),
            ("reads", format!("{}, {}", self.counters.reads, size(self.counters.read_bytes))),
            ("writes", format!("{}, {}", self.counters.writes, size(self.counters.written_bytes))),
        ]);
        let told = grouped(self.conditions.iter());
        if told.is_empty() { text } else { format!("{text}\n\n{}", told.join("\n")) }
    }
}

impl Shown for Vec<IscsiSession> {
    fn text(&self) -> String {
        let rows = self.iter().map(|session| {
            let digests: Vec<&str> = [(session.header_digest, "header"), (session.data_digest, "data")]
                .into_iter()
                .filter_map(|(is_on, name)| is_on.then_some(name))
                .collect();
            vec![
                session.id.to_string(),
                session.target.clone().unwrap_or_else(|| "(discovery)".into()),
                session.initiator.clone(),
                session.client.clone(),
                format!("{}, group {}", session.portal, session.group),
                session.since.clone(),
                or_dash(session.chap_user.as_deref().unwrap_or_default()),
                or_dash(&digests.join(", ")),
                format!("{}, {}", session.reads, size(session.read_bytes)),
                format!("{}, {}", session.writes, size(session.written_bytes)),
                session.in_flight.to_string(),
            ]
        });
        let header = [
            "ID",
            "TARGET",
            "INITIATOR",
            "FROM",
            "PORTAL",
            "SINCE",
            "CHAP USER",
            "DIGESTS",
            "READS",
            "WRITES",
            "IN FLIGHT",
        ];
        table(&header, rows)
    }
}

impl Shown for IscsiDiscovery {
    fn text(&self) -> String {
        let user = self.chap_user.as_deref().map(|user| format!("initiators that prove who they are as {user}"));
        facts(&[("targets are shown to", user.unwrap_or_else(|| "any initiator that may log in to them".into()))])
    }
}

impl Shown for Vec<Reservation> {
    fn text(&self) -> String {
        let mut rows = Vec::new();
        for one in self {
            let kind = match (&one.kind, &one.reserved_by, &one.unreadable) {
                (_, _, Some(_)) => "(unreadable)".to_owned(),
                (Some(kind), _, _) => kind.clone(),
                (None, Some(_), _) => "reserve-release".into(),
                (None, None, _) => "-".into(),
            };
            let row = |initiator: &str, key: &str, holder: bool| {
                vec![
                    one.lun.clone(),
                    kind.clone(),
                    if one.persists { "yes".into() } else { "no".into() },
                    one.generation.to_string(),
                    or_dash(initiator),
                    or_dash(key),
                    if holder { "holder".into() } else { "-".into() },
                ]
            };
            rows.extend(one.registrants.iter().map(|each| row(&each.initiator, &each.key, each.holder)));
            rows.extend(one.reserved_by.iter().map(|initiator| row(initiator, "", true)));
            if one.registrants.is_empty() && one.reserved_by.is_none() {
                rows.push(row("", "", false));
            }
        }
        table(&["LUN", "RESERVATION", "PERSISTS", "GENERATION", "INITIATOR", "KEY", "HOLDER"], rows)
    }
}
