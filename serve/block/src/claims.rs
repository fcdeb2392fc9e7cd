//! Who uses an object: any number of exports, or one volume that lies on it.
//!
//! Invariant: never both. A client of an export would change blocks behind the volume's back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who uses an object now.
#[derive(Default)]
enum Holders {
    #[default]
    None,
    Exports(Vec<String>),
    Volume(String),
}

/// The claims to one object.
#[derive(Default)]
pub struct Claims {
    holders: Mutex<Holders>,
}

/// Why an object cannot be claimed. It names who holds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Claimed {
    /// By a volume.
    #[error("volume {0} lies on it: remove the volume first, or export a file of it")]
    ByVolume(String),
    /// By exports.
    #[error("it is exported as {}: withdraw what exports it first", .0.join(", "))]
    ByExports(Vec<String>),
}

impl Claims {
    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the object for the export `name`, beside other exports.
    ///
    /// # Errors
    /// If a volume lies on it.
    pub fn export(self: &Arc<Self>, name: &str) -> Result<Claim, Claimed> {
        let mut holders = self.holders();
        match &mut *holders {
            Holders::Volume(volume) => return Err(Claimed::ByVolume(volume.clone())),
            Holders::Exports(names) => names.push(name.to_owned()),
            Holders::None => *holders = Holders::Exports(vec![name.to_owned()]),
        }
        Ok(Claim { claims: self.clone(), name: name.to_owned() })
    }

    /// Claims the object for the volume `name` alone.
    ///
    /// # Errors
    /// If it is exported, or another volume lies on it.
    pub fn hold(self: &Arc<Self>, name: &str) -> Result<Claim, Claimed> {
        let mut holders = self.holders();
        match &*holders {
            Holders::Volume(volume) => return Err(Claimed::ByVolume(volume.clone())),
            Holders::Exports(names) => return Err(Claimed::ByExports(names.clone())),
            Holders::None => *holders = Holders::Volume(name.to_owned()),
        }
        Ok(Claim { claims: self.clone(), name: name.to_owned() })
    }
}

/// A use of an object, until this is dropped.
pub struct Claim {
    claims: Arc<Claims>,
    name: String,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut holders = self.claims.holders();
        if let Holders::Exports(names) = &mut *holders {
            if let Some(at) = names.iter().position(|name| *name == self.name) {
                names.swap_remove(at);
            }
            if !names.is_empty() {
                return;
            }
        }
        *holders = Holders::None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_share_an_object_and_a_volume_holds_it_alone() {
        let claims = Arc::new(Claims::default());
        let (one, other) = (claims.export("a").unwrap(), claims.export("b").unwrap());
        let refusal = claims.hold("files").unwrap_err();
        assert_eq!(refusal.to_string(), "it is exported as a, b: withdraw what exports it first");
        drop(one);
        assert_eq!(claims.hold("files").unwrap_err(), Claimed::ByExports(vec!["b".into()]));
        drop(other);
        let volume = claims.hold("files").unwrap();
        assert_eq!(claims.hold("more").unwrap_err(), Claimed::ByVolume("files".into()));
        let refusal = claims.export("a").unwrap_err();
        assert_eq!(refusal.to_string(), "volume files lies on it: remove the volume first, or export a file of it");
        drop(volume);
        claims.export("a").unwrap();
    }

    #[test]
    fn an_export_that_is_made_anew_while_the_old_one_drains_is_counted_twice() {
        let claims = Arc::new(Claims::default());
        let (old, new) = (claims.export("a").unwrap(), claims.export("a").unwrap());
        drop(old);
        assert_eq!(claims.hold("files").unwrap_err(), Claimed::ByExports(vec!["a".into()]));
        drop(new);
        claims.hold("files").unwrap();
    }
}
