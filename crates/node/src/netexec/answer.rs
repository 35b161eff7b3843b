//! What a line or a datagram is answered with. Pure.

use std::net::SocketAddr;

/// Nothing for what nobody understands.
pub(super) fn answer(line: &str, hostname: &str, peer: SocketAddr, local: Option<SocketAddr>) -> Option<String> {
    let line = line.trim_end_matches(['\r', '\n']);
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word.to_ascii_lowercase().as_str() {
        "hostname" => Some(hostname.to_owned()),
        "echo" => Some(rest.to_owned()),
        "clientip" => Some(peer.to_string()),
        "local" => local.map(|local| local.to_string()),
        "who" => {
            let local = local.map_or_else(String::new, |local| local.to_string());
            Some(format!("{hostname} {peer} {local}").trim_end().to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_answered_on_both_families() {
        for (peer, local) in [("192.0.2.1:5000", "192.0.2.2:80"), ("[2001:db8::1]:5000", "[2001:db8::2]:80")] {
            let (from, to) = (peer.parse().unwrap(), local.parse().unwrap());
            for (line, want) in [
                ("hostname\n", Some("pod-1".to_owned())),
                ("echo a b\r\n", Some("a b".to_owned())),
                ("clientip", Some(peer.to_owned())),
                ("local", Some(local.to_owned())),
                ("who", Some(format!("pod-1 {peer} {local}"))),
                ("quit", None),
            ] {
                assert_eq!(answer(line, "pod-1", from, Some(to)), want, "{line}");
            }
        }
    }
}
