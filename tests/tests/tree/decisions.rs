//! Pages of decisions: each has the one form, a number of its own, and a line in the index.

use std::collections::BTreeSet;

const SECTIONS: &[&str] = &["## Context", "## Decision", "## Consequences"];

#[test]
fn every_decision_has_the_form_and_a_line_in_the_index() {
    let folder = super::root().join("docs/decisions");
    let index = std::fs::read_to_string(folder.join("README.md")).expect("there is an index");
    let (mut faults, mut numbers) = (Vec::new(), BTreeSet::new());
    for entry in std::fs::read_dir(&folder).expect("there are decisions") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        let Some(number) = name.get(..4).and_then(|digits| digits.parse::<u32>().ok()) else { continue };
        let text = std::fs::read_to_string(&path).expect("a page is text");
        let title = format!("# {number}. ");
        let mut want = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("{name}: {what}"));
            }
        };
        want(numbers.insert(number), "another page has its number");
        want(text.starts_with(&title), "its title begins with its number");
        want(text.contains("\n**Status:** "), "it says no status");
        for section in SECTIONS {
            let opens =
                |line: &str| line.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
            want(text.lines().any(opens), section);
        }
        want(index.contains(&format!("]({name})")), "the index does not name it");
    }
    assert!(!numbers.is_empty() && faults.is_empty(), "{}", faults.join("\n"));
}
