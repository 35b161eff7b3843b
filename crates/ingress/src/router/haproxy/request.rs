//! What every request goes through in HAProxy: is it one, which host and path does it mean, and which backend is that.
//!
//! A map's key is host and path, one after the other, so both must be what they seem: a host has no slash, and a path has one
//! spelling. Whoever asks in a way that could be read in two ways is refused here, before anything is looked up.

use super::{Files, backend, spare::TuneMap};
use crate::router::{log_format, model::Map, text::quoted};

/// Refuses what is no request, and sets `txn.host` and `txn.path`.
///
/// HAProxy itself refuses two different Hosts, a Host other than the target's, two lengths, and encodings it does not know; and of a
/// length beside chunks it takes the length away. The rest is refused here:
/// - TRACE and CONNECT: nobody behind a router is meant to be asked for either.
/// - Versions that are none. A binary connection says 2.0, a line of text may not.
/// - NUL in a header, which some read as its end; chunks with HTTP/1.0, which some read as none.
/// - A Host that is no name or address with perhaps a port. HTTP/1.0 may come without one.
/// - A name and password in the target. A target with a host is passed on without it, as to any origin.
///
/// A path with anything in it that could be spelled otherwise is looked up in its one spelling ([`canonical_path`]); pods get it as
/// it was. Escapes that are none, an escaped NUL, and `.` and `..` as segments are refused. Most paths pass one comparison.
///
/// [`canonical_path`]: crate::router::text::canonical_path
const CHECKS: &str = r"  http-request deny deny_status 405 if METH_TRACE or METH_CONNECT
  http-request return status 505 content-type text/plain string 'accepted: HTTP/1.0, HTTP/1.1, HTTP/2' unless { req.ver 1.1 1.0 } or { fc_http_major 2 }
  http-request deny deny_status 400 if { req.hdrs -m reg '\x00' } or { req.ver 1.0 } { req.fhdr(Transfer-Encoding) -m found }
  http-request set-var(txn.host) req.fhdr(Host),lower
  http-request deny deny_status 400 unless { var(txn.host) -m reg '^(?:[0-9a-z_-]+(?:\.[0-9a-z_-]+)*\.?|\[[0-9a-f:.]+\])(?::[0-9]*)?$' } or { req.ver 1.0 } !{ req.fhdr(Host) -m found }
  http-request set-header Host %[var(txn.host)] if { var(txn.host) -m found } !{ req.fhdr(Host),strcmp(txn.host) eq 0 }
  http-request set-var(txn.host) var(txn.host),host_only,rtrim(.)
  acl has_path_only url -m beg /
  http-request deny deny_status 400 if !has_path_only { url -m reg '^[^/?]*//[^/?]*@' }
  http-request set-uri /%[pathq,regsub(^/,)] if !has_path_only { fc_http_major 1 } { url -m sub :// }
  http-request set-var(txn.path) path
  http-request set-var(txn.odd) bool(1) unless { var(txn.path) -m reg '^(?:/[0-9A-Za-z_~-][0-9A-Za-z._~-]*)*/?$' }
  acl is_odd var(txn.odd) -m found
  http-request deny deny_status 400 if is_odd { var(txn.path) -m reg '%(?![0-9A-Fa-f]{2})|%00' }
  http-request set-var(txn.path) path,url_dec,url_enc,regsub(%2F,/,g),regsub(//+,/,g) if is_odd
  http-request deny deny_status 400 if is_odd { var(txn.path) -m reg '/\.\.?(?:/|$)' }
";

/// The rules of a frontend: no headers that only the router may set, a request that is one, then the maps.
///
/// The name itself is looked up first, then the wildcard above it. Only a name that nobody has claimed comes to rules without a
/// host, be it with another path or over another protocol.
pub(super) fn rules(files: Files<'_>, number: u64, exact: Map, prefix: Map, proto: &str) -> String {
    let path = |map| files.layout.map(number, map).display().to_string();
    let (exact, prefix, claimed) = (path(exact), path(prefix), path(Map::Claimed));
    let (http, admission) = (&files.settings.http, &files.settings.admission);
    let unique = http.unique_id_header.as_ref();
    let format = quoted(&http.unique_id_format);
    let unique = unique.map(|name| format!("  unique-id-format {format}\n  unique-id-header {name}\n"));
    let captures: String = http.captures.iter().map(|line| format!("  {line}\n")).collect();
    let headers = backend::headers("http-request", &http.request_headers)
        + &backend::headers("http-response", &http.response_headers);
    let adjust = if http.case_adjust.is_empty() { "" } else { "  option h1-case-adjust-bogus-client\n" };
    let log = files.settings.log.as_ref();
    let log = log.map(|log| log_lines(log.format.as_deref().unwrap_or(log_format::HTTP), "http-request", "txn"));
    let mut text = format!(
        "{adjust}{captures}{}{CHECKS}{headers}{}  http-request del-header Proxy\n  http-request set-var(txn.proto) str({proto})\n  \
         http-request set-var(txn.from_v6) bool(1) if {{ src -m sub : }}\n",
        log.unwrap_or_default(),
        unique.unwrap_or_default(),
    );
    let look_up = |key: &str| {
        format!(
            "  http-request set-var(txn.key) {key},concat(,txn.path) {MISSING}\n  \
             http-request set-var(txn.backend) var(txn.key),map_str({exact}) {MISSING}\n  \
             http-request set-var(txn.backend) var(txn.key),map_beg({prefix}) {MISSING}\n",
        )
    };
    text += &look_up(NAME);
    if admission.wildcards {
        text += &look_up(ABOVE);
    }
    if admission.hostless() {
        let nowhere = |name| format!("  http-request set-var(txn.backend) {name},map_str({claimed}) {MISSING}\n");
        text += &[NAME, ABOVE].map(nowhere).concat();
        text += &look_up("str(*)");
    }
    text += &log_name(files, number, "http-request", "txn", "openshift_default");
    text += "  use_backend %[var(txn.backend)] if { var(txn.backend) -m found }\n  default_backend openshift_default\n";
    text
}

/// How a frontend logs: with a name of its own for the backend, which is the frontend's until a backend is found.
pub(super) fn log_lines(format: &str, rule: &str, scope: &str) -> String {
    let format = quoted(&log_format::with_backend(format, &format!("[var({scope}.name)]")));
    format!("  log-format {format}\n  {rule} set-var({scope}.name) fe_name\n")
}

/// Under which name the backend that was found is logged: its own, and a spare under that of its claim.
pub(super) fn log_name(files: Files<'_>, number: u64, rule: &str, scope: &str, nobody: &str) -> String {
    if files.settings.log.is_none() {
        return String::new();
    }
    let names = TuneMap::LogName.path(files.layout, number);
    let (found, set) = (format!("var({scope}.backend)"), format!("  {rule} set-var({scope}.name)"));
    format!(
        "{set} str({nobody})\n{set} {found} if {{ {found} -m found }}\n\
         {set} {found},map_str({}) if {{ {found} -m beg spare_ }}\n",
        names.display()
    )
}

const MISSING: &str = "unless { var(txn.backend) -m found }";
const NAME: &str = "var(txn.host)";
/// The domain above the name, with a dot before it, as keys of wildcards begin.
const ABOVE: &str = "var(txn.host),regsub(^[^.]*,)";
