//! nftables of this machine: small changes of elements and lists through netlink, everything else through the program `nft`.

use super::{Chain, Nft, NftError, Transaction, batch, list};
use crate::process;
use net::Family;

/// The kernel of this machine, in the network namespace of the calling thread.
#[derive(Clone, Debug)]
pub struct RealNft {
    /// Name or path of the program.
    pub program: String,
}

impl Default for RealNft {
    fn default() -> Self {
        Self { program: "nft".to_owned() }
    }
}

impl RealNft {
    /// Whether the program is there and may read the kernel's tables.
    pub fn probe(&self) -> Result<(), NftError> {
        process::run(&self.program, &["list", "tables"], "")?;
        Ok(())
    }
}

impl Nft for RealNft {
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError> {
        if let Some(done) = batch::commit(transaction) {
            return Ok(done?);
        }
        process::run(&self.program, &["-f", "-"], &transaction.text())?;
        Ok(())
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        // A table of ours is never without chains.
        Ok(Some(list::chains(family, table)?).filter(|chains| !chains.is_empty()))
    }
}
