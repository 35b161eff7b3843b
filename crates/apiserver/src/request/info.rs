//! What a request asks for, read from its method and path alone: what authorization decides about.
//!
//! One grammar serves every kind: `/api/v1` or `/apis/GROUP/VERSION`, then
//! `[watch/][namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/PATH]]]`. Namespaces are both a resource and a part of the path:
//! `/api/v1/namespaces/x/finalize` is a subresource, `/api/v1/namespaces/x/pods` is not. Mirrors upstream's RequestInfo;
//! whether such a path is served, and by which methods, is for `route` to say.

use http::Method;

/// The words after `namespaces/NAME` that are subresources of the namespace and not resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceRequest {
    /// Upstream's verb: get, list, watch, create, update, patch, delete, deletecollection; empty for methods without one.
    pub verb: &'static str,
    /// Whether the path and not the method says the verb, as old clients watch: `/api/v1/watch/pods`.
    pub verb_in_path: bool,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, empty when none is named.
    pub namespace: String,
    /// Whether the resource stands below `namespaces/NS/`.
    pub nested: bool,
    /// Plural name.
    pub resource: String,
    /// Object name, empty for a collection.
    pub name: String,
    /// Below the object, empty for the object itself.
    pub subresource: String,
    /// What follows the subresource (`pods/x/proxy/PATH`), as it was sent.
    pub rest: String,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestInfo {
    /// Objects.
    Resource(ResourceRequest),
    /// Anything else: health, discovery, version.
    Path {
        /// The HTTP method in lower case, which is the verb that authorization sees.
        verb: &'static str,
        /// The path as it was sent.
        path: String,
    },
}

impl RequestInfo {
    /// Reads method, path and the `watch` parameter.
    pub fn new(method: &Method, path: &str, watch: bool) -> Self {
        match ResourceRequest::new(method, path, watch) {
            Some(request) => Self::Resource(request),
            None => Self::Path { verb: path_verb(method), path: path.to_owned() },
        }
    }
}

impl ResourceRequest {
    /// None for what is no path of a resource. An encoded slash makes it none: segments stay what they were when sent.
    fn new(method: &Method, path: &str, watch: bool) -> Option<Self> {
        let sent: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
        let decoded: Vec<String> = sent.iter().map(|segment| decode(segment)).collect();
        let words: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, below) = match words.as_slice() {
            ["api", version, below @ ..] if !below.is_empty() => ("", *version, below),
            ["apis", group, version, below @ ..] if !below.is_empty() => (*group, *version, below),
            _ => return None,
        };
        let (special, below) = match below {
            ["watch"] | ["proxy"] => return None,
            ["watch", below @ ..] => (Some("watch"), below),
            // Long gone, and still not a resource: a role for resources called `proxy` must not open it.
            ["proxy", below @ ..] => (Some("proxy"), below),
            below => (None, below),
        };
        let (namespace, nested, parts) = match below {
            ["namespaces", namespace, parts @ ..]
                if !parts.is_empty() && !NAMESPACE_SUBRESOURCES.contains(&parts[0]) =>
            {
                (*namespace, true, parts)
            }
            ["namespaces", namespace, ..] => (*namespace, false, below),
            parts => ("", false, parts),
        };
        let part = |index: usize| parts.get(index).copied().unwrap_or_default();
        let name = part(1);
        let head = words.len() - parts.len().saturating_sub(3);
        if words[..head].iter().any(|word| word.contains('/')) {
            return None;
        }
        Some(Self {
            verb: special.unwrap_or_else(|| verb(method, name.is_empty(), watch)),
            verb_in_path: special.is_some(),
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            nested,
            resource: part(0).to_owned(),
            name: name.to_owned(),
            subresource: part(2).to_owned(),
            rest: sent[head..].join("/"),
        })
    }
}

fn verb(method: &Method, collection: bool, watch: bool) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if collection => "deletecollection",
        Method::DELETE => "delete",
        Method::GET | Method::HEAD if !collection => "get",
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD => "list",
        _ => "",
    }
}

fn path_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}

/// Percent-decoding of one path segment; what is not valid stays as it is and later fails as a name.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str) -> String {
        match RequestInfo::new(&method, path, false) {
            RequestInfo::Path { verb, path } => format!("{verb} {path}"),
            RequestInfo::Resource(r) => format!(
                "{} {}|{}|ns={} {}/{}/{}/{}",
                r.verb, r.group, r.version, r.namespace, r.resource, r.name, r.subresource, r.rest
            ),
        }
    }

    #[test]
    fn every_form_of_path_is_understood() {
        for (method, path, want) in [
            (Method::GET, "/api", "get /api"),
            (Method::GET, "/api/v1", "get /api/v1"),
            (Method::GET, "/apis/apps/v1/", "get /apis/apps/v1/"),
            (Method::GET, "/healthz", "get /healthz"),
            (Method::GET, "/api/v1/pods", "list |v1|ns= pods///"),
            (Method::GET, "/api/v1/namespaces/a/pods", "list |v1|ns=a pods///"),
            (Method::GET, "/api/v1/namespaces/a/pods/p", "get |v1|ns=a pods/p//"),
            (Method::GET, "/api/v1/namespaces/a/pods/p/log", "get |v1|ns=a pods/p/log/"),
            (Method::GET, "/api/v1/namespaces/a/services/s:80/proxy/x/y", "get |v1|ns=a services/s:80/proxy/x/y"),
            (Method::GET, "/api/v1/namespaces", "list |v1|ns= namespaces///"),
            (Method::GET, "/api/v1/namespaces/a", "get |v1|ns=a namespaces/a//"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update |v1|ns=a namespaces/a/finalize/"),
            (Method::PATCH, "/api/v1/namespaces/a/status", "patch |v1|ns=a namespaces/a/status/"),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection |v1|ns=a pods///"),
            (Method::POST, "/apis/apps/v1/namespaces/a/deployments", "create apps|v1|ns=a deployments///"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods", "watch |v1|ns=a pods///"),
            (Method::PUT, "/api/v1/watch/namespaces/a/pods/p", "watch |v1|ns=a pods/p//"),
            (Method::GET, "/api/v1/proxy/namespaces/a/pods/p", "proxy |v1|ns=a pods/p//"),
            (Method::GET, "/api/v1/watch", "get /api/v1/watch"),
            (Method::GET, "/api/v1/namespaces/a/pods/", "list |v1|ns=a pods///"),
            (Method::GET, "/api/v1/namespaces/a/namespaces/b", "get |v1|ns=a namespaces/b//"),
            (Method::DELETE, "/api/v1/namespaces/a//pods/p", "delete |v1|ns=a /pods/p/"),
            (Method::GET, "/api/v1/namespaces//pods", "list |v1|ns= pods///"),
            (Method::GET, "//api/v1/pods", "get //api/v1/pods"),
            (Method::GET, "/api/v1/namespaces/a%2Fpods", "get /api/v1/namespaces/a%2Fpods"),
            (Method::GET, "/api/v1/namespaces/a/pods/%252e%2e", "get |v1|ns=a pods/%2e.//"),
            (Method::GET, "/api/v1/namespaces/a/pods/p/proxy/%2Fx//y", "get |v1|ns=a pods/p/proxy/%2Fx//y"),
            (Method::OPTIONS, "/api/v1/pods", " |v1|ns= pods///"),
            (
                Method::GET,
                "/apis/networking.k8s.io/v1/ipaddresses/fd00%3A%3A1",
                "get networking.k8s.io|v1|ns= ipaddresses/fd00::1//",
            ),
        ] {
            assert_eq!(ask(method, path), want, "{path}");
        }
    }

    #[test]
    fn a_named_object_is_read_and_not_watched() {
        for (path, want) in [("/api/v1/pods", "watch"), ("/api/v1/namespaces/a/pods/p", "get")] {
            let RequestInfo::Resource(asked) = RequestInfo::new(&Method::GET, path, true) else { panic!("{path}") };
            assert_eq!(asked.verb, want);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in "(/|[a-z%0-9.:]|\\PC){0,60}") {
            ask(Method::GET, &path);
        }
    }
}
