//! Where clients and load balancers arrive: binds, and the header of the PROXY protocol.
//!
//! HAProxy itself closes a connection whose header has not arrived in one piece when it looks. So a frontend in front waits
//! until the header is whole and hands everything to the real one through a socket. That takes Lua; without it, or when the
//! settings say so, HAProxy reads the header itself.

use super::{Files, Layout};
use crate::router::settings::{ProxyProtocol, Settings};
use std::{fmt::Write, net::IpAddr, path::PathBuf};

/// Tells headers that name a client from those that do not.
pub(super) const SCRIPT: &str = include_str!("proxy_header.lua");

/// Where the script of a generation is.
pub(super) fn script(layout: &Layout, number: u64) -> PathBuf {
    layout.generation(number).join("proxy_header.lua")
}

/// Whether headers may arrive in pieces.
pub(super) fn waits(settings: &Settings) -> bool {
    settings.listen.proxy_protocol != ProxyProtocol::Off && settings.listen.split_headers
}

/// The sections before a frontend, and the binds of the frontend itself.
pub(super) fn binds(files: Files<'_>, name: &str, port: u16, number: u64) -> (String, String) {
    let Files { settings, layout, .. } = files;
    let listen = &settings.listen;
    let list = layout.generation(number).join("proxy-senders.list");
    let (list, senders) = (list.display(), &listen.proxy_protocol);
    if !waits(settings) {
        let accept = if *senders == ProxyProtocol::Everybody { " accept-proxy" } else { "" };
        let mut binds = families(settings, port, accept);
        if matches!(senders, ProxyProtocol::From(_)) {
            // Writing to a text does not fail.
            let _ = writeln!(binds, "  tcp-request connection expect-proxy layer4 if {{ src -f {list} }}");
        }
        return (String::new(), binds);
    }
    let socket = layout.behind_header(name);
    let (bound, seen, words) = (socket.display(), layout.as_seen(&socket), layout.own_socket_words());
    let seen = seen.display();
    let mut text = format!("frontend header_{name} from tcp\n{}", families(settings, port, ""));
    // The frontend behind logs what is served.
    text += if settings.log.is_some() { "  option dontlog-normal\n" } else { "" };
    let _ = writeln!(text, "  tcp-request inspect-delay {}", settings.timeouts.inspect);
    if matches!(senders, ProxyProtocol::From(_)) {
        let _ = write!(
            text,
            "  tcp-request content set-var(sess.own_address) int(1) unless {{ src -f {list} }}\n  \
             tcp-request content accept unless {{ src -f {list} }}\n"
        );
    }
    text += RULES;
    let _ = write!(
        text,
        "  use_backend own_{name} if {{ var(sess.own_address) -m found }}\n  default_backend told_{name}\n\
         backend own_{name} from tcp\n{TIMELESS}  server {name} unix@{seen} send-proxy-v2\n\
         backend told_{name} from tcp\n{TIMELESS}  server {name} unix@{seen}\n"
    );
    (text, format!("  bind unix@{bound} {words} accept-proxy\n"))
}

/// Between two frontends of the same HAProxy the one behind knows how long is too long.
pub(super) const TIMELESS: &str = "  timeout tunnel 24d\n";

/// A rule whose condition may still become true waits for more to arrive. So the first refuses what cannot become a header,
/// and the second goes on as soon as there is a whole one: a line, or as many bytes as the binary form says.
const RULES: &str = r"  acl begun req.payload(0,5),hex -m str 50524F5859 0D0A0D0A00
  acl is_v1 req.payload(0,5),hex -m str 50524F5859
  acl is_v2 req.payload(0,12),hex -m str 0D0A0D0A000D0A515549540A
  acl line req.payload(0,0) -m reg '^PROXY[^\n]*\r\n'
  acl too_long req.payload(0,107) -m found
  acl whole req.payload_lv(14,2) -m found
  acl bare req.payload(14,2),hex -m str 0000
  tcp-request content reject unless begun
  tcp-request content lua.proxy_header if is_v1 line or is_v1 too_long or is_v2 whole or is_v2 bare
  tcp-request content accept if { var(sess.header_read) -m found }
  tcp-request content reject
";

/// Each family has a socket of its own, so that no client is seen as an IPv4 address inside an IPv6 one.
fn families(settings: &Settings, port: u16, accept: &str) -> String {
    let bind = |address: IpAddr| match address {
        IpAddr::V4(address) => format!("  bind {address}:{port}{accept}\n"),
        IpAddr::V6(address) => format!("  bind [{address}]:{port} v6only{accept}\n"),
    };
    settings.listen.addresses().map(bind).collect()
}
