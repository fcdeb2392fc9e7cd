//! What a space would be, before it is made, beside what else it could be.

use holdfast_model::Media;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;
use crate::space::LayoutKind;

/// A space that could be made of the pool's free room now, and what it would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpaceOption {
    /// Whether it is the one that was asked for.
    pub chosen: bool,
    /// Its resilience.
    pub layout: LayoutKind,
    /// Disks that hold each block.
    pub copies: u8,
    /// Columns of parity.
    pub parity: u8,
    /// Stripe units side by side, those of parity included.
    pub columns: u16,
    /// Bytes of a stripe unit.
    pub interleave_bytes: u64,
    /// Bytes of data that fit.
    pub usable_bytes: u64,
    /// Bytes of the pool that they take, with copies, parity, heads, spare places and journal.
    pub raw_bytes: u64,
    /// Bytes of free room that no more data of it could use.
    pub unused_bytes: u64,
    /// Bytes of its journal, each copy counted once; 0 where it has none.
    pub journal_bytes: u64,
    /// Bytes of data for each hundred that they take, to one decimal.
    pub efficiency_percent: f64,
    /// Disks that may fail at once without loss once it is made.
    pub survives_disks: u8,
    /// Of these, disks for which the pool has enough others to rebuild on.
    pub rebuildable_losses: u8,
    /// Bytes written to disks for each byte that a client writes in full stripes, to two decimals.
    pub full_stripe_cost: f64,
    /// Writes to disks for one small random write, journal included.
    pub small_write_writes: u16,
    /// Reads from disks for one small random write.
    pub small_write_reads: u16,
    /// Bytes read to rebuild one lost byte; none if it cannot be rebuilt.
    pub rebuild_reads: Option<u16>,
}

/// What a space would be, and what else it could be. Nothing was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpacePlan {
    /// `POOL/SPACE`.
    pub name: String,
    /// The size that was asked for.
    pub size_bytes: u64,
    /// Whether all of these are spread so that the loss of a whole enclosure is survived.
    pub enclosure_aware: bool,
    /// Whether the pool has room for all of it now.
    pub fits: bool,
    /// The one that was asked for, then the others.
    pub options: Vec<SpaceOption>,
    /// What to think of.
    pub notes: Vec<String>,
}

/// What a conversion would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversionPlan {
    /// `POOL/SPACE`.
    pub name: String,
    /// The shape of its new rows so far.
    pub from: String,
    /// The shape that it would have.
    pub to: String,
    /// Its size now.
    pub size_bytes: u64,
    /// Its size then.
    pub size_bytes_then: u64,
    /// The smallest size that loses no data, where it would become smaller.
    pub least_size_bytes: Option<u64>,
    /// Bytes of the space beyond its new end that would be given up although they hold data.
    pub lost_bytes: u64,
    /// Bytes of data in rows that would be moved, at most.
    pub move_bytes: u64,
    /// Bytes that its rows and its journal take on the disks now.
    pub raw_bytes_now: u64,
    /// Bytes that they take then.
    pub raw_bytes_then: u64,
    /// Free bytes that it takes on the way, those of a row that moves and of a new journal among them.
    pub needed_bytes: u64,
    /// Bytes that the pool has free.
    pub free_bytes: u64,
    /// Whether that suffices.
    pub fits: bool,
    /// What to think of.
    pub notes: Vec<String>,
}

/// How full a disk is, and how full it would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskBalance {
    /// Its id.
    pub id: Uuid,
    /// Where it is.
    pub path: String,
    /// Its serial number.
    pub serial: String,
    /// What it is made of: disks are evened out with others of the same medium.
    #[schema(schema_with = schema::media)]
    pub media: Media,
    /// Bytes that spaces may take.
    pub data_bytes: u64,
    /// Bytes that they take now.
    pub used_bytes: u64,
    /// Bytes that they would take.
    pub used_bytes_then: u64,
    /// How full it is, to one decimal.
    pub used_percent: f64,
    /// How full it would be, to one decimal.
    pub used_percent_then: f64,
}

/// What a rebalancing of a pool would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RebalancePlan {
    /// The pool.
    pub name: String,
    /// Bytes that would be moved.
    pub move_bytes: u64,
    /// Slabs that would be moved.
    pub moves: u64,
    /// The disks that take part.
    pub disks: Vec<DiskBalance>,
}

/// What a space has on a disk that would be evacuated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceEvacuation {
    /// `POOL/SPACE`.
    pub name: String,
    /// Its slabs there that would be moved.
    pub moves: u64,
    /// Bytes that these take there.
    pub slab_bytes: u64,
    /// Bytes of data in the rows that they are of, at most: rows move as a whole.
    pub move_bytes: u64,
    /// Its slabs there that have no room elsewhere.
    pub stuck: u64,
    /// Bytes that these take there.
    pub stuck_bytes: u64,
    /// Its rows that have a slab there and cannot be read now, those of its journal among them: without the disk they
    /// are lost for good.
    pub lost_rows: u64,
    /// Bytes of data in these.
    pub lost_bytes: u64,
}

/// What the evacuation or replacement of a disk would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EvacuationPlan {
    /// `POOL/disk PATH`.
    pub name: String,
    /// Slabs that would be moved.
    pub moves: u64,
    /// Bytes that these take on the disk.
    pub slab_bytes: u64,
    /// Bytes of data in the rows that would be moved, at most.
    pub move_bytes: u64,
    /// Slabs that have no room elsewhere: the evacuation is refused while there are any.
    pub stuck: u64,
    /// Bytes that these take on the disk.
    pub stuck_bytes: u64,
    /// Whether the other disks, with the new one of a replacement, have room for all of it.
    pub fits: bool,
    /// Rows that would be lost for good: they cannot be read now, and a part of each is on the disk.
    pub lost_rows: u64,
    /// Bytes of data in these.
    pub lost_bytes: u64,
    /// The spaces that have such rows: refused unless each is given up by name, which destroys it.
    pub give_up: Vec<String>,
    /// The spaces that would get no new rows any more, since too few disks were left for their layout: refused without
    /// force.
    pub without_new_rows: Vec<String>,
    /// The spaces that have slabs on it.
    pub spaces: Vec<SpaceEvacuation>,
    /// The disk, then all others that would be filled otherwise than now.
    pub disks: Vec<DiskBalance>,
}

/// What an upgrade of a pool would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpgradePlan {
    /// The pool.
    pub name: String,
    /// Features that it uses.
    pub features: Vec<String>,
    /// Features that it would use as well. Versions that do not know them cannot import it any more.
    pub added: Vec<String>,
    /// Labels that would be written.
    pub labels: u64,
}
