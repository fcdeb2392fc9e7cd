//! Files used as disks beside everything else that happens to them: what is read is what was written by whatever way, what
//! was written durably is found after any power cut, and what is not of whole blocks changes nothing.

use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::{
    BlockLimits, CloneRange, Device, Durability, ExtentKind, Extents, IoBuf, IoError, IoErrorKind, StableId, Zeroes,
};
use holdfast_volume::service::{FileId, FileKind};
use holdfast_volume::{ErrorKind, FileObject, VolumeError, object_id};

use crate::files::Life;
use crate::model::{BLOCK, Files};

/// A full volume's refusal, as files have it.
fn as_of_files(error: IoError) -> VolumeError {
    assert_eq!(error.kind, IoErrorKind::NoSpace, "{error}");
    VolumeError::new(ErrorKind::NoSpace, error.to_string())
}

impl Life<'_> {
    /// A file that can be a disk.
    fn disk(&self, files: &Files) -> Option<FileId> {
        let is_disk = |data: &[u8]| !data.is_empty() && data.len().is_multiple_of(BLOCK);
        let all = files.nodes.values().filter(|node| node.kind == FileKind::Regular && is_disk(&node.data));
        self.random.pick(&all.map(|node| node.id).collect::<Vec<_>>()).copied()
    }

    async fn attach(&self, id: FileId) -> FileObject {
        // Only a power cut ends what is under way here.
        let finish = Arc::new(drop);
        let object = FileObject::open(self.volume.clone(), &self.caller, id, finish).await.expect("it can be a disk");
        assert_eq!(object.id(), object_id(self.volume.id(), id));
        object
    }

    /// Something that happens to a file by being a disk.
    pub async fn use_disk(&self) {
        let files = self.files();
        let Some(id) = self.disk(&files) else { return };
        let object = self.attach(id).await;
        match self.random.range(0..20u32) {
            0..8 => self.write_disk(files, &object).await,
            8..11 => self.read_disk(&files, &object).await,
            11..14 => self.zero_disk(files, &object).await,
            14 => self.refuse_parts(&files, &object).await,
            15..17 => {
                object.flush().await.expect("it lasts");
                self.model.borrow_mut().settle_file(id.number, 0);
            }
            17 => self.grow_disk(files, &object).await,
            _ => self.clone_disk(files, &object).await,
        }
        object.close().await.expect("it can be closed");
    }

    /// Whole blocks of so many bytes: where they begin, and how many bytes.
    fn blocks(&self, size: usize) -> (usize, usize) {
        let all = size / BLOCK;
        let first = self.random.range(0..all);
        let count = self.random.range(1..=(all - first).min(12));
        (first * BLOCK, count * BLOCK)
    }

    fn durability(&self) -> Durability {
        if self.random.chance(1, 2) { Durability::Durable } else { Durability::Cached }
    }

    /// The model has bytes of a disk be other ones, and holds what the operation answers against that.
    async fn overwrite(
        &self,
        mut next: Files,
        id: FileId,
        (from, bytes): (usize, &[u8]),
        durability: Durability,
        operation: impl Future<Output = Result<(), IoError>>,
    ) {
        let mut new = (*next.nodes[&id.number].data).clone();
        new[from..from + bytes.len()].copy_from_slice(bytes);
        let new = Rc::new(new);
        next.nodes.get_mut(&id.number).expect("it is there").data = new.clone();
        let mut is_done = false;
        let operation = async {
            operation.await.map_err(as_of_files)?;
            is_done = true;
            Ok(())
        };
        self.change_in_part(id, next, operation).await;
        if is_done && durability == Durability::Durable {
            self.model.borrow_mut().fix(id.number, from..from + bytes.len());
        }
    }

    async fn write_disk(&self, files: Files, object: &FileObject) {
        let id = object.file();
        let (from, len) = self.blocks(files.nodes[&id.number].data.len());
        let mut buf = IoBuf::zeroed(len);
        self.random.fill(&mut buf);
        let (data, durability) = (buf.freeze(), self.durability());
        let writing = object.write(from as u64, data.clone(), durability);
        self.overwrite(files, id, (from, &data), durability, writing).await;
    }

    async fn zero_disk(&self, files: Files, object: &FileObject) {
        let id = object.file();
        let (from, len) = self.blocks(files.nodes[&id.number].data.len());
        let (durability, keep_room) = (self.durability(), self.random.chance(1, 2));
        let zeroing = match self.random.chance(1, 2) {
            true => object.unmap(from as u64, len as u64, durability),
            false => object.write_zeroes(from as u64, len as u64, durability, keep_room),
        };
        self.overwrite(files, id, (from, &vec![0; len]), durability, zeroing).await;
    }

    async fn read_disk(&self, files: &Files, object: &FileObject) {
        let data = &files.nodes[&object.file().number].data;
        assert_eq!(object.geometry().size_bytes, data.len() as u64);
        let (from, len) = self.blocks(data.len());
        let mut buf = IoBuf::new(len);
        self.random.fill(&mut buf);
        let found = object.read(from as u64, buf).await.expect("it can be read");
        assert!(found[..] == data[from..from + len], "{len} bytes at {from} of {}", data.len());
        let most = self.random.range(1..10usize);
        let runs = object.extents(from as u64, len as u64, most).await.expect("they are known");
        let covered: u64 = runs.iter().map(|run| run.len).sum();
        assert!(covered <= len as u64 && runs.len() <= most, "{runs:?}");
        assert!(covered == len as u64 || runs.len() == most, "{runs:?}");
        assert!(runs.windows(2).all(|pair| pair[0].kind != pair[1].kind), "{runs:?}");
        let mut at = from;
        for run in runs {
            let end = at + run.len as usize;
            assert!(run.kind == ExtentKind::Data || data[at..end].iter().all(|byte| *byte == 0), "{run:?} at {at}");
            at = end;
        }
    }

    /// What is not of whole blocks within changes nothing.
    async fn refuse_parts(&self, files: &Files, object: &FileObject) {
        let size = files.nodes[&object.file().number].data.len() as u64;
        let block = BLOCK as u64;
        let ranges = [(512, block), (0, 512), (size, block), (size - block, 2 * block), (1 << 63, block)];
        let (offset, len) = ranges[self.random.range(0..ranges.len())];
        let buf = || IoBuf::new(len as usize);
        let source = object.id();
        let refused = [
            object.read(offset, buf()).await.map(drop),
            object.write(offset, buf().freeze(), self.durability()).await,
            object.unmap(offset, len, self.durability()).await,
            object.write_zeroes(offset, len, self.durability(), true).await,
            object.extents(offset, len, 1).await.map(drop),
            object.cloning().expect("files clone").clone_range(source, offset, 0, len).await,
            object.cloning().expect("files clone").clone_range(source, 0, offset, len).await,
        ];
        for one in refused {
            assert_eq!(one.expect_err("these are no whole blocks within").kind, IoErrorKind::Invalid);
        }
        // What it holds is compared at the end of each life.
    }

    async fn grow_disk(&self, mut next: Files, object: &FileObject) {
        let id = object.file();
        let mut new = (*next.nodes[&id.number].data).clone();
        new.resize(new.len() + self.random.range(0..4usize) * BLOCK, 0);
        let size = new.len() as u64;
        next.nodes.get_mut(&id.number).expect("it is there").data = Rc::new(new);
        self.change_in_part(id, next, async { object.grow(size).await.map(drop) }).await;
        let smaller = object.grow(0).await.expect_err("it does not shrink");
        assert_eq!(smaller.kind, ErrorKind::Invalid);
    }

    async fn clone_disk(&self, files: Files, object: &FileObject) {
        let (id, is_other) = (object.file(), self.random.chance(2, 3));
        let Some(other) = self.disk(&files).filter(|other| is_other && *other != id) else {
            return self.clone_within(files, object).await;
        };
        let source = self.attach(other).await;
        let data = files.nodes[&other.number].data.clone();
        let (from, len) = self.blocks(data.len());
        let to = self.random.range(0..files.nodes[&id.number].data.len() / BLOCK) * BLOCK;
        let len = len.min(files.nodes[&id.number].data.len() - to);
        let cloning = object.clone_range(source.id(), from as u64, to as u64, len as u64);
        self.overwrite(files, id, (to, &data[from..from + len]), Durability::Cached, cloning).await;
        source.close().await.expect("it can be closed");
    }

    async fn clone_within(&self, files: Files, object: &FileObject) {
        let id = object.file();
        let data = files.nodes[&id.number].data.clone();
        let (from, len) = self.blocks(data.len());
        let to = self.random.range(0..data.len() / BLOCK) * BLOCK;
        let len = len.min(data.len() - to);
        let cloning = object.clone_range(object.id(), from as u64, to as u64, len as u64);
        if from.abs_diff(to) < len {
            assert_eq!(cloning.await.expect_err("it overlaps itself").kind, IoErrorKind::Invalid);
            return;
        }
        self.overwrite(files, id, (to, &data[from..from + len]), Durability::Cached, cloning).await;
    }
}
