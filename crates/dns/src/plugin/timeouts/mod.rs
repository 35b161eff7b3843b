//! `timeouts`: how long connections may be silent, and how many questions they may bring.

use super::only;
use crate::{
    compile::Building,
    corefile::{Directive, Problem},
    text,
};
use std::time::Duration;

/// For TCP connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a question to arrive that has begun.
    pub read: Duration,
    /// For an answer to leave.
    pub write: Duration,
    /// Between questions.
    pub idle: Duration,
    /// Questions of one connection; `None` is as many as come.
    pub queries: Option<u64>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let (read, write, idle) = (Duration::from_secs(5), Duration::from_secs(5), Duration::from_secs(10));
        Self { read, write, idle, queries: None }
    }
}

pub(crate) fn setup(lines: &[&Directive], building: &mut Building<'_>) -> Result<(), Problem> {
    let line = only(lines)?;
    line.none()?;
    if line.lines().is_empty() {
        return Err(Problem::at(&line.name, "needs a block with at least one of idle, maxtcpqueries, read, write"));
    }
    let mut timeouts = Timeouts::default();
    for line in line.lines() {
        let duration = || {
            let token = line.one()?;
            let found = text::duration(token)?;
            let bounds = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
            let within = bounds.contains(&found);
            within.then_some(found).ok_or_else(|| Problem::at(token, "accepted: one second to 24 hours"))
        };
        match line.name.text.as_str() {
            "read" => timeouts.read = duration()?,
            "write" => timeouts.write = duration()?,
            "idle" => timeouts.idle = duration()?,
            "maxtcpqueries" => {
                let token = line.one()?;
                timeouts.queries = match token.text.as_str() {
                    "-1" => None,
                    _ => Some(text::number(token, 1.., "-1 for any number, or a number from 1")?),
                };
            }
            _ => return Err(line.unknown(&["idle", "maxtcpqueries", "read", "write"])),
        }
    }
    building.timeouts = Some(timeouts);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, refused};

    #[test]
    fn connections_have_the_times_of_their_server() {
        let built = build(". {\n timeouts {\n read 1s\n idle 2m\n maxtcpqueries 3\n }\n}").unwrap();
        let expected = Timeouts {
            read: Duration::from_secs(1),
            write: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            queries: Some(3),
        };
        assert_eq!(built.routes.values().next().unwrap().timeouts, expected);
        for (text, expected) in [
            ("timeouts", "needs a block with at least one of idle, maxtcpqueries, read, write"),
            ("timeouts {\n read 500ms\n }", "\"500ms\": plugin timeouts: accepted: one second to 24 hours"),
            ("timeouts {\n maxtcpqueries 0\n }", "accepted: -1 for any number, or a number from 1"),
            ("timeouts {\n wait 1s\n }", "unknown property"),
        ] {
            let problem = refused(&format!(". {{\n {text}\n}}"));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
