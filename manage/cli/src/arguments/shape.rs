//! What a new space is like, whoever makes it.

use clap::Args;
use holdfast_api::CreateSpace;
use holdfast_model::ByteSize;

use super::{IntegrityWord, LayoutWord};

/// A new space beside its name, layout and size.
#[derive(Args, Clone, Copy, Debug)]
pub struct ShapeOptions {
    /// Copies of a mirror, 2 or 3; 2 by default
    #[arg(long, value_name = "N")]
    pub copies: Option<u8>,
    /// Parity columns, 1 or 2: the number of disks that may fail; 1 by default
    #[arg(long, value_name = "N")]
    pub parity: Option<u8>,
    /// Columns, parity included; chosen from the pool's disks by default
    #[arg(long, value_name = "N")]
    pub columns: Option<u16>,
    /// Interleave: the size of a stripe unit; 256KiB by default
    #[arg(long, value_name = "SIZE")]
    pub interleave: Option<ByteSize>,
    /// Block checksums, which detect and repair silent corruption; crc32c by default
    #[arg(long, value_enum)]
    pub integrity: Option<IntegrityWord>,
    /// Journal size of a parity space, 32MiB to 100GiB; chosen from the space's size and the pool's disks by
    /// default
    #[arg(long, value_name = "SIZE")]
    pub journal: Option<ByteSize>,
    /// Thin provisioning: allocate room only as data is written
    #[arg(long)]
    pub thin: bool,
    /// Survive the loss of a whole enclosure; set the place of each disk with 'disk set' first
    #[arg(long)]
    pub enclosure_aware: bool,
}

impl ShapeOptions {
    /// The request for such a space.
    pub fn request(self, name: String, layout: LayoutWord, size: ByteSize) -> CreateSpace {
        CreateSpace {
            name,
            layout: layout.into(),
            copies: self.copies,
            parity: self.parity,
            columns: self.columns,
            interleave_bytes: self.interleave.map(ByteSize::bytes),
            integrity: self.integrity.map(Into::into),
            size_bytes: size.bytes(),
            thin: self.thin,
            journal_bytes: self.journal.map(ByteSize::bytes),
            enclosure_aware: self.enclosure_aware,
        }
    }
}
