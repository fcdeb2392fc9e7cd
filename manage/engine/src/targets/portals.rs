//! The addresses by which a target is reached, and what initiators find there.
//!
//! Invariant: a portal group is one port to SCSI, so its portals are in one state.

use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_api::{AddPortal, ApiError, PortalState, SetPortal, TargetChanged, word};
use holdfast_scsi::{AccessState, Port};

use super::known::{KnownPortal, KnownTarget};
use super::names::portal_address;
use super::target_object;
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, exists_with, not_found};

/// Portals of a target at most.
const MOST_PORTALS: usize = 32;

fn access_state(state: PortalState) -> AccessState {
    match state {
        PortalState::Active => AccessState::ActiveOptimized,
        PortalState::NonOptimized => AccessState::ActiveNonOptimized,
        PortalState::Standby => AccessState::Standby,
        PortalState::Unavailable => AccessState::Unavailable,
    }
}

/// The ports of a target as SCSI knows them: one for each portal group.
pub(super) fn ports(target: &KnownTarget) -> Vec<Port> {
    let port = |group: u16| Port {
        relative_id: group,
        group,
        name: format!("{},t,0x{group:04x}", target.iqn),
        state: access_state(target.state_of(group)),
    };
    target.groups().into_iter().map(port).collect()
}

/// Whether a server that listens at `listening` is reached by `address`.
pub(super) fn is_reached(address: SocketAddr, listening: &[SocketAddr]) -> bool {
    let reaches = |at: &SocketAddr| {
        let (own, ip) = (at.ip().to_canonical(), address.ip().to_canonical());
        at.port() == address.port() && (own == ip || (own.is_unspecified() && (own.is_ipv6() || ip.is_ipv4())))
    };
    listening.iter().any(reaches)
}

fn checked_group(object: &str, group: Option<u16>) -> ApiResult<Option<u16>> {
    match group {
        Some(0) => Err(ApiError::invalid(object, "0 is no portal group", "choose 1 to 65535").at("group")),
        group => Ok(group),
    }
}

fn set_state(target: &mut KnownTarget, group: u16, state: Option<PortalState>) {
    match state {
        Some(PortalState::Active) => _ = target.states.remove(&group),
        Some(state) => _ = target.states.insert(group, state),
        None => {}
    }
}

/// Remembers no state of groups that are gone.
fn tidy(target: &mut KnownTarget) {
    let groups = target.groups();
    target.states.retain(|group, _| groups.contains(group));
    target.portals.sort();
}

impl Engine {
    /// The address of a portal as a request has it.
    async fn resolved(&self, object: &str, field: &'static str, text: &str) -> ApiResult<SocketAddr> {
        let (object, text) = (object.to_owned(), text.to_owned());
        self.blocking(move || portal_address(&object, field, &text)).await?
    }

    /// The portals that a target is made with.
    pub(super) async fn portals_of(&self, object: &str, texts: &[String]) -> ApiResult<Vec<KnownPortal>> {
        let mut portals: Vec<KnownPortal> = Vec::new();
        if texts.len() > MOST_PORTALS {
            let message = format!("{} portals are more than {MOST_PORTALS}", texts.len());
            return Err(ApiError::invalid(object, message, "name fewer").at("portals"));
        }
        for text in texts {
            let address = self.resolved(object, "portals", text).await?;
            portals.push(KnownPortal { address, group: 1 });
        }
        portals.sort();
        portals.dedup();
        Ok(portals)
    }

    /// Adds an address by which a target is reached.
    ///
    /// # Errors
    /// If the address or the group cannot be, or it is a portal of another group; nothing is changed then.
    pub async fn add_portal(self: &Arc<Self>, target: String, request: AddPortal) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move {
            let object = target_object(&target);
            engine.known_target(&target)?;
            let address = engine.resolved(&object, "address", &request.address).await?;
            let wanted = checked_group(&object, request.group)?;
            let changed = engine
                .alter_target(&target, |known| {
                    let there = known.portals.iter().find(|portal| portal.address == address).copied();
                    let group = there.map_or(wanted.unwrap_or(1), |portal| portal.group);
                    if let Some(wanted) = wanted.filter(|wanted| *wanted != group) {
                        return Err(exists_with(&format!("portal {address}"), "group", group, wanted).at("group"));
                    }
                    if there.is_none() {
                        if known.portals.len() >= MOST_PORTALS {
                            let message = format!("it has {MOST_PORTALS} portals, and may have no more");
                            return Err(conflict(&object, message, "remove one first"));
                        }
                        known.portals.push(KnownPortal { address, group });
                    }
                    set_state(known, group, request.state);
                    tidy(known);
                    Ok(())
                })
                .await?;
            if changed {
                engine.note(&engine.known_target(&target)?.object(), &format!("is reached by portal {address}"));
            }
            Ok(TargetChanged { changed, target: engine.target(&target)? })
        })
        .await
    }

    /// Changes an address by which a target is reached.
    ///
    /// # Errors
    /// If it is none of the target's, or the group cannot be; nothing is changed then.
    pub async fn set_portal(
        self: &Arc<Self>,
        target: String,
        address: String,
        request: SetPortal,
    ) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move {
            let object = target_object(&target);
            let before = engine.known_target(&target)?;
            let address = engine.resolved(&object, "address", &address).await?;
            let wanted = checked_group(&object, request.group)?;
            // Where no portals are set, all addresses are group 1.
            let everywhere = before.portals.is_empty() && wanted.is_none_or(|group| group == 1);
            let changed = engine
                .alter_target(&target, |known| {
                    let found = known.portals.iter_mut().find(|portal| portal.address == address);
                    let group = match found {
                        Some(portal) => {
                            portal.group = wanted.unwrap_or(portal.group);
                            portal.group
                        }
                        None if everywhere => 1,
                        None => {
                            let next = format!("'holdfast target portal add {} {address}' adds it", known.name);
                            return Err(not_found(format!("portal {address} of {object}"), next));
                        }
                    };
                    set_state(known, group, request.state);
                    tidy(known);
                    Ok(())
                })
                .await?;
            if changed {
                let known = engine.known_target(&target)?;
                let group =
                    known.portals.iter().find(|portal| portal.address == address).map_or(1, |portal| portal.group);
                let state = word(&known.state_of(group));
                engine.note(&known.object(), &format!("portal {address} is in group {group}, which is {state}"));
            }
            Ok(TargetChanged { changed, target: engine.target(&target)? })
        })
        .await
    }

    /// Removes an address by which a target is reached. Sessions over it end.
    ///
    /// # Errors
    /// If it is the last one: the target would be reached by all then.
    pub async fn remove_portal(self: &Arc<Self>, target: String, address: String) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move {
            let object = target_object(&target);
            engine.known_target(&target)?;
            let address = engine.resolved(&object, "address", &address).await?;
            let changed = engine
                .alter_target(&target, |known| {
                    let before = known.portals.len();
                    known.portals.retain(|portal| portal.address != address);
                    if before > 0 && known.portals.is_empty() {
                        let message =
                            format!("{address} is its last portal; without one it would be reached by all addresses");
                        let next = "add another one first, or destroy the target";
                        return Err(conflict(&object, message, next));
                    }
                    tidy(known);
                    Ok(())
                })
                .await?;
            if changed {
                engine.note(
                    &engine.known_target(&target)?.object(),
                    &format!("is no longer reached by portal {address}"),
                );
            }
            Ok(TargetChanged { changed, target: engine.target(&target)? })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_by_each() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (address, listening, reached) in [
            ("192.0.2.7:3260", "0.0.0.0:3260", true),
            ("192.0.2.7:3260", "[::]:3260", true),
            ("[fd00::1]:3260", "0.0.0.0:3260", false),
            ("192.0.2.7:3261", "0.0.0.0:3260", false),
            ("192.0.2.7:3260", "192.0.2.7:3260", true),
            ("192.0.2.7:3260", "192.0.2.8:3260", false),
        ] {
            assert_eq!(is_reached(at(address), &[at(listening)]), reached, "{address} {listening}");
        }
    }

    #[test]
    fn each_group_is_one_port_in_one_state() {
        let mut target = KnownTarget::new("vm", "iqn.2026-11.org.holdfast:vm".into());
        assert_eq!(ports(&target).len(), 1);
        target.portals = ["192.0.2.7:1", "192.0.2.8:1", "192.0.2.9:1"]
            .map(|address| KnownPortal {
                address: address.parse().unwrap(),
                group: if address.contains(".9:") { 0x1f } else { 2 },
            })
            .to_vec();
        set_state(&mut target, 0x1f, Some(PortalState::Standby));
        set_state(&mut target, 7, Some(PortalState::Standby));
        tidy(&mut target);
        let ports = ports(&target);
        assert_eq!(ports.len(), 2);
        assert_eq!((ports[1].relative_id, ports[1].state), (0x1f, AccessState::Standby));
        assert_eq!((ports[1].name.as_str(), target.states.len()), ("iqn.2026-11.org.holdfast:vm,t,0x001f", 1));
    }
}
