//! A small volume whose blocks were changed: pages, frames of the log, superblocks, roots and bitmaps, each with its
//! checksums made to fit, also those of what refers to it.
//!
//! ```text
//!   8 bytes each:   what │ which │ which of these │ at (2) │ value │ how │ which other
//! ```
//!
//! The same bytes are taken for findings that an earlier scan kept:
//!
//! ```text
//!   8 bytes each:   kind │ first number (2) │ second (2) │ how they are meant │ length of the bytes │ their first one
//! ```
//!
//! An input that ends with one to six further bytes is of a volume with a change journal, and a file that was open.
//!
//! Held up: no panic and no end that does not come, whether the volume is opened, scanned, repaired, read and written, or
//! copied out as a wreck; and a repair leaves nothing that a further one repairs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use holdfast_device::sim::Sim;
use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::Uuid;
use holdfast_volume::page::{PAGE_BYTES, Page};
use holdfast_volume::salvage::{Found, Rescue, salvage};
use holdfast_volume::service::{Caller, Data, FileId, FileKind, FileService, NewFile, OpenMode, Remove, SetMode, Time};
use holdfast_volume::superblock::{Root, Superblock};
use holdfast_volume::{
    Format, JournalRead, Reasons, SHARED_TREES, Settings, Store, Transaction, Volume, VolumeFormat, WallClock,
};

const BLOCK: usize = 4096;
const SIZE: u64 = 16 << 20;
/// Changes that are made of one input.
const MOST_CHANGES: usize = 16;
/// The tree of what a scan found.
const FINDINGS: u8 = SHARED_TREES + 4;
/// Kinds of findings that are repaired without more of the volume being read; any other kind ends that.
const KINDS: [u8; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 21, 22, 30, 31, 32, 50, 51, 53, 54];
/// The same of a volume with a journal.
const KINDS_OF_JOURNAL: [u8; 2] = [74, 75];
/// Bytes of a journal.
const JOURNAL: u64 = 64 << 10;
/// Bytes that a salvage may hand out.
const MOST_BYTES: u64 = 32 << 20;

type Blocks = BTreeMap<u64, Vec<u8>>;

/// A device in memory.
struct Memory(Mutex<Blocks>);

impl Memory {
    fn is_within(offset: u64, len: usize) -> bool {
        offset.is_multiple_of(BLOCK as u64) && offset.checked_add(len as u64).is_some_and(|end| end <= SIZE)
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: SIZE,
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: false,
            discard: false,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        if !Self::is_within(offset, buf.len()) {
            return Io::ready(Err(IoError::new(IoErrorKind::Invalid, "beyond the device")));
        }
        let blocks = self.0.lock().expect("no panic while held");
        for (index, into) in buf.chunks_mut(BLOCK).enumerate() {
            match blocks.get(&(offset + (index * BLOCK) as u64)) {
                Some(block) => into.copy_from_slice(&block[..into.len()]),
                None => into.fill(0),
            }
        }
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        if !Self::is_within(offset, data.len()) {
            return Io::ready(Err(IoError::new(IoErrorKind::Invalid, "beyond the device")));
        }
        let mut blocks = self.0.lock().expect("no panic while held");
        for (index, block) in data.chunks(BLOCK).enumerate() {
            blocks.insert(offset + (index * BLOCK) as u64, block.to_vec());
        }
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

fn clock() -> WallClock {
    Arc::new(|| Time { seconds: 1_700_000_000, nanos: 0 })
}

fn caller() -> Caller {
    Caller::default()
}

fn settings() -> Settings {
    Settings { cache_bytes: 256 << 10, changed_bytes: 4 << 20, ..Settings::default() }
}

async fn fill(device: Arc<dyn Device>, has_journal: bool) {
    let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
    let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
    Volume::format(&device, format, Time::default()).await.expect("formatted");
    let volume = Volume::open(device, settings(), clock()).await.expect("opened");
    let new = |kind| NewFile { kind, mode: 0o644, target: if kind == FileKind::Symlink { b"to" } else { b"" } };
    let root = volume.root();
    if has_journal {
        volume.set_journal(JOURNAL).await.expect("made");
    }
    let make = async |dir: FileId, name: &str, kind: FileKind| {
        volume.create(&caller(), dir, name.as_bytes(), &new(kind)).await.expect("created").id
    };
    // Enough for inner nodes.
    let dir = make(root, "dir", FileKind::Directory).await;
    for number in 0..150 {
        make(dir, &format!("{number} {}", "n".repeat(150)), FileKind::Regular).await;
    }
    make(dir, "link", FileKind::Symlink).await;
    make(root, "sub", FileKind::Directory).await;
    for (name, blocks) in [("data", 9), ("other", 3)] {
        let file = make(root, name, FileKind::Regular).await;
        let handle =
            volume.open(&caller(), file, OpenMode { read: true, write: true, truncate: false }).await.expect("opened");
        for block in 0..blocks {
            let data = IoSlice::padded(&[block as u8 + 1; BLOCK]);
            volume.write(&handle, block * 3 * BLOCK as u64, data, BLOCK).await.expect("written");
        }
        if has_journal {
            // It has a note, and stays open.
            volume.sync().await.expect("it lasts");
        } else {
            volume.close(handle).await.expect("closed");
        }
        volume.set_extended(&caller(), file, b"user.x", &[7; 5000], SetMode::Any).await.expect("set");
        volume.link(&caller(), file, dir, format!("to {name}").as_bytes()).await.expect("linked");
    }
    volume.checkpoint().await.expect("it lasts");
    for number in 0..20 {
        make(root, &format!("logged {number}"), FileKind::Regular).await;
        if number % 4 == 0 {
            volume.sync().await.expect("it lasts");
        }
    }
    volume.remove(&caller(), root, b"logged 3", Remove::File).await.expect("removed");
    volume.sync().await.expect("it lasts");
}

/// A node, and where the reference to it stands: in a page, or in the roots.
#[derive(Clone, Copy)]
struct Node {
    address: u64,
    parent: Option<u64>,
    /// Where its reference begins in the page of its parent, or in a root slot.
    at: usize,
}

/// The volume as it is before anything is changed.
struct Base {
    blocks: Blocks,
    superblock: Superblock,
    root: Root,
    nodes: Vec<Node>,
}

fn bytes(blocks: &Blocks, at: u64, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    for (index, into) in all.chunks_mut(BLOCK).enumerate() {
        if let Some(block) = blocks.get(&(at + (index * BLOCK) as u64)) {
            let len = into.len();
            into.copy_from_slice(&block[..len]);
        }
    }
    all
}

fn put(blocks: &mut Blocks, at: u64, bytes: &[u8]) {
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        let mut whole = block.to_vec();
        whole.resize(BLOCK, 0);
        blocks.insert(at + (index * BLOCK) as u64, whole);
    }
}

fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

impl Base {
    fn get(has_journal: bool) -> &'static Self {
        static BASES: [OnceLock<Base>; 2] = [const { OnceLock::new() }; 2];
        BASES[usize::from(has_journal)].get_or_init(|| {
            let memory = Arc::new(Memory(Mutex::default()));
            let device: Arc<dyn Device> = memory.clone();
            Sim::new(1).run(fill(device, has_journal)).expect("powered");
            let blocks = memory.0.lock().expect("no panic while held").clone();
            let superblock = Superblock::open(&bytes(&blocks, 0, BLOCK)).expect("known").expect("whole");
            let roots = superblock.groups().into_iter().flat_map(|at| [at + 4096, at + 8192]);
            let roots = roots.filter_map(|at| Root::open(superblock.volume, &bytes(&blocks, at, BLOCK)));
            let root = roots.max_by_key(|root| root.generation).expect("there is one");
            let mut base = Self { blocks, superblock, root, nodes: Vec::new() };
            base.find_nodes();
            base
        })
    }

    fn find_nodes(&mut self) {
        let tops = self.root.trees.iter().enumerate();
        let top = |(index, (_, node)): (usize, &(u8, holdfast_volume::page::NodeRef))| Node {
            address: node.address,
            parent: None,
            at: 64 + 21 * index + 1,
        };
        let mut waiting: Vec<Node> = tops.map(top).collect();
        while let Some(node) = waiting.pop() {
            self.nodes.push(node);
            let page = bytes(&self.blocks, node.address, PAGE_BYTES);
            let count = if page[41] > 0 { short(&page, 42) } else { 0 };
            for index in 0..count {
                let entry = short(&page, 64 + 2 * index);
                let at = entry + 4 + short(&page, entry);
                let address = u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
                waiting.push(Node { address, parent: Some(node.address), at });
            }
        }
        assert!(self.nodes.iter().any(|node| node.parent.is_some()), "there are inner nodes");
    }
}

/// CRC-32C.
fn crc_of(bytes: &[u8]) -> u32 {
    static TABLE: OnceLock<[u32; 256]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
        })
    });
    !bytes.iter().fold(!0, |crc, byte| table[usize::from((crc as u8) ^ byte)] ^ (crc >> 8))
}

/// A volume that is being changed.
struct Changed {
    base: &'static Base,
    blocks: Blocks,
}

impl Changed {
    /// Changes bytes of a run of blocks that keeps its CRC at byte 4, over all from byte 8 on.
    fn edit(&mut self, at: u64, len: usize, edit: impl FnOnce(&mut [u8])) -> u32 {
        let mut run = bytes(&self.blocks, at, len);
        edit(&mut run);
        let crc = crc_of(&run[8..]);
        run[4..8].copy_from_slice(&crc.to_le_bytes());
        put(&mut self.blocks, at, &run);
        crc
    }

    /// Changes a node, and has all above it refer to it as it is now.
    fn edit_node(&mut self, node: Node, edit: impl FnOnce(&mut [u8])) {
        let mut crc = self.edit(node.address, PAGE_BYTES, edit);
        let mut node = node;
        let mut rounds = 0;
        while let Some(parent) = node.parent {
            let known = self.base.nodes.iter().find(|known| known.address == parent);
            let Some(above) = known.copied().filter(|_| rounds < 20) else { return };
            let at = node.at + 16;
            crc = self.edit(parent, PAGE_BYTES, |page| page[at..at + 4].copy_from_slice(&crc.to_le_bytes()));
            node = above;
            rounds += 1;
        }
        let at = node.at + 16;
        self.edit_root(|slot| slot[at..at + 4].copy_from_slice(&crc.to_le_bytes()));
    }

    /// Changes the newest root in all its places.
    fn edit_root(&mut self, edit: impl FnOnce(&mut [u8])) {
        let at = |group: u64| group + self.base.root.slot();
        let [first, second, third] = self.base.superblock.groups().map(at);
        self.edit(first, BLOCK, edit);
        let slot = bytes(&self.blocks, first, BLOCK);
        put(&mut self.blocks, second, &slot);
        put(&mut self.blocks, third, &slot);
    }

    /// Changes a frame of the log, and has all behind it continue it.
    fn edit_frame(&mut self, number: u64, edit: impl FnOnce(&mut [u8])) {
        let superblock = self.base.superblock;
        let frames = superblock.log_bytes / BLOCK as u64;
        let place = |number: u64| superblock.log_at() + (self.base.root.log.sequence + number) % frames * BLOCK as u64;
        let mut crc = self.edit(place(number), BLOCK, edit);
        for behind in number + 1..number + 12 {
            if bytes(&self.blocks, place(behind), 4) != *b"HFvL" {
                break;
            }
            let previous = crc.to_le_bytes();
            crc = self.edit(place(behind), BLOCK, |frame| frame[40..44].copy_from_slice(&previous));
        }
    }

    fn change(&mut self, change: [u8; 8]) {
        let [what, which, one, low, high, value, how, other] = change;
        let at = usize::from(u16::from_le_bytes([low, high]));
        let set = move |bytes: &mut [u8], from: usize, to: usize| {
            let at = from + at % (to - from);
            let width = [1, 2, 4, 8][usize::from(how >> 2 & 3)].min(to - at);
            let part = &mut bytes[at..at + width];
            match how & 3 {
                0 => part[0] ^= 1 << (value % 8),
                1 => part.fill(value),
                2 => part.fill(0xff),
                _ => part[0] = part[0].wrapping_add(value),
            }
        };
        let nodes = &self.base.nodes;
        let node = nodes[(usize::from(which) << 8 | usize::from(one)) % nodes.len()];
        match what % 8 {
            // Bytes of a page, of its head or of anything.
            0 => self.edit_node(node, |page| set(page, 24, 64)),
            1 | 2 => self.edit_node(node, |page| set(page, 40, PAGE_BYTES)),
            // A reference that leads to another node.
            3 => {
                let to = nodes[usize::from(other) % nodes.len()];
                let page = bytes(&self.blocks, to.address, PAGE_BYTES);
                let reference = [&page[24..40], &page[4..8]].concat();
                match node.parent.and_then(|parent| nodes.iter().find(|known| known.address == parent)) {
                    Some(parent) => {
                        self.edit_node(*parent, |page| page[node.at..node.at + 20].copy_from_slice(&reference))
                    }
                    None => self.edit_root(|slot| slot[node.at..node.at + 20].copy_from_slice(&reference)),
                }
            }
            4 => self.edit_frame((one % 12).into(), |frame| set(frame, 8, 256)),
            5 => self.edit_root(|slot| set(slot, 8, 128)),
            6 => {
                for group in self.base.superblock.groups() {
                    self.edit(group, BLOCK, |block| set(block, 8, 96));
                }
            }
            _ => {
                let zone = u64::from(which) % u64::from(self.base.superblock.zones());
                let slot = self.base.superblock.zones_at() + zone * self.base.superblock.zone_bytes;
                let slot = slot + u64::from(one % 2) * (16 << 10);
                let mut bitmap = bytes(&self.blocks, slot + BLOCK as u64, 8 << 10);
                set(&mut bitmap, 0, 64);
                put(&mut self.blocks, slot + BLOCK as u64, &bitmap);
                let crc = crc_of(&bitmap);
                self.edit(slot, BLOCK, |head| head[38..42].copy_from_slice(&crc.to_le_bytes()));
            }
        }
    }
}

/// Takes what is found, as far as it is little enough.
struct Nobody;

impl Rescue for Nobody {
    async fn make(&mut self, found: &Found<'_>) -> Result<(), String> {
        for name in found.path {
            assert!(!name.is_empty() && !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b"..");
        }
        Ok(())
    }

    async fn link(&mut self, _first: &[Vec<u8>], _path: &[Vec<u8>]) -> Result<(), String> {
        Ok(())
    }

    async fn data(&mut self, _found: &Found<'_>, _offset: u64, _data: &Data) -> Result<(), String> {
        Ok(())
    }

    async fn stream(&mut self, _found: &Found<'_>, _name: &[u8], _bytes: &[u8]) -> Result<(), String> {
        Ok(())
    }

    async fn finish(&mut self, _found: &Found<'_>) -> Result<(), String> {
        Ok(())
    }

    async fn go_on(&mut self, bytes: u64) -> bool {
        bytes < MOST_BYTES
    }
}

/// Uses a volume as its callers do, whatever they are answered.
async fn use_all(volume: &Volume) {
    let mut waiting = vec![volume.root()];
    let mut left = 600;
    while let Some(dir) = waiting.pop() {
        let some = volume.list(&caller(), dir, 0, 400, true).await.unwrap_or_default();
        for entry in some {
            left -= 1;
            if left == 0 {
                return;
            }
            let _ = volume.lookup(&caller(), dir, &entry.name).await;
            let _ = volume.list_extended(&caller(), entry.id).await;
            if entry.kind == FileKind::Directory {
                waiting.push(entry.id);
            }
            let mode = OpenMode { read: true, write: true, truncate: false };
            let Ok(handle) = volume.open(&caller(), entry.id, mode).await else { continue };
            for offset in [0, 8 * BLOCK as u64] {
                let _ = volume.read(&handle, offset, 5 * BLOCK).await;
            }
            if left % 16 == 0 {
                let _ = volume.write(&handle, 2 * BLOCK as u64, IoSlice::padded(&[9; BLOCK]), BLOCK).await;
            }
            let _ = volume.close(handle).await;
        }
    }
    let new = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
    let _ = volume.create(&caller(), volume.root(), b"new", &new).await;
    follow(volume).await;
    let _ = volume.remove(&caller(), volume.root(), b"data", Remove::File).await;
    let _ = volume.checkpoint().await;
}

/// Reads the journal to its end as often as that is another one, and has it be cut.
async fn follow(volume: &Volume) {
    let Some(state) = volume.journal() else { return };
    let mut at = 0;
    for _ in 0..100 {
        at = match volume.read_journal(state.id, at, 20, Reasons::ALL).await {
            Ok(JournalRead::Records { next, .. }) if next != at => next,
            Ok(JournalRead::Cut { first }) => first,
            _ => break,
        };
    }
    let _ = volume.set_journal(2 * JOURNAL).await;
    let _ = volume.settle_journal().await;
}

/// Findings as they would be kept.
fn findings(changes: &[[u8; 8]], has_journal: bool) -> Vec<Vec<u8>> {
    let further: &[u8] = if has_journal { &KINDS_OF_JOURNAL } else { &[] };
    let kinds = [&KINDS[..], further].concat();
    let number = |low: u8, high: u8, how: u8| match how & 3 {
        0 => u64::from(low),
        // Of a file.
        1 => u64::from(high) << 6 | u64::from(low & 63),
        2 => u64::MAX - u64::from(low),
        _ => u64::from_be_bytes([high; 8]),
    };
    let of = |[kind, one, two, three, four, how, len, first]: &[u8; 8]| {
        let mut numbers = [number(*one, *two, *how), number(*three, *four, how >> 2), number(*one, *four, how >> 4)];
        let kind = kinds.get(usize::from(*kind) % (kinds.len() + 1)).unwrap_or(kind);
        if *kind == 9 {
            // Files of one run.
            numbers[0] &= !63;
        }
        let mut finding = vec![*kind];
        numbers.iter().for_each(|number| finding.extend_from_slice(&number.to_le_bytes()));
        // The key of a part of the file, or a name.
        let mut bytes = numbers[1].to_be_bytes().to_vec();
        bytes.extend([first % 8, *first]);
        bytes.resize((*len).into(), *first);
        finding.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        finding.extend_from_slice(&bytes);
        finding.push(how >> 6 & 1);
        finding
    };
    changes.iter().map(of).collect()
}

/// Keeps findings that nobody made.
async fn keep(device: Arc<dyn Device>, findings: &[Vec<u8>]) -> Option<()> {
    let store = Store::open(device, settings()).await.ok()?;
    let mut kept = Transaction::new();
    for (number, finding) in findings.iter().enumerate() {
        kept.put(FINDINGS, &[number as u8], finding);
    }
    store.apply(&kept).await.ok()?;
    store.checkpoint().await.ok()
}

async fn survive(blocks: Blocks, changes: &[[u8; 8]], has_journal: bool) {
    let device = |blocks: &Blocks| -> Arc<dyn Device> { Arc::new(Memory(Mutex::new(blocks.clone()))) };
    let _ = salvage(device(&blocks), clock(), &mut Nobody).await;
    if let Ok(volume) = Volume::open(device(&blocks), settings(), clock()).await {
        use_all(&volume).await;
        let _ = volume.scan().await;
        let _ = volume.spotfix_known().await;
    }
    let told = device(&Base::get(has_journal).blocks);
    if keep(told.clone(), &findings(changes, has_journal)).await.is_some()
        && let Ok(volume) = Volume::open(told, settings(), clock()).await
    {
        let _ = volume.spotfix_known().await;
        for verb in volume.findings().await.unwrap_or_default() {
            assert!(!verb.to_string().is_empty() && verb.count() > 0);
            let _ = volume.repair(&verb).await;
        }
        use_all(&volume).await;
    }
    let Ok(volume) = Volume::open(device(&blocks), settings(), clock()).await else { return };
    let _ = volume.spotfix_offline().await;
    use_all(&volume).await;
}

/// Panics where something does not hold.
pub fn check(input: &[u8]) {
    let has_journal = (1..=6).contains(&(input.len() % 8));
    let base = Base::get(has_journal);
    // As bytes of a page, a root and a superblock, with a checksum that fits.
    let mut page = IoBuf::zeroed(PAGE_BYTES);
    let len = input.len().min(PAGE_BYTES - 24);
    page[..4].copy_from_slice(b"HFvN");
    page[8..24].copy_from_slice(base.superblock.volume.as_bytes());
    page[24..24 + len].copy_from_slice(&input[..len]);
    page[24..32].copy_from_slice(&0u64.to_le_bytes());
    let crc = crc_of(&page[8..]);
    page[4..8].copy_from_slice(&crc.to_le_bytes());
    if let Ok((page, _)) = Page::open(base.superblock.volume, 0, &page) {
        for index in 0..page.count() {
            assert_eq!(page.find(page.key(index)), Ok(index), "keys are in order");
        }
    }
    let mut changed = Changed { base, blocks: base.blocks.clone() };
    let (changes, _) = input.as_chunks::<8>();
    let changes: Vec<[u8; 8]> = changes.iter().take(MOST_CHANGES).copied().collect();
    for change in &changes {
        changed.change(*change);
    }
    Sim::new(1).run(async move { survive(changed.blocks, &changes, has_journal).await }).expect("powered");
}
