//! The chains of a table and their rules, over netlink: `nft list` reads every element on the way, of which there are many.

use super::Chain;
use crate::netlink::{Message, Socket, attribute};
use net::Family;
use std::io;

const GET_CHAINS: u16 = 10 << 8 | 4;
const GET_RULES: u16 = 10 << 8 | 7;
const TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const CHAIN_NAME: u16 = 3;

/// The chains; none when there is no such table.
pub(super) fn chains(family: Family, table: &str) -> io::Result<Vec<Chain>> {
    let socket = Socket::open()?;
    let mut chains: Vec<Chain> = Vec::new();
    socket.dump(Message::new(GET_CHAINS, family), |chain| {
        if text(chain, TABLE).as_deref() == Some(table)
            && let Some(name) = text(chain, CHAIN_NAME)
        {
            chains.push(Chain { name, rules: 0 });
        }
    })?;
    let mut rules = Message::new(GET_RULES, family);
    rules.text(TABLE, table);
    socket.dump(rules, |rule| {
        let of_table = text(rule, TABLE).as_deref() == Some(table);
        let name = text(rule, RULE_CHAIN).filter(|_| of_table);
        if let Some(chain) = chains.iter_mut().find(|chain| Some(&chain.name) == name.as_ref()) {
            chain.rules += 1;
        }
    })?;
    Ok(chains)
}

/// A text ends with a zero.
fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let bytes = attribute(attributes, kind)?;
    Some(String::from_utf8_lossy(bytes.strip_suffix(&[0]).unwrap_or(bytes)).into_owned())
}
