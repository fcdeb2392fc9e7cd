//! What a run is told by its environment.

use std::path::PathBuf;

use holdfast_tests::rounds::{number, text};

use crate::profiles::{PROFILES, Profile};
use crate::subjects::SUBJECTS;

/// How a run goes.
pub struct Settings {
    /// Turns of every subject at every profile and depth.
    pub rounds: usize,
    /// Seconds of a turn.
    pub runtime: f64,
    /// Whether servers and client are held to a core each.
    pub pin: bool,
    /// Whether the machine has other work, which servers and client go ahead of.
    pub shared: bool,
    /// The daemon of an older build, to compare with.
    pub before: Option<PathBuf>,
    /// Bytes that subjects serve.
    pub size_bytes: u64,
    /// Load profiles.
    pub profiles: Vec<&'static Profile>,
    /// Requests outstanding.
    pub depths: Vec<u32>,
    /// Names of subjects.
    pub subjects: Vec<&'static str>,
}

fn chosen<'a, T>(name: &str, all: &'a [T], key: impl Fn(&T) -> String) -> Vec<&'a T> {
    let Some(text) = text(name) else { return all.iter().collect() };
    let find = |word: &str| {
        let known = || all.iter().map(&key).collect::<Vec<_>>().join(", ");
        all.iter().find(|one| key(one) == word).unwrap_or_else(|| panic!("{name}: '{word}' is none of {}", known()))
    };
    text.split(',').map(find).collect()
}

fn subjects() -> Vec<&'static str> {
    let named = chosen("SUBJECTS", SUBJECTS, |&name| name.to_owned()).into_iter().copied();
    let by_default = |name: &str| !name.ends_with("-plain") && (!name.ends_with("-before") || before().is_some());
    named.filter(|name| text("SUBJECTS").is_some() || by_default(name)).collect()
}

fn before() -> Option<PathBuf> {
    text("HOLDFAST_BEFORE").map(PathBuf::from)
}

impl Settings {
    /// Reads the environment.
    pub fn from_environment() -> Self {
        let quick = text("QUICK").is_some_and(|text| text != "0");
        Self {
            rounds: number("ROUNDS", if quick { 1 } else { 5 }),
            runtime: number("RUNTIME", if quick { 1.0 } else { 2.0 }),
            pin: text("PIN").is_some_and(|text| text != "0"),
            shared: text("SHARED").is_some_and(|text| text != "0"),
            before: before(),
            size_bytes: number("SIZE_MIB", 1024u64) << 20,
            profiles: chosen("PROFILES", PROFILES, |profile| profile.key.to_owned()),
            depths: chosen("DEPTHS", &[1, 8, 32], u32::to_string).into_iter().copied().collect(),
            subjects: subjects(),
        }
    }
}
