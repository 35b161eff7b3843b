//! DNS: packets, records as text, Corefiles and what they answer, and Corefiles rendered from the DNS resource.

use crate::{Target, input};
use api::config::OperatorDnsSpec;
use dns::{
    compile::{self, Instance, Lasting},
    corefile::{self, Block, Corefile, Directive, Files, Location, Token},
    operator::{check, corefile::Parts},
    query::{Query, Transport},
    wire::{Limits, Message, Name, Record, Reject, Reply, Request, code::class, code::rtype},
};
use net::{Families, Family};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

pub(crate) const TARGETS: &[Target] = &[
    Target::new("dns-packet", packet).up_to(2048),
    Target::new("dns-names", names).up_to(512),
    Target::new("dns-record", record).up_to(1024),
    Target::new("corefile", corefile).up_to(4096),
    Target::new("corefile-answers", answers).up_to(4096),
    Target::new("dns-template", template).up_to(2048),
    Target::new("dns-operator", operator).up_to(4096),
];

/// Bytes that anybody may send, as a question and as an answer.
fn packet(data: &[u8]) {
    match Request::parse(data) {
        Ok(request) => {
            let again = Request::parse(&request.to_wire(request.id)).expect("a question can be sent on");
            assert_eq!((again.name, again.rtype, again.class), (request.name, request.rtype, request.class));
        }
        Err(Reject::Answer(rcode)) => assert!(Reply::header_only(data, rcode).is_some()),
        Err(Reject::Ignore) => {}
    }
    let Ok(message) = Message::parse(data) else { return };
    for record in message.sections.iter().flatten() {
        let shown = record.to_string();
        assert_eq!(shown.parse::<Record>().as_ref(), Ok(record), "{shown}");
    }
    let (name, rtype, class) = message.question;
    let request = Request { id: 1, rd: false, ad: false, cd: false, name, rtype, class, edns: None };
    for size in [512, 1232, 65_535] {
        let mut reply = Reply::new();
        reply.set_message(&message);
        let bytes = reply.finish(&request, &Limits { size, nsid: None, cookie: None }).to_vec();
        assert!(bytes.len() <= size, "{} bytes where {size} are allowed", bytes.len());
        let again = Message::parse(&bytes).expect("what is sent can be read");
        if !again.tc && again.additional().len() == message.additional().len() {
            assert_eq!(again.sections, message.sections);
        }
    }
}

fn names(data: &[u8]) {
    let text = input::text(data);
    if let Ok(name) = Name::parse(&text) {
        let shown = name.to_string();
        assert_eq!(Name::parse(&shown).map(|again| again.wire().to_vec()), Ok(name.wire().to_vec()), "{shown}");
    }
    if let Ok(name) = Name::from_wire(data) {
        assert_eq!(Name::parse(&name.to_string()), Ok(name));
        assert_eq!(name.suffixes().count(), name.label_count() + 1);
        assert!(name.is_within(&Name::ROOT) && name.is_within(&name));
    }
}

fn record(data: &[u8]) {
    let text = input::text(data);
    if let Ok(record) = text.parse::<Record>() {
        let shown = record.to_string();
        assert_eq!(shown.parse::<Record>().as_ref(), Ok(&record), "{shown}");
    }
}

/// No files and no environment.
struct Nothing;

impl Files for Nothing {
    fn read(&self, path: &Path) -> io::Result<String> {
        Err(io::Error::other(format!("{} is not to be read", path.display())))
    }

    fn matching(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn variable(&self, _: &str) -> String {
        "value".to_owned()
    }
}

/// Printed, a Corefile is read as the same, and it is set up or refused with a place.
fn corefile(data: &[u8]) {
    let text = input::text(data);
    let Ok(file) = corefile::parse("Corefile", &text, &Nothing) else { return };
    let shown = file.to_string();
    match corefile::parse("Corefile", &shown, &Nothing) {
        Ok(again) => assert_eq!(again, file, "{shown}"),
        Err(problem) => panic!("{problem}: {shown}"),
    }
    let _ = set_up(&file);
}

/// Sets up what reads no files of the machine.
fn set_up(file: &Corefile) -> Option<Instance> {
    fn reads(directive: &Directive) -> bool {
        directive.args.iter().any(|word| word.text.contains('/')) || directive.lines().iter().any(reads)
    }
    let mut file = file.clone();
    for block in &mut file.blocks {
        block.directives.retain(|line| !matches!(line.name.text.as_str(), "log" | "errors" | "hosts" | "tls"));
        if block.directives.iter().any(reads) {
            return None;
        }
    }
    compile::compile(&file, PathBuf::new(), 53, &Lasting::default()).ok()
}

/// A Corefile, and a question as `NAME TYPE CLASS`, over UDP and TCP.
fn answers(data: &[u8]) {
    let text = input::text(data);
    let [file, question] = input::parts(&text);
    let Ok(file) = corefile::parse("Corefile", file, &Nothing) else { return };
    let Some(instance) = set_up(&file) else { return };
    ask(&instance, question);
}

fn ask(instance: &Instance, question: &str) {
    let mut words = question.split_whitespace();
    let Ok(name) = Name::parse(words.next().unwrap_or("a.example.org")) else { return };
    let rtype = words.next().and_then(rtype::number).unwrap_or(rtype::A);
    let class = words.next().and_then(class::number).unwrap_or(class::IN);
    let request = Request { id: 7, rd: true, ad: false, cd: false, name, rtype, class, edns: None };
    for routes in instance.routes.values() {
        for transport in [Transport::Udp, Transport::Tcp] {
            let mut query = Query::new(request, ([192, 0, 2, 1], 4000).into(), transport, 40);
            let Some(chain) = routes.chain(&query) else { continue };
            let mut reply = Reply::new();
            reply.reset(&name, rtype, class);
            if chain.run_now(&mut query, &mut reply).is_err() || reply.dropped {
                continue;
            }
            let limits = Limits { size: query.limit(), nsid: None, cookie: None };
            let bytes = reply.finish(&query.request, &limits).to_vec();
            assert!(bytes.len() <= limits.size, "{} bytes where {} are allowed", bytes.len(), limits.size);
            Message::parse(&bytes).expect("an answer can be read");
        }
    }
}

fn token(text: &str) -> Token {
    Token { text: text.to_owned(), place: Location { file: "Corefile".into(), line: 1, column: 1 } }
}

fn line(words: &[&str], block: Option<Vec<Directive>>) -> Directive {
    Directive { name: token(words[0]), args: words[1..].iter().map(|word| token(word)).collect(), block }
}

/// A pattern, a template of an answer and a question.
fn template(data: &[u8]) {
    let text = input::text(data);
    let [pattern, answer, question] = input::parts(&text);
    let mut lines = vec![line(&["answer", answer], None)];
    if !pattern.is_empty() {
        lines.push(line(&["match", pattern], None));
    }
    let directives = vec![line(&["template", "ANY", "ANY"], Some(lines))];
    let file = Corefile { blocks: vec![Block { keys: vec![token(".")], directives }] };
    if let Ok(instance) = compile::compile(&file, PathBuf::new(), 53, &Lasting::default()) {
        ask(&instance, question);
    }
}

/// The spec of a DNS resource, for every sort of cluster: what is accepted gives a Corefile that is read, whose blocks and
/// lines are those of the spec and no others.
fn operator(data: &[u8]) {
    let Ok(spec) = serde_json::from_slice::<OperatorDnsSpec>(data) else { return };
    let domain = Name::parse("cluster.local").expect("a name");
    let Ok(base) = check::base(&spec, &domain) else { return };
    let shapes = [Families::one(Family::V4), Families::one(Family::V6), Families::both(Family::V4)];
    for families in shapes.into_iter().chain([Families::both(Family::V6)]) {
        let Ok(templates) = check::templates(&spec.templates, &domain, families) else { continue };
        let bundles = BTreeMap::new();
        let text = Parts { base: &base, templates: &templates, domain: &domain, families, bundles: &bundles }.text();
        let file = match corefile::parse("Corefile", &text, &Nothing) {
            Ok(file) => file,
            Err(problem) => panic!("{problem}\n{text}"),
        };
        assert_eq!(file.blocks.len(), spec.servers.len() + 2, "{text}");
        let plugins = [
            "bufsize",
            "cache",
            "chaos",
            "errors",
            "forward",
            "health",
            "kubernetes",
            "log",
            "prometheus",
            "ready",
            "reload",
            "template",
        ];
        for directive in file.blocks.iter().flat_map(|block| &block.directives) {
            assert!(plugins.contains(&directive.name.text.as_str()), "{}\n{text}", directive.name.text);
        }
        if let Err(problem) = dns::operator::corefile::hashes(&text) {
            panic!("{problem}\n{text}");
        }
    }
}
