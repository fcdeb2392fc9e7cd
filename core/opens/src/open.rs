//! One open, and the opens of a file.
//!
//! Invariant: an open keeps its place while it lives, and its number says whether what is in a place is still it.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::access::Access;
use crate::effects::Recall;
use crate::key::{ClientId, OpenId};
use crate::leases::LeaseKey;

/// What a front end is given back when a file is to be deleted: by which name. [`crate::LinkName`] has the words that all
/// understand.
pub type Link = Arc<[u8]>;

/// An open whose client is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    /// Who knows this may have it back.
    pub key: u128,
    pub deadline: Duration,
    /// Whether conflicting opens wait for it, instead of ending it.
    pub sticky: bool,
}

/// An open.
pub(crate) struct Open {
    pub id: OpenId,
    pub client: ClientId,
    pub protocol: &'static str,
    pub access: Access,
    pub share: Access,
    /// Whether that holds also for those who ignore what others deny.
    pub excludes_all: bool,
    pub lease: Option<LeaseKey>,
    pub on_close: Option<Link>,
    pub recall: Arc<dyn Recall>,
    pub since: Duration,
    pub aside: Option<Aside>,
}

/// The opens of a file, each in a place.
#[derive(Default)]
pub(crate) struct Opens {
    places: SmallVec<[Option<Open>; 1]>,
    free: Vec<u32>,
    excluding: u32,
}

impl Opens {
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Open)> {
        self.places.iter().enumerate().filter_map(|(at, open)| Some((at as u32, open.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.places.iter_mut().flatten()
    }

    pub fn get(&self, at: u32, id: OpenId) -> Option<&Open> {
        self.places.get(at as usize)?.as_ref().filter(|open| open.id == id)
    }

    pub fn get_mut(&mut self, at: u32, id: OpenId) -> Option<&mut Open> {
        self.places.get_mut(at as usize)?.as_mut().filter(|open| open.id == id)
    }

    pub fn find(&self, id: OpenId) -> Option<u32> {
        self.iter().find(|(_, open)| open.id == id).map(|(at, _)| at)
    }

    /// How many there are whose denials hold for all.
    pub fn excluding(&self) -> u32 {
        self.excluding
    }

    pub fn add(&mut self, open: Open) -> u32 {
        self.excluding += u32::from(open.excludes_all);
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(open);
            return at;
        }
        self.places.push(Some(open));
        (self.places.len() - 1) as u32
    }

    pub fn remove(&mut self, at: u32) -> Option<Open> {
        let open = self.places.get_mut(at as usize)?.take()?;
        self.excluding -= u32::from(open.excludes_all);
        // The last place is none any more, as mostly the only one.
        if at as usize + 1 == self.places.len() && self.free.is_empty() {
            self.places.pop();
        } else {
            self.free.push(at);
        }
        Some(open)
    }
}
