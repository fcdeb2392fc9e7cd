//! Portals: the addresses of a target and the groups that they are in.
//!
//! Invariant: a session belongs to the group of the address that its connection came in at, so each group is one SCSI
//! port.

use std::net::SocketAddr;

use crate::error::IscsiError;

/// The group of all addresses of a target without portals.
const EVERYWHERE: u16 = 1;

/// Where a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portal {
    /// The address; an unspecified one stands for all addresses of this machine.
    pub address: SocketAddr,
    /// The target portal group tag, which is also the group of ALUA.
    pub group: u16,
}

/// Whether portals make sense together.
pub(super) fn check(portals: &[Portal]) -> Result<(), IscsiError> {
    for (at, portal) in portals.iter().enumerate() {
        if portal.group == 0 || portals[..at].iter().any(|other| other.address == portal.address) {
            return Err(IscsiError::Portal(portal.address.to_string()));
        }
    }
    Ok(())
}

/// An address as portals have it: IPv4 as IPv4, also where it came in at a socket of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn matches(portal: &Portal, local: SocketAddr) -> bool {
    let (address, local) = (canonical(portal.address), canonical(local));
    let ip = address.ip();
    // An unspecified IPv6 address takes both families, as its socket does.
    let any = ip.is_unspecified() && (ip.is_ipv6() || local.is_ipv4());
    address.port() == local.port() && (any || ip == local.ip())
}

/// The group of the portal that a connection came in at, if it is one of these.
pub(super) fn group_of(portals: &[Portal], local: Option<SocketAddr>) -> Option<u16> {
    if portals.is_empty() {
        return Some(EVERYWHERE);
    }
    let local = local?;
    // An exact address goes before one that stands for all.
    let exact = portals.iter().find(|portal| canonical(portal.address) == canonical(local));
    exact.or_else(|| portals.iter().find(|portal| matches(portal, local))).map(|portal| portal.group)
}

/// The addresses that an initiator is told, with their groups. For an address that stands for all it is told the one that
/// it came in at.
pub(super) fn addresses(portals: &[Portal], local: Option<SocketAddr>) -> Vec<(SocketAddr, u16)> {
    let Some(local) = local.map(canonical) else {
        let known = portals.iter().filter(|portal| !portal.address.ip().is_unspecified());
        return known.map(|portal| (canonical(portal.address), portal.group)).collect();
    };
    if portals.is_empty() {
        return vec![(local, EVERYWHERE)];
    }
    let mut told: Vec<(SocketAddr, u16)> = Vec::with_capacity(portals.len());
    for portal in portals {
        let address = canonical(portal.address);
        let address = match address.ip() {
            ip if !ip.is_unspecified() => address,
            ip if ip.is_ipv6() || local.is_ipv4() => SocketAddr::new(local.ip(), address.port()),
            _ => continue,
        };
        if !told.iter().any(|(other, _)| *other == address) {
            told.push((address, portal.group));
        }
    }
    told
}

/// An address as `TargetAddress` has it.
pub(crate) fn portal_address(address: SocketAddr, group: u16) -> String {
    // Socket addresses show IPv6 in brackets, as the protocol wants it.
    match address {
        SocketAddr::V6(address) => format!("[{}]:{},{group}", address.ip(), address.port()),
        address => format!("{address},{group}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portal(address: &str, group: u16) -> Portal {
        Portal { address: address.parse().unwrap(), group }
    }

    fn at(address: &str) -> Option<SocketAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn a_connection_belongs_to_the_group_of_its_address() {
        let portals = [portal("0.0.0.0:3260", 1), portal("10.0.0.1:3260", 2), portal("[2001:db8::1]:3260", 3)];
        assert_eq!(group_of(&portals, at("10.0.0.2:3260")), Some(1));
        assert_eq!(group_of(&portals, at("[::ffff:10.0.0.1]:3260")), Some(2));
        assert_eq!(group_of(&portals, at("[2001:db8::1]:3260")), Some(3));
        assert_eq!(group_of(&portals, at("[2001:db8::2]:3260")), None);
        assert_eq!(group_of(&portals, at("10.0.0.1:3261")), None);
        assert_eq!((group_of(&portals, None), group_of(&[], None)), (None, Some(1)));
        assert_eq!(group_of(&[portal("[::]:3260", 4)], at("10.0.0.1:3260")), Some(4));
    }

    #[test]
    fn an_address_for_all_is_told_as_the_one_that_was_asked() {
        let portals = [portal("0.0.0.0:3260", 1), portal("10.0.0.1:3260", 2), portal("[2001:db8::1]:3260", 3)];
        let told = |local| addresses(&portals, local).iter().map(|(a, g)| portal_address(*a, *g)).collect::<Vec<_>>();
        assert_eq!(told(at("10.0.0.9:3260")), ["10.0.0.9:3260,1", "10.0.0.1:3260,2", "[2001:db8::1]:3260,3"]);
        assert_eq!(told(at("[2001:db8::1]:3260")), ["10.0.0.1:3260,2", "[2001:db8::1]:3260,3"]);
        assert_eq!(addresses(&[], at("[::ffff:10.0.0.1]:3260")), [("10.0.0.1:3260".parse().unwrap(), 1)]);
    }

    #[test]
    fn portals_that_make_no_sense_are_refused() {
        assert!(check(&[portal("10.0.0.1:3260", 1), portal("10.0.0.2:3260", 1)]).is_ok());
        assert!(check(&[portal("10.0.0.1:3260", 0)]).is_err());
        assert!(check(&[portal("10.0.0.1:3260", 1), portal("10.0.0.1:3260", 2)]).is_err());
    }
}
