//! What happens in a round. Each begins with the daemon running and all in step, and ends with the daemon running and
//! all disks back.

use std::fs::File;
use std::os::unix::fs::FileExt;

use holdfast_tests::command::run;
use holdfast_tests::load::Refusals;
use serde_json::Value;

use super::stage::{DISK_BYTES, Stage, path};

/// What a disk of this size keeps of its pool, before its slabs and behind them.
const RESERVED_BYTES: u64 = 4 << 20;
const LABEL_BYTES: u64 = 4 << 10;
/// Header and maps of a slab.
const HEAD_BYTES: u64 = 64 << 10;
/// Longer than the daemon needs to notice that a disk is gone.
const NOTICE_MS: u64 = 1800;

type Act = fn(&mut Stage);

pub const ALL: &[(&str, Act)] = &[
    ("kill", kill),
    ("end", end),
    ("frozen", frozen),
    ("away-at-end", away_at_end),
    ("away-at-kill", away_at_kill),
    ("group-at-end", group_at_end),
    ("group-at-kill", group_at_kill),
    ("older-image", older_image),
    ("slabs-written-over", slabs_written_over),
];

fn kill(stage: &mut Stage) {
    stage.under_load(Refusals::Fault, |stage| stage.kill());
    stage.start();
    stage.whole("after the kill");
}

fn end(stage: &mut Stage) {
    stage.under_load(Refusals::Fault, |stage| stage.end_in_order());
    stage.settle();
    stage.start();
    stage.whole("after the end");
}

/// Ends the daemon by one or the other.
fn end_or_kill(stage: &mut Stage) {
    if stage.chance(2) {
        stage.under_load(Refusals::Fault, |stage| stage.end_in_order());
        stage.settle();
    } else {
        stage.under_load(Refusals::Fault, |stage| stage.kill());
    }
}

/// The process stands still for a while, again and again; disks may go and come meanwhile.
fn frozen(stage: &mut Stage) {
    let ends = stage.chance(2);
    let disks = stage.any(stage.layout.tolerance.min(1));
    stage.under_load(Refusals::Fault, |stage| {
        for turn in 0..2 {
            stage.tell("SIGSTOP");
            stage.daemon.freeze();
            if turn == 0 {
                disks.iter().for_each(|disk| stage.take(disk));
            }
            stage.sleep(300);
            if turn == 1 {
                disks.iter().for_each(|disk| stage.give(disk));
            }
            stage.tell("SIGCONT");
            stage.daemon.thaw();
            stage.sleep(if turn == 0 { NOTICE_MS } else { 300 });
        }
        if ends { stage.end_in_order() } else { stage.kill() }
    });
    if ends {
        stage.settle();
    }
    stage.start();
    stage.whole("after it stood still");
}

/// As many disks as may be lost, or one of a space that bears none, are away when the daemon ends.
fn away(stage: &mut Stage, ends: bool) {
    let bears = stage.layout.tolerance > 0;
    let refusals = if bears { Refusals::Fault } else { Refusals::Expected };
    let count = 1 + stage.random.below(stage.layout.tolerance.max(1) as u64) as usize;
    let disks = stage.any(count);
    let settled = stage.under_load(refusals, |stage| {
        disks.iter().for_each(|disk| stage.take(disk));
        stage.sleep(NOTICE_MS);
        match (ends, bears) {
            (true, true) => {
                stage.end_in_order();
                true
            }
            (true, false) => stage.end_without_disks(),
            (false, _) => {
                stage.kill();
                false
            }
        }
    });
    if settled {
        stage.settle();
    }
    if bears && stage.chance(2) {
        stage.start();
        stage.whole("without the disks");
        if stage.chance(2) {
            end_or_kill(stage);
            stage.start();
            stage.whole("without the disks, after another end");
        }
    }
    come_back(stage, disks);
}

fn away_at_end(stage: &mut Stage) {
    away(stage, true);
}

fn away_at_kill(stage: &mut Stage) {
    away(stage, false);
}

/// More disks of a row than may be lost are away when the daemon ends.
fn group(stage: &mut Stage, ends: bool) {
    if stage.rows(false).is_empty() {
        stage.under_load(Refusals::Fault, |stage| stage.end_in_order());
        stage.settle();
        stage.start();
    }
    let disks = stage.group();
    let settled = stage.under_load(Refusals::Expected, |stage| {
        for disk in &disks {
            stage.take(disk);
            if stage.chance(2) {
                stage.sleep(NOTICE_MS);
            }
        }
        stage.sleep(NOTICE_MS);
        if ends {
            return stage.end_without_disks();
        }
        stage.kill();
        false
    });
    if settled {
        stage.settle();
    }
    come_back(stage, disks);
}

fn group_at_end(stage: &mut Stage) {
    group(stage, true);
}

fn group_at_kill(stage: &mut Stage) {
    group(stage, false);
}

/// Disks come back in any order, some of them before the next start and some after it.
fn come_back(stage: &mut Stage, mut disks: Vec<String>) {
    stage.shuffle(&mut disks);
    if stage.daemon.pid() == 0 {
        let before = stage.random.below(disks.len() as u64 + 1) as usize;
        disks.drain(..before).for_each(|disk| stage.give(&disk));
        stage.start();
    }
    for disk in disks {
        stage.never_wrong("with disks away");
        stage.give(&disk);
        stage.sleep(NOTICE_MS);
    }
    stage.never_wrong("with all disks back");
}

/// A disk comes back as it was before the last run of the daemon.
fn older_image(stage: &mut Stage) {
    if stage.layout.tolerance == 0 {
        return end(stage);
    }
    stage.under_load(Refusals::Fault, |stage| stage.end_in_order());
    stage.settle();
    let disks = stage.any(1);
    let (disk, image) = (&disks[0], stage.scene.path("image"));
    run("cp", &["--sparse=always", disk, &image]).succeeded();
    stage.tell(format!("an image of {disk} is taken"));
    stage.start();
    end_or_kill(stage);
    std::fs::rename(&image, disk).expect("an image can be put in place");
    stage.tell("the image takes its place");
    stage.start();
    stage.whole("with the older image");
}

/// Parts of the slabs of as many disks as may be lost are written over while the daemon is down, label and log not.
fn slabs_written_over(stage: &mut Stage) {
    let bears = stage.layout.tolerance > 0;
    let slabs: Vec<Value> = stage.rows(false).into_iter().chain(stage.rows(true)).flatten().collect();
    let mut disks: Vec<String> = slabs.iter().map(path).collect();
    disks.sort();
    disks.dedup();
    stage.shuffle(&mut disks);
    disks.truncate(1 + stage.random.below(stage.layout.tolerance.max(1) as u64) as usize);
    stage.under_load(Refusals::Fault, |stage| stage.end_in_order());
    stage.settle();
    let byte = if stage.chance(2) { 0x00 } else { 0xff };
    let part = ["whole", "heads", "data"][stage.random.below(3) as usize];
    for disk in &disks {
        stage.tell(format!("{disk}: slabs written over with {byte:#04x}, {part}"));
        let of_disk = || slabs.iter().filter(|slab| path(slab) == *disk);
        let number = |slab: &Value, field: &str| slab[field].as_u64().expect("a number");
        match part {
            "whole" => write_over(disk, RESERVED_BYTES..DISK_BYTES - LABEL_BYTES, byte),
            "heads" => of_disk().for_each(|slab| {
                let start = number(slab, "offset_bytes");
                write_over(disk, start..start + HEAD_BYTES, byte);
            }),
            _ => of_disk().for_each(|slab| {
                let start = number(slab, "offset_bytes");
                write_over(disk, start + HEAD_BYTES..start + number(slab, "length_bytes"), byte);
            }),
        }
    }
    stage.start();
    if bears {
        stage.whole("with slabs written over");
        stage.scrub();
    } else {
        let unreadable = stage.never_wrong("with slabs written over");
        assert!(unreadable > 0, "what was written over has no copy, and yet can be read");
        stage.make_anew();
    }
}

fn write_over(disk: &str, range: std::ops::Range<u64>, byte: u8) {
    let file = File::options().write(true).open(disk).expect("a disk can be opened");
    let piece = vec![byte; 1 << 20];
    let mut at = range.start;
    while at < range.end {
        let len = (range.end - at).min(piece.len() as u64);
        file.write_all_at(&piece[..len as usize], at).expect("a disk can be written to");
        at += len;
    }
}
