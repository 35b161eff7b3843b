//! Reading the `cache` line.

use crate::{
    corefile::{Directive, Problem, Token},
    text,
    wire::Name,
};
use std::time::Duration;

const KNOWN: &[&str] =
    &["denial", "disable", "keepttl", "prefetch", "serve_stale", "serve_stale_policy", "servfail", "success"];
/// What CoreDNS makes of 10,000.
const CAPACITY: usize = 9984;

/// What a stanza says.
pub(super) struct CacheOptions {
    pub(super) zones: Vec<Name>,
    pub(super) success: Limits,
    pub(super) denial: Limits,
    pub(super) prefetch: Prefetch,
    pub(super) stale: Option<Stale>,
    /// A good answer, fresh or outlived, goes before a denial.
    pub(super) prefer_positive: bool,
    pub(super) servfail: Duration,
    pub(super) keep_ttl: bool,
}

/// How many answers of a sort, for how many seconds.
pub(super) struct Limits {
    pub(super) capacity: usize,
    pub(super) least: u32,
    pub(super) most: u32,
    /// Zones whose answers are not kept.
    pub(super) disabled: Vec<Name>,
}

/// When to fetch an answer before it runs out.
pub(super) struct Prefetch {
    /// After so many hits; 0 is never.
    pub(super) hits: u32,
    /// That are not further apart than this.
    pub(super) gap: Duration,
    /// When so much of the time is left.
    pub(super) share: f64,
}

/// How outlived answers are used.
#[derive(Clone, Copy)]
pub(super) struct Stale {
    /// For so long.
    pub(super) within: Duration,
    /// Only if there is no fresh one.
    pub(super) verify: bool,
    /// How long to wait for it.
    pub(super) patience: Option<Duration>,
    /// TTL of outlived answers, in seconds.
    pub(super) ttl: u32,
    /// After a failed attempt at a fresh one, how long there is no other.
    pub(super) recheck: Duration,
}

pub(super) fn options(line: &Directive, block: &[Name]) -> Result<CacheOptions, Problem> {
    let mut zones = line.args.as_slice();
    let mut both = None;
    if let [first, rest @ ..] = zones
        && first.text.bytes().all(|byte| byte.is_ascii_digit())
    {
        both = Some(seconds(first, 1)?);
        zones = rest;
    }
    let limits = |most| Limits { capacity: CAPACITY, least: 5, most: both.unwrap_or(most), disabled: Vec::new() };
    let mut options = CacheOptions {
        zones: text::zones_or(zones, block)?,
        success: limits(3600),
        denial: limits(1800),
        prefetch: Prefetch { hits: 0, gap: Duration::from_secs(60), share: 0.1 },
        stale: None,
        prefer_positive: false,
        servfail: Duration::from_secs(5),
        keep_ttl: false,
    };
    for line in line.lines() {
        property(line, block, &mut options)?;
    }
    Ok(options)
}

fn property(line: &Directive, block: &[Name], options: &mut CacheOptions) -> Result<(), Problem> {
    match line.name.text.as_str() {
        "success" => sort(line, &mut options.success)?,
        "denial" => sort(line, &mut options.denial)?,
        "prefetch" => prefetch(line, &mut options.prefetch)?,
        "serve_stale" => options.stale = Some(stale(line)?),
        "serve_stale_policy" => {
            let policy = line.one()?;
            if policy.text != "prefer_positive" {
                return Err(Problem::at(policy, "accepted: prefer_positive"));
            }
            options.prefer_positive = true;
        }
        "servfail" => {
            let token = line.one()?;
            options.servfail = text::duration(token)?;
            if options.servfail > Duration::from_secs(300) {
                return Err(Problem::at(token, "accepted: up to 5m"));
            }
        }
        "disable" => match line.args.split_first() {
            Some((what, zones)) if what.text == "success" => options.success.disabled = text::zones_or(zones, block)?,
            Some((what, zones)) if what.text == "denial" => options.denial.disabled = text::zones_or(zones, block)?,
            _ => return Err(Problem::at(&line.name, "accepted: success or denial, and perhaps zones")),
        },
        "keepttl" => {
            line.none()?;
            options.keep_ttl = true;
        }
        _ => return Err(line.unknown(KNOWN)),
    }
    Ok(())
}

fn sort(line: &Directive, limits: &mut Limits) -> Result<(), Problem> {
    let [capacity, rest @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a capacity"));
    };
    limits.capacity = text::number(capacity, 1..=10_000_000, "a number from 1 to 10000000")?;
    if let Some(most) = rest.first() {
        limits.most = seconds(most, 1)?;
    }
    if let Some(least) = rest.get(1) {
        limits.least = seconds(least, 0)?;
    }
    match rest.get(2) {
        Some(more) => Err(Problem::at(more, "capacity, TTL and least TTL are enough")),
        None => Ok(()),
    }
}

fn seconds(token: &Token, least: u32) -> Result<u32, Problem> {
    text::number(token, least..=2_147_483_647, format!("a number of seconds from {least}"))
}

fn prefetch(line: &Directive, prefetch: &mut Prefetch) -> Result<(), Problem> {
    let [hits, rest @ ..] = line.args.as_slice() else {
        return Err(Problem::at(&line.name, "needs a number of hits"));
    };
    prefetch.hits = text::number(hits, 0.., "a number")?;
    if let Some(gap) = rest.first() {
        prefetch.gap = text::duration(gap)?;
    }
    if let Some(share) = rest.get(1) {
        let percent =
            share.text.strip_suffix('%').and_then(|number| number.parse().ok()).filter(|n| (10..=90).contains(n));
        let percent: u8 = percent.ok_or_else(|| Problem::at(share, "accepted: 10% to 90%"))?;
        prefetch.share = f64::from(percent) / 100.0;
    }
    Ok(())
}

fn stale(line: &Directive) -> Result<Stale, Problem> {
    let mut stale =
        Stale { within: Duration::from_secs(3600), verify: false, patience: None, ttl: 0, recheck: Duration::ZERO };
    let mut words = line.args.iter().peekable();
    if let Some(within) = words.next_if(|word| word.text != "immediate" && word.text != "verify") {
        stale.within = text::duration(within)?;
    }
    if let Some(mode) = words.next() {
        stale.verify = match mode.text.as_str() {
            "immediate" => false,
            "verify" => true,
            _ => return Err(Problem::at(mode, "accepted: immediate, verify")),
        };
    }
    if stale.verify
        && let Some(patience) = words.next()
    {
        stale.patience = Some(text::duration(patience)?).filter(|patience| !patience.is_zero());
    }
    if let Some(word) = words.next() {
        let ttl = text::duration(word)?;
        let whole = u32::try_from(ttl.as_secs()).ok().filter(|_| ttl.subsec_nanos() == 0);
        stale.ttl = whole.ok_or_else(|| Problem::at(word, "accepted: whole seconds"))?;
    }
    if let Some(word) = words.next() {
        stale.recheck = text::duration(word)?;
    }
    match words.next() {
        Some(more) => Err(Problem::at(more, "duration, mode, patience, TTL and recheck are enough")),
        None => Ok(stale),
    }
}
