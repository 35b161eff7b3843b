//! `autopath`: follows the client's search list here, so that it need not ask again and again.

use super::{Plugin, Step, kubernetes::Kubernetes, only};
use crate::{
    chain::Rest,
    compile::{Building, ClusterPlace, WaitsForCluster},
    corefile::{Directive, Problem},
    query::Query,
    text,
    wire::{
        Name, Record, Reply, Section,
        code::{rcode, rtype},
    },
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::{path::Path, sync::Arc};

struct Autopath {
    zones: Vec<Name>,
    search: Search,
}

/// Where the search list comes from.
enum Search {
    /// A file such as `/etc/resolv.conf`.
    Fixed(Vec<Name>),
    /// The namespace of the Pod that asks, and this machine's own list.
    Cluster(ClusterPlace, Vec<Name>),
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let Some((source, zones)) = line.args.split_last() else {
        return Err(Problem::at(&line.name, "needs a file such as /etc/resolv.conf, or @kubernetes"));
    };
    let zones = text::zones_or(zones, &building.zones)?;
    let search = match source.text.strip_prefix('@') {
        Some("kubernetes") => {
            let place = ClusterPlace::default();
            building.waiting.push(WaitsForCluster {
                plugin: "autopath",
                token: source.clone(),
                accepts: Kubernetes::knows_pods,
                needs: "needs the kubernetes plugin with `pods verified` in this block",
                place: Arc::clone(&place),
            });
            Search::Cluster(place, searched(Path::new("/etc/resolv.conf")).unwrap_or_default())
        }
        Some(_) => return Err(Problem::at(source, "accepted: @kubernetes, or a file")),
        None => {
            let found = searched(&building.folder.join(&source.text));
            Search::Fixed(found.map_err(|error| Problem::at(source, format!("cannot be read: {error}")))?)
        }
    };
    building.plugins.push(Box::new(Autopath { zones, search }));
    Ok(())
}

/// The last `search` line of a file.
fn searched(path: &Path) -> std::io::Result<Vec<Name>> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().filter_map(|line| line.trim().strip_prefix("search")).next_back().unwrap_or_default();
    Ok(line.split_whitespace().filter_map(|word| Name::parse(word).ok()).collect())
}

impl Autopath {
    /// What the client would go through; the root is its last attempt.
    fn path(&self, query: &Query) -> Option<Vec<Name>> {
        let mut path = match &self.search {
            Search::Fixed(names) => names.clone(),
            Search::Cluster(cluster, own) => {
                let cluster = cluster.get()?;
                let namespace = cluster.namespace_of(query.source.ip().to_canonical())?;
                let zone = cluster.primary();
                let under = |labels: &[&[u8]]| Name::under(labels.iter().copied(), zone).ok();
                let mut path = vec![under(&[&namespace, b"svc"])?, under(&[b"svc"])?, *zone];
                path.extend(own);
                path
            }
        };
        path.push(Name::ROOT);
        Some(path)
    }

    /// The name before its first search element was added, and the path.
    fn plan(&self, query: &Query) -> Option<(Vec<Vec<u8>>, Vec<Name>)> {
        if !matches!(query.request.rtype, rtype::A | rtype::AAAA) {
            return None;
        }
        text::longest(&self.zones, &query.lower)?;
        let path = self.path(query)?;
        let first = path.first().filter(|first| !first.is_root())?;
        query.lower.above(first).filter(|base| !base.is_empty())?;
        let labels = query.lower.label_count() - first.label_count();
        Some((query.lower.labels().take(labels).map(<[u8]>::to_vec).collect(), path))
    }
}

impl Plugin for Autopath {
    fn name(&self) -> &'static str {
        "autopath"
    }

    fn before(&self, query: &mut Query, _: &mut Reply) -> Step {
        if self.plan(query).is_some() { Step::Later } else { Step::Next }
    }

    fn later<'a>(&'a self, query: &'a mut Query, reply: &'a mut Reply, rest: Rest<'a>) -> BoxFuture<'a, Step> {
        Box::pin(async move {
            let Some((base, path)) = self.plan(query) else { return Step::Next };
            let asked = query.request.name;
            let first: Mutex<Option<Reply>> = Mutex::new(None);
            for (index, suffix) in path.iter().enumerate() {
                let Ok(name) = Name::under(base.iter().map(Vec::as_slice), suffix) else { continue };
                query.rename(if index == 0 { asked } else { name });
                rest.below(query, reply).await;
                if reply.rcode == rcode::NXDOMAIN || reply.rcode == rcode::SERVFAIL && index > 0 {
                    first.lock().get_or_insert_with(|| reply.clone());
                    continue;
                }
                query.rename(asked);
                if index > 0 {
                    lead(reply, &asked);
                }
                return Step::Done;
            }
            query.rename(asked);
            if let Some(first) = first.into_inner() {
                *reply = first;
            }
            Step::Done
        })
    }
}

/// Puts a CNAME from the name that was asked for in front of what was found.
fn lead(reply: &mut Reply, asked: &Name) {
    let Some(mut message) = reply.message() else { return };
    message.question.0 = *asked;
    let answers = &mut message.sections[Section::Answer as usize];
    if let Some(found) = answers.first() {
        let cname = Record::pointer(*asked, rtype::CNAME, found.ttl, &found.name);
        answers.insert(0, cname);
    }
    reply.set_message(&message);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Asked, refused};

    #[test]
    fn the_search_list_is_followed_in_one_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("resolv.conf");
        std::fs::write(&file, "nameserver 192.0.2.53\nsearch ns.svc.test svc.test test\n").unwrap();
        let asked = Asked::new(&format!(
            r#". {{
 autopath test {}
 template IN A ns.svc.test svc.test {{
  rcode NXDOMAIN
 }}
 template IN A www.example {{
  answer "{{{{ .Name }}}} 60 IN A 192.0.2.9"
 }}
 template IN A . {{
  rcode NXDOMAIN
 }}
}}"#,
            file.display()
        ));
        assert_eq!(
            asked.ask("www.example.ns.svc.test.", "A"),
            "NOERROR aa | www.example.ns.svc.test. 60 IN CNAME www.example., www.example. 60 IN A 192.0.2.9"
        );
        assert_eq!(asked.ask("none.ns.svc.test.", "A"), "NXDOMAIN aa");
        assert_eq!(asked.ask("www.example.", "A"), "NOERROR aa | www.example. 60 IN A 192.0.2.9");
    }

    #[test]
    fn the_namespace_of_the_pod_begins_the_path() {
        use super::*;
        let (_index, records) =
            crate::plugin::kubernetes::tests::index(&crate::plugin::kubernetes::tests::content(), 5);
        let stanza = "kubernetes cluster.local {\n pods verified\n }";
        let cluster = ClusterPlace::default();
        assert!(cluster.set(Arc::new(crate::plugin::kubernetes::tests::plugin(stanza, &records, &[]))).is_ok());
        let own = vec![Name::parse("host.test").unwrap()];
        let plugin = Autopath { zones: vec![Name::ROOT], search: Search::Cluster(cluster, own) };
        for (source, known) in [("10.1.0.1:1", true), ("[fd00:1::1]:1", true), ("192.0.2.1:1", false)] {
            let query = crate::testing::query_from(source, "www.example.dn.svc.cluster.local.", rtype::A);
            let path: Option<Vec<String>> =
                plugin.plan(&query).map(|(_, path)| path.iter().map(Name::to_string).collect());
            let expected = ["dn.svc.cluster.local.", "svc.cluster.local.", "cluster.local.", "host.test.", "."];
            assert_eq!(path, known.then(|| expected.map(str::to_owned).to_vec()), "{source}");
        }
        let other = crate::testing::query_from("10.1.0.1:1", "www.example.other.svc.cluster.local.", rtype::A);
        assert!(plugin.plan(&other).is_none());
    }

    #[test]
    fn it_needs_to_know_the_pods() {
        let problem = refused(". {\n autopath @kubernetes\n}");
        assert!(
            problem.ends_with("plugin autopath: needs the kubernetes plugin with `pods verified` in this block"),
            "{problem}"
        );
    }
}
