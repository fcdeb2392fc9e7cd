//! Whom a sender takes for its server: those that the system's authorities vouch for, or those of one authority that
//! was given.
//!
//! Invariant: a certificate is always checked; there is no switch that turns this off.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// The certificates in `pem`; none if there is none, or one that is damaged.
pub(crate) fn authorities(pem: &str) -> Option<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        store.add(certificate.ok()?).ok()?;
    }
    (!store.is_empty()).then_some(store)
}

/// A client that checks its server against `pem`, or against the system's authorities. Reads files.
pub(crate) fn client(pem: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let store = match pem {
        Some(pem) => authorities(pem).ok_or("its authority is no certificate in PEM")?,
        None => {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err("this system has no certificate authorities: install the package ca-certificates".into());
            }
            store
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(store).with_no_client_auth()))
}
