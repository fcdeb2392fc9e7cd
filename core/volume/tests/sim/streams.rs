//! What only Windows knows of files: attributes, streams beside the data, and reparse points.

use holdfast_device::IoSlice;
use holdfast_identity::{AccessMask, Privileges};
use holdfast_volume::service::{
    Caller, DosAttributes, FileId, FileKind, FileService, MOUNT_POINT_TAG, NewFile, OpenMode, Remove, Rename,
    ReparsePoint, SYMLINK_TAG, SetAttributes, SetMode,
};
use holdfast_volume::{Browsed, ErrorKind, Limits, Subject, Volume};

use crate::descriptors::{DIRECTORY, FILE, kind, make, on_a_volume, token, token_with, user};

const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

fn set_dos(dos: DosAttributes) -> SetAttributes {
    SetAttributes { dos: Some(dos), ..SetAttributes::default() }
}

async fn dos_of(volume: &Volume, id: FileId) -> DosAttributes {
    volume.stat(id).await.expect("it is there").dos
}

#[test]
fn attributes_are_what_was_set_and_what_follows() {
    on_a_volume(async |volume, _| {
        let root = volume.root();
        let file = make(volume, &user(5), root, "file", &FILE).await;
        let dir = make(volume, &user(5), root, "dir", &DIRECTORY).await;
        let link = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"file" };
        let link = make(volume, &user(5), root, "link", &link).await;
        assert_eq!(dos_of(volume, file).await, DosAttributes::ARCHIVE, "new files are to be backed up");
        assert_eq!(dos_of(volume, dir).await, DosAttributes::DIRECTORY);
        assert_eq!(dos_of(volume, link).await, DosAttributes::REPARSE_POINT);
        let hidden = DosAttributes::HIDDEN | DosAttributes::SYSTEM | DosAttributes::DIRECTORY;
        assert_eq!(kind(volume.set(&user(6), file, &set_dos(hidden)).await), Some(ErrorKind::NotPermitted));
        assert_eq!(kind(volume.set(&token(6), file, &set_dos(hidden)).await), Some(ErrorKind::AccessDenied));
        let facts = volume.set(&token(5), file, &set_dos(hidden)).await.expect("the owner may");
        assert_eq!(facts.dos, DosAttributes::HIDDEN | DosAttributes::SYSTEM, "what it is cannot be set");
        // Every change of the data says so, at once and for ever.
        for round in 0..3u64 {
            let none = volume.set(&user(0), file, &set_dos(DosAttributes::empty())).await.expect("set");
            assert_eq!(none.dos, DosAttributes::empty());
            match round {
                2 => {
                    let size = SetAttributes { size_bytes: Some(3), ..SetAttributes::default() };
                    volume.set(&user(5), file, &size).await.expect("cut");
                }
                round => {
                    let handle = volume.open(&user(5), file, WRITING).await.expect("opened");
                    let data = IoSlice::padded(&[7; 8192]);
                    volume.write(&handle, 4096 * round, data, 8192).await.expect("written");
                    assert_eq!(dos_of(volume, file).await, DosAttributes::ARCHIVE, "round {round}");
                    volume.close(handle).await.expect("closed");
                }
            }
            volume.sync().await.expect("it lasts");
            assert_eq!(dos_of(volume, file).await, DosAttributes::ARCHIVE, "round {round}");
        }
    });
}

#[test]
fn read_only_holds_for_those_who_know_of_it() {
    on_a_volume(async |volume, _| {
        let dir = make(volume, &user(5), volume.root(), "dir", &DIRECTORY).await;
        let file = make(volume, &user(5), dir, "file", &FILE).await;
        make(volume, &user(5), dir, "other", &FILE).await;
        volume.set(&token(5), file, &set_dos(DosAttributes::READ_ONLY)).await.expect("the owner may");
        let denied = Some(ErrorKind::AccessDenied);
        let trusted = Caller { is_checked: true, ..token(5) };
        for caller in [&token(5), &trusted] {
            assert_eq!(kind(volume.open(caller, file, WRITING).await), denied);
            assert_eq!(kind(volume.remove(caller, dir, b"file", Remove::File).await), denied);
            let over = volume.rename(caller, (dir, b"other"), (dir, b"file"), Rename::Replace).await;
            assert_eq!(kind(over), denied);
            assert_eq!(kind(volume.create_stream(caller, file, b"stream", SetMode::Any).await), denied);
        }
        assert_eq!(kind(volume.granted(&token(5), file, AccessMask::WRITE_DATA).await), denied);
        let most = volume.granted(&token(5), file, AccessMask::MAXIMUM_ALLOWED).await.expect("something");
        assert!(
            most.contains(AccessMask::READ_DATA) && !most.intersects(AccessMask::WRITE_DATA | AccessMask::APPEND_DATA)
        );
        volume.rename(&token(5), (dir, b"file"), (dir, b"moved"), Rename::NoReplace).await.expect("it may be renamed");
        // Users of POSIX do not know of it.
        volume.close(volume.open(&user(5), file, WRITING).await.expect("opened")).await.expect("closed");
        volume.set(&token(5), file, &set_dos(DosAttributes::empty())).await.expect("set");
        volume.remove(&token(5), dir, b"moved", Remove::File).await.expect("it is no more");
    });
}

#[test]
fn streams_are_found_by_any_case_and_go_with_their_file() {
    on_a_volume(async |volume, _| {
        let caller = user(5);
        let file = make(volume, &caller, volume.root(), "file", &FILE).await;
        let dir = make(volume, &caller, volume.root(), "dir", &DIRECTORY).await;
        let before = volume.stat(file).await.expect("it is there");
        for id in [file, dir] {
            volume.create_stream(&caller, id, "Größe".as_bytes(), SetMode::Create).await.expect("made");
            let again = volume.create_stream(&caller, id, "GRÖßE".as_bytes(), SetMode::Create).await;
            assert_eq!(kind(again), Some(ErrorKind::Exists));
            let bytes: Vec<u8> = (0..10_000).map(|at| (at / 5) as u8).collect();
            volume.write_stream(&caller, id, "größe".as_bytes(), 100, &bytes).await.expect("written");
            let all = volume.read_stream(&caller, id, "GRÖßE".as_bytes(), 0, 99_999).await.expect("read");
            assert_eq!((all.len(), &all[..100], &all[100..]), (10_100, &[0; 100][..], &bytes[..]));
            for (offset, len) in [(0, 0), (3999, 2), (4000, 4000), (7999, 2101), (10_099, 9), (10_100, 9), (1 << 40, 9)]
            {
                let some = volume.read_stream(&caller, id, "größe".as_bytes(), offset, len).await.expect("read");
                let expected = all.iter().skip(offset as usize).take(len).copied().collect::<Vec<_>>();
                assert_eq!(some, expected, "{len} bytes from {offset}");
            }
            // What is cut off reads as zeros when it grows again.
            volume.set_stream_length(&caller, id, "größe".as_bytes(), 3998).await.expect("cut");
            volume.set_stream_length(&caller, id, "größe".as_bytes(), 9000).await.expect("grown");
            let grown = volume.read_stream(&caller, id, "größe".as_bytes(), 0, 99_999).await.expect("read");
            assert!(grown[..3998] == all[..3998] && grown[3998..] == [0; 9000 - 3998]);
            volume.rename_stream(&caller, id, "größe".as_bytes(), b"b", false).await.expect("renamed");
            assert_eq!(volume.read_stream(&caller, id, b"B", 0, 99_999).await, Ok(grown));
            volume.rename_stream(&caller, id, b"b", b"B", false).await.expect("its case only");
            let listed = volume.streams(&caller, id).await.expect("listed");
            assert_eq!((listed.len(), &listed[0].name[..], listed[0].size_bytes), (1, &b"B"[..], 9000));
            volume.create_stream(&caller, id, b"other", SetMode::Any).await.expect("made");
            volume.write_stream(&caller, id, b"other", 0, b"other's").await.expect("written");
            let over = volume.rename_stream(&caller, id, b"other", b"b", false).await;
            assert_eq!(kind(over), Some(ErrorKind::Exists));
            volume.rename_stream(&caller, id, b"other", b"b", true).await.expect("renamed");
            assert_eq!(volume.read_stream(&caller, id, b"b", 0, 99).await, Ok(b"other's".to_vec()));
            assert_eq!(kind(volume.read_stream(&caller, id, b"other", 0, 9).await), Some(ErrorKind::NotFound));
            let emptied = volume.create_stream(&caller, id, b"b", SetMode::Replace).await.expect("emptied");
            assert_eq!(emptied.size_bytes, 0);
            for name in [&b""[..], b"a:b", b"a/b", b"\xff"] {
                let refused = volume.create_stream(&caller, id, name, SetMode::Any).await;
                assert_eq!(kind(refused), Some(ErrorKind::BadName), "{name:?}");
            }
            let large = volume.set_stream_length(&caller, id, b"b", (64 << 10) + 1).await;
            assert_eq!(kind(large), Some(ErrorKind::TooLarge));
            assert_eq!(kind(volume.write_stream(&caller, id, b"b", u64::MAX, b"x").await), Some(ErrorKind::TooLarge));
        }
        let facts = volume.stat(file).await.expect("it is there");
        assert_eq!((facts.size_bytes, facts.allocated_bytes), (0, before.allocated_bytes + 4096), "one part is left");
        assert!(facts.change > before.change);
        // The directory is empty all the same.
        volume.remove(&user(0), volume.root(), b"dir", Remove::Directory).await.expect("removed");
        volume.remove_stream(&caller, file, b"B").await.expect("removed");
        assert_eq!(kind(volume.remove_stream(&caller, file, b"B").await), Some(ErrorKind::NotFound));
        assert_eq!(volume.stat(file).await.map(|facts| facts.allocated_bytes), Ok(before.allocated_bytes));
        for number in 0..40 {
            let name = format!("stream {number}").into_bytes();
            volume.create_stream(&caller, file, &name, SetMode::Any).await.expect("made");
            volume.set_stream_length(&caller, file, &name, 64 << 10).await.expect("grown");
        }
        volume.remove(&user(0), volume.root(), b"file", Remove::File).await.expect("removed with all of it");
        assert_eq!(kind(volume.streams(&caller, file).await), Some(ErrorKind::Stale));
    });
}

#[test]
fn streams_take_the_rights_to_the_data_and_count_for_quotas() {
    on_a_volume(async |volume, _| {
        let file = make(volume, &user(5), volume.root(), "file", &FILE).await;
        for (caller, may_write) in [(user(5), true), (token(5), true), (user(6), false), (token(6), false)] {
            let made = volume.create_stream(&caller, file, b"stream", SetMode::Any).await;
            assert_eq!(made.is_ok(), may_write);
            let written = volume.write_stream(&caller, file, b"stream", 0, b"bytes").await;
            assert_eq!(kind(written), (!may_write).then_some(ErrorKind::AccessDenied));
            assert_eq!(volume.read_stream(&caller, file, b"stream", 0, 9).await, Ok(b"bytes".to_vec()), "all read");
        }
        let shut = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        volume.set(&user(5), file, &shut).await.expect("set");
        for caller in [user(6), token_with(6, &[5], Privileges::empty())] {
            let read = volume.read_stream(&caller, file, b"stream", 0, 9).await;
            assert_eq!(kind(read), Some(ErrorKind::AccessDenied));
        }
        let link = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"file" };
        let link = make(volume, &user(5), volume.root(), "link", &link).await;
        assert_eq!(kind(volume.create_stream(&user(5), link, b"a", SetMode::Any).await), Some(ErrorKind::Invalid));
        let limits = Limits { hard_bytes: Some(10 * 4096), ..Limits::default() };
        volume.set_quota(Subject::User(5), limits).await.expect("set");
        assert_eq!(kind(volume.set_stream_length(&user(5), file, b"stream", 40_000).await), Some(ErrorKind::Quota));
        volume.set_stream_length(&user(5), file, b"stream", 32_000).await.expect("that much is left");
    });
}

#[test]
fn snapshots_have_the_streams_and_attributes_that_there_were() {
    on_a_volume(async |volume, disk| {
        let caller = user(0);
        let file = make(volume, &caller, volume.root(), "file", &FILE).await;
        volume.create_stream(&caller, file, b"stream", SetMode::Any).await.expect("made");
        volume.write_stream(&caller, file, b"stream", 0, b"then").await.expect("written");
        volume.set(&caller, file, &set_dos(DosAttributes::HIDDEN)).await.expect("set");
        volume.create_snapshot("before").await.expect("made");
        volume.write_stream(&caller, file, b"stream", 0, b"now!").await.expect("written");
        volume.set(&caller, file, &set_dos(DosAttributes::SYSTEM)).await.expect("set");
        {
            let view = volume.open_snapshot("before").expect("it is there");
            assert_eq!(view.read_stream(&caller, file, b"stream", 0, 9).await, Ok(b"then".to_vec()));
            assert_eq!(view.stat(file).await.map(|facts| facts.dos), Ok(DosAttributes::HIDDEN));
            let written = view.write_stream(&caller, file, b"stream", 0, b"no").await;
            assert_eq!(kind(written), Some(ErrorKind::ReadOnly));
        }
        volume.sync().await.expect("it lasts");
        // As front ends see them.
        let image = disk.image();
        let again = Volume::open(disk.clone(), Default::default(), crate::descriptors::clock()).await.expect("opened");
        let browsed = Browsed::new(std::sync::Arc::new(again));
        let mut at = browsed.root();
        for name in [&b".snapshots"[..], b"before", b"file"] {
            at = browsed.lookup(&caller, at, name).await.expect("looked up").expect("it is there").id;
        }
        assert_eq!(browsed.read_stream(&caller, at, b"stream", 0, 9).await, Ok(b"then".to_vec()));
        assert_eq!(browsed.streams(&caller, at).await.map(|all| all.len()), Ok(1));
        let refused = browsed.remove_stream(&caller, at, b"stream").await;
        assert_eq!(kind(refused), Some(ErrorKind::ReadOnly));
        assert!(browsed.security(&caller, at).await.is_ok());
        assert_eq!(kind(browsed.reparse(&caller, at).await), Some(ErrorKind::NoReparse));
        drop(browsed);
        disk.set_back(&image);
    });
}

#[test]
fn reparse_points_keep_their_tag() {
    on_a_volume(async |volume, _| {
        let (caller, root) = (user(5), volume.root());
        let dir = make(volume, &caller, root, "dir", &DIRECTORY).await;
        let file = make(volume, &caller, root, "file", &FILE).await;
        let point = |tag, len| ReparsePoint { tag, guid: None, data: (0..len).map(|at| at as u8).collect() };
        let mount = point(MOUNT_POINT_TAG, 16_000);
        for id in [dir, file] {
            assert_eq!(kind(volume.reparse(&caller, id).await), Some(ErrorKind::NoReparse));
            assert_eq!(kind(volume.set_reparse(&user(6), id, &mount).await), Some(ErrorKind::AccessDenied));
            volume.set_reparse(&caller, id, &mount).await.expect("set");
            assert_eq!(volume.reparse(&user(6), id).await, Ok(mount.clone()));
            assert!(dos_of(volume, id).await.contains(DosAttributes::REPARSE_POINT));
            let other = volume.set_reparse(&caller, id, &point(SYMLINK_TAG, 5)).await;
            assert_eq!(kind(other), Some(ErrorKind::OtherReparse));
            volume.set_reparse(&caller, id, &point(MOUNT_POINT_TAG, 3)).await.expect("its data may change");
            assert_eq!(volume.reparse(&caller, id).await, Ok(point(MOUNT_POINT_TAG, 3)));
            let removed = volume.remove_reparse(&caller, id, SYMLINK_TAG, None).await;
            assert_eq!(kind(removed), Some(ErrorKind::OtherReparse));
            // Other attributes leave it alone.
            let dos = volume.set(&caller, id, &set_dos(DosAttributes::HIDDEN)).await.expect("set").dos;
            assert!(dos.contains(DosAttributes::HIDDEN | DosAttributes::REPARSE_POINT));
        }
        volume.remove_reparse(&caller, dir, MOUNT_POINT_TAG, None).await.expect("removed");
        let again = volume.remove_reparse(&caller, dir, MOUNT_POINT_TAG, None).await;
        assert_eq!(kind(again), Some(ErrorKind::NoReparse));
        assert!(!dos_of(volume, dir).await.contains(DosAttributes::REPARSE_POINT));
        make(volume, &caller, dir, "inside", &FILE).await;
        assert_eq!(kind(volume.set_reparse(&caller, dir, &mount).await), Some(ErrorKind::NotEmpty));
        // Tags of others come with a GUID, and only those.
        let own = ReparsePoint { tag: 77, guid: Some([9; 16]), data: Vec::new() };
        let other = make(volume, &caller, root, "other", &FILE).await;
        for wrong in
            [point(0, 1), point(1, 1), point(77, 1), ReparsePoint { guid: Some([1; 16]), ..point(MOUNT_POINT_TAG, 1) }]
        {
            assert_eq!(kind(volume.set_reparse(&caller, other, &wrong).await), Some(ErrorKind::Invalid), "{wrong:?}");
        }
        let large = point(MOUNT_POINT_TAG, 16 << 10);
        assert_eq!(kind(volume.set_reparse(&caller, other, &large).await), Some(ErrorKind::TooLarge));
        volume.set_reparse(&caller, other, &own).await.expect("set");
        let wrong = volume.remove_reparse(&caller, other, 77, Some([8; 16])).await;
        assert_eq!(kind(wrong), Some(ErrorKind::OtherReparse));
        volume.remove_reparse(&caller, other, 77, Some([9; 16])).await.expect("removed");
        // A link of POSIX is shown as one of Windows, and nothing else.
        let link = NewFile { kind: FileKind::Symlink, mode: 0o777, target: "a/ü".as_bytes() };
        let link = make(volume, &caller, root, "link", &link).await;
        let shown = volume.reparse(&caller, link).await.expect("shown");
        let path: Vec<u8> = "a\\ü".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let header = [0, 0, 6, 0, 6, 0, 6, 0, 1, 0, 0, 0];
        assert_eq!((shown.tag, shown.data), (SYMLINK_TAG, [&header[..], &path, &path].concat()));
        assert_eq!(kind(volume.set_reparse(&caller, link, &mount).await), Some(ErrorKind::Invalid));
        assert_eq!(volume.read_link(link).await, Ok("a/ü".as_bytes().to_vec()));
        volume.remove(&user(0), root, b"file", Remove::File).await.expect("removed with it");
    });
}
