//! `k8s_external`: Services by the addresses under which the world outside reaches them.

use super::{
    Plugin, Step,
    kubernetes::{FoundOutside, Kubernetes, Outside, Target, srv_record},
    only,
};
use crate::{
    chain::Rest,
    compile::{Building, ClusterPlace, WaitsForCluster},
    corefile::{Directive, Problem, Token},
    query::Query,
    text::{self, Fallthrough},
    wire::{
        Name, Record, Reply, Section,
        code::{rcode, rtype},
        from_reverse,
    },
};
use futures::future::BoxFuture;
use std::sync::Arc;

struct External {
    zones: Vec<Name>,
    /// Below which the name servers of a zone are.
    apex: Box<[u8]>,
    ttl: u32,
    headless: bool,
    fall: Fallthrough,
    cluster: ClusterPlace,
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    let external = read(line, &building.zones)?;
    building.externals = true;
    building.waiting.push(WaitsForCluster {
        plugin: "k8s_external",
        token: line.name.clone(),
        accepts: |_| true,
        needs: "needs the kubernetes plugin in this block",
        place: Arc::clone(&external.cluster),
    });
    building.plugins.push(Box::new(external));
    Ok(())
}

fn read(line: &Directive, block: &[Name]) -> Result<External, Problem> {
    let mut external = External {
        zones: text::zones_or(&line.args, block)?,
        apex: (*b"dns").into(),
        ttl: 5,
        headless: false,
        fall: Fallthrough::default(),
        cluster: ClusterPlace::default(),
    };
    for line in line.lines() {
        match line.name.text.as_str() {
            "apex" => external.apex = label(line.one()?)?,
            "ttl" => external.ttl = text::number(line.one()?, 0..=3600, "a number from 0 to 3600")?,
            "headless" => {
                line.none()?;
                external.headless = true;
            }
            "fallthrough" => external.fall = Fallthrough::parse(&line.args)?,
            _ => return Err(line.unknown(&["apex", "fallthrough", "headless", "ttl"])),
        }
    }
    Ok(external)
}

fn label(token: &Token) -> Result<Box<[u8]>, Problem> {
    let name = Name::parse(&token.text).map_err(|error| Problem::at(token, error.to_string()))?.lower();
    let mut labels = name.labels();
    match (labels.next(), labels.next()) {
        (Some(label), None) => Ok(label.into()),
        _ => Err(Problem::at(token, "accepted: one label, such as dns")),
    }
}

/// What a name of the zone has.
enum Answer {
    Records(Vec<Record>, Vec<Record>),
    /// Some lead to names elsewhere.
    Targets(Vec<Outside>),
    NoData,
    NoName,
}

impl External {
    fn answer(&self, cluster: &Kubernetes, zone: &Name, query: &Query) -> Answer {
        let labels: Vec<&[u8]> = {
            let count = query.lower.label_count() - zone.label_count();
            query.lower.labels().take(count).collect()
        };
        match labels.as_slice() {
            [] => return self.apex(cluster, zone, query),
            [rest @ .., apex] if **apex == *self.apex => return self.servers(cluster, rest, query),
            _ => {}
        }
        if query.request.rtype == rtype::PTR
            && let Some(address) = from_reverse(&query.lower)
        {
            let owners = self.zones.first().map(|first| cluster.outside_owners(address, first)).unwrap_or_default();
            let pointer = |owner: &Name| Record::pointer(query.request.name, rtype::PTR, self.ttl, owner);
            return match owners.is_empty() {
                true => Answer::NoName,
                false => Answer::Records(owners.iter().map(pointer).collect(), Vec::new()),
            };
        }
        match (cluster.outside(&labels, self.headless), query.request.rtype) {
            (FoundOutside::NoName, _) => Answer::NoName,
            (FoundOutside::Targets(targets), rtype::A | rtype::AAAA | rtype::SRV) => Answer::Targets(targets),
            _ => Answer::NoData,
        }
    }

    /// The zone itself.
    fn apex(&self, cluster: &Kubernetes, zone: &Name, query: &Query) -> Answer {
        let name = query.request.name;
        match query.request.rtype {
            rtype::SOA => Answer::Records(Vec::new(), Vec::new()),
            rtype::NS => {
                let Some(server) = self.server(zone) else { return Answer::NoData };
                let addresses = cluster.outside_servers(self.headless).into_iter();
                let glue = addresses.map(|address| Record::address(server, self.ttl, address)).collect();
                Answer::Records(vec![Record::pointer(name, rtype::NS, self.ttl, &server)], glue)
            }
            _ => Answer::NoData,
        }
    }

    /// Names below the label of the name servers; `rest` is what stands before it.
    fn servers(&self, cluster: &Kubernetes, rest: &[&[u8]], query: &Query) -> Answer {
        match rest {
            [] => Answer::NoData,
            [b"ns1"] => {
                let wanted = |record: &Record| record.rtype == query.request.rtype;
                let addresses = cluster.outside_servers(self.headless).into_iter();
                let records = addresses.map(|address| Record::address(query.request.name, self.ttl, address));
                let records: Vec<Record> = records.filter(wanted).collect();
                if records.is_empty() { Answer::NoData } else { Answer::Records(records, Vec::new()) }
            }
            _ => Answer::NoName,
        }
    }

    fn server(&self, zone: &Name) -> Option<Name> {
        Name::under([&b"ns1"[..], &self.apex], zone).ok()
    }

    fn soa(&self, cluster: &Kubernetes, section: Section, zone: &Name, reply: &mut Reply) {
        let hostmaster = Name::under([&b"hostmaster"[..], &self.apex], zone).unwrap_or(*zone);
        let names = [&self.server(zone).unwrap_or(*zone), &hostmaster];
        reply.add_soa(section, zone, self.ttl, names, [cluster.serial(), 7200, 1800, 86_400, self.ttl]);
    }

    /// Adds what is at hand; false when names have to be looked up first.
    fn add(&self, cluster: &Kubernetes, zone: &Name, query: &Query, targets: &[Outside], reply: &mut Reply) -> bool {
        if targets.iter().any(|outside| matches!(outside.target, Target::Name(_))) {
            return false;
        }
        for record in self.records(cluster, zone, query, targets, Section::Answer) {
            reply.add(Section::Answer, &record);
        }
        for record in self.records(cluster, zone, query, targets, Section::Additional) {
            reply.add(Section::Additional, &record);
        }
        true
    }

    /// The records of a section, each once, but for what names lead to.
    fn records(
        &self,
        cluster: &Kubernetes,
        zone: &Name,
        query: &Query,
        targets: &[Outside],
        section: Section,
    ) -> Vec<Record> {
        let name = query.request.name;
        let mut records: Vec<Record> = Vec::new();
        let mut add = |record: Record| {
            if !records.contains(&record) {
                records.push(record);
            }
        };
        let weight = (100 / targets.len().max(1)).max(1) as u16;
        for outside in targets {
            match (query.request.rtype, section, &outside.target) {
                (rtype::SRV, Section::Answer, target) => {
                    let owner = match target {
                        Target::Name(elsewhere) => Some(**elsewhere),
                        Target::Address(_) => owner(outside, zone, query),
                    };
                    if let (Some(port), Some(owner)) = (outside.port, owner) {
                        add(srv_record(name, cluster.ttl(), weight, port, &owner));
                    }
                }
                (rtype::SRV, _, Target::Address(address)) => {
                    if let (Some(_), Some(owner)) = (outside.port, owner(outside, zone, query)) {
                        add(Record::address(owner, self.ttl, *address));
                    }
                }
                (rtype::A | rtype::AAAA, Section::Answer, Target::Address(address)) => {
                    let record = Record::address(name, self.ttl, *address);
                    if record.rtype == query.request.rtype {
                        add(record);
                    }
                }
                (rtype::A | rtype::AAAA, Section::Answer, Target::Name(elsewhere)) => {
                    add(Record::pointer(name, rtype::CNAME, cluster.ttl(), elsewhere));
                }
                _ => {}
            }
        }
        records
    }

    fn finish(&self, cluster: &Kubernetes, zone: &Name, reply: &mut Reply) -> Step {
        reply.aa = true;
        if reply.count(Section::Answer) == 0 {
            self.soa(cluster, Section::Authority, zone, reply);
        }
        Step::Done
    }

    /// The cluster and the longest zone that a name is in.
    fn concerns(&self, query: &Query) -> Option<(&Kubernetes, &Name)> {
        Some((self.cluster.get()?, text::longest(&self.zones, &query.lower)?))
    }
}

/// The name that has an address: that of the Service, or of the endpoint.
fn owner(outside: &Outside, zone: &Name, query: &Query) -> Option<Name> {
    let count = query.lower.label_count() - zone.label_count();
    let labels: Vec<&[u8]> = query.lower.labels().take(count).collect();
    let [.., service, namespace] = labels.as_slice() else { return None };
    let endpoint = outside.endpoint.as_ref().map(|label| label.as_bytes());
    Name::under(endpoint.into_iter().chain([*service, *namespace]), zone).ok()
}

impl Plugin for External {
    fn name(&self) -> &'static str {
        "k8s_external"
    }

    fn before(&self, query: &mut Query, reply: &mut Reply) -> Step {
        let Some((cluster, zone)) = self.concerns(query) else { return Step::Next };
        match self.answer(cluster, zone, query) {
            Answer::Records(answer, additional) => {
                if query.request.rtype == rtype::SOA {
                    self.soa(cluster, Section::Answer, zone, reply);
                }
                answer.iter().for_each(|record| reply.add(Section::Answer, record));
                additional.iter().for_each(|record| reply.add(Section::Additional, record));
            }
            Answer::Targets(targets) => {
                if !self.add(cluster, zone, query, &targets, reply) {
                    return Step::Later;
                }
            }
            Answer::NoData => {}
            Answer::NoName if self.fall.covers(&query.lower) => return Step::Next,
            Answer::NoName if !cluster.knows_all() => reply.rcode = rcode::SERVFAIL,
            Answer::NoName => reply.rcode = rcode::NXDOMAIN,
        }
        self.finish(cluster, zone, reply)
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let Some((cluster, zone)) = self.concerns(query) else { return Step::Next };
            let Answer::Targets(targets) = self.answer(cluster, zone, query) else { return Step::Next };
            let asked = query.request.rtype;
            let (types, section) = match asked {
                rtype::SRV => (&[rtype::A, rtype::AAAA][..], Section::Additional),
                _ => (std::slice::from_ref(&asked), Section::Answer),
            };
            let mut found = self.records(cluster, zone, query, &targets, section);
            let mut names: Vec<Arc<Name>> = Vec::new();
            for outside in &targets {
                if let Target::Name(elsewhere) = &outside.target
                    && !names.contains(elsewhere)
                {
                    names.push(Arc::clone(elsewhere));
                    for sort in types {
                        let Some(message) = rest.lookup(query, **elsewhere, *sort).await else { continue };
                        found.extend(message.answer().iter().cloned());
                        reply.tc |= message.tc;
                    }
                }
            }
            if section == Section::Additional {
                for record in self.records(cluster, zone, query, &targets, Section::Answer) {
                    reply.add(Section::Answer, &record);
                }
            }
            found.iter().for_each(|record| reply.add(section, record));
            self.finish(cluster, zone, reply)
        })
    }
}

#[cfg(test)]
mod tests;
