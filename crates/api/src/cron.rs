//! Schedules as cron has them: five fields, or a word such as `@daily`, and the moments they mean in a time zone.
//!
//! Read by the rules of CronJob and by its controller. The grammar is that of the library which Kubernetes uses: `?` is `*`, names of
//! months and days, steps, `@every 1h30m`, a zone in front (`TZ=Europe/Berlin`). A time that the clocks skip does not happen; one
//! that they show twice happens twice.

use crate::go_duration;
use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time},
    tz::{AmbiguousOffset, TimeZone},
};

/// When something is due.
#[derive(Clone, Debug)]
pub struct Schedule {
    rule: Rule,
    /// The zone in front of it, if there is one.
    zone: Option<TimeZone>,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Every(SignedDuration),
    At(Fields),
}

/// A bit per value.
#[derive(Clone, Debug, PartialEq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both kinds of days have to fit: one of them says nothing. Otherwise one that fits is enough.
    both_days: bool,
}

/// Beyond this nothing is looked for: 30 February never comes.
const YEARS: i16 = 5;
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The time zone of this name, or what is wrong with it.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    let is_part = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if name.is_empty() {
        return Err("must be a time zone, or absent".to_owned());
    }
    if name.eq_ignore_ascii_case("local") {
        return Err("must name a time zone of https://www.iana.org/time-zones".to_owned());
    }
    if !name.split('/').all(is_part) {
        return Err(format!("unknown time zone {name}"));
    }
    // Names are those of files, in their case.
    let found = if name == "UTC" { Ok(TimeZone::UTC) } else { TimeZone::get(name) };
    match found {
        Ok(zone) if name == "UTC" || zone.iana_name() == Some(name) => Ok(zone),
        _ => Err(format!("unknown time zone {name}")),
    }
}

impl Schedule {
    /// Reads a schedule, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut text = text;
        let mut own = None;
        if let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, rest) = rest.split_once(' ').ok_or_else(|| format!("{text:?} is a zone without a schedule"))?;
            own = Some(zone(name)?);
            text = rest.trim();
        }
        let rule = match text.strip_prefix('@') {
            Some(word) => descriptor(word)?,
            None => Rule::At(fields(text)?),
        };
        Ok(Self { rule, zone: own })
    }

    /// The first moment after `after`; none if there is none within some years. `zone` counts unless the schedule has its own.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.rule {
            Rule::Every(delay) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*delay).ok(),
            Rule::At(fields) => fields.next(after, self.zone.as_ref().unwrap_or(zone)),
        }
    }
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = Timestamp::from_second((after.as_second().div_euclid(60) + 1) * 60).ok()?;
        let civil = zone.to_datetime(start);
        // Clocks go back by three hours at most; what was shown before that is over.
        let from = civil.checked_sub(SignedDuration::from_hours(4)).ok()?;
        let mut day = from.date();
        while day.year() <= civil.year() + YEARS {
            if self.has_day(day) {
                let floor = if day == from.date() { from.time() } else { Time::midnight() };
                if let Some(found) = self.in_day(day, floor, start, zone) {
                    return Some(found);
                }
            } else if self.months & (1 << day.month()) == 0 {
                day = day.last_of_month();
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn has_day(&self, day: Date) -> bool {
        let of_month = self.days & (1 << day.day()) != 0;
        let of_week = self.weekdays & (1 << day.weekday().to_sunday_zero_offset()) != 0;
        let fits = if self.both_days { of_month && of_week } else { of_month || of_week };
        fits && self.months & (1 << day.month()) != 0
    }

    /// The first moment of a day from `start` on.
    fn in_day(&self, day: Date, floor: Time, start: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut again: Option<Timestamp> = None;
        for hour in (floor.hour()..24).filter(|hour| self.hours & (1 << hour) != 0) {
            for minute in (0..60).filter(|minute| self.minutes & (1 << minute) != 0) {
                let shown = day.at(hour, minute, 0, 0);
                let (first, second) = match zone.to_ambiguous_timestamp(shown).offset() {
                    AmbiguousOffset::Unambiguous { offset } => (offset.to_timestamp(shown).ok(), None),
                    AmbiguousOffset::Fold { before, after } => {
                        (before.to_timestamp(shown).ok(), after.to_timestamp(shown).ok())
                    }
                    AmbiguousOffset::Gap { .. } => (None, None),
                };
                if let Some(first) = first.filter(|first| *first >= start) {
                    return Some(again.map_or(first, |again| again.min(first)));
                }
                // Shown for the second time: later than whatever is shown for the first time this day, unless that is over.
                again = again.or_else(|| second.filter(|second| *second >= start));
            }
        }
        again
    }
}

fn descriptor(word: &str) -> Result<Rule, String> {
    let fixed = |text: &str| fields(text).map(Rule::At);
    match word {
        "yearly" | "annually" => fixed("0 0 1 1 *"),
        "monthly" => fixed("0 0 1 * *"),
        "weekly" => fixed("0 0 * * 0"),
        "daily" | "midnight" => fixed("0 0 * * *"),
        "hourly" => fixed("0 * * * *"),
        _ => {
            let every = word.strip_prefix("every ").and_then(go_duration::parse);
            let delay = every.ok_or_else(|| format!("unknown word @{word}"))?;
            let seconds = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
            Ok(Rule::Every(SignedDuration::from_secs(seconds.max(1))))
        }
    }
}

fn fields(text: &str) -> Result<Fields, String> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts[..] else {
        return Err(format!("expected 5 fields, found {}: {text:?}", parts.len()));
    };
    let (minutes, _) = field(minute, 0, 59, &[])?;
    let (hours, _) = field(hour, 0, 23, &[])?;
    let (days, any_day) = field(day, 1, 31, &[])?;
    let (months, _) = field(month, 1, 12, &MONTHS)?;
    let (weekdays, any_weekday) = field(weekday, 0, 6, &WEEKDAYS)?;
    Ok(Fields { minutes, hours, days, months, weekdays, both_days: any_day || any_weekday })
}

/// The values of a field, and whether it says nothing.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<(u64, bool), String> {
    let mut values = 0;
    let mut any = false;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, open) = range(part, least, most, names)?;
        values |= bits;
        any |= open;
    }
    if values == 0 {
        return Err(format!("{text:?} has no values"));
    }
    Ok((values, any))
}

fn range(part: &str, least: u32, most: u32, names: &[&str]) -> Result<(u64, bool), String> {
    let number = |text: &str| -> Result<u32, String> {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + least);
        named.or_else(|| text.parse().ok()).ok_or_else(|| format!("{text:?} in {part:?} is no number"))
    };
    let (span, step) = match part.split_once('/') {
        None => (part, None),
        Some((span, step)) => {
            (span, Some(step.parse::<u32>().map_err(|_| format!("{step:?} in {part:?} is no number"))?))
        }
    };
    let (first, last, open) = match span.split_once('-') {
        _ if matches!(span, "*" | "?") => (least, most, step.is_none_or(|step| step <= 1)),
        Some((first, last)) => (number(first)?, number(last)?, false),
        // "5/15" is from 5 on.
        None => (number(span)?, if step.is_some() { most } else { number(span)? }, false),
    };
    if step == Some(0) {
        return Err(format!("the step of {part:?} must not be 0"));
    }
    if first < least || last > most || first > last {
        return Err(format!("{part:?} is not within {least} to {most}, in growing order"));
    }
    let values = (first..=last).step_by(step.unwrap_or(1) as usize).fold(0, |bits, value| bits | 1 << value);
    Ok((values, open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone_name: &str, after: &str) -> Option<String> {
        let zone = zone(zone_name).unwrap();
        Schedule::parse(schedule).unwrap().next(after.parse().unwrap(), &zone).map(|time| time.to_string())
    }

    #[test]
    fn the_next_moment_of_a_schedule() {
        for (schedule, after, wanted) in [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            ("* * * * *", "2026-01-01T00:00:30.5Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:44:59Z", "2026-01-01T00:45:00Z"),
            ("5/20 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:05:00Z"),
            ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", "2026-01-05T06:30:00Z"),
            ("0 0 31 * *", "2026-04-01T00:00:00Z", "2026-05-31T00:00:00Z"),
            ("0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * FRI", "2026-01-05T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 */2 * mon", "2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z"),
            ("0 0 ? * sun,tue", "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@every 1h30m", "2026-01-01T00:00:00.25Z", "2026-01-01T01:30:00Z"),
            ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T01:00:00Z", "2026-01-02T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, "UTC", after).as_deref(), Some(wanted), "{schedule} after {after}");
        }
        assert_eq!(next("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z"), None);
    }

    #[test]
    fn clocks_that_are_changed() {
        for (schedule, after, wanted) in [
            // 29 March 2026: 02:00 becomes 03:00, so that 02:30 is not shown.
            ("30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            ("30 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
            // 25 October 2026: 03:00 becomes 02:00, so that 02:30 is shown twice.
            ("30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
            ("*/20 * * * *", "2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z"),
        ] {
            assert_eq!(next(schedule, "Europe/Berlin", after).as_deref(), Some(wanted), "{schedule} after {after}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (schedule, wrong) in [
            ("* * * *", "expected 5 fields, found 4: \"* * * *\""),
            ("60 * * * *", "\"60\" is not within 0 to 59, in growing order"),
            ("* * 0 * *", "\"0\" is not within 1 to 31, in growing order"),
            ("* * * * 7", "\"7\" is not within 0 to 6, in growing order"),
            ("5-1 * * * *", "\"5-1\" is not within 0 to 59, in growing order"),
            ("*/0 * * * *", "the step of \"*/0\" must not be 0"),
            ("x * * * *", "\"x\" in \"x\" is no number"),
            ("@never", "unknown word @never"),
            ("@every soon", "unknown word @every soon"),
            ("TZ=Mars/Olympus 0 0 * * *", "unknown time zone Mars/Olympus"),
        ] {
            assert_eq!(Schedule::parse(schedule).err().as_deref(), Some(wrong), "{schedule}");
        }
        for name in ["", "local", "Local", "../etc/passwd", "Europe/Berlinn", "-x", "a//b", "europe/berlin"] {
            assert!(zone(name).is_err(), "{name}");
        }
        assert!(
            ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"]
                .iter()
                .all(|name| zone(name).is_ok())
        );
    }
}
