//! The servers that somebody logged in to from here: `~/.config/holdfast/servers.json`.
//!
//! Invariant: the file, which holds tokens, belongs to its owner alone from its first moment, and is replaced whole.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

const DEFAULT_PORT: u16 = 8443;

/// A server, and the token for it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Server {
    /// `https://HOST:PORT`.
    pub url: String,
    /// SHA-256 of its certificate; none where an authority vouches for it.
    pub fingerprint: Option<String>,
    /// The account that logged in.
    pub account: String,
    /// The token's id.
    pub token_id: String,
    /// Its secret.
    pub token: String,
    /// When it ends.
    pub expires_at: String,
}

/// Host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// The host, an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl ServerAddress {
    /// Reads `https://HOST[:PORT]`.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong =
            || anyhow!("server {url}: it is not a server address; next: write for example https://HOST:{DEFAULT_PORT}");
        let uri: hyper::Uri = url.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let plain = uri.path() == "/"
            && uri.query().is_none()
            && !uri.authority().is_some_and(|all| all.as_str().contains('@'));
        if uri.scheme_str() != Some("https") || !plain {
            return Err(wrong());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Ok(Self { host, port: uri.port_u16().unwrap_or(DEFAULT_PORT) })
    }

    /// Host and port as one text.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address, always written the same way.
    pub fn url(&self) -> String {
        format!("https://{}", self.authority())
    }
}

fn file() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    Ok(base.context("your home folder is unknown; next: set HOME")?.join("holdfast/servers.json"))
}

/// All servers that are known.
pub fn all() -> Result<Vec<Server>> {
    let path = file()?;
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("{}: it is damaged; next: remove it and log in again", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("{}: it cannot be read", path.display())),
    }
}

fn write(servers: &[Server]) -> Result<()> {
    let path = file()?;
    let folder = path.parent().context("the folder of the servers is not known")?;
    let write = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let temporary = path.with_extension(format!("new-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(servers)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().with_context(|| format!("{}: it cannot be written", path.display()))
}

/// The server at `url`, where somebody logged in.
pub fn find(url: &str) -> Result<Server> {
    let url = ServerAddress::parse(url)?.url();
    let found = all()?.into_iter().find(|server| server.url == url);
    match found {
        Some(server) => Ok(server),
        None => bail!("server {url}: you are not logged in; next: 'holdfast login {url}'"),
    }
}

/// Remembers `server`, in place of what was known of it; gives that.
pub fn remember(server: Server) -> Result<Option<Server>> {
    let (known, mut others): (Vec<_>, Vec<_>) = all()?.into_iter().partition(|one| one.url == server.url);
    others.push(server);
    write(&others)?;
    Ok(known.into_iter().next())
}

/// Forgets the server at `url`.
pub fn forget(url: &str) -> Result<()> {
    let others: Vec<Server> = all()?.into_iter().filter(|server| server.url != url).collect();
    write(&others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_one_way() {
        for (text, url) in [
            ("https://nas", "https://nas:8443"),
            ("https://NAS:9000/", "https://nas:9000"),
            ("https://[fd00::1]:8443", "https://[fd00::1]:8443"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().url(), url);
        }
        for text in ["nas", "http://nas", "https://", "https://ann@nas", "https://nas/pools", "https://nas?x=1"] {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }
}
