//! Impersonation headers, read into a wish that `authz::impersonate` checks before it becomes the user of the request.

use super::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, service_account_groups, split_service_account};
use api::error::ApiError;
use http::HeaderMap;
use std::collections::BTreeMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Whom a request wants to act as. There is none without a user name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// User name, not empty.
    pub user: String,
    /// Groups as given; none means those that belong to the user.
    pub groups: Vec<String>,
    /// Uid, or empty.
    pub uid: String,
    /// Extras; keys are lower case and unescaped.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Reads the headers; none without any of them, 400 when others come without a user.
    pub fn parse(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let text = |name: &str| {
            let value = headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
            value.unwrap_or_default()
        };
        let all = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect()
        };
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                extra.entry(unescape(key)).or_default().extend(all(name.as_str()));
            }
        }
        let wish = Self { user: text(USER), groups: all(GROUP), uid: text(UID), extra };
        if !wish.user.is_empty() {
            return Ok(Some(wish));
        }
        let Self { user: _, groups, uid, extra } = wish;
        let mut others = groups.iter().map(|group| format!("group {group:?}")).collect::<Vec<_>>();
        others.extend(extra.keys().map(|key| format!("extra {key:?}")));
        others.extend((!uid.is_empty()).then(|| format!("uid {uid:?}")));
        match others.is_empty() {
            true => Ok(None),
            false => Err(ApiError::bad_request(format!(
                "requested {} without impersonating a user; add the header Impersonate-User",
                others.join(", ")
            ))),
        }
    }

    /// The user the request becomes once every part of the wish is allowed.
    pub fn into_user(self) -> User {
        let Self { user: name, mut groups, uid, extra } = self;
        if groups.is_empty()
            && let Some((namespace, _)) = split_service_account(&name)
        {
            groups = service_account_groups(namespace).into();
        }
        let given = |group: &str| groups.iter().any(|g| g == group);
        if name == ANONYMOUS {
            if !given(UNAUTHENTICATED) {
                groups.push(UNAUTHENTICATED.to_owned());
            }
        } else if !given(AUTHENTICATED) && !given(UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        User { name, uid, groups, extra }
    }
}

/// Undoes %-escapes; a malformed key is kept as it is.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = tail else { return key.to_owned() };
        let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return key.to_owned() };
        bytes.push(high << 4 | low);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn user(pairs: &[(&'static str, &str)]) -> User {
        Impersonation::parse(&headers(pairs)).unwrap().unwrap().into_user()
    }

    #[test]
    fn groups_follow_from_the_user_unless_given() {
        for (pairs, groups) in [
            (&[("impersonate-user", "bob")][..], &["system:authenticated"][..]),
            (
                &[("impersonate-user", "bob"), ("impersonate-group", "a"), ("impersonate-group", "b")],
                &["a", "b", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "bob"), ("impersonate-group", "system:unauthenticated")],
                &["system:unauthenticated"],
            ),
            (&[("impersonate-user", "system:anonymous")], &["system:unauthenticated"]),
            (
                &[("impersonate-user", "system:serviceaccount:ns:sa")],
                &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "system:serviceaccount:ns:sa"), ("impersonate-group", "x")],
                &["x", "system:authenticated"],
            ),
        ] {
            assert_eq!(user(pairs).groups, groups, "{pairs:?}");
        }
    }

    #[test]
    fn extras_are_lower_case_and_unescaped() {
        let user = user(&[
            ("impersonate-user", "bob"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-acme.com%2fproject", "p1"),
            ("impersonate-extra-acme.com%2fproject", "p2"),
            ("impersonate-extra-bad%zz", "x"),
        ]);
        assert_eq!(user.uid, "7");
        assert_eq!(user.extra["acme.com/project"], ["p1", "p2"]);
        assert_eq!(user.extra["bad%zz"], ["x"]);
    }

    #[test]
    fn anything_without_a_user_is_a_bad_request() {
        for name in ["impersonate-group", "impersonate-uid", "impersonate-extra-a"] {
            assert_eq!(Impersonation::parse(&headers(&[(name, "x")])).unwrap_err().code, 400, "{name}");
        }
        assert_eq!(Impersonation::parse(&HeaderMap::new()), Ok(None));
    }

    proptest! {
        #[test]
        fn arbitrary_keys_never_panic(key in "\\PC{0,30}") {
            let _ = unescape(&key);
        }
    }
}
