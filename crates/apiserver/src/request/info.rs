//! What a request asks for, read from its method and path alone.
//!
//! One grammar serves every kind: `/api/v1` or `/apis/GROUP/VERSION`, then `[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/PATH]]]`.
//! Namespaces are both a resource and a part of the path: `/api/v1/namespaces/x/finalize` is a subresource,
//! `/api/v1/namespaces/x/pods` is not.

use http::Method;

/// The words after `namespaces/NAME` that are subresources of the namespace and not resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// A request to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceRequest {
    /// Upstream's verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: &'static str,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, empty when none is named.
    pub namespace: String,
    /// Plural name.
    pub resource: String,
    /// Object name, empty for a collection.
    pub name: String,
    /// Below the object, empty for the object itself.
    pub subresource: String,
    /// What follows the subresource (`pods/x/proxy/PATH`).
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
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let other = || Self::Path { verb: path_verb(method), path: path.to_owned() };
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return other(),
        };
        // The old way to watch: /api/v1/watch/pods.
        let mut old_watch = false;
        if let ["watch", deeper @ ..] = rest
            && !deeper.is_empty()
        {
            old_watch = true;
            rest = deeper;
        }
        let mut request =
            ResourceRequest { group: group.to_owned(), version: version.to_owned(), ..ResourceRequest::default() };
        rest = match rest {
            ["namespaces", namespace, word, ..] if NAMESPACE_SUBRESOURCES.contains(word) => {
                request.namespace = decode(namespace);
                rest
            }
            ["namespaces", namespace, deeper @ ..] if !deeper.is_empty() => {
                request.namespace = decode(namespace);
                deeper
            }
            ["namespaces", namespace] => {
                request.namespace = decode(namespace);
                rest
            }
            _ => rest,
        };
        request.resource = rest.first().map(|part| decode(part)).unwrap_or_default();
        request.name = rest.get(1).map(|part| decode(part)).unwrap_or_default();
        request.subresource = rest.get(2).map(|part| decode(part)).unwrap_or_default();
        request.rest = rest.get(3..).unwrap_or_default().join("/");
        request.verb = verb(method, request.name.is_empty(), (watch && request.subresource.is_empty()) || old_watch);
        Self::Resource(request)
    }
}

fn verb(method: &Method, collection: bool, watch: bool) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if collection => "deletecollection",
        Method::DELETE => "delete",
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD if collection => "list",
        Method::GET | Method::HEAD => "get",
        _ => "other",
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
            (
                Method::GET,
                "/apis/networking.k8s.io/v1/ipaddresses/fd00%3A%3A1",
                "get networking.k8s.io|v1|ns= ipaddresses/fd00::1//",
            ),
        ] {
            assert_eq!(ask(method, path), want, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in "(/|[a-z%0-9.:]|\\PC){0,60}") {
            ask(Method::GET, &path);
        }
    }
}
