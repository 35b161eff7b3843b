//! Users that a front proxy vouches for: `X-Remote-User` and its companions, believed from whoever shows the proxy's certificate.

use super::user::User;
use http::{HeaderMap, HeaderName};

/// `--requestheader-*`: which headers name a user, and who may set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// `--requestheader-username-headers`; the first that is there counts.
    pub username: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub uid: Vec<String>,
    /// `--requestheader-group-headers`; all count.
    pub group: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub extra_prefix: Vec<String>,
    /// `--requestheader-allowed-names`: common names of certificates; empty is any that is signed.
    pub allowed_names: Vec<String>,
}

impl Default for RequestHeader {
    fn default() -> Self {
        Self {
            username: vec!["X-Remote-User".to_owned()],
            uid: vec!["X-Remote-Uid".to_owned()],
            group: vec!["X-Remote-Group".to_owned()],
            extra_prefix: vec!["X-Remote-Extra-".to_owned()],
            allowed_names: Vec::new(),
        }
    }
}

impl RequestHeader {
    /// The user that `proxy`, the name in a certificate, vouches for; none when it may not, or names none.
    pub fn user(&self, proxy: &str, headers: &HeaderMap) -> Option<User> {
        if !self.allowed_names.is_empty() && !self.allowed_names.iter().any(|name| name == proxy) {
            tracing::debug!(proxy, "a certificate's name is not among those of --requestheader-allowed-names");
            return None;
        }
        let first = |names: &[String]| names.iter().flat_map(|name| texts(headers, name)).find(|text| !text.is_empty());
        let name = first(&self.username)?;
        let groups: Vec<String> = self.group.iter().flat_map(|name| texts(headers, name)).collect();
        let mut user = User { uid: first(&self.uid).unwrap_or_default(), ..User::new(name, groups) };
        for (header, value) in headers {
            let key = self.extra_prefix.iter().find_map(|prefix| key(header, prefix));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                user.extra.entry(key).or_default().push(value.to_owned());
            }
        }
        Some(user)
    }
}

fn texts(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

/// What follows the prefix, with its percents read.
fn key(header: &HeaderName, prefix: &str) -> Option<String> {
    let rest = header.as_str().strip_prefix(prefix.to_ascii_lowercase().as_str())?;
    let bytes = rest.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code =
            rest.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    // What cannot be read that way is taken as it is, as upstream does.
    Some(String::from_utf8(out).unwrap_or_else(|_| rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn the_first_name_counts_and_every_group() {
        let settings = RequestHeader { username: vec!["X-Remote-User".into(), "X-User".into()], ..Default::default() };
        let sent = headers(&[
            ("x-user", "second"),
            ("x-remote-user", ""),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-uid", "u1"),
            ("x-remote-extra-scopes", "a"),
            ("x-remote-extra-scopes", "b"),
            ("x-remote-extra-example.com%2fkey", "c"),
            ("x-other", "d"),
        ]);
        let user = settings.user("anybody", &sent).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("second", "u1"));
        assert_eq!(user.groups, ["dev", "ops"]);
        assert_eq!(user.extra["scopes"], ["a", "b"]);
        assert_eq!(user.extra["example.com/key"], ["c"]);
        assert_eq!(user.extra.len(), 2);
    }

    #[test]
    fn only_the_allowed_may_vouch() {
        let settings = RequestHeader { allowed_names: vec!["front-proxy-client".into()], ..Default::default() };
        let sent = headers(&[("x-remote-user", "jane")]);
        assert_eq!(settings.user("front-proxy-client", &sent).map(|user| user.name), Some("jane".to_owned()));
        assert_eq!(settings.user("somebody", &sent), None);
        assert_eq!(settings.user("front-proxy-client", &headers(&[])), None, "nobody is named");
    }
}
