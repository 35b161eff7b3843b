//! Rules that give what leaves the cluster the node's address, for each family. Pure.

use kernel::nft::{Operation, Transaction, word};
use net::{Cidr, Family};

const TABLE: &str = "twinstack-pods";
const CHAIN: &str = "postrouting";

/// Brings the table of a family to what it should be; a family without a range has none.
pub(super) fn transaction(family: Family, range: Option<&Cidr>, cluster: Option<&Cidr>) -> Transaction {
    let mut steps = Transaction::new(family, TABLE);
    steps.push(Operation::AddTable);
    let Some(range) = range else {
        steps.push(Operation::DeleteTable);
        return steps;
    };
    // After those of the proxy, which mark what they want masqueraded.
    let hook = Some("type nat hook postrouting priority 105");
    steps.push(Operation::AddChain { chain: CHAIN.to_owned(), hook });
    steps.push(Operation::FlushChain { chain: CHAIN.to_owned() });
    let (word, many) = (
        word(family),
        match family {
            Family::V4 => "224.0.0.0/4",
            Family::V6 => "ff00::/8",
        },
    );
    for inside in [cluster.filter(|cluster| cluster.contains_cidr(range)).unwrap_or(range).to_string(), many.to_owned()]
    {
        let rule = format!("{word} saddr {range} {word} daddr {inside} return");
        steps.push(Operation::AddRule { chain: CHAIN.to_owned(), rule });
    }
    steps.push(Operation::AddRule { chain: CHAIN.to_owned(), rule: format!("{word} saddr {range} masquerade") });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_in_the_cluster_keeps_its_address() {
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        let steps = transaction(Family::V6, Some(&cidr("fd44:0:0:1::/64")), Some(&cidr("fd44::/48")));
        assert_eq!(
            steps.text(),
            "add table ip6 twinstack-pods\n\
             add chain ip6 twinstack-pods postrouting { type nat hook postrouting priority 105; policy accept; }\n\
             flush chain ip6 twinstack-pods postrouting\n\
             add rule ip6 twinstack-pods postrouting ip6 saddr fd44:0:0:1::/64 ip6 daddr fd44::/48 return\n\
             add rule ip6 twinstack-pods postrouting ip6 saddr fd44:0:0:1::/64 ip6 daddr ff00::/8 return\n\
             add rule ip6 twinstack-pods postrouting ip6 saddr fd44:0:0:1::/64 masquerade\n"
        );
        assert_eq!(
            transaction(Family::V4, None, None).text(),
            "add table ip twinstack-pods\ndelete table ip twinstack-pods\n"
        );
    }
}
