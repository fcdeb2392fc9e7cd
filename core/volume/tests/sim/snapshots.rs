//! Snapshots beside everything else that happens to files: each has what it had, whatever is changed, cut or destroyed
//! afterwards, and its room comes back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;

use holdfast_device::sim::SimRandom;
use holdfast_volume::service::{Caller, FileService, OpenMode, Remove};
use holdfast_volume::{ErrorKind, Steps, Volume};

use crate::model::{Files, Model, difference, is_full, read_all};

/// Steps that go on, or end at once.
struct Goes(bool);

impl Steps for Goes {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { self.0 })
    }

    fn done(&self, _: u64) {}
}

/// Something that happens to snapshots.
pub async fn step(volume: &Volume, random: &SimRandom, model: &RefCell<Model>) {
    let name = format!("snapshot {}", random.range(0..5u32));
    match random.range(0..6u32) {
        0..3 => create(volume, name, model).await,
        3 => destroy(volume, name, model).await,
        4 => reclaim(volume, random.chance(2, 3)).await,
        _ => {
            let expected = model.borrow().snapshots.clone();
            check(volume, &expected).await;
        }
    }
}

async fn create(volume: &Volume, name: String, model: &RefCell<Model>) {
    let files = model.borrow().now().clone();
    let is_known = model.borrow().snapshots.contains_key(&name);
    if !is_known {
        model.borrow_mut().making = Some((name.clone(), files.clone()));
    }
    // Others make changes beside.
    let last = volume.last();
    let made = volume.create_snapshot(&name).await;
    model.borrow_mut().making = None;
    match made {
        Ok(made) => {
            assert!(!is_known, "{name} was there");
            assert_eq!(made.name, name);
            // Those without a name count, too.
            assert!(made.files >= files.nodes.len() as u64);
            let mut model = model.borrow_mut();
            model.snapshots.insert(name, files);
            // It is made of what is durable.
            model.settle(last);
        }
        Err(error) if error.kind == ErrorKind::Exists => assert!(is_known),
        // The size is being changed, or what waits has no room.
        Err(error) => assert!(error.kind == ErrorKind::Busy || is_full(error.kind), "{error}"),
    }
}

async fn destroy(volume: &Volume, name: String, model: &RefCell<Model>) {
    let is_known = model.borrow().snapshots.contains_key(&name);
    model.borrow_mut().ending = Some(name.clone());
    let destroyed = volume.destroy_snapshot(&name).await;
    model.borrow_mut().ending = None;
    match destroyed {
        Ok(()) => {
            assert!(model.borrow_mut().snapshots.remove(&name).is_some());
            assert_eq!(volume.open_snapshot(&name).err().expect("it is gone").kind, ErrorKind::NotFound);
        }
        Err(error) if error.kind == ErrorKind::NotFound => assert!(!is_known),
        Err(error) => panic!("{error}"),
    }
}

async fn reclaim(volume: &Volume, goes_on: bool) {
    match volume.reclaim(&Goes(goes_on)).await {
        Ok(_) => assert!(!volume.is_to_be_reclaimed()),
        Err(error) => assert!(!goes_on && error.kind == ErrorKind::Busy, "{error}"),
    }
}

/// Reads all that snapshots have.
pub async fn check(volume: &Volume, expected: &BTreeMap<String, Files>) {
    let names: Vec<String> = expected.keys().cloned().collect();
    let mut found: Vec<String> = volume.snapshots().into_iter().map(|one| one.name).collect();
    found.sort();
    assert_eq!(found, names);
    for (name, files) in expected {
        let view = volume.open_snapshot(name).expect("it is there");
        let found = read_all(&view).await;
        assert_eq!(difference(files, &found), Vec::<String>::new(), "{name}");
        let usage = view.usage(view.root()).await.expect("known");
        assert!(usage.files >= files.nodes.len() as u64);
    }
}

/// After a crash: what was sure is there, and what was not is whole or not there.
pub async fn recover(volume: &Volume, model: &RefCell<Model>) {
    let found: Vec<String> = volume.snapshots().into_iter().map(|one| one.name).collect();
    {
        let mut model = model.borrow_mut();
        if let Some((name, files)) = model.making.take().filter(|(name, _)| found.contains(name)) {
            model.snapshots.insert(name, files);
        }
        if let Some(name) = model.ending.take().filter(|name| !found.contains(name)) {
            model.snapshots.remove(&name);
        }
    }
    let expected = model.borrow().snapshots.clone();
    check(volume, &expected).await;
}

/// Destroys all of them while a file of one is open, then all files: all room is there again.
pub async fn end(volume: &Volume, model: &RefCell<Model>) {
    let caller = Caller::default();
    let names: Vec<String> = model.borrow().snapshots.keys().cloned().collect();
    for name in names {
        let view = volume.open_snapshot(&name).expect("it is there");
        let files = model.borrow().snapshots[&name].clone();
        let file = files.nodes.values().find(|node| node.data.len() > 1);
        if let Some(node) = file {
            let mode = OpenMode { read: true, write: false, truncate: false };
            let handle = view.open(&caller, node.id, mode).await.expect("it can be opened");
            assert_eq!(volume.destroy_snapshot(&name).await.expect_err("it is read").kind, ErrorKind::Busy);
            let found = view.read(&handle, 0, usize::MAX >> 1).await.expect("it can be read").to_vec();
            assert!(found == **node.data);
            view.close(handle).await.expect("it can be closed");
        }
        destroy(volume, name, model).await;
        assert_eq!(view.stat(view.root()).await.expect_err("it is gone").kind, ErrorKind::Stale);
        assert_eq!(volume.scan().await, Ok(Vec::new()), "with room that is to be given back");
    }
    reclaim(volume, true).await;
    assert_eq!((volume.kept_bytes(), volume.is_to_be_reclaimed()), (0, false));
    assert_eq!(volume.scan().await, Ok(Vec::new()), "after all were destroyed");
    let files = model.borrow().now().clone();
    for ((parent, name), child) in files.entries.iter().rev() {
        let is_directory = files.names_in(*child).is_empty();
        let what = if files.nodes[child].kind == holdfast_volume::service::FileKind::Directory {
            Remove::Directory
        } else {
            Remove::File
        };
        let removed = volume.remove(&caller, files.nodes[parent].id, name, what).await;
        assert!(removed.is_ok() || !is_directory, "{removed:?}");
    }
}
