//! PEM text of DER bytes (RFC 7468). Called by `authority`.

use base64::{Engine, engine::general_purpose::STANDARD};

/// `-----BEGIN <label>-----`, lines of 64, `-----END <label>-----`.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_64_letters_long() {
        let line = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(encode("X", &[0; 50]), format!("-----BEGIN X-----\n{line}\nAAA=\n-----END X-----\n"));
        assert_eq!(encode("X", &[]), "-----BEGIN X-----\n-----END X-----\n");
    }
}
