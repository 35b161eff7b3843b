//! `bind`: on which addresses a server block listens.

use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    server::addresses,
};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let (mut given, mut except) = (Vec::new(), Vec::new());
    for line in lines {
        if line.args.is_empty() {
            return Err(Problem::at(&line.name, "needs at least one address or interface"));
        }
        for word in &line.args {
            given.extend(of(&word.text).map_err(|problem| Problem::at(word, problem))?);
        }
        for line in line.lines() {
            if line.name.text != "except" {
                return Err(line.unknown(&["except"]));
            }
            for word in &line.args {
                except.extend(of(&word.text).map_err(|problem| Problem::at(word, problem))?);
            }
        }
    }
    for address in given {
        if !except.contains(&address) && !building.addresses.contains(&address) {
            building.addresses.push(address);
        }
    }
    if building.addresses.is_empty() {
        return Err(Problem::at(&lines[0].name, "no address is left to listen on"));
    }
    Ok(())
}

/// An address, or all addresses of an interface.
fn of(text: &str) -> Result<Vec<std::net::IpAddr>, String> {
    match text.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => match addresses::of_interface(text) {
            found if found.is_empty() => {
                Err("is no address, and no interface of this machine with addresses".to_owned())
            }
            found => Ok(found),
        },
    }
}
