//! What the role of an operation is not enough for, since it depends on what is asked for.
//!
//! Invariants: nobody but an administrator gives up data; nobody else names a path that is no disk of this server, so
//! no file is found, looked into or overwritten by its name.

use holdfast_access::Identity;
use holdfast_api::{ApiError, Code, DiskRef, Role};
use holdfast_engine::Engine;

/// Refuses what gives up data, if `gives_up` says so; `what` names it.
pub(crate) fn may_give_up(by: &Identity, gives_up: bool, object: String, what: &str) -> Result<(), ApiError> {
    if !gives_up || by.role == Role::Administrator {
        return Ok(());
    }
    let message = format!("account {} is {} here, and {what} needs administrator", by.account, by.role);
    Err(ApiError::new(Code::Forbidden, object, message, "ask an administrator, or ask without it"))
}

/// Refuses disks that are none of this server's.
pub(crate) async fn may_name(by: &Identity, engine: &Engine, disks: &[&str]) -> Result<(), ApiError> {
    if by.role == Role::Administrator {
        return Ok(());
    }
    for disk in disks {
        if !engine.knows_disk(&DiskRef::new(disk)).await? {
            let next = "'holdfast disk list' lists the disks; only administrators may name other files";
            return Err(ApiError::new(
                Code::NotFound,
                format!("disk {disk}"),
                format!("disk {disk} is not known to this server"),
                next,
            ));
        }
    }
    Ok(())
}
