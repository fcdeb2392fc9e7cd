//! Disks that answer something else than was written to them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::daemon::Daemon;
use crate::random::bytes;

/// Bytes of a slab before its data.
const HEAD_BYTES: u64 = 64 << 10;

/// Writes over half of the data of one slab of every row of a space, the one that `choose` names, if any. Answers how
/// many.
pub fn corrupt(daemon: &Daemon, space: &str, choose: impl Fn(&[Value]) -> Option<usize>) -> usize {
    let map = daemon.json(&["space", "map", space]);
    let mut count = 0;
    for row in map.as_array().expect("rows").iter().filter(|row| row["journal"] == false) {
        let slabs = row["slabs"].as_array().expect("slabs");
        let Some(slab) = choose(slabs).map(|index| &slabs[index]) else { continue };
        let path = slab["path"].as_str().expect("a path");
        let (offset, len) =
            (slab["offset_bytes"].as_u64().expect("bytes"), slab["length_bytes"].as_u64().expect("bytes"));
        let file = File::options().write(true).open(path).expect("a disk can be opened");
        let rubbish = bytes(offset, (len - HEAD_BYTES) as usize / 2 / 4096 * 4096);
        file.write_all_at(&rubbish, offset + HEAD_BYTES).expect("a disk can be written to");
        count += 1;
    }
    count
}
