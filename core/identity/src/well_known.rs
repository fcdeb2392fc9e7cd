//! Identifiers that mean the same on every machine, with their names and the two letters of SDDL ([MS-DTYP] 2.4.2.4,
//! 2.5.1.1).
//!
//! Invariant: a name or alias stands for one identifier, and the other way round.

use crate::sid::Sid;

/// Everybody.
pub const EVERYONE: Sid = Sid::known(1, &[0]);
/// In an inheritable entry: whoever creates the file.
pub const CREATOR_OWNER: Sid = Sid::known(3, &[0]);
/// In an inheritable entry: the primary group of whoever creates the file.
pub const CREATOR_GROUP: Sid = Sid::known(3, &[1]);
/// The owner as such: an entry for it stands in place of what an owner may do without one.
pub const OWNER_RIGHTS: Sid = Sid::known(3, &[4]);
/// Logged on by a dial-up line.
pub const DIALUP: Sid = Sid::known(5, &[1]);
/// Logged on over the network.
pub const NETWORK: Sid = Sid::known(5, &[2]);
/// Logged on as a batch job.
pub const BATCH: Sid = Sid::known(5, &[3]);
/// Logged on at the machine.
pub const INTERACTIVE: Sid = Sid::known(5, &[4]);
/// Logged on as a service.
pub const SERVICE: Sid = Sid::known(5, &[6]);
/// Somebody without a name.
pub const ANONYMOUS: Sid = Sid::known(5, &[7]);
/// Everybody who has a name.
pub const AUTHENTICATED_USERS: Sid = Sid::known(5, &[11]);
/// The operating system.
pub const LOCAL_SYSTEM: Sid = Sid::known(5, &[18]);
/// The group of administrators.
pub const ADMINISTRATORS: Sid = Sid::known(5, &[32, 544]);
/// The group of users.
pub const USERS: Sid = Sid::known(5, &[32, 545]);
/// The group of backup operators.
pub const BACKUP_OPERATORS: Sid = Sid::known(5, &[32, 551]);

/// The domain of uids that belong to no account: `S-1-22-1-uid`.
pub const UNIX_USERS: Sid = Sid::known(22, &[1]);
/// The domain of gids that belong to no account: `S-1-22-2-gid`.
pub const UNIX_GROUPS: Sid = Sid::known(22, &[2]);

/// Alias, identifier and name.
const KNOWN: &[(&str, Sid, &str)] = &[
    ("WD", EVERYONE, "Everyone"),
    ("CO", CREATOR_OWNER, "CREATOR OWNER"),
    ("CG", CREATOR_GROUP, "CREATOR GROUP"),
    ("OW", OWNER_RIGHTS, "OWNER RIGHTS"),
    ("", DIALUP, "DIALUP"),
    ("NU", NETWORK, "NETWORK"),
    ("", BATCH, "BATCH"),
    ("IU", INTERACTIVE, "INTERACTIVE"),
    ("SU", SERVICE, "SERVICE"),
    ("AN", ANONYMOUS, "ANONYMOUS LOGON"),
    ("ED", Sid::known(5, &[9]), "ENTERPRISE DOMAIN CONTROLLERS"),
    ("PS", Sid::known(5, &[10]), "SELF"),
    ("AU", AUTHENTICATED_USERS, "Authenticated Users"),
    ("RC", Sid::known(5, &[12]), "RESTRICTED"),
    ("SY", LOCAL_SYSTEM, "SYSTEM"),
    ("LS", Sid::known(5, &[19]), "LOCAL SERVICE"),
    ("NS", Sid::known(5, &[20]), "NETWORK SERVICE"),
    ("WR", Sid::known(5, &[33]), "WRITE RESTRICTED"),
    ("BA", ADMINISTRATORS, "Administrators"),
    ("BU", USERS, "Users"),
    ("BG", Sid::known(5, &[32, 546]), "Guests"),
    ("PU", Sid::known(5, &[32, 547]), "Power Users"),
    ("AO", Sid::known(5, &[32, 548]), "Account Operators"),
    ("SO", Sid::known(5, &[32, 549]), "Server Operators"),
    ("PO", Sid::known(5, &[32, 550]), "Print Operators"),
    ("BO", BACKUP_OPERATORS, "Backup Operators"),
    ("RE", Sid::known(5, &[32, 552]), "Replicator"),
    ("RU", Sid::known(5, &[32, 554]), "Pre-Windows 2000 Compatible Access"),
    ("RD", Sid::known(5, &[32, 555]), "Remote Desktop Users"),
    ("NO", Sid::known(5, &[32, 556]), "Network Configuration Operators"),
    ("MU", Sid::known(5, &[32, 558]), "Performance Monitor Users"),
    ("LU", Sid::known(5, &[32, 559]), "Performance Log Users"),
    ("IS", Sid::known(5, &[32, 568]), "IIS_IUSRS"),
    ("CY", Sid::known(5, &[32, 569]), "Cryptographic Operators"),
    ("ER", Sid::known(5, &[32, 573]), "Event Log Readers"),
    ("CD", Sid::known(5, &[32, 574]), "Certificate Service DCOM Access"),
    ("RA", Sid::known(5, &[32, 575]), "RDS Remote Access Servers"),
    ("ES", Sid::known(5, &[32, 576]), "RDS Endpoint Servers"),
    ("MS", Sid::known(5, &[32, 577]), "RDS Management Servers"),
    ("HA", Sid::known(5, &[32, 578]), "Hyper-V Administrators"),
    ("AA", Sid::known(5, &[32, 579]), "Access Control Assistance Operators"),
    ("RM", Sid::known(5, &[32, 580]), "Remote Management Users"),
    ("UD", Sid::known(5, &[84, 0, 0, 0, 0, 0]), "User Mode Drivers"),
    ("AC", Sid::known(15, &[2, 1]), "ALL APPLICATION PACKAGES"),
    ("LW", Sid::known(16, &[4096]), "Low Mandatory Level"),
    ("ME", Sid::known(16, &[8192]), "Medium Mandatory Level"),
    ("MP", Sid::known(16, &[8448]), "Medium Plus Mandatory Level"),
    ("HI", Sid::known(16, &[12288]), "High Mandatory Level"),
    ("SI", Sid::known(16, &[16384]), "System Mandatory Level"),
    ("AS", Sid::known(18, &[1]), "Authentication authority asserted identity"),
    ("SS", Sid::known(18, &[2]), "Service asserted identity"),
];

/// Aliases of SDDL that stand for accounts of the domain that somebody belongs to, with their relative ids.
const OF_DOMAIN: &[(&str, u32)] = &[
    ("RO", 498),
    ("LA", 500),
    ("LG", 501),
    ("DA", 512),
    ("DU", 513),
    ("DG", 514),
    ("DC", 515),
    ("DD", 516),
    ("CA", 517),
    ("SA", 518),
    ("EA", 519),
    ("PA", 520),
    ("CN", 522),
    ("AP", 525),
    ("KA", 526),
    ("EK", 527),
    ("RS", 553),
];

/// The name that people know an identifier by, in English.
pub fn name(sid: &Sid) -> Option<&'static str> {
    KNOWN.iter().find(|(_, known, _)| known == sid).map(|(.., name)| *name)
}

/// The identifier of such a name, whatever its case.
pub fn by_name(name: &str) -> Option<Sid> {
    KNOWN.iter().find(|(.., known)| known.eq_ignore_ascii_case(name)).map(|(_, sid, _)| *sid)
}

/// The two letters of an identifier.
pub(crate) fn alias(sid: &Sid) -> Option<&'static str> {
    KNOWN.iter().find(|(alias, known, _)| known == sid && !alias.is_empty()).map(|(alias, ..)| *alias)
}

/// What two letters stand for.
pub(crate) enum Aliased {
    /// One identifier everywhere.
    Sid(Sid),
    /// An account of a domain, by its relative id.
    Rid(u32),
}

/// What two letters stand for, whatever their case.
pub(crate) fn aliased(letters: &str) -> Option<Aliased> {
    let known = KNOWN.iter().find(|(alias, ..)| !alias.is_empty() && alias.eq_ignore_ascii_case(letters));
    let of_domain = || OF_DOMAIN.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(letters));
    match known {
        Some((_, sid, _)) => Some(Aliased::Sid(*sid)),
        None => of_domain().map(|(_, rid)| Aliased::Rid(*rid)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_alias_name_and_identifier_stands_once() {
        let aliases: Vec<&str> =
            KNOWN.iter().map(|(alias, ..)| *alias).chain(OF_DOMAIN.iter().map(|one| one.0)).collect();
        let used: Vec<&str> = aliases.into_iter().filter(|alias| !alias.is_empty()).collect();
        assert_eq!(used.iter().collect::<BTreeSet<_>>().len(), used.len());
        assert_eq!(KNOWN.iter().map(|(_, sid, _)| sid).collect::<BTreeSet<_>>().len(), KNOWN.len());
        for (letters, sid, text) in KNOWN {
            assert_eq!((name(sid), by_name(text)), (Some(*text), Some(*sid)));
            if !letters.is_empty() {
                assert_eq!(alias(sid), Some(*letters));
                assert!(matches!(aliased(&letters.to_lowercase()), Some(Aliased::Sid(found)) if found == *sid));
            }
        }
        assert!(matches!(aliased("DU"), Some(Aliased::Rid(513))) && aliased("").is_none() && aliased("ZZ").is_none());
    }
}
