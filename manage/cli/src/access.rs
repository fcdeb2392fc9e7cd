//! The commands about who may manage, what they did, and the copy of what is kept of it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use holdfast_api::{
    Account, AccountChanged, AuditRecord, Changed, CreateAccount, CreateToken, Session, SetAccount, Token, TokenCreated,
};
use holdfast_model::ByteSize;
use serde_json::json;

use crate::arguments::{AccountCommand, Audit, Restore, TokenCommand};
use crate::client::{Client, segment};
use crate::login::password;
use crate::output::{print, print_json, print_line};
use crate::remote::{tell, tell_gone};

fn new_password(account: &str) -> Result<String> {
    password(&format!("New password of {account}: "))
}

/// Does an account command.
pub async fn account_command(client: &Client, json: bool, command: AccountCommand) -> Result<()> {
    let path = |account: &str| format!("/accounts/{}", segment(account));
    match command {
        AccountCommand::Create { account, role } => {
            let request = CreateAccount { password: new_password(&account)?, name: account, role };
            let answer: AccountChanged = client.post("/accounts", &request).await?;
            tell(json, &answer, answer.changed, format!("account {} is {}", answer.account.name, answer.account.role))
        }
        AccountCommand::List => print(json, &client.get::<Vec<Account>>("/accounts").await?),
        AccountCommand::Show { account } => print(json, &client.get::<Account>(&path(&account)).await?),
        AccountCommand::Set { account, role, password, enable, disable } => {
            let password = if password { Some(new_password(&account)?) } else { None };
            let request = SetAccount { password, role, enabled: (enable || disable).then_some(enable) };
            let answer: AccountChanged = client.patch(&path(&account), &request).await?;
            tell(json, &answer, answer.changed, format!("account {} is set", answer.account.name))
        }
        // Asked of a server by a session of its own, before there is a client.
        AccountCommand::Password => Ok(()),
        AccountCommand::Delete { account } => tell_gone(json, &client.delete::<Changed>(&path(&account)).await?),
    }
}

/// Does a token command.
pub async fn token_command(client: &Client, json: bool, command: TokenCommand) -> Result<()> {
    match command {
        TokenCommand::Create { name, role, area, expires } => {
            let request = CreateToken { name, role, areas: area, expires_in_seconds: expires.as_secs() };
            let made: TokenCreated = client.post("/tokens", &request).await?;
            if json {
                return print_json(&made);
            }
            eprintln!("token {} is valid until {}; its secret, shown only once:", made.token.id, made.token.expires_at);
            print_line(&made.secret)
        }
        TokenCommand::List => print(json, &client.get::<Vec<Token>>("/tokens").await?),
        TokenCommand::Delete { id } => {
            tell_gone(json, &client.delete::<Changed>(&format!("/tokens/{}", segment(&id))).await?)
        }
    }
}

/// Lists who changed what.
pub async fn audit(client: &Client, json: bool, which: Audit) -> Result<()> {
    let mut path = format!("/audit?limit={}", which.limit);
    let after = which.after.map(|after| after.to_string());
    for (name, value) in [("after", after), ("account", which.account), ("kind", which.kind), ("object", which.object)]
    {
        if let Some(value) = value {
            path += &format!("&{name}={}", segment(&value));
        }
    }
    print(json, &client.get::<Vec<AuditRecord>>(&path).await?)
}

/// Shows who asks.
pub async fn whoami(client: &Client, json: bool) -> Result<()> {
    print(json, &client.get::<Session>("/session").await?)
}

/// Writes a copy of what the daemon keeps to `file`.
pub async fn backup(client: &Client, json: bool, file: &Path) -> Result<()> {
    let shown = file.display();
    if file.exists() {
        bail!("file {shown}: it already exists; next: name another one");
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    let part = Path::new(&name);
    // Made here and by nobody else: what somebody put there would have their rights, or lead elsewhere.
    let _ = fs::remove_file(part);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    let mut target = opened.with_context(|| format!("file {}: it cannot be created", part.display()))?;
    let done = client.download("/backup", &mut target).await.and_then(|bytes| {
        target
            .sync_all()
            .and_then(|()| fs::rename(part, file))
            .with_context(|| format!("file {shown}: it cannot be written"))?;
        Ok(bytes)
    });
    let bytes = done.inspect_err(|_| {
        let _ = fs::remove_file(part);
    })?;
    if json {
        return print_json(&json!({ "file": file, "bytes": bytes }));
    }
    print_line(&format!("{shown} holds the configuration, accounts and audit log, {}; keep it secret", ByteSize(bytes)))
}

/// Puts a backup in place.
pub fn restore(json: bool, options: Restore) -> Result<()> {
    let replaced = holdfast_engine::restore(&options.state, &options.file)?;
    if json {
        return print_json(&json!({ "changed": true, "replaced": replaced }));
    }
    let kept = replaced.map_or_else(String::new, |path| format!("; what it replaced is {}", path.display()));
    print_line(&format!("{} is in place in {}{kept}", options.file.display(), options.state.display()))
}
