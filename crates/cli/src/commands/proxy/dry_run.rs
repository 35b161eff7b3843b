//! `--dry-run`: the rules as they would be given to the kernel's programs, printed.

use super::{Mode, ProxyOptions, proxy_ipvs};
use kernel::{
    iptables::{Chains, FakeIptables, Iptables, IptablesError, Table, Transaction as IptablesTransaction},
    nft::{Chain, FakeNft, Nft, NftError, Transaction},
};
use net::Family;
use proxy::{
    backend::{
        Backend,
        iptables::{IptablesBackend, IptablesOptions},
        nft::NftBackend,
    },
    run,
};
use std::sync::{Arc, Mutex};

/// Reads the API once and prints what a proxy would do; the kernel is not touched.
pub(super) fn run(options: &ProxyOptions) -> anyhow::Result<()> {
    let tracker = super::snapshot(options)?;
    for family in &options.proxy.families {
        if options.mode == Mode::Ipvs {
            anstream::println!("# {family}\n{}", proxy_ipvs::text(*family, &tracker, &options.proxy, &options.ipvs)?);
            continue;
        }
        let printed = Arc::new(Printed::default());
        let (mut backend, program): (Box<dyn Backend>, _) = if options.mode == Mode::Nftables {
            (Box::new(NftBackend::new(*family, printed.clone())), "nft -f -")
        } else {
            let more = IptablesOptions::of_machine(options.proxy.localhost_node_ports);
            let words = ["iptables-restore --noflush", "ip6tables-restore --noflush"];
            let program = words[usize::from(*family == Family::V6)];
            (Box::new(IptablesBackend::new(*family, printed.clone(), more)), program)
        };
        run::everything(&mut *backend, &tracker, &options.proxy).map_err(|error| anyhow::anyhow!("{error}"))?;
        anstream::println!("# {family}, for {program}\n{}", printed.take());
    }
    Ok(())
}

/// Keeps the text, and what it does to a kernel in memory that starts empty.
#[derive(Default)]
struct Printed {
    text: Mutex<String>,
    nft: FakeNft,
    iptables: FakeIptables,
}

impl Printed {
    fn add(&self, text: &str) {
        self.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(text);
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Nft for Printed {
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError> {
        self.add(&transaction.text());
        self.nft.commit(transaction)
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        self.nft.chains(family, table)
    }
}

impl Iptables for Printed {
    fn commit(&self, transaction: &IptablesTransaction) -> Result<(), IptablesError> {
        self.add(&transaction.text()?);
        self.iptables.commit(transaction)
    }

    fn save(&self, family: Family, table: Table) -> Result<Chains, IptablesError> {
        self.iptables.save(family, table)
    }

    fn rules(&self, family: Family, table: Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError> {
        self.iptables.rules(family, table, chain)
    }

    fn route_loopback(&self) -> Result<(), IptablesError> {
        self.add("# sysctl net.ipv4.conf.all.route_localnet=1\n");
        Ok(())
    }
}
