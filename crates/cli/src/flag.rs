//! A flag as a row of a table: the one place from which `--help`, completions, man pages and the config file's keys come.

/// One flag of a command. Its text is checked together with all others by `runtime::config`, not by clap.
#[derive(Clone, Copy)]
pub(crate) struct Flag {
    /// Long name, without dashes.
    pub(crate) name: &'static str,
    /// One letter, where tradition has one.
    pub(crate) short: Option<char>,
    /// What stands for the value in help.
    pub(crate) value: &'static str,
    /// Shown as the default; empty when there is none.
    pub(crate) default: &'static str,
    /// One sentence, lower case.
    pub(crate) help: &'static str,
}

/// A flag with a long name only.
pub(crate) const fn flag(name: &'static str, value: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, short: None, value, default, help }
}

impl Flag {
    /// With a one-letter name.
    pub(crate) const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }
}

/// Value of the one whose text is everything after `--`.
pub(crate) const REST: &str = "FLAG";

/// Flags that every long-running command has.
pub(crate) const COMMON: &[Flag] = &[
    flag(
        "config",
        "FILE",
        "",
        "YAML or JSON file with flags as keys; a flag wins over the environment, that over the file",
    ),
    flag("log-format", "text|json", "text", "how log lines are written, to stderr"),
    flag("log-level", "LEVEL", "info", "error, warn, info, debug, trace, or a filter such as info,hyper=warn")
        .short('v'),
];
