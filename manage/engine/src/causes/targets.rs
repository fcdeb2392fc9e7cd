//! Targets and LUNs that are not well, under what they follow from.

use holdfast_api::{Affected, Cause, CauseKind, Target};
use holdfast_model::{Health, ObjectKind, ObjectRef};

use super::cause;
use crate::engine::Engine;

impl Engine {
    /// Adds targets and LUNs that are not well to the causes that explain them, or as causes of their own.
    pub(super) fn causes_of_targets(&self, targets: &[Target], causes: &mut Vec<Cause>) {
        for target in targets.iter().filter(|target| target.health != Health::Healthy) {
            let object = ObjectRef::new(ObjectKind::Target, target.id.to_string(), &target.name);
            // What a LUN tells is told of the target as well, and told once.
            let own = target.conditions.iter().filter(|condition| condition.about.is_none());
            causes.extend(own.enumerate().map(|(place, told)| {
                let id = if place == 0 { target.name.clone() } else { format!("{} {place}", target.name) };
                let is_let_in = target.open || !target.initiators.is_empty();
                let health = if target.served && is_let_in { Health::Warning } else { target.health };
                cause(CauseKind::Target, &id, object.clone(), health, told.clone())
            }));
            for lun in target.luns.iter().filter(|lun| lun.health != Health::Healthy) {
                let known =
                    self.live().targets.get(&target.name).and_then(|live| live.known.luns.get(&lun.lun).cloned());
                let Some(known) = known else { continue };
                let object = ObjectRef::new(ObjectKind::Lun, lun.id.to_string(), &lun.name);
                let pool = ObjectRef::pool(known.pool, "");
                let ground = known.ground();
                let effect =
                    if lun.served { "answers with errors where its space cannot be read" } else { "is not served" };
                let explains = |cause: &&mut Cause| {
                    let is_below = |one: &Affected| one.health == Health::Unhealthy && one.object.is(&ground);
                    (cause.kind == CauseKind::PoolOffline && cause.object.is(&pool))
                        || cause.affects.iter().any(is_below)
                };
                let affected = Affected { object: object.clone(), health: lun.health, effect: effect.into() };
                let mut explained = false;
                for cause in causes.iter_mut().filter(explains) {
                    cause.affects.push(affected.clone());
                    explained = true;
                }
                if !explained {
                    let told = lun.conditions.first().cloned();
                    causes.extend(told.map(|told| cause(CauseKind::Lun, &lun.name, object, lun.health, told)));
                }
            }
        }
    }
}
