//! Why a restore did not come to its end, and what is as it was before by then.
//!
//! Invariant: of what was to be restored, all is, but what is told here, with all below it.

use holdfast_model::{ByteSize, counted};
use holdfast_volume::VolumeError;
use holdfast_volume::service::FileService;

use super::super::acl::administrator;
use super::{Level, Revert, Reverted, shown};

/// Paths that are told, at most.
const TOLD: usize = 10;
/// Names that are read to find them.
const READ: usize = 64;

/// Why it did not come to its end.
#[derive(Debug)]
pub(crate) enum Unreverted {
    /// It was stopped.
    Stopped,
    /// The snapshot has no such file.
    NoFile,
    /// What is at this path as it is keeps the other from being made.
    InTheWay(String),
    /// The volume failed.
    Failed(Box<Failed>),
}

/// Where and why the volume failed, and how far it was.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The path.
    pub(crate) at: String,
    /// Whether all below it is restored, and only what is known of the directory itself is not.
    pub(crate) is_below: bool,
    pub(crate) error: VolumeError,
    /// What was done by then.
    pub(crate) done: Reverted,
    /// What was not come by, in the order in which it would have been.
    pub(crate) left: Left,
}

/// What is as it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Paths, the first of them.
    pub(crate) paths: Vec<String>,
    /// Directories that have more of them.
    pub(crate) more_in: Vec<String>,
}

impl Left {
    fn add(&mut self, directory: &str, path: String) {
        if self.paths.len() < TOLD {
            self.paths.push(path);
        } else if self.more_in.last().is_none_or(|last| last != directory) {
            self.more_in.push(directory.to_owned());
        }
    }
}

impl Failed {
    /// What is restored and what is not, in words.
    pub(crate) fn extent(&self) -> String {
        let Reverted { restored, removed, bytes } = self.done;
        let restored = counted(restored, "file or directory", "files and directories");
        let own = if self.is_below { "the attributes of " } else { "" };
        let mut text = format!(
            "before that, {restored} restored, {} written, {removed} removed; not restored are {own}{}",
            ByteSize(bytes),
            self.at
        );
        for path in &self.left.paths {
            text = format!("{text}, {path}");
        }
        if !self.left.more_in.is_empty() {
            text = format!("{text}, and more in {}", self.left.more_in.join(", "));
        }
        if !self.is_below || !self.left.paths.is_empty() {
            text += ", each with all below";
        }
        text + "; the rest is as the snapshot has it"
    }
}

impl Revert<'_> {
    /// Notes what directories that are being restored have beyond what was come by, where the volume failed.
    pub(super) async fn note_left(&mut self, above: usize, levels: &[Level]) {
        let mut left = Left::default();
        // The innermost comes first.
        for (depth, level) in levels.iter().enumerate().rev() {
            let directory = shown(&self.path[..(above + depth).min(self.path.len())]);
            if !level.is_clean {
                // Names that the snapshot has not come first.
                left.add(&directory, directory.clone());
                continue;
            }
            let mut cursor = level.cursor;
            loop {
                let Ok(entries) = self.was.list(&administrator(), level.was, cursor, READ, false).await else {
                    left.add(&directory, format!("what else is in {directory}"));
                    break;
                };
                let Some(last) = entries.last() else { break };
                cursor = last.cursor;
                let begun = directory.trim_end_matches('/');
                for entry in &entries {
                    left.add(&directory, format!("{begun}/{}", String::from_utf8_lossy(&entry.name)));
                }
                if left.more_in.last() == Some(&directory) {
                    break;
                }
            }
        }
        self.left = left;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_volume::ErrorKind;

    use super::*;

    #[test]
    fn what_is_left_is_told_and_no_more_than_is_read() {
        let mut left = Left::default();
        (0..12).for_each(|number| left.add("/a", format!("/a/{number}")));
        (0..2).for_each(|number| left.add("/", format!("/{number}")));
        assert_eq!((left.paths.len(), &left.more_in[..]), (10, &["/a".to_owned(), "/".into()][..]));
        left.paths.truncate(2);
        let error = VolumeError::new(ErrorKind::NoSpace, "full");
        let mut failed = Failed {
            at: "/a/b/c".into(),
            is_below: false,
            error,
            done: Reverted { restored: 1, removed: 2, bytes: 4096 },
            left,
        };
        let told = "before that, 1 file or directory restored, 4 KiB written, 2 removed; not restored are /a/b/c, \
                    /a/0, /a/1, and more in /a, /, each with all below; the rest is as the snapshot has it";
        assert_eq!(failed.extent(), told);
        (failed.at, failed.is_below, failed.left) = ("/".into(), true, Left::default());
        assert!(failed.extent().ends_with("not restored are the attributes of /; the rest is as the snapshot has it"));
    }
}
