//! What is changed of LUNs in use: their limits, and when initiators are warned that they run out of room.
//!
//! Invariant: a change is kept before it holds.

use std::sync::Arc;

use holdfast_api::{ApiError, LunChanged, SetLun};
use holdfast_device::reactor::clock;

use crate::engine::Engine;
use crate::error::{ApiResult, not_found};

/// Refuses percentages that there are not.
pub(super) fn check_alert(object: &str, percent: Option<u8>) -> ApiResult<()> {
    match percent.filter(|percent| *percent > 100) {
        Some(percent) => {
            let message = format!("initiators cannot be warned at {percent} %");
            Err(ApiError::invalid(object, message, "choose 1 to 100, or 0 for never").at("alert_percent"))
        }
        None => Ok(()),
    }
}

/// Refuses to warn of a LUN that has all of its room.
pub(super) fn no_warning(object: &str, path: &str) -> ApiError {
    let message = format!("{path} has all of its room already, so there is nothing to warn initiators of");
    ApiError::invalid(object, message, "leave the alert out").at("alert_percent")
}

/// When initiators are warned, for people.
fn when(percent: Option<u8>) -> String {
    match percent {
        None => "as its pool's alerts say".into(),
        Some(0) => "never".into(),
        Some(percent) => format!("when {percent} % of its room is taken"),
    }
}

impl Engine {
    /// Changes a LUN in use.
    ///
    /// # Errors
    /// If there is none, or its limits or its alert make no sense; nothing is changed then.
    pub async fn set_lun(self: &Arc<Self>, target: String, lun: u16, request: SetLun) -> ApiResult<LunChanged> {
        self.change(move |engine| async move { engine.change_lun(&target, lun, request).await }).await
    }

    async fn change_lun(&self, name: &str, number: u16, request: SetLun) -> ApiResult<LunChanged> {
        let shown = self.lun(name, number)?;
        let object = format!("LUN {}", shown.name);
        check_alert(&object, request.alert_percent)?;
        if request.alert_percent.is_some() && request.default_alert {
            let message = "it cannot have an alert of its own and its pool's";
            return Err(ApiError::invalid(object, message, "ask for one of them").at("alert_percent"));
        }
        if request.alert_percent.is_some() && shown.served && shown.alert.is_none() {
            return Err(no_warning(&object, &shown.backing));
        }
        let (mut has_other_limits, mut has_other_alert) = (false, false);
        let changed = self
            .alter_target(name, |target| {
                let object = target.lun_object(number).to_string();
                let Some(lun) = target.luns.get_mut(&number) else {
                    return Err(not_found(object, "ask again"));
                };
                let before = (lun.qos, lun.alert_percent);
                lun.qos = request.qos.unwrap_or_default().applied_to(lun.qos);
                lun.alert_percent = match request.default_alert {
                    true => None,
                    false => request.alert_percent.or(lun.alert_percent),
                };
                (has_other_limits, has_other_alert) = (lun.qos != before.0, lun.alert_percent != before.1);
                crate::qos::check(&object, &lun.qos).map_err(|error| error.inside("qos"))
            })
            .await?;
        let known = self.known_target(name)?;
        let object = known.lun_object(number);
        if has_other_limits {
            let qos = known.luns.get(&number).map(|lun| lun.qos).unwrap_or_default();
            let block =
                self.live().targets.get(name).and_then(|target| Some(target.luns.get(&number)?.unit.target().clone()));
            if let Some(block) = block {
                block.limiter().set(&qos, clock().now());
                self.apply_qos(block.object());
            }
            self.note(&object, &format!("has another quality of service: {}", crate::qos::describe(&qos)));
        }
        if has_other_alert {
            let percent = known.luns.get(&number).and_then(|lun| lun.alert_percent);
            self.note(&object, &format!("warns its initiators {}", when(percent)));
            self.look_at_luns().await?;
        }
        Ok(LunChanged { changed, lun: self.lun(name, number)? })
    }
}
