//! Names of clusters, domains and hosts.

pub(crate) use api::kinds::names::is_domain;

/// The cluster's name, cut to 21 letters, and five letters that follow from name and domain: the same file always gives
/// the same name, another cluster of that name in another domain gives another one.
pub(crate) fn infrastructure_name(name: &str, domain: &str) -> String {
    const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz234567890aeu";
    let short: String = name.chars().take(21).collect();
    let mut hash = runtime::stable_hash(format!("{name}.{domain}").as_bytes());
    hash ^= hash >> 32;
    let suffix: String = (0..5).map(|at| char::from(LETTERS[(hash >> (5 * at)) as usize & 31])).collect();
    format!("{}-{suffix}", short.trim_end_matches('-'))
}

/// A host and perhaps a port, as `controlPlaneEndpoint` has them. IPv6 with a port stands in brackets.
pub(crate) fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), &'static str> {
    let bad_port = "has a port that is none; accepted: 1 to 65535";
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0).ok_or(bad_port);
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("has a bracket that is never closed")?;
        match rest.strip_prefix(':') {
            Some(text) => (host, port(text)?),
            None if rest.is_empty() => (host, default_port),
            None => return Err("has something after the bracket that is no port"),
        }
    } else {
        match text.split_once(':') {
            Some((host, rest)) if !rest.contains(':') => (host, port(rest)?),
            Some(_) if net::parse_ip(text).is_ok() => (text, default_port),
            _ => (text, default_port),
        }
    };
    match net::parse_ip(host).is_ok() || is_domain(host) {
        true => Ok((host.to_owned(), port)),
        false => Err("is neither a DNS name in lower case nor an IP address; accepted: HOST, HOST:PORT, [IPV6]:PORT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_both_families() {
        for (text, expected) in [
            ("api.example.test", Ok(("api.example.test", 6443))),
            ("api.example.test:443", Ok(("api.example.test", 443))),
            ("192.0.2.1:8443", Ok(("192.0.2.1", 8443))),
            ("2001:db8::1", Ok(("2001:db8::1", 6443))),
            ("[2001:db8::1]", Ok(("2001:db8::1", 6443))),
            ("[2001:db8::1]:443", Ok(("2001:db8::1", 443))),
            ("[2001:db8::1:443", Err("has a bracket that is never closed")),
            ("[::1]x", Err("has something after the bracket that is no port")),
            ("a:0", Err("has a port that is none; accepted: 1 to 65535")),
            (
                "A_b",
                Err("is neither a DNS name in lower case nor an IP address; accepted: HOST, HOST:PORT, [IPV6]:PORT"),
            ),
        ] {
            let read = host_and_port(text, 6443);
            assert_eq!(read.as_ref().map(|(host, port)| (host.as_str(), *port)).map_err(|e| *e), expected, "{text}");
        }
    }

    #[test]
    fn names_of_infrastructure_are_short_stable_and_differ() {
        let name = infrastructure_name("a-very-long-name-of-a-cluster", "example.test");
        assert!(name.starts_with("a-very-long-name-of-a-") && name.len() <= 27, "{name}");
        assert_eq!(name, infrastructure_name("a-very-long-name-of-a-cluster", "example.test"));
        assert_ne!(infrastructure_name("lab", "a.test"), infrastructure_name("lab", "b.test"));
    }
}
