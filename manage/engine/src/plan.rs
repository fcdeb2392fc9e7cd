//! What a space would be, beside what else the pool could make of its free room.
//!
//! Invariant: nothing is changed; the figures are those that the pool itself goes by.

use holdfast_api::{CreateSpace, SpaceOption, SpacePlan};
use holdfast_model::layout::MAX_PARITY_COLUMNS;
use holdfast_model::{ByteSize, Layout, Shape};
use holdfast_pool::Capacity;

use crate::capacity::LAYOUTS;
use crate::engine::Engine;
use crate::error::{ApiResult, from_pool};
use crate::protection::{rebuildable_losses, too_few_to_rebuild};
use crate::spaces::{data_disks, integrity_of, layout_of, no_shape, parse_path, same_parameters, space_size};
use crate::view::layout_kind;

/// Columns that are looked at to find a roomier number of them.
const MOST_COLUMNS: u16 = MAX_PARITY_COLUMNS;
/// What another number of columns must give at least to be worth a note.
const WORTH_PERCENT: u64 = 2;

impl Engine {
    /// What a space would be if it were made, and what else it could be. Nothing is made.
    ///
    /// # Errors
    /// As for making it, but for room.
    pub fn plan_space(&self, request: &CreateSpace) -> ApiResult<SpacePlan> {
        let path = parse_path(&request.name).map_err(|error| error.at("name"))?;
        let request = &CreateSpace { size_bytes: space_size(&path, request.size_bytes)?, ..request.clone() };
        let object = format!("space {path}");
        let open = self.pool_named(path.pool.as_str()).map_err(|error| error.at("name"))?;
        let layout = layout_of(&object, request)?;
        let disks = data_disks(&open);
        let interleave = request.interleave_bytes.map(ByteSize);
        let integrity = integrity_of(request);
        let choose = |layout, columns| {
            Shape::choose(layout, columns, interleave, disks).map(|shape| shape.with_integrity(integrity))
        };
        let mut notes = Vec::new();
        let existing = open.pool.spaces().into_iter().find(|record| record.name == path.space);
        if let Some(record) = &existing {
            same_parameters(&object, &open, record, request)?;
            notes.push(format!(
                "{object} already exists and would not be created again: these are the figures of a further space"
            ));
        }
        let shape = choose(layout, request.columns)
            .map_err(|error| no_shape(&object, &error, request.columns, "choose other parameters"))?;
        let journal = |shape: &Shape| request.journal_bytes.filter(|_| shape.layout.parity() > 0);
        let capacity_of = |shape: &Shape| open.pool.capacity(shape, journal(shape), request.enclosure_aware);
        let chosen = capacity_of(&shape).map_err(|error| from_pool(&object, error))?;
        let option = |capacity: &Capacity, chosen| SpaceOption {
            rebuildable_losses: rebuildable_losses(&open, &capacity.shape),
            ..option(capacity, chosen)
        };
        let mut options = vec![option(&chosen, true)];
        let mut shapes = vec![shape];
        for layout in LAYOUTS {
            let widest = (layout.parity() > 0)
                .then(|| widest(layout, interleave, disks))
                .flatten()
                .map(|shape| shape.with_integrity(integrity));
            for shape in [Some(choose(layout, None)), widest.map(Ok)].into_iter().flatten() {
                let found = shape.map_err(|error| error.to_string()).and_then(|shape| {
                    if shapes.contains(&shape) {
                        return Ok(None);
                    }
                    shapes.push(shape);
                    capacity_of(&shape).map(Some).map_err(|error| error.context)
                });
                match found {
                    Ok(capacity) => options.extend(capacity.map(|capacity| option(&capacity, false))),
                    Err(reason) => notes.push(reason),
                }
            }
        }
        notes.splice(0..0, roomier(&chosen, disks, capacity_of));
        notes.splice(
            0..0,
            too_few_to_rebuild(&open, &object, &shape).map(|note| format!("{}: {}", note.cause, note.next_action)),
        );
        let usable = chosen.usable_bytes();
        let fits = request.size_bytes <= usable;
        if !fits {
            let (most, size) = (ByteSize(usable), ByteSize(request.size_bytes));
            let (most, size) = (most.beside(size), size.beside(most));
            notes.insert(
                0,
                match request.thin {
                    true => format!("{object} of {size} is larger than what fits now, {most}"),
                    false => {
                        format!("{object} of {size} does not fit: add disks, choose a smaller size, or make it thin")
                    }
                },
            );
        }
        let CreateSpace { size_bytes, enclosure_aware, .. } = *request;
        Ok(SpacePlan { name: path.to_string(), size_bytes, enclosure_aware, fits, options, notes })
    }
}

/// The parity shape with the most columns that this many disks allow.
fn widest(layout: Layout, interleave: Option<ByteSize>, disks: usize) -> Option<Shape> {
    let most = u16::try_from(disks).unwrap_or(u16::MAX).min(MAX_PARITY_COLUMNS);
    (1..=most).rev().find_map(|columns| Shape::choose(layout, Some(columns), interleave, disks).ok())
}

/// Says where another number of columns makes more of the pool.
fn roomier<E>(chosen: &Capacity, disks: usize, capacity_of: impl Fn(&Shape) -> Result<Capacity, E>) -> Option<String> {
    let Shape { layout, interleave, columns, integrity } = chosen.shape;
    let shapes =
        (1..=MOST_COLUMNS).filter_map(|columns| Shape::choose(layout, Some(columns), Some(interleave), disks).ok());
    let capacities = shapes.filter_map(|shape| capacity_of(&shape.with_integrity(integrity)).ok());
    let best = capacities.max_by_key(|capacity| {
        (capacity.usable_bytes(), std::cmp::Reverse(capacity.shape.columns.abs_diff(columns)))
    })?;
    let (usable, more) = (chosen.usable_bytes(), best.usable_bytes().saturating_sub(chosen.usable_bytes()));
    let percent = more.saturating_mul(100) / usable.max(1);
    (percent >= WORTH_PERCENT).then(|| {
        let plural = if best.shape.columns == 1 { " would" } else { "s would" };
        let spare = |shape: &Shape| disks.saturating_sub(shape.width()).min(shape.layout.tolerates().into());
        let less = if spare(&best.shape) < spare(&chosen.shape) { ", and leave fewer disks to rebuild on" } else { "" };
        format!(
            "{} column{plural} give {percent} % more: {} instead of {}{less}",
            best.shape.columns,
            ByteSize(best.usable_bytes()),
            ByteSize(usable)
        )
    })
}

/// A ratio to so many decimals.
fn rounded(part: u64, of: u64, scale: f64) -> f64 {
    (part as f64 * scale / of.max(1) as f64).round() / scale
}

fn option(capacity: &Capacity, chosen: bool) -> SpaceOption {
    let shape = &capacity.shape;
    let (copies, parity) = (u16::from(shape.layout.copies()), u16::from(shape.layout.parity()));
    let data = shape.data_columns();
    let stripe_writes = match shape.layout {
        Layout::Simple | Layout::Mirror { .. } => u64::from(copies) * u64::from(data),
        Layout::Parity { .. } => u64::from(shape.columns),
    };
    // In place, behind a journal: the block goes to every copy of the journal, then the block and its parity are read,
    // and both are written.
    let (writes, reads) = match shape.layout {
        Layout::Simple | Layout::Mirror { .. } => (copies, 0),
        Layout::Parity { .. } => (2 * (parity + 1), parity + 1),
    };
    SpaceOption {
        chosen,
        layout: layout_kind(shape.layout),
        copies: shape.layout.copies(),
        parity: shape.layout.parity(),
        columns: shape.columns,
        interleave_bytes: shape.interleave.bytes(),
        usable_bytes: capacity.usable_bytes(),
        raw_bytes: capacity.raw_bytes,
        unused_bytes: capacity.unused_bytes,
        journal_bytes: capacity.journal_bytes,
        efficiency_percent: rounded(capacity.usable_bytes() * 100, capacity.raw_bytes, 10.0),
        survives_disks: shape.layout.tolerates(),
        rebuildable_losses: 0,
        full_stripe_cost: rounded(stripe_writes, data.into(), 100.0),
        small_write_writes: writes,
        small_write_reads: reads,
        rebuild_reads: match shape.layout {
            Layout::Simple => None,
            Layout::Mirror { .. } => Some(1),
            Layout::Parity { .. } => Some(data),
        },
    }
}
