//! Who may log in to a target, and who may ask for targets.
//!
//! Invariant: an initiator that must prove who it is goes on having to, unless that is given up in so many words.

use std::sync::Arc;

use holdfast_api::{AllowInitiator, ApiError, ChapAccount, IscsiDiscovery, IscsiDiscoveryChanged, TargetChanged};

use super::known::{KnownAccount, KnownInitiator, KnownTarget};
use super::names::{checked_account, checked_name};
use super::target_object;
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, unwritten};

/// Initiators of a target that are listed at most.
const MOST_INITIATORS: usize = 128;

/// Refuses a secret with which an initiator could pass for the target.
pub(super) fn check_secrets(object: &str, target: &KnownTarget) -> ApiResult<()> {
    let Some(mutual) = &target.mutual else { return Ok(()) };
    let same = |initiator: &KnownInitiator| initiator.chap.as_ref().is_some_and(|chap| chap.secret == mutual.secret);
    match target.initiators.iter().find(|(_, initiator)| same(initiator)) {
        Some((iqn, _)) => {
            let message =
                format!("the target and initiator {iqn} would have one secret, so each could pass for the other");
            Err(ApiError::invalid(object, message, "choose another secret"))
        }
        None => Ok(()),
    }
}

impl Engine {
    /// Lets an initiator log in.
    ///
    /// # Errors
    /// If its name or account cannot be, or it is to prove who it is no more and nobody says so; nothing is changed
    /// then.
    pub async fn allow_initiator(
        self: &Arc<Self>,
        target: String,
        request: AllowInitiator,
    ) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move { engine.let_in(&target, &request).await }).await
    }

    async fn let_in(&self, name: &str, request: &AllowInitiator) -> ApiResult<TargetChanged> {
        let object = target_object(name);
        self.known_target(name)?;
        let iqn = checked_name(&object, "iqn", &request.iqn)?;
        let chap = request.chap.as_ref().map(|account| checked_account(&object, "chap", account)).transpose()?;
        if chap.is_some() && request.no_chap {
            let message = "an initiator cannot prove who it is and prove nothing";
            return Err(ApiError::invalid(object, message, "give chap or no_chap").at("no_chap"));
        }
        let user = chap.as_ref().map(|account| format!(", as {}", account.user)).unwrap_or_default();
        let changed = self
            .alter_target(name, |target| {
                let before = target.initiators.get(&iqn);
                if before.is_none() && target.initiators.len() >= MOST_INITIATORS {
                    let message = format!("{MOST_INITIATORS} initiators are listed, and there may be no more");
                    return Err(conflict(&object, message, "deny those that are gone"));
                }
                let account = before.and_then(|known| known.chap.as_ref());
                if let (Some(account), None, false) = (account, &chap, request.no_chap) {
                    let message = format!(
                        "initiator {iqn} proves who it is as {}, and would have to prove nothing",
                        account.user
                    );
                    let next = "give its account again, or say --no-chap";
                    return Err(conflict(&object, message, next).at("chap"));
                }
                target.initiators.insert(iqn.clone(), KnownInitiator { chap });
                check_secrets(&object, target)
            })
            .await?;
        if changed {
            self.note(&self.known_target(name)?.object(), &format!("initiator {iqn} may log in{user}"));
        }
        Ok(TargetChanged { changed, target: self.target(name)? })
    }

    /// Lets an initiator log in no more. Its sessions end, unless the target is open.
    ///
    /// # Errors
    /// If there is no such target, or that cannot be kept.
    pub async fn deny_initiator(self: &Arc<Self>, target: String, iqn: String) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move {
            let object = target_object(&target);
            engine.known_target(&target)?;
            let iqn = checked_name(&object, "iqn", &iqn)?;
            let changed = engine
                .alter_target(&target, |known| {
                    known.initiators.remove(&iqn);
                    Ok(())
                })
                .await?;
            if changed {
                engine.note(&engine.known_target(&target)?.object(), &format!("initiator {iqn} may log in no more"));
            }
            Ok(TargetChanged { changed, target: engine.target(&target)? })
        })
        .await
    }

    /// Who may ask which targets there are.
    pub fn discovery(&self) -> IscsiDiscovery {
        IscsiDiscovery { chap_user: self.known_discovery().map(|account| account.user) }
    }

    pub(super) fn known_discovery(&self) -> Option<KnownAccount> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iscsi_discovery.clone()
    }

    /// Has those who ask which targets there are prove who they are, or not.
    ///
    /// # Errors
    /// If the account cannot be, or that cannot be kept; nothing is changed then.
    pub async fn set_discovery(self: &Arc<Self>, account: Option<ChapAccount>) -> ApiResult<IscsiDiscoveryChanged> {
        self.change(move |engine| async move {
            let object = "iSCSI discovery";
            let wanted = account.as_ref().map(|account| checked_account(object, "", account)).transpose();
            let wanted = wanted.map_err(|mut error| {
                error.field = error.field.map(|field| field.trim_start_matches('.').to_owned());
                error
            })?;
            let before = engine.known_discovery();
            let changed = before != wanted;
            if changed {
                let iscsi = &engine.front_ends.iscsi;
                iscsi.set_discovery(wanted.as_ref()).map_err(|why| conflict(object, why, "choose another account"))?;
                if let Err(error) = engine.change_state(|state| state.iscsi_discovery = wanted.clone()) {
                    let _ = iscsi.set_discovery(before.as_ref());
                    return Err(unwritten(error));
                }
                let what = match &wanted {
                    Some(account) => format!("initiators prove who they are as {} to see targets", account.user),
                    None => "initiators see targets without an account".into(),
                };
                engine.note(&holdfast_model::ObjectRef::server(object), &what);
            }
            Ok(IscsiDiscoveryChanged { changed, discovery: engine.discovery() })
        })
        .await
    }
}
