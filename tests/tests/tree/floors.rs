//! The workspace's dependency graph against the floors of the house: a crate knows only crates below its own.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Every crate, its folder and its height. Crates of one height do not know each other.
const CRATES: &[(&str, &str, u32)] = &[
    ("holdfast-harness", "core/harness", 0),
    ("holdfast-model", "core/model", 0),
    ("holdfast-opens", "core/opens", 1),
    ("holdfast-device", "core/device", 1),
    ("holdfast-identity", "core/identity", 1),
    ("holdfast-parity", "core/parity", 1),
    ("holdfast-pool", "core/pool", 2),
    ("holdfast-space", "core/space", 3),
    ("holdfast-volume", "core/volume", 4),
    ("holdfast-dedup", "core/dedup", 5),
    ("holdfast-vhdx", "core/vhdx", 5),
    ("holdfast-block", "serve/block", 9),
    ("holdfast-listener", "serve/listener", 9),
    ("holdfast-nbd", "serve/nbd", 10),
    ("holdfast-fuse", "serve/fuse", 10),
    ("holdfast-scsi", "serve/scsi", 10),
    ("holdfast-iscsi", "serve/iscsi", 11),
    ("holdfast-api", "manage/api", 20),
    ("holdfast-store", "manage/store", 20),
    ("holdfast-access", "manage/access", 21),
    ("holdfast-notify", "manage/notify", 21),
    ("holdfast-engine", "manage/engine", 22),
    ("holdfast-cluster", "manage/cluster", 23),
    ("holdfast-http", "manage/http", 24),
    ("holdfast", "manage/cli", 25),
    ("holdfast-lab", "lab", 30),
    ("holdfast-tests", "tests", 40),
];

/// All that a protocol front end knows of the storage behind it; of volumes, `FileService` and what it speaks of.
const KNOWN_TO_SERVE: &[&str] = &[
    "holdfast-harness",
    "holdfast-model",
    "holdfast-opens",
    "holdfast-device",
    "holdfast-identity",
    "holdfast-volume",
    "holdfast-block",
    "holdfast-listener",
    "holdfast-scsi",
];

/// What storage itself has no use for: a runtime, a network, a command line.
const UNKNOWN_TO_CORE: &[&str] =
    &["tokio", "hyper", "axum", "reqwest", "clap", "anyhow", "tracing-subscriber", "chrono", "time"];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(super::root())
        .output();
    let output = output.expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// What is wrong with crates of these folders and dependencies.
fn faults(crates: &BTreeMap<String, (String, Vec<String>)>) -> Vec<String> {
    let place = |name: &str| CRATES.iter().find(|(known, ..)| *known == name);
    let mut faults = Vec::new();
    for (name, (folder, dependencies)) in crates {
        let Some(&(_, expected, height)) = place(name) else {
            faults.push(format!("{name} in {folder} stands on no floor: give it one in tests/tests/tree/floors.rs"));
            continue;
        };
        if folder != expected {
            faults.push(format!("{name} lies in {folder}, not in {expected}"));
        }
        for dependency in dependencies {
            match place(dependency) {
                Some((_, _, below)) if *below >= height => {
                    faults.push(format!("{name} knows {dependency}, which is not below it"))
                }
                Some(_) if folder.starts_with("serve/") && !KNOWN_TO_SERVE.contains(&dependency.as_str()) => {
                    faults.push(format!("{name} is a front end and knows {dependency}"));
                }
                None if folder.starts_with("core/") && UNKNOWN_TO_CORE.contains(&dependency.as_str()) => {
                    faults.push(format!("{name} is storage and knows {dependency}"));
                }
                _ => (),
            }
        }
    }
    faults
}

#[test]
fn no_arrow_points_up() {
    let metadata = metadata();
    let root = metadata["workspace_root"].as_str().expect("a workspace has a root");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let crates = metadata["packages"].as_array().expect("packages").iter().map(|package| {
        let manifest = text(&package["manifest_path"]);
        let folder = manifest.trim_start_matches(root).trim_matches('/').trim_end_matches("/Cargo.toml").to_owned();
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        // The locks of tokio alone need no runtime, and are no wall clock.
        let needed =
            dependencies.filter(|one| !(one["name"] == "tokio" && one["features"] == serde_json::json!(["sync"])));
        (text(&package["name"]), (folder, needed.map(|dependency| text(&dependency["name"])).collect()))
    });
    let faults = faults(&crates.collect());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_kind_of_wrong_arrow_is_found() {
    let one = |name: &str, folder: &str, dependency: &str| {
        faults(&BTreeMap::from([(name.to_owned(), (folder.to_owned(), vec![dependency.to_owned()]))])).len()
    };
    assert_eq!(one("holdfast-space", "core/space", "holdfast-pool"), 0);
    assert_eq!(one("holdfast-pool", "core/pool", "holdfast-space"), 1);
    assert_eq!(one("holdfast-dedup", "core/dedup", "holdfast-vhdx"), 1);
    assert_eq!(one("holdfast-nbd", "serve/nbd", "holdfast-device"), 0);
    assert_eq!(one("holdfast-nbd", "serve/nbd", "holdfast-block"), 0);
    assert_eq!(one("holdfast-block", "serve/block", "holdfast-listener"), 1);
    assert_eq!(one("holdfast-nbd", "serve/nbd", "holdfast-space"), 1);
    assert_eq!(one("holdfast-device", "core/device", "tokio"), 1);
    assert_eq!(one("holdfast-device", "serve/device", "serde"), 1);
    assert_eq!(one("holdfast-new", "core/new", "serde"), 1);
}
