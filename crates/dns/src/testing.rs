//! Asking a Corefile without sockets, for tests of plugins.

use crate::{
    compile::{self, Instance, Lasting},
    corefile::{self, Disk},
    query::{Query, Transport},
    routes::Routes,
    server::{finish, resolve},
    wire::{
        Edns, Name, Record, Reply, Request,
        code::{class, rcode, rtype},
    },
};
use std::{path::PathBuf, sync::Arc};

pub(crate) fn query(name: &str, rtype: u16) -> Query {
    query_from("192.0.2.1:4000", name, rtype)
}

pub(crate) fn query_from(source: &str, name: &str, rtype: u16) -> Query {
    let edns = Edns { size: 1232, dnssec_ok: false, version: 0, nsid: false, cookie: None };
    let name = Name::parse(name).unwrap();
    let request = Request { id: 7, rd: true, ad: false, cd: false, name, rtype, class: class::IN, edns: Some(edns) };
    Query::new(request, source.parse().unwrap(), Transport::Udp, 40)
}

pub(crate) fn build(text: &str) -> Result<Instance, corefile::Problem> {
    build_with(text, &Lasting::default())
}

pub(crate) fn build_with(text: &str, lasting: &Lasting) -> Result<Instance, corefile::Problem> {
    let file = corefile::parse("Corefile", text, &Disk)?;
    compile::compile(&file, PathBuf::new(), 53, lasting)
}

/// The problem of a Corefile that has one.
pub(crate) fn refused(text: &str) -> String {
    build(text).err().expect("it is refused").to_string()
}

/// A Corefile that can be asked.
pub(crate) struct Asked {
    routes: Arc<Routes>,
    runtime: tokio::runtime::Runtime,
    _instance: Option<Instance>,
}

impl Asked {
    pub(crate) fn new(text: &str) -> Self {
        Self::with(text, &Lasting::default())
    }

    /// Over what outlives reloads, such as a cluster.
    pub(crate) fn with(text: &str, lasting: &Lasting) -> Self {
        let instance = build_with(text, lasting).unwrap_or_else(|problem| panic!("{problem}"));
        let routes = Arc::clone(instance.routes.values().next().unwrap());
        Self { _instance: Some(instance), ..Self::of(routes) }
    }

    /// Blocks that were made by hand.
    pub(crate) fn over(routes: Routes) -> Self {
        Self::of(Arc::new(routes))
    }

    fn of(routes: Arc<Routes>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { routes, runtime, _instance: None }
    }

    pub(crate) fn ask(&self, name: &str, rtype: &str) -> String {
        self.ask_from("192.0.2.1:4000", name, rtype)
    }

    pub(crate) fn ask_from(&self, source: &str, name: &str, rtype: &str) -> String {
        shown(&self.answer(query_from(source, name, rtype::number(rtype).unwrap())))
    }

    pub(crate) fn ask_class(&self, name: &str, rtype: &str, class: &str) -> String {
        let mut query = query(name, rtype::number(rtype).unwrap());
        query.request.class = class::number(class).unwrap();
        shown(&self.answer(query))
    }

    pub(crate) fn extended(&self, name: &str, rtype: &str) -> Option<(u16, String)> {
        self.answer(query(name, rtype::number(rtype).unwrap())).extended
    }

    /// Shows a plugin an answer on its way up.
    pub(crate) fn after(&self, plugin: &str, mut query: Query, make: impl FnOnce(&mut Reply)) {
        let chain = self.routes.chain(&query).expect("a block");
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        make(&mut reply);
        let own = chain.plugins.iter().find(|own| own.name() == plugin).expect("the plugin");
        own.after(&mut query, &mut reply);
    }

    /// From the bytes of a question to those of its answer.
    pub(crate) fn exchange(&self, packet: &[u8]) -> Vec<u8> {
        let request = Request::parse(packet).expect("a question");
        let mut query = Query::new(request, "192.0.2.1:4000".parse().unwrap(), Transport::Udp, packet.len());
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        let chain = self.runtime.block_on(resolve(&self.routes, packet, &mut query, &mut reply));
        finish(&self.routes, chain.as_deref(), &query, &mut reply).expect("an answer").to_vec()
    }

    pub(crate) fn answer(&self, mut query: Query) -> Reply {
        let mut reply = Reply::new();
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        self.runtime.block_on(resolve(&self.routes, &[], &mut query, &mut reply));
        reply
    }
}

/// `RCODE flags | answer | authority | additional`, without what is empty at the end.
pub(crate) fn shown(reply: &Reply) -> String {
    if reply.dropped {
        return "nothing".to_owned();
    }
    let message = reply.message().expect("a reply can be read");
    let mut text = rcode::text(reply.rcode);
    for (flag, set) in [("aa", reply.aa), ("tc", reply.tc), ("ra", reply.ra)] {
        if set {
            text.push(' ');
            text.push_str(flag);
        }
    }
    let one = |record: &Record| record.to_string().replace('\t', " ");
    for section in &message.sections {
        text.push_str(" | ");
        text.push_str(&section.iter().map(one).collect::<Vec<_>>().join(", "));
    }
    while let Some(rest) = text.strip_suffix(" | ") {
        text = rest.to_owned();
    }
    text.replace(" |  | ", " | | ")
}
