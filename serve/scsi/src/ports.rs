//! The ports that commands come from and go to, and their names on the wire.
//!
//! Invariant: an I_T nexus is an initiator port and a target port, and both have names that outlive a session.

use holdfast_model::wire::{Reader, WireError, Writer};

/// An iSCSI name has no more bytes (RFC 7143 4.2.7).
const MAX_NAME: usize = 223;

/// The port of an initiator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    /// Its iSCSI name.
    pub name: String,
    /// The part of the session's identifier that the initiator chose.
    pub isid: [u8; 6],
}

impl InitiatorPort {
    /// As parameter data name it (SPC-4 7.6.4.6): `iqn...,i,0x` and the ISID.
    pub fn transport_id(&self) -> Vec<u8> {
        let mut name = self.to_string().into_bytes();
        name.push(0);
        let len = name.len().next_multiple_of(4).max(20);
        name.resize(len, 0);
        let mut bytes = vec![0x45, 0];
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend(name);
        bytes
    }

    /// Takes one TransportID off the front of `bytes`: the name, the ISID if it has one, and how long it is.
    pub(crate) fn take_transport_id(bytes: &[u8]) -> Option<(String, Option<[u8; 6]>, usize)> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if head[0] & 0x0f != 5 || len < 20 || len % 4 != 0 {
            return None;
        }
        let field = rest.get(..len)?;
        let end = field.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&field[..end]).ok()?;
        let (name, isid) = match head[0] >> 6 {
            0 => (text, None),
            1 => {
                let (name, isid) = text.split_once(",i,0x")?;
                (name, Some(isid_of(isid)?))
            }
            _ => return None,
        };
        let proper = !name.is_empty() && name.len() <= MAX_NAME && !name.contains(',');
        proper.then(|| (name.to_lowercase(), isid, 4 + len))
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.text(&self.name).raw(&self.isid);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let name = reader.text()?.to_lowercase();
        Ok(Self { name, isid: reader.array()? })
    }
}

impl std::fmt::Display for InitiatorPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},i,0x", self.name)?;
        self.isid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn isid_of(text: &str) -> Option<[u8; 6]> {
    if text.len() != 12 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(text, 16).ok()?;
    value.to_be_bytes()[2..].try_into().ok()
}

/// How well a target port reaches the units (SPC-4 5.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccessState {
    /// As well as can be.
    #[default]
    ActiveOptimized,
    /// All commands, at a price.
    ActiveNonOptimized,
    /// Commands about the unit only.
    Standby,
    /// Next to nothing.
    Unavailable,
}

impl AccessState {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::ActiveOptimized => 0,
            Self::ActiveNonOptimized => 1,
            Self::Standby => 2,
            Self::Unavailable => 3,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [Self::ActiveOptimized, Self::ActiveNonOptimized, Self::Standby, Self::Unavailable]
            .into_iter()
            .find(|state| state.code() == code)
    }
}

/// A port of a target device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number within the device, from one.
    pub relative_id: u16,
    /// The target port group that it is in.
    pub group: u16,
    /// Its SCSI name: `iqn...,t,0x` and the portal group.
    pub name: String,
    /// How well it reaches the units; all ports of a group are in the state of the first.
    pub state: AccessState,
}

/// A port of any target device that shows a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetPort {
    /// The device's name.
    pub device: String,
    /// The port's number within it.
    pub relative_id: u16,
}

/// An initiator port and a target port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId {
    /// Whose commands they are.
    pub initiator: InitiatorPort,
    /// Where they come in.
    pub target: TargetPort,
}

impl NexusId {
    pub(crate) fn write(&self, writer: &mut Writer) {
        self.initiator.write(writer);
        writer.text(&self.target.device).u16(self.target.relative_id);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let initiator = InitiatorPort::read(reader)?;
        let device = reader.text()?.to_owned();
        Ok(Self { initiator, target: TargetPort { device, relative_id: reader.u16()? } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_id_is_read_as_it_is_written() {
        for name in ["iqn.2026-01.org.example:a", "eui.1", &"x".repeat(223)] {
            let port = InitiatorPort { name: name.into(), isid: [0x80, 1, 2, 3, 4, 0xff] };
            let bytes = port.transport_id();
            assert_eq!((bytes.len() % 4, bytes.len() >= 24), (0, true));
            let taken = InitiatorPort::take_transport_id(&[&bytes[..], &[1, 2]].concat()).unwrap();
            assert_eq!(taken, (name.to_owned(), Some(port.isid), bytes.len()));
            for cut in 0..bytes.len() {
                assert!(InitiatorPort::take_transport_id(&bytes[..cut]).is_none());
            }
        }
    }

    #[test]
    fn what_is_no_transport_id_of_iscsi_is_refused() {
        let with = |head: u8, text: &[u8]| {
            let mut bytes = vec![head, 0, 0, 24];
            bytes.extend(text);
            bytes.resize(28, 0);
            InitiatorPort::take_transport_id(&bytes)
        };
        assert_eq!(with(0x05, b"iqn.a"), Some(("iqn.a".into(), None, 28)));
        assert!(with(0x45, b"iqn.a").is_none() && with(0x45, b"iqn.a,i,0x+1234567890").is_none());
        assert!(with(0x06, b"iqn.a").is_none() && with(0x85, b"iqn.a").is_none() && with(0x05, b"").is_none());
        assert!(with(0x05, &[b'a'; 24]).is_none(), "no end");
    }
}
