//! A mail server and a web server in this process. They take what is sent to them, and remember it.

use std::sync::{Arc, Mutex};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// How a server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Plain,
    /// Encrypted once the client asks for it.
    Starttls,
    Tls,
}

/// A mail, as the server got it.
#[derive(Clone, Debug)]
pub struct Mail {
    pub encrypted: bool,
    /// What AUTH PLAIN or LOGIN carried, in base64.
    pub auth: Option<String>,
    pub from: String,
    pub to: Vec<String>,
    pub data: String,
}

/// A request, as the server got it.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A server that is up until it is dropped.
pub struct Server<T> {
    pub port: u16,
    /// Its certificate.
    pub pem: String,
    taken: Arc<Mutex<Vec<T>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl<T: Clone> Server<T> {
    pub fn taken(&self) -> Vec<T> {
        self.taken.lock().unwrap().clone()
    }
}

impl<T> Drop for Server<T> {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn acceptor() -> (TlsAcceptor, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), cert.pem())
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn line(stream: &mut BufStream<Box<dyn Stream>>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

async fn say(stream: &mut BufStream<Box<dyn Stream>>, text: &str) -> Option<()> {
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.write_all(b"\r\n").await.ok()?;
    stream.flush().await.ok()
}

/// Speaks SMTP with one client. `login` is what AUTH PLAIN must carry; `refuse` is said to each recipient instead of
/// 250.
async fn smtp(
    mut stream: BufStream<Box<dyn Stream>>,
    wire: Wire,
    tls: TlsAcceptor,
    login: Option<String>,
    refuse: Option<String>,
    taken: Arc<Mutex<Vec<Mail>>>,
) -> Option<()> {
    let mut encrypted = wire == Wire::Tls;
    let mut mail = Mail { encrypted, auth: None, from: String::new(), to: vec![], data: String::new() };
    say(&mut stream, "220 test").await?;
    loop {
        let order = line(&mut stream).await?;
        let word = order.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "EHLO" => {
                say(&mut stream, "250-test").await?;
                if wire == Wire::Starttls && !encrypted {
                    say(&mut stream, "250-STARTTLS").await?;
                }
                say(&mut stream, "250 AUTH PLAIN").await?;
            }
            "STARTTLS" => {
                say(&mut stream, "220 go on").await?;
                let encrypting: Box<dyn Stream> = Box::new(tls.accept(stream.into_inner()).await.ok()?);
                stream = BufStream::new(encrypting);
                encrypted = true;
            }
            "AUTH" => {
                mail.auth = order.split(' ').nth(2).map(str::to_owned);
                let right = mail.auth == login;
                say(&mut stream, if right { "235 welcome" } else { "535 5.7.8 wrong user or password" }).await?;
            }
            "MAIL" => {
                (mail.encrypted, mail.from) = (encrypted, order);
                let may = login.is_none() || mail.auth == login;
                say(&mut stream, if may { "250 fine" } else { "530 5.7.0 log in first" }).await?;
            }
            "RCPT" => {
                mail.to.push(order);
                say(&mut stream, refuse.as_deref().unwrap_or("250 fine")).await?;
            }
            "DATA" => {
                say(&mut stream, "354 go on").await?;
                loop {
                    match line(&mut stream).await?.as_str() {
                        "." => break,
                        text => mail.data += &format!("{text}\n"),
                    }
                }
                taken.lock().unwrap().push(mail.clone());
                say(&mut stream, "250 taken as 4711").await?;
            }
            "QUIT" => return say(&mut stream, "221 bye").await,
            _ => say(&mut stream, "500 what?").await?,
        }
    }
}

/// Starts a mail server.
pub async fn mail_server(wire: Wire, login: Option<&str>, refuse: Option<&str>) -> Server<Mail> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tls, pem) = acceptor();
    let taken: Arc<Mutex<Vec<Mail>>> = Arc::default();
    let (login, refuse, into) = (login.map(str::to_owned), refuse.map(str::to_owned), taken.clone());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, login, refuse, into) = (tls.clone(), login.clone(), refuse.clone(), into.clone());
            tokio::spawn(async move {
                let stream: Box<dyn Stream> =
                    if wire == Wire::Tls { Box::new(tls.accept(stream).await.ok()?) } else { Box::new(stream) };
                smtp(BufStream::new(stream), wire, tls, login, refuse, into).await
            });
        }
    });
    Server { port, pem, taken, serving }
}

async fn http(mut stream: BufStream<Box<dyn Stream>>, answer: String, taken: Arc<Mutex<Vec<Request>>>) -> Option<()> {
    let first = line(&mut stream).await?;
    let mut request = Request { line: first, headers: String::new(), body: vec![] };
    loop {
        match line(&mut stream).await?.as_str() {
            "" => break,
            text => request.headers += &format!("{text}\n"),
        }
    }
    request.body = vec![0; request.header("content-length")?.parse().ok()?];
    stream.read_exact(&mut request.body).await.ok()?;
    taken.lock().unwrap().push(request);
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    // An answer without an end is not waited for.
    let endless = answer.contains("content-length: 999999");
    while endless && stream.write_all(&[b'x'; 1 << 16]).await.is_ok() {}
    Some(())
}

/// Starts a web server that answers each request with `answer`.
pub async fn web_server(wire: Wire, port: u16, answer: &str) -> Server<Request> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tls, pem) = acceptor();
    let taken: Arc<Mutex<Vec<Request>>> = Arc::default();
    let (answer, into) = (answer.replace('\n', "\r\n"), taken.clone());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, answer, into) = (tls.clone(), answer.clone(), into.clone());
            tokio::spawn(async move {
                let stream: Box<dyn Stream> =
                    if wire == Wire::Tls { Box::new(tls.accept(stream).await.ok()?) } else { Box::new(stream) };
                http(BufStream::new(stream), answer, into).await
            });
        }
    });
    Server { port, pem, taken, serving }
}
