//! Findings and ways for people, in colours where there are some.

use inspect::{
    doctor::{Finding, Severity},
    trace::Trace,
};

/// Prints findings, how many hints were left out, and what could not be looked at.
pub(super) fn findings(shown: &[Finding], hidden: usize, unread: &[String]) {
    for finding in shown {
        let Finding { severity, about, problem, why, mend } = finding;
        let (colour, word) = match severity {
            Severity::Error => ("\x1b[1;31m", "error"),
            Severity::Warning => ("\x1b[1;33m", "warning"),
            Severity::Hint => ("\x1b[1;36m", "hint"),
        };
        anstream::println!("{colour}{word:8}\x1b[0m \x1b[1m{}\x1b[0m {}", plain(&about.to_string()), plain(problem));
        if !why.is_empty() {
            anstream::println!("         why: {}", plain(why));
        }
        if !mend.is_empty() {
            anstream::println!("         do:  {}", plain(mend));
        }
    }
    not_seen(unread);
    anstream::println!("{}", summary(shown, hidden));
}

/// Prints the way of each family, and what could not be looked at.
pub(super) fn traces(traces: &[Trace], unread: &[String]) {
    for trace in traces {
        let (colour, end) = match &trace.ends {
            None => ("\x1b[1;32m", "arrives".to_owned()),
            Some(why) => ("\x1b[1;31m", format!("ends here: {}", plain(why))),
        };
        anstream::println!("\x1b[1m{}\x1b[0m", trace.family);
        for step in &trace.steps {
            anstream::println!("  {:14} {}", step.what, plain(&step.detail));
        }
        anstream::println!("  {colour}{end}\x1b[0m");
    }
    not_seen(unread);
}

fn not_seen(unread: &[String]) {
    for line in unread {
        anstream::println!("\x1b[1;33mnot seen\x1b[0m {}", plain(line));
    }
}

fn summary(shown: &[Finding], hidden: usize) -> String {
    let count = |severity: Severity| shown.iter().filter(|one| one.severity == severity).count();
    let mut parts: Vec<String> = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Hint, "hint")]
        .into_iter()
        .map(|(severity, word)| (count(severity), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() {
        parts.push("nothing is wrong".to_owned());
    }
    if hidden > 0 {
        parts.push(format!("{hidden} hint{} not shown (--hints)", if hidden == 1 { "" } else { "s" }));
    }
    parts.join(", ")
}

/// Texts of objects may hold anything: nothing of it reaches the terminal but letters.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_and_nothing_is_said_about_nothing() {
        assert_eq!(summary(&[], 0), "nothing is wrong");
        assert_eq!(summary(&[], 1), "nothing is wrong, 1 hint not shown (--hints)");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc"), "a [31mb c");
    }
}
