//! What is wrong with a configuration, all of it at once. Collected by `settings`, printed by `cli`, which exits with
//! [`Mistakes::EXIT_CODE`].

use std::{fmt, path::PathBuf};

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// On the command line; the name without dashes.
    Flag(String),
    /// In the environment; the variable's name.
    Environment(String),
    /// In a configuration file, under this key.
    File {
        /// The file as it was named by the user.
        path: PathBuf,
        /// The key; `None` when the file as a whole is meant.
        key: Option<String>,
    },
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Environment(name) => f.write_str(name),
            Self::File { path, key: Some(key) } => write!(f, "{}: {key}", path.display()),
            Self::File { path, key: None } => write!(f, "{}", path.display()),
        }
    }
}

/// One mistake: where, what was given, what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where the value was given, or would have to be.
    pub source: SettingSource,
    /// The offending value, if there is one.
    pub value: Option<String>,
    /// What is wrong, and what is accepted instead.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if let Some(value) = &self.value {
            // Quoted and escaped: a stray blank or line break in a value is often the mistake itself.
            write!(f, " {value:?}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// All mistakes of one component's configuration. As an error it is never empty, and retrying cannot help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    component: String,
    list: Vec<Mistake>,
}

impl Mistakes {
    /// The exit code of a command that was configured wrongly: `EX_USAGE` of BSD's sysexits.
    pub const EXIT_CODE: u8 = 64;

    /// No mistakes yet, for `component`.
    #[must_use]
    pub fn new(component: &str) -> Self {
        Self { component: component.to_owned(), list: Vec::new() }
    }

    pub fn add(&mut self, source: SettingSource, value: Option<String>, problem: impl Into<String>) {
        self.list.push(Mistake { source, value, problem: problem.into() });
    }

    /// The mistakes in the order they were found.
    #[must_use]
    pub fn list(&self) -> &[Mistake] {
        &self.list
    }

    /// `value` if nothing is wrong, else the mistakes.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.list.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.as_slice() {
            [only] => write!(f, "configuration of {}: {only}", self.component),
            several => {
                write!(f, "configuration of {}: {} mistakes", self.component, several.len())?;
                // A mistake of several lines stays one item of the list.
                several.iter().try_for_each(|mistake| write!(f, "\n  {}", mistake.to_string().replace('\n', "\n    ")))
            }
        }
    }
}

impl std::error::Error for Mistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mistake_is_a_line_and_several_are_a_list() {
        let mut mistakes = Mistakes::new("proxy");
        assert_eq!(mistakes.clone().or(7), Ok(7));
        mistakes.add(
            SettingSource::Flag("mode".to_owned()),
            Some("ipsv".to_owned()),
            "not one of nftables, iptables, ipvs",
        );
        assert_eq!(
            mistakes.to_string(),
            "configuration of proxy: --mode \"ipsv\": not one of nftables, iptables, ipvs"
        );
        let path = PathBuf::from("proxy.yaml");
        mistakes.add(SettingSource::File { path: path.clone(), key: None }, None, "not a mapping");
        mistakes.add(SettingSource::File { path, key: Some("mdoe".to_owned()) }, None, "unknown key");
        mistakes.add(
            SettingSource::Environment("TWINSTACK_PROXY_V".to_owned()),
            Some("a\nb".to_owned()),
            "not a number\nnot a word",
        );
        assert_eq!(
            mistakes.or(()).unwrap_err().to_string(),
            "configuration of proxy: 4 mistakes
  --mode \"ipsv\": not one of nftables, iptables, ipvs
  proxy.yaml: not a mapping
  proxy.yaml: mdoe: unknown key
  TWINSTACK_PROXY_V \"a\\nb\": not a number
    not a word"
        );
    }
}
