//! What a salvage copies out: of a sound volume everything, of a wreck what is left, and what is missing is told.

use std::collections::BTreeMap;

use holdfast_identity::sddl;

use super::*;
use crate::integrity::Integrity;
use crate::salvage::{Beside, Found, Rescue, Salvaged, salvage};
use crate::service::{Attributes, Data, DosAttributes, ReparsePoint, SecurityParts, SetAttributes, SetMode};
use crate::superblock::Superblock;

/// What was made of an object: its attributes, its bytes, and its extended attributes.
type Made = (Attributes, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

/// What was taken, by path.
#[derive(Default)]
struct Taken {
    made: BTreeMap<String, Made>,
    links: Vec<(String, String)>,
    data: BTreeMap<String, Vec<u8>>,
    finished: Vec<String>,
    beside: BTreeMap<String, Beside>,
    streams: BTreeMap<(String, Vec<u8>), Vec<u8>>,
}

fn path(names: &[Vec<u8>]) -> String {
    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>().join("/")
}

impl Rescue for Taken {
    async fn make(&mut self, found: &Found<'_>) -> Result<(), String> {
        let above = &found.path[..found.path.len().saturating_sub(1)];
        assert!(above.is_empty() || self.made.contains_key(&path(above)), "directories come first");
        self.made.insert(path(found.path), (*found.facts, found.target.to_vec(), found.extended.to_vec()));
        Ok(())
    }

    async fn link(&mut self, first: &[Vec<u8>], other: &[Vec<u8>]) -> Result<(), String> {
        self.links.push((path(first), path(other)));
        Ok(())
    }

    async fn data(&mut self, found: &Found<'_>, offset: u64, data: &Data) -> Result<(), String> {
        let bytes = self.data.entry(path(found.path)).or_default();
        bytes.resize(bytes.len().max(offset as usize + data.len()), 0);
        bytes[offset as usize..offset as usize + data.len()].copy_from_slice(&data.to_vec());
        Ok(())
    }

    async fn stream(&mut self, found: &Found<'_>, name: &[u8], bytes: &[u8]) -> Result<(), String> {
        self.streams.insert((path(found.path), name.to_vec()), bytes.to_vec());
        Ok(())
    }

    async fn finish(&mut self, found: &Found<'_>) -> Result<(), String> {
        if *found.beside != Beside::default() {
            self.beside.insert(path(found.path), found.beside.clone());
        }
        self.finished.push(path(found.path));
        Ok(())
    }

    async fn go_on(&mut self, _bytes: u64) -> bool {
        true
    }
}

impl Taken {
    /// The bytes of a file wherever it was found.
    fn has(&self, bytes: &[u8]) -> bool {
        self.data.values().any(|found| found == bytes)
    }
}

async fn salvaged(disk: &Arc<SimDisk>) -> (Salvaged, Taken) {
    let mut taken = Taken::default();
    let writes = disk.counters().writes;
    let done = salvage(disk.clone(), clock(), &mut taken).await.expect("something is left");
    assert_eq!(disk.counters().writes, writes, "nothing is written");
    (done, taken)
}

#[test]
fn a_sound_volume_comes_out_whole() {
    with(async |world| {
        let fifo = NewFile { kind: FileKind::Fifo, mode: 0o600, target: b"" };
        world.volume.create(&Caller::default(), world.dir, b"fifo", &fifo).await.expect("made");
        let sparse = world.volume.create(&Caller::default(), world.dir, b"sparse", &FILE).await.expect("made").id;
        let handle = world.volume.open(&Caller::default(), sparse, OPEN).await.expect("opened");
        let data = IoBuf::zeroed(BLOCK).freeze();
        world.volume.write(&handle, 40 << 20, data, 10).await.expect("written");
        world.volume.close(handle).await.expect("closed");
        // What only the log has, too.
        world.volume.sync().await.expect("it lasts");
        let (done, taken) = salvaged(&world.disk).await;
        assert_eq!((done.missing_count, done.lost_bytes, done.findings), (0, 0, Vec::new()), "{:?}", done.missing);
        assert_eq!((done.directories, done.files, done.others, done.links), (3, 4, 2, 1));
        let names: Vec<&str> = taken.made.keys().map(String::as_str).collect();
        let data = if taken.made.contains_key("dir/data") { "dir/data" } else { "link" };
        let expected =
            ["", "dir", "dir/below", "dir/below/deep", "dir/fifo", "dir/other", "dir/sparse", "symlink", data];
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>(), expected.iter().collect());
        assert_eq!(taken.finished.len(), names.len());
        assert!(taken.data[data] == pattern(1) && taken.data["dir/other"] == pattern(2));
        assert_eq!((&taken.data["dir/below/deep"][..], taken.links.len()), (&b"small"[..], 1));
        assert_eq!(taken.made[data].2, [(b"user.long".to_vec(), vec![7; 9000])]);
        assert_eq!(taken.made["symlink"].1, b"dir/data");
        assert_eq!(taken.made["dir/below/deep"].0.mode, 0o644);
        assert_eq!(taken.made["dir/fifo"].0.kind, FileKind::Fifo);
        assert_eq!(taken.made["dir/sparse"].0.size_bytes, (40 << 20) + 10);
        assert!(done.bytes < 1 << 20, "holes are not handed out");
    });
}

#[test]
fn what_windows_knows_of_files_comes_out_too() {
    with(async |world| {
        let caller = Caller::default();
        let make = async |name: &[u8], new: &NewFile<'_>| {
            world.volume.create(&caller, world.dir, name, new).await.expect("made").id
        };
        let (file, mount) = (make(b"file", &FILE).await, make(b"mount", &DIRECTORY).await);
        let own = sddl::parse("O:BAG:BAD:P(D;;WD;;;S-1-5-21-1-2-3-1001)(A;OICI;FA;;;BA)", None).expect("it is one");
        world.volume.set_security(&caller, file, SecurityParts::all(), &own).await.expect("set");
        let point = ReparsePoint { tag: crate::service::MOUNT_POINT_TAG, guid: None, data: vec![5; 5000] };
        world.volume.set_reparse(&caller, mount, &point).await.expect("set");
        for (id, name, len) in [(file, "Zone.Identifier", 30), (file, "long", 60_000), (world.dir, "AFP", 5000)] {
            world.volume.create_stream(&caller, id, name.as_bytes(), SetMode::Create).await.expect("made");
            world.volume.write_stream(&caller, id, name.as_bytes(), 0, &vec![len as u8; len]).await.expect("written");
        }
        let hidden = DosAttributes::HIDDEN | DosAttributes::SYSTEM;
        let set = SetAttributes { dos: Some(hidden), ..SetAttributes::default() };
        world.volume.set(&caller, file, &set).await.expect("set");
        world.volume.sync().await.expect("it lasts");
        for is_wreck in [false, true] {
            if is_wreck {
                world.volume.checkpoint().await.expect("it lasts");
                let groups = world.volume.store.superblock().groups();
                groups.iter().for_each(|at| world.disk.poke(at + BLOCK as u64, &[0x5a; 2 * BLOCK]));
            }
            let (done, taken) = salvaged(&world.disk).await;
            assert_eq!(done.streams, 3, "{:?}", done.missing);
            assert_eq!(taken.beside.len(), 2, "{:?}", taken.beside);
            assert_eq!(taken.beside["dir/file"], Beside { descriptor: Some(own.clone()), reparse: None });
            assert_eq!(taken.beside["dir/mount"], Beside { descriptor: None, reparse: Some(point.clone()) });
            assert!(taken.made["dir/file"].0.dos.contains(hidden));
            for (at, name, len) in
                [("dir/file", "Zone.Identifier", 30), ("dir/file", "long", 60_000), ("dir", "AFP", 5000)]
            {
                assert_eq!(taken.streams[&(at.into(), name.into())], vec![len as u8; len]);
            }
        }
    });
}

#[test]
fn without_any_root_nodes_tell_where_trees_are() {
    with(async |world| {
        world.volume.checkpoint().await.expect("it lasts");
        world.volume.create(&Caller::default(), world.dir, b"only in the log", &FILE).await.expect("made");
        world.volume.sync().await.expect("it lasts");
        let groups = world.volume.store.superblock().groups();
        groups.iter().for_each(|at| world.disk.poke(at + BLOCK as u64, &[0x5a; 2 * BLOCK]));
        assert!(Volume::open(world.disk.clone(), Settings::default(), clock()).await.is_err());
        let (done, taken) = salvaged(&world.disk).await;
        assert!(taken.data["dir/other"] == pattern(2) && taken.has(&pattern(1)), "{:?}", done.missing);
        assert_eq!(taken.data["dir/below/deep"], b"small");
        assert!(taken.made.contains_key("dir/only in the log"));
    });
}

#[test]
fn without_any_superblock_zones_tell_where_they_are() {
    with(async |world| {
        world.volume.checkpoint().await.expect("it lasts");
        let groups = world.volume.store.superblock().groups();
        groups.iter().for_each(|at| world.disk.poke(*at, &[0x5a; 3 * BLOCK]));
        let (done, taken) = salvaged(&world.disk).await;
        assert!(taken.data["dir/other"] == pattern(2) && taken.has(&pattern(1)), "{:?}", done.missing);
        assert_eq!(taken.data["dir/below/deep"], b"small");
    });
}

#[test]
fn what_is_lost_is_told_with_its_range_and_all_else_comes_out() {
    with(async |world| {
        let handle = world.volume.open(&Caller::default(), world.data, OPEN).await.expect("opened");
        let place = {
            let pieces = world.volume.pieces(&handle.file, 0, 8).await.expect("it has blocks");
            let crate::extents::Ground::Written(extent) = &pieces[0].ground else { panic!("data") };
            extent.place
        };
        world.volume.close(handle).await.expect("closed");
        world.volume.checkpoint().await.expect("it lasts");
        let at = (place + 2) * BLOCK as u64;
        let how = holdfast_device::sim::ErrorPersistence::UntilRewritten;
        world.disk.fail_reads(at..at + 2 * BLOCK as u64, how);
        let (done, taken) = salvaged(&world.disk).await;
        assert_eq!(done.lost_bytes, 2 * BLOCK as u64);
        let told: Vec<&str> = done.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(told, ["bytes 8192 to 16383 cannot be read"]);
        let mut expected = pattern(1);
        expected[2 * BLOCK..4 * BLOCK].fill(0);
        assert!(taken.has(&expected) && taken.has(&pattern(2)));
    });
}

#[test]
fn what_is_not_as_its_checksum_says_is_told_and_not_handed_out() {
    with(async |world| {
        world.volume.set_integrity(&Caller::default(), world.data, Integrity::Strict).await.expect("set");
        let handle = world.volume.open(&Caller::default(), world.data, OPEN).await.expect("opened");
        let place = {
            let pieces = world.volume.pieces(&handle.file, 0, 8).await.expect("it has blocks");
            let crate::extents::Ground::Written(extent) = &pieces[0].ground else { panic!("data") };
            extent.place
        };
        world.volume.close(handle).await.expect("closed");
        world.volume.checkpoint().await.expect("it lasts");
        world.disk.poke((place + 5) * BLOCK as u64 + 9, b"something else");
        let (done, taken) = salvaged(&world.disk).await;
        assert_eq!(done.lost_bytes, BLOCK as u64);
        let told: Vec<&str> = done.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(told, ["bytes 20480 to 24575 cannot be read"]);
        let mut expected = pattern(1);
        expected[5 * BLOCK..6 * BLOCK].fill(0);
        assert!(taken.has(&expected) && taken.has(&pattern(2)));
    });
}

#[test]
fn trees_that_lost_nodes_are_made_whole_first() {
    with(async |world| {
        world.volume.checkpoint().await.expect("it lasts");
        let shard = keys::shard(world.dir.number);
        let key = keys::record(world.dir.number);
        let address = world.volume.store.place_of(shard, &key).await.expect("read").expect("it is there");
        // Nothing older is left of it.
        let zones = world.volume.store.superblock();
        let mut at = zones.zones_at();
        while at < zones.size_bytes - (1 << 16) {
            let head = world.disk.peek(at, 64);
            if at != address && crate::page::Page::is_one(&head) && head[40] == shard {
                world.disk.poke(at, &[0; 64]);
            }
            at += 16 << 10;
        }
        world.disk.poke(address + 9000, &[0x55; 64]);
        let (done, taken) = salvaged(&world.disk).await;
        assert!(done.findings.iter().any(|verb| matches!(verb, Verb::NodeLost { .. })), "{:?}", done.findings);
        assert!(taken.has(&pattern(1)) && taken.has(&pattern(2)) && taken.has(b"small"), "{:?}", taken.made.keys());
        assert!(taken.made.contains_key("lost+found"));
    });
}

#[test]
fn what_holds_no_volume_is_refused_and_so_is_one_of_a_later_version() {
    let sim = Sim::new(3);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, garbage: false, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let refused = salvage(disk.clone(), clock(), &mut Taken::default()).await;
        assert_eq!(refused.expect_err("nothing is there").kind, crate::ErrorKind::Format);
        let world = World::new(disk.clone()).await;
        let later = Superblock { features: [0, 0, 4], ..world.volume.store.superblock() };
        later.groups().iter().for_each(|at| disk.poke(*at, &later.seal()));
        let refused = salvage(disk, clock(), &mut Taken::default()).await;
        assert!(refused.expect_err("unknown").to_string().contains("newer release"));
    });
    ran.expect("powered");
}
