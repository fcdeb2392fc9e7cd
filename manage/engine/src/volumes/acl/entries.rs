//! Entries of a list of permissions, one by one, as editors show and put them together.
//!
//! Invariant: the texts of all entries, one after the other, are the list: an editor that changes one keeps the others.

use holdfast_api::{AclEntry, AclEntryKind};
use holdfast_identity::sddl::{self, SddlError};
use holdfast_identity::{AccessMask, Ace, AceBody, AceFlags, AceKind, Acl, AclState, SecurityDescriptor};

use super::Names;

/// The text of an entry alone.
fn text_of(entry: &Ace) -> Result<String, SddlError> {
    let Ok(list) = Acl::new(vec![entry.clone()]) else { return Ok(String::new()) };
    let alone = SecurityDescriptor { dacl: AclState::Present(list), ..SecurityDescriptor::default() };
    Ok(sddl::print(&alone)?.trim_start_matches("D:").to_owned())
}

/// The entries of a list; nothing where there is no list.
pub(super) fn entries(list: &AclState, names: &Names) -> Result<Option<Vec<AclEntry>>, SddlError> {
    let Some(list) = list.acl() else { return Ok(None) };
    list.entries().iter().map(|entry| shown(entry, names)).collect::<Result<Vec<_>, _>>().map(Some)
}

fn shown(entry: &Ace, names: &Names) -> Result<AclEntry, SddlError> {
    let (kind, mask) = match &entry.body {
        AceBody::Plain { kind: AceKind::Allow, mask, .. } => (AclEntryKind::Allow, *mask),
        AceBody::Plain { kind: AceKind::Deny, mask, .. } => (AclEntryKind::Deny, *mask),
        AceBody::Plain { mask, .. } => (AclEntryKind::Other, *mask),
        AceBody::Opaque(_) => (AclEntryKind::Other, AccessMask::empty()),
    };
    Ok(AclEntry {
        who: entry.trustee().map(|sid| names.principal(sid)),
        kind,
        mask: mask.mapped().bits(),
        here: !entry.is_inherit_only(),
        files: entry.flags.contains(AceFlags::OBJECT_INHERIT),
        directories: entry.flags.contains(AceFlags::CONTAINER_INHERIT),
        one_level: entry.flags.contains(AceFlags::NO_PROPAGATE),
        inherited: entry.is_inherited(),
        sddl: text_of(entry)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_entries_are_the_list_together() {
        let list = "(D;;WP;;;S-1-22-1-1000)(A;OICI;FA;;;BA)(A;OICIIOID;FR;;;WD)(A;CINP;0x1301bf;;;S-1-22-2-100)";
        let parsed = sddl::parse(&format!("D:{list}"), None).expect("a list");
        let shown = entries(&parsed.dacl, &Names::default()).expect("it is text").expect("there is a list");
        let together: String = shown.iter().map(|entry| entry.sddl.as_str()).collect();
        let again = sddl::parse(&format!("D:{together}"), None).expect("a list");
        assert_eq!(again.dacl, parsed.dacl, "{together}");
        let kinds: Vec<AclEntryKind> = shown.iter().map(|entry| entry.kind).collect();
        let (allow, deny) = (AclEntryKind::Allow, AclEntryKind::Deny);
        assert_eq!(kinds, [deny, allow, allow, allow]);
        assert_eq!(shown[1].mask, 0x1f_01ff, "full control");
        let [_, full, below, modify] = &shown[..] else { panic!("{shown:?}") };
        assert!(full.here && full.files && full.directories && !full.inherited);
        assert!(!below.here && below.inherited && below.files);
        assert!(modify.one_level && !modify.files && modify.directories);
        assert_eq!(modify.who.as_ref().map(|who| who.sid.as_str()), Some("S-1-22-2-100"));
        assert_eq!(entries(&AclState::Absent, &Names::default()).expect("nothing to print"), None);
    }
}
