//! Pools whose metadata is lost, put together again from the heads of their slabs.
//!
//! Invariants: without being told to write, the disks are opened for reading only. Disks of pools in service are never
//! looked at.

use std::sync::Arc;

use holdfast_api::salvage::SalvagedChunks;
use holdfast_api::{SalvagePool, Salvaged, SalvagedDisk, SalvagedJournal, SalvagedSpace, Severity, SpaceChanged};
use holdfast_model::{Name, ObjectRef, counted};
use holdfast_pool::{Candidate, JournalFound, Salvage};

use crate::disks::real_path;
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, from_pool};
use crate::pools::parse_name;
use crate::spaces::parse_path;

impl Engine {
    /// Looks for what is left of a pool on disks, and writes new metadata where that is asked for.
    ///
    /// # Errors
    /// If a disk cannot be used, nothing is found, or what is found must not be written; nothing is changed then.
    pub async fn salvage_pool(self: &Arc<Self>, request: SalvagePool) -> ApiResult<Salvaged> {
        match request.write {
            true => self.change(move |engine| async move { engine.salvage(request).await }).await,
            false => self.salvage(request).await,
        }
    }

    async fn salvage(&self, request: SalvagePool) -> ApiResult<Salvaged> {
        let object = "salvage".to_string();
        let wanted = request
            .name
            .as_deref()
            .map(|name| parse_name("pool", name).map_err(|error| error.at("name")))
            .transpose()?;
        let paths = self.resolve_all(&object, &request.disks).await?;
        let pooled = self.pooled_paths();
        let mut candidates: Vec<Candidate> = Vec::new();
        for path in &paths {
            if let Some(pool) = pooled.get(&real_path(path)) {
                let next = "name disks of a pool that is not imported";
                return Err(conflict(
                    format!("disk {path}"),
                    format!("it is in use by the imported pool {pool}"),
                    next,
                ));
            }
            candidates.push(self.open_disk(path, !request.write).await?.candidate);
        }
        let pool = request.pool;
        let found = self.on_reactor(move || Salvage::look(candidates, pool)).await?;
        let found = Arc::new(found.map_err(|error| from_pool(&object, error))?);
        let name = wanted.unwrap_or_else(|| found.name.clone());
        if request.write {
            // Wherever the disks are, the import that follows looks at them.
            let real: Vec<String> = paths.iter().map(|path| real_path(path).to_string_lossy().into_owned()).collect();
            self.remember_files(&real)?;
            self.write_salvaged(&found, &name).await?;
        }
        Ok(view(&found, &name, request.write))
    }

    async fn write_salvaged(&self, found: &Arc<Salvage>, name: &Name) -> ApiResult<()> {
        let object = format!("pool {name}");
        let taken = {
            let live = self.live();
            let same = |other: &str, id| other == name.as_str() || id == found.id;
            live.pools.values().any(|open| same(&open.name(), open.pool.id()))
                || live
                    .offline
                    .values()
                    .any(|offline| offline.known.name == name.as_str() && offline.known.id != found.id)
        };
        if taken {
            let next = "choose another name with --name, or export that pool first";
            return Err(conflict(object, "a pool of this name or id already exists", next));
        }
        let (env, salvage, called) = (self.env(), found.clone(), name.clone());
        let written = self.on_reactor(move || async move { salvage.write(&env, called).await }).await?;
        written.map_err(|error| from_pool(&object, error))?;
        let disks = counted(found.disks.len() as u64, "disk", "disks");
        let cause = format!("new metadata was written from the slab headers of {disks}");
        let next =
            format!("run 'holdfast pool import {name}', check its spaces, then run 'holdfast space accept' for each");
        self.events().emit(Severity::Warning, &ObjectRef::pool(found.id, name.as_str()), &cause, &next);
        Ok(())
    }

    /// Lets clients write to a space that a salvage put together.
    ///
    /// # Errors
    /// If there is no such space, or the pool cannot be changed.
    pub async fn accept_space(self: &Arc<Self>, path: String) -> ApiResult<SpaceChanged> {
        self.change(move |engine| async move {
            let path = parse_path(&path)?;
            let object = format!("space {path}");
            let (open, _, space) = engine.space_at(&path)?;
            let accepted = space.clone();
            let changed = engine.on_reactor(move || async move { accepted.accept().await }).await?;
            let changed = changed.map_err(|error| from_pool(&object, error))?;
            if changed {
                engine
                    .note(&open.space_object(&space.record()), "accepted: clients that connect from now on can write");
            }
            Ok(SpaceChanged { changed, space: engine.space_view(&open, &space) })
        })
        .await
    }
}

fn view(found: &Salvage, name: &Name, changed: bool) -> Salvaged {
    let disk = |disk: &holdfast_pool::SalvagedDisk| SalvagedDisk {
        path: disk.info.path.clone(),
        id: disk.id,
        slabs: disk.slabs as u64,
        counting: disk.counting as u64,
        unreadable: disk.unreadable,
    };
    let space = |space: &holdfast_pool::SalvagedSpace| SalvagedSpace {
        name: format!("{name}/{}", space.name),
        id: space.id,
        size_bytes: space.size_bytes,
        layout: crate::view::layout_kind(space.shape.layout),
        copies: space.shape.layout.copies(),
        parity: space.shape.layout.parity(),
        columns: space.shape.columns,
        chunks: SalvagedChunks {
            total: space.chunks.total,
            complete: space.chunks.complete,
            degraded: space.chunks.degraded,
            missing: space.chunks.missing,
            conflicting: space.chunks.conflicting,
            absent: space.chunks.absent,
        },
        journal: space.journal.map(|journal| match journal {
            JournalFound::Complete => SalvagedJournal::Complete,
            JournalFound::Degraded => SalvagedJournal::Degraded,
            JournalFound::Lost => SalvagedJournal::Lost,
        }),
        doubts: space.doubts.clone(),
    };
    Salvaged {
        changed,
        name: name.to_string(),
        id: found.id,
        other_pools: found.others.clone(),
        disks: found.disks.iter().map(disk).collect(),
        spaces: found.spaces.iter().map(space).collect(),
        doubts: found.doubts.clone(),
        obstacle: found.obstacle.clone(),
    }
}
