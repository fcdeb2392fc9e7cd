//! libiscsi's suite against the daemon: every test passes that applies, and each that does not has its reason here.

use std::fs::File;
use std::net::SocketAddr;

use holdfast_tests::iscsi::suite::{self, Score, Verdict};
use holdfast_tests::iscsi::tgt::{self, Tgt};
use holdfast_tests::iscsi::tools::Place;
use holdfast_tests::scene::Scene;

use crate::product::{Product, TARGET};

/// Tests that skip themselves, by their beginnings, and why that is right.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    ("SCSI.PreventAllow.", "nothing is removable"),
    ("SCSI.StartStopUnit.Simple", "nothing is removable"),
    ("SCSI.ReadDefectData", "obsolete for units without a medium of their own: not offered"),
    ("SCSI.Sanitize.", "spaces are not sanitized by initiators: not offered"),
    ("SCSI.WriteAtomic16.", "not offered"),
];

/// What differs from what is expected, a line for each test.
fn surprises(score: &Score, not_applicable: &[(&str, &str)]) -> Vec<String> {
    let reason = |name: &str| not_applicable.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| *why);
    let surprise = |(name, verdict): (&String, &Verdict)| match (verdict, reason(name)) {
        (Verdict::Passed, _) | (Verdict::Skipped(_), Some(_)) => None,
        (Verdict::Skipped(why), None) => Some(format!("{name} skips itself: {why}")),
        (Verdict::Failed(why), _) => Some(format!("{name} fails: {why}")),
    };
    score.iter().filter_map(surprise).collect()
}

/// The score of a family for people.
fn told(score: &Score, family: &str) -> String {
    let (passed, all) = suite::passed(score, family);
    format!("{passed} of {all} {} tests", family.trim_end_matches('.'))
}

/// Tests that fail for reasons of their own.
const BROKEN: &[(&str, &str)] = &[
    ("iSCSI.iSCSITMF.LUNResetSimpleAsync", "the program damages its own memory, with every target that is fast enough"),
    (
        "SCSI.ExtendedCopy.ValidSegDescr",
        "it wants a copy past the end to be aborted for no reason; ours says for which",
    ),
    ("SCSI.WriteSame10.UnmapUntilEnd", "it sends a block of 0xff to be written everywhere, and wants to read zeros"),
];

/// Tests that want units of their own.
const BLOCKS_512: &[&str] = &["SCSI.GetLBAStatus.UnmapSingle"];
const READ_ONLY: &[&str] = &["SCSI.ReadOnly.ReadOnlySBC"];
/// It compares with zeros that it has not written.
const BLANK: &[&str] = &["SCSI.MultipathIO.CompareAndWrite"];

#[test]
fn every_test_passes_that_applies() {
    let product = Product::open(2);
    let daemon = &product.daemon;
    let urls = |target: &str, options: &[&str]| {
        let name = format!("{TARGET}-{target}");
        let space = format!("tank/{target}");
        daemon.please(&["target", "create", target, "--iqn", &name, "--open"]);
        daemon.please(&["space", "create", &space, "--layout", "simple", "--thin", "--size", "256MiB"]);
        daemon.please(&[&["lun", "add", target, &space, "--lun", "0"], options].concat());
        let url = |address: &SocketAddr| Place::new(*address, &name, 0).url();
        product.addresses.iter().map(url).collect::<Vec<_>>()
    };
    let lanes = [urls("one", &[]), urls("two", &[])];
    let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut names = suite::names();
    let all = names.len();
    let elsewhere = [BLOCKS_512, READ_ONLY, BLANK].concat();
    names.retain(|name| BROKEN.iter().all(|(broken, _)| name != broken) && !elsewhere.contains(&name.as_str()));
    assert_eq!(names.len() + elsewhere.len() + BROKEN.len(), all, "a test that the suite does not have");
    let mut score = suite::score(&names, &lanes);
    score.extend(suite::score(&own(BLOCKS_512), &[urls("small", &["--block", "512"])]));
    score.extend(suite::score(&own(READ_ONLY), &[urls("fixed", &["--read-only"])]));
    score.extend(suite::score(&own(BLANK), &[urls("blank", &[])]));
    println!("{}, {}", told(&score, "SCSI."), told(&score, "iSCSI."));
    let surprises = surprises(&score, NOT_APPLICABLE);
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

/// The score of Debian's target, for `docs/suites.md`; what it does is no business of ours.
#[test]
#[ignore = "measures another program"]
fn the_score_of_the_peer() {
    let scene = Scene::new();
    let mut tgt = Tgt::start(&scene, 1);
    let path = scene.path("unit");
    File::create(&path).and_then(|file| file.set_len(256 << 20)).expect("a file can be made");
    let lun = tgt.add(&path, &[]);
    tgt.admin("--op update --mode logicalunit --tid 1 --params thin_provisioning=1 --lun", &[&lun.to_string()]);
    let url = Place::new(tgt.address(), tgt::TARGET, lun).url();
    let score = suite::score(&suite::names(), &[vec![url.clone(), url]]);
    println!("{}, {}", told(&score, "SCSI."), told(&score, "iSCSI."));
}
