//! Small changes of elements as netlink messages: a tenth of a millisecond where starting `nft` takes many.
//!
//! Called by `RealNft` first; what it cannot say (chains, rules, intervals, very much at once) is said by `nft`.

use super::{Element, Operation, Part, Transaction, Value};
use crate::netlink::{Batch, Message, Socket, attributes_of};
use std::{io, net::IpAddr};

const SUBSYSTEM: u16 = 10;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM << 8 | 14;
/// The length of an attribute has 16 bits; an element takes less than a hundred bytes, and a chain's name.
const ELEMENTS_PER_MESSAGE: usize = 200;
/// Well below what a socket takes at once by default.
const MOST_ELEMENTS: usize = 800;
const GOTO: i32 = -4;
const DROP: i32 = 0;

/// Does it, or says that it is not for netlink.
pub(super) fn commit(transaction: &Transaction) -> Option<io::Result<()>> {
    let batch = encode(transaction)?;
    Some(Socket::open().and_then(|socket| socket.commit(batch)))
}

fn encode(transaction: &Transaction) -> Option<Batch> {
    let mut batch = Batch::new(SUBSYSTEM);
    let mut count = 0;
    for operation in &transaction.operations {
        let (kind, set, elements) = match operation {
            Operation::AddElements { set, elements } => (NEW_ELEMENTS, set, elements),
            Operation::DeleteElements { set, elements } => (DELETE_ELEMENTS, set, elements),
            _ => return None,
        };
        count += elements.len();
        if count > MOST_ELEMENTS {
            return None;
        }
        for some in elements.chunks(ELEMENTS_PER_MESSAGE) {
            let list = attributes_of(|list| {
                for element in some {
                    list.nested(1, &encode_element(element, kind)?);
                }
                Some(())
            })?;
            let mut message = Message::new(kind, transaction.family);
            message.text(1, transaction.table);
            message.text(2, set);
            message.nested(3, &list);
            batch.push(message);
        }
    }
    Some(batch)
}

fn encode_element(element: &Element, kind: u16) -> Option<Vec<u8>> {
    attributes_of(|attributes| {
        attributes.nested(1, &data(&element.key)?);
        if let (Some(value), NEW_ELEMENTS) = (&element.value, kind) {
            let value = match value {
                Value::Drop => verdict(DROP, None)?,
                Value::Goto(chain) => verdict(GOTO, Some(chain))?,
                Value::Parts(parts) => data(parts)?,
            };
            attributes.nested(2, &value);
        }
        Some(())
    })
}

fn data(parts: &[Part]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(32);
    for part in parts {
        match part {
            Part::Address(IpAddr::V4(ip)) => bytes.extend(ip.octets()),
            Part::Address(IpAddr::V6(ip)) => bytes.extend(ip.octets()),
            Part::Tcp => bytes.push(6),
            Part::Udp => bytes.push(17),
            Part::Sctp => bytes.push(132),
            Part::Port(port) => bytes.extend(port.to_be_bytes()),
            // numgen makes a number in the machine's order.
            Part::Number(number) => bytes.extend(number.to_ne_bytes()),
            Part::Block(_) => return None,
        }
        // Every part fills registers of four bytes.
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    attributes_of(|attributes| {
        attributes.attribute(1, &bytes);
        Some(())
    })
}

fn verdict(code: i32, chain: Option<&str>) -> Option<Vec<u8>> {
    let inner = attributes_of(|attributes| {
        attributes.attribute(1, &code.to_be_bytes());
        if let Some(chain) = chain {
            attributes.text(2, chain);
        }
        Some(())
    })?;
    attributes_of(|attributes| {
        attributes.nested(2, &inner);
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Family;

    fn transaction(operations: Vec<Operation>) -> Transaction {
        Transaction { family: Family::V4, table: "t", operations }
    }

    fn element() -> Element {
        let key = vec![Part::Address([10, 0, 0, 1].into()), Part::Tcp, Part::Port(80)];
        Element::pair(key, Value::Goto("pick-2".to_owned()))
    }

    #[test]
    fn parts_fill_registers_of_four_bytes() {
        let bytes = data(&element().key).unwrap();
        assert_eq!(bytes, [16, 0, 1, 0, 10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
    }

    #[test]
    fn what_is_no_small_change_of_elements_is_left_to_nft() {
        let add = |elements| Operation::AddElements { set: "m", elements };
        assert!(encode(&transaction(vec![add(vec![element()])])).is_some());
        let block = Element::key(vec![Part::Block("10.0.0.0/8".parse().unwrap())]);
        for operations in [
            vec![add(vec![block])],
            vec![add(vec![element()]), Operation::AddChain { chain: "c".to_owned(), hook: None }],
            vec![add(vec![element(); MOST_ELEMENTS + 1])],
        ] {
            assert!(encode(&transaction(operations)).is_none());
        }
    }
}
