//! The commands about iSCSI targets.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use holdfast_api::{
    AddLun, AddPortal, AllowInitiator, Changed, ChapAccount, CreateTarget, GrowLun, IscsiDiscovery,
    IscsiDiscoveryChanged, IscsiSession, Lun, LunChanged, Reservation, SetLun, SetPortal, SetTarget, Target,
    TargetChanged, word,
};
use holdfast_model::ByteSize;

use crate::arguments::{
    DiscoveryCommand, InitiatorCommand, IscsiCommand, IscsiSessionCommand, LunCommand, PortalCommand,
    ReservationCommand, TargetCommand,
};
use crate::client::{Client, segment};
use crate::login::password;
use crate::output::{print, with_conditions};
use crate::remote::{rounded, tell, tell_gone};

/// A file with a secret has no more bytes.
const MOST_SECRET_BYTES: u64 = 4096;

fn path(target: &str) -> String {
    format!("/targets/{}", segment(target))
}

fn lun_path(target: &str, lun: u16) -> String {
    format!("{}/luns/{lun}", path(target))
}

/// An account: the secret of the user from a file, the terminal or standard input.
fn account(user: String, file: Option<&Path>) -> Result<ChapAccount> {
    let secret = match file {
        Some(path) => {
            let name = path.display();
            let read = || {
                let mut text = String::new();
                std::fs::File::open(path)?.take(MOST_SECRET_BYTES).read_to_string(&mut text)?;
                Ok::<_, std::io::Error>(text)
            };
            let text = read().with_context(|| format!("{name}: the secret cannot be read"))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => password(&format!("Secret of {user}: "))?,
    };
    if secret.is_empty() {
        bail!("user {user}: the secret is empty; next: type it, or name a file with --secret-file");
    }
    Ok(ChapAccount { user, secret })
}

fn optional_account(user: Option<String>, file: Option<&Path>) -> Result<Option<ChapAccount>> {
    if user.is_none() && file.is_some() {
        bail!("--secret-file: it is not said whose secret it is; next: name the user as well");
    }
    user.map(|user| account(user, file)).transpose()
}

fn tell_target(json: bool, answer: &TargetChanged, done: String) -> Result<()> {
    tell(json, answer, answer.changed, with_conditions(done, &answer.target.conditions))
}

/// Does a target command.
pub async fn target_command(client: &Client, json: bool, command: TargetCommand) -> Result<()> {
    match command {
        TargetCommand::List => print(json, &client.get::<Vec<Target>>("/targets").await?),
        TargetCommand::Show { target } => print(json, &client.get::<Target>(&path(&target)).await?),
        TargetCommand::Create { target, iqn, portal, open } => {
            let request = CreateTarget { name: target, iqn, portals: portal, open };
            let answer: TargetChanged = client.post("/targets", &request).await?;
            let done = format!("target {} is {}", answer.target.name, answer.target.iqn);
            tell_target(json, &answer, done)
        }
        TargetCommand::Set { target, open, closed, mutual, no_mutual, secret } => {
            let mutual = optional_account(mutual, secret.secret_file.as_deref())?;
            let request = SetTarget { open: (open || closed).then_some(open), mutual, no_mutual };
            let answer: TargetChanged = client.patch(&path(&target), &request).await?;
            tell_target(json, &answer, format!("target {} is set", answer.target.name))
        }
        TargetCommand::Destroy { target, yes } => {
            tell_gone(json, &client.delete::<Changed>(&format!("{}?confirm={yes}", path(&target))).await?)
        }
        TargetCommand::Portal(command) => portal_command(client, json, command).await,
    }
}

async fn portal_command(client: &Client, json: bool, command: PortalCommand) -> Result<()> {
    let of = |target: &str, address: &str| format!("{}/portals/{}", path(target), segment(address));
    let (answer, address): (TargetChanged, String) = match command {
        PortalCommand::Add { target, address, group, state } => {
            let request = AddPortal { address: address.clone(), group, state: state.map(Into::into) };
            (client.post(&format!("{}/portals", path(&target)), &request).await?, address)
        }
        PortalCommand::Set { target, address, group, state } => {
            let request = SetPortal { group, state: state.map(Into::into) };
            (client.patch(&of(&target, &address), &request).await?, address)
        }
        PortalCommand::Remove { target, address } => {
            let answer: TargetChanged = client.delete(&of(&target, &address)).await?;
            let done = format!("target {} is not reached by {address}", answer.target.name);
            return tell_target(json, &answer, done);
        }
    };
    let portals: Vec<String> = answer
        .target
        .portals
        .iter()
        .map(|portal| format!("{} (group {}, {})", portal.address, portal.group, word(&portal.state)))
        .collect();
    let done = format!("portal {address} of target {} is set; its portals: {}", answer.target.name, portals.join(", "));
    tell_target(json, &answer, done)
}

/// Does a LUN command.
pub async fn lun_command(client: &Client, json: bool, command: LunCommand) -> Result<()> {
    match command {
        LunCommand::Add { target, backing, lun, block, read_only, size, full, alert } => {
            let request = AddLun {
                backing,
                lun,
                blocks: block.map(Into::into),
                read_only,
                size_bytes: size.map(ByteSize::bytes),
                full,
                alert_percent: alert.and_then(|alert| alert.0),
            };
            let answer: LunChanged = client.post(&format!("{}/luns", path(&target)), &request).await?;
            let lun = &answer.lun;
            let size = lun.size_bytes.map(|bytes| format!("{}, ", ByteSize(bytes))).unwrap_or_default();
            let done = format!("LUN {} is {}, {size}blocks of {}", lun.name, lun.backing, word(&lun.blocks));
            tell(json, &answer, answer.changed, with_conditions(done, &lun.conditions))
        }
        LunCommand::Show { target, lun } => print(json, &client.get::<Lun>(&lun_path(&target, lun)).await?),
        LunCommand::Set { target, lun, qos, alert } => {
            let request = SetLun {
                qos: qos.change(),
                alert_percent: alert.and_then(|alert| alert.0),
                default_alert: alert.is_some_and(|alert| alert.0.is_none()),
            };
            let answer: LunChanged = client.patch(&lun_path(&target, lun), &request).await?;
            tell(json, &answer, answer.changed, format!("LUN {} is set", answer.lun.name))
        }
        LunCommand::Grow { target, lun, size } => {
            let request = GrowLun { size_bytes: size.bytes() };
            let answer: LunChanged = client.post(&format!("{}/grow", lun_path(&target, lun)), &request).await?;
            let has = answer.lun.size_bytes.unwrap_or_default();
            let done = format!("LUN {} has {}{}", answer.lun.name, ByteSize(has), rounded(size, has));
            tell(json, &answer, answer.changed, done)
        }
        LunCommand::Remove { target, lun, yes } => {
            tell_gone(json, &client.delete::<Changed>(&format!("{}?confirm={yes}", lun_path(&target, lun))).await?)
        }
    }
}

/// Does an initiator command.
pub async fn initiator_command(client: &Client, json: bool, command: InitiatorCommand) -> Result<()> {
    match command {
        InitiatorCommand::Allow { target, iqn, chap, no_chap, secret } => {
            let chap = optional_account(chap, secret.secret_file.as_deref())?;
            let request = AllowInitiator { iqn: iqn.clone(), chap, no_chap };
            let answer: TargetChanged = client.post(&format!("{}/initiators", path(&target)), &request).await?;
            tell_target(json, &answer, format!("initiator {iqn} may log in to target {}", answer.target.name))
        }
        InitiatorCommand::Deny { target, iqn } => {
            let answer: TargetChanged =
                client.delete(&format!("{}/initiators/{}", path(&target), segment(&iqn))).await?;
            let open = if answer.target.open { "; the target is open, so it may log in like any other" } else { "" };
            tell_target(json, &answer, format!("initiator {iqn} is not listed at target {}{open}", answer.target.name))
        }
    }
}

/// Does an iSCSI command.
pub async fn iscsi_command(client: &Client, json: bool, command: IscsiCommand) -> Result<()> {
    let told = |answer: IscsiDiscoveryChanged| {
        let done = match &answer.discovery.chap_user {
            Some(user) => format!("initiators prove who they are as {user} to see which targets there are"),
            None => "initiators need no account to see which targets there are".into(),
        };
        tell(json, &answer, answer.changed, done)
    };
    match command {
        IscsiCommand::Session(IscsiSessionCommand::List) => {
            print(json, &client.get::<Vec<IscsiSession>>("/iscsi/sessions").await?)
        }
        IscsiCommand::Session(IscsiSessionCommand::Drop { id }) => {
            tell_gone(json, &client.delete::<Changed>(&format!("/iscsi/sessions/{id}")).await?)
        }
        IscsiCommand::Discovery(DiscoveryCommand::Show) => {
            print(json, &client.get::<IscsiDiscovery>("/iscsi/discovery").await?)
        }
        IscsiCommand::Discovery(DiscoveryCommand::Set { chap, secret }) => {
            let account = account(chap, secret.secret_file.as_deref())?;
            told(client.put("/iscsi/discovery", &account).await?)
        }
        IscsiCommand::Discovery(DiscoveryCommand::Clear) => told(client.delete("/iscsi/discovery").await?),
    }
}

/// Does a reservation command.
pub async fn reservation_command(client: &Client, json: bool, command: ReservationCommand) -> Result<()> {
    match command {
        ReservationCommand::List { target, lun } => {
            let targets: Vec<Target> = match &target {
                Some(target) => vec![client.get(&path(target)).await?],
                None => client.get("/targets").await?,
            };
            let mut found = Vec::new();
            for target in &targets {
                let wanted = target.luns.iter().filter(|one| lun.is_none_or(|lun| lun == one.lun));
                // One that is named is asked for also where it is not there or not served, which is told.
                let numbers: Vec<u16> = match lun {
                    Some(lun) => vec![lun],
                    None => wanted.filter(|one| one.served).map(|one| one.lun).collect(),
                };
                for number in numbers {
                    let one: Reservation =
                        client.get(&format!("{}/reservation", lun_path(&target.name, number))).await?;
                    found.push(one);
                }
            }
            print(json, &found)
        }
        ReservationCommand::Clear { target, lun, yes } => {
            let path = format!("{}/reservation?confirm={yes}", lun_path(&target, lun));
            tell_gone(json, &client.delete::<Changed>(&path).await?)
        }
    }
}
