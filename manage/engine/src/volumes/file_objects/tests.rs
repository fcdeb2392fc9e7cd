//! Files of a real engine's volume as disks: made, shared, kept from everybody else, and given back.

use futures_util::future::{Either, select};
use holdfast_api::{CreateSnapshot, JobState, RestoreSnapshot, SetPace};
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, Durability, IoBuf};
use holdfast_opens::{Keep, LinkName};
use holdfast_volume::service::{Caller, Time};
use holdfast_volume::{Format, Settings, VolumeFormat};

use super::*;
use crate::jobs::tests::{Rig, VOLUME, eventually};

const MIB: u64 = 1 << 20;
const SPARSE: Option<NewDisk> = Some(NewDisk { size_bytes: 4 * MIB, allocates: false });

struct Scene {
    engine: Arc<Engine>,
    open: Arc<OpenPool>,
    volume: Arc<Volume>,
}

impl Scene {
    async fn new(rig: &Rig) -> Self {
        let engine = rig.with_volume().await;
        let (open, known) = engine.open_volume_at(VOLUME).unwrap();
        let volume = open.volume_of(known.id).unwrap();
        Self { engine, open, volume }
    }

    /// Does something with the files of the volume.
    async fn with<T: Send + 'static>(
        &self,
        act: impl AsyncFnOnce(Arc<Volume>, Caller) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let volume = self.volume.clone();
        self.engine.on_reactor(move || async move { act(volume, Caller::default()).await }).await.unwrap()
    }

    async fn make(&self, text: &str) -> FoundFile {
        self.engine.find_file(text, SPARSE).await.unwrap().1
    }

    async fn attach(&self, found: &FoundFile) -> ApiResult<HeldDisk> {
        self.engine.open_file_disk(&self.open, found.volume, found.file).await
    }

    async fn fill(&self, held: &HeldDisk, byte: u8) {
        let object = held.disk.object.clone();
        let written = self.engine.on_reactor(move || async move {
            let mut buf = IoBuf::new(64 << 10);
            buf.fill(byte);
            object.write(0, buf.freeze(), Durability::Durable).await
        });
        written.await.unwrap().unwrap();
    }

    /// How an attempt to open a file that asks for this ends for whoever is not told of denials.
    fn asks(&self, found: &FoundFile, access: Access) -> bool {
        let opens = {
            let volumes = self.open.volumes();
            volumes["files"].open.as_ref().unwrap().opens.clone()
        };
        let key = Opens::new(opens.clone(), VOLUME_IN_TABLE).key(found.file);
        let request = OpenRequest {
            file: key,
            client: ClientId(7),
            protocol: "test",
            access,
            share: Access::ALL,
            ignores_denials: true,
            excludes_all: false,
            overwrites: false,
            delete_on_close: None,
            lease: None,
            waits_for_kept: false,
            recall: Arc::new(Nothing),
        };
        match opens.poll_open(&request, &mut Waiting::new(), reactor::clock().now(), Waker::noop()) {
            Poll::Ready(Ok(Opening::Opened(opened))) => {
                assert_eq!(opened.seat.is_disk(), !self.open.file_disks(found.volume).is_empty());
                assert!(opens.close(&opened.seat, reactor::clock().now()).unwrap().is_none());
                true
            }
            _ => false,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_made_shared_kept_from_others_and_given_back() {
    let rig = Rig::new();
    let scene = Scene::new(&rig).await;
    let Scene { engine, open, .. } = &scene;
    let refused = engine.find_file("tank/files:/disk", None).await.err().unwrap();
    assert_eq!(refused.code, Code::NotFound, "{refused}");
    for wrong in ["tank/files", "tank/files:", "tank/files:/", ":disk"] {
        assert_eq!(engine.find_file(wrong, None).await.err().unwrap().code, Code::Invalid, "{wrong}");
    }
    let odd = Some(NewDisk { size_bytes: 4097, allocates: false });
    assert_eq!(engine.find_file("tank/files:/odd", odd).await.err().unwrap().field.as_deref(), Some("size_bytes"));
    assert_eq!(engine.find_file("tank/files:/none/odd", SPARSE).await.err().unwrap().code, Code::NotFound);
    let found = scene.make("tank/files:disk").await;
    assert!(found.is_new && found.path == "/disk", "{}", found.path);
    assert!(!scene.make("tank/files:/disk").await.is_new);
    let other = Some(NewDisk { size_bytes: MIB, allocates: false });
    let refused = engine.find_file("tank/files:/disk", other).await.err().unwrap();
    assert!(refused.message.contains("4 MiB, not 1 MiB"), "{refused}");
    assert!(scene.asks(&found, Access::WRITE));
    let (disk, again) = (scene.attach(&found).await.unwrap(), scene.attach(&found).await.unwrap());
    assert!(Arc::ptr_eq(&disk.disk, &again.disk));
    assert_eq!(open.file_disks(found.volume), ["/disk"]);
    scene.fill(&disk, 7).await;
    assert!(
        scene.asks(&found, Access::READ) && !scene.asks(&found, Access::WRITE) && !scene.asks(&found, Access::DELETE)
    );
    assert_eq!(disk.grow(8 * MIB).await, Ok(true));
    assert_eq!(disk.grow(8 * MIB).await, Ok(false));
    assert_eq!(disk.grow(4 * MIB).await.unwrap_err().code, Code::Invalid);
    assert_eq!(disk.disk.object.geometry().size_bytes, 8 * MIB);
    again.release().await;
    assert!(!scene.asks(&found, Access::WRITE), "another one has it");
    disk.release().await;
    assert!(scene.asks(&found, Access::WRITE) && scene.asks(&found, Access::DELETE));
    // One that is dropped is given back, too.
    drop(scene.attach(&found).await.unwrap());
    eventually(engine, "it is given back", || open.file_disks(found.volume).is_empty()).await;
    let file = found.file;
    let read = scene.with(async move |volume, caller| {
        let mode = OpenMode { read: true, write: false, truncate: false };
        let handle = volume.open(&caller, file, mode).await?;
        let bytes = volume.read(&handle, 0, 128 << 10).await?.to_vec();
        volume.close(handle).await.map(|()| bytes)
    });
    let read = read.await.unwrap();
    assert!(read[..64 << 10].iter().all(|byte| *byte == 7) && read[64 << 10..].iter().all(|byte| *byte == 0));
    // One that was made for nothing goes, one that was there stays.
    let made = Some(NewDisk { size_bytes: MIB, allocates: true });
    let (_, made) = engine.find_file("tank/files:/made", made).await.unwrap();
    engine.unmake_file(open, &made).await;
    assert_eq!(engine.find_file("tank/files:/made", None).await.err().unwrap().code, Code::NotFound);
    let (_, found) = engine.find_file("tank/files:/disk", None).await.unwrap();
    engine.unmake_file(open, &found).await;
    engine.find_file("tank/files:/disk", None).await.unwrap();
    let much = Some(NewDisk { size_bytes: 1 << 40, allocates: true });
    assert_eq!(engine.find_file("tank/files:/much", much).await.err().unwrap().code, Code::NoSpace);
    assert_eq!(engine.find_file("tank/files:/much", None).await.err().unwrap().code, Code::NotFound, "nothing is left");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_neither_destroyed_nor_taken_away_while_files_of_it_are_disks_and_closing_ends_them() {
    let rig = Rig::new();
    let scene = Scene::new(&rig).await;
    let Scene { engine, open, .. } = &scene;
    let found = scene.make("tank/files:/disk").await;
    let disk = scene.attach(&found).await.unwrap();
    scene.fill(&disk, 3).await;
    let refused = engine.destroy_volume(VOLUME.into(), true, true).await.unwrap_err();
    assert!(refused.message.contains("clients use /disk as a disk"), "{refused}");
    let refused = crate::volumes::take_away(open, found.volume, true).await.unwrap_err();
    assert!(refused.message.contains("clients use /disk as a disk"), "{refused}");
    engine.export_pool("tank".into()).await.unwrap();
    let gone = disk.disk.object.clone();
    let asked = engine.on_reactor(move || async move { gone.read(0, IoBuf::new(4096)).await.map(drop) });
    assert_eq!(asked.await.unwrap().unwrap_err().kind, holdfast_device::IoErrorKind::Gone);
    engine.shutdown().await;
}

/// Lets a disk's reactor do nothing until what is answered is dropped.
fn halt(held: &HeldDisk) -> std::sync::mpsc::Sender<()> {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    drop(held.reactor.call(move || async move { _ = gate.recv() }));
    go
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_ends_is_waited_for_by_who_asks_for_it_again_and_by_who_closes_its_volume() {
    const MOMENT: Duration = Duration::from_millis(200);
    let rig = Rig::new();
    let scene = Arc::new(Scene::new(&rig).await);
    let open = &scene.open;
    let found = Arc::new(scene.make("tank/files:/disk").await);
    let disk = scene.attach(&found).await.unwrap();
    let (first, go) = (disk.disk.clone(), halt(&disk));
    let releasing = tokio::spawn(disk.release());
    tokio::time::sleep(MOMENT).await;
    assert_eq!(open.file_disks(found.volume), ["/disk"], "it has not ended");
    let refused = crate::volumes::take_away(open, found.volume, true).await.unwrap_err();
    assert!(refused.message.contains("clients use /disk as a disk"), "{refused}");
    let (asking, of) = (scene.clone(), found.clone());
    let mut again = tokio::spawn(async move { asking.attach(&of).await });
    assert!(tokio::time::timeout(MOMENT, &mut again).await.is_err(), "it waits for the end of the first");
    drop(go);
    releasing.await.unwrap();
    let disk = again.await.unwrap().unwrap();
    assert!(*first.ended.borrow() && !Arc::ptr_eq(&first, &disk.disk));
    // One that is dropped, too.
    let (second, go) = (disk.disk.clone(), halt(&disk));
    drop(disk);
    tokio::time::sleep(MOMENT).await;
    assert_eq!(open.file_disks(found.volume), ["/disk"], "it has not ended");
    let closer = scene.clone();
    let mut closing = tokio::spawn(async move { closer.engine.close_volumes(&closer.open).await });
    assert!(tokio::time::timeout(MOMENT, &mut closing).await.is_err(), "it waits for the end of the disk");
    assert_eq!(scene.volume.failure(), None, "the volume is open");
    drop(go);
    closing.await.unwrap();
    assert!(*second.ended.borrow() && scene.volume.failure().is_some());
    scene.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_goes_with_an_open_that_was_kept_goes_when_it_is_to_be_a_disk() {
    let rig = Rig::new();
    let scene = Scene::new(&rig).await;
    let Scene { engine, open, volume } = &scene;
    let opens = open.volumes()["files"].open.as_ref().unwrap().opens.clone();
    let kept = |found: &FoundFile, name: &[u8]| {
        let root = volume.root();
        let link = LinkName { directory: root.number, generation: root.generation, name: name.to_vec() };
        let request = OpenRequest {
            file: Opens::new(opens.clone(), VOLUME_IN_TABLE).key(found.file),
            client: ClientId(7),
            protocol: "test",
            access: Access::READ.and(Access::WRITE).and(Access::DELETE),
            share: Access::NONE,
            ignores_denials: false,
            excludes_all: false,
            overwrites: false,
            delete_on_close: Some(link.to_link()),
            lease: None,
            waits_for_kept: false,
            recall: Arc::new(Nothing),
        };
        let now = reactor::clock().now();
        let opened = match opens.poll_open(&request, &mut Waiting::new(), now, Waker::noop()) {
            Poll::Ready(Ok(Opening::Opened(opened))) => opened.seat,
            other => panic!("{other:?}"),
        };
        let keep = Keep { key: 1, deadline: now + Duration::from_secs(600), sticky: false };
        opens.put_aside(&opened, keep, now).unwrap();
    };
    let found = scene.make("tank/files:/gone").await;
    kept(&found, b"gone");
    let refused = scene.attach(&found).await.err().unwrap();
    assert!(refused.message.contains("it is being removed"), "{refused}");
    assert_eq!(engine.find_file("tank/files:/gone", None).await.err().unwrap().code, Code::NotFound);
    // By a name that is not its own it does not go, and is a file like any then.
    let found = scene.make("tank/files:/stays").await;
    kept(&found, b"another");
    let refused = scene.attach(&found).await.err().unwrap();
    assert!(refused.message.contains("it is being removed"), "{refused}");
    assert!(scene.asks(&found, Access::WRITE), "it is not refused for good");
    scene.attach(&found).await.unwrap().release().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_a_volume_that_was_closed_is_no_user_of_the_one_that_its_file_became_since() {
    let rig = Rig::new();
    let scene = Scene::new(&rig).await;
    let Scene { engine, open, .. } = &scene;
    let found = scene.make("tank/files:/disk").await;
    let before = scene.attach(&found).await.unwrap();
    let known = open.volumes()["files"].known.clone();
    engine.close_volumes(open).await;
    engine.open_volume(open, known).await;
    let since = scene.attach(&found).await.unwrap();
    assert!(!Arc::ptr_eq(&before.disk, &since.disk));
    before.release().await;
    assert_eq!(open.file_disks(found.volume), ["/disk"], "it has its user");
    scene.fill(&since, 5).await;
    since.release().await;
    assert_eq!(open.file_disks(found.volume), Vec::<String>::new());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_restored_over_a_disk_however_deep_and_by_whatever_name() {
    let rig = Rig::new();
    let scene = Scene::new(&rig).await;
    let Scene { engine, .. } = &scene;
    scene
        .with(async |volume, caller| {
            let new = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
            let dir = volume.create(&caller, volume.root(), b"dir", &new).await?.id;
            volume.create(&caller, dir, b"below", &new).await.map(drop)
        })
        .await
        .unwrap();
    let found = scene.make("tank/files:/dir/below/disk").await;
    scene.engine.find_file("tank/files:/other", SPARSE).await.unwrap();
    engine.create_snapshot(VOLUME.into(), CreateSnapshot { name: "then".into() }).await.unwrap();
    let disk = scene.attach(&found).await.unwrap();
    scene.fill(&disk, 9).await;
    let file = found.file;
    scene
        .with(async move |volume, caller| {
            // By another name, too.
            let dir = volume.lookup(&caller, volume.root(), b"dir").await?.unwrap().id;
            volume.link(&caller, file, dir, b"linked").await.map(drop)
        })
        .await
        .unwrap();
    let restore = |path: &str, to: Option<&str>| {
        let request =
            RestoreSnapshot { path: path.into(), to: to.map(Into::into), keep: false, pace: SetPace::default() };
        engine.restore_snapshot(VOLUME.into(), "then".into(), request, true)
    };
    for path in ["/", "/dir", "/dir/below", "/dir/below/disk"] {
        let refused = restore(path, None).await.unwrap_err();
        assert!(refused.message.contains("as a disk"), "{path}: {refused}");
        assert!(refused.next_action.contains("lun remove"), "{refused}");
    }
    for (path, to) in [("/other", None), ("/dir/below/disk", Some("/copy"))] {
        let job = restore(path, to).await.unwrap().job;
        eventually(engine, path, || engine.job(job.id).unwrap().state == JobState::Done).await;
    }
    // Where it is found only on the way, it stays all the same.
    let (was, is) = (scene.volume.open_snapshot("then").unwrap(), scene.volume.clone());
    let halted = engine.on_reactor(move || async move {
        struct Goes;
        impl holdfast_volume::Steps for Goes {
            fn step(&self, _: u64) -> std::pin::Pin<Box<dyn Future<Output = bool> + '_>> {
                Box::pin(async { true })
            }
            fn done(&self, _: u64) {}
        }
        let tell = |_| -> std::pin::Pin<Box<dyn Future<Output = ()>>> { Box::pin(async {}) };
        crate::volumes::Revert::new(("then", &was), &is, &Goes, &tell).run("/dir", None).await.map(drop)
    });
    match halted.await.unwrap() {
        Err(crate::volumes::Unreverted::Failed(failed)) => assert_eq!(failed.error.kind, ErrorKind::Busy),
        other => panic!("{other:?}"),
    }
    let object = disk.disk.object.clone();
    let kept = engine.on_reactor(move || async move { object.read(0, IoBuf::new(4096)).await.unwrap().to_vec() });
    assert!(kept.await.unwrap().iter().all(|byte| *byte == 9));
    disk.release().await;
    engine.shutdown().await;
}

#[test]
fn paths_are_below_those_that_they_begin_with_by_whole_names() {
    for (path, above, expected) in [
        ("/a/b", "/", true),
        ("/a/b", "/a", true),
        ("/a/b", "a/", true),
        ("/a/b", "/a/b", true),
        ("/ab", "/a", false),
        ("/a", "/a/b", false),
    ] {
        assert_eq!(is_within(path.as_bytes(), above), expected, "{path} {above}");
    }
}

/// Makes a disk while the volume makes all durable again and again, and the power goes after so many writes; answers what
/// is there then by its name.
fn made_until(cut: u64) -> Option<Attributes> {
    let sim = Sim::new(cut);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let open = async |disk: &Arc<SimDisk>| {
        let volume = Volume::open(disk.clone(), Settings::default(), Arc::new(Time::default)).await;
        Arc::new(volume.expect("it opens"))
    };
    let formatted = disk.clone();
    let format = async move {
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        let device: Arc<dyn Device> = formatted.clone();
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        open(&formatted).await
    };
    let volume = sim.run(format).expect("powered");
    let clock = sim.clock();
    sim.cut_power_after(cut);
    _ = sim.run(async move {
        let new = NewDisk { size_bytes: 8 * MIB, allocates: true };
        let keeping = std::pin::pin!(async {
            while volume.sync().await.is_ok() {
                clock.sleep(Duration::from_micros(10)).await;
            }
        });
        match select(std::pin::pin!(make(&volume, volume.root(), b"disk", new)), keeping).await {
            Either::Left((made, _)) => drop(made.expect("made")),
            Either::Right(_) => panic!("it takes changes"),
        }
    });
    sim.restart();
    let found = async move {
        let volume = open(&disk).await;
        volume.lookup(&administrator(), volume.root(), b"disk").await.expect("it can be looked for")
    };
    sim.run(found).expect("powered")
}

#[test]
fn a_name_is_never_that_of_half_a_disk() {
    let found: Vec<Option<Attributes>> = (0..40).map(made_until).collect();
    for (cut, found) in found.iter().enumerate().filter_map(|(cut, found)| Some((cut, found.as_ref()?))) {
        assert_eq!((found.size_bytes, found.allocated_bytes), (8 * MIB, 8 * MIB), "after {cut} writes");
    }
    assert!(found[0].is_none() && found[39].is_some());
}
