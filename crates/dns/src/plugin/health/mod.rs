//! `health`: `/health` for whoever decides on restarts.

use super::only;
use crate::{
    compile::{Building, HttpPath},
    corefile::{Directive, Problem, Token},
    text,
};
use runtime::listen::Machine;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    serve(line, 8080, None, HttpPath::Health, building)?;
    for line in line.lines() {
        match line.name.text.as_str() {
            "lameduck" => building.whole.lameduck = text::duration(line.one()?)?,
            _ => return Err(line.unknown(&["lameduck"])),
        }
    }
    Ok(())
}

/// Adds an HTTP path at the address that a line gives, or at a default one.
pub(crate) fn serve(
    line: &Directive,
    port: u16,
    host: Option<IpAddr>,
    path: HttpPath,
    building: &mut Building<'_>,
) -> Result<(), Problem> {
    let default = SocketAddr::new(host.unwrap_or_else(|| Ipv6Addr::UNSPECIFIED.into()), port);
    let address = match line.args.as_slice() {
        [] => default,
        [address] => parse(address)?,
        [_, more, ..] => return Err(Problem::at(more, "one address is enough")),
    };
    let paths = building.whole.http.entry(address).or_default();
    if !paths.contains(&path) {
        paths.push(path);
    }
    Ok(())
}

/// `:8080`, `host:8080`; without a host both families are served.
fn parse(token: &Token) -> Result<SocketAddr, Problem> {
    let refused = || Problem::at(token, "accepted: an address and port such as 127.0.0.1:8080, [::1]:8080 or :8080");
    let text = token.text.as_str();
    let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
    let port = port.parse().map_err(|_| refused())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = match host {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => Machine::look().loopback(),
        host => host.parse().map_err(|_| refused())?,
    };
    Ok(SocketAddr::new(host, port))
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn addresses_of_both_families_are_read() {
        for (text, expected) in [
            ("health", "[::]:8080"),
            ("health :8181", "[::]:8181"),
            ("health 127.0.0.1:1", "127.0.0.1:1"),
            ("health [::1]:1", "[::1]:1"),
            ("health localhost:1 {\n lameduck 3s\n }", "127.0.0.1:1"),
        ] {
            let built = testing::build(&format!(". {{\n {text}\n}}")).unwrap();
            let addresses: Vec<String> = built.http.keys().map(ToString::to_string).collect();
            assert_eq!(addresses, [expected], "{text}");
        }
        assert_eq!(
            testing::refused(". {\n health nowhere\n}"),
            "Corefile:2:9: \"nowhere\": plugin health: accepted: an address and port such as 127.0.0.1:8080, [::1]:8080 or :8080"
        );
    }
}
