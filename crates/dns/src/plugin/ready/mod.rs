//! `ready`: `/ready` for whoever decides where queries are sent.

use super::only;
use crate::{
    compile::{Building, HttpPath},
    corefile::{Directive, Problem},
};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    super::health::serve(line, 8181, None, HttpPath::Ready, building)?;
    for line in line.lines() {
        match line.name.text.as_str() {
            // What is true now is said now, in both modes: a cluster that was seen once stays known.
            "monitor" if matches!(line.one()?.text.as_str(), "until-ready" | "continuously") => {}
            "monitor" => return Err(Problem::at(line.one()?, "accepted: until-ready, continuously")),
            _ => return Err(line.unknown(&["monitor"])),
        }
    }
    Ok(())
}
