//! Nodes that only one snapshot has, found while changes and checkpoints go on.
//!
//! ```text
//!   a later snapshot is there      its roots │ own roots │ those of the one before    none of them changes
//!   none is                        the newest root, pinned │ own roots │ those of the one before
//!                                    └─ newer roots let go of some that the pinned one shares with it ─▶ noted
//! ```
//!
//! Nodes are never changed, and none is given to another use while the snapshot has it, so a root has of the snapshot's
//! nodes what the root before it had, but for those that its checkpoint let go of. At the end, with checkpoints held up,
//! a node of the snapshot which the one before it lacks is therefore
//!
//! - one that the pinned root lacked: found by the walk, and no newer root can have it,
//! - or one that a newer root let go of: noted by its checkpoint, and no root after that has it,
//! - or one that the newest root has: neither found nor noted. Whichever checkpoint lets go of it frees it, from the one on
//!   that ends the snapshot.
//!
//! So none is given back that the newest root or another snapshot has, and none is forgotten. The root before the newest
//! one may have such nodes, as may one that a scan reads: what is freed is given out only when it is of no use to them
//! (zones.rs).
//!
//! Where the pinned root is given away, as others have no room without it, another one is pinned, and in the end
//! checkpoints wait: it always ends. Nothing of all that is on the device, so nothing is left of it when the volume
//! fails, power does, or it is dropped: the snapshot is there as it was, and nothing is pinned or noted any more.
//!
//! Invariant: what is answered is what only the snapshot has while the newest root is held, but for what cannot be known
//! as nodes cannot be read. That stays taken: a scan finds it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::SHARED_TREES;
use crate::checkpoint::Checkpoint;
use crate::error::VolumeError;
use crate::page::NodeRef;
use crate::scan::{Pin, give_way};
use crate::store::{Store, held};

/// Roots that are pinned one after the other, at most.
const MOST_PINS: usize = 3;

/// The roots of trees, by their numbers.
type Roots = Vec<(u8, NodeRef)>;

/// Checkpoints after one, and up to another.
#[derive(Clone, Copy, Debug)]
struct Span {
    after: u64,
    until: u64,
}

/// Nodes that the newest root lets go of while somebody looks for those of a snapshot.
#[derive(Default)]
pub(crate) struct LetGo(Mutex<Option<(Span, Vec<u64>)>>);

impl LetGo {
    /// The root to come has a node no more that a snapshot has.
    pub fn note(&self, node: NodeRef) {
        if let Some((span, nodes)) = held(&self.0).as_mut()
            && (span.after + 1..=span.until).contains(&node.generation)
        {
            nodes.push(node.address);
        }
    }

    /// Has nodes of these checkpoints be noted.
    fn begin(&self, span: Span) -> Noting<'_> {
        let before = held(&self.0).replace((span, Vec::new()));
        debug_assert!(before.is_none(), "one snapshot is removed at a time");
        Noting(self)
    }
}

/// They are noted until this is dropped.
struct Noting<'a>(&'a LetGo);

impl Noting<'_> {
    fn all(&self) -> Vec<u64> {
        held(&self.0.0).take().map_or_else(Vec::new, |(_, nodes)| nodes)
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        *held(&self.0.0) = None;
    }
}

/// Nodes that a snapshot alone has, as of some checkpoint, with what newer ones add to them.
pub(crate) struct OwnNodes<'a> {
    store: &'a Store,
    generation: u64,
    /// Those that were found; nothing if they are to be looked for at the end.
    found: Option<Vec<u64>>,
    noting: Option<Noting<'a>>,
}

impl OwnNodes<'_> {
    /// All of them, for whoever holds the newest root until the snapshot is removed.
    pub async fn of(self, newest: &Checkpoint) -> Vec<u64> {
        let Some(mut nodes) = self.found else {
            let Some(sides) = self.store.sides_of(self.generation) else { return Vec::new() };
            let later = sides.later.as_ref().unwrap_or(&newest.root.trees);
            return self.store.nodes_beside(&sides, later, None).await;
        };
        nodes.extend(self.noting.iter().flat_map(Noting::all));
        nodes
    }
}

/// A snapshot between others.
struct Sides {
    /// From the snapshot before it on, up to itself.
    span: Span,
    own: Roots,
    /// Those of the snapshot after it; nothing if it is the newest one.
    later: Option<Roots>,
}

impl Store {
    /// Looks for the nodes of a snapshot that neither the one before it has, nor the one after it or the newest root.
    /// Snapshots stay as they are until the answer is used.
    ///
    /// # Errors
    /// The volume failed.
    pub(crate) async fn find_own_nodes(&self, generation: u64) -> Result<OwnNodes<'_>, VolumeError> {
        let answer = |found, noting| OwnNodes { store: self, generation, found, noting };
        let Some(sides) = self.sides_of(generation) else { return Ok(answer(Some(Vec::new()), None)) };
        if let Some(later) = &sides.later {
            let found = self.nodes_beside(&sides, later, None).await;
            self.check_failed()?;
            return Ok(answer(Some(found), None));
        }
        for _ in 0..MOST_PINS {
            let (trees, pin, noting) = {
                let newest = self.checkpoint.lock().await;
                let taken = held(&self.zones).taken();
                (newest.root.trees.clone(), self.pin(&newest, &taken), self.let_go.begin(sides.span))
            };
            let found = self.nodes_beside(&sides, &trees, Some(&pin)).await;
            self.check_failed()?;
            if pin.is_whole() {
                return Ok(answer(Some(found), Some(noting)));
            }
        }
        Ok(answer(None, None))
    }

    /// What a snapshot stands between; nothing where its roots are not known.
    fn sides_of(&self, generation: u64) -> Option<Sides> {
        let mut roots = self.snapshots.roots();
        let at = roots.iter().position(|(of, _)| *of == generation)?;
        let span = Span { after: roots.get(at + 1).map_or(0, |(of, _)| *of), until: generation };
        let later = at.checked_sub(1).map(|later| std::mem::take(&mut roots[later].1));
        Some(Sides { span, own: std::mem::take(&mut roots[at].1), later })
    }

    /// Nodes that a snapshot has, and neither the one before it nor these later roots. What cannot be read is left out.
    async fn nodes_beside(&self, sides: &Sides, later: &Roots, pin: Option<&Pin<'_>>) -> Vec<u64> {
        let mut found = Vec::new();
        for tree in 0..SHARED_TREES {
            let root = |trees: &Roots| trees.iter().find(|(of, _)| *of == tree).map(|(_, root)| *root);
            let Some(own) = root(&sides.own) else { continue };
            if let Some(nodes) = self.nodes_between(sides.span, own, root(later), pin).await {
                found.extend(nodes);
            }
        }
        found
    }

    /// Nodes below `root` that are of a span of checkpoints, and are not below `later`; `None` where that cannot be known, or
    /// nobody needs it any more. A node is never younger than the one above it.
    async fn nodes_between(
        &self,
        span: Span,
        root: NodeRef,
        later: Option<NodeRef>,
        pin: Option<&Pin<'_>>,
    ) -> Option<Vec<u64>> {
        let is_over = || self.check_failed().is_err() || pin.is_some_and(|pin| !pin.is_whole());
        let mut shared = HashSet::new();
        let mut waiting: Vec<(NodeRef, Option<u8>)> = later.map(|root| (root, None)).into_iter().collect();
        while let Some((node, level)) = waiting.pop() {
            if node.generation <= span.until {
                shared.insert(node.address);
            } else if level != Some(0) {
                if is_over() {
                    return None;
                }
                self.children_of(node, &mut waiting).await?;
            }
        }
        let mut found = Vec::new();
        waiting.push((root, None));
        while let Some((node, level)) = waiting.pop() {
            if node.generation > span.after && !shared.contains(&node.address) {
                found.push(node.address);
                if level != Some(0) {
                    if is_over() {
                        return None;
                    }
                    // What stands below a node that cannot be read stays taken.
                    _ = self.children_of(node, &mut waiting).await;
                }
            }
        }
        Some(found)
    }

    /// Adds the children of a node that has any; `None` where it cannot be read.
    async fn children_of(&self, node: NodeRef, into: &mut Vec<(NodeRef, Option<u8>)>) -> Option<()> {
        let page = match self.cache.get(node) {
            Some(page) => page,
            None => Arc::new(self.read_node(node).await.ok()?),
        };
        if page.level() > 0 {
            into.extend((0..page.count()).map(|index| (page.child(index), Some(page.level() - 1))));
        }
        give_way().await;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use futures_util::future::join;
    use holdfast_device::Device;
    use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
    use holdfast_model::Uuid;

    use super::*;
    use crate::service::{Caller, FileId, FileKind, FileService, NewFile, Remove, Time};
    use crate::store::{Format, Settings};
    use crate::volume::{Volume, VolumeFormat};

    const LINKS: u32 = 300;

    async fn make(volume: &Volume, links: impl Iterator<Item = u32>) {
        let (caller, root): (_, FileId) = (Caller::default(), volume.root());
        for number in links {
            let name = format!("link {number}").into_bytes();
            _ = volume.remove(&caller, root, &name, Remove::File).await;
            let new = NewFile { kind: FileKind::Symlink, mode: 0o777, target: &[b't'; 4000] };
            volume.create(&caller, root, &name, &new).await.expect("there is room");
        }
    }

    /// A volume with a snapshot "old", one "new" in which half of the links are others, and more changes since.
    fn with(body: impl AsyncFnOnce(&Volume) + 'static) {
        let sim = Sim::new(1);
        let disk: Arc<dyn Device> = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        let ran = sim.run(async move {
            let store = Format { volume: Uuid::from_u128(6), log_bytes: None };
            let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
            Volume::format(&disk, format, Time::default()).await.expect("formatted");
            let settings = Settings { cache_bytes: 0, ..Settings::default() };
            let volume = Volume::open(disk, settings, Arc::new(Time::default)).await.expect("opened");
            make(&volume, 0..LINKS).await;
            volume.create_snapshot("old").await.expect("made");
            make(&volume, (0..LINKS).step_by(2)).await;
            volume.create_snapshot("new").await.expect("made");
            make(&volume, (0..LINKS).step_by(20)).await;
            volume.checkpoint().await.expect("it lasts");
            body(&volume).await;
            assert!(held(&volume.store.let_go.0).is_none(), "nothing is left of it");
            assert!(!held(&volume.store.zones).has_pins());
            for name in ["new", "old"] {
                volume.destroy_snapshot(name).await.expect("destroyed");
                assert_eq!(volume.scan().await, Ok(Vec::new()));
            }
        });
        ran.expect("powered");
    }

    async fn change(volume: &Volume) {
        for round in 0..3 {
            make(volume, (round..LINKS).step_by(50)).await;
            volume.checkpoint().await.expect("it lasts");
        }
    }

    /// What is answered now is what is found while checkpoints wait. Answers how many these are.
    async fn is_right(volume: &Volume, own: OwnNodes<'_>) -> usize {
        let store = &volume.store;
        let newest = store.checkpoint.lock().await;
        let sides = store.sides_of(own.generation).expect("it is there");
        let later = sides.later.clone().unwrap_or_else(|| newest.root.trees.clone());
        let mut expected = store.nodes_beside(&sides, &later, None).await;
        let mut all = own.of(&newest).await;
        expected.sort_unstable();
        all.sort_unstable();
        assert_eq!(all, expected);
        all.len()
    }

    fn generation(volume: &Volume, name: &str) -> u64 {
        volume.snapshot(name).expect("it is there").generation
    }

    #[test]
    fn what_newer_roots_let_go_of_is_added_to_what_was_found() {
        with(async |volume| {
            for (name, grows) in [("new", true), ("old", false)] {
                let of = generation(volume, name);
                let (own, ()) = join(volume.store.find_own_nodes(of), change(volume)).await;
                let own = own.expect("found");
                change(volume).await;
                let found = own.found.as_ref().expect("nothing was given away").len();
                let all = is_right(volume, own).await;
                assert!(found > 0 && (all > found) == grows, "{name}: {found} of {all}");
            }
        });
    }

    #[test]
    fn what_was_given_away_is_found_while_checkpoints_wait() {
        with(async |volume| {
            let of = generation(volume, "new");
            for times in [1, MOST_PINS, 2] {
                let mut given_away = 0;
                let own = {
                    let mut find = pin!(volume.store.find_own_nodes(of));
                    std::future::poll_fn(|context| {
                        let polled = find.as_mut().poll(context);
                        if polled.is_pending() && given_away < times && held(&volume.store.zones).has_pins() {
                            volume.store.end_reading();
                            given_away += 1;
                        }
                        polled
                    })
                    .await
                };
                let own = own.expect("the volume is sound");
                assert_eq!((given_away, own.found.is_none()), (times, times == MOST_PINS));
                change(volume).await;
                assert!(is_right(volume, own).await > 0);
            }
        });
    }

    #[test]
    fn nothing_is_pinned_or_noted_for_one_who_gave_it_up() {
        with(async |volume| {
            let of = generation(volume, "new");
            let mut find = Box::pin(volume.store.find_own_nodes(of));
            std::future::poll_fn(|context| {
                assert!(find.as_mut().poll(context).is_pending());
                if held(&volume.store.zones).has_pins() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(held(&volume.store.let_go.0).is_some());
            drop(find);
            assert!(!held(&volume.store.zones).has_pins());
        });
    }
}
