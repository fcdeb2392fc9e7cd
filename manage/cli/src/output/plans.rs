//! What plans look like: what would be moved, made and lost, and how full the disks would be.

use holdfast_api::{ConversionPlan, DiskBalance, EvacuationPlan, RebalancePlan, SpacePlan, VolumeShrinkPlan, word};
use holdfast_model::counted;

use super::{Shown, layout_text, or_dash, size, table};

impl Shown for ConversionPlan {
    fn text(&self) -> String {
        let resized = match self.least_size_bytes {
            Some(least) if self.lost_bytes > 0 => format!(
                "\nfrom {} to {}: there is data up to {least} bytes, the smallest size that loses none; --discard-beyond discards the data beyond",
                size(self.size_bytes),
                size(self.size_bytes_then)
            ),
            _ if self.size_bytes != self.size_bytes_then => {
                format!("\nfrom {} to {}: no data is lost", size(self.size_bytes), size(self.size_bytes_then))
            }
            _ => String::new(),
        };
        let room = if self.fits { "the pool has" } else { "too much: the pool has only" };
        format!(
            "{} from {} to {}: {} of data to move at most\nroom now {}, then {}; {} needed on the way, {room} {} free{resized}",
            self.name,
            self.from,
            self.to,
            size(self.move_bytes),
            size(self.raw_bytes_now),
            size(self.raw_bytes_then),
            size(self.needed_bytes),
            size(self.free_bytes)
        ) + &self.notes.iter().map(|note| format!("\n! {note}")).collect::<String>()
    }
}

impl Shown for VolumeShrinkPlan {
    fn text(&self) -> String {
        let space = if self.with_space { ", its space with it" } else { "" };
        format!(
            "{} from {} to {}{space}: {} of data and {} of metadata to move\nfree then {}; the smallest size now is {} bytes ({})",
            self.name,
            size(self.size_bytes),
            size(self.size_bytes_then),
            size(self.move_bytes),
            size(self.move_metadata_bytes),
            size(self.free_bytes_then),
            self.least_size_bytes,
            size(self.least_size_bytes)
        ) + &self.notes.iter().map(|note| format!("\n! {note}")).collect::<String>()
    }
}

fn balance_table(disks: &[DiskBalance]) -> String {
    let rows = disks.iter().map(|disk| {
        vec![
            disk.path.clone(),
            or_dash(&disk.serial),
            word(&disk.media),
            size(disk.data_bytes),
            format!("{} ({:.1} %)", size(disk.used_bytes), disk.used_percent),
            format!("{} ({:.1} %)", size(disk.used_bytes_then), disk.used_percent_then),
        ]
    });
    table(&["DISK", "SERIAL", "MEDIA", "ROOM", "USED", "THEN"], rows)
}

impl Shown for EvacuationPlan {
    fn text(&self) -> String {
        let rows = self.spaces.iter().map(|space| {
            vec![
                space.name.clone(),
                space.moves.to_string(),
                size(space.slab_bytes),
                size(space.move_bytes),
                space.stuck.to_string(),
                size(space.stuck_bytes),
                if space.lost_rows == 0 {
                    "-".into()
                } else {
                    format!("{}, {}", space.lost_rows, size(space.lost_bytes))
                },
            ]
        });
        let what = match self.moves + self.stuck {
            0 if self.lost_rows > 0 => "nothing of it can be moved".into(),
            0 => "it holds no data: nothing to move".into(),
            slabs => {
                let slabs = counted(slabs, "slab", "slabs");
                format!("{} of {slabs} to move, at most {} of data in their rows", self.moves, size(self.move_bytes))
            }
        };
        let mut room = match self.fits {
            true => String::from("all of it fits on the other disks"),
            false => {
                let stuck = size(self.stuck_bytes);
                format!(
                    "! the other disks have no room for {} of it, {stuck}\n  next: add disks first, or give space back",
                    counted(self.stuck, "slab", "slabs")
                )
            }
        };
        if self.lost_rows > 0 {
            let options = self.give_up.iter().map(|space| format!("--give-up {space}")).collect::<Vec<_>>().join(" ");
            room += &format!(
                "\n! {} cannot be read now and would be lost for good, {} of data in {}\n  next: attach the missing disks again, or destroy what is lost with {options}",
                counted(self.lost_rows, "row", "rows"),
                size(self.lost_bytes),
                self.give_up.join(", ")
            );
        }
        if !self.without_new_rows.is_empty() {
            room += &format!(
                "\n! too few disks would be left for new rows of {}: it is refused without --force\n  next: add a disk first, or convert to fewer columns",
                self.without_new_rows.join(", ")
            );
        }
        let spaces = table(&["SPACE", "SLABS", "ON IT", "DATA", "NO ROOM", "ON IT", "LOST ROWS"], rows);
        let spaces = if self.spaces.is_empty() { String::new() } else { format!("\n\n{spaces}") };
        format!("{}: {what}\n{room}{spaces}\n\n{}", self.name, balance_table(&self.disks))
    }
}

impl Shown for RebalancePlan {
    fn text(&self) -> String {
        let what = match self.moves {
            0 => "its disks are as even as its rows allow: nothing to move".into(),
            moves => format!("{} to move, in {}", size(self.move_bytes), counted(moves, "slab", "slabs")),
        };
        format!("pool {}: {what}\n\n{}", self.name, balance_table(&self.disks))
    }
}

impl Shown for SpacePlan {
    fn text(&self) -> String {
        let rows = self.options.iter().map(|option| {
            vec![
                if option.chosen { "*".into() } else { "-".into() },
                layout_text(option.layout, option.copies, option.parity),
                option.columns.to_string(),
                size(option.usable_bytes),
                format!("{:.1} %", option.efficiency_percent),
                match option.survives_disks {
                    0 => "none".into(),
                    disks => counted(disks.into(), "disk", "disks"),
                },
                if option.journal_bytes == 0 { "-".into() } else { size(option.journal_bytes) },
                format!("{:.2}", option.full_stripe_cost),
                format!(
                    "{}, {}",
                    counted(option.small_write_writes.into(), "write", "writes"),
                    counted(option.small_write_reads.into(), "read", "reads")
                ),
                option.rebuild_reads.map_or_else(|| "-".into(), |bytes| bytes.to_string()),
            ]
        });
        let header = [
            "*",
            "LAYOUT",
            "COLUMNS",
            "USABLE",
            "EFFICIENCY",
            "SURVIVES",
            "JOURNAL",
            "FULL STRIPE",
            "SMALL WRITE",
            "REBUILD",
        ];
        let mut text = table(&header, rows);
        self.notes.iter().for_each(|note| text += &format!("\n! {note}"));
        if self.enclosure_aware {
            text += "\n\nspread over enclosures: each layout survives the loss of a whole enclosure.";
        }
        text + &format!(
            "\n\nnothing is made; * is what {} would be. FULL STRIPE: bytes written to disks for each byte of a client's.\n\
                 SMALL WRITE: what one small random write costs, its journal included. REBUILD: bytes read for each byte lost.",
            self.name
        )
    }
}
