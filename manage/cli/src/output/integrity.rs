//! What files keep to prove their data, and what was lost.

use holdfast_api::{DamagedBlock, FileIntegrity, word};

use super::{Shown, facts, harmless, table};

impl Shown for FileIntegrity {
    fn text(&self) -> String {
        facts(&[("path", harmless(&self.path)), ("integrity", word(&self.mode))])
    }
}

impl Shown for Vec<DamagedBlock> {
    fn text(&self) -> String {
        if self.is_empty() {
            return "no block of a strict file is known to be lost".into();
        }
        let whose = |one: &DamagedBlock| if one.snapshot { "a snapshot" } else { "the file" };
        let rows = self.iter().map(|one| vec![one.file.to_string(), one.offset.to_string(), whose(one).to_owned()]);
        table(&["FILE", "AT BYTE", "IN"], rows)
    }
}
