//! Bootstrap tokens: Secrets of type `bootstrap.kubernetes.io/token` by which a machine joins before it has anything else.
//!
//! Read by the API server, which knows their bearers, and by the controllers that sign `cluster-info` and clear them away.

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Where they are.
pub const NAMESPACE: &str = "kube-system";
/// What their names begin with; the id of the token follows.
pub const NAME_PREFIX: &str = "bootstrap-token-";
/// The name of their bearers begins with this; the id follows.
pub const USER_PREFIX: &str = "system:bootstrap:";
/// A group that all bearers are in. Others begin with it.
pub const GROUP: &str = "system:bootstrappers";

/// Id and secret of what may be a bootstrap token: `abcdef.0123456789abcdef`.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let is_word =
        |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    token.split_once('.').filter(|(id, secret)| is_word(id, 6) && is_word(secret, 16))
}

/// When a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    Never,
    At(jiff::Timestamp),
    /// What is written there cannot be read: it counts as over.
    Unreadable,
}

/// What a Secret says of its token.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    pub id: String,
    pub secret: String,
    pub expiration: Expiration,
    /// Whether its bearer is let in.
    pub authenticates: bool,
    /// Whether `cluster-info` is signed with it.
    pub signs: bool,
    /// The groups of its bearer, or one that is none.
    pub groups: Result<Vec<String>, String>,
}

impl BootstrapToken {
    /// Reads a Secret, given its name and the text of its keys; none when name and content do not agree.
    pub fn read(name: &str, data: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let text = |key: &str| data(key).unwrap_or_default();
        let (id, secret) = (text("token-id"), text("token-secret"));
        if name.strip_prefix(NAME_PREFIX) != Some(&id) || id.is_empty() || secret.is_empty() {
            return None;
        }
        Some(Self {
            id,
            secret,
            expiration: expiration(&text("expiration")),
            authenticates: text("usage-bootstrap-authentication") == "true",
            signs: text("usage-bootstrap-signing") == "true",
            groups: groups(&text("auth-extra-groups")),
        })
    }

    /// Whether it is over.
    pub fn has_expired(&self, now: jiff::Timestamp) -> bool {
        self.expiration.has_passed(now)
    }
}

impl Expiration {
    pub fn has_passed(self, now: jiff::Timestamp) -> bool {
        match self {
            Self::Never => false,
            Self::At(end) => end < now,
            Self::Unreadable => true,
        }
    }
}

impl std::fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BootstrapToken({})", self.id)
    }
}

/// When the text of the key `expiration` says.
pub fn expiration(text: &str) -> Expiration {
    match text {
        "" => Expiration::Never,
        text => text.parse().map_or(Expiration::Unreadable, Expiration::At),
    }
}

fn groups(extra: &str) -> Result<Vec<String>, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_group = |group: &str| {
        let name = group.strip_prefix("system:bootstrappers:").unwrap_or_default().as_bytes();
        let allowed = |byte: &u8| plain(*byte) || matches!(byte, b':' | b'-');
        name.len() <= 256 && name.iter().all(allowed) && name.last().is_some_and(|last| plain(*last))
    };
    let mut groups = vec![GROUP.to_owned()];
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        if !is_group(group) {
            return Err(group.to_owned());
        }
        groups.push(group.to_owned());
    }
    groups[1..].sort();
    groups.dedup();
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_an_id_a_dot_and_a_secret() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for other in
            ["", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "abcde.0123456789abcdef0", "a.b.c"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_secret_says_what_its_token_is_for() {
        let read = |name: &str, pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            BootstrapToken::read(name, move |key| pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone()))
        };
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let base = [("token-id", "abcdef"), ("token-secret", "0123456789abcdef")];
        let plain = read("bootstrap-token-abcdef", &base).unwrap();
        assert!(!plain.authenticates && !plain.signs && !plain.has_expired(now));
        assert_eq!(plain.groups, Ok(vec!["system:bootstrappers".to_owned()]));
        assert_eq!(format!("{plain:?}"), "BootstrapToken(abcdef)");
        assert!(read("bootstrap-token-other1", &base).is_none(), "the name has the id");
        assert!(read("bootstrap-token-abcdef", &base[..1]).is_none(), "there is a secret");
        for (time, over) in [("2025-12-31T23:59:59Z", true), ("2026-01-01T00:00:01Z", false), ("soon", true)] {
            let token = read("bootstrap-token-abcdef", &[base[0], base[1], ("expiration", time)]).unwrap();
            assert_eq!(token.has_expired(now), over, "{time}");
        }
        let extra =
            |groups| read("bootstrap-token-abcdef", &[base[0], base[1], ("auth-extra-groups", groups)]).unwrap().groups;
        let named = "system:bootstrappers:kubeadm:default-node-token";
        assert_eq!(extra(named), Ok(vec!["system:bootstrappers".to_owned(), named.to_owned()]));
        assert_eq!(extra("system:masters"), Err("system:masters".to_owned()));
    }
}
