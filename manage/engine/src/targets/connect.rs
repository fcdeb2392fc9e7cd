//! How initiators of the usual systems connect to a target, as commands to be copied.
//!
//! Invariant: no secret stands in a command, and nothing that is put into one can end its quotes.

use std::net::SocketAddr;

use holdfast_api::{ConnectCommands, InitiatorSystem};

/// What the commands are about.
pub(super) struct Way<'a> {
    /// The target.
    pub(super) iqn: &'a str,
    /// Where it is found, one at least.
    pub(super) addresses: &'a [SocketAddr],
    /// A user with whose secret an initiator logs in.
    pub(super) chap_user: Option<&'a str>,
    /// The user with whose secret the target proves who it is.
    pub(super) mutual_user: Option<&'a str>,
    /// Whether asking for targets needs an account as well.
    pub(super) discovery: Option<&'a str>,
}

/// In single quotes for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// In single quotes for PowerShell.
fn power_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The commands for all systems.
pub(super) fn commands(way: &Way<'_>) -> Vec<ConnectCommands> {
    [(InitiatorSystem::Linux, linux(way)), (InitiatorSystem::Windows, windows(way)), (InitiatorSystem::Esxi, esxi(way))]
        .map(|(system, commands)| ConnectCommands { system, commands })
        .into()
}

fn linux(way: &Way<'_>) -> Vec<String> {
    let mut lines = vec!["# The initiator's name, to be allowed here: /etc/iscsi/initiatorname.iscsi".to_owned()];
    let admin = |portal: &SocketAddr, option: &str, value: &str| {
        format!("iscsiadm -m node -T {} -p {portal} --op update -n {option} -v {value}", way.iqn)
    };
    for portal in way.addresses {
        match way.discovery {
            None => lines.push(format!("iscsiadm -m discovery -t sendtargets -p {portal}")),
            Some(user) => {
                let admin = |option: &str, value: &str| {
                    format!(
                        "iscsiadm -m discoverydb -t sendtargets -p {portal} --op update -n discovery.sendtargets.auth.{option} -v {value}"
                    )
                };
                lines.push(format!("iscsiadm -m discoverydb -t sendtargets -p {portal} --op new"));
                lines.push(admin("authmethod", "CHAP"));
                lines.push(admin("username", &quoted(user)));
                lines.push(admin("password", "SECRET"));
                lines.push(format!("iscsiadm -m discoverydb -t sendtargets -p {portal} --discover"));
            }
        }
        if let Some(user) = way.chap_user {
            lines.push(admin(portal, "node.session.auth.authmethod", "CHAP"));
            lines.push(admin(portal, "node.session.auth.username", &quoted(user)));
            lines.push(admin(portal, "node.session.auth.password", "SECRET"));
            if let Some(user) = way.mutual_user {
                lines.push(admin(portal, "node.session.auth.username_in", &quoted(user)));
                lines.push(admin(portal, "node.session.auth.password_in", "SECRET_OF_THE_TARGET"));
            }
        }
        lines.push(format!("iscsiadm -m node -T {} -p {portal} --login", way.iqn));
    }
    if way.addresses.len() > 1 {
        lines.push("# Several portals are paths to the same disks: install multipath-tools, then".into());
        lines.push("mpathconf --enable --with_multipathd y || systemctl enable --now multipathd".into());
    }
    lines
}

fn windows(way: &Way<'_>) -> Vec<String> {
    let mut lines = vec![
        "# In PowerShell, as an administrator. The initiator's name, to be allowed here: (Get-InitiatorPort).NodeAddress"
            .to_owned(),
        "Start-Service MSiSCSI; Set-Service MSiSCSI -StartupType Automatic".into(),
    ];
    if let Some(user) = way.mutual_user {
        lines.push(format!("# The secret with which the target proves who it is ({}):", user.escape_debug()));
        lines.push("Set-IscsiChapSecret -ChapSecret 'SECRET_OF_THE_TARGET'".into());
    }
    let several = way.addresses.len() > 1;
    if several {
        lines.push("# Several portals are paths to the same disks".into());
        lines.push("Install-WindowsFeature Multipath-IO; Enable-MSDSMAutomaticClaim -BusType iSCSI".into());
    }
    let kind = if way.mutual_user.is_some() { "MUTUALCHAP" } else { "ONEWAYCHAP" };
    for portal in way.addresses {
        let place = format!("-TargetPortalAddress {} -TargetPortalPortNumber {}", portal.ip(), portal.port());
        let account = |user: &str| {
            format!(" -AuthenticationType {kind} -ChapUsername {} -ChapSecret 'SECRET'", power_quoted(user))
        };
        lines.push(format!("New-IscsiTargetPortal {place}{}", way.discovery.map(account).unwrap_or_default()));
        let multipath = if several { " -IsMultipathEnabled $true" } else { "" };
        let chap = way.chap_user.map(account).unwrap_or_default();
        lines.push(format!(
            "Connect-IscsiTarget -NodeAddress {} {place} -IsPersistent $true{multipath}{chap}",
            power_quoted(way.iqn)
        ));
    }
    lines
}

fn esxi(way: &Way<'_>) -> Vec<String> {
    let mut lines = vec![
        "esxcli iscsi software set --enabled=true".to_owned(),
        "# The adapter, here vmhba64, and its name, to be allowed here:".into(),
        "esxcli iscsi adapter list; esxcli iscsi adapter get -A vmhba64".into(),
    ];
    if let Some(user) = way.discovery {
        lines.push(format!(
            "esxcli iscsi adapter auth chap set -A vmhba64 --direction=uni --level=required --authname={} --secret=SECRET",
            quoted(user)
        ));
    }
    for portal in way.addresses {
        lines.push(format!("esxcli iscsi adapter discovery sendtarget add -A vmhba64 --address={portal}"));
    }
    lines.push("esxcli iscsi adapter discovery rediscover -A vmhba64".into());
    for portal in way.addresses {
        let set = |direction: &str, user: &str, secret: &str| {
            format!(
                "esxcli iscsi adapter target portal auth chap set -A vmhba64 --name={} --address={portal} --direction={direction} \
                 --level=required --authname={} --secret={secret}",
                way.iqn,
                quoted(user)
            )
        };
        if let Some(user) = way.chap_user {
            lines.push(set("uni", user, "SECRET"));
            lines.extend(way.mutual_user.map(|user| set("mutual", user, "SECRET_OF_THE_TARGET")));
        }
    }
    lines.push("esxcli storage core adapter rescan -A vmhba64".into());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(way: &Way<'_>, system: InitiatorSystem) -> String {
        commands(way).into_iter().find(|one| one.system == system).unwrap().commands.join("\n")
    }

    #[test]
    fn every_system_has_the_target_all_portals_and_the_steps_of_chap() {
        let addresses = ["192.0.2.7:3260".parse().unwrap(), "[fd00::1]:3261".parse().unwrap()];
        let iqn = "iqn.2026-11.org.holdfast:vm";
        let plain = Way { iqn, addresses: &addresses, chap_user: None, mutual_user: None, discovery: None };
        let chap = Way { chap_user: Some("it's"), mutual_user: Some("me"), ..plain };
        for system in [InitiatorSystem::Linux, InitiatorSystem::Windows, InitiatorSystem::Esxi] {
            let (open, closed) = (text(&plain, system), text(&chap, system));
            assert!(open.contains("192.0.2.7") && open.contains("fd00::1") && open.contains("3261"), "{open}");
            assert!(!open.contains("SECRET") && closed.contains("SECRET_OF_THE_TARGET"), "{closed}");
            assert!(system == InitiatorSystem::Esxi || open.contains(iqn), "{open}");
        }
        assert!(text(&chap, InitiatorSystem::Linux).contains(r"-v 'it'\''s'"));
        assert!(text(&chap, InitiatorSystem::Windows).contains("-ChapUsername 'it''s' "));
        let asked = Way { discovery: Some("who"), ..plain };
        assert!(text(&asked, InitiatorSystem::Linux).contains("discovery.sendtargets.auth.username -v 'who'"));
    }
}
