//! A security descriptor: the owner of a file, its group, who may do what, and what is audited ([MS-DTYP] 2.4.6).
//!
//! Invariant: whether there are lists, and that the form is self-relative, follows from the contents; control bits hold
//! only what nothing else says.

use bitflags::bitflags;

use crate::ace::{Ace, AceFlags};
use crate::acl::AclState;
use crate::sid::Sid;

bitflags! {
    /// What a descriptor says of its parts beside their contents ([MS-DTYP] 2.4.6, Control).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Control: u16 {
        /// Nobody chose the owner.
        const OWNER_DEFAULTED = 0x0001;
        /// Nobody chose the group.
        const GROUP_DEFAULTED = 0x0002;
        /// Nobody chose the DACL.
        const DACL_DEFAULTED = 0x0008;
        /// Nobody chose the SACL.
        const SACL_DEFAULTED = 0x0020;
        /// In a request: the DACL is to be inherited by what is below, and is then auto-inherited.
        const DACL_AUTO_INHERIT_REQUIRED = 0x0100;
        /// In a request: the same for the SACL.
        const SACL_AUTO_INHERIT_REQUIRED = 0x0200;
        /// Entries of the DACL that came from above are marked.
        const DACL_AUTO_INHERITED = 0x0400;
        /// Entries of the SACL that came from above are marked.
        const SACL_AUTO_INHERITED = 0x0800;
        /// The DACL inherits nothing from above.
        const DACL_PROTECTED = 0x1000;
        /// The SACL inherits nothing from above.
        const SACL_PROTECTED = 0x2000;
    }
}

/// A security descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SecurityDescriptor {
    /// What is said of the parts.
    pub control: Control,
    /// Who owns the file.
    pub owner: Option<Sid>,
    /// Its primary group, which only POSIX and NFSv4 look at.
    pub group: Option<Sid>,
    /// Who may do what. Without one, everybody may do everything.
    pub dacl: AclState,
    /// What is audited.
    pub sacl: AclState,
}

impl SecurityDescriptor {
    /// Answers requests for automatic inheritance: a list is auto-inherited if both bits were given for it, as NT has
    /// it when a descriptor is set. What is stored holds no requests.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let pairs = [
            (Control::DACL_AUTO_INHERIT_REQUIRED, Control::DACL_AUTO_INHERITED),
            (Control::SACL_AUTO_INHERIT_REQUIRED, Control::SACL_AUTO_INHERITED),
        ];
        for (request, answer) in pairs {
            let both = self.control.contains(request | answer);
            self.control.set(answer, both);
            self.control.remove(request);
        }
        self
    }

    /// The request that has this descriptor stored as it is: [`Self::settled`] answers it with the same.
    #[must_use]
    pub fn requested(mut self) -> Self {
        let pairs = [
            (Control::DACL_AUTO_INHERITED, Control::DACL_AUTO_INHERIT_REQUIRED),
            (Control::SACL_AUTO_INHERITED, Control::SACL_AUTO_INHERIT_REQUIRED),
        ];
        for (is, request) in pairs {
            self.control.set(request, self.control.contains(is));
        }
        self
    }

    /// The request of a person who gives these lists: entries that they hand on are marked below, so that a later change of
    /// the lists can take them back, as `SetNamedSecurityInfo` of Windows has it. A list that hands nothing on and inherited
    /// nothing may be one that a mode stands for, and stays that.
    #[must_use]
    pub fn auto_inherited(mut self) -> Self {
        let of_dacl = Control::DACL_AUTO_INHERIT_REQUIRED | Control::DACL_AUTO_INHERITED;
        let of_sacl = Control::SACL_AUTO_INHERIT_REQUIRED | Control::SACL_AUTO_INHERITED;
        let is_marked = |entry: &Ace| entry.flags.intersects(AceFlags::INHERIT | AceFlags::INHERITED);
        for (list, bits) in [(&self.dacl, of_dacl), (&self.sacl, of_sacl)] {
            if list.entries().iter().any(is_marked) {
                self.control |= bits;
            }
        }
        self.requested()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_auto_inherited_if_both_bits_were_given() {
        let settled = |control| SecurityDescriptor { control, ..SecurityDescriptor::default() }.settled().control;
        let (required, inherited) = (Control::DACL_AUTO_INHERIT_REQUIRED, Control::DACL_AUTO_INHERITED);
        assert_eq!(settled(required | inherited), inherited);
        assert_eq!((settled(required), settled(inherited)), (Control::empty(), Control::empty()));
        let sacl = Control::SACL_AUTO_INHERIT_REQUIRED | Control::SACL_AUTO_INHERITED | Control::SACL_PROTECTED;
        assert_eq!(settled(sacl), Control::SACL_AUTO_INHERITED | Control::SACL_PROTECTED);
        for stored in [Control::empty(), inherited, Control::SACL_AUTO_INHERITED | Control::DACL_PROTECTED] {
            let stored = SecurityDescriptor { control: stored, ..SecurityDescriptor::default() };
            assert_eq!(stored.clone().requested().settled(), stored);
        }
    }

    #[test]
    fn lists_that_hand_something_on_have_it_marked() {
        let given =
            |text: &str| crate::sddl::parse(text, None).expect("a descriptor").auto_inherited().settled().control;
        let of_dacl = Control::DACL_AUTO_INHERITED;
        for (text, expected) in [
            ("D:(A;OICI;FA;;;WD)", of_dacl),
            ("D:P(A;;FA;;;BA)(A;OI;FR;;;WD)", of_dacl | Control::DACL_PROTECTED),
            ("D:(A;ID;FR;;;WD)", of_dacl),
            ("D:AI(A;;FR;;;WD)", of_dacl),
            ("D:ARAI(A;;FR;;;WD)", of_dacl),
            ("D:AR(A;;FR;;;WD)", Control::empty()),
            ("D:(A;;FR;;;WD)", Control::empty()),
            ("S:(AU;CISAFA;FA;;;WD)", Control::SACL_AUTO_INHERITED),
            ("O:BA", Control::empty()),
        ] {
            assert_eq!(given(text), expected, "{text}");
        }
    }
}
