//! Permissions of files.

use holdfast_api::{EffectiveAccess, FileAcl, Principal};

use super::{Shown, facts, harmless};

fn who(one: &Principal) -> String {
    match &one.name {
        Some(name) => format!("{} ({})", harmless(name), one.sid),
        None => one.sid.clone(),
    }
}

impl Shown for FileAcl {
    fn text(&self) -> String {
        let own = if self.own { "of its own" } else { "as owner, group and mode say" };
        let head = facts(&[
            ("path", harmless(&self.path)),
            ("permissions", own.into()),
            ("mode", self.mode.clone()),
            ("sddl", harmless(&self.sddl)),
        ]);
        let lines: Vec<String> = self.lines.iter().map(|line| harmless(line)).collect();
        format!("{head}\n\n{}", lines.join("\n"))
    }
}

impl Shown for EffectiveAccess {
    fn text(&self) -> String {
        let may = |may: bool| if may { "yes".to_owned() } else { "no".to_owned() };
        let groups: Vec<String> = self.groups.iter().map(who).collect();
        let head = facts(&[
            ("path", harmless(&self.path)),
            ("user", who(&self.user)),
            ("groups", groups.join(", ")),
            ("reads", may(self.reads)),
            ("writes", may(self.writes)),
            ("executes", may(self.executes)),
            ("deletes", may(self.deletes)),
            ("changes permissions", may(self.changes_permissions)),
        ]);
        let reasons: Vec<String> = self.reasons.iter().map(|reason| harmless(reason)).collect();
        format!("{head}\n\n{}", reasons.join("\n"))
    }
}
