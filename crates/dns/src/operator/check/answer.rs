//! Whether an answerTemplate gives the right record: it is put into the plugin and asked, before any server has it.

use crate::{
    compile::{self, Lasting},
    corefile::{self, Disk},
    query::{Query, Transport},
    routes::Routes,
    wire::{
        Name, Reply, Request,
        code::{class, rtype},
    },
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

/// RFC 2181, section 8: the greatest TTL.
const LONGEST: u32 = i32::MAX as u32;
/// As the schema has it.
const MOST: usize = 1024;

/// What is wrong with a template for AAAA records of these zones, if anything.
pub(super) fn problem(text: &str, zones: &[Name]) -> Option<String> {
    let found = unsafe_text(text).map(str::to_owned).or_else(|| match routes(text, zones) {
        Ok(routes) => zones.iter().flat_map(examples).find_map(|name| wrong(&routes, name)),
        Err(problem) => Some(format!("cannot be read: {problem}")),
    });
    found.map(|problem| format!("{problem}; accepted is such as {{{{ .Name }}}} 3600 IN AAAA 2001:db8::1"))
}

/// What would mean something to the Corefile and not to the template.
fn unsafe_text(text: &str) -> Option<&'static str> {
    match text {
        text if text.trim().is_empty() => Some("is empty"),
        text if text.len() > MOST => Some("is longer than 1024 bytes"),
        text if text.chars().any(char::is_control) => Some("has a line break or another control character"),
        text if text.contains('\\') => Some("has a backslash"),
        text if text.contains("{$") || text.contains("{%") => {
            Some("has {$ or {%, which a Corefile takes for a variable of its environment: put a space after the braces")
        }
        _ => None,
    }
}

fn routes(text: &str, zones: &[Name]) -> Result<Arc<Routes>, String> {
    let zones: Vec<String> = zones.iter().map(Name::to_string).collect();
    let text = text.replace('"', "\\\"");
    let text = format!(".:53 {{\n template IN AAAA {} {{\n answer \"{text}\"\n }}\n}}\n", zones.join(" "));
    // The place of a problem says nothing to somebody who never saw this file.
    let describe =
        |problem: corefile::Problem| problem.to_string().rsplit("plugin template: ").next().map(str::to_owned);
    let file = corefile::parse("answerTemplate", &text, &Disk).map_err(|problem| problem.to_string())?;
    let built = compile::compile(&file, PathBuf::new(), 53, &Lasting::default());
    let built = built.map_err(|problem| describe(problem).unwrap_or_default())?;
    built.routes.into_values().next().ok_or_else(|| "it makes no server".to_owned())
}

/// Names of a zone to ask for: the zone itself and some below, in case the template has conditions.
fn examples(zone: &Name) -> Vec<Name> {
    let below = ["a", "www-2", "x.y"].iter().filter_map(|labels| {
        let labels: Vec<&[u8]> = labels.split('.').map(str::as_bytes).collect();
        Name::under(labels, zone).ok()
    });
    Some(*zone).filter(|zone| !zone.is_root()).into_iter().chain(below).collect()
}

fn wrong(routes: &Arc<Routes>, name: Name) -> Option<String> {
    let request =
        Request { id: 1, rd: true, ad: false, cd: false, name, rtype: rtype::AAAA, class: class::IN, edns: None };
    let source = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
    // Over TCP: nothing is cut.
    let mut query = Query::new(request, source, Transport::Tcp, 0);
    let mut reply = Reply::new();
    reply.reset(&name, rtype::AAAA, class::IN);
    // A plugin that wants to wait has rendered a CNAME, which is seen below.
    let _ = routes.chain(&query)?.run_now(&mut query, &mut reply);
    if let Some(error) = &reply.error {
        return Some(format!("fails for {name}: {}", error.trim_start_matches("plugin/template: ")));
    }
    let Some(message) = reply.message() else { return Some(format!("gives nothing that can be sent for {name}")) };
    let [record] = message.answer() else { return Some(format!("gives {} records", message.answer().len())) };
    if record.rtype != rtype::AAAA {
        return Some(format!("gives a record of type {}, and not AAAA", rtype::text(record.rtype)));
    }
    if record.class != class::IN {
        return Some(format!("gives a record of class {}, and not IN", class::text(record.class)));
    }
    if record.name != name {
        return Some(format!(
            "gives a record for {} when {name} is asked for: begin with {{{{ .Name }}}}",
            record.name
        ));
    }
    (record.ttl > LONGEST).then(|| format!("gives a TTL of {}; the greatest is {LONGEST}", record.ttl))
}
