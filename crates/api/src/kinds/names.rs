//! Rules for names: DNS labels and subdomains, path segments, label keys and values, ports, keys of data maps.
//!
//! Every function answers with the list of what is wrong, in words for the user; an empty list accepts. The engine checks
//! object names through `Rules::name_mistakes`, validation of fields goes through `check`.

/// Longest DNS-1123 label, label value and name part of a label key.
pub const LABEL_MAX: usize = 63;
/// Longest DNS-1123 subdomain.
pub const SUBDOMAIN_MAX: usize = 253;

/// Letters of generated names: no vowels, no look-alikes, so that no word and no misreading comes out.
const SAFE_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A letter for each byte, as generated names have them.
pub fn safe_letters(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| char::from(SAFE_LETTERS[usize::from(byte) % SAFE_LETTERS.len()])).collect()
}

/// Whether `name` is a DNS-1123 label.
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= LABEL_MAX && is_label(name)
}

/// Whether `name` is a DNS-1123 subdomain. Its parts may be longer than labels are, as Kubernetes has it.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= SUBDOMAIN_MAX && is_subdomain(name)
}

/// Whether `text` is a name that DNS can have, in lower case: labels of at most 63 letters, digits and inner dashes, 253 in all.
pub fn is_domain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_dns_label)
}

/// Why `name` is not a DNS-1123 subdomain; as a prefix it may end with a dash.
pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    subdomain(&without_trailing_dash(name, prefix))
}

/// Why `name` is not a DNS-1123 label; as a prefix it may end with a dash.
pub fn dns_label(name: &str, prefix: bool) -> Vec<String> {
    let name = without_trailing_dash(name, prefix);
    let mut wrong = longer_than(&name, LABEL_MAX);
    if !is_label(&name) {
        wrong.push(if is_subdomain(&name) {
            "no dots are accepted here; write one DNS label such as 'my-name'".into()
        } else {
            "accepted are lower case letters, digits and '-', with a letter or digit first and last, such as 'my-name'"
                .into()
        });
    }
    wrong
}

/// Why `name` cannot be one segment of a URL path. RBAC names are no stricter than this.
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("'{name}' is not accepted")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("'{c}' is not accepted")).collect()
}

/// Why `name` is not the canonical spelling of an address, the only name an IPAddress may have.
pub fn ip_address(name: &str) -> Vec<String> {
    match net::parse_ip(name) {
        Err(error) => vec![error.to_string()],
        Ok(ip) if ip.to_string() != name => vec![format!("accepted is the canonical spelling, {ip}")],
        Ok(_) => Vec::new(),
    }
}

/// Why `key` is not a qualified name (`name` or `example.com/name`): label and annotation keys, finalizers, conditions.
pub fn qualified_name(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut parts = key.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return vec![
            "accepted is a name such as 'my.name', or one with a DNS prefix such as 'example.com/my-name'".into(),
        ];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                wrong.push("the prefix before '/' is empty; accepted is a DNS subdomain such as 'example.com'".into());
            } else {
                wrong.extend(subdomain(first).into_iter().map(|text| format!("prefix: {text}")));
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("the name is empty; accepted are 1 to 63 characters".into());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("the name is longer than {LABEL_MAX} characters"));
    }
    if !is_label_text(name) {
        wrong.push(LABEL_TEXT.into());
    }
    wrong
}

/// Why `value` is not a label value. Empty is one.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = longer_than(value, LABEL_MAX);
    if !value.is_empty() && !is_label_text(value) {
        wrong.push(LABEL_TEXT.into());
    }
    wrong
}

/// Why `name` is not an IANA service name, as ports are called.
pub fn port_name(name: &str) -> Vec<String> {
    let mut wrong = longer_than(name, 15);
    if name.is_empty() || !name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        wrong.push("accepted are lower case letters, digits and '-'".into());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("at least one letter a-z is needed".into());
    }
    if name.contains("--") {
        wrong.push("two '-' in a row are not accepted".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("'-' is not accepted first or last".into());
    }
    wrong
}

/// Why `key` cannot be a key of ConfigMap or Secret data.
pub fn data_key(key: &str) -> Vec<String> {
    let mut wrong = longer_than(key, SUBDOMAIN_MAX);
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        wrong.push("accepted are letters, digits, '-', '_' and '.', such as 'key.name'".into());
    }
    if key == "." || key.starts_with("..") {
        wrong.push("'.' alone and '..' at the start are not accepted".into());
    }
    wrong
}

/// Why `name` cannot be the name of an environment variable.
pub fn env_name(name: &str) -> Vec<String> {
    if name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        Vec::new()
    } else {
        vec!["accepted are printable ASCII characters other than '='".into()]
    }
}

/// Why `name` is not a DNS-1123 subdomain that may use underscores, as search domains do.
pub fn subdomain_with_underscore(name: &str) -> Vec<String> {
    let mut wrong = longer_than(name, SUBDOMAIN_MAX);
    let label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        ends_in_alphanumeric(part) && part.bytes().all(|b| is_lower_alphanumeric(b) || matches!(b, b'-' | b'_'))
    };
    if !name.split('.').all(label) {
        wrong.push("accepted are DNS labels of lower case letters, digits, '-' and '_' with dots between".into());
    }
    wrong
}

/// Why `name` is not `*.` and a DNS-1123 subdomain.
pub fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut wrong = longer_than(name, SUBDOMAIN_MAX);
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        wrong.push("a wildcard stands for the whole first label only, such as '*.example.com'".into());
    }
    wrong
}

const LABEL_TEXT: &str =
    "accepted are letters, digits, '-', '_' and '.', with a letter or digit first and last, such as 'my.name'";

fn subdomain(name: &str) -> Vec<String> {
    let mut wrong = longer_than(name, SUBDOMAIN_MAX);
    if !is_subdomain(name) {
        wrong.push(
            "accepted are lower case letters, digits, '-' and '.', with a letter or digit first and last in every part, \
             such as 'example.com'"
                .into(),
        );
    }
    wrong
}

/// A generated suffix follows a prefix, so its last dash is no mistake.
fn without_trailing_dash(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => format!("{rest}a"),
        _ => name.to_owned(),
    }
}

fn longer_than(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![format!("at most {most} characters are accepted")] } else { Vec::new() }
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn ends_in_alphanumeric(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(is_lower_alphanumeric)
        && bytes.last().copied().is_some_and(is_lower_alphanumeric)
}

fn is_label(text: &str) -> bool {
    ends_in_alphanumeric(text) && text.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_told_apart_by_their_rules() {
        let long = |n| "x".repeat(n);
        type Rule = fn(&str) -> Vec<String>;
        let cases: &[(&str, Rule, &[&str], &[&str])] = &[
            (
                "subdomain",
                |n| dns_subdomain(n, false),
                &["a", "a.b", "1.2", "a-b.c"],
                &["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "a-.b", "é"],
            ),
            ("subdomain prefix", |n| dns_subdomain(n, true), &["a-", "a.b-", "a"], &["-", "a.", "A-"]),
            ("label", |n| dns_label(n, false), &["a", "0a", "a-b"], &["", "a.b", "a_b", "-", "A"]),
            ("label prefix", |n| dns_label(n, true), &["a-", "web"], &["a.b-", "-"]),
            ("path", path_segment, &["system:node", "A_b", "a b"], &[".", "..", "a/b", "a%b"]),
            (
                "address",
                ip_address,
                &["10.0.0.1", "fd00::1", "::"],
                &["010.0.0.1", "fd00:0::1", "FD00::1", "::ffff:10.0.0.1", "x", "10.0.0.1/32"],
            ),
            (
                "qualified",
                qualified_name,
                &["a", "a.b/c", "A_b.C-d", "1"],
                &["", "/a", "a/", "a/b/c", "A.b/c", "a b", "-a", "a-"],
            ),
            ("label value", label_value, &["", "a", "A_b.c"], &["-a", "a b", "a/b"]),
            (
                "port",
                port_name,
                &["http", "a-1", "80a"],
                &["", "80", "a--b", "-a", "a-", "A", "a_b", "sixteen-letters-x"],
            ),
            ("data key", data_key, &["a", ".a", "A_b-c.d"], &["", ".", "..", "..a", "a/b", "a b"]),
            ("env", env_name, &["A", "a b", "1.x"], &["a=b", "a\n", "é"]),
            ("search", subdomain_with_underscore, &["_tcp.a", "a_b", "a.b"], &["", "a..b", "-a", "A"]),
            ("wildcard", wildcard_subdomain, &["*.a", "*.a.b"], &["*", "*.", "a.*", "**.a", "*.A"]),
        ];
        for (rule, check, good, bad) in cases {
            for name in *good {
                assert_eq!(check(name), Vec::<String>::new(), "{rule} {name:?}");
            }
            for name in *bad {
                assert!(!check(name).is_empty(), "{rule} {name:?}");
            }
        }
        assert!(dns_label(&long(63), false).is_empty() && !dns_label(&long(64), false).is_empty());
        assert!(dns_subdomain(&long(253), false).is_empty() && !dns_subdomain(&long(254), false).is_empty());
        assert!(label_value(&long(63)).is_empty() && !label_value(&long(64)).is_empty());
    }

    #[test]
    fn an_empty_name_part_is_two_mistakes() {
        assert_eq!(qualified_name("a.b/").len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_rule_panic_and_accepted_names_survive_a_url(name in ".{0,80}") {
            for prefix in [false, true] {
                dns_subdomain(&name, prefix);
                dns_label(&name, prefix);
            }
            let accepted = [dns_subdomain(&name, false), ip_address(&name), path_segment(&name)];
            if accepted[0].is_empty() {
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.'));
            }
            if accepted.iter().any(Vec::is_empty) {
                prop_assert!(!name.contains('/') || !accepted[2].is_empty());
            }
            qualified_name(&name);
            label_value(&name);
            port_name(&name);
            data_key(&name);
            env_name(&name);
            subdomain_with_underscore(&name);
            wildcard_subdomain(&name);
        }
    }
}
