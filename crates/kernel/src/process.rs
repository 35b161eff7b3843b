//! Running a program with text on its standard input. Called by `nft` and `netns`.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
    thread,
};

/// What a program printed, after it ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Its standard output.
    pub stdout: String,
}

/// A program that could not be started, or that was not content.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Retrying helps only after it was installed.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        source: io::Error,
    },
    /// What it printed says more.
    #[error("{program} failed ({status}): {stderr}")]
    Failed {
        /// Its name.
        program: String,
        /// Exit code or signal, in words.
        status: String,
        /// What it complained of.
        stderr: String,
    },
}

/// Runs a program to its end.
pub fn run(program: &str, words: &[&str], input: &str) -> Result<Printed, ProcessError> {
    let start = |source| ProcessError::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let pipe = child.stdin.take();
    // Written beside the reading, so that neither side waits for the other with a full pipe.
    let output = thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends without reading tells why by its exit code.
            let _ = pipe.map(|mut pipe| pipe.write_all(input.as_bytes()));
        });
        child.wait_with_output()
    });
    let output = output.map_err(start)?;
    if output.status.success() {
        return Ok(Printed { stdout: String::from_utf8_lossy(&output.stdout).into_owned() });
    }
    Err(ProcessError::Failed {
        program: program.to_owned(),
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_comes_back_and_failures_say_why() {
        let long = "x".repeat(1 << 20);
        assert_eq!(run("cat", &[], &long).unwrap().stdout, long);
        let failed = run("sh", &["-c", "echo no >&2; exit 3"], &long).unwrap_err().to_string();
        assert_eq!(failed, "sh failed (exit status: 3): no");
        assert!(run("/nonexistent", &[], "").unwrap_err().to_string().starts_with("cannot start /nonexistent: "));
    }
}
