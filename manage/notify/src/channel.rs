//! Channels as they are stored, and what they may be.
//!
//! Invariant: a channel that is stored passed [`Channel::check`], so a sender meets no address that it cannot use and
//! no password goes out unencrypted.

use std::net::IpAddr;

use holdfast_api::{
    ApiError, MailChannel, MailSecurity, NotifyChannelKind, SetMail, SetNotifyChannel, SetWebhook, WebhookChannel,
    WebhookTemplate,
};
use holdfast_model::{ObjectKind, ObjectRef};
use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::secret::Secret;
use crate::tls;

/// Recipients of a mail channel at most.
const RECIPIENTS: usize = 32;
/// Bytes of an address, a user's name, a password, a key or a token at most.
const TEXT_BYTES: usize = 1024;
/// Bytes of a URL at most.
const URL_BYTES: usize = 4096;
/// Bytes of an authority's certificate at most.
const CERTIFICATE_BYTES: usize = 64 << 10;

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) sender: Sender,
}

/// By what it delivers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sender {
    Mail(Mail),
    Webhook(Webhook),
}

/// A mail server and who writes to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) server: String,
    pub(crate) port: u16,
    pub(crate) security: MailSecurity,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) ca_certificate: Option<String>,
}

/// Where requests go, and what proves who sends them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) url: Secret,
    pub(crate) template: WebhookTemplate,
    pub(crate) secret: Option<Secret>,
    pub(crate) token: Option<Secret>,
    pub(crate) ca_certificate: Option<String>,
}

fn usual_port(security: MailSecurity) -> u16 {
    match security {
        MailSecurity::Starttls => 587,
        MailSecurity::Tls => 465,
        MailSecurity::None => 25,
    }
}

/// A text that takes the place of another; an empty one takes it away.
fn replace<T>(place: &mut Option<T>, given: Option<String>, make: impl FnOnce(String) -> T) {
    if let Some(text) = given {
        *place = (!text.is_empty()).then(|| make(text));
    }
}

impl Mail {
    fn apply(&mut self, set: SetMail) {
        if let Some(security) = set.security.filter(|security| *security != self.security) {
            if self.port == usual_port(self.security) {
                self.port = usual_port(security);
            }
            self.security = security;
        }
        if let Some(server) = set.server {
            self.server = server;
        }
        if let Some(port) = set.port {
            self.port = if port == 0 { usual_port(self.security) } else { port };
        }
        replace(&mut self.user, set.user, |user| user);
        if self.user.is_none() && set.password.is_none() {
            self.password = None;
        }
        replace(&mut self.password, set.password, Secret::new);
        if let Some(from) = set.from {
            self.from = from;
        }
        if let Some(to) = set.to {
            self.to = to;
        }
        replace(&mut self.ca_certificate, set.ca_certificate, |pem| pem);
    }

    fn check(&self, object: &str) -> Result<(), ApiError> {
        let wrong = |field: &str, message: String, next: &str| Err(ApiError::invalid(object, message, next).at(field));
        if self.server.is_empty() {
            return wrong("server", "it has no mail server".into(), "name it with --host");
        }
        let is_address = self.server.parse::<IpAddr>().is_ok();
        if !is_address && !matches!(Host::parse(&self.server), Ok(Host::Domain(_))) {
            let next = "write a host name or an address, and the port with --port";
            return wrong("server", format!("'{}' is no mail server", short(&self.server)), next);
        }
        if self.from.is_empty() {
            return wrong("from", "it has no sender".into(), "name an address with --from");
        }
        if self.to.is_empty() || self.to.len() > RECIPIENTS {
            let message = format!("it has {} recipients, and 1 to {RECIPIENTS} are possible", self.to.len());
            return wrong("to", message, "name them with --to");
        }
        for (field, address) in self.to.iter().map(|to| ("to", to)).chain([("from", &self.from)]) {
            if address.len() > TEXT_BYTES || address.parse::<Mailbox>().is_err() {
                let message = format!("'{}' is no mail address", short(address));
                return wrong(field, message, "write it as in admin@example.com or 'Storage <nas@example.com>'");
            }
        }
        let bad = |text: &str| text.len() > TEXT_BYTES || has_control(text);
        if self.user.as_deref().is_some_and(bad) {
            return wrong(
                "user",
                "its user cannot be used".into(),
                "choose 1 to 1024 bytes without control characters",
            );
        }
        if self.password.as_ref().map(Secret::reveal).is_some_and(bad) {
            return wrong(
                "password",
                "its password cannot be used".into(),
                "choose 1 to 1024 bytes without control characters",
            );
        }
        match (&self.user, &self.password) {
            (Some(_), None) => {
                return wrong(
                    "password",
                    "it has a user and no password".into(),
                    "give the password, or leave the user out",
                );
            }
            (None, Some(_)) => {
                return wrong("user", "it has a password and no user".into(), "name the user with --user");
            }
            (Some(_), Some(_)) if self.security == MailSecurity::None => {
                let message = "its password would travel unencrypted".into();
                return wrong("security", message, "choose --security starttls or tls, or leave user and password out");
            }
            _ => {}
        }
        check_certificate(object, self.ca_certificate.as_deref())
    }

    fn shown(&self) -> MailChannel {
        MailChannel {
            server: self.server.clone(),
            port: self.port,
            security: self.security,
            user: self.user.clone(),
            password_set: self.password.is_some(),
            from: self.from.clone(),
            to: self.to.clone(),
            ca_certificate_set: self.ca_certificate.is_some(),
        }
    }
}

impl Webhook {
    fn apply(&mut self, set: SetWebhook) {
        if let Some(url) = set.url {
            self.url = Secret::new(url);
        }
        if let Some(template) = set.template {
            self.template = template;
        }
        replace(&mut self.secret, set.secret, Secret::new);
        replace(&mut self.token, set.token, Secret::new);
        replace(&mut self.ca_certificate, set.ca_certificate, |pem| pem);
    }

    fn check(&self, object: &str) -> Result<(), ApiError> {
        let wrong = |field: &str, message: &str, next: &str| Err(ApiError::invalid(object, message, next).at(field));
        let next = "give one as in https://HOST/PATH";
        if self.url.reveal().is_empty() {
            return wrong("url", "it has no URL", next);
        }
        // What is wrong is said without the URL, which may hold a token.
        let unusable = "its URL cannot be used: it is no http:// or https:// address";
        let Some(url) = self.parsed() else { return wrong("url", unusable, next) };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("url", "its URL holds a user or password", "leave them out, and give a token with --token");
        }
        if self.template == WebhookTemplate::Ntfy && crate::template::topic(&url).is_none() {
            return wrong("url", "its URL names no topic of ntfy", "give one as in https://ntfy.example.com/TOPIC");
        }
        let bad = |secret: &Secret| secret.reveal().len() > TEXT_BYTES || has_control(secret.reveal());
        if self.secret.as_ref().is_some_and(bad) {
            return wrong("secret", "its secret cannot be used", "choose 1 to 1024 bytes without control characters");
        }
        if self.token.as_ref().is_some_and(|token| bad(token) || !token.reveal().is_ascii()) {
            let next = "choose 1 to 1024 ASCII characters without control characters";
            return wrong("token", "its token cannot be used", next);
        }
        check_certificate(object, self.ca_certificate.as_deref())
    }

    /// Its URL, if it is one that requests can go to.
    pub(crate) fn parsed(&self) -> Option<Url> {
        let text = self.url.reveal();
        let url = Url::parse(text).ok().filter(|_| text.len() <= URL_BYTES && !has_control(text))?;
        (matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())).then_some(url)
    }

    fn shown(&self) -> WebhookChannel {
        let server = self.parsed().map(|url| {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
        });
        WebhookChannel {
            server: server.unwrap_or_default(),
            template: self.template,
            secret_set: self.secret.is_some(),
            token_set: self.token.is_some(),
            ca_certificate_set: self.ca_certificate.is_some(),
        }
    }
}

impl Channel {
    /// A new channel, with what `set` says.
    pub(crate) fn new(name: &str, set: SetNotifyChannel) -> Result<Self, ApiError> {
        let object = object(name);
        let sender = match (&set.mail, &set.webhook) {
            (Some(_), None) => Sender::Mail(Mail {
                server: String::new(),
                port: usual_port(MailSecurity::Starttls),
                security: MailSecurity::Starttls,
                user: None,
                password: None,
                from: String::new(),
                to: Vec::new(),
                ca_certificate: None,
            }),
            (None, Some(_)) => Sender::Webhook(Webhook {
                url: Secret::new(""),
                template: WebhookTemplate::Generic,
                secret: None,
                token: None,
                ca_certificate: None,
            }),
            _ => {
                return Err(ApiError::invalid(
                    object,
                    "it must be either mail or a webhook",
                    "give the settings of one of them",
                ));
            }
        };
        Self { name: name.into(), sender }.with(set)
    }

    /// The channel after what `set` changes.
    pub(crate) fn with(&self, set: SetNotifyChannel) -> Result<Self, ApiError> {
        let mut next = self.clone();
        let object = object(&self.name);
        let other = |is: &str, next: &str| Err(ApiError::invalid(&*object, format!("it is {is}"), next));
        match (&mut next.sender, set.mail, set.webhook) {
            (Sender::Mail(_), _, Some(_)) => {
                return other("mail, and has no settings of a webhook", "give settings of mail");
            }
            (Sender::Webhook(_), Some(_), _) => {
                return other("a webhook, and has no settings of mail", "give settings of a webhook");
            }
            (Sender::Mail(mail), Some(set), None) => mail.apply(set),
            (Sender::Webhook(webhook), None, Some(set)) => webhook.apply(set),
            (_, None, None) => {}
        }
        next.check()?;
        Ok(next)
    }

    fn check(&self) -> Result<(), ApiError> {
        match &self.sender {
            Sender::Mail(mail) => mail.check(&object(&self.name)).map_err(|error| error.inside("mail")),
            Sender::Webhook(webhook) => webhook.check(&object(&self.name)).map_err(|error| error.inside("webhook")),
        }
    }

    /// By what it delivers.
    pub(crate) fn kind(&self) -> NotifyChannelKind {
        match self.sender {
            Sender::Mail(_) => NotifyChannelKind::Mail,
            Sender::Webhook(_) => NotifyChannelKind::Webhook,
        }
    }

    /// Its settings without their secrets.
    pub(crate) fn shown(&self) -> (Option<MailChannel>, Option<WebhookChannel>) {
        match &self.sender {
            Sender::Mail(mail) => (Some(mail.shown()), None),
            Sender::Webhook(webhook) => (None, Some(webhook.shown())),
        }
    }
}

/// A channel, as events name it.
pub(crate) fn reference(name: &str) -> ObjectRef {
    ObjectRef::named(ObjectKind::Channel, name)
}

/// How messages call a channel.
pub(crate) fn object(name: &str) -> String {
    reference(name).into()
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn short(text: &str) -> String {
    text.chars().take(80).map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

fn check_certificate(object: &str, pem: Option<&str>) -> Result<(), ApiError> {
    let Some(pem) = pem else { return Ok(()) };
    if pem.len() <= CERTIFICATE_BYTES && tls::authorities(pem).is_some() {
        return Ok(());
    }
    let next = "give the file of the authority's certificate with --ca-file";
    Err(ApiError::invalid(object, "its authority is no certificate in PEM", next).at("ca_certificate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(change: impl FnOnce(&mut SetMail)) -> Result<Channel, ApiError> {
        let mut set = SetMail {
            server: Some("mail.example.com".into()),
            from: Some("NAS <nas@example.com>".into()),
            to: Some(vec!["admin@example.com".into()]),
            ..SetMail::default()
        };
        change(&mut set);
        Channel::new("ops", SetNotifyChannel { mail: Some(set), webhook: None })
    }

    fn webhook(url: &str, change: impl FnOnce(&mut SetWebhook)) -> Result<Channel, ApiError> {
        let mut set = SetWebhook { url: Some(url.into()), ..SetWebhook::default() };
        change(&mut set);
        Channel::new("hook", SetNotifyChannel { mail: None, webhook: Some(set) })
    }

    #[test]
    fn mail_that_cannot_be_sent_is_refused_by_name() {
        let port = |channel: Channel| channel.shown().0.map(|mail| mail.port);
        assert_eq!(port(mail(|_| ()).unwrap()), Some(587));
        assert_eq!(port(mail(|set| set.security = Some(MailSecurity::Tls)).unwrap()), Some(465));
        assert_eq!(port(mail(|set| set.port = Some(2525)).unwrap()), Some(2525));
        mail(|set| set.server = Some("::1".into())).unwrap();
        type Change = fn(&mut SetMail);
        let refused: [(Change, &str, &str); 9] = [
            (|set| set.server = None, "server", "no mail server"),
            (|set| set.server = Some("mail example".into()), "server", "'mail example' is no mail server"),
            (|set| set.from = None, "from", "no sender"),
            (|set| set.to = Some(vec![]), "to", "0 recipients"),
            (|set| set.to = Some(vec!["a@b\r\nBcc: c@d".into()]), "to", "no mail address"),
            (|set| set.user = Some("u".into()), "password", "no password"),
            (|set| set.password = Some("p".into()), "user", "no user"),
            (
                |set| {
                    (set.user, set.password) = (Some("u".into()), Some("p".into()));
                    set.security = Some(MailSecurity::None);
                },
                "security",
                "unencrypted",
            ),
            (|set| set.ca_certificate = Some("none".into()), "ca_certificate", "no certificate"),
        ];
        for (change, field, reason) in refused {
            let error = mail(change).unwrap_err();
            assert_eq!(error.field, Some(format!("mail.{field}")));
            assert!(
                error.message.contains(reason) && error.object == "channel ops" && !error.next_action.is_empty(),
                "{error}"
            );
        }
    }

    #[test]
    fn a_url_that_is_refused_is_not_repeated() {
        webhook("https://hooks.example.com/T0/B0/secret-part", |_| ()).unwrap();
        for url in [
            "",
            "ftp://x/secret-part",
            "https://",
            "secret-part",
            "https://u:secret-part@x/",
            "https://x/\nsecret-part",
        ] {
            let error = webhook(url, |_| ()).unwrap_err();
            assert!(!error.to_string().contains("secret-part") && !error.next_action.is_empty(), "{url}: {error}");
        }
        let ntfy = |url| webhook(url, |set| set.template = Some(WebhookTemplate::Ntfy));
        assert!(ntfy("https://ntfy.example.com/alerts").is_ok() && ntfy("https://ntfy.example.com/").is_err());
    }

    #[test]
    fn what_is_shown_and_printed_holds_no_secret() {
        let hook = webhook("https://hooks.example.com:8443/T0/secret-part?key=secret-part", |set| {
            (set.secret, set.token) = (Some("secret-part".into()), Some("secret-part".into()));
        });
        let post = mail(|set| (set.user, set.password) = (Some("u".into()), Some("secret-part".into())));
        for channel in [hook.unwrap(), post.unwrap()] {
            let (mail, webhook) = channel.shown();
            let shown = serde_json::to_string(&(&mail, &webhook)).unwrap();
            assert!(!shown.contains("secret-part") && !format!("{channel:?}").contains("secret-part"), "{shown}");
            let server = webhook.map(|webhook| (webhook.server, webhook.secret_set, webhook.token_set));
            assert!(server.is_none_or(|server| server == ("https://hooks.example.com:8443".into(), true, true)));
            assert!(mail.is_none_or(|mail| mail.password_set));
            // What is stored holds them.
            assert!(serde_json::to_string(&channel).unwrap().contains("secret-part"));
        }
    }

    #[test]
    fn what_is_left_out_stays_and_what_is_empty_goes() {
        let first = mail(|set| (set.user, set.password) = (Some("u".into()), Some("p".into()))).unwrap();
        let set = |set: SetMail| first.with(SetNotifyChannel { mail: Some(set), webhook: None });
        assert_eq!(set(SetMail::default()).unwrap(), first);
        let moved = set(SetMail { security: Some(MailSecurity::Tls), ..SetMail::default() }).unwrap();
        assert_eq!(
            moved.shown().0.map(|mail| (mail.port, mail.password_set)),
            Some((465, true)),
            "the usual port goes along"
        );
        let open = set(SetMail { user: Some(String::new()), ..SetMail::default() }).unwrap();
        assert_eq!(
            open.shown().0.map(|mail| (mail.user, mail.password_set)),
            Some((None, false)),
            "no user, no password"
        );
        assert!(set(SetMail { password: Some(String::new()), ..SetMail::default() }).is_err());
        let error = first.with(SetNotifyChannel { mail: None, webhook: Some(SetWebhook::default()) }).unwrap_err();
        assert!(error.message.contains("it is mail"), "{error}");
    }
}
