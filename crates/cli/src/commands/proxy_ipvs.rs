//! `twinstack proxy --proxy-mode=ipvs`: its flags, what it needs of the machine, and removing what it made.

use super::proxy::{self as flags, Rules};
use crate::read;
use kernel::{
    dummy::{FakeLinks, Links, RealLinks},
    ipset::{FakeIpset, RealIpset},
    iptables::{self, FakeIptables, RealIptables},
    ipvs::{FakeIpvs, Ipvs, Machine, RealIpvs, Timeouts},
};
use net::{Cidr, Family};
use proxy::{
    backend::ipvs::{self, IpvsBackend, Parts, SCHEDULERS, Settings as IpvsSettings},
    run,
    settings::Settings as ProxySettings,
    track::Tracker,
};
use runtime::config::Settings;
use std::{sync::Arc, time::Duration};

/// What the flags of this mode say.
pub(super) struct IpvsOptions {
    settings: IpvsSettings,
    machine: Machine,
    /// How often everything is looked after when nothing happens.
    pub(super) sync_period: Duration,
    /// The shortest time between two changes.
    pub(super) min_sync_period: Duration,
}

/// A scheduler that the kernel may have.
pub(super) fn scheduler(text: &str) -> Result<String, String> {
    match text {
        // kube-proxy's own default for a field that says nothing.
        "" => Ok(flags::IPVS_SCHEDULER.default()),
        known if SCHEDULERS.contains(&known) => Ok(known.to_owned()),
        other => Err(format!("there is no scheduler {other:?}; accepted: {}", SCHEDULERS.join(", "))),
    }
}

pub(super) fn excluded(text: &str) -> Result<Vec<Cidr>, String> {
    read::words(text)?.iter().map(|word| read::parsed(word)).collect()
}

pub(super) fn options(given: &mut Settings) -> IpvsOptions {
    IpvsOptions {
        settings: IpvsSettings {
            scheduler: given.get(&flags::IPVS_SCHEDULER),
            excluded: given.get(&flags::IPVS_EXCLUDE_CIDRS),
        },
        machine: Machine {
            timeouts: Timeouts {
                tcp: given.get(&flags::IPVS_TCP_TIMEOUT),
                tcp_fin: given.get(&flags::IPVS_TCPFIN_TIMEOUT),
                udp: given.get(&flags::IPVS_UDP_TIMEOUT),
            },
            strict_arp: given.get(&flags::IPVS_STRICT_ARP),
        },
        sync_period: given.get(&flags::IPVS_SYNC_PERIOD),
        min_sync_period: given.get(&flags::IPVS_MIN_SYNC_PERIOD),
    }
}

/// What makes the rules of a family. Nothing is touched unless the kernel has IPVS and ipset, and the machine iptables.
pub(super) fn rules(proxy: &ProxySettings, options: &IpvsOptions) -> anyhow::Result<Rules> {
    RealIpvs.probe()?;
    RealIpset.probe()?;
    let programs = RealIptables::new(iptables::detect());
    proxy.families.iter().try_for_each(|family| programs.probe(*family))?;
    RealIpvs.prepare(options.machine)?;
    let (settings, parts) = (options.settings.clone(), parts());
    Ok(Arc::new(move |family| Box::new(IpvsBackend::new(family, settings.clone(), parts.clone()))))
}

/// Removes what this mode made; says for which families there was something.
pub(super) fn remove() -> anyhow::Result<Vec<Family>> {
    // Asking IPVS would load it, on machines that never used it.
    if !RealIpvs::is_loaded() {
        return Ok(Vec::new());
    }
    ipvs::remove(&parts()).map_err(|error| anyhow::anyhow!("{error}"))
}

/// What a family would hold, as text for the programs that operators know. The kernel is asked for the machine's addresses alone.
pub(super) fn text(
    family: Family,
    tracker: &Tracker,
    proxy: &ProxySettings,
    options: &IpvsOptions,
) -> anyhow::Result<String> {
    let own = RealLinks.addresses(ipvs::INTERFACE, family)?.elsewhere;
    let parts = Parts {
        ipvs: Arc::new(FakeIpvs::default()),
        ipset: Arc::new(FakeIpset::default()),
        links: Arc::new(FakeLinks::with("machine", own)),
        iptables: Arc::new(FakeIptables::default()),
    };
    let mut backend = IpvsBackend::new(family, options.settings.clone(), parts);
    let text = run::everything(&mut backend, tracker, proxy).and_then(|_| backend.text());
    text.map_err(|error| anyhow::anyhow!("{error}"))
}

fn parts() -> Parts {
    Parts {
        ipvs: Arc::new(RealIpvs),
        ipset: Arc::new(RealIpset),
        links: Arc::new(RealLinks),
        iptables: Arc::new(RealIptables::new(iptables::detect())),
    }
}
