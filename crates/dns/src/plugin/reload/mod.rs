//! `reload`: how often the Corefile is looked at again.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    text,
};
use std::time::Duration;

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.no_block()?;
    let (mut interval, mut jitter) = (Duration::from_secs(30), Duration::from_secs(15));
    match line.args.as_slice() {
        [] => {}
        [first, rest @ ..] if rest.len() < 2 => {
            interval = text::duration(first)?;
            if interval < Duration::from_secs(2) {
                return Err(Problem::at(first, "accepted: 2s and more"));
            }
            jitter = interval / 2;
            if let [second] = rest {
                jitter = text::duration(second)?;
                if jitter < Duration::from_secs(1) {
                    return Err(Problem::at(second, "accepted: 1s and more"));
                }
                jitter = jitter.min(interval / 2);
            }
        }
        [_, _, more, ..] | [more, ..] => return Err(Problem::at(more, "an interval and a jitter are enough")),
    }
    building.whole.reload = Some((interval, jitter));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing;
    use std::time::Duration;

    #[test]
    fn intervals_have_a_least_value_and_jitter_a_greatest() {
        for (text, interval, jitter) in
            [("reload", 30, 15), ("reload 10s", 10, 5), ("reload 10s 2s", 10, 2), ("reload 2s 9s", 2, 1)]
        {
            let built = testing::build(&format!(". {{\n {text}\n}}")).unwrap();
            assert_eq!(built.reload, Some((Duration::from_secs(interval), Duration::from_secs(jitter))), "{text}");
        }
        assert_eq!(
            testing::refused(". {\n reload 1s\n}"),
            "Corefile:2:9: \"1s\": plugin reload: accepted: 2s and more"
        );
    }
}
