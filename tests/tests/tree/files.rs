//! Source files: their length, their opening, and where `unsafe` may stand.

use std::path::{Path, PathBuf};

const MAX_LINES: usize = 700;
const FOLDERS: &[&str] = &["core", "serve", "manage", "lab", "tests", "fuzz"];
const UNSAFE_FOLDERS: &[&str] = &["core/device/", "core/parity/", "serve/vhost/"];

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

pub(super) fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let root = super::root();
    let mut paths = Vec::new();
    FOLDERS.iter().for_each(|folder| collect(&root.join(folder), &mut paths));
    let source = |path: PathBuf| Source {
        text: std::fs::read_to_string(&path).expect("a source file is text"),
        path: path.strip_prefix(&root).expect("it lies below the root").to_string_lossy().into_owned(),
    };
    paths.into_iter().map(source).collect()
}

fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let letter = |c: char| c.is_alphanumeric() || c == '_' || c == '"' || c == '`' || c == '\'';
    code.match_indices("unsafe").any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(letter) && !after.is_some_and(letter)
    })
}

#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_source_file_is_too_long() {
    let long = |source: &Source| !source.is_test() && source.text.lines().count() > MAX_LINES;
    let describe =
        |source: &Source| format!("{}: {} lines; is it two things?", source.path, source.text.lines().count());
    none(sources().iter().filter(|source| long(source)).map(describe).collect());
}

#[test]
fn every_source_file_opens_with_what_it_is_for() {
    let closed =
        |source: &Source| !source.is_test() && !source.text.starts_with("//!") && !source.text.starts_with("#![");
    none(sources().iter().filter(|source| closed(source)).map(|source| source.path.clone()).collect());
}

/// They are built without their tests, which nobody would miss.
#[test]
fn programs_that_measure_have_no_tests() {
    let word = "#[".to_owned() + "test]";
    let tested = |source: &Source| source.path.starts_with("tests/src/bin/") && source.text.contains(&word);
    none(sources().iter().filter(|source| tested(source)).map(|source| source.path.clone()).collect());
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| !UNSAFE_FOLDERS.iter().any(|folder| source.path.starts_with(folder)))
    {
        let lines = source.text.lines().enumerate().filter(|(_, line)| says_unsafe(line));
        faults.extend(lines.map(|(number, line)| format!("{}:{}: {}", source.path, number + 1, line.trim())));
    }
    none(faults);
}

#[test]
fn the_word_is_told_from_others() {
    let word = "un".to_owned() + "safe";
    assert!(says_unsafe(&format!("    {word} {{ call() }}")) && says_unsafe(&format!("pub {word} fn call();")));
    assert!(
        !says_unsafe("#![allow(unsafe_code)]") && !says_unsafe("call(); // unsafe") && !says_unsafe("find(\"unsafe\")")
    );
}
