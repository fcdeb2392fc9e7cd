//! Listings of directories, also while they change.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};

use crate::support::{Scene, names, stat};

const NAMES: usize = 10_000;

#[test]
fn ten_thousand_names_are_listed_once_each_while_others_come_and_go() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("directory");
    fs::create_dir(&directory).expect("made");
    let stays = |number: usize| directory.join(format!("stays {number}"));
    let goes = |number: usize| directory.join(format!("goes {number}"));
    for number in 0..NAMES {
        fs::write(stays(number), b"").expect("written");
        if number % 10 == 0 {
            fs::write(goes(number), b"").expect("written");
        }
    }
    let mut seen = BTreeSet::new();
    for (number, entry) in fs::read_dir(&directory).expect("listed").enumerate() {
        let name = entry.expect("a name").file_name().into_string().expect("text");
        assert!(seen.insert(name.clone()), "{name} is listed twice");
        if number % 10 == 0 && number < NAMES {
            fs::remove_file(goes(number)).expect("removed");
            fs::write(directory.join(format!("comes {number}")), b"").expect("written");
        }
    }
    let stayed = seen.iter().filter(|name| name.starts_with("stays")).count();
    assert_eq!(stayed, NAMES);
    assert_eq!(names(&directory).len(), NAMES + NAMES / 10);
}

#[test]
fn facts_come_with_the_names() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("directory");
    fs::create_dir(&directory).expect("made");
    for number in 0..500 {
        fs::write(directory.join(format!("{number}")), vec![0; number]).expect("written");
    }
    let mut lengths = BTreeSet::new();
    for entry in fs::read_dir(&directory).expect("listed") {
        let entry = entry.expect("a name");
        let facts = entry.metadata().expect("facts");
        assert_eq!(facts.ino(), entry.ino());
        lengths.insert(facts.len());
    }
    assert_eq!(lengths.len(), 500);
    assert!(scene.mounted().stats().count("readdirplus") > 0);
}

#[test]
fn a_listing_begins_with_the_directory_and_its_parent_and_goes_on_at_any_place() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir_all(scene.path("outer/inner")).expect("made");
    for name in ["a", "b", "c"] {
        fs::write(scene.path("outer/inner").join(name), b"").expect("written");
    }
    let opened = fs::File::open(scene.path("outer/inner")).expect("opened");
    let mut buffer = Vec::with_capacity(8192);
    let mut listed = Vec::new();
    let mut raw = rustix::fs::RawDir::new(&opened, buffer.spare_capacity_mut());
    while let Some(entry) = raw.next() {
        let entry = entry.expect("a name");
        listed.push((entry.file_name().to_bytes().to_vec(), entry.ino(), entry.next_entry_cookie()));
    }
    let found: Vec<_> = listed.iter().map(|(name, ..)| name.as_slice()).collect();
    assert_eq!(found, [&b"."[..], b"..", b"a", b"b", b"c"]);
    assert_eq!(listed[0].1, stat(&scene.path("outer/inner")).stx_ino);
    assert_eq!(listed[1].1, stat(&scene.path("outer")).stx_ino);
    for (number, (.., cookie)) in listed.iter().enumerate() {
        rustix::fs::seek(&opened, rustix::fs::SeekFrom::Start(*cookie)).expect("sought");
        let mut buffer = Vec::with_capacity(8192);
        let mut raw = rustix::fs::RawDir::new(&opened, buffer.spare_capacity_mut());
        let mut behind = Vec::new();
        while let Some(entry) = raw.next() {
            behind.push(entry.expect("a name").file_name().to_bytes().to_vec());
        }
        assert_eq!(behind.len(), listed.len() - number - 1, "behind {number}: {behind:?}");
    }
}
