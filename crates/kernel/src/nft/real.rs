//! nftables through the program `nft`; small changes of elements through netlink.

use net::Family;

use super::{Chain, Nft, NftError, Transaction, batch, word};
use crate::process::{self, ProcessError};

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

impl Nft for RealNft {
    fn commit(&self, transaction: &Transaction) -> Result<(), NftError> {
        if let Some(done) = batch::commit(transaction) {
            return Ok(done?);
        }
        process::run(&self.program, &["-f", "-"], &transaction.text())?;
        Ok(())
    }

    fn chains(&self, family: Family, table: &str) -> Result<Option<Vec<Chain>>, NftError> {
        // -t leaves the elements out, of which there may be a hundred thousand.
        match process::run(&self.program, &["-j", "-t", "list", "table", word(family), table], "") {
            Ok(printed) => read(&printed.stdout).map(Some),
            Err(ProcessError::Failed { stderr, .. }) if stderr.contains("No such file or directory") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The chains in the answer of `nft -j list table`, which is a flat list of objects.
fn read(answer: &str) -> Result<Vec<Chain>, NftError> {
    let odd = || NftError::Answer(answer.chars().take(200).collect());
    let answer: serde_json::Value = serde_json::from_str(answer).map_err(|_| odd())?;
    let objects = answer["nftables"].as_array().ok_or_else(odd)?;
    let mut chains: Vec<Chain> = Vec::new();
    for object in objects {
        if let Some(name) = object["chain"]["name"].as_str() {
            chains.push(Chain { name: name.to_owned(), rules: 0 });
        }
    }
    for object in objects {
        if let Some(name) = object["rule"]["chain"].as_str()
            && let Some(chain) = chains.iter_mut().find(|chain| chain.name == name)
        {
            chain.rules += 1;
        }
    }
    Ok(chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_read_with_their_rules_counted() {
        let answer = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "ip", "name": "t"}},
            {"chain": {"family": "ip", "table": "t", "name": "a"}}, {"chain": {"family": "ip", "table": "t", "name": "b"}},
            {"rule": {"family": "ip", "table": "t", "chain": "a", "expr": [{"drop": null}]}}]}"#;
        let chain = |name: &str, rules| Chain { name: name.to_owned(), rules };
        assert_eq!(read(answer).unwrap(), [chain("a", 1), chain("b", 0)]);
        for odd in ["", "{}", "[]", "{\"nftables\": 1}"] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
