//! Values as Corefiles write them: durations, numbers, zones.

use crate::{
    corefile::{Problem, Token, zones},
    wire::Name,
};
use std::{fmt::Display, net::IpAddr, ops::RangeBounds, str::FromStr, time::Duration};

/// Go's way to write a duration: `1h30m`, `250ms`, `5s`; a plain number is seconds.
pub(crate) fn duration(token: &Token) -> Result<Duration, Problem> {
    let text = token.text.as_str();
    let seconds = || text.parse().ok().map(Duration::from_secs);
    seconds()
        .or_else(|| api::go_duration::parse(text))
        .ok_or_else(|| Problem::at(token, "is no duration; accepted: numbers with units such as 500ms, 5s, 1m30s"))
}

/// A number within bounds.
pub(crate) fn number<T>(token: &Token, bounds: impl RangeBounds<T>, accepted: impl Display) -> Result<T, Problem>
where
    T: FromStr + PartialOrd,
{
    let parsed = token.text.parse().ok().filter(|number| bounds.contains(number));
    parsed.ok_or_else(|| Problem::at(token, format!("accepted: {accepted}")))
}

/// A CIDR, perhaps with bits behind its prefix, or an address that is a network of its own.
pub(crate) fn network(text: &str) -> Option<net::Cidr> {
    match text.split_once('/') {
        Some((address, prefix)) => net::Cidr::containing(address.parse().ok()?, prefix.parse().ok()?),
        None => net::Cidr::host(text.parse::<IpAddr>().ok()?),
    }
}

/// Zones given to a plugin, or those of its block.
pub(crate) fn zones_or(tokens: &[Token], block: &[Name]) -> Result<Vec<Name>, Problem> {
    if tokens.is_empty() {
        return Ok(block.to_vec());
    }
    let mut all = Vec::new();
    for token in tokens {
        all.extend(zones(&token.text).map_err(|problem| Problem::at(token, problem))?);
    }
    Ok(all)
}

/// The longest of these zones that a name is in.
pub(crate) fn longest<'a>(zones: &'a [Name], lower: &Name) -> Option<&'a Name> {
    zones.iter().filter(|zone| lower.is_within(zone)).max_by_key(|zone| zone.wire().len())
}

/// `fallthrough [ZONE...]`: for which names the next plugin is asked when this one has nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fallthrough {
    zones: Vec<Name>,
}

impl Fallthrough {
    /// Without zones it is for all names.
    pub(crate) fn parse(tokens: &[Token]) -> Result<Self, Problem> {
        Ok(Self { zones: zones_or(tokens, &[Name::ROOT])? })
    }

    pub(crate) fn covers(&self, lower: &Name) -> bool {
        self.zones.iter().any(|zone| lower.is_within(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corefile::Location;
    use proptest::prelude::*;

    fn token(text: &str) -> Token {
        Token { text: text.to_owned(), place: Location { file: "Corefile".into(), line: 1, column: 1 } }
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, milliseconds) in [("5s", 5000), ("1m30s", 90_000), ("250ms", 250), ("1.5h", 5_400_000), ("7", 7000)]
        {
            assert_eq!(duration(&token(text)).map(|length| length.as_millis()), Ok(milliseconds), "{text}");
        }
        for text in ["", "s", "-1s", "1d", "1s1", "1e99h", "99999999999999999999h"] {
            assert!(duration(&token(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn falling_through_is_for_zones() {
        let all = Fallthrough::parse(&[]).unwrap();
        let some = Fallthrough::parse(&[token("in-addr.arpa"), token("fd00::/8")]).unwrap();
        for (name, in_some) in
            [("a.test.", false), ("1.in-addr.arpa.", true), ("1.d.f.ip6.arpa.", true), ("ip6.arpa.", false)]
        {
            let name = Name::parse(name).unwrap();
            assert!(all.covers(&name) && !Fallthrough::default().covers(&name));
            assert_eq!(some.covers(&name), in_some, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_a_problem(text in ".{0,30}") {
            let _ = duration(&token(&text));
        }
    }
}
