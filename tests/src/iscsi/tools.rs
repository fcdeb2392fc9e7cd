//! Initiators of others: those of libiscsi (`iscsi-ls`, `iscsi-inq`, `iscsi-readcapacity16`) and QEMU's.

use std::net::SocketAddr;

use super::chap::Account;
use crate::command::{Finished, run, run_with};

/// A logical unit as these programs name it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where its target is.
    pub address: SocketAddr,
    /// The name of the target.
    pub target: String,
    /// Its number.
    pub lun: u16,
    /// Who asks.
    pub chap: Option<Account>,
    /// Who the target has to be.
    pub mutual: Option<Account>,
    /// Options of the URL, such as `header_digest=crc32c`.
    pub options: Vec<String>,
}

impl Place {
    /// The unit `lun` of `target` at `address`.
    pub fn new(address: SocketAddr, target: &str, lun: u16) -> Self {
        Self { address, target: target.to_owned(), lun, chap: None, mutual: None, options: Vec::new() }
    }

    /// The same by who has this account.
    #[must_use]
    pub fn chap(mut self, user: &str, secret: &str) -> Self {
        self.chap = Some(Account::new(user, secret));
        self
    }

    /// The same, and the target proves that it is this account.
    #[must_use]
    pub fn mutual(mut self, user: &str, secret: &str) -> Self {
        self.mutual = Some(Account::new(user, secret));
        self
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let who = self.chap.as_ref().map_or(String::new(), |chap| format!("{}%{}@", chap.user, chap.secret));
        let mut options = self.options.clone();
        if let Some(mutual) = &self.mutual {
            options.push(format!("target_user={}", mutual.user));
            options.push(format!("target_password={}", mutual.secret));
        }
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("iscsi://{who}{}/{}/{}{options}", self.address, self.target, self.lun)
    }

    /// Runs `qemu-io` with `commands` on it.
    pub fn qemu_io(&self, commands: &[&str]) -> Finished {
        let commands: Vec<&str> = commands.iter().flat_map(|command| ["-c", *command]).collect();
        let image = self.image();
        run("qemu-io", &[&["--image-opts", "-t", "none"], &commands[..], &[&image]].concat())
    }

    /// How QEMU names it, by options of an image.
    pub fn image(&self) -> String {
        let mut options = vec![
            "driver=raw,file.driver=iscsi,file.transport=tcp".to_owned(),
            format!("file.portal={}", self.address),
            format!("file.target={}", self.target),
            format!("file.lun={}", self.lun),
        ];
        if let Some(chap) = &self.chap {
            options.extend([format!("file.user={}", chap.user), format!("file.password={}", chap.secret)]);
        }
        if self.options.iter().any(|option| option.starts_with("header_digest")) {
            options.push("file.header-digest=crc32c".to_owned());
        }
        options.join(",")
    }

    /// Writes the image in the file `path` over it.
    pub fn fill_from(&self, path: &str) -> Finished {
        let image = self.image();
        run("qemu-img", &["convert", "-n", "-W", "-m", "8", "-f", "raw", "--target-image-opts", path, &image])
    }

    /// Copies it into the file `path`.
    pub fn copy_to(&self, path: &str) -> Finished {
        let image = self.image();
        run("qemu-img", &["convert", "-m", "8", "--image-opts", "-O", "raw", &image, path])
    }
}

/// What `iscsi-ls --show-luns` tells of the portal `address`.
pub fn list(address: SocketAddr, chap: Option<&Account>) -> Finished {
    let who = chap.map_or(String::new(), |chap| format!("{}%{}@", chap.user, chap.secret));
    run("iscsi-ls", &["--show-luns", &format!("iscsi://{who}{address}")])
}

/// Runs a program of libiscsi, whose last argument is the URL of `place`.
pub fn libiscsi(program: &str, options: &[&str], place: &Place) -> Finished {
    let url = place.url();
    run_with(program, &[options, &[url.as_str()]].concat(), |_| ())
}
