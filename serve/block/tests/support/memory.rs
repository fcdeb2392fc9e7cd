//! A block object in memory that can be slow, full, broken or read-only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_device::reactor::clock;
use holdfast_device::{
    BlockLimits, CloneRange, Device, DiscardLimits, Durability, Extent, ExtentKind, Extents, Geometry, Io, IoBuf,
    IoError, IoErrorKind, IoSlice, Limits, StableId, Zeroes,
};
use holdfast_model::Uuid;

const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 4096;

#[derive(Clone)]
struct Chunk {
    data: Box<[u8]>,
    kinds: Box<[ExtentKind]>,
}

impl Chunk {
    fn new() -> Self {
        let blocks = (CHUNK / BLOCK) as usize;
        Self { data: vec![0; CHUNK as usize].into(), kinds: vec![ExtentKind::Hole; blocks].into() }
    }
}

type Chunks = Arc<[Mutex<Option<Chunk>>]>;

/// Objects that are cloned from each other.
#[derive(Default)]
pub struct Domain {
    objects: Mutex<HashMap<Uuid, Chunks>>,
    /// Clones so far.
    pub clones: AtomicU64,
}

/// See the module.
pub struct Memory {
    id: Uuid,
    size_bytes: AtomicU64,
    chunks: Chunks,
    domain: Option<Arc<Domain>>,
    read_only: bool,
    rotational: bool,
    delay: Duration,
    /// What every request answers, where it is an error.
    pub broken: Mutex<Option<IoErrorKind>>,
    /// Flushes so far.
    pub flushes: AtomicU64,
    /// Durable changes so far.
    pub durable: AtomicU64,
}

#[allow(dead_code)]
impl Memory {
    pub fn new(size_bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed).into()),
            size_bytes: AtomicU64::new(size_bytes),
            chunks: (0..(4 * size_bytes).div_ceil(CHUNK)).map(|_| Mutex::default()).collect(),
            domain: None,
            read_only: false,
            rotational: false,
            delay: Duration::ZERO,
            broken: Mutex::new(None),
            flushes: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    pub fn of_domain(self, domain: &Arc<Domain>) -> Self {
        domain.objects.lock().unwrap().insert(self.id, self.chunks.clone());
        Self { domain: Some(domain.clone()), ..self }
    }

    pub fn rotational(self) -> Self {
        Self { rotational: true, ..self }
    }

    /// Answers each request after `delay`, not at once.
    pub fn slow(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Up to four times its first size.
    pub fn grow(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::SeqCst);
    }

    fn answer<T: Unpin + 'static>(&self, work: impl FnOnce() -> T) -> Io<T> {
        let broken = *self.broken.lock().unwrap();
        let result = match broken {
            Some(kind) => Err(IoError::new(kind, "memory as the test wants it")),
            None => Ok(work()),
        };
        if self.delay.is_zero() {
            return Io::ready(result);
        }
        let delay = self.delay;
        Io::pending(async move {
            clock().sleep(delay).await;
            result
        })
    }

    fn check(&self, offset: u64, len: u64) {
        assert!((offset | len).is_multiple_of(BLOCK), "{offset}+{len} is not in whole blocks");
        assert!(offset + len <= self.size_bytes.load(Ordering::SeqCst), "{offset}+{len} is beyond the end");
    }

    fn change(
        &self,
        offset: u64,
        len: u64,
        durability: Durability,
        mut each: impl FnMut(&mut Chunk, usize, usize, usize),
    ) {
        self.check(offset, len);
        if durability == Durability::Durable {
            self.durable.fetch_add(1, Ordering::SeqCst);
        }
        let mut at = offset;
        while at < offset + len {
            let within = at % CHUNK;
            let part = (CHUNK - within).min(offset + len - at);
            let mut chunk = self.chunks[(at / CHUNK) as usize].lock().unwrap();
            each(chunk.get_or_insert_with(Chunk::new), within as usize, (at - offset) as usize, part as usize);
            at += part;
        }
    }

    fn mark(chunk: &mut Chunk, at: usize, len: usize, kind: ExtentKind) {
        chunk.kinds[at / BLOCK as usize..(at + len) / BLOCK as usize].fill(kind);
    }
}

impl StableId for Memory {
    fn id(&self) -> Uuid {
        self.id
    }
}

impl BlockLimits for Memory {
    fn limits(&self) -> Limits {
        let discard = Some(DiscardLimits { granularity_bytes: BLOCK, reads_zeros: true });
        Limits { optimal_io_bytes: 64 << 10, discard }
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn cloning(&self) -> Option<&dyn CloneRange> {
        self.domain.as_ref().map(|_| self as &dyn CloneRange)
    }
}

impl CloneRange for Memory {
    fn clone_domain(&self) -> Uuid {
        Uuid::from_u128(Arc::as_ptr(self.domain.as_ref().unwrap()).addr() as u128)
    }

    fn clone_range(&self, source: Uuid, from: u64, offset: u64, len: u64) -> Io<()> {
        let domain = self.domain.as_ref().unwrap();
        domain.clones.fetch_add(1, Ordering::SeqCst);
        let Some(source) = domain.objects.lock().unwrap().get(&source).cloned() else {
            return Io::ready(Err(IoError::invalid("no object of the domain")));
        };
        self.answer(|| {
            for block in (0..len).step_by(BLOCK as usize) {
                let (chunk, within) = ((from + block) / CHUNK, ((from + block) % CHUNK) as usize);
                let found = source[chunk as usize].lock().unwrap().as_ref().map(|chunk| {
                    let data = chunk.data[within..within + BLOCK as usize].to_vec();
                    (data, chunk.kinds[within / BLOCK as usize])
                });
                let (data, kind) = found.unwrap_or((vec![0; BLOCK as usize], ExtentKind::Hole));
                self.change(offset + block, BLOCK, Durability::Cached, |chunk, at, _, len| {
                    chunk.data[at..at + len].copy_from_slice(&data);
                    Self::mark(chunk, at, len, kind);
                });
            }
        })
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes.load(Ordering::SeqCst),
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: self.rotational,
            discard: true,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        self.answer(|| {
            self.check(offset, buf.len() as u64);
            let (mut at, end) = (offset, offset + buf.len() as u64);
            while at < end {
                let within = at % CHUNK;
                let part = (CHUNK - within).min(end - at) as usize;
                let to = &mut buf[(at - offset) as usize..][..part];
                match &*self.chunks[(at / CHUNK) as usize].lock().unwrap() {
                    Some(chunk) => to.copy_from_slice(&chunk.data[within as usize..][..part]),
                    None => to.fill(0),
                }
                at += part as u64;
            }
            buf
        })
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.answer(|| {
            self.change(offset, data.len() as u64, durability, |chunk, at, from, len| {
                chunk.data[at..at + len].copy_from_slice(&data[from..from + len]);
                Self::mark(chunk, at, len, ExtentKind::Data);
            })
        })
    }

    fn flush(&self) -> Io<()> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.answer(|| ())
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.unmap(offset, len, Durability::Cached)
    }
}

impl Zeroes for Memory {
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.write_zeroes(offset, len, durability, false)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        let kind = if keep_room { ExtentKind::Zero } else { ExtentKind::Hole };
        self.answer(|| {
            self.change(offset, len, durability, |chunk, at, _, len| {
                chunk.data[at..at + len].fill(0);
                Self::mark(chunk, at, len, kind);
            })
        })
    }
}

impl Extents for Memory {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.answer(|| {
            self.check(offset, len);
            let mut found: Vec<Extent> = Vec::new();
            for block in (offset..offset + len).step_by(BLOCK as usize) {
                let kind = match &*self.chunks[(block / CHUNK) as usize].lock().unwrap() {
                    Some(chunk) => chunk.kinds[(block % CHUNK / BLOCK) as usize],
                    None => ExtentKind::Hole,
                };
                let full = found.len() == max;
                match found.last_mut() {
                    Some(last) if last.kind == kind => last.len += BLOCK,
                    _ if full => break,
                    _ => found.push(Extent { len: BLOCK, kind }),
                }
            }
            found
        })
    }
}
