//! `prometheus`: `/metrics`.

use super::only;
use crate::{
    compile::{Building, HttpPath},
    corefile::{Directive, Problem},
};
use runtime::listen::Machine;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    super::health::serve(line, 9153, Some(Machine::look().loopback()), HttpPath::Metrics, building)
}
