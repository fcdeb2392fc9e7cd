//! A security descriptor: the owner of a file, its group, who may do what, and what is audited ([MS-DTYP] 2.4.6).
//!
//! Invariant: whether there are lists, and that the form is self-relative, follows from the contents; control bits hold
//! only what nothing else says.

use bitflags::bitflags;

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
    }
}
