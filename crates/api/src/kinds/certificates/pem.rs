//! PEM blocks in a text (RFC 7468), found as Go finds them: what is no block is passed over.

use base64::{Engine, engine::general_purpose::STANDARD};

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// `CERTIFICATE`.
    pub label: String,
    /// Whether it carries headers, as encrypted keys do.
    pub has_headers: bool,
    /// What it holds.
    pub der: Vec<u8>,
}

/// All blocks, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut rest = lines.clone();
        let inside: Vec<&str> = rest.by_ref().take_while(|line| *line != end).collect();
        let closed = lines.clone().count() > inside.len();
        let (headers, content): (Vec<&str>, Vec<&str>) = inside.iter().partition(|line| line.contains(':'));
        if let (true, Ok(der)) = (closed, STANDARD.decode(content.concat())) {
            blocks.push(Block { label: label.to_owned(), has_headers: !headers.is_empty(), der });
            lines = rest;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_other_text() {
        let text = "hello\n-----BEGIN A-----\nAQID\n-----END A-----\n-----BEGIN B-----\nKey: x\n\nBA==\n-----END B-----\n\
                    -----BEGIN C-----\nno base64!\n-----END C-----\n-----BEGIN D-----\nAQ==\n";
        let block = |label: &str, has_headers, der: &[u8]| Block { label: label.into(), has_headers, der: der.into() };
        assert_eq!(blocks(text), [block("A", false, &[1, 2, 3]), block("B", true, &[4])]);
        assert_eq!(blocks(""), []);
    }
}
