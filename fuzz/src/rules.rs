//! The proxy: Services and EndpointSlices of anybody, and the rules that nft and iptables read of them.

use crate::{Target, input};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kernel::{
    iptables::{self, Chains, FakeIptables, Iptables, IptablesError},
    nft::{self, Chain, FakeNft, Nft, NftError},
};
use net::Family;
use proxy::{
    backend::{Backend, Fixed, iptables::IptablesBackend, iptables::IptablesOptions, nft::NftBackend},
    plan::{self, LocalPods, NodePortMatch},
    track::{Name, Tracker},
};
use std::sync::Arc;

pub(crate) const TARGETS: &[Target] =
    &[Target::new("service-rules", service).up_to(8 << 10), Target::new("proxy-config", config).up_to(8 << 10)];

/// A Service and a slice, as JSON.
fn service(data: &[u8]) {
    let text = input::text(data);
    let [service, slice] = input::parts(&text);
    let Ok(mut service) = serde_json::from_str::<Service>(service) else { return };
    // The API server has looked at names.
    service.metadata.namespace = Some("a".to_owned());
    service.metadata.name = Some("s".to_owned());
    for port in service.spec.iter_mut().flat_map(|spec| spec.ports.iter_mut().flatten()) {
        port.name = port.name.take().filter(|name| api::kinds::names::port_name(name).is_empty());
    }
    let mut tracker = Tracker::new("node", &[]);
    tracker.service(&service);
    if let Ok(mut slice) = serde_json::from_str::<EndpointSlice>(slice) {
        slice.metadata.namespace.clone_from(&service.metadata.namespace);
        let label = ("kubernetes.io/service-name".to_owned(), service.metadata.name.clone().unwrap_or_default());
        slice.metadata.labels.get_or_insert_default().extend([label]);
        tracker.slice(&slice);
    }
    for family in Family::BOTH {
        let fixed = Fixed {
            masquerade_mark: 0x4000,
            masquerade_all: false,
            local: LocalPods::Unknown,
            node_ports: NodePortMatch::All,
            service_cidrs: Vec::new(),
        };
        let plans = || {
            let names: Vec<Name> = tracker.iter().map(|(name, _)| name.clone()).collect();
            names.into_iter().map(|name| (name.clone(), plan::plan(family, &name, &tracker)))
        };
        let _ = NftBackend::new(family, Arc::new(Nftables::default())).sync(&fixed, &mut plans());
        let tables = Arc::new(Tables::default());
        let _ = IptablesBackend::new(family, tables, IptablesOptions::of_machine(false)).sync(&fixed, &mut plans());
    }
}

/// No word of an object gets out of its line: only what names may have, and what rules are written with.
fn plain(text: &str) {
    let strange = |letter: char| !letter.is_ascii_graphic() && letter != ' ' && letter != '\n' && letter != '\t';
    assert!(!text.contains(strange), "{text:?}");
}

#[derive(Default)]
struct Nftables(FakeNft);

impl Nft for Nftables {
    fn commit(&self, transaction: &nft::Transaction) -> Result<(), NftError> {
        let text = transaction.text();
        plain(&text);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let known = ["add ", "delete ", "flush ", "destroy ", "create ", "insert ", "reset "];
            assert!(known.iter().any(|word| line.starts_with(word)), "{line:?} in\n{text}");
            assert!(!line.contains(';') || line.contains('{'), "{line:?}");
        }
        self.0.commit(transaction)
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        self.0.chains(family, table)
    }
}

#[derive(Default)]
struct Tables(FakeIptables);

impl Iptables for Tables {
    fn commit(&self, transaction: &iptables::Transaction) -> Result<(), IptablesError> {
        let text = transaction.text()?;
        plain(&text);
        for line in text.lines().filter(|line| !line.is_empty()) {
            let known = ["*", ":", "-A ", "-I ", "-D ", "-X ", "-F ", "-N ", "COMMIT", "#"];
            assert!(known.iter().any(|word| line.starts_with(word)), "{line:?} in\n{text}");
            assert!(line.matches('"').count() % 2 == 0, "{line:?}");
        }
        self.0.commit(transaction)
    }

    fn save(&self, family: Family, table: iptables::Table) -> Result<Chains, IptablesError> {
        self.0.save(family, table)
    }

    fn rules(&self, family: Family, table: iptables::Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError> {
        self.0.rules(family, table, chain)
    }

    fn route_loopback(&self) -> Result<(), IptablesError> {
        self.0.route_loopback()
    }
}

/// A KubeProxyConfiguration.
fn config(data: &[u8]) {
    let _ = proxy::config::read(data);
}
