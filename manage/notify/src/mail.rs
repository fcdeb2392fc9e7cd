//! A message as mail, by SMTP.
//!
//! Invariant: without the encryption that the channel asks for, neither password nor message leaves this machine.

use std::time::Duration;

use holdfast_api::MailSecurity;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{AsyncSmtpTransport, Error};
use lettre::{AsyncTransport, Tokio1Executor};

use crate::channel::Mail;
use crate::message::Message;
use crate::secret::Secret;
use crate::send::{Failure, Identity};

fn parameters(mail: &Mail) -> Result<TlsParameters, Error> {
    let mut builder = TlsParameters::builder(mail.server.clone());
    if let Some(pem) = &mail.ca_certificate {
        let authority = Certificate::from_pem(pem.as_bytes())?;
        builder = builder.certificate_store(CertificateStore::None).add_root_certificate(authority);
    }
    builder.build()
}

/// A host's name as SMTP takes it.
fn domain(host: &str) -> &str {
    let fits = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    if !host.is_empty() && fits(host) { host } else { "localhost" }
}

fn compose(mail: &Mail, message: &Message, identity: &Identity) -> Result<lettre::Message, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::refused(format!("the mail cannot be written: {error}"));
    let mailbox = |address: &str| address.parse::<Mailbox>().map_err(|error| wrong(&error));
    let id = format!("<holdfast-{}-{}@{}>", identity.id, identity.created_ms, domain(&message.host));
    // Answering machines leave mail alone that says so.
    let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".into());
    let mut builder = lettre::Message::builder()
        .from(mailbox(&mail.from)?)
        .subject(message.subject.clone())
        .message_id(Some(id))
        .raw_header(automatic);
    for address in &mail.to {
        builder = builder.to(mailbox(address)?);
    }
    let body = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(message.text());
    builder.singlepart(body).map_err(|error| wrong(&error))
}

fn explain(error: &Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    if error.is_permanent() { Failure::refused(text) } else { Failure::passing(text) }
}

/// Sends it.
pub(crate) async fn send(
    mail: &Mail,
    message: &Message,
    identity: &Identity,
    patience: Duration,
) -> Result<String, Failure> {
    let composed = compose(mail, message, identity)?;
    let settings = mail.clone();
    let tls = tokio::task::spawn_blocking(move || match settings.security {
        MailSecurity::None => Ok(Tls::None),
        MailSecurity::Starttls => parameters(&settings).map(Tls::Required),
        MailSecurity::Tls => parameters(&settings).map(Tls::Wrapper),
    });
    let tls = tls.await.map_err(|error| Failure::passing(error.to_string()))?.map_err(|error| explain(&error))?;
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(mail.server.clone())
        .port(mail.port)
        .tls(tls)
        .timeout(Some(patience))
        .hello_name(ClientId::Domain(domain(&message.host).into()));
    if let (Some(user), Some(password)) = (&mail.user, mail.password.as_ref().map(Secret::reveal)) {
        builder = builder.credentials(Credentials::new(user.clone(), password.to_owned()));
    }
    let response = builder.build::<Tokio1Executor>().send(composed).await.map_err(|error| explain(&error))?;
    let said: Vec<&str> = response.message().collect();
    Ok(format!("the mail server took it: {} {}", response.code(), said.join(" ")).trim().to_owned())
}
