//! What may stand in HAProxy's configuration, and how it is quoted there.
//!
//! Everything that an object or a setting brings passes through here on its way into a file or a command. A value that a
//! check lets through cannot end a word, a line or a quote, and cannot begin an expression.

use api::kinds::names;

/// In strong quotes, inside which HAProxy reads nothing but the end of the quote. Control characters cannot be quoted:
/// callers refuse them before ([`is_printable`]).
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// No control character, no line end of any alphabet.
pub(crate) fn is_printable(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() && c != '\u{2028}' && c != '\u{2029}')
}

/// A name of a host, in whatever case.
pub(crate) fn is_host(text: &str) -> bool {
    names::is_domain(&text.to_ascii_lowercase())
}

/// A path as requests have it: begins with a slash, only what RFC 3986 allows, percent signs only before two digits, at most
/// 4096 long. Without `.` and `..` as segments, in whatever spelling: requests with them are refused.
pub(crate) fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    let bytes = text.as_bytes();
    let escape = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
    text.starts_with('/')
        && text.len() <= 4096
        && bytes.iter().enumerate().all(|(at, byte)| plain(*byte) || (*byte == b'%' && escape(at)))
        && !text.contains("%00")
        && !canonical_path(text).split('/').any(|segment| segment == "." || segment == "..")
}

/// A path in the one spelling that paths are looked up in: everything but letters, digits, `-._~` and slashes is escaped,
/// an escaped slash is a slash, and several slashes are one. HAProxy does the same to requests (`haproxy::request`).
pub(crate) fn canonical_path(path: &str) -> String {
    let mut found = String::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let escaped = (byte == b'%').then(|| {
            let mut ahead = rest.clone();
            let value = digit(ahead.next()).zip(digit(ahead.next())).and_then(|(a, b)| u8::try_from(a << 4 | b).ok());
            value.inspect(|_| rest = ahead)
        });
        match escaped.flatten().unwrap_or(byte) {
            b'/' if found.ends_with('/') => {}
            byte if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) => found.push(char::from(byte)),
            byte => found += &format!("%{byte:02X}"),
        }
    }
    found
}

/// A file's path that needs no quotes anywhere: absolute, of letters, digits and a few signs.
pub(crate) fn is_plain_file(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._+@=,".contains(&byte))
}

/// A name of a cookie or header: the token of RFC 9110, without what HAProxy or a shell would read as more.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!&*+^|~".contains(&byte))
}

/// The longest time HAProxy takes, about 24.8 days.
const LONGEST_MS: u128 = 2_147_483_647;

/// A time as HAProxy writes it (`30s`, `1h`, `500ms`; a bare number is milliseconds), clipped to what it takes.
pub(crate) fn haproxy_time(text: &str) -> Option<String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u128 = text.get(..digits)?.parse().ok().filter(|number| *number < 1 << 64)?;
    let unit_us: u128 = match &text[digits..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    match number.saturating_mul(unit_us) > LONGEST_MS * 1_000 {
        true => Some(format!("{LONGEST_MS}ms")),
        false => Some(format!("{}{}", number, if text[digits..].is_empty() { "ms" } else { &text[digits..] })),
    }
}

/// A time of [`haproxy_time`] in milliseconds, at least one unless it is zero.
pub(crate) fn milliseconds(time: &str) -> Option<u64> {
    let digits = time.len() - time.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = time.get(..digits)?.parse().ok()?;
    let unit_us: u64 = match &time[digits..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(unit_us).map(|us| us.div_ceil(1_000))
}

/// A text with every character that a regular expression reads as more than itself taken literally.
pub(crate) fn regex_literal(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_ascii_alphanumeric() && c != '/').then_some('\\').into_iter().chain([c])).collect()
}

/// A name for a content that nobody can make another content for: SHA-256 in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    digest_of(text.as_bytes())
}

/// The same of bytes.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A short, stable name for something longer: 64 bits in hexadecimal. Not a secret, not a signature; users choose
/// no text that is named so.
pub(crate) fn fingerprint(text: &str) -> String {
    format!("{:016x}", runtime::stable_hash(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_clipped_and_nonsense_is_refused() {
        for (text, expected) in [
            ("30s", Some("30s")),
            ("500", Some("500ms")),
            ("0", Some("0ms")),
            ("24d", Some("24d")),
            ("25d", Some("2147483647ms")),
            ("2147483648ms", Some("2147483647ms")),
            ("99999999999999999999999", None),
            ("9999999999999h", Some("2147483647ms")),
            ("", None),
            ("s", None),
            ("10 s", None),
            ("-1s", None),
            ("1s\n", None),
            ("1.5s", None),
            ("1w", None),
        ] {
            assert_eq!(haproxy_time(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn times_in_milliseconds() {
        for (time, expected) in [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("1us", Some(1)),
            ("0ms", Some(0)),
            ("2m", Some(120_000)),
            ("24d", Some(2_073_600_000)),
            ("2147483647ms", Some(2_147_483_647)),
            ("x", None),
        ] {
            assert_eq!(milliseconds(time), expected, "{time}");
        }
    }

    #[test]
    fn hosts_and_paths_are_what_requests_can_have() {
        for (host, good) in [
            ("a.test", true),
            ("A.test", true),
            ("a-1.test", true),
            ("", false),
            ("-a.test", false),
            ("a..test", false),
            ("a_b.test", false),
            ("*.test", false),
            ("a.test.", false),
        ] {
            assert_eq!(is_host(host), good, "{host:?}");
        }
        assert!(!is_host(&"a".repeat(64)) && is_host(&"a".repeat(63)));
        for (path, good) in [
            ("/", true),
            ("/a/b;c=1", true),
            ("/%20", true),
            ("/%2", false),
            ("/%[x", false),
            ("a", false),
            ("/a b", false),
            ("/a#", false),
            ("/a\\", false),
            ("/\"", false),
            ("/{", false),
            ("/é", false),
            ("/a/../b", false),
            ("/a/.", false),
            ("/%2e%2E/b", false),
            ("/a%2f./b", false),
            ("/a%00", false),
            ("/.well-known/...", true),
        ] {
            assert_eq!(is_path(path), good, "{path:?}");
        }
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (path, expected) in [
            ("/", "/"),
            ("/a/b/", "/a/b/"),
            ("/%70rivate", "/private"),
            ("//a///b", "/a/b"),
            ("/a%2Fb", "/a/b"),
            ("/a%2f%2Fb", "/a/b"),
            ("/a%252Fb", "/a%252Fb"),
            ("/a;b=c:d@e", "/a%3Bb%3Dc%3Ad%40e"),
            ("/a%3bb", "/a%3Bb"),
            ("/a%20b+c", "/a%20b%2Bc"),
            ("/%c3%a9", "/%C3%A9"),
        ] {
            assert_eq!(canonical_path(path), expected, "{path}");
            assert_eq!(canonical_path(expected), expected, "{path}: once is enough");
        }
    }

    #[test]
    fn quotes_hold() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(regex_literal("/a.b+é"), r"/a\.b\+\é");
    }
}
