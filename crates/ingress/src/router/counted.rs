//! What HAProxy counts for each frontend, Route and pod, under upstream's names and added up over its replacements.
//!
//! A series is known by its labels, not by the backend that happens to serve a Route now: a Route that moves to a spare, or
//! whose HAProxy is replaced, goes on counting. What the last HAProxy counts for connections that outlive it is not seen.

use super::{
    haproxy::{Row, rows},
    model::{Id, Termination},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

/// Above this many servers only their backends are shown, as upstream does.
const SERVER_THRESHOLD: usize = 500;

/// What a figure is, and so what becomes of it where several backends serve one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// It only grows, and goes on from where it was.
    Counter,
    /// As many as now.
    Number,
    /// The highest, or the slowest.
    Most,
    /// `UP` and its kin.
    Status,
}

/// A column of HAProxy: name, name of the metric, its code, what it is, and for which sorts of rows it is shown.
type Column = (&'static str, &'static str, &'static str, Is, &'static [Sort]);

const ALL_SORTS: &[Sort] = &[Sort::Frontend, Sort::Backend, Sort::Server];
const BEHIND: &[Sort] = &[Sort::Backend, Sort::Server];

/// What upstream shows unless it is told otherwise. Columns of one metric stand together.
const COLUMNS: [Column; 24] = [
    ("qcur", "current_queue", "", Is::Number, BEHIND),
    ("scur", "current_sessions", "", Is::Number, ALL_SORTS),
    ("smax", "max_sessions", "", Is::Most, ALL_SORTS),
    ("stot", "connections_total", "", Is::Counter, BEHIND),
    ("conn_tot", "connections_total", "", Is::Counter, &[Sort::Frontend]),
    ("bin", "bytes_in_total", "", Is::Counter, ALL_SORTS),
    ("bout", "bytes_out_total", "", Is::Counter, ALL_SORTS),
    ("econ", "connection_errors_total", "", Is::Counter, BEHIND),
    ("eresp", "response_errors_total", "", Is::Counter, BEHIND),
    ("status", "up", "", Is::Status, BEHIND),
    ("chkfail", "check_failures_total", "", Is::Counter, &[Sort::Server]),
    ("downtime", "downtime_seconds_total", "", Is::Counter, &[Sort::Server]),
    ("rate", "current_session_rate", "", Is::Number, ALL_SORTS),
    ("rate_max", "max_session_rate", "", Is::Most, ALL_SORTS),
    ("hrsp_1xx", "http_responses_total", "1xx", Is::Counter, ALL_SORTS),
    ("hrsp_2xx", "http_responses_total", "2xx", Is::Counter, ALL_SORTS),
    ("hrsp_3xx", "http_responses_total", "3xx", Is::Counter, ALL_SORTS),
    ("hrsp_4xx", "http_responses_total", "4xx", Is::Counter, ALL_SORTS),
    ("hrsp_5xx", "http_responses_total", "5xx", Is::Counter, ALL_SORTS),
    ("hrsp_other", "http_responses_total", "other", Is::Counter, ALL_SORTS),
    ("qtime", "http_average_queue_latency_milliseconds", "", Is::Most, BEHIND),
    ("ctime", "http_average_connect_latency_milliseconds", "", Is::Most, BEHIND),
    ("rtime", "http_average_response_latency_milliseconds", "", Is::Most, BEHIND),
    ("reuse", "connections_reused_total", "", Is::Counter, BEHIND),
];

/// The figures of one series, in the order of the columns.
type Figures = [Option<u64>; COLUMNS.len()];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Sort {
    Frontend,
    Backend,
    Server,
}

impl Sort {
    fn of(row: &Row<'_>) -> Self {
        match row.service {
            "FRONTEND" => Self::Frontend,
            "BACKEND" => Self::Backend,
            _ => Self::Server,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Server => "server",
        }
    }
}

/// The backend that serves a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    backend: String,
    mode: &'static str,
    /// What the backend had counted when it began to serve this claim.
    before: Figures,
}

impl Served {
    /// `before` is what HAProxy told of a spare that had served another claim.
    pub(super) fn new(backend: &str, termination: Termination, before: Option<&str>) -> Self {
        let mode = match termination {
            Termination::Plain => "http",
            Termination::Edge => "https-edge",
            Termination::Reencrypt => "https",
            Termination::Passthrough => "tcp",
        };
        Self { backend: backend.to_owned(), mode, before: before.map(figures_of_one).unwrap_or_default() }
    }
}

/// A sort and its labels.
type Series = (Sort, String);

/// What is counted, and what was counted by a HAProxy or a backend that is gone.
#[derive(Debug, Default)]
pub(super) struct Counted {
    served: HashMap<Id, Served>,
    before: HashMap<Series, Figures>,
    /// Set while HAProxy is replaced: nobody knows which one answers.
    replacing: bool,
    /// How often it was replaced.
    replaced: u64,
    /// What was shown last.
    shown: String,
}

impl Counted {
    /// Which backend serves a claim now, if one does.
    pub(super) fn serves(&mut self, id: &Id, now: Option<Served>) {
        match now {
            Some(now) => drop(self.served.insert(id.clone(), now)),
            None => {
                let gone = self.served.remove(id);
                gone.map(|gone| self.before.remove(&(Sort::Backend, labels_of_backend(gone.mode, id))));
            }
        }
    }

    /// The backend that serves a claim, as far as this knows.
    pub(super) fn backend(&self, id: &Id) -> Option<&str> {
        self.served.get(id).map(|served| served.backend.as_str())
    }

    /// A claim has left a backend, which had counted this.
    pub(super) fn left(&mut self, id: &Id, stat: &str) {
        let Some(served) = self.served.get(id) else { return };
        let counted = since(&figures_of_one(stat), &served.before);
        let series = (Sort::Backend, labels_of_backend(served.mode, id));
        add(self.before.entry(series).or_default(), &only_counters(&counted));
    }

    /// HAProxy is about to be replaced.
    pub(super) fn begin(&mut self) {
        self.replacing = true;
    }

    /// HAProxy was replaced, after it had told this; without an answer, what it counted is lost.
    pub(super) fn replaced(&mut self, last: Option<&str>, served: HashMap<Id, Served>) {
        if let Some(last) = last {
            let counted = self.table(last).into_iter().map(|(series, figures)| (series, only_counters(&figures)));
            self.before = counted.collect();
        }
        self.served = served;
        self.replaced += 1;
        self.replacing = false;
    }

    /// HAProxy was not replaced: the last one goes on.
    pub(super) fn kept(&mut self) {
        self.replacing = false;
    }

    /// What an answer has to name to be of the HAProxy that serves. None while that is being replaced.
    pub(super) fn turn(&self) -> Option<u64> {
        (!self.replacing).then_some(self.replaced)
    }

    /// The text of Prometheus for what HAProxy told in a turn; what was shown last, when the turn is over.
    pub(super) fn show(&mut self, turn: Option<u64>, stat: Option<&str>) -> &str {
        if turn.is_some() && turn == self.turn() {
            self.shown = self.text(stat);
        }
        &self.shown
    }

    fn text(&self, stat: Option<&str>) -> String {
        let mut text = format!(
            "# HELP haproxy_up Whether HAProxy answers.\n# TYPE haproxy_up gauge\nhaproxy_up {}\n",
            u8::from(stat.is_some())
        );
        let Some(stat) = stat else { return text };
        let table = self.table(stat);
        let servers = table.keys().filter(|(sort, _)| *sort == Sort::Server).count();
        text += "# TYPE haproxy_exporter_server_threshold gauge\n";
        let _ = writeln!(text, "haproxy_exporter_server_threshold{{type=\"current\"}} {servers}");
        let _ = writeln!(text, "haproxy_exporter_server_threshold{{type=\"limit\"}} {SERVER_THRESHOLD}");
        for sort in ALL_SORTS.iter().copied().filter(|sort| *sort != Sort::Server || servers <= SERVER_THRESHOLD) {
            let rows: Vec<_> = table.iter().filter(|((of, _), _)| *of == sort).collect();
            let mut last = "";
            for (at, (_, metric, code, is, shown)) in COLUMNS.iter().enumerate() {
                let with: Vec<_> = rows.iter().filter_map(|((_, labels), row)| Some((labels, row[at]?))).collect();
                if with.is_empty() || !shown.contains(&sort) {
                    continue;
                }
                let name = format!("haproxy_{}_{metric}", sort.word());
                if last != *metric {
                    let _ = writeln!(text, "# TYPE {name} {}", if *is == Is::Counter { "counter" } else { "gauge" });
                    last = metric;
                }
                let code = if code.is_empty() { String::new() } else { format!(",code=\"{code}\"") };
                for (labels, figure) in with {
                    let _ = writeln!(text, "{name}{{{labels}{code}}} {figure}");
                }
            }
        }
        text
    }

    /// Every series with its figures, those of before included.
    fn table(&self, stat: &str) -> BTreeMap<Series, Figures> {
        let owners: HashMap<&str, (&Id, &Served)> =
            self.served.iter().map(|(id, served)| (served.backend.as_str(), (id, served))).collect();
        let mut table: BTreeMap<Series, Figures> = BTreeMap::new();
        for row in rows(stat, &COLUMNS.map(|(column, ..)| column)) {
            let owner = owners.get(row.proxy).copied();
            let (sort, figures) = (Sort::of(&row), figures(&row));
            let (labels, figures) = match (sort, owner) {
                // What a connection goes through before it comes to the frontend that is shown.
                _ if ["header_", "told_", "own_"].iter().any(|inner| row.proxy.starts_with(inner)) => continue,
                (Sort::Frontend, _) => (format!("frontend=\"{}\"", row.proxy), figures),
                // A spare that serves nobody has nothing to show.
                (_, None) if row.proxy.starts_with("spare_") => continue,
                (Sort::Backend, None) => {
                    (format!("backend=\"other/{}\",namespace=\"\",route=\"\"", row.proxy), figures)
                }
                (Sort::Backend, Some((id, served))) => {
                    (labels_of_backend(served.mode, id), since(&figures, &served.before))
                }
                (Sort::Server, owner) => (labels_of_server(row.service, owner.map(|(id, _)| id)), figures),
            };
            add(table.entry((sort, labels)).or_default(), &figures);
        }
        for (series, figures) in &mut table {
            self.before.get(series).into_iter().for_each(|before| add(figures, before));
        }
        table
    }
}

/// Names of objects and of HAProxy's parts have no sign that labels would have to escape.
fn labels_of_backend(mode: &str, id: &Id) -> String {
    format!("backend=\"{mode}\",namespace=\"{}\",route=\"{}\"", id.key.namespace, id.key.name)
}

/// Servers are named after their pod, Service and port: `pod:POD:SERVICE:PORT:ADDRESS`, and without a pod `ept:SERVICE:PORT:ADDRESS`.
fn labels_of_server(name: &str, owner: Option<&Id>) -> String {
    let (pod, service, server) = match name.split_once(':') {
        Some(("pod", rest)) => {
            let mut parts = rest.splitn(4, ':');
            let (pod, service) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            (pod, service, parts.nth(1).unwrap_or(name))
        }
        Some(("ept", rest)) => {
            let mut parts = rest.splitn(3, ':');
            ("", parts.next().unwrap_or_default(), parts.nth(1).unwrap_or(name))
        }
        _ => ("", "", name),
    };
    let (namespace, route) = owner.map_or(("", ""), |id| (&id.key.namespace, &id.key.name));
    format!("namespace=\"{namespace}\",pod=\"{pod}\",route=\"{route}\",server=\"{server}\",service=\"{service}\"")
}

fn figures(row: &Row<'_>) -> Figures {
    std::array::from_fn(|at| {
        let cell = row.cells[at];
        match COLUMNS[at].3 {
            Is::Status if cell.is_empty() => None,
            Is::Status => Some(u64::from(cell.starts_with("UP") || cell == "OPEN" || cell == "no check")),
            _ => cell.parse().ok(),
        }
    })
}

/// The figures of a table with one row.
fn figures_of_one(stat: &str) -> Figures {
    rows(stat, &COLUMNS.map(|(column, ..)| column)).first().map(figures).unwrap_or_default()
}

fn only_counters(all: &Figures) -> Figures {
    std::array::from_fn(|at| all[at].filter(|_| COLUMNS[at].3 == Is::Counter))
}

/// What counters grew by.
fn since(now: &Figures, before: &Figures) -> Figures {
    std::array::from_fn(|at| match COLUMNS[at].3 {
        Is::Counter => now[at].map(|now| now.saturating_sub(before[at].unwrap_or_default())),
        _ => now[at],
    })
}

fn add(sum: &mut Figures, more: &Figures) {
    for (at, more) in more.iter().enumerate() {
        let Some(more) = *more else { continue };
        sum[at] = Some(match (sum[at], COLUMNS[at].3) {
            (None, _) => more,
            (Some(sum), Is::Counter | Is::Number) => sum.saturating_add(more),
            (Some(sum), Is::Most | Is::Status) => sum.max(more),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::controller::Key;

    const HEAD: &str = "# pxname,svname,scur,stot,hrsp_2xx,conn_tot,status\n";
    const BACKEND: &str = "haproxy_backend_connections_total{backend=\"http\",namespace=\"a\",route=\"b\"}";

    fn route() -> Id {
        Id::route(Key::new("a", "b"))
    }

    fn on(backend: &str, before: Option<&str>) -> Served {
        Served::new(backend, Termination::Plain, before)
    }

    fn shown(counted: &mut Counted, rows: &str) -> String {
        let turn = counted.turn();
        counted.show(turn, Some(&format!("{HEAD}{rows}"))).to_owned()
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }

    #[test]
    fn rows_become_series_under_upstreams_names() {
        let mut counted = Counted::default();
        counted.serves(&route(), Some(on("spare_http:3", None)));
        let text = shown(
            &mut counted,
            "public,FRONTEND,1,5,5,6,OPEN\nheader_public,FRONTEND,1,5,,6,OPEN\nspare_http:3,pod:p-1:web:http:10.0.0.1:80,0,3,3,,UP\n\
             spare_http:3,ept:web:http:[fd00::1]:80,0,1,1,,DOWN\nspare_http:3,BACKEND,0,4,4,,UP\nspare_http:0,BACKEND,0,0,0,,UP\nto_https,BACKEND,0,2,0,,UP\n",
        );
        for line in [
            "haproxy_up 1",
            "haproxy_exporter_server_threshold{type=\"current\"} 2",
            "haproxy_frontend_connections_total{frontend=\"public\"} 6",
            "haproxy_frontend_http_responses_total{frontend=\"public\",code=\"2xx\"} 5",
            "# TYPE haproxy_backend_http_responses_total counter",
            "haproxy_backend_http_responses_total{backend=\"http\",namespace=\"a\",route=\"b\",code=\"2xx\"} 4",
            "haproxy_backend_up{backend=\"http\",namespace=\"a\",route=\"b\"} 1",
            "haproxy_backend_connections_total{backend=\"other/to_https\",namespace=\"\",route=\"\"} 2",
            "haproxy_server_connections_total{namespace=\"a\",pod=\"p-1\",route=\"b\",server=\"10.0.0.1:80\",service=\"web\"} 3",
            "haproxy_server_up{namespace=\"a\",pod=\"\",route=\"b\",server=\"[fd00::1]:80\",service=\"web\"} 0",
        ] {
            has(&text, line);
        }
        assert!(!text.contains("spare_http") && !text.contains("header_"), "{text}");
        assert_eq!(text.matches("# TYPE haproxy_backend_connections_total ").count(), 1);
        let turn = counted.turn();
        assert_eq!(counted.show(turn, None).lines().last(), Some("haproxy_up 0"));
    }

    #[test]
    fn the_paths_of_an_ingress_are_one_series() {
        let mut counted = Counted::default();
        for part in [0, 1] {
            let id = Id { part, source: crate::router::model::Source::Ingress, ..route() };
            counted.serves(&id, Some(on(&format!("be_http:a:b:{part}"), None)));
        }
        let text = shown(&mut counted, "be_http:a:b:0,BACKEND,0,4,4,,UP\nbe_http:a:b:1,BACKEND,0,3,3,,DOWN\n");
        has(&text, &format!("{BACKEND} 7"));
        has(&text, "haproxy_backend_up{backend=\"http\",namespace=\"a\",route=\"b\"} 1");
    }

    #[test]
    fn counters_go_on_when_haproxy_is_replaced_and_when_a_route_moves() {
        let mut counted = Counted::default();
        counted.serves(&route(), Some(on("spare_http:0", Some(&format!("{HEAD}spare_http:0,BACKEND,0,10,,,UP\n")))));
        has(&shown(&mut counted, "spare_http:0,BACKEND,0,14,,,UP\n"), &format!("{BACKEND} 4"));

        // While it is replaced nobody knows who answered, and what was shown last is shown.
        let turn = counted.turn();
        counted.begin();
        has(counted.show(turn, Some(&format!("{HEAD}be_http:a:b,BACKEND,0,0,,,UP\n"))), &format!("{BACKEND} 4"));
        has(&shown(&mut counted, "be_http:a:b,BACKEND,0,0,,,UP\n"), &format!("{BACKEND} 4"));
        let last = format!("{HEAD}spare_http:0,BACKEND,0,16,,,UP\n");
        counted.replaced(Some(&last), HashMap::from([(route(), on("be_http:a:b", None))]));
        has(counted.show(turn, Some(&last)), &format!("{BACKEND} 4"));
        has(&shown(&mut counted, "be_http:a:b,BACKEND,0,1,,,UP\n"), &format!("{BACKEND} 7"));

        counted.left(&route(), &format!("{HEAD}be_http:a:b,BACKEND,0,5,,,UP\n"));
        counted.serves(&route(), Some(on("spare_http:1", None)));
        has(
            &shown(&mut counted, "be_http:a:b,BACKEND,0,5,,,UP\nspare_http:1,BACKEND,0,2,,,UP\n"),
            &format!("{BACKEND} 13"),
        );

        // One that was refused changes nothing, one that had ended says nothing.
        counted.begin();
        counted.kept();
        has(&shown(&mut counted, "spare_http:1,BACKEND,0,2,,,UP\n"), &format!("{BACKEND} 13"));
        counted.replaced(None, HashMap::from([(route(), on("be_http:a:b", None))]));
        has(&shown(&mut counted, "be_http:a:b,BACKEND,0,0,,,UP\n"), &format!("{BACKEND} 11"));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut counted = Counted::default();
        counted.serves(&route(), Some(on("be_http:a:b", None)));
        counted.replaced(Some(&format!("{HEAD}be_http:a:b,BACKEND,0,5,,,UP\n")), HashMap::new());
        counted.replaced(Some(HEAD), HashMap::new());
        assert!(counted.before.is_empty());
        counted.serves(&route(), Some(on("be_http:a:b", None)));
        counted.left(&route(), &format!("{HEAD}be_http:a:b,BACKEND,0,5,,,UP\n"));
        counted.serves(&route(), None);
        assert!(counted.before.is_empty() && counted.backend(&route()).is_none());
    }
}
