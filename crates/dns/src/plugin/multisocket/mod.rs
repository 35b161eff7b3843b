//! `multisocket`: several sockets for one address. Here every thread has its own anyway; `--threads` says how many.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    text,
};

/// As many as CoreDNS takes.
const MOST: u32 = 1024;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let wanted: Option<u32> = match line.args.as_slice() {
        [] => None,
        _ => Some(text::number(line.one()?, 1..=MOST, "a number from 1 to 1024")?),
    };
    tracing::info!(
        wanted,
        zones = building.zones.len(),
        "multisocket: every thread has sockets of its own; --threads says how many"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{build, refused};

    #[test]
    fn numbers_are_checked() {
        for good in ["", " 1", " 1024"] {
            assert!(build(&format!(". {{\n multisocket{good}\n}}")).is_ok(), "{good}");
        }
        for bad in ["0", "1025", "x"] {
            assert!(refused(&format!(". {{\n multisocket {bad}\n}}")).contains("accepted: a number from 1 to 1024"));
        }
    }
}
