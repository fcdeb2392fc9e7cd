//! The supplementary groups of who asks. A request carries its user and first group only; the kernel keeps the others with
//! the thread, and `/proc` tells them.
//!
//! Invariant: what is not surely told of who asks is not told. The thread waits for its answer, so its number is its own
//! meanwhile; that it has the user and group of the request is looked at all the same.

use std::fs::File;
use std::io::Read;

use holdfast_volume::service::Caller;

/// What is read of a status at most. With as many groups as a thread can have, 65,536, it has about 700 KB.
const MOST_BYTES: u64 = 1 << 20;

/// The further groups of a caller who is a thread.
pub(crate) fn read(caller: &Caller) -> Option<Vec<u32>> {
    let thread = caller.asker;
    if thread == 0 {
        return None;
    }
    let file = File::open(format!("/proc/{thread}/task/{thread}/status")).ok()?;
    let mut status = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut status).ok()?;
    groups(&status, caller)
}

/// The groups that a status tells, if it is the caller's. Names of programs have no line ends in there.
fn groups(status: &[u8], caller: &Caller) -> Option<Vec<u32>> {
    let status = String::from_utf8_lossy(status);
    let numbers = |key: &str| -> Option<Vec<u32>> {
        // A line without its end was cut off.
        let line = status.split_inclusive('\n').find_map(|line| line.strip_prefix(key))?.strip_suffix('\n')?;
        line.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
    };
    // Real, effective, saved, and that of files: some calls ask with another one than the last.
    let is_its = numbers("Uid:")?.contains(&caller.uid) && numbers("Gid:")?.contains(&caller.gid);
    if is_its { numbers("Groups:") } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, ..Caller::default() }
    }

    #[test]
    fn groups_are_those_of_who_asks_or_none_are_told() {
        let status = b"Name:\tGroups: 9\\nGroups:\t9\nUid:\t1000\t1000\t1000\t7\nGid:\t8\t8\t8\t8\nGroups:\t77 100 \nNStgid:\t5\n";
        assert_eq!(groups(status, &user(1000, 8)), Some(vec![77, 100]));
        assert_eq!(groups(status, &user(7, 8)), Some(vec![77, 100]));
        assert_eq!(groups(status, &user(1001, 8)), None, "another user");
        assert_eq!(groups(status, &user(1000, 77)), None, "another group");
        let without = String::from_utf8_lossy(status).replace("77 100 ", " ");
        assert_eq!(groups(without.as_bytes(), &user(1000, 8)), Some(Vec::new()));
        for cut in ["Groups:\t77 100 \nNS", "7 100 \nNS", "Gid:"] {
            let at = status.windows(cut.len()).position(|window| window == cut.as_bytes()).expect("it has that");
            assert_eq!(groups(&status[..at], &user(1000, 8)), None, "cut before {cut}");
        }
        assert_eq!(groups(b"Uid:\tx\nGid:\t8\nGroups:\t1\n", &user(1000, 8)), None);
    }

    #[test]
    fn a_thread_that_cannot_be_seen_tells_nothing() {
        let own = std::process::id();
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let asking = |asker, uid| read(&Caller { asker, ..user(uid, gid) });
        assert!(asking(own, uid).is_some());
        assert_eq!(asking(own, uid + 1), None);
        assert_eq!(asking(0, uid), None, "of another namespace");
        assert_eq!(asking(u32::MAX, uid), None, "gone");
    }
}
