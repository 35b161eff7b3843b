//! The hash by which a stock CoreDNS knows a Corefile: SHA-512 of its tokens as JSON, in the order of its own types.
//!
//! Good for Corefiles as they are rendered here: an opening brace ends a line, a closing one is alone on the next.

use crate::corefile::{Block, Corefile, Directive};
use serde_json::Value;
use std::collections::BTreeMap;

/// The text that is hashed.
pub(super) fn json(file: &Corefile) -> String {
    let blocks: Vec<String> = file.blocks.iter().map(block).collect();
    format!("[{}]", blocks.join(","))
}

fn block(block: &Block) -> String {
    let keys: Vec<String> = block.keys.iter().map(|key| text(&key.text)).collect();
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for directive in &block.directives {
        tokens(directive, by_name.entry(&directive.name.text).or_default());
    }
    let lists: Vec<String> =
        by_name.iter().map(|(name, tokens)| format!("{}:[{}]", text(name), tokens.join(","))).collect();
    format!("{{\"Keys\":[{}],\"Tokens\":{{{}}}}}", keys.join(","), lists.join(","))
}

/// Adds the tokens of a directive; gives the line of the last one.
fn tokens(directive: &Directive, list: &mut Vec<String>) -> u32 {
    let line = directive.name.place.line;
    list.push(token(line, &directive.name.text));
    list.extend(directive.args.iter().map(|word| token(line, &word.text)));
    let Some(lines) = &directive.block else { return line };
    list.push(token(line, "{"));
    let last = lines.iter().fold(line, |_, inner| tokens(inner, list));
    list.push(token(last + 1, "}"));
    last + 1
}

fn token(line: u32, word: &str) -> String {
    format!("{{\"File\":\"\",\"Line\":{line},\"Text\":{}}}", text(word))
}

/// Go's encoder writes these letters as numbers, so that JSON can stand in HTML.
fn text(word: &str) -> String {
    Value::from(word).to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
