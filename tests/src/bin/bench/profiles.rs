//! The five load profiles.

/// A load.
pub struct Profile {
    /// Its name on command lines.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Its options for fio.
    pub options: &'static [&'static str],
}

/// All of them.
pub const PROFILES: &[Profile] = &[
    Profile { key: "file-copy", name: "file copy", options: &["--rw=randrw", "--rwmixread=50", "--bs=64k"] },
    Profile { key: "file-server", name: "file server", options: &["--rw=randrw", "--rwmixread=67", "--bs=64k"] },
    Profile { key: "database", name: "database", options: &["--rw=randrw", "--rwmixread=67", "--bs=8k"] },
    Profile { key: "streaming", name: "streaming", options: &["--rw=read", "--bs=64k"] },
    Profile { key: "restore", name: "restore", options: &["--rw=write", "--bs=64k"] },
];
