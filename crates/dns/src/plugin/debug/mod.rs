//! `debug`: more to read about a block. Panics are caught all the same: a DNS server must not end for one question.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
};

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    line.no_block()?;
    tracing::info!(
        zones = building.zones.len(),
        "debug: start with --log-level=debug to read more; panics are still caught"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{build, refused};

    #[test]
    fn it_takes_no_words() {
        assert!(build(". {\n debug\n}").is_ok());
        assert!(refused(". {\n debug on\n}").contains("no argument is expected here"));
    }
}
