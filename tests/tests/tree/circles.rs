//! The modules of a crate, and which use which: circles of them cannot be understood, tested or changed one at a time.
//!
//! An arrow leads from a module to every module of its crate that its code names, by `use` or by a path; a name that is
//! handed on by `pub use` leads to the module that defines it. Tests within the source are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files::collect;

/// Crates without circles of more files than that. In a type and its parts, the parts may name the type: what stands
/// below a module may use it where `parts` is set, and that alone makes no circle.
const CRATES: &[(&str, usize, bool)] =
    &[("core/identity", 1, true), ("core/pool", 3, false), ("core/pool", 1, true), ("core/space", 1, true)];

/// A module by its path; the crate itself has none.
type Module = Vec<String>;
type Arrows = BTreeMap<Module, BTreeSet<Module>>;

/// Code without comments, strings, and tests.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let without = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(without).collect::<Vec<_>>().join("\n")
}

/// The paths of a tree of uses.
fn paths_of(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((start, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut from, mut paths) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let one = inside[from..at].trim();
                paths
                    .extend(paths_of(one).into_iter().filter(|_| !one.is_empty()).map(|path| start.to_owned() + &path));
                from = at + 1;
            }
            _ => (),
        }
    }
    paths
}

/// The uses of some code, each with whether it hands its names on, and the code without them.
fn split_uses(code: &str) -> (Vec<(bool, String)>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        let at = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].trim_end();
            before.is_empty() || before.ends_with([';', '{', '}', ']', ')']) || before.ends_with("pub")
        });
        let Some(at) = at else {
            rest.push_str(statement);
            continue;
        };
        let handed_on =
            statement[..at].trim_end().lines().next_back().is_some_and(|line| line.trim().starts_with("pub"));
        let tree = statement[at + 4..].trim_end_matches(';').split_whitespace().collect::<Vec<_>>().join(" ");
        uses.extend(paths_of(&tree).into_iter().map(|path| (handed_on, path.replace(":: ", "::"))));
        rest.push_str(&statement[..at]);
    }
    (uses, rest)
}

/// Paths in the code that begin at the crate, the module above, or the module itself.
fn named_paths(code: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_word(c)).filter(|word| word.contains("::"));
    words.map(|word| word.trim_end_matches(':').to_owned()).collect()
}

/// The module that a path in another leads to, and what is left of the path there.
fn resolve(modules: &BTreeMap<Module, String>, from: &Module, path: &str) -> Option<(Module, Vec<String>)> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut at = match *parts.peek()? {
        "crate" => Module::new(),
        "self" | "super" => from.clone(),
        child => {
            let below = [from.as_slice(), &[child.to_owned()]].concat();
            modules.contains_key(&below).then(|| from.clone())?
        }
    };
    parts.next_if(|part| ["crate", "self"].contains(part));
    while parts.next_if_eq(&"super").is_some() {
        at.pop();
    }
    loop {
        let Some(part) = parts.peek() else { return Some((at, Vec::new())) };
        let below = [at.as_slice(), &[(*part).to_owned()]].concat();
        if !modules.contains_key(&below) {
            return Some((at, parts.map(str::to_owned).collect()));
        }
        at = below;
        parts.next();
    }
}

/// Which modules use which, by their sources.
fn arrows(sources: &BTreeMap<Module, String>) -> Arrows {
    let split: BTreeMap<&Module, _> =
        sources.iter().map(|(module, text)| (module, split_uses(&code_of(text)))).collect();
    let mut defined_in = BTreeMap::new();
    for (module, (uses, _)) in &split {
        for path in uses.iter().filter(|(handed_on, _)| *handed_on).map(|(_, path)| path) {
            if let Some((home, rest)) = resolve(sources, module, path)
                && let Some(name) = rest.first()
            {
                defined_in.insert(((*module).clone(), name.clone()), home);
            }
        }
    }
    let mut arrows = Arrows::new();
    for (module, (uses, rest)) in &split {
        let paths = uses.iter().map(|(_, path)| path.clone()).chain(named_paths(rest));
        for (mut home, rest) in paths.filter_map(|path| resolve(sources, module, &path)) {
            while let Some(next) = rest.first().and_then(|name| defined_in.get(&(home.clone(), name.clone()))) {
                home = next.clone();
            }
            if home != **module {
                arrows.entry((*module).clone()).or_default().insert(home);
            }
        }
    }
    arrows
}

/// Sets of modules that all lead to each other.
fn circles(arrows: &Arrows) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            next.extend(arrows.get(&module).into_iter().flatten().filter(|to| seen.insert((*to).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = arrows.keys().map(|from| (from, reached(from))).collect();
    let circle = |from: &Module| -> BTreeSet<Module> {
        let back = |to: &&Module| reached.get(to).is_some_and(|seen| seen.contains(from));
        reached[from].iter().filter(back).cloned().collect()
    };
    arrows.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The circles of these sources that are larger than `most`, each with its arrows.
fn faults(sources: &BTreeMap<Module, String>, most: usize, parts: bool) -> Vec<String> {
    let mut arrows = arrows(sources);
    if parts {
        arrows.iter_mut().for_each(|(from, to)| to.retain(|to| !from.starts_with(to)));
    }
    let name = |module: &Module| if module.is_empty() { "lib".to_owned() } else { module.join("/") };
    let describe = |circle: BTreeSet<Module>| {
        let lines = circle.iter().map(|from| {
            let to: Vec<String> = arrows[from].intersection(&circle).map(name).collect();
            format!("  {} uses {}", name(from), to.join(", "))
        });
        format!("a circle of {} files:\n{}", circle.len(), lines.collect::<Vec<_>>().join("\n"))
    };
    circles(&arrows).into_iter().filter(|circle| circle.len() > most).map(describe).collect()
}

fn sources_of(folder: &Path) -> BTreeMap<Module, String> {
    let mut paths = Vec::new();
    collect(folder, &mut paths);
    let module = |path: &Path| -> Module {
        let within = path.strip_prefix(folder).expect("it lies below").with_extension("");
        let parts = within.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts.filter(|part| part != "lib").collect()
    };
    let sources = paths.iter().map(|path| (module(path), std::fs::read_to_string(path).expect("a source is text")));
    sources.filter(|(module, _)| module.last().is_none_or(|last| last != "tests")).collect()
}

#[test]
fn modules_use_each_other_in_no_circle() {
    let mut found = Vec::new();
    for (name, most, parts) in CRATES {
        let sources = sources_of(&super::root().join(name).join("src"));
        assert!(sources.len() > 10 && arrows(&sources).len() > 10, "{name} has modules that use each other");
        found.extend(faults(&sources, *most, *parts).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_kind_of_use_is_an_arrow() {
    let circles = |sources: &[(&str, &str)]| {
        let module =
            |path: &str| -> Module { path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect() };
        let sources = sources.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect();
        (faults(&sources, 1, false).len(), faults(&sources, 1, true).len())
    };
    let back = ("b", "use crate::a::A;");
    assert_eq!(circles(&[("a", "use std::fmt;\n\nuse crate::b::B;"), back]), (1, 1));
    assert_eq!(circles(&[("a", "/// Doc.\npub use super::b::{B, C};"), back]), (1, 1));
    assert_eq!(circles(&[("a", "fn f() -> crate::b::B {\n    1\n}"), back]), (1, 1));
    assert_eq!(circles(&[("a", "use crate::{c::C, b::{B as D}};"), back, ("c", "")]), (1, 1));
    assert_eq!(circles(&[("a", "use crate::B;"), back, ("", "mod a;\nmod b;\n\npub use b::B;")]), (1, 1));
    assert_eq!(circles(&[("a", "// use crate::b::B;"), back]), (0, 0));
    assert_eq!(circles(&[("a", "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}"), back]), (0, 0));
    assert_eq!(circles(&[("a", "mod c;\n\nuse c::C;"), ("a/c", "use super::A;")]), (1, 0));
    assert_eq!(circles(&[("a", "use c::C;"), ("a/c", "use crate::b::B;"), back]), (1, 1));
    assert_eq!(circles(&[("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "")]), (0, 0));
}
