//! Requests of the kernel to a FUSE server.
//!
//! Held up: no panic, names that are whole and could be names, values and lists within the request, and an answer to
//! INIT that agrees to nothing that was not offered.

use holdfast_fuse::protocol::constants::WRITE;
use holdfast_fuse::protocol::init::Wanted;
use holdfast_fuse::protocol::request::{Header, Operation, WRITE_HEAD_BYTES, parse};

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && !name.contains(&0)
}

/// Panics where something does not hold.
pub fn check(bytes: &[u8]) {
    let header = Header::parse(bytes);
    let Ok((parsed, operation)) = parse(bytes) else { return };
    assert_eq!(header, Ok(parsed), "a request has one header");
    assert!(parsed.opcode == WRITE || parsed.length as usize == bytes.len(), "a request is whole");
    match operation {
        Operation::Lookup { name }
        | Operation::MkNod { name, .. }
        | Operation::MkDir { name, .. }
        | Operation::Unlink { name }
        | Operation::RmDir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. } => assert!(is_name(name)),
        Operation::Symlink { name, target } => assert!(is_name(name) && !target.contains(&0)),
        Operation::Rename { name, new_name, .. } => assert!(is_name(name) && is_name(new_name)),
        Operation::SetXattr { name, value, .. } => {
            assert!(!name.contains(&0) && name.len() + value.len() < bytes.len())
        }
        Operation::GetXattr { name, .. } | Operation::RemoveXattr { name } => {
            assert!(!name.is_empty() && !name.contains(&0));
        }
        Operation::BatchForget(forgets) => assert!(forgets.count() * 16 < bytes.len()),
        Operation::Write(range) => assert_eq!(parsed.length as usize, WRITE_HEAD_BYTES + range.size as usize),
        Operation::SetAttr(set) => assert!(set.atime.1 < 1_000_000_000 && set.mtime.1 < 1_000_000_000),
        Operation::Init(init) => {
            let wanted = Wanted {
                writeback_cache: true,
                invalidate_on_change: true,
                locks: true,
                over_io_uring: true,
                background: 64,
            };
            if let Some(agreed) = init.agree(wanted) {
                assert_eq!((agreed.flags & !init.flags, agreed.encode().len()), (0, 64));
            }
        }
        _ => {}
    }
}
