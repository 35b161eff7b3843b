//! `bufsize`: lowers the size of UDP answers that clients may ask for.

use super::{Plugin, Step, only};
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    query::Query,
    text,
    wire::Reply,
};

/// Fits every path of the internet without fragments.
const DEFAULT: u16 = 1232;

struct Bufsize(u16);

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let size = match line.args.as_slice() {
        [] => DEFAULT,
        [size] => text::number(size, 512..=4096, "a number from 512 to 4096")?,
        [_, more, ..] => return Err(Problem::at(more, "one size is enough")),
    };
    building.plugins.push(Box::new(Bufsize(size)));
    Ok(())
}

impl Plugin for Bufsize {
    fn name(&self) -> &'static str {
        "bufsize"
    }

    fn before(&self, query: &mut Query, _: &mut Reply) -> Step {
        if let Some(edns) = &mut query.request.edns {
            edns.size = edns.size.min(self.0);
        }
        Step::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_size_is_lowered_and_never_raised() {
        for (limit, expected) in [(512, 512), (1232, 1232), (4096, 1232)] {
            let mut query = testing::query("a.test.", 1);
            Bufsize(limit).before(&mut query, &mut Reply::new());
            assert_eq!(query.limit(), expected);
        }
    }

    #[test]
    fn sizes_outside_the_bounds_are_refused() {
        for (text, expected) in [
            (". {\n bufsize 511\n}", "Corefile:2:10: \"511\": plugin bufsize: accepted: a number from 512 to 4096"),
            (". {\n bufsize 4097\n}", "Corefile:2:10: \"4097\": plugin bufsize: accepted: a number from 512 to 4096"),
            (". {\n bufsize 512 9\n}", "Corefile:2:14: \"9\": plugin bufsize: one size is enough"),
        ] {
            assert_eq!(testing::refused(text), expected);
        }
    }
}
