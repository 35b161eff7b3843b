//! `nsid`: the server's name for clients that ask for it (RFC 5001).

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let words: Vec<&str> = line.args.iter().map(|word| word.text.as_str()).collect();
    let data = if words.is_empty() { crate::server::hostname() } else { words.join(" ") };
    building.nsid = Some(data.into_bytes());
    Ok(())
}
