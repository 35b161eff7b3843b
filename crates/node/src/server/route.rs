//! Which thing a path asks for, and which right it needs. Pure.
//!
//! Paths and rights are upstream's: `nodes/NAME` with a subresource of its own where there is one, else `proxy`, which opens everything.

use http::Method;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Pods,
    RunningPods,
    Logs(Named),
    Exec(Named),
    Attach(Named),
    PortForward(Named),
    Summary,
    Metrics,
    ResourceMetrics,
    CadvisorMetrics,
    ProbeMetrics,
    Config,
    /// `/healthz` and what is below it.
    Health,
    Checkpoint,
    Unknown,
}

/// A Pod, and a container of it if the path has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: Option<String>,
    pub(super) container: String,
}

impl Route {
    pub(super) fn of(path: &str) -> Self {
        let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let named = |namespace: &str, pod: &str, uid: Option<&str>, container: &str| Named {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.map(str::to_owned),
            container: container.to_owned(),
        };
        match parts[..] {
            ["pods"] => Self::Pods,
            ["runningpods"] => Self::RunningPods,
            ["containerLogs", namespace, pod, container] => Self::Logs(named(namespace, pod, None, container)),
            ["exec", namespace, pod, container] => Self::Exec(named(namespace, pod, None, container)),
            ["exec", namespace, pod, uid, container] => Self::Exec(named(namespace, pod, Some(uid), container)),
            ["attach", namespace, pod, container] => Self::Attach(named(namespace, pod, None, container)),
            ["attach", namespace, pod, uid, container] => Self::Attach(named(namespace, pod, Some(uid), container)),
            ["portForward", namespace, pod] => Self::PortForward(named(namespace, pod, None, "")),
            ["portForward", namespace, pod, uid] => Self::PortForward(named(namespace, pod, Some(uid), "")),
            ["stats", "summary"] => Self::Summary,
            ["metrics"] => Self::Metrics,
            ["metrics", "resource"] => Self::ResourceMetrics,
            ["metrics", "cadvisor"] => Self::CadvisorMetrics,
            ["metrics", "probes"] => Self::ProbeMetrics,
            ["configz"] => Self::Config,
            ["healthz", ..] => Self::Health,
            ["checkpoint", ..] => Self::Checkpoint,
            _ => Self::Unknown,
        }
    }

    /// Whether a method fits.
    pub(super) fn takes(&self, method: &Method) -> bool {
        match self {
            Self::Exec(_) | Self::Attach(_) | Self::PortForward(_) => [Method::GET, Method::POST].contains(method),
            Self::Checkpoint => *method == Method::POST,
            _ => [Method::GET, Method::HEAD].contains(method),
        }
    }
}

/// `%41` is `A`; what is no such code stays.
pub(super) fn decoded(part: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = part.as_bytes();
    while let Some((first, rest)) = bytes.split_first() {
        let code = rest.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                bytes = &rest[2..];
            }
            None => {
                out.push(*first);
                bytes = rest;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The verb that a method stands for, as upstream names it to the authorizer.
pub(super) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Subresources of the node that open a path; any of them is enough.
pub(super) fn subresources(path: &str) -> &'static [&'static str] {
    let below = |folder: &str| path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    if below("/pods") || below("/runningpods") {
        &["pods", "proxy"]
    } else if below("/healthz") {
        &["healthz", "proxy"]
    } else if below("/configz") {
        &["configz", "proxy"]
    } else if below("/stats") {
        &["stats"]
    } else if below("/metrics") {
        &["metrics"]
    } else if below("/logs") {
        &["log"]
    } else if below("/checkpoint") {
        &["checkpoint"]
    } else {
        &["proxy"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(uid: Option<&str>, container: &str) -> Named {
        Named { namespace: "n".into(), pod: "p".into(), uid: uid.map(str::to_owned), container: container.into() }
    }

    #[test]
    fn paths_are_upstreams() {
        for (path, want) in [
            ("/pods", Route::Pods),
            ("/pods/", Route::Pods),
            ("/runningpods/", Route::RunningPods),
            ("/containerLogs/n/p/c", Route::Logs(named(None, "c"))),
            ("/exec/n/p/c", Route::Exec(named(None, "c"))),
            ("/exec/n/p/u/c%20d", Route::Exec(named(Some("u"), "c d"))),
            ("/attach/n/p/c", Route::Attach(named(None, "c"))),
            ("/portForward/n/p", Route::PortForward(named(None, ""))),
            ("/stats/summary", Route::Summary),
            ("/metrics/cadvisor", Route::CadvisorMetrics),
            ("/healthz/ping", Route::Health),
            ("/debug/pprof", Route::Unknown),
            ("/", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), want, "{path}");
        }
        assert!(Route::of("/exec/n/p/c").takes(&Method::POST) && !Route::of("/pods").takes(&Method::POST));
    }

    #[test]
    fn each_path_has_its_right() {
        for (path, want) in [
            ("/pods", &["pods", "proxy"][..]),
            ("/runningpods/", &["pods", "proxy"]),
            ("/podsx", &["proxy"]),
            ("/healthz/ping", &["healthz", "proxy"]),
            ("/configz", &["configz", "proxy"]),
            ("/stats/summary", &["stats"]),
            ("/metrics/resource", &["metrics"]),
            ("/logs/x", &["log"]),
            ("/checkpoint/n/p/c", &["checkpoint"]),
            ("/exec/n/p/c", &["proxy"]),
            ("/containerLogs/n/p/c", &["proxy"]),
        ] {
            assert_eq!(subresources(path), want, "{path}");
        }
        assert_eq!([Method::GET, Method::POST, Method::HEAD].map(|method| verb(&method)), ["get", "create", ""]);
    }
}
