//! The commands about notifications.
//!
//! Invariant: passwords, secrets and tokens come from a file, the terminal or standard input, never from the command
//! line.

use std::path::Path;

use anyhow::{Context, Result, bail};
use holdfast_api::{
    Changed, CreateNotifyChannel, CreateNotifyRule, NotifyChannel, NotifyChannelChanged, NotifyChannelKind,
    NotifyChannelTested, NotifyDelivery, NotifyRule, NotifyRuleChanged, SetMail, SetNotifyChannel, SetNotifyRule,
    SetWebhook,
};

use crate::arguments::{AddChannel, ChannelCommand, MailOptions, NotifyCommand, RuleCommand, WebhookOptions};
use crate::client::{Client, segment};
use crate::login::password;
use crate::output::{print, print_json, print_line};
use crate::remote::{tell, tell_gone};

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("file {}: it cannot be read", path.display()))
}

/// What stands in a file, without the end of its line.
fn secret_in(path: &Path) -> Result<String> {
    Ok(read(path)?.trim_end_matches(['\r', '\n']).to_owned())
}

/// A secret by its file, or by asking for it.
fn secret(what: &str, file: Option<&Path>, asks: bool) -> Result<Option<String>> {
    match file {
        Some(path) => secret_in(path).map(Some),
        None if asks => password(&format!("{what}: ")).map(Some),
        None => Ok(None),
    }
}

fn mail(name: &str, options: MailOptions, asks: bool, ca_certificate: Option<String>) -> Result<SetMail> {
    let MailOptions { host, port, security, user, password_file, from, to } = options;
    let password =
        secret(&format!("Password of channel {name}"), password_file.as_deref(), asks && password_file.is_none())?;
    Ok(SetMail {
        server: host,
        port,
        security,
        user,
        password,
        from,
        to: (!to.is_empty()).then_some(to),
        ca_certificate,
    })
}

fn webhook(name: &str, options: WebhookOptions, asks: bool, ca_certificate: Option<String>) -> Result<SetWebhook> {
    let WebhookOptions { url, url_file, template, secret: asks_secret, secret_file, token: asks_token, token_file } =
        options;
    let url = match url {
        Some(url) => Some(url),
        None => secret(&format!("URL of channel {name}"), url_file.as_deref(), asks)?,
    };
    let key = secret(&format!("Secret of channel {name}"), secret_file.as_deref(), asks_secret)?;
    let token = secret(&format!("Token of channel {name}"), token_file.as_deref(), asks_token)?;
    Ok(SetWebhook { url, template, secret: key, token, ca_certificate })
}

fn channel_path(name: &str) -> String {
    format!("/notifications/channels/{}", segment(name))
}

fn rule_path(name: &str) -> String {
    format!("/notifications/rules/{}", segment(name))
}

/// Does a command about notifications.
pub async fn notify_command(client: &Client, json: bool, command: NotifyCommand) -> Result<()> {
    match command {
        NotifyCommand::Channel(command) => channel_command(client, json, command).await,
        NotifyCommand::Rule(command) => rule_command(client, json, command).await,
        NotifyCommand::Test { channel } => {
            let path = format!("{}/test", channel_path(&channel));
            let tested: NotifyChannelTested = client.post(&path, &()).await?;
            if !tested.delivered {
                let next = format!("check its settings with 'holdfast notify channel show {channel}'");
                bail!("channel {channel}: the test was not delivered: {}; next: {next}", tested.message);
            }
            if json {
                print_json(&tested)
            } else {
                print_line(&format!("channel {channel} delivers: {}", tested.message))
            }
        }
        NotifyCommand::Deliveries => {
            print(json, &client.get::<Vec<NotifyDelivery>>("/notifications/deliveries").await?)
        }
    }
}

async fn channel_command(client: &Client, json: bool, command: ChannelCommand) -> Result<()> {
    let pem = |file: Option<&Path>| file.map(read).transpose();
    match command {
        ChannelCommand::Add(AddChannel::Mail { name, mail: options, ca_file }) => {
            let asks = options.user.is_some();
            let mail = Some(mail(&name, *options, asks, pem(ca_file.as_deref())?)?);
            add(client, json, CreateNotifyChannel { name, mail, webhook: None }).await
        }
        ChannelCommand::Add(AddChannel::Webhook { name, webhook: options, ca_file }) => {
            let webhook = Some(webhook(&name, *options, true, pem(ca_file.as_deref())?)?);
            add(client, json, CreateNotifyChannel { name, mail: None, webhook }).await
        }
        ChannelCommand::List => print(json, &client.get::<Vec<NotifyChannel>>("/notifications/channels").await?),
        ChannelCommand::Show { name } => print(json, &client.get::<NotifyChannel>(&channel_path(&name)).await?),
        ChannelCommand::Set {
            name,
            mail: of_mail,
            password,
            no_login,
            webhook: of_webhook,
            no_secret,
            no_token,
            ca_file,
            no_ca,
        } => {
            let there: NotifyChannel = client.get(&channel_path(&name)).await?;
            let ca = if no_ca { Some(String::new()) } else { pem(ca_file.as_deref())? };
            let for_mail = of_mail.is_any() || password || no_login;
            let for_webhook = of_webhook.is_any() || no_secret || no_token;
            if !for_mail && !for_webhook && ca.is_none() {
                bail!(
                    "channel {name}: nothing is to be changed; next: name an option, see 'holdfast notify channel set --help'"
                );
            }
            let request = match there.kind {
                NotifyChannelKind::Mail if for_webhook => {
                    bail!("channel {name}: it is mail, and has no options of a webhook; next: leave these out")
                }
                NotifyChannelKind::Webhook if for_mail => {
                    bail!("channel {name}: it is a webhook, and has no options of mail; next: leave these out")
                }
                NotifyChannelKind::Mail => {
                    let mut set = mail(&name, *of_mail, password, ca)?;
                    if no_login {
                        (set.user, set.password) = (Some(String::new()), Some(String::new()));
                    }
                    SetNotifyChannel { mail: Some(set), webhook: None }
                }
                NotifyChannelKind::Webhook => {
                    let mut set = webhook(&name, *of_webhook, false, ca)?;
                    let gone = |gone: bool, given: Option<String>| if gone { Some(String::new()) } else { given };
                    (set.secret, set.token) = (gone(no_secret, set.secret), gone(no_token, set.token));
                    SetNotifyChannel { mail: None, webhook: Some(set) }
                }
            };
            let answer: NotifyChannelChanged = client.patch(&channel_path(&name), &request).await?;
            tell(json, &answer, answer.changed, format!("channel {name} is set"))
        }
        ChannelCommand::Remove { name } => tell_gone(json, &client.delete::<Changed>(&channel_path(&name)).await?),
    }
}

async fn add(client: &Client, json: bool, request: CreateNotifyChannel) -> Result<()> {
    let name = request.name.clone();
    let answer: NotifyChannelChanged = client.post("/notifications/channels", &request).await?;
    tell(json, &answer, answer.changed, format!("channel {name} is added; try it with 'holdfast notify test {name}'"))
}

async fn rule_command(client: &Client, json: bool, command: RuleCommand) -> Result<()> {
    match command {
        RuleCommand::Add { name, channel, options } => {
            let request = CreateNotifyRule {
                name: name.clone(),
                channel,
                severity: options.severity,
                objects: options.object,
                digest_seconds: options.digest.unwrap_or(0),
                quiet: options.quiet.filter(|quiet| !quiet.is_empty()),
                errors_pass_quiet: options.errors_pass_quiet,
                enabled: None,
            };
            let answer: NotifyRuleChanged = client.post("/notifications/rules", &request).await?;
            tell(json, &answer, answer.changed, format!("rule {name} sends by channel {}", answer.rule.channel))
        }
        RuleCommand::List => print(json, &client.get::<Vec<NotifyRule>>("/notifications/rules").await?),
        RuleCommand::Show { name } => print(json, &client.get::<NotifyRule>(&rule_path(&name)).await?),
        RuleCommand::Set { name, channel, options, all_objects, enable, disable } => {
            let objects = (all_objects || !options.object.is_empty()).then_some(options.object);
            let request = SetNotifyRule {
                channel,
                severity: options.severity,
                objects,
                digest_seconds: options.digest,
                quiet: options.quiet,
                errors_pass_quiet: options.errors_pass_quiet,
                enabled: (enable || disable).then_some(enable),
            };
            if request == SetNotifyRule::default() {
                bail!(
                    "rule {name}: nothing is to be changed; next: name an option, see 'holdfast notify rule set --help'"
                );
            }
            let answer: NotifyRuleChanged = client.patch(&rule_path(&name), &request).await?;
            tell(json, &answer, answer.changed, format!("rule {name} is set"))
        }
        RuleCommand::Remove { name } => tell_gone(json, &client.delete::<Changed>(&rule_path(&name)).await?),
    }
}
