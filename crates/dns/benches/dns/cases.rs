//! What is measured, one after the other.

use crate::{
    Result, api,
    load::{self, LoadResult, Pace, question, wait_for},
    report::{self, Row, Templates},
    server::{Kind, Process, leave_the_first_core},
    upstream,
};
use dns::{plugin::template::complement, wire::Name};
use std::{fmt::Write as _, net::SocketAddr, path::Path, time::Duration};

const A: u16 = 1;
const AAAA: u16 = 28;
/// Names that are asked for, and how long.
const NAMES: u32 = 4000;
const LENGTH: Duration = Duration::from_millis(800);
/// How often; the round with the least CPU time per query counts, since whatever else runs on the machine only adds to it.
const ROUNDS: usize = 3;
const PACED: Duration = Duration::from_secs(1);
/// How long the largest cluster may take to be listed.
const READY: Duration = Duration::from_secs(60);
const SERVICES: u32 = 10_000;

pub(crate) fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let upstream = upstream::start()?;
    let mut servers = vec![Kind::Twinstack];
    servers.extend(std::env::var_os("COREDNS").map(|path| Kind::Peer(path.into())));
    leave_the_first_core()?;
    let bench = Bench { folder: folder.path(), upstream };
    bench.queries(&servers)?;
    bench.templates(&servers)?;
    bench.memory(&servers)
}

struct Bench<'a> {
    folder: &'a Path,
    upstream: SocketAddr,
}

/// One sort of queries.
struct Case {
    what: String,
    corefile: String,
    /// Name and type, in the order in which they are asked.
    questions: Vec<(String, u16)>,
    /// A question that is answered when the server is ready, and with how many records.
    first: (String, u16, usize),
}

impl Bench<'_> {
    fn queries(&self, servers: &[Kind]) -> Result<()> {
        let api = api::start(SERVICES)?;
        let cases = [self.cluster(api), self.cached(), self.filtered(api)];
        let mut rows = Vec::new();
        let mut echo = Kind::Echo.start("", self.folder)?;
        let packets = packets(&cases[0].questions)?;
        // It answers whatever it is asked, with nothing.
        wait_for(&mut echo, &packets[0], 0, READY)?;
        rows.push(row(Kind::Echo.name(), "anything".to_owned(), &echo, &cases[0].questions)?);
        drop(echo);
        for case in &cases {
            for server in servers {
                eprintln!("{}: {}", server.name(), case.what);
                let process = self.ready(server, case)?;
                rows.push(row(server.name(), case.what.clone(), &process, &case.questions)?);
            }
        }
        report::queries(&rows);
        Ok(())
    }

    fn ready(&self, server: &Kind, case: &Case) -> Result<Process> {
        let mut process = server.start(&case.corefile, self.folder)?;
        let (name, rtype, records) = &case.first;
        wait_for(&mut process, &question(name, *rtype)?, *records, READY)?;
        Ok(process)
    }

    fn cluster(&self, api: SocketAddr) -> Case {
        Case {
            what: format!("names of {SERVICES} Services"),
            corefile: block(&kubernetes(api)),
            questions: cluster_names(),
            first: (api::name(SERVICES - 1), AAAA, 1),
        }
    }

    fn cached(&self) -> Case {
        let questions: Vec<(String, u16)> =
            (0..500).flat_map(|number| [A, AAAA].map(|rtype| (format!("www{number}.example.org."), rtype))).collect();
        Case {
            what: "cached forwards".to_owned(),
            corefile: block(&format!("    forward . {}\n    cache 900", self.upstream)),
            first: (questions[0].0.clone(), A, 1),
            questions,
        }
    }

    fn filtered(&self, api: SocketAddr) -> Case {
        let questions = (0..NAMES).map(|number| (format!("www{number}.example.org."), AAAA)).collect();
        Case {
            what: "filtered AAAA".to_owned(),
            corefile: block(&format!("{}\n{}", template("."), kubernetes(api))),
            questions,
            first: (api::name(0), AAAA, 1),
        }
    }

    fn templates(&self, servers: &[Kind]) -> Result<()> {
        let api = api::start(1000)?;
        let mut rows = Vec::new();
        for server in servers {
            for (templates, zones) in [(0u32, 1u32), (1, 1), (5, 1), (10, 1), (20, 1), (20, 100)] {
                eprintln!("{}: {templates} templates of {zones} zones", server.name());
                let mut lines = String::new();
                for number in 0..templates {
                    let zones: Vec<String> = (0..zones).map(|zone| format!("z{zone}.t{number}.example")).collect();
                    let _ = writeln!(lines, "{}", template(&zones.join(" ")));
                }
                let case = Case {
                    what: String::new(),
                    corefile: block(&format!("{lines}{}", kubernetes(api))),
                    questions: (0..1000).flat_map(|number| [A, AAAA].map(|rtype| (api::name(number), rtype))).collect(),
                    first: (api::name(999), A, 1),
                };
                let process = self.ready(server, &case)?;
                let passed = best(&process, &packets(&case.questions)?)?;
                let last = templates.saturating_sub(1);
                let filtered: Vec<(String, u16)> =
                    (0..NAMES).map(|number| (format!("www{number}.z0.t{last}.example."), AAAA)).collect();
                let filtered = match templates {
                    0 => None,
                    _ => Some(best(&process, &packets(&filtered)?)?),
                };
                drop(process);
                let resident = self.of_templates(server, &lines)?;
                rows.push(Templates { server: server.name(), templates, zones, passed, filtered, resident });
            }
        }
        report::templates(&rows);
        Ok(())
    }

    /// Memory of a server that has nothing but these lines, so that lists of Services do not hide what they take.
    fn of_templates(&self, server: &Kind, lines: &str) -> Result<u64> {
        let hosts = "    hosts {\n        192.0.2.1 a.test\n    }";
        let mut process = server.start(&block(&format!("{lines}{hosts}")), self.folder)?;
        wait_for(&mut process, &question("a.test.", A)?, 1, READY)?;
        process.resident()
    }

    fn memory(&self, servers: &[Kind]) -> Result<()> {
        let mut rows = Vec::new();
        for services in [0, 1000, 10_000, 100_000] {
            let api = api::start(services)?;
            for server in servers {
                eprintln!("{}: {services} Services", server.name());
                let mut process = server.start(&block(&kubernetes(api)), self.folder)?;
                let (packet, records) = match services {
                    0 => (question("cluster.local.", 6)?, 1),
                    _ => (question(&api::name(services - 1), A)?, 1),
                };
                let ready = wait_for(&mut process, &packet, records, READY)?;
                rows.push((services, server.name(), process.resident()?, ready));
            }
        }
        report::memory(&rows);
        Ok(())
    }
}

fn row(server: &'static str, what: String, process: &Process, questions: &[(String, u16)]) -> Result<Row> {
    let packets = packets(questions)?;
    // Once through all, so that what can be kept is kept.
    let _warm: LoadResult = load::run(process, &packets, Pace::Full, Duration::from_millis(500))?;
    let full = best(process, &packets)?;
    let paced = load::run(process, &packets, Pace::Rate(10_000), PACED)?;
    let names: String =
        questions.iter().map(|(name, rtype)| format!("{name} {}\n", if *rtype == A { "A" } else { "AAAA" })).collect();
    let dnsperf = load::dnsperf(process.address, &names, 2);
    Ok(Row { server, what, full, paced, dnsperf, resident: process.resident()? })
}

/// As fast as it goes, a few times; the best.
fn best(process: &Process, packets: &[Vec<u8>]) -> Result<LoadResult> {
    let rounds = (0..ROUNDS).map(|_| load::run(process, packets, Pace::Full, LENGTH)).collect::<Result<Vec<_>>>()?;
    let best = rounds.into_iter().min_by(|a, b| a.cpu_per_query().total_cmp(&b.cpu_per_query()));
    best.ok_or_else(|| "there was no round".into())
}

fn packets(questions: &[(String, u16)]) -> Result<Vec<Vec<u8>>> {
    questions.iter().map(|(name, rtype)| question(name, *rtype)).collect()
}

/// Names from all over the cluster, both types.
fn cluster_names() -> Vec<(String, u16)> {
    // A step without a common factor visits all.
    let numbers = (0..NAMES).map(|number| number * 7919 % SERVICES);
    numbers.flat_map(|number| [A, AAAA].map(|rtype| (api::name(number), rtype))).collect()
}

fn block(plugins: &str) -> String {
    format!(".:{{PORT}} {{\n    bind 127.0.0.1\n    errors\n    bufsize 1232\n{plugins}\n}}\n")
}

fn kubernetes(api: SocketAddr) -> String {
    format!(
        "    kubernetes cluster.local in-addr.arpa ip6.arpa {{\n        endpoint http://{api}\n        pods insecure\n    }}"
    )
}

/// The filter that the operator writes; the root's leaves the cluster alone, in patterns that CoreDNS understands.
fn template(zones: &str) -> String {
    let mut lines = String::new();
    if zones == "."
        && let Ok(cluster) = Name::parse("cluster.local")
    {
        let patterns = complement(&cluster);
        patterns.iter().for_each(|pattern| _ = writeln!(lines, "        match \"{pattern}\""));
        lines.push_str("        fallthrough\n");
    }
    format!("    template IN AAAA {zones} {{\n{lines}        rcode NOERROR\n    }}")
}
