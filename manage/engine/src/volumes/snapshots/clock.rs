//! The times at which rules make snapshots: at multiples of their interval in UTC, or at a time of day of the server.
//!
//! ```text
//!   every 1 d at 02:30    ├── 23 h ──┤── 24 h ──┤── 25 h ──┤     a day is as long as the server's clocks have it
//! ```
//!
//! Invariant: intervals are numbered in order and leave no gap, also where clocks are put forward or back: at any time a
//! rule is in exactly one, and a snapshot is made in each.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::schedule::Rule;

pub(super) const DAY_SECONDS: u64 = 24 * 3600;
/// Minutes of a day.
pub(super) const DAY_MINUTES: u16 = 24 * 60;

/// The time zone of the server.
pub(super) fn server_zone() -> TimeZone {
    TimeZone::system()
}

/// What people call a time zone.
pub(super) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("UTC").to_owned()
}

/// When the day of a number begins for a rule: at its time of day, or as soon after it as there is one.
fn day_begin(day: i64, minutes: u16, zone: &TimeZone) -> Option<Timestamp> {
    let midnight = Timestamp::from_second(day.checked_mul(DAY_SECONDS as i64)?).ok()?;
    let time = Time::new((minutes / 60) as i8, (minutes % 60) as i8, 0, 0).ok()?;
    let at = midnight.to_zoned(TimeZone::UTC).date().to_datetime(time);
    Some(at.to_zoned(zone.clone()).ok()?.timestamp())
}

/// The number of the day that a time is in.
fn day_at(at: Timestamp, minutes: u16, zone: &TimeZone) -> i64 {
    let date = at.to_zoned(zone.clone()).date();
    let midnight = date.to_zoned(TimeZone::UTC).map_or(at, |midnight| midnight.timestamp());
    let day = midnight.as_second().div_euclid(DAY_SECONDS as i64);
    let is_before = day_begin(day, minutes, zone).is_some_and(|begin| at < begin);
    if is_before { day - 1 } else { day }
}

/// The number of the interval of a rule at a time.
pub(super) fn interval_at(rule: Rule, at: Timestamp, zone: &TimeZone) -> i64 {
    match rule.at_minutes {
        Some(minutes) => day_at(at, minutes, zone).div_euclid((rule.every_seconds / DAY_SECONDS).max(1) as i64),
        None => at.as_second().div_euclid(rule.every_seconds as i64),
    }
}

/// When the interval of a number begins, where that is a time.
pub(super) fn begin_of(rule: Rule, number: i64, zone: &TimeZone) -> Option<Timestamp> {
    match rule.at_minutes {
        Some(minutes) => {
            day_begin(number.checked_mul((rule.every_seconds / DAY_SECONDS).max(1) as i64)?, minutes, zone)
        }
        None => Timestamp::from_second(number.checked_mul(rule.every_seconds as i64)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(days: u64, at_minutes: Option<u16>) -> Rule {
        Rule { every_seconds: days * DAY_SECONDS, keep: 7, at_minutes }
    }

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_day_begins_at_its_time_where_the_server_is() {
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        let daily = rule(1, Some(3 * 60));
        let number = |text: &str| interval_at(daily, time(text), &zone);
        let summer = number("2026-07-01T12:00:00Z");
        assert_eq!(begin_of(daily, summer + 1, &zone), Some(time("2026-07-02T01:00:00Z")), "03:00 in summer");
        assert_eq!((number("2026-07-02T00:59:59Z"), number("2026-07-02T01:00:00Z")), (summer, summer + 1));
        let winter = number("2026-12-01T12:00:00Z");
        assert_eq!(begin_of(daily, winter + 1, &zone), Some(time("2026-12-02T02:00:00Z")), "03:00 in winter");
        let utc = rule(1, None);
        assert_eq!(
            begin_of(utc, interval_at(utc, time("2026-07-01T12:00:00Z"), &zone), &zone),
            Some(time("2026-07-01T00:00:00Z"))
        );
    }

    #[test]
    fn each_interval_comes_once_also_where_clocks_are_put_forward_or_back() {
        for name in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
            let zone = TimeZone::get(name).expect("a zone");
            for minutes in [0, 90, 150, DAY_MINUTES - 1] {
                for days in [1, 7] {
                    let rule = rule(days, Some(minutes));
                    let mut last = None;
                    // A year, half an hour at a time, with all changes of clocks.
                    for half_hour in 0..(366 * 48) {
                        let at = Timestamp::from_second(1_767_225_600 + half_hour * 1800).expect("a time");
                        let number = interval_at(rule, at, &zone);
                        assert!(last.is_none_or(|last| number == last || number == last + 1), "{name} {minutes}: {at}");
                        let (begin, next) = (begin_of(rule, number, &zone), begin_of(rule, number + 1, &zone));
                        assert!(begin.expect("a time") <= at && at < next.expect("a time"), "{name} {minutes}: {at}");
                        last = Some(number);
                    }
                }
            }
        }
    }
}
