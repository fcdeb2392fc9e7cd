//! The conversion of a space: what it shall be stands in the pool at once, and its rows are moved to that one by one.

use std::sync::Arc;

use holdfast_api::{ApiError, ConversionPlan, ConvertSpace, CreateSpace, JobChanged, LayoutKind, SetPace};
use holdfast_model::{ByteSize, Layout, ObjectRef, Provisioning, Shape};
use holdfast_pool::{PoolError, PoolErrorKind, SpaceRecord};
use holdfast_space::{Ended, Pace, Space};

use super::spec::{JobSpec, Outcome, Site, Target};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, from_pool, from_space};
use crate::protection::too_few_to_rebuild;
use crate::spaces::{data_disks, layout_of, no_shape, parse_path, space_size};

impl Engine {
    /// Gives a space another shape: answers with the job that moves its rows, the one that is there already if there is
    /// one.
    ///
    /// # Errors
    /// If the pool cannot bear the shape, or a conversion to another one is under way; nothing is changed then.
    pub async fn convert_space(self: &Arc<Self>, path: String, request: ConvertSpace) -> ApiResult<JobChanged> {
        self.change(move |engine| async move { engine.convert(&path, request).await }).await
    }

    async fn convert(&self, path: &str, request: ConvertSpace) -> ApiResult<JobChanged> {
        let path = parse_path(path)?;
        let asked_size = request.size_bytes.map(|size_bytes| space_size(&path, size_bytes)).transpose()?;
        let (open, _, space) = self.space_at(&path)?;
        let record = space.record();
        let target = Target::space(&open, &record);
        let object = target.object();
        let (shape, provisioning) = self.wanted(&object.to_string(), &open, &record, &request)?;
        let size = asked_size.unwrap_or(record.size_bytes);
        if size < record.size_bytes && !request.discard_beyond {
            self.refuse_loss(&object.to_string(), &space, size).await?;
        }
        let spec = JobSpec::convert(target.clone(), provisioning);
        if let Some(job) = self.jobs.like(&spec)
            && (record.shape != shape || request.thin.is_some() && !self.jobs.has(&spec))
        {
            let message = format!("it is being converted to {}", record.shape);
            return Err(conflict(object, message, format!("wait for job {job}, or 'holdfast job cancel {job}' first")));
        }
        if !request.names_a_change() && self.jobs.like(&spec).is_none() && is_whole(&open, &space, &record) {
            let next = "name what is to change: --layout, --copies, --parity, --columns, --interleave, --integrity, --size, --thin or --fixed";
            return Err(ApiError::invalid(object, "there is nothing to change", next));
        }
        let had_journal = open.pool.journal_bytes(record.id) > 0;
        let reshaped = self.reshape(&object, &space, shape, provisioning, request.journal_bytes).await?;
        if let Err(refused) = self.resize((&space, &target), size, request.discard_beyond).await {
            if reshaped {
                self.reshape(&object, &space, record.shape, record.provisioning, None).await?;
                let has_journal = open.pool.journal_bytes(record.id) > 0;
                if had_journal != has_journal || space.record().provisioning != record.provisioning {
                    self.add_job(JobSpec::convert(target, record.provisioning), SetPace::default())?;
                }
            }
            return Err(refused);
        }
        self.add_job(spec, request.pace)
    }

    /// What a conversion would move, and how much room the space takes then. Nothing is changed.
    ///
    /// # Errors
    /// If there is no such space, or it cannot have that shape.
    pub async fn plan_conversion(&self, path: &str, request: &ConvertSpace) -> ApiResult<ConversionPlan> {
        let path = parse_path(path)?;
        let object = format!("space {path}");
        let (open, _, space) = self.space_at(&path)?;
        let record = space.record();
        let (shape, provisioning) = self.wanted(&object, &open, &record, request)?;
        let asked_size = request.size_bytes.map(|size_bytes| space_size(&path, size_bytes)).transpose()?;
        let size_bytes_then = asked_size.unwrap_or(record.size_bytes);
        let least =
            if size_bytes_then < record.size_bytes { Some(self.least_size(&object, &space).await?) } else { None };
        let record_then = SpaceRecord { size_bytes: size_bytes_then, ..record.clone() };
        let mut rows = open.pool.rows(record.id);
        let rows_now: u64 = rows.iter().map(|(_, row)| row.raw_bytes()).sum();
        rows.retain(|(chunk, _)| *chunk < record_then.chunks());
        let moved: Vec<u64> =
            rows.iter().filter(|(_, row)| row.shape != shape).map(|(_, row)| row.raw_bytes()).collect();
        let kept: u64 = rows.iter().filter(|(_, row)| row.shape == shape).map(|(_, row)| row.raw_bytes()).sum();
        let rows_then = match provisioning {
            Provisioning::Fixed => u64::from(record_then.chunks()),
            Provisioning::Thin => rows.len() as u64,
        };
        let row_then = holdfast_pool::row_raw_bytes(&shape, record.chunk_bytes);
        let rows_left = moved.iter().sum::<u64>() + kept;
        let then = row_then * rows_then;
        let journal = open.pool.plan_journal(record.id, shape.layout, request.journal_bytes);
        let journal = journal.map_err(|error| from_pool(&object, error))?;
        let free_bytes = open.pool.status().free_bytes;
        let moving = if moved.is_empty() { 0 } else { row_then };
        let most = then.saturating_sub(rows_left) + moving + journal.new_bytes;
        Ok(ConversionPlan {
            name: path.to_string(),
            from: record.shape.to_string(),
            to: shape.to_string(),
            size_bytes: record.size_bytes,
            size_bytes_then,
            least_size_bytes: least,
            lost_bytes: least.map_or(0, |least| least.saturating_sub(size_bytes_then)),
            move_bytes: moved.len() as u64 * record.chunk_bytes,
            raw_bytes_now: rows_now + journal.bytes_now,
            raw_bytes_then: then + journal.bytes_then,
            needed_bytes: most,
            free_bytes,
            notes: too_few_to_rebuild(&open, &object, &shape)
                .map(|note| format!("{}: {}", note.cause, note.next_action))
                .into_iter()
                .collect(),
            fits: most <= free_bytes && (request.discard_beyond || least.is_none_or(|least| least <= size_bytes_then)),
        })
    }
}

impl Engine {
    /// What a conversion makes of a space.
    fn wanted(
        &self,
        object: &str,
        open: &OpenPool,
        record: &SpaceRecord,
        request: &ConvertSpace,
    ) -> ApiResult<(Shape, Provisioning)> {
        let (shape, provisioning) = asked_for(object, open, record, request)?;
        if provisioning == Provisioning::Thin && record.provisioning != provisioning {
            self.refuse_thin_under_full(open, record, object)?;
        }
        Ok((shape, provisioning))
    }

    async fn least_size(&self, object: &str, space: &Arc<Space>) -> ApiResult<u64> {
        let looking = space.clone();
        let least = self.on_reactor(move || async move { looking.least_size().await }).await?;
        least.map_err(|error| from_space(object, error))
    }

    /// Asks for another shape; false if that is what the space was asked for before.
    async fn reshape(
        &self,
        object: &ObjectRef,
        space: &Arc<Space>,
        shape: Shape,
        provisioning: Provisioning,
        journal_bytes: Option<u64>,
    ) -> ApiResult<bool> {
        let shaping = space.clone();
        let shaped = self.on_reactor(move || async move { shaping.reshape(shape, provisioning, journal_bytes).await });
        let reshaped = shaped.await?.map_err(|error| from_pool(object, error))?;
        if reshaped {
            self.note(object, &format!("to become {shape}, {}", holdfast_api::word(&provisioning)));
        }
        Ok(reshaped)
    }

    /// Refuses a size beyond which data lies, before anything else is changed.
    async fn refuse_loss(&self, object: &str, space: &Arc<Space>, size_bytes: u64) -> ApiResult<()> {
        let least = self.least_size(object, space).await?;
        if least <= size_bytes {
            return Ok(());
        }
        let message =
            format!("it holds data up to {least} bytes ({}), beyond the new end at {size_bytes}", ByteSize(least));
        let next = format!(
            "choose at least --size {least}, shrink its file system first and discard the free blocks, or discard the data beyond the new end with --discard-beyond"
        );
        Err(conflict(object, message, next).at("size_bytes"))
    }

    /// Gives a space another size; nothing where it has that.
    async fn resize(
        &self,
        (space, target): (&Arc<Space>, &Target),
        size_bytes: u64,
        discard_beyond: bool,
    ) -> ApiResult<()> {
        let (resizing, before, object) = (space.clone(), space.record().size_bytes, &target.object());
        if size_bytes == before {
            return Ok(());
        }
        let resized = self.on_reactor(move || async move {
            if size_bytes < before {
                resizing.shrink(size_bytes, discard_beyond).await
            } else {
                resizing.grow(size_bytes).await
            }
        });
        let refused = |error: PoolError| match self.jobs.why_rows_move(target) {
            Some((moving, next)) if error.kind == PoolErrorKind::Conflict => conflict(
                object,
                format!("its size cannot change because of {moving}"),
                format!("{next}, then try again"),
            )
            .at("size_bytes"),
            _ => from_pool(object, error),
        };
        if resized.await?.map_err(refused)? {
            let how = if size_bytes < before { "made smaller, to" } else { "grown to" };
            self.note(object, &format!("{how} {}", ByteSize(size_bytes)));
        }
        Ok(())
    }
}

/// Whether nothing is left to do of an earlier conversion.
fn is_whole(open: &OpenPool, space: &Space, record: &SpaceRecord) -> bool {
    let journal = match record.shape.layout.parity() {
        0 => open.pool.journal_bytes(record.id) == 0,
        _ => open.pool.has_journal_of(record.id, None),
    };
    let rows = record.provisioning == Provisioning::Thin
        || open.pool.row_count(record.id) as u64 >= u64::from(record.chunks());
    space.bytes_to_convert() == 0 && journal && rows
}

/// What a space shall be: what is not asked for stays as it is.
fn asked_for(
    object: &str,
    open: &OpenPool,
    record: &SpaceRecord,
    request: &ConvertSpace,
) -> ApiResult<(Shape, Provisioning)> {
    let now = record.shape.layout;
    let kind_now = match now {
        Layout::Simple => LayoutKind::Simple,
        Layout::Mirror { .. } => LayoutKind::Mirror,
        Layout::Parity { .. } => LayoutKind::Parity,
    };
    let kind = request.layout.unwrap_or(kind_now);
    let kept = |count: u8| Some(count).filter(|count| kind == kind_now && *count > 0);
    let as_created = CreateSpace {
        name: object.into(),
        layout: kind,
        copies: request.copies.or(kept(now.copies()).filter(|_| kind == LayoutKind::Mirror)),
        parity: request.parity.or(kept(now.parity())),
        columns: request.columns,
        interleave_bytes: request.interleave_bytes,
        size_bytes: record.size_bytes,
        thin: false,
        journal_bytes: request.journal_bytes,
        integrity: request.integrity,
        enclosure_aware: record.enclosure_aware,
    };
    let layout = layout_of(object, &as_created)?;
    let columns = request.columns.or((layout == now).then_some(record.shape.columns));
    let interleave = request.interleave_bytes.map_or(record.shape.interleave, ByteSize);
    let shape = Shape::choose(layout, columns, Some(interleave), data_disks(open))
        .map_err(|error| no_shape(object, &error, request.columns, "choose other parameters, or add disks"))?
        .with_integrity(request.integrity.unwrap_or(record.shape.integrity));
    let provisioning = match request.thin {
        Some(true) => Provisioning::Thin,
        Some(false) => Provisioning::Fixed,
        None => record.provisioning,
    };
    Ok((shape, provisioning))
}

/// Bytes that a conversion moves.
pub(super) fn total_bytes(site: &Site) -> u64 {
    site.spaces.iter().map(|space| space.bytes_to_convert()).sum()
}

/// Converts.
pub(super) async fn run(site: &Site, provisioning: Option<Provisioning>, pace: &dyn Pace) -> Result<Outcome, Ended> {
    let mut shapes = Vec::new();
    for space in &site.spaces {
        space.convert(provisioning.unwrap_or(space.record().provisioning), pace).await?;
        shapes.push(space.record().shape.to_string());
    }
    Ok(Outcome { result: format!("all of it is {}", shapes.join(", ")), findings: Vec::new() })
}
