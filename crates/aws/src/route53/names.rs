//! Names as Route53 tells them, and as people write them.

/// Without a final dot, in small letters, with `*` for `\052`, as Route53 writes it in answers.
pub(super) fn plain(name: &str) -> String {
    name.trim_end_matches('.').replace("\\052", "*").to_ascii_lowercase()
}

/// Whether two names are one.
pub(super) fn same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Whether two names are of one load balancer. `dualstack.` in front is another name of the same.
pub(super) fn same_target(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    one.strip_prefix("dualstack.").unwrap_or(&one) == other.strip_prefix("dualstack.").unwrap_or(&other)
}

/// Whether a zone of this name can hold the name.
pub(super) fn holds(zone: &str, name: &str) -> bool {
    let (zone, name) = (plain(zone), plain(name));
    name == zone || name.strip_suffix(&zone).is_some_and(|front| front.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_written_in_many_ways() {
        assert!(same("*.apps.example.com.", "\\052.Apps.example.com"));
        assert!(!same("*.apps.example.com.", "a.apps.example.com."));
        assert!(same_target("dualstack.a.elb.amazonaws.com.", "a.elb.amazonaws.com"));
        assert!(!same_target("b.elb.amazonaws.com.", "a.elb.amazonaws.com"));
    }

    #[test]
    fn a_zone_holds_what_is_below_it() {
        for (zone, name, expected) in [
            ("example.com.", "*.apps.example.com.", true),
            ("example.com", "example.com.", true),
            ("example.com.", "badexample.com.", false),
            ("apps.example.com.", "example.com.", false),
        ] {
            assert_eq!(holds(zone, name), expected, "{zone} {name}");
        }
    }
}
