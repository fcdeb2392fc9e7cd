//! What administrators change: channels, rules, tests.
//!
//! Invariants: a change is in the store before it counts; a rule always names a channel that is there; one that is
//! repeated says that it changed nothing.

use std::time::Duration;

use holdfast_api::{
    ApiError, Changed, Code, CreateNotifyChannel, CreateNotifyRule, NotifyChannel, NotifyChannelChanged,
    NotifyChannelTested, NotifyDelivery, NotifyDeliveryState, NotifyRule, NotifyRuleChanged, SetNotifyChannel,
    SetNotifyRule,
};
use holdfast_model::Name;

use crate::channel::{self, Channel};
use crate::desk::{Desk, Plan};
use crate::message::Message;
use crate::rule::{self, Rule};
use crate::send::{Identity, send};
use crate::service::{ApiResult, Notifications, PLAN, now_ms, time};
use crate::work::{Ended, Waiting};

/// Channels at most.
const CHANNELS: usize = 64;
/// Rules at most.
const RULES: usize = 256;
/// How long a test waits for the other side.
const TEST_PATIENCE: Duration = Duration::from_secs(10);

fn not_found(object: String, list: &str) -> ApiError {
    ApiError::new(
        Code::NotFound,
        object.clone(),
        format!("{object} does not exist"),
        format!("see 'holdfast notify {list} list'"),
    )
}

fn check_name(object: String, name: &str) -> ApiResult<()> {
    let checked = name.parse::<Name>();
    checked.map(drop).map_err(|error| ApiError::invalid(object, error.to_string(), "choose another name").at("name"))
}

fn shown_channel(desk: &Desk, channel: &Channel) -> NotifyChannel {
    let (mail, webhook) = channel.shown();
    NotifyChannel {
        name: channel.name.clone(),
        kind: channel.kind(),
        mail,
        webhook,
        trouble: desk.work.troubles.get(&channel.name).cloned(),
        queued: desk.work.waiting_for(&channel.name) as u32,
        rules: desk.plan.rules.values().filter(|rule| rule.enabled && rule.channel == channel.name).count() as u32,
    }
}

fn shown_rule(desk: &Desk, rule: &Rule) -> NotifyRule {
    rule.shown(desk.work.batches.get(&rule.name).map_or(0, |batch| count(batch.events())))
}

fn count(events: u64) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}

fn shown_waiting(waiting: &Waiting) -> NotifyDelivery {
    NotifyDelivery {
        id: waiting.id,
        channel: waiting.channel.clone(),
        rule: Some(waiting.rule.clone()),
        state: NotifyDeliveryState::Queued,
        subject: waiting.message.subject.clone(),
        events: count(waiting.message.events()),
        created: time(waiting.created_ms),
        attempts: waiting.attempts,
        next_attempt: (waiting.next_ms > now_ms()).then(|| time(waiting.next_ms)),
        ended: None,
        error: waiting.error.clone(),
    }
}

fn shown_ended(ended: &Ended) -> NotifyDelivery {
    NotifyDelivery {
        id: ended.id,
        channel: ended.channel.clone(),
        rule: ended.rule.clone(),
        state: ended.state,
        subject: ended.subject.clone(),
        events: count(ended.events),
        created: time(ended.created_ms),
        attempts: ended.attempts,
        next_attempt: None,
        ended: Some(time(ended.ended_ms)),
        error: ended.error.clone(),
    }
}

impl Notifications {
    /// Writes the plan that `change` makes of the present one, and works by it from then on. The caller holds
    /// `changing`.
    async fn replan(&self, change: impl FnOnce(&mut Plan)) -> ApiResult<()> {
        let mut next = self.desk().plan.clone();
        change(&mut next);
        let text = serde_json::to_string(&next)
            .map_err(|error| ApiError::new(Code::Failed, "notifications", error.to_string(), "see the daemon's log"))?;
        self.stored(move |store| store.set_document(PLAN, &text)).await?;
        let mut desk = self.desk();
        desk.plan = next;
        desk.maintain();
        Ok(())
    }

    async fn changed(&self) {
        self.keep().await;
        self.wake();
    }

    /// All channels.
    pub fn channels(&self) -> Vec<NotifyChannel> {
        let desk = self.desk();
        desk.plan.channels.values().map(|channel| shown_channel(&desk, channel)).collect()
    }

    fn find_channel(&self, name: &str) -> ApiResult<Channel> {
        let found = self.desk().plan.channels.get(name).cloned();
        found.ok_or_else(|| not_found(channel::object(name), "channel"))
    }

    /// A channel.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn channel(&self, name: &str) -> ApiResult<NotifyChannel> {
        let channel = self.find_channel(name)?;
        Ok(shown_channel(&self.desk(), &channel))
    }

    /// Makes a channel.
    ///
    /// # Errors
    /// If it cannot be, or already exists with other settings.
    pub async fn create_channel(&self, request: CreateNotifyChannel) -> ApiResult<NotifyChannelChanged> {
        let CreateNotifyChannel { name, mail, webhook } = request;
        let object = channel::object(&name);
        check_name("channel".into(), &name)?;
        let made = Channel::new(&name, SetNotifyChannel { mail, webhook })?;
        let _changing = self.changing.lock().await;
        let (there, channels) = {
            let desk = self.desk();
            (desk.plan.channels.get(&name).cloned(), desk.plan.channels.len())
        };
        let changed = match there {
            Some(there) if there == made => false,
            Some(_) => {
                let message = format!("{object} already exists with other settings");
                return Err(ApiError::new(
                    Code::Exists,
                    object,
                    message,
                    "change it with 'holdfast notify channel set'",
                )
                .at("name"));
            }
            None if channels >= CHANNELS => {
                let message = format!("there are {CHANNELS} channels already");
                return Err(ApiError::new(Code::Conflict, object, message, "remove one that is not needed"));
            }
            None => {
                self.replan(|plan| _ = plan.channels.insert(name.clone(), made)).await?;
                true
            }
        };
        Ok(NotifyChannelChanged { changed, channel: self.channel(&name)? })
    }

    /// Changes a channel. What waits for it is tried at once.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be so.
    pub async fn set_channel(&self, name: &str, request: SetNotifyChannel) -> ApiResult<NotifyChannelChanged> {
        let _changing = self.changing.lock().await;
        let there = self.find_channel(name)?;
        let next = there.with(request)?;
        let changed = next != there;
        if changed {
            self.replan(|plan| _ = plan.channels.insert(name.into(), next)).await?;
            self.desk().hurry(name, now_ms());
            self.changed().await;
        }
        Ok(NotifyChannelChanged { changed, channel: self.channel(name)? })
    }

    /// Removes a channel with what waits for it.
    ///
    /// # Errors
    /// If a rule names it.
    pub async fn remove_channel(&self, name: &str) -> ApiResult<Changed> {
        let _changing = self.changing.lock().await;
        let object = channel::object(name);
        let (there, rules) = {
            let desk = self.desk();
            let rules = desk.plan.rules.values().filter(|rule| rule.channel == name).map(|rule| rule.name.clone());
            (desk.plan.channels.contains_key(name), rules.collect::<Vec<_>>())
        };
        if !there {
            return Ok(Changed { changed: false, message: format!("{object} does not exist") });
        }
        if !rules.is_empty() {
            let message =
                format!("{object} is used by {} {}", if rules.len() == 1 { "rule" } else { "rules" }, rules.join(", "));
            let next = "remove these rules, or give them another channel with 'holdfast notify rule set'";
            return Err(ApiError::new(Code::Conflict, object, message, next));
        }
        self.replan(|plan| _ = plan.channels.remove(name)).await?;
        self.changed().await;
        Ok(Changed { changed: true, message: format!("{object} is removed") })
    }

    /// Sends a test message and waits for what becomes of it.
    ///
    /// # Errors
    /// If there is no channel of this name, or several tests are under way.
    pub async fn test_channel(&self, name: &str) -> ApiResult<NotifyChannelTested> {
        let channel = self.find_channel(name)?;
        let busy = |_| {
            ApiError::new(
                Code::Conflict,
                channel::object(name),
                "other tests are under way",
                "try again in a few seconds",
            )
        };
        let _turn = self.tests.try_acquire().map_err(busy)?;
        let origin = self.origin();
        let (created_ms, id) = (now_ms(), self.desk().work.number());
        let message = Message::test(&origin, name, &time(created_ms));
        let result = send(&channel, &message, &Identity { id, created_ms }, created_ms, TEST_PATIENCE).await;
        let delivered = result.is_ok();
        let ended = Ended {
            id,
            channel: name.into(),
            rule: None,
            state: if delivered { NotifyDeliveryState::Delivered } else { NotifyDeliveryState::Failed },
            subject: message.subject,
            events: 0,
            created_ms,
            attempts: 1,
            ended_ms: now_ms(),
            error: result.as_ref().err().map(|failure| failure.message.clone()),
        };
        {
            let mut desk = self.desk();
            desk.work.end(ended.clone());
            match &result {
                Ok(_) => {
                    desk.judge(name, None);
                    desk.hurry(name, now_ms());
                }
                Err(failure) => desk.note_failed_test(name, &failure.message),
            }
        }
        self.changed().await;
        self.audit(&ended).await;
        let message = result.unwrap_or_else(|failure| failure.message);
        Ok(NotifyChannelTested { delivered, message })
    }

    /// All rules.
    pub fn rules(&self) -> Vec<NotifyRule> {
        let desk = self.desk();
        desk.plan.rules.values().map(|rule| shown_rule(&desk, rule)).collect()
    }

    fn find_rule(&self, name: &str) -> ApiResult<Rule> {
        let found = self.desk().plan.rules.get(name).cloned();
        found.ok_or_else(|| not_found(rule::object(name), "rule"))
    }

    /// A rule.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn rule(&self, name: &str) -> ApiResult<NotifyRule> {
        let rule = self.find_rule(name)?;
        Ok(shown_rule(&self.desk(), &rule))
    }

    fn check_channel_of(&self, rule: &Rule) -> ApiResult<()> {
        if self.desk().plan.channels.contains_key(&rule.channel) {
            return Ok(());
        }
        let shown: String = rule.channel.chars().filter(|character| !character.is_control()).take(80).collect();
        let message = format!("there is no channel '{shown}'");
        Err(ApiError::invalid(rule::object(&rule.name), message, "choose one of 'holdfast notify channel list'")
            .at("channel"))
    }

    /// Makes a rule.
    ///
    /// # Errors
    /// If it cannot be, or already exists with other settings.
    pub async fn create_rule(&self, request: CreateNotifyRule) -> ApiResult<NotifyRuleChanged> {
        check_name("rule".into(), &request.name)?;
        let made = Rule::new(request)?;
        let name = made.name.clone();
        let object = rule::object(&name);
        let _changing = self.changing.lock().await;
        self.check_channel_of(&made)?;
        let (there, rules) = {
            let desk = self.desk();
            (desk.plan.rules.get(&name).cloned(), desk.plan.rules.len())
        };
        let changed = match there {
            Some(there) if there == made => false,
            Some(_) => {
                let message = format!("{object} already exists with other settings");
                return Err(ApiError::new(Code::Exists, object, message, "change it with 'holdfast notify rule set'")
                    .at("name"));
            }
            None if rules >= RULES => {
                let message = format!("there are {RULES} rules already");
                return Err(ApiError::new(Code::Conflict, object, message, "remove one that is not needed"));
            }
            None => {
                // It is for what happens from now on: what was heard so far is written down first.
                self.keep().await;
                self.replan(|plan| _ = plan.rules.insert(name.clone(), made)).await?;
                true
            }
        };
        Ok(NotifyRuleChanged { changed, rule: self.rule(&name)? })
    }

    /// Changes a rule, also for what it has collected.
    ///
    /// # Errors
    /// If there is none of this name, or it cannot be so.
    pub async fn set_rule(&self, name: &str, request: SetNotifyRule) -> ApiResult<NotifyRuleChanged> {
        let _changing = self.changing.lock().await;
        let there = self.find_rule(name)?;
        let next = there.with(request)?;
        self.check_channel_of(&next)?;
        let changed = next != there;
        if changed {
            self.replan(|plan| _ = plan.rules.insert(name.into(), next)).await?;
            self.desk().shorten(name, now_ms());
            self.changed().await;
        }
        Ok(NotifyRuleChanged { changed, rule: self.rule(name)? })
    }

    /// Removes a rule with what it has collected.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub async fn remove_rule(&self, name: &str) -> ApiResult<Changed> {
        let _changing = self.changing.lock().await;
        let object = rule::object(name);
        if self.find_rule(name).is_err() {
            return Ok(Changed { changed: false, message: format!("{object} does not exist") });
        }
        self.replan(|plan| _ = plan.rules.remove(name)).await?;
        self.changed().await;
        Ok(Changed { changed: true, message: format!("{object} is removed") })
    }

    /// Messages that wait, and the last that were delivered or given up, in the order in which they were made.
    pub fn deliveries(&self) -> Vec<NotifyDelivery> {
        let desk = self.desk();
        let ended = desk.work.ended.iter().map(shown_ended);
        let mut all: Vec<NotifyDelivery> = ended.chain(desk.work.waiting.iter().map(shown_waiting)).collect();
        all.sort_by_key(|delivery| delivery.id);
        all
    }
}
