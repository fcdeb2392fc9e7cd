//! TLS: optional, required, with certificates of clients, and with none that fits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::client::{Client, info, told};
use crate::support::memory::Memory;
use crate::support::{Fixture, fresh_path};
use holdfast_harness::{LIMIT, wait_until};
use holdfast_listener::{Address, ListenError, ListenSettings, TlsRequired, TlsSettings};
use holdfast_nbd::protocol::ReplyStyle;
use holdfast_nbd::protocol::constants::*;
use holdfast_nbd::{Exports, NbdSettings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct Files {
    folder: PathBuf,
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Files {
    /// An authority, and certificates of a server and of a client.
    fn new() -> Self {
        let folder = fresh_path(".tls");
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn settings(&self, required: TlsRequired, client_authorities: Option<&str>) -> NbdSettings {
        let tls = TlsSettings {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities: client_authorities.map(|name| self.path(name)),
            required,
        };
        NbdSettings { listen: ListenSettings { tls: Some(tls), ..ListenSettings::default() }, ..NbdSettings::default() }
    }

    fn client(&self, with_certificate: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(if with_certificate {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap())
                .unwrap()
        } else {
            builder.with_no_client_auth()
        })
    }
}

fn connect(address: &Address) -> TcpStream {
    let Address::Tcp(address) = address else { panic!("TLS is tried over TCP") };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Asks for TLS in the clear, then starts it.
fn encrypted(address: &Address, config: Arc<ClientConfig>) -> Client {
    let stream = connect(address);
    let mut clear = Client::greet(Box::new(stream.try_clone().unwrap()), FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
    assert_eq!(clear.option(OPT_STARTTLS, &[]), [(REP_ACK, vec![])]);
    let session = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    Client::under(Box::new(StreamOwned::new(session, stream)))
}

fn disk() -> Arc<Memory> {
    Arc::new(Memory::new(64 << 20))
}

#[test]
fn everything_works_under_tls() {
    let files = Files::new();
    let fixture = Fixture::with(&[("disk", disk())], files.settings(TlsRequired::OverTcp, None));
    for style in [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended] {
        let mut client = encrypted(&fixture.tcp, files.client(false));
        assert_eq!(client.option(OPT_STARTTLS, &[])[0].0, REP_ERR_INVALID);
        client.choose("disk", style);
        wait_until("TLS is shown", || fixture.server().connections().iter().any(|status| status.tls));
        let data: Vec<u8> = (0..3 << 20).map(|at: u32| (at ^ (at >> 9)) as u8).collect();
        for offset in [0, 4096, 777] {
            assert_eq!(client.write(0, offset, &data), 0);
            assert_eq!(client.read(offset, data.len()), data);
        }
        for number in 0..100 {
            client.send(0, CMD_READ, number * 512, 65536, &[]);
        }
        for _ in 0..100 {
            assert_eq!(client.reply().error, 0);
        }
        client.send(0, CMD_DISC, 0, 0, &[]);
        assert!(client.closed(), "the session ends with a goodbye");
    }
}

#[test]
fn where_tls_is_required_nothing_is_told_without() {
    let files = Files::new();
    let fixture = Fixture::with(&[("disk", disk())], files.settings(TlsRequired::OverTcp, None));
    let mut clear = Client::connect(&fixture.tcp);
    for option in [OPT_LIST, OPT_GO, OPT_INFO, OPT_STRUCTURED_REPLY] {
        assert_eq!(clear.option(option, &info("disk", &[]))[0].0, REP_ERR_TLS_REQD);
    }
    clear.send_option(OPT_EXPORT_NAME, b"disk");
    assert!(clear.closed());
    let mut local = Client::connect(&fixture.unix);
    told(&local.option(OPT_GO, &info("disk", &[])));
    drop(fixture);
    let fixture = Fixture::with(&[("disk", disk())], files.settings(TlsRequired::Everywhere, None));
    let mut local = Client::connect(&fixture.unix);
    assert_eq!(local.option(OPT_LIST, &[])[0].0, REP_ERR_TLS_REQD);
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let files = Files::new();
    let settings = files.settings(TlsRequired::Nowhere, Some("ca.pem"));
    let fixture = Fixture::with(&[("disk", disk())], settings);
    let mut known = encrypted(&fixture.tcp, files.client(true));
    known.choose("disk", ReplyStyle::Extended);
    assert_eq!(known.read(0, 4096), vec![0; 4096]);

    let stream = connect(&fixture.tcp);
    let mut clear = Client::greet(Box::new(stream.try_clone().unwrap()), FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
    clear.option(OPT_STARTTLS, &[]);
    let name = ServerName::try_from("localhost").unwrap();
    let mut unknown = StreamOwned::new(ClientConnection::new(files.client(false), name).unwrap(), stream);
    let _ = unknown.write_all(&[0; 16]);
    assert!(unknown.read(&mut [0; 1]).is_err(), "a client without a certificate is refused");
}

#[test]
fn garbage_instead_of_tls_closes_the_connection() {
    let files = Files::new();
    let fixture = Fixture::with(&[("disk", disk())], files.settings(TlsRequired::OverTcp, None));
    let mut client = Client::connect(&fixture.tcp);
    client.option(OPT_STARTTLS, &[]);
    client.wire.write_all(&[0x16; 4000]).unwrap();
    let mut rest = Vec::new();
    let _ = client.wire.read_to_end(&mut rest);
    assert!(rest.len() < 100, "an alert at most");
    let mut client = Client::connect(&fixture.tcp);
    client.send_option(OPT_STARTTLS, &[]);
    client.send_option(OPT_LIST, &[]);
    let _ = client.wire.read_to_end(&mut rest);
    wait_until("both are gone", || fixture.server().connections().is_empty());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let start = |settings: NbdSettings| {
        let reactor = holdfast_device::reactor::start(Default::default()).unwrap();
        let started =
            holdfast_nbd::serve(vec![reactor.clone()], Exports::new(), &["tcp:127.0.0.1:0".parse().unwrap()], settings);
        reactor.stop();
        started.map(drop)
    };
    let with = |change: &dyn Fn(&mut TlsSettings)| {
        let mut settings = files.settings(TlsRequired::OverTcp, None);
        change(settings.listen.tls.as_mut().unwrap());
        start(settings)
    };
    let missing = with(&|tls| tls.certificate = Path::new("/nowhere/x.pem").into());
    assert!(
        matches!(&missing, Err(ListenError::Tls { reason, .. }) if reason.contains("/nowhere/x.pem")),
        "{missing:?}"
    );
    assert!(
        matches!(with(&|tls| tls.key = files.path("client.key")), Err(ListenError::Tls { .. })),
        "a key of another"
    );
    assert!(matches!(with(&|tls| tls.certificate = files.path("server.key")), Err(ListenError::Tls { .. })));
    assert!(matches!(
        with(&|tls| tls.client_authorities = Some(files.path("client.key"))),
        Err(ListenError::Tls { .. })
    ));
}
