//! The conversion of a space: what it shall be stands in the pool at once, and its rows are moved to that one by one.

use std::sync::Arc;

use holdfast_api::{ConvertSpace, CreateSpace, JobChanged, StartJob};
use holdfast_model::{ByteSize, Provisioning, Shape};
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, Outcome, Site, SpaceRef};
use crate::engine::Engine;
use crate::error::{Answer, conflict, from_pool};
use crate::spaces::{data_disks, layout_of, parse_path};

impl Engine {
    /// Gives a space another shape: answers with the job that moves its rows, the one that is there already if there is one.
    ///
    /// # Errors
    /// If the pool cannot bear the shape, or a conversion to another one is under way; nothing is changed then.
    pub async fn convert_space(self: &Arc<Self>, path: String, request: ConvertSpace) -> Answer<JobChanged> {
        self.change(move |engine| async move { engine.convert(&path, request).await }).await
    }

    async fn convert(&self, path: &str, request: ConvertSpace) -> Answer<JobChanged> {
        let path = parse_path(path)?;
        let object = format!("space {path}");
        let (open, _, space) = self.space_at(&path)?;
        let record = space.record();
        let as_created = CreateSpace {
            name: path.to_string(),
            layout: request.layout,
            copies: request.copies,
            parity: request.parity,
            columns: request.columns,
            interleave_bytes: request.interleave_bytes,
            size_bytes: record.size_bytes,
            thin: false,
            journal_bytes: request.journal_bytes,
            enclosure_aware: record.enclosure_aware,
        };
        let layout = layout_of(&object, &as_created)?;
        let interleave = request.interleave_bytes.map_or(record.shape.interleave, ByteSize);
        let shape = Shape::choose(layout, request.columns, Some(interleave), data_disks(&open))
            .map_err(|error| holdfast_api::ApiError::invalid(&object, error.to_string(), "choose other parameters"))?;
        let provisioning = match request.thin {
            Some(true) => Provisioning::Thin,
            Some(false) => Provisioning::Fixed,
            None => record.provisioning,
        };
        let space_ref = SpaceRef { pool: open.pool.id(), space: record.uuid, path: path.to_string() };
        let spec = JobSpec::Convert { space: space_ref, provisioning };
        if let Some(job) = self.jobs.like(&spec)
            && record.shape != shape
        {
            let message = format!("it is being converted to {}", record.shape);
            return Err(conflict(object, message, format!("wait for job {job}, or 'holdfast job cancel {job}' first")));
        }
        let shaping = space.clone();
        let shaped = self.on_reactor(move || async move { shaping.reshape(shape, provisioning, request.journal_bytes).await });
        if shaped.await?.map_err(|error| from_pool(&object, error))? {
            self.note(&object, &format!("to become {shape}, {}", holdfast_api::word(&provisioning)));
        }
        let start = StartJob { priority: request.priority, cap_bytes_per_second: request.cap_bytes_per_second };
        self.add_job(spec, start)
    }
}

/// Bytes that a conversion moves.
pub(super) fn total_bytes(site: &Site) -> u64 {
    site.spaces.iter().map(|space| space.bytes_to_convert()).sum()
}

/// Converts.
pub(super) async fn run(site: &Site, provisioning: Provisioning, pace: &dyn Pace) -> Result<Outcome, Ended> {
    let mut shapes = Vec::new();
    for space in &site.spaces {
        space.convert(provisioning, pace).await?;
        shapes.push(space.record().shape.to_string());
    }
    Ok(Outcome { result: format!("all of it is {}", shapes.join(", ")), findings: Vec::new() })
}
