//! Values as people write them: durations, rates, thresholds, words.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use holdfast_api::{HistoryKind, JobPriority};
use holdfast_model::{ByteSize, Media, RetirePolicy, Usage};

/// Bytes a second at most; 0 for no cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap(pub u64);

/// Thresholds of alerts, in percent; as by default if none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertPercents(pub Option<Vec<u8>>);

/// When initiators are warned that a LUN runs out of room, in percent of that; as its pool's alerts say if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LunAlertPercent(pub Option<u8>);

/// A time that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// As by default.
    Default,
    /// So many seconds; 0 for never.
    Seconds(u64),
}

/// For how long a disk may be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// As the daemon has it.
    Default,
    /// So many seconds.
    Seconds(u32),
}

/// How often something is done by itself; never if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every(pub Option<Duration>);

/// Within what time processors are to wake; any if none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeWithin(pub Option<Duration>);

/// A duration as people write it: `50us`, `2ms`, `1s`, `12h`, `7d`, `0`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || {
        format!("'{text}' is not a duration: write a whole number with us, ms, s, m, h or d, for example 50us or 7d")
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs).ok_or_else(wrong);
    match unit.trim() {
        "us" | "µs" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(60 * 60),
        "d" => seconds(24 * 60 * 60),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err(wrong()),
    }
}

pub fn parse_history_kind(text: &str) -> Result<HistoryKind, String> {
    use HistoryKind::{Disk, Export, Lun, Pool, Server, Space, Volume};
    let kind =
        [Server, Pool, Space, Export, Lun, Volume, Disk].into_iter().find(|kind| holdfast_api::word(kind) == text);
    kind.ok_or_else(|| {
        format!("'{text}' is not a kind of object: choose server, pool, space, export, lun, volume or disk")
    })
}

/// An address to listen on, which may be a name.
pub fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &str| {
        format!("'{text}' is not an address to listen on ({why}): write HOST:PORT, for example 0.0.0.0:3260")
    };
    let mut found = text.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("nothing is known of it"))
}

pub fn parse_wake_within(text: &str) -> Result<WakeWithin, String> {
    match text {
        "any" => Ok(WakeWithin(None)),
        _ => parse_duration(text).map(|time| WakeWithin(Some(time))).map_err(|error| format!("{error}, or any")),
    }
}

pub fn parse_every(text: &str) -> Result<Every, String> {
    match text {
        "never" => Ok(Every(None)),
        _ => match parse_duration(text)? {
            Duration::ZERO => Err("write a time above 0, or never".into()),
            every => Ok(Every(Some(every))),
        },
    }
}

pub fn parse_chosen(text: &str) -> Result<Chosen, String> {
    match text {
        "never" => Ok(Chosen::Seconds(0)),
        "default" => Ok(Chosen::Default),
        _ => match parse_duration(text)? {
            time if time.subsec_nanos() > 0 || time.is_zero() => {
                Err("write whole seconds above 0, never, or default".into())
            }
            time => Ok(Chosen::Seconds(time.as_secs())),
        },
    }
}

pub fn parse_alerts(text: &str) -> Result<AlertPercents, String> {
    match text {
        "none" => return Ok(AlertPercents(Some(Vec::new()))),
        "default" => return Ok(AlertPercents(None)),
        _ => {}
    }
    let percents = text.split(',').map(|part| part.trim().trim_end_matches('%').parse::<u8>());
    let percents: Result<Vec<u8>, _> = percents.collect();
    let wrong = |_| format!("'{text}' is not a list of percentages: write for example 70,85,95, none, or default");
    percents.map(|percents| AlertPercents(Some(percents))).map_err(wrong)
}

pub fn parse_lun_alert(text: &str) -> Result<LunAlertPercent, String> {
    let wrong = || format!("'{text}' is no percentage: write for example 80, none, or default");
    match text {
        "none" => Ok(LunAlertPercent(Some(0))),
        "default" => Ok(LunAlertPercent(None)),
        _ => match text.trim_end_matches('%').parse() {
            Ok(percent @ 1..=100) => Ok(LunAlertPercent(Some(percent))),
            _ => Err(wrong()),
        },
    }
}

pub fn parse_cap(text: &str) -> Result<Cap, String> {
    if text == "none" {
        return Ok(Cap(0));
    }
    let size = text.strip_suffix("/s").unwrap_or(text).parse::<ByteSize>().map_err(|error| error.to_string())?;
    Ok(Cap(size.bytes()))
}

pub(super) fn parse_word<T: serde::de::DeserializeOwned>(text: &str, words: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.into())).map_err(|_| format!("choose one of {words}"))
}

pub fn parse_media(text: &str) -> Result<Media, String> {
    match text {
        "hdd" | "ssd" => parse_word(text, ""),
        _ => Err("choose one of hdd, ssd".into()),
    }
}

pub fn parse_usage(text: &str) -> Result<Usage, String> {
    parse_word(text, "auto, manual, hot-spare, journal, retired")
}

pub fn parse_retire_policy(text: &str) -> Result<RetirePolicy, String> {
    parse_word(text, "auto, always, never")
}

pub fn parse_grace(text: &str) -> Result<Grace, String> {
    if text == "default" {
        return Ok(Grace::Default);
    }
    let grace = parse_duration(text)?;
    match u32::try_from(grace.as_secs()) {
        Ok(seconds) if grace.subsec_nanos() == 0 => Ok(Grace::Seconds(seconds)),
        _ => Err("write whole seconds, for example 5m, or default".into()),
    }
}

pub fn parse_priority(text: &str) -> Result<JobPriority, String> {
    parse_word(text, "low, normal, high")
}
