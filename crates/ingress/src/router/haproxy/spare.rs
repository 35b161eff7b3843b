//! Spare backends: their sorts, their text, and what of a claim is set on one while HAProxy runs.
//!
//! A plain spare does what most claims ask for. A tuned one reads timeouts, allow list and the path of its cookie from maps and
//! a list, which the socket changes. A split one is tuned and takes turns, for claims with several Services.

use super::{Layout, backend};
use crate::router::{
    model::{Balance, Claim, PathKind, PathMatch},
    settings::Settings,
    text::{self, quoted},
};
use net::Cidr;
use std::{fmt::Write, path::PathBuf};

/// A sort of spare backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Pool {
    /// Plain HTTP.
    Http,
    /// TLS ended here.
    Edge,
    /// TLS passed through.
    Tcp,
    /// Plain HTTP with wishes.
    TunedHttp,
    /// TLS ended here, with wishes.
    TunedEdge,
    /// Plain HTTP, shared among Services.
    SplitHttp,
    /// TLS ended here, shared among Services.
    SplitEdge,
    /// TLS passed through, shared among Services.
    SplitTcp,
}

impl Pool {
    /// All of them, the simplest first.
    pub(crate) const ALL: [Self; 8] = [
        Self::Http,
        Self::Edge,
        Self::Tcp,
        Self::TunedHttp,
        Self::TunedEdge,
        Self::SplitHttp,
        Self::SplitEdge,
        Self::SplitTcp,
    ];

    /// The names of all that a generation has; the first is used last.
    pub(crate) fn names(self, settings: &Settings) -> Vec<String> {
        let size = settings.reload.pool;
        let size = if self.takes_turns() { size.div_ceil(5) } else { size };
        (0..size).rev().map(|number| format!("{}:{number}", self.prefix())).collect()
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Http => "spare_http",
            Self::Edge => "spare_edge",
            Self::Tcp => "spare_tcp",
            Self::TunedHttp => "spare_tuned_http",
            Self::TunedEdge => "spare_tuned_edge",
            Self::SplitHttp => "spare_split_http",
            Self::SplitEdge => "spare_split_edge",
            Self::SplitTcp => "spare_split_tcp",
        }
    }

    /// Whether it reads its claim's wishes from maps.
    pub(crate) fn is_tuned(self) -> bool {
        matches!(self, Self::TunedHttp | Self::TunedEdge | Self::SplitHttp | Self::SplitEdge)
    }

    fn takes_turns(self) -> bool {
        matches!(self, Self::SplitHttp | Self::SplitEdge | Self::SplitTcp)
    }

    fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::SplitTcp)
    }

    fn defaults(self, settings: &Settings) -> &'static str {
        if self.is_tcp() { "tcp" } else { backend::forwarded_defaults(settings.http.forwarded) }
    }

    fn body(self, settings: &Settings) -> String {
        let usual = if self.is_tcp() { &settings.resources.tcp_balance } else { &settings.resources.balance };
        let balance = if self.takes_turns() { Balance::RoundRobin.word() } else { usual };
        let sticky = match self {
            Self::Tcp | Self::SplitTcp => String::new(),
            Self::Http | Self::TunedHttp | Self::SplitHttp => backend::stickiness(settings, None, false, None),
            Self::Edge | Self::TunedEdge | Self::SplitEdge => backend::stickiness(settings, None, true, None),
        };
        format!("{}{sticky}", backend::balance(balance))
    }

    /// What it does for every claim.
    pub(crate) fn core(self, settings: &Settings) -> String {
        format!("{}\n{}", self.defaults(settings), self.body(settings))
    }
}

/// A map that tuned spares look their own name up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TuneMap {
    /// Milliseconds for an answer.
    ServerTimeout,
    /// Milliseconds for an upgraded connection.
    TunnelTimeout,
    /// Where the cookie is sent back to.
    CookiePath,
    /// Holds backends that have an allow list.
    Guarded,
    /// As whom access logs show it: the backend that its claim has after the next reload.
    LogName,
}

impl TuneMap {
    pub(crate) const ALL: [Self; 5] =
        [Self::ServerTimeout, Self::TunnelTimeout, Self::CookiePath, Self::Guarded, Self::LogName];

    /// Its file in a generation; also its name on the socket.
    pub(crate) fn path(self, layout: &Layout, number: u64) -> PathBuf {
        let name = match self {
            Self::ServerTimeout => "server-timeout.map",
            Self::TunnelTimeout => "tunnel-timeout.map",
            Self::CookiePath => "cookie-path.map",
            Self::Guarded => "guarded.map",
            Self::LogName => "log-name.map",
        };
        layout.generation(number).join(name)
    }
}

/// The allow list of one tuned spare.
pub(crate) fn allow_file(layout: &Layout, number: u64, name: &str) -> PathBuf {
    layout.generation(number).join(format!("allow-{}.list", name.replace(':', "-")))
}

/// The section of a spare.
pub(crate) fn section(pool: Pool, name: &str, settings: &Settings, layout: &Layout, number: u64) -> String {
    let mut section = format!("backend {name} from {}\n{}", pool.defaults(settings), pool.body(settings));
    if pool.is_tuned() {
        let file = |map: TuneMap| map.path(layout, number).display().to_string();
        for (word, map) in [("server", TuneMap::ServerTimeout), ("tunnel", TuneMap::TunnelTimeout)] {
            let file = file(map);
            // Writing to a text does not fail.
            let _ = writeln!(
                section,
                "  http-request set-timeout {word} be_name,map_str_int({file}) if {{ be_name,map_str({file}) -m found }}"
            );
        }
        let _ = writeln!(
            section,
            "  http-request deny deny_status 403 if {{ be_name,map_str({}) -m found }} !{{ src -f {} }}",
            file(TuneMap::Guarded),
            allow_file(layout, number, name).display()
        );
        let path = format!("%[be_name,map_str({},/)]", file(TuneMap::CookiePath));
        section += &cookie_path(backend::cookie(settings, None), &path);
    }
    section
}

/// Limits the router's cookie to a path, given in HAProxy's log format, so that paths of one host do not take it from each
/// other.
pub(crate) fn cookie_path(cookie: &str, path: &str) -> String {
    let pattern = format!("^({}=[^;]*; path=)/(.*)$", text::regex_literal(cookie));
    format!(
        "  http-after-response replace-header Set-Cookie {} {}\n",
        quoted(&pattern),
        quoted(&format!("\\1{path}\\2"))
    )
}

/// The path that a claim's cookie is limited to; `None` is the whole host. A cookie cannot name a path with a semicolon or a
/// comma, but the folder above.
pub(crate) fn own_path(claim: &Claim) -> Option<&str> {
    let path = claim.path.text.as_str();
    let path = match path.find([';', ',']) {
        Some(at) => &path[..=path[..at].rfind('/')?],
        None => path,
    };
    Some(path).filter(|path| *path != "/")
}

/// What is set on a spare for its claim; but for its name in access logs, on a tuned one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    server_ms: Option<u64>,
    tunnel_ms: Option<u64>,
    cookie_path: Option<String>,
    allow: Option<Vec<Cidr>>,
    log_name: Option<String>,
}

impl Tuning {
    /// None when a wish cannot be set at run time: HAProxy takes no timeout of zero there.
    fn of(claim: &Claim, settings: &Settings) -> Option<Self> {
        let time = |time: &Option<String>| match time.as_deref().map(text::milliseconds) {
            None => Some(None),
            Some(Some(ms)) if ms > 0 => Some(Some(ms)),
            Some(_) => None,
        };
        Some(Self {
            server_ms: time(&claim.options.timeout)?,
            tunnel_ms: time(&claim.options.tunnel_timeout)?,
            cookie_path: own_path(claim).map(str::to_owned),
            allow: claim.options.allow.clone(),
            log_name: settings.log.as_ref().map(|_| backend::name(claim)),
        })
    }

    fn value(&self, map: TuneMap) -> Option<String> {
        match map {
            TuneMap::ServerTimeout => self.server_ms.map(|ms| ms.to_string()),
            TuneMap::TunnelTimeout => self.tunnel_ms.map(|ms| ms.to_string()),
            TuneMap::CookiePath => self.cookie_path.clone(),
            TuneMap::Guarded => self.allow.as_ref().map(|_| "1".to_owned()),
            TuneMap::LogName => self.log_name.clone(),
        }
    }
}

/// Which sorts of spare can serve a claim, the simplest first, and what is set on one. Everything else needs a backend of its
/// own.
pub(crate) fn fitting(claim: &Claim, settings: &Settings) -> (Vec<Pool>, Tuning) {
    let Some(tuning) = Tuning::of(claim, settings) else { return (Vec::new(), Tuning::default()) };
    let mut rest = claim.clone();
    rest.path = PathMatch { text: "/".to_owned(), kind: PathKind::Route };
    (rest.options.timeout, rest.options.tunnel_timeout, rest.options.allow) = (None, None, None);
    let core = backend::core(&rest, settings);
    let plain = Tuning { log_name: None, ..tuning.clone() } == Tuning::default();
    let fits = |pool: &Pool| (pool.is_tuned() || plain) && pool.core(settings) == core;
    (Pool::ALL.into_iter().filter(fits).collect(), tuning)
}

/// The commands that turn one tuning into another. A guard comes after its list and goes before it; of two lists the new
/// entries come before the old ones go.
pub(crate) fn commands(layout: &Layout, number: u64, name: &str, old: &Tuning, new: &Tuning) -> Vec<String> {
    let list = allow_file(layout, number, name);
    let entries = |tuning: &Tuning| tuning.allow.clone().unwrap_or_default();
    let (before, after) = (entries(old), entries(new));
    let added = after.iter().filter(|block| !before.contains(block));
    let gone = before.iter().filter(|block| !after.contains(block));
    let mut commands: Vec<String> = added.map(|block| format!("add acl {} {block}", list.display())).collect();
    for map in TuneMap::ALL {
        let file = map.path(layout, number);
        let file = file.display();
        match (old.value(map), new.value(map)) {
            (None, Some(value)) => commands.push(format!("add map {file} {name} {value}")),
            (Some(old), Some(value)) if old != value => commands.push(format!("set map {file} {name} {value}")),
            (Some(_), None) => commands.push(format!("del map {file} {name}")),
            _ => {}
        }
    }
    commands.extend(gone.map(|block| format!("del acl {} {block}", list.display())));
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("/w".as_ref()).unwrap()
    }

    fn tuning(server: Option<u64>, path: &str, allow: Option<&[&str]>) -> Tuning {
        Tuning {
            server_ms: server,
            tunnel_ms: None,
            cookie_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            allow: allow.map(|list| list.iter().map(|block| block.parse().unwrap()).collect()),
            log_name: None,
        }
    }

    #[test]
    fn nobody_is_let_in_or_kept_out_while_a_list_changes() {
        let (none, some) = (tuning(None, "", None), tuning(None, "", Some(&["10.0.0.0/8", "fd00::/8"])));
        for (name, old, new, expected) in [
            ("nothing", &none, none.clone(), &[][..]),
            (
                "a list comes before its guard",
                &none,
                some.clone(),
                &["add acl L 10.0.0.0/8", "add acl L fd00::/8", "add map guarded.map b 1"],
            ),
            (
                "the guard goes before its list",
                &some,
                none.clone(),
                &["del map guarded.map b", "del acl L 10.0.0.0/8", "del acl L fd00::/8"],
            ),
            (
                "new entries before the old ones go",
                &some,
                tuning(None, "", Some(&["10.0.0.0/8", "2001:db8::/32"])),
                &["add acl L 2001:db8::/32", "del acl L fd00::/8"],
            ),
            ("nobody", &some, tuning(None, "", Some(&[])), &["del acl L 10.0.0.0/8", "del acl L fd00::/8"]),
            (
                "a path and a time",
                &none,
                tuning(Some(1500), "/foo", None),
                &["add map server-timeout.map b 1500", "add map cookie-path.map b /foo"],
            ),
            (
                "another time, no path",
                &tuning(Some(1500), "/foo", None),
                tuning(Some(2000), "", None),
                &["set map server-timeout.map b 2000", "del map cookie-path.map b"],
            ),
        ] {
            let found: Vec<String> = commands(&layout(), 1, "b", old, &new)
                .into_iter()
                .map(|command| command.replace("/w/generation-1/allow-b.list", "L").replace("/w/generation-1/", ""))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
