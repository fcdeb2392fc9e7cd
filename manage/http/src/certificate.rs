//! The certificate that HTTPS clients see: a given one, or one that the daemon makes for itself.
//!
//! ```text
//!   STATE/tls/cert.pem, key.pem    made at the first start, made anew a month before the end
//! ```
//!
//! Invariants: a key that was made here is readable by its owner only from its first moment; a given certificate that
//! is replaced on the disk is taken up without a restart, and a broken one leaves the one in use in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_access::sha256;
use holdfast_api::Certificate;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};

const LIFE: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);
/// How long before its end a certificate is made anew.
const EARLY: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Clocks that are behind shall take it as well.
const BEFORE: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error("HTTPS: {path}: {source}; next: check the path and its owner")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no certificate or key, or they do not belong together.
    #[error("HTTPS: {path}: {reason}; next: name PEM files of a certificate and its key")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// The certificate and those that lead to its authority.
    chain: Vec<CertificateDer<'static>>,
    shown: Certificate,
    ends: i64,
}

/// The certificate in use.
pub(crate) struct Tls {
    files: CertificateFiles,
    self_signed: bool,
    names: Vec<String>,
    loaded: RwLock<Loaded>,
}

/// The name of this machine; `localhost` where it has none.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if plain { name } else { "localhost".into() }
}

/// The addresses by which this machine reaches others; nothing is sent for that.
fn own_addresses() -> Vec<IpAddr> {
    let routes = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let own = routes.iter().filter_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    own.collect()
}

/// The names and addresses that a certificate for `addresses` says.
fn names(addresses: &[SocketAddr]) -> Vec<String> {
    let mut names = vec![host_name(), "localhost".into(), "127.0.0.1".into(), "::1".into()];
    names.extend(addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()));
    names.extend(own_addresses().iter().map(IpAddr::to_string));
    names.sort();
    names.dedup();
    names
}

fn write_whole(path: &Path, text: &str) -> Result<(), CertificateError> {
    let temporary = path.with_extension("new");
    let write = || {
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write().map_err(|source| CertificateError::File { path: path.into(), source })
}

/// Makes a certificate for `names` with the key that is there, or a new one.
fn make(files: &CertificateFiles, names: &[String]) -> Result<(), CertificateError> {
    let explain =
        |error: rcgen::Error| CertificateError::Unusable { path: files.certificate.clone(), reason: error.to_string() };
    let there = fs::read_to_string(&files.key).ok().and_then(|pem| KeyPair::from_pem(&pem).ok());
    let key = match there {
        Some(key) => key,
        None => {
            let key = KeyPair::generate().map_err(explain)?;
            write_whole(&files.key, &key.serialize_pem())?;
            key
        }
    };
    let mut params = CertificateParams::new(names.to_vec()).map_err(explain)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, format!("Holdfast on {}", host_name()));
    params.distinguished_name = name;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = (SystemTime::now() - BEFORE).into();
    params.not_after = (SystemTime::now() + LIFE).into();
    write_whole(&files.certificate, &params.self_signed(&key).map_err(explain)?.pem())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    sha256(certificate).map(|byte| format!("{byte:02X}")).join(":")
}

fn load(files: &CertificateFiles, self_signed: bool) -> Result<Loaded, CertificateError> {
    let unusable = |path: &Path, reason: String| CertificateError::Unusable { path: path.into(), reason };
    let read = |path: &Path| fs::read(path).map_err(|source| CertificateError::File { path: path.into(), source });
    let pem = read(&files.certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    let first = chain.first().ok_or_else(|| unusable(&files.certificate, "no certificate in it".into()))?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(first).map_err(|error| unusable(&files.certificate, error.to_string()))?;
    let ends = parsed.validity().not_after.timestamp();
    let not_after = holdfast_access::time(ends.saturating_mul(1000));
    let shown = Certificate { sha256_fingerprint: fingerprint(first), not_after, self_signed };
    let key =
        PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|error| unusable(&files.key, error.to_string()))?;
    let builder =
        ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let config = builder.and_then(|builder| builder.with_no_client_auth().with_single_cert(chain.clone(), key));
    let mut config = config.map_err(|error| unusable(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Loaded { config: Arc::new(config), chain, shown, ends })
}

impl Tls {
    /// The certificate of `given`, or one of the daemon's own in `state_dir` for `addresses`.
    pub(crate) fn open(
        given: Option<CertificateFiles>,
        state_dir: &Path,
        addresses: &[SocketAddr],
    ) -> Result<Self, CertificateError> {
        let (self_signed, names) = (given.is_none(), names(addresses));
        let folder = state_dir.join("tls");
        let own = || CertificateFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        let files = given.unwrap_or_else(own);
        if self_signed {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .map_err(|source| CertificateError::File { path: folder.clone(), source })?;
            if load(&files, true).is_err() {
                make(&files, &names)?;
            }
        }
        let tls = Self { loaded: RwLock::new(load(&files, self_signed)?), files, self_signed, names };
        tls.renew()?;
        Ok(tls)
    }

    /// Makes its own certificate anew before it ends, and takes up one that was replaced; whether there is another one
    /// now.
    pub(crate) fn renew(&self) -> Result<bool, CertificateError> {
        let ends = self.loaded.read().unwrap_or_else(PoisonError::into_inner).ends;
        if self.self_signed && ends - now() < EARLY.as_secs() as i64 {
            make(&self.files, &self.names)?;
        }
        let loaded = load(&self.files, self.self_signed)?;
        let mut current = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // Those between it and its authority may be put right without another certificate.
        let differs = loaded.shown != current.shown;
        if loaded.chain != current.chain {
            *current = loaded;
        }
        Ok(differs)
    }

    /// What new connections are served with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// How it is shown.
    pub(crate) fn shown(&self) -> Certificate {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).shown.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_certificate_of_its_own_is_private_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let tls = Tls::open(None, folder.path(), &["10.1.2.3:8443".parse().unwrap()]).unwrap();
        assert_eq!((mode(&folder.path().join("tls")), mode(&folder.path().join("tls/key.pem"))), (0o700, 0o600));
        assert_eq!(tls.shown().sha256_fingerprint.len(), 95);
        let again = Tls::open(None, folder.path(), &[]).unwrap();
        assert_eq!(tls.shown(), again.shown(), "those who know its fingerprint know it after a restart");
    }

    #[test]
    fn one_that_is_about_to_end_is_made_anew_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let tls = Tls::open(None, folder.path(), &[]).unwrap();
        let (key, shown) = (fs::read(folder.path().join("tls/key.pem")).unwrap(), tls.shown());
        assert!(!tls.renew().unwrap());
        tls.loaded.write().unwrap().ends = now() + 29 * 24 * 60 * 60;
        assert!(tls.renew().unwrap());
        assert_ne!(tls.shown().sha256_fingerprint, shown.sha256_fingerprint);
        assert_eq!(fs::read(folder.path().join("tls/key.pem")).unwrap(), key);
    }

    #[test]
    fn given_files_are_taken_up_when_they_change_and_refused_when_they_are_broken() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let tls = Tls::open(None, folder.path(), &[]).unwrap();
        let files = tls.files.clone();
        let given = Tls::open(Some(files.clone()), other.path(), &[]).unwrap();
        assert!(!given.shown().self_signed && !other.path().join("tls").exists());
        make(&files, &["localhost".into()]).unwrap();
        assert!(given.renew().unwrap());
        let shown = given.shown();
        let twice = fs::read(&files.certificate).unwrap().repeat(2);
        fs::write(&files.certificate, twice).unwrap();
        assert!(!given.renew().unwrap(), "the certificate is the same");
        assert_eq!(given.loaded.read().unwrap().chain.len(), 2, "and its chain is taken up");
        fs::write(&files.certificate, "nothing").unwrap();
        assert!(matches!(given.renew(), Err(CertificateError::Unusable { .. })));
        assert_eq!(given.shown(), shown);
        let nowhere = CertificateFiles { certificate: "/nonexistent".into(), key: "/nonexistent".into() };
        assert!(matches!(Tls::open(Some(nowhere), other.path(), &[]), Err(CertificateError::File { .. })));
    }
}
