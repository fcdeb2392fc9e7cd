//! Spaces: made, grown, shown, destroyed.
//!
//! Invariant: a request that is refused has changed nothing, and one that is repeated changes nothing more.

use std::fmt::Display;
use std::sync::Arc;

use holdfast_api::{
    ApiError, Changed, CreateSpace, GrowSpace, LayoutKind, SetSpace, Slab, Space as SpaceView, SpaceChanged, SpaceRow,
};
use holdfast_model::{
    BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape, ShapeError, SpacePath, Uuid,
    natural_order,
};
use holdfast_pool::{DiskStatus, SpaceRecord, SpaceSpec, check_space_size};
use holdfast_space::Space;

use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, from_pool, from_space, not_confirmed, not_found};

/// A checked `POOL/SPACE`.
pub(crate) fn parse_path(path: &str) -> ApiResult<SpacePath> {
    let shown: String = path.chars().take(160).collect();
    path.parse().map_err(|error: holdfast_model::NameError| {
        ApiError::invalid(format!("space {shown:?}"), error.to_string(), "write POOL/SPACE")
    })
}

impl Engine {
    /// The pool and space of this path, with the space's number in the pool.
    pub(crate) fn space_at(&self, path: &SpacePath) -> ApiResult<(Arc<OpenPool>, u32, Arc<Space>)> {
        let open = self.pool_named(path.pool.as_str())?;
        if let Some((id, space)) = open.space(path.space.as_str()) {
            return Ok((open, id, space));
        }
        let object = format!("space {path}");
        if open.pool.spaces().iter().any(|record| record.name == path.space) {
            return Err(conflict(object, "it is not open", "see 'holdfast event list' for the reason"));
        }
        Err(not_found(object, "'holdfast space list' lists the spaces"))
    }

    /// All spaces of the pools in service.
    pub fn spaces(&self) -> Vec<SpaceView> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let mut views = Vec::new();
        for open in pools {
            let spaces: Vec<Arc<Space>> = open.spaces().values().cloned().collect();
            views.extend(spaces.iter().map(|space| self.space_view(&open, space)));
        }
        views.sort_by(|a, b| natural_order(&a.name, &b.name));
        views
    }

    /// The space of this path.
    ///
    /// # Errors
    /// If there is none.
    pub fn space(&self, path: &str) -> ApiResult<SpaceView> {
        let path = parse_path(path)?;
        let (open, _, space) = self.space_at(&path)?;
        Ok(self.space_view(&open, &space))
    }

    /// Where every slab of a space lies.
    ///
    /// # Errors
    /// If there is no such space.
    pub async fn space_map(&self, path: &str) -> ApiResult<Vec<SpaceRow>> {
        let (open, id, space) = self.space_at(&parse_path(path)?)?;
        let rows = self.on_reactor(move || async move { space.map() }).await?;
        let data = rows.into_iter().map(|row| SpaceRow {
            chunk: row.chunk.into(),
            journal: false,
            offset_bytes: row.offset_bytes,
            length_bytes: row.len_bytes,
            slabs: row
                .slabs
                .into_iter()
                .map(|slab| Slab {
                    column: slab.column,
                    copy: slab.copy,
                    disk: slab.disk,
                    path: slab.path,
                    offset_bytes: slab.offset_bytes,
                    length_bytes: slab.len_bytes,
                    stale: slab.stale,
                })
                .collect(),
        });
        Ok(data.chain(crate::view::journal_map(&open, id)).collect())
    }

    /// Makes a space.
    ///
    /// # Errors
    /// If its shape or size cannot be, or there is no room; nothing is changed then.
    pub async fn create_space(self: &Arc<Self>, request: CreateSpace) -> ApiResult<SpaceChanged> {
        self.change(move |engine| async move {
            engine.refuse_awaited(&request.name)?;
            engine.make_space(request).await
        })
        .await
    }

    /// Refuses a name that the space of a volume is to have which was not created to its end.
    fn refuse_awaited(&self, path: &str) -> ApiResult<()> {
        let path = parse_path(path).map_err(|error| error.at("name"))?;
        let open = self.pool_named(path.pool.as_str()).map_err(|error| error.at("name"))?;
        let Some(volume) = open.volume_awaiting(path.space.as_str()) else { return Ok(()) };
        let message = format!("the space of volume {volume}, which was not created to the end, has this name");
        let next = format!("choose another name; 'holdfast volume show {volume}' tells how to go on with the volume");
        Err(conflict(format!("space {path}"), message, next).at("name"))
    }

    pub(crate) async fn make_space(&self, mut request: CreateSpace) -> ApiResult<SpaceChanged> {
        let path = parse_path(&request.name).map_err(|error| error.at("name"))?;
        request.size_bytes = space_size(&path, request.size_bytes)?;
        let object = format!("space {path}");
        let open = self.pool_named(path.pool.as_str()).map_err(|error| error.at("name"))?;
        let layout = layout_of(&object, &request)?;
        let existing = open.pool.spaces().into_iter().find(|record| record.name == path.space);
        if let Some(record) = existing {
            same_parameters(&object, &open, &record, &request)?;
            let (_, _, space) = self.space_at(&path)?;
            return Ok(SpaceChanged { changed: false, space: self.space_view(&open, &space) });
        }
        let provisioning = provisioning_of(&request);
        let interleave = request.interleave_bytes.map(ByteSize);
        let shape = Shape::choose(layout, request.columns, interleave, data_disks(&open))
            .map_err(|error| no_shape(&object, &error, request.columns, "choose other parameters"))?
            .with_integrity(integrity_of(&request));
        let CreateSpace { size_bytes, journal_bytes, enclosure_aware, .. } = request;
        let spec =
            SpaceSpec { name: path.space.clone(), shape, provisioning, size_bytes, journal_bytes, enclosure_aware };
        let pool = open.pool.clone();
        let made = self.on_reactor(move || async move { pool.create_space(spec).await }).await?;
        let record = made.map_err(|error| from_pool(&object, error))?;
        let space = self.open_space(&open, record.id).await?;
        self.note(
            &open.space_object(&record),
            &format!("created, {} as {}", ByteSize(record.size_bytes), record.shape),
        );
        Ok(SpaceChanged { changed: true, space: self.space_view(&open, &space) })
    }

    /// Makes a space larger.
    ///
    /// # Errors
    /// If it would become smaller, or there is no room.
    pub async fn grow_space(self: &Arc<Self>, path: String, request: GrowSpace) -> ApiResult<SpaceChanged> {
        self.change(move |engine| async move { engine.enlarge_space(&path, request.size_bytes).await }).await
    }

    /// The same within a change.
    pub(crate) async fn enlarge_space(&self, path: &str, size_bytes: u64) -> ApiResult<SpaceChanged> {
        let path = parse_path(path)?;
        let (open, _, space) = self.space_at(&path)?;
        let (growing, size_bytes) = (space.clone(), space_size(&path, size_bytes)?);
        let grown = self.on_reactor(move || async move { growing.grow(size_bytes).await }).await?;
        let changed = grown.map_err(|error| from_pool(format!("space {path}"), error))?;
        if changed {
            self.note(&open.space_object(&space.record()), &format!("grown to {}", ByteSize(size_bytes)));
            self.look_at_luns().await?;
        }
        Ok(SpaceChanged { changed, space: self.space_view(&open, &space) })
    }

    /// Changes what can be changed of a space in use.
    ///
    /// # Errors
    /// If it has no journal, or the journal cannot have that size, or the limits make no sense; nothing is changed
    /// then.
    pub async fn set_space(self: &Arc<Self>, path: String, request: SetSpace) -> ApiResult<SpaceChanged> {
        self.change(move |engine| async move {
            let path = parse_path(&path)?;
            let (open, id, space) = engine.space_at(&path)?;
            let object = open.space_object(&space.record());
            let mut changed = false;
            let service = open.services().get(&space.record().uuid).cloned();
            if let (Some(set), Some(service)) = (&request.qos, &service) {
                let wanted = set.applied_to(service.qos());
                crate::qos::check(&object.to_string(), &wanted).map_err(|error| error.inside("qos"))?;
            }
            if let Some(bytes) = request.journal_bytes {
                let resizing = space.clone();
                let resized = engine.on_reactor(move || async move { resizing.resize_journal(bytes).await }).await?;
                let resized = resized.map_err(|error| from_space(&object, error).at("journal_bytes"))?;
                changed |= resized;
                if resized {
                    engine.note(&object, &format!("its journal has {}", ByteSize(open.pool.journal_bytes(id))));
                }
            }
            if let (Some(set), Some(service)) = (&request.qos, &service) {
                changed |= engine.set_space_qos(&object, &open.pool, service, set).await?;
            }
            Ok(SpaceChanged { changed, space: engine.space_view(&open, &space) })
        })
        .await
    }

    /// Removes a space. Its data is lost.
    ///
    /// # Errors
    /// If it is not confirmed, or the space is exported to clients.
    pub async fn destroy_space(self: &Arc<Self>, path: String, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.end_space(&path, confirmed).await }).await
    }

    /// Refuses to destroy what clients can reach.
    pub(crate) fn refuse_exported(&self, object: &str, space: Uuid) -> ApiResult<()> {
        if let Some((target, number)) = self.lun_on_space(space) {
            let next = format!("'holdfast lun remove {target} {number}' first");
            return Err(conflict(object, format!("it is LUN {target}/{number}"), next));
        }
        self.refuse_waiting_luns(space, object)?;
        let live = self.live();
        let of_space = live.exports.values().filter(|export| export.known.space == space);
        let served: Vec<&str> = of_space.map(|export| export.known.name.as_str()).collect();
        if served.is_empty() {
            return Ok(());
        }
        let next = served.iter().map(|name| format!("'holdfast nbd unexport {name}'")).collect::<Vec<_>>().join(", ");
        Err(conflict(object, format!("it is exported to clients as {}", served.join(", ")), format!("{next} first")))
    }

    pub(crate) async fn end_space(&self, path: &str, confirmed: bool) -> ApiResult<Changed> {
        let path = parse_path(path)?;
        let object = format!("space {path}");
        let open = self.pool_named(path.pool.as_str())?;
        let Some(record) = open.pool.spaces().into_iter().find(|record| record.name == path.space) else {
            return Ok(Changed { changed: false, message: format!("there is no {object}") });
        };
        if !confirmed {
            return Err(not_confirmed(
                object,
                format!("{} of data would be lost", ByteSize(record.size_bytes)),
                "repeat with --yes",
            ));
        }
        if let Some(volume) = open.volume_on(&record) {
            let next = format!("'holdfast volume destroy {volume} --yes' first");
            return Err(conflict(object, format!("volume {volume} lies on it"), next));
        }
        self.remove_space(&open, &record).await?;
        Ok(Changed { changed: true, message: format!("{object} is destroyed") })
    }

    /// Removes a space, whatever lies on it, unless clients can reach it.
    pub(crate) async fn remove_space(&self, open: &OpenPool, record: &SpaceRecord) -> ApiResult<()> {
        let object = format!("space {}/{}", open.name(), record.name);
        self.refuse_exported(&object, record.uuid)?;
        self.cancel_jobs_of(open.pool.id(), Some(record.uuid)).await?;
        self.interrupt_wide_jobs_of(open.pool.id()).await?;
        self.close_space(open, record.id).await?;
        let (pool, id, gone) = (open.pool.clone(), record.id, open.space_object(record));
        let destroyed = self.on_reactor(move || async move { pool.destroy_space(id).await }).await?;
        if let Err(error) = destroyed {
            self.open_spaces(open).await;
            return Err(from_pool(object, error));
        }
        if let Err(error) = self.forget_space(open, record.uuid).await {
            tracing::warn!("what was kept for {object} could not be removed: {error}");
        }
        self.note(&gone, "destroyed");
        Ok(())
    }
}

/// Disks in service that may hold data.
pub(crate) fn data_disks(open: &OpenPool) -> usize {
    let takes_slabs = |disk: &DiskStatus| disk.record.state == DiskState::Online && disk.record.usage.takes_slabs();
    open.pool.disks().iter().filter(|disk| takes_slabs(disk)).count()
}

/// A size in whole blocks: part of a block counts as one.
pub(crate) fn whole_blocks(size_bytes: u64) -> u64 {
    size_bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(size_bytes)
}

/// The size that a space of a request gets, in whole blocks.
pub(crate) fn space_size(path: &SpacePath, size_bytes: u64) -> ApiResult<u64> {
    let size_bytes = whole_blocks(size_bytes);
    let checked = check_space_size(&path.to_string(), size_bytes);
    checked.map(|()| size_bytes).map_err(|error| from_pool(format!("space {path}"), error))
}

/// Refuses a shape that cannot be, at the field that says so: where the number of columns was left open, it follows
/// from the layout.
pub(crate) fn no_shape(object: &str, error: &ShapeError, columns: Option<u16>, next: &str) -> ApiError {
    let field = if columns.is_none() && error.parameter() == "columns" { "layout" } else { error.parameter() };
    ApiError::invalid(object, error.to_string(), next).at(field)
}

/// The layout that a request asks for.
pub(crate) fn layout_of(object: &str, request: &CreateSpace) -> ApiResult<Layout> {
    let refuse = |field: &str, message: String, next: &str| Err(ApiError::invalid(object, message, next).at(field));
    if request.layout != LayoutKind::Parity {
        let layout = holdfast_api::word(&request.layout);
        if let Some(parity) = request.parity.filter(|parity| *parity > 0) {
            return refuse(
                "parity",
                format!("a {layout} space has no parity columns, and {parity} were requested"),
                "choose --layout parity, or leave --parity out",
            );
        }
        if let Some(journal) = request.journal_bytes {
            return refuse(
                "journal_bytes",
                format!("a {layout} space has no journal, and one of {} was requested", ByteSize(journal)),
                "choose --layout parity, or leave --journal out",
            );
        }
    }
    match (request.layout, request.copies) {
        (LayoutKind::Simple, None | Some(1)) => Ok(Layout::Simple),
        (LayoutKind::Simple, Some(copies)) => refuse(
            "copies",
            format!("a simple space keeps one copy, not {copies}"),
            "choose --layout mirror, or leave --copies out",
        ),
        (LayoutKind::Mirror, copies) => Ok(Layout::Mirror { copies: copies.unwrap_or(2) }),
        (LayoutKind::Parity, None | Some(1)) => Ok(Layout::Parity { parity: request.parity.unwrap_or(1) }),
        (LayoutKind::Parity, Some(copies)) => refuse(
            "copies",
            format!("a parity space keeps one copy and parity columns, not {copies} copies"),
            "choose --layout mirror, or --parity 1 or 2 and leave --copies out",
        ),
    }
}

fn provisioning_of(request: &CreateSpace) -> Provisioning {
    if request.thin { Provisioning::Thin } else { Provisioning::Fixed }
}

/// Checksums, unless the request says otherwise.
pub(crate) fn integrity_of(request: &CreateSpace) -> Integrity {
    request.integrity.unwrap_or(Integrity::Crc32c)
}

/// Refuses a request for a space that is there with other parameters.
pub(crate) fn same_parameters(
    object: &str,
    open: &OpenPool,
    record: &SpaceRecord,
    request: &CreateSpace,
) -> ApiResult<()> {
    let (layout, provisioning) = (layout_of(object, request)?, provisioning_of(request));
    let shape = record.shape;
    let word = |provisioning: Provisioning| holdfast_api::word(&provisioning);
    let other = |field: &str, what: &str, has: &dyn Display, wanted: &dyn Display| {
        Err(exists_with(object, what, has, wanted).at(field))
    };
    if shape.layout != layout {
        return other("layout", "layout", &shape.layout, &layout);
    }
    if let Some(columns) = request.columns.filter(|columns| *columns != shape.columns) {
        return other("columns", "number of columns", &shape.columns, &columns);
    }
    if let Some(interleave) =
        request.interleave_bytes.map(ByteSize).filter(|interleave| *interleave != shape.interleave)
    {
        return other("interleave_bytes", "interleave", &shape.interleave, &interleave);
    }
    if let Some(integrity) = request.integrity.filter(|integrity| *integrity != shape.integrity) {
        return other("integrity", "integrity", &shape.integrity, &integrity);
    }
    if record.provisioning != provisioning {
        return other("thin", "provisioning", &word(record.provisioning), &word(provisioning));
    }
    if record.enclosure_aware != request.enclosure_aware {
        let over = |enclosure_aware: bool| if enclosure_aware { "enclosures" } else { "disks" };
        return other("enclosure_aware", "spread over", &over(record.enclosure_aware), &over(request.enclosure_aware));
    }
    if let Some(journal) = request.journal_bytes.filter(|journal| !open.pool.has_journal_of(record.id, Some(*journal)))
    {
        let has = ByteSize(open.pool.journal_bytes(record.id));
        return other("journal_bytes", "journal size", &has, &ByteSize(journal));
    }
    if record.size_bytes != request.size_bytes {
        let (has, wanted) = (ByteSize(record.size_bytes), ByteSize(request.size_bytes));
        return other("size_bytes", "size", &has.beside(wanted), &wanted.beside(has));
    }
    Ok(())
}
