//! Logging in to a server from another machine, and out.
//!
//! Invariant: the password goes to the server that was proven to be the one meant, and is kept nowhere.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, anyhow, bail};
use holdfast_api::{ChangePassword, Changed, CreateToken, ErrorBody, Session, TokenCreated};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::SET_COOKIE;
use serde_json::json;

use crate::arguments::Login;
use crate::client::{Client, Proof, segment};
use crate::output::{print_json, print_line};
use crate::servers::{self, Server, ServerAddress};
use crate::trust::fingerprint;

/// Asks for a password on the terminal, without showing it; reads it from standard input where that is none.
pub fn password(prompt: &str) -> Result<String> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(prompt).context("the password cannot be read from the terminal");
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("the password cannot be read from standard input")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A client of the server at `url`, with the token that is kept for it.
pub fn client(url: &str) -> Result<Client> {
    let server = servers::find(url)?;
    Ok(Client::of_server(ServerAddress::parse(&server.url)?, server.fingerprint, Proof::Token(server.token)))
}

/// Logs in, and gives the session with its cookie.
async fn begin(place: &ServerAddress, pinned: Option<&str>, name: &str, password: String) -> Result<(Session, Client)> {
    let client = Client::of_server(place.clone(), pinned.map(str::to_owned), Proof::None);
    let body = serde_json::to_vec(&holdfast_api::Login { name: name.into(), password })?;
    let response = client.send(Method::POST, "/session", body.into()).await?;
    let cookie =
        response.headers().get(SET_COOKIE).and_then(|value| value.to_str().ok()?.split(';').next().map(str::to_owned));
    let done = response.status().is_success();
    let bytes = response.into_body().collect().await?.to_bytes();
    let strange = || anyhow!("server {}: it has another version than this command", place.url());
    if !done {
        return Err(serde_json::from_slice::<ErrorBody>(&bytes).map_or_else(|_| strange(), |body| body.error.into()));
    }
    let session: Session = serde_json::from_slice(&bytes).map_err(|_| strange())?;
    let (cookie, csrf) = cookie.zip(session.csrf.clone()).ok_or_else(strange)?;
    let client = Client::of_server(place.clone(), pinned.map(str::to_owned), Proof::Session { cookie, csrf });
    Ok((session, client))
}

fn here() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("login from {}", host.trim()).chars().take(64).collect()
}

/// Logs in to a server, and keeps a token for it.
pub async fn login(options: Login, json: bool) -> Result<()> {
    let place = ServerAddress::parse(&options.url)?;
    let pinned = options.fingerprint.as_deref().map(fingerprint).transpose()?;
    // Who the server is stands before the password is asked for.
    crate::trust::connect(&place, pinned.as_deref()).await?;
    let password = password(&format!("Password of {} at {}: ", options.account, place.url()))?;
    let (session, client) = begin(&place, pinned.as_deref(), &options.account, password).await?;
    let request = CreateToken {
        name: here(),
        role: session.role,
        areas: Vec::new(),
        expires_in_seconds: options.expires.as_secs(),
    };
    let made: Result<TokenCreated> = client.post("/tokens", &request).await;
    let _: Result<Changed> = client.delete("/session").await;
    let made = made?;
    let server = Server {
        url: place.url(),
        fingerprint: pinned,
        account: session.account.clone(),
        token_id: made.token.id.clone(),
        token: made.secret,
        expires_at: made.token.expires_at.clone(),
    };
    if let Some(old) = servers::remember(server)? {
        let client = Client::of_server(place.clone(), old.fingerprint, Proof::Token(old.token));
        let _: Result<Changed> = client.delete(&format!("/tokens/{}", segment(&old.token_id))).await;
    }
    let url = place.url();
    if json {
        return print_json(&json!({
            "server": url, "account": session.account, "role": session.role, "expires_at": made.token.expires_at
        }));
    }
    print_line(&format!(
        "logged in to {url} as {}, {}, until {}\nuse it:\n    export {}={url}",
        session.account,
        session.role,
        made.token.expires_at,
        holdfast_api::SERVER_VARIABLE
    ))
}

/// Gives the account that logged in to a server another password.
pub async fn change_password(url: Option<&str>, json: bool) -> Result<()> {
    let url = url.context(
        "account password: it is not known of which account; next: name the server that you logged in to with --server, or use \
         'holdfast account set NAME --password' on the server itself",
    )?;
    let server = servers::find(url)?;
    let (place, pinned, account) = (ServerAddress::parse(&server.url)?, server.fingerprint, server.account);
    crate::trust::connect(&place, pinned.as_deref()).await?;
    let current = password(&format!("Password of {account} at {}: ", place.url()))?;
    let new = password(&format!("New password of {account}: "))?;
    if io::stdin().is_terminal() && password("Once more: ")? != new {
        bail!("account {account}: the new passwords differ; next: try again");
    }
    let (_, client) = begin(&place, pinned.as_deref(), &account, current.clone()).await?;
    let done: Result<Changed> = client.post("/session/password", &ChangePassword { current, new }).await;
    let _: Result<Changed> = client.delete("/session").await;
    let done = done?;
    if json {
        return print_json(&done);
    }
    print_line(&format!("{}; its other sessions have ended, its tokens stay valid", done.message))
}

/// Removes the token for a server, there and here.
pub async fn logout(url: Option<&str>, json: bool) -> Result<()> {
    let url = url.with_context(|| {
        format!("logout: no server is named; next: name it with --server or {}", holdfast_api::SERVER_VARIABLE)
    })?;
    let server = servers::find(url)?;
    let gone: Result<Changed> = client(url)?.delete(&format!("/tokens/{}", segment(&server.token_id))).await;
    servers::forget(&server.url)?;
    let there = match &gone {
        Ok(_) => String::new(),
        Err(error) => format!("; the token could not be deleted on the server: {error}"),
    };
    if json {
        return print_json(&json!({ "changed": true, "removed_there": gone.is_ok() }));
    }
    print_line(&format!("logged out of {}{there}", server.url))
}
