//! The path of a proxied request: what stands below `/proxy`, without a way to climb out of it.

use crate::request::info::decode;

/// `rest` as an absolute path without dot segments, encoded ones included. A trailing slash of `whole`, the path that the
/// client sent, is kept; nothing at all stays nothing.
///
/// Upstream decodes the path and writes it anew, which turns `%2F` into a slash; here what is encoded stays so, unless
/// dot segments hide behind it.
pub fn below(rest: &str, whole: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for raw in rest.split('/').filter(|segment| !segment.is_empty()) {
        let decoded = decode(raw);
        let pieces: Vec<&str> = decoded.split(['/', '\\']).collect();
        if !pieces.iter().any(|piece| matches!(*piece, "." | "..")) {
            kept.push(raw.to_owned());
            continue;
        }
        for piece in pieces {
            match piece {
                "" | "." => {}
                ".." => {
                    kept.pop();
                }
                other => kept.push(super::query::encode(other)),
            }
        }
    }
    let mut path: String = kept.iter().map(|segment| format!("/{segment}")).collect();
    let slash = whole.ends_with('/') || (path.is_empty() && !rest.is_empty());
    if slash {
        path.push('/');
    }
    path
}

/// The path that leads to `rest`: everything before it, without a slash at the end.
pub fn prefix(rest: &str, whole: &str) -> String {
    let segments: Vec<&str> = whole.split('/').filter(|segment| !segment.is_empty()).collect();
    let below = rest.split('/').filter(|segment| !segment.is_empty()).count();
    segments[..segments.len().saturating_sub(below)].iter().map(|segment| format!("/{segment}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_above_the_root() {
        for (rest, whole, want) in [
            ("", "/proxy", ""),
            ("", "/proxy/", "/"),
            ("a/b", "/proxy/a/b", "/a/b"),
            ("a/b", "/proxy/a/b/", "/a/b/"),
            ("a/../../b", "/proxy/a/../../b", "/b"),
            ("..", "/proxy/..", "/"),
            ("%2e%2E/a", "/proxy/%2e%2E/a", "/a"),
            ("a/..%2f..%2fb%20c", "/proxy/a/..%2f..%2fb%20c", "/b%20c"),
            ("a%2Fb/c", "/proxy/a%2Fb/c", "/a%2Fb/c"),
            ("a/..%5c..%5cb", "/proxy/a/..%5c..%5cb", "/b"),
            ("a/./b", "/proxy/a/./b", "/a/b"),
            ("...", "/proxy/...", "/..."),
        ] {
            assert_eq!(below(rest, whole), want, "{rest}");
        }
    }

    #[test]
    fn the_prefix_ends_with_the_subresource() {
        let whole = "/api/v1/namespaces/n/services/s:80/proxy";
        assert_eq!(prefix("", whole), whole);
        assert_eq!(prefix("a/b", &format!("{whole}/a/b/")), whole);
        assert_eq!(prefix("", &format!("{whole}/")), whole);
    }

    proptest::proptest! {
        #[test]
        fn no_path_has_dot_segments_left(rest in "(/|\\.|%2e|%2E|%2f|%5c|%|[a-c]|é){0,24}") {
            let path = below(&rest, &format!("/proxy/{rest}"));
            proptest::prop_assert!(path.is_empty() || path.starts_with('/'));
            let decoded = decode(&path);
            let climbs = decoded.split(['/', '\\']).any(|segment| segment == "." || segment == "..");
            proptest::prop_assert!(!climbs, "{} -> {}", rest, path);
        }
    }
}
