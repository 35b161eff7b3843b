//! Where a proxied answer sends the client, in the client's view.

/// `location` below `prefix` if it leads to one of the hosts in `own`, which all stand for the proxied one; unchanged if it
/// leads elsewhere, is relative, or is below the prefix already.
pub fn seen_by_client(location: &str, own: &[String], prefix: &str) -> String {
    let path = match location.split_once("//") {
        Some(("http:" | "https:" | "", rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            if !own.iter().any(|known| known.eq_ignore_ascii_case(host)) {
                return location.to_owned();
            }
            path
        }
        _ => location,
    };
    let below = path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    match path.starts_with('/') {
        _ if below => path.to_owned(),
        true => format!("{prefix}{path}"),
        // A host without a path stands for its root; anything else is relative to where the client is.
        false if path.len() < location.len() => format!("{prefix}/{path}"),
        false => location.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_to_the_proxied_host_is_rewritten() {
        let own = ["192.0.2.1:80".to_owned(), "[2001:db8::1]:80".to_owned(), "api.test:6443".to_owned()];
        for (location, want) in [
            ("/login", "/x/proxy/login"),
            ("/", "/x/proxy/"),
            ("/login?to=/a", "/x/proxy/login?to=/a"),
            ("http://192.0.2.1:80/a/", "/x/proxy/a/"),
            ("http://[2001:DB8::1]:80/a", "/x/proxy/a"),
            ("https://api.test:6443/a", "/x/proxy/a"),
            ("http://192.0.2.1:80", "/x/proxy/"),
            ("http://192.0.2.1:80?a=b", "/x/proxy/?a=b"),
            ("//192.0.2.1:80/a", "/x/proxy/a"),
            ("/x/proxy/a", "/x/proxy/a"),
            ("/x/proxying", "/x/proxy/x/proxying"),
            ("https://api.test:6443/x/proxy/a", "/x/proxy/a"),
            ("http://elsewhere.test/a", "http://elsewhere.test/a"),
            ("//elsewhere.test/a", "//elsewhere.test/a"),
            ("ftp://192.0.2.1:80/a", "ftp://192.0.2.1:80/a"),
            ("a/b", "a/b"),
            ("?a=b", "?a=b"),
            ("/a//b", "/x/proxy/a//b"),
            ("", ""),
        ] {
            assert_eq!(seen_by_client(location, &own, "/x/proxy"), want, "{location}");
        }
    }
}
