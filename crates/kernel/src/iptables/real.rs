//! iptables and ip6tables of this machine, through their programs.

use super::{Chains, Iptables, IptablesError, Table, Transaction, Variant, saved, sysctl};
use crate::process::{self, ProcessError};
use net::Family;

/// How long to wait for others who hold the lock of iptables. The other family holds it too while it writes everything.
const WAIT: &str = "-w";
const SECONDS: &str = "30";

/// The kernel of this machine, in the network namespace of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct RealIptables {
    variant: Variant,
}

impl RealIptables {
    /// With the programs of this variant.
    #[must_use]
    pub const fn new(variant: Variant) -> Self {
        Self { variant }
    }

    /// Whether the program of a family is there. It does not look at the kernel's tables.
    pub fn probe(&self, family: Family) -> Result<(), IptablesError> {
        process::run(self.variant.program(family), &["--version"], "")?;
        Ok(())
    }
}

impl Iptables for RealIptables {
    fn commit(&self, transaction: &Transaction) -> Result<(), IptablesError> {
        let program = format!("{}-restore", self.variant.program(transaction.family));
        process::run(&program, &[WAIT, SECONDS, "--noflush"], &transaction.text()?)?;
        Ok(())
    }

    fn save(&self, family: Family, table: Table) -> Result<Chains, IptablesError> {
        if !self.variant.may_have(family, table) {
            return Ok(Chains::new());
        }
        let program = format!("{}-save", self.variant.program(family));
        Ok(saved::table(&process::run(&program, &["-t", table.name()], "")?.stdout))
    }

    fn rules(&self, family: Family, table: Table, chain: &str) -> Result<Option<Vec<String>>, IptablesError> {
        let listed = process::run(self.variant.program(family), &[WAIT, SECONDS, "-t", table.name(), "-S", chain], "");
        match listed {
            Ok(printed) => Ok(Some(saved::rules(&printed.stdout))),
            // Versions have different words for a chain that is not there, and the same exit code for all failures.
            Err(ProcessError::Failed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn route_loopback(&self) -> Result<(), IptablesError> {
        sysctl::route_loopback()
    }
}
