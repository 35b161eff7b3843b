//! `prometheus`: `/metrics`.

use super::only;
use crate::build::{Building, HttpPath};
use crate::corefile::{Directive, Problem};
use std::net::Ipv4Addr;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    super::health::serve(line, 9153, Some(Ipv4Addr::LOCALHOST.into()), HttpPath::Metrics, building)
}
