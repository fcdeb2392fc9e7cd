//! Salvages of volumes: what Windows knows of files is in the copy, too.

use holdfast_identity::sddl;
use holdfast_volume::VolumeError;
use holdfast_volume::service::{
    Caller, DosAttributes, FileKind, FileService, MOUNT_POINT_TAG, NewFile, ReparsePoint, SecurityParts, SetAttributes,
    SetMode,
};
use serde_json::Value;

use super::*;

const SDDL: &str = "O:BAG:BAD:P(D;;WD;;;S-1-5-21-1-2-3-1001)(A;OICI;FA;;;BA)";

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_attributes_and_streams_are_in_the_copy() {
    let rig = Rig::new();
    let engine = rig.with_volume().await;
    let asked = volume(&engine);
    let made = engine.on_reactor(move || async move {
        let (caller, root) = (Caller::default(), asked.root());
        let of = |kind| NewFile { kind, mode: 0o750, target: b"" };
        let dir = asked.create(&caller, root, b"dir", &of(FileKind::Directory)).await?.id;
        let file = asked.create(&caller, dir, b"report", &of(FileKind::Regular)).await?.id;
        let mount = asked.create(&caller, dir, b"mount", &of(FileKind::Directory)).await?.id;
        asked.create(&caller, dir, b"plain", &of(FileKind::Regular)).await?;
        let own = sddl::parse(SDDL, None).expect("it is one");
        asked.set_security(&caller, file, SecurityParts::all(), &own).await?;
        let hidden = SetAttributes { dos: Some(DosAttributes::HIDDEN), ..SetAttributes::default() };
        asked.set(&caller, file, &hidden).await?;
        for (id, name, len) in [(file, "Zone.Identifier", 26), (file, "..", 5000), (dir, "AFP", 0)] {
            asked.create_stream(&caller, id, name.as_bytes(), SetMode::Create).await?;
            if len > 0 {
                asked.write_stream(&caller, id, name.as_bytes(), 0, &vec![len as u8; len]).await?;
            }
        }
        asked.set_reparse(&caller, mount, &ReparsePoint { tag: MOUNT_POINT_TAG, guid: None, data: vec![1, 2] }).await?;
        asked.sync().await?;
        Ok::<_, VolumeError>(())
    });
    made.await.unwrap().unwrap();
    let to = rig.path("rescued").display().to_string();
    let id = engine.salvage_volume(VOLUME.into(), to.clone(), false, SetPace::default()).await.unwrap().job.id;
    let done = until_in(&engine, id, JobState::Done).await;
    assert!(done.result.as_deref().is_some_and(|result| result.contains("nothing is missing")), "{done:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(format!("{to}/report.json")).unwrap()).unwrap();
    assert_eq!((&report["streams"], &report["complete"]), (&3.into(), &true.into()), "{report}");
    let lines = std::fs::read_to_string(format!("{to}/beside.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |path: &str| lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{path}: {lines:?}"));
    assert_eq!(lines.len(), 3, "{lines:?}");
    let file = of("dir/report");
    assert!(file["path_bytes"].is_null(), "{file}");
    assert_eq!(sddl::parse(file["sddl"].as_str().unwrap(), None), sddl::parse(SDDL, None), "{file}");
    assert!(file["attributes"].as_array().unwrap().contains(&"hidden".into()), "{file}");
    assert_eq!(of("dir/mount")["reparse"], serde_json::json!({ "tag": "0xa0000003", "data": "0102" }));
    let mut streams: Vec<(String, Vec<u8>)> = Vec::new();
    for stream in lines.iter().flat_map(|line| line["streams"].as_array().cloned().unwrap_or_default()) {
        let bytes = std::fs::read(format!("{to}/{}", stream["file"].as_str().unwrap())).unwrap();
        assert_eq!(stream["bytes"], bytes.len());
        streams.push((stream["name"].as_str().unwrap().to_owned(), bytes));
    }
    streams.sort();
    let expected = [("..", 5000), ("AFP", 0), ("Zone.Identifier", 26)];
    assert_eq!(streams, expected.map(|(name, len)| (name.to_owned(), vec![len as u8; len])));
    engine.shutdown().await;
}
