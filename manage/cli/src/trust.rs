//! Whom a client of HTTPS takes for its server.
//!
//! Invariant: a server is believed if an authority of this machine vouches for it or its certificate is the one whose
//! SHA-256 was given, and in both cases only if it has the certificate's key.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use holdfast_access::{hex, sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::servers::ServerAddress;

/// A SHA-256 as 64 hexadecimal digits, however it was written.
pub fn fingerprint(text: &str) -> Result<String> {
    let digits: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_lowercase()).collect();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("fingerprint {text}: it is not a SHA-256; next: copy all 64 digits that the server printed at its start");
    }
    Ok(digits)
}

fn spaced(digits: &str) -> String {
    let pairs: Vec<&str> = (0..digits.len() / 2).map(|at| &digits[2 * at..2 * at + 2]).collect();
    pairs.join(":").to_uppercase()
}

/// Believes one certificate, or those that authorities vouch for; remembers which one it saw.
#[derive(Debug)]
struct Trust {
    pinned: Option<String>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    seen: Mutex<Option<String>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = hex(&sha256(end_entity));
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        match (&self.pinned, &self.authorities) {
            (Some(pinned), _) if *pinned == found => Ok(ServerCertVerified::assertion()),
            (None, Some(authorities)) => {
                authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            _ => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn authorities(provider: &Arc<CryptoProvider>) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()
}

/// Connects to the server at `place`, which must have the certificate with the SHA-256 `pinned`, or one that an
/// authority of this machine vouches for.
pub async fn connect(place: &ServerAddress, pinned: Option<&str>) -> Result<TlsStream<TcpStream>> {
    let url = place.url();
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(|error| {
        anyhow!("server {url}: it cannot be reached ({error}); next: check the address, and that the daemon runs with --https")
    })?;
    let provider = Arc::new(ring::default_provider());
    let trust = Arc::new(Trust {
        pinned: pinned.map(str::to_owned),
        authorities: if pinned.is_none() { authorities(&provider) } else { None },
        seen: Mutex::default(),
        provider: provider.clone(),
    });
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.dangerous().with_custom_certificate_verifier(trust.clone()).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(place.host.clone()).with_context(|| format!("server {url}: it has no name"))?;
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(stream) => Ok(stream),
        Err(error) => {
            let seen = trust.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
            Err(match (seen, pinned) {
                (Some(seen), Some(pinned)) if seen != pinned => anyhow!(
                    "server {url}: its certificate is another one than before; its SHA-256 is {}; next: make sure that nobody \
                     stands between, then log in with that as --fingerprint",
                    spaced(&seen)
                ),
                (Some(seen), None) => anyhow!(
                    "server {url}: no authority vouches for its certificate ({error}); its SHA-256 is {}; next: compare it with \
                     what the server printed at its start, and give it as --fingerprint",
                    spaced(&seen)
                ),
                _ => anyhow!("server {url}: TLS failed ({error}); next: check that HTTPS is served there"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_however_they_are_written() {
        let digits = hex(&sha256(b"x"));
        assert_eq!(fingerprint(&spaced(&digits)).unwrap(), digits);
        assert!(fingerprint("12:34").is_err() && fingerprint(&"g".repeat(64)).is_err());
    }
}
