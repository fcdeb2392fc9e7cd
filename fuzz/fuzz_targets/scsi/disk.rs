//! A small disk in memory that answers at once.

use std::sync::{Mutex, PoisonError};

use holdfast_device::{
    BlockLimits, Device, DiscardLimits, Durability, Extent, ExtentKind, Extents, Geometry, Io, IoBuf, IoSlice, Limits,
    StableId, Zeroes,
};
use holdfast_model::Uuid;

const BYTES: usize = 256 << 10;

pub struct Disk(Mutex<Vec<u8>>);

impl Disk {
    pub fn new() -> Self {
        Self(Mutex::new(vec![0; BYTES]))
    }

    fn at<R: 'static>(&self, offset: u64, len: u64, work: impl FnOnce(&mut [u8]) -> R) -> Io<R> {
        assert!((offset | len).is_multiple_of(4096), "{offset}+{len} is not in whole blocks");
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, len) = (offset as usize, len as usize);
        Io::ready(Ok(work(&mut bytes[start..start + len])))
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: BYTES as u64,
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: false,
            discard: true,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        self.at(offset, buf.len() as u64, |bytes| {
            buf.copy_from_slice(bytes);
            buf
        })
    }

    fn write(&self, offset: u64, data: IoSlice, _: Durability) -> Io<()> {
        self.at(offset, data.len() as u64, |bytes| bytes.copy_from_slice(&data))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.at(offset, len, |bytes| bytes.fill(0))
    }
}

impl StableId for Disk {
    fn id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

impl BlockLimits for Disk {
    fn limits(&self) -> Limits {
        let discard = Some(DiscardLimits { granularity_bytes: 4096, reads_zeros: true });
        Limits { optimal_io_bytes: 64 << 10, discard }
    }

    fn is_read_only(&self) -> bool {
        false
    }
}

impl Zeroes for Disk {
    fn unmap(&self, offset: u64, len: u64, _: Durability) -> Io<()> {
        self.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, _: Durability, _: bool) -> Io<()> {
        self.discard(offset, len)
    }
}

impl Extents for Disk {
    fn extents(&self, offset: u64, len: u64, _: usize) -> Io<Vec<Extent>> {
        self.at(offset, len, move |_| vec![Extent { len, kind: ExtentKind::Data }])
    }
}
