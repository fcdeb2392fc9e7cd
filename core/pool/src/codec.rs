//! Changes as bytes: one tag, then the fields in order. A reader checks every value before it believes it.

use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{
    ByteSize, DiskState, Integrity, Layout, Media, Name, Place, Provisioning, RetirePolicy, Shape, Usage,
};

use crate::change::Change;
use crate::features::Features;
use crate::frame::Position;
use crate::place::{MAX_DISKS, SlabPlace};
use crate::record::{DiskRecord, LossPolicy, RowRecord, SpaceRecord};

const MEDIA: [Media; 3] = [Media::Unknown, Media::Hdd, Media::Ssd];
const USAGE: [Usage; 5] = [Usage::Auto, Usage::Manual, Usage::HotSpare, Usage::Journal, Usage::Retired];
const STATES: [DiskState; 3] = [DiskState::Online, DiskState::Missing, DiskState::Failed];
const RETIRE: [RetirePolicy; 3] = [RetirePolicy::Auto, RetirePolicy::Always, RetirePolicy::Never];
const PROVISIONING: [Provisioning; 2] = [Provisioning::Fixed, Provisioning::Thin];
/// Flags of a space.
const COMPLETE: u8 = 1;
const ENCLOSURE_AWARE: u8 = 2;
const READ_ONLY: u8 = 128;

fn write_choice<T: PartialEq>(writer: &mut Writer, choices: &[T], value: &T) {
    let index = choices.iter().position(|choice| choice == value).expect("every value is listed");
    writer.u8(index as u8);
}

fn read_choice<T: Copy>(reader: &mut Reader<'_>, choices: &[T], field: &'static str) -> Result<T, WireError> {
    choices.get(usize::from(reader.u8()?)).copied().ok_or(WireError::Value(field))
}

fn read_bool(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    read_choice(reader, &[false, true], "flag")
}

fn read_name(reader: &mut Reader<'_>) -> Result<Name, WireError> {
    reader.text()?.parse().map_err(|_| WireError::Value("name"))
}

/// In the byte of a shape's interleave, that it keeps CRC-32C checksums.
const WITH_SUMS: u8 = 0x80;

/// Writes a shape in five bytes: kind, copies or columns of parity, columns, and binary logarithm of the interleave
/// with a bit for checksums.
pub fn write_shape(writer: &mut Writer, shape: &Shape) {
    let (kind, redundancy) = match shape.layout {
        Layout::Simple => (0, 1),
        Layout::Mirror { copies } => (1, copies),
        Layout::Parity { parity } => (2, parity),
    };
    let sums = if shape.has_checksums() { WITH_SUMS } else { 0 };
    writer.u8(kind).u8(redundancy).u16(shape.columns).u8(shape.interleave.bytes().trailing_zeros() as u8 | sums);
}

/// Reads what [`write_shape`] wrote.
pub fn read_shape(reader: &mut Reader<'_>) -> Result<Shape, WireError> {
    let layout = match (reader.u8()?, reader.u8()?) {
        (0, 1) => Layout::Simple,
        (1, copies) => Layout::Mirror { copies },
        (2, parity) => Layout::Parity { parity },
        _ => return Err(WireError::Value("layout")),
    };
    let columns = reader.u16()?;
    let interleave = reader.u8()?;
    let integrity = if interleave & WITH_SUMS == 0 { Integrity::None } else { Integrity::Crc32c };
    let interleave = 1u64.checked_shl((interleave & !WITH_SUMS).into()).ok_or(WireError::Value("interleave"))?;
    let shape = Shape { layout, columns, interleave: ByteSize(interleave), integrity };
    shape.check().map_err(|_| WireError::Value("shape"))?;
    Ok(shape)
}

impl Change {
    /// Appends the change.
    pub fn write(&self, writer: &mut Writer) {
        match self {
            Self::Pool(name) => {
                writer.u8(1).text(name.as_str());
            }
            Self::Opened => {
                writer.u8(2);
            }
            Self::Closed => {
                writer.u8(3);
            }
            Self::Counters { row, space, disk } => {
                writer.u8(4).u64(*row).u32(*space).u16(*disk);
            }
            Self::Disk(record) => {
                writer.u8(5);
                write_disk(writer, record);
            }
            Self::DiskOut { disk, state, holds } => {
                writer.u8(6).u16(*disk);
                write_choice(writer, &STATES, state);
                write_position(writer, *holds);
            }
            Self::Space(record) => {
                writer.u8(7);
                write_space(writer, record);
            }
            Self::SpaceGone(id) => {
                writer.u8(8).u32(*id);
            }
            Self::Row { space, chunk, row } => {
                writer.u8(9).u32(*space).u32(*chunk);
                write_row(writer, row);
            }
            Self::RowGone { space, chunk } => {
                writer.u8(10).u32(*space).u32(*chunk);
            }
            Self::Stale { space, chunk, slab, stale } => {
                writer.u8(11).u32(*space).u32(*chunk).u16(*slab).u8((*stale).into());
            }
            Self::DiskOutdated(disk) => {
                writer.u8(16).u16(*disk);
            }
            Self::Outdated { space, chunk, slab, outdated } => {
                writer.u8(17).u32(*space).u32(*chunk).u16(*slab).u8((*outdated).into());
            }
            Self::RowBegun { space, chunk } => {
                writer.u8(18).u32(*space).u32(*chunk);
            }
            Self::Forced { from, generation } => {
                writer.u8(12);
                write_position(writer, *from);
                writer.u64(*generation);
            }
            Self::Features(features) => {
                writer.u8(13);
                features.write(writer);
            }
            Self::DiskGone(disk) => {
                writer.u8(14).u16(*disk);
            }
            Self::LossPolicy(policy) => {
                writer.u8(15);
                write_choice(writer, &RETIRE, &policy.retire);
                writer.u8(policy.grace_seconds.is_some().into()).u32(policy.grace_seconds.unwrap_or(0));
            }
            Self::Document { key, content } => {
                writer.u8(19).text(key).u8(content.is_some().into());
                if let Some(content) = content {
                    writer.u32(content.len() as u32).raw(content);
                }
            }
        }
    }

    /// Takes one change off the front.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match reader.u8()? {
            1 => Self::Pool(read_name(reader)?),
            2 => Self::Opened,
            3 => Self::Closed,
            4 => Self::Counters { row: reader.u64()?, space: reader.u32()?, disk: reader.u16()? },
            5 => Self::Disk(read_disk(reader)?),
            6 => Self::DiskOut {
                disk: reader.u16()?,
                state: read_choice(reader, &STATES, "state")?,
                holds: read_position(reader)?,
            },
            7 => Self::Space(read_space(reader)?),
            8 => Self::SpaceGone(reader.u32()?),
            9 => Self::Row { space: reader.u32()?, chunk: reader.u32()?, row: read_row(reader)? },
            10 => Self::RowGone { space: reader.u32()?, chunk: reader.u32()? },
            11 => Self::Stale {
                space: reader.u32()?,
                chunk: reader.u32()?,
                slab: reader.u16()?,
                stale: read_bool(reader)?,
            },
            12 => {
                let from = read_position(reader)?;
                Self::Forced { from, generation: reader.u64()? }
            }
            13 => Self::Features(Features::read(reader)?),
            14 => Self::DiskGone(reader.u16()?),
            15 => {
                let retire = read_choice(reader, &RETIRE, "retire policy")?;
                let (given, seconds) = (read_bool(reader)?, reader.u32()?);
                Self::LossPolicy(LossPolicy { retire, grace_seconds: given.then_some(seconds) })
            }
            16 => Self::DiskOutdated(reader.u16()?),
            17 => Self::Outdated {
                space: reader.u32()?,
                chunk: reader.u32()?,
                slab: reader.u16()?,
                outdated: read_bool(reader)?,
            },
            18 => Self::RowBegun { space: reader.u32()?, chunk: reader.u32()? },
            19 => Self::Document {
                key: reader.text()?.into(),
                content: match read_bool(reader)? {
                    true => {
                        let len = reader.u32()? as usize;
                        Some(reader.take(len)?.into())
                    }
                    false => None,
                },
            },
            _ => return Err(WireError::Value("change")),
        })
    }

    /// Reads changes to the end of `payload`.
    pub fn read_all(payload: &[u8]) -> impl Iterator<Item = Result<Self, WireError>> {
        let mut reader = Reader::new(payload);
        std::iter::from_fn(move || (reader.remaining() > 0).then(|| Self::read(&mut reader)))
    }
}

fn write_disk(writer: &mut Writer, record: &DiskRecord) {
    writer.u16(record.index).uuid(record.id).text(&record.serial).text(&record.model).text(&record.path);
    write_choice(writer, &MEDIA, &record.media);
    write_choice(writer, &USAGE, &record.usage);
    writer.u8(record.place.is_some().into());
    if let Some(place) = &record.place {
        writer.text(&place.enclosure).u32(place.slot);
    }
    writer.u64(record.disk_bytes);
    write_choice(writer, &STATES, &record.state);
    writer.u8(record.voting.into());
    write_position(writer, record.holds);
}

fn read_disk(reader: &mut Reader<'_>) -> Result<DiskRecord, WireError> {
    Ok(DiskRecord {
        index: reader.u16()?,
        id: reader.uuid()?,
        serial: reader.text()?.into(),
        model: reader.text()?.into(),
        path: reader.text()?.into(),
        media: read_choice(reader, &MEDIA, "media")?,
        usage: read_choice(reader, &USAGE, "usage")?,
        place: match read_bool(reader)? {
            true => Some(Place { enclosure: reader.text()?.into(), slot: reader.u32()? }),
            false => None,
        },
        disk_bytes: reader.u64()?,
        state: read_choice(reader, &STATES, "state")?,
        voting: read_bool(reader)?,
        holds: read_position(reader)?,
    })
}

fn write_position(writer: &mut Writer, position: Position) {
    writer.u64(position.generation).u64(position.sequence);
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, WireError> {
    Ok(Position { generation: reader.u64()?, sequence: reader.u64()? })
}

fn write_space(writer: &mut Writer, record: &SpaceRecord) {
    writer.u32(record.id).uuid(record.uuid).text(record.name.as_str());
    write_shape(writer, &record.shape);
    write_choice(writer, &PROVISIONING, &record.provisioning);
    let flags = (u8::from(record.complete) * COMPLETE)
        | (u8::from(record.enclosure_aware) * ENCLOSURE_AWARE)
        | (u8::from(record.read_only) * READ_ONLY);
    writer.u64(record.size_bytes).u64(record.chunk_bytes).u8(flags);
}

fn read_space(reader: &mut Reader<'_>) -> Result<SpaceRecord, WireError> {
    let mut record = SpaceRecord {
        id: reader.u32()?,
        uuid: reader.uuid()?,
        name: read_name(reader)?,
        shape: read_shape(reader)?,
        provisioning: read_choice(reader, &PROVISIONING, "provisioning")?,
        size_bytes: reader.u64()?,
        chunk_bytes: reader.u64()?,
        enclosure_aware: false,
        read_only: false,
        complete: false,
    };
    let flags = reader.u8()?;
    if flags & !(COMPLETE | ENCLOSURE_AWARE | READ_ONLY) != 0 {
        return Err(WireError::Value("flags"));
    }
    record.complete = flags & COMPLETE != 0;
    record.enclosure_aware = flags & ENCLOSURE_AWARE != 0;
    record.read_only = flags & READ_ONLY != 0;
    Ok(record)
}

fn write_row(writer: &mut Writer, row: &RowRecord) {
    writer.u64(row.id);
    write_shape(writer, &row.shape);
    writer.u32(row.slab_units).u8(row.begun.into());
    for slab in &row.slabs {
        writer.u16(slab.disk()).u32(slab.unit());
    }
}

fn read_row(reader: &mut Reader<'_>) -> Result<RowRecord, WireError> {
    let (id, shape, slab_units, begun) = (reader.u64()?, read_shape(reader)?, reader.u32()?, read_bool(reader)?);
    let slab = |reader: &mut Reader<'_>| {
        let (disk, unit) = (reader.u16()?, reader.u32()?);
        if disk >= MAX_DISKS {
            return Err(WireError::Value("disk"));
        }
        Ok(SlabPlace::new(disk, unit))
    };
    let slabs = (0..shape.width()).map(|_| slab(reader)).collect::<Result<_, _>>()?;
    Ok(RowRecord { id, shape, slab_units, begun, slabs })
}
