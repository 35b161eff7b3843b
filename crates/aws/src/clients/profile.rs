//! The files `~/.aws/config` and `~/.aws/credentials`: profiles, and where a profile has APIs.
//!
//! Sections are `[default]`, `[profile NAME]` and `[services NAME]` in the first file, `[NAME]` in the second, which wins. A line that begins with a
//! space goes on with the value of the one before; under `[services]` such lines are keys of their own.

use super::environment::Environment;
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

type Keys = BTreeMap<String, String>;

/// What the files say.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Profiles {
    profiles: BTreeMap<String, Keys>,
    /// By the name of the section, then `SERVICE.KEY`.
    services: BTreeMap<String, Keys>,
    chosen: String,
    /// Whether somebody chose it, and wants it to be there.
    named: bool,
}

/// A file that cannot be read or understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{}: line {line} is neither a [section] nor key = value", path.display())]
    Line { path: PathBuf, line: usize },
}

/// Which of the two files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Config,
    Credentials,
}

enum Section {
    Profile(String),
    Services(String),
    Unknown,
}

impl Profiles {
    /// Reads the files that the environment names. One that is not there is as good as empty.
    pub(super) fn read(environment: &Environment) -> Result<Self, ProfileError> {
        let named = environment.get("AWS_PROFILE");
        let mut all = Self { chosen: named.unwrap_or("default").to_owned(), named: named.is_some(), ..Self::default() };
        for (kind, variable, usual) in [
            (Kind::Config, "AWS_CONFIG_FILE", ".aws/config"),
            (Kind::Credentials, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        ] {
            let Some(path) = environment.file(variable, usual) else { continue };
            match std::fs::read_to_string(&path) {
                Ok(text) => all.take(kind, &text, &path)?,
                Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {}
                Err(error) => return Err(ProfileError::Read { path, error }),
            }
        }
        Ok(all)
    }

    fn take(&mut self, kind: Kind, text: &str, path: &Path) -> Result<(), ProfileError> {
        let mut section = Section::Unknown;
        let mut key = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            let indented = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let wrong = || ProfileError::Line { path: path.to_owned(), line: number };
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.split_once(']').ok_or_else(wrong)?.0.trim();
                section = self.begun(kind, name);
                key.clear();
                continue;
            }
            let keys = match &section {
                Section::Profile(name) => self.profiles.entry(name.clone()).or_default(),
                Section::Services(name) => self.services.entry(name.clone()).or_default(),
                Section::Unknown => continue,
            };
            match (indented && !key.is_empty(), &section) {
                (true, Section::Services(_)) => {
                    let (name, value) = pair(line).ok_or_else(wrong)?;
                    keys.insert(format!("{key}.{name}"), value);
                }
                (true, _) => {
                    let value = keys.entry(key.clone()).or_default();
                    value.push('\n');
                    value.push_str(line);
                }
                (false, _) => {
                    let (name, value) = pair(line).ok_or_else(wrong)?;
                    key.clone_from(&name);
                    keys.insert(name, value);
                }
            }
        }
        Ok(())
    }

    fn begun(&mut self, kind: Kind, name: &str) -> Section {
        let words: Vec<&str> = name.split_whitespace().collect();
        match (kind, words.as_slice()) {
            (Kind::Credentials, [name]) | (Kind::Config, ["profile", name]) => Section::Profile((*name).to_owned()),
            (Kind::Config, ["default"]) => Section::Profile("default".to_owned()),
            (Kind::Config, ["services", name]) => Section::Services((*name).to_owned()),
            _ => Section::Unknown,
        }
    }

    /// The profile that is in use.
    pub(super) fn chosen(&self) -> &str {
        &self.chosen
    }

    /// Whether somebody named the profile that is in use, and it is not there.
    pub(super) fn lacks_chosen(&self) -> bool {
        self.named && !self.profiles.contains_key(&self.chosen)
    }

    pub(super) fn has(&self, profile: &str) -> bool {
        self.profiles.contains_key(profile)
    }

    /// A key of a profile; empty ones count as not given.
    pub(super) fn get(&self, profile: &str, key: &str) -> Option<&str> {
        self.profiles.get(profile)?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A key of the profile in use.
    pub(super) fn own(&self, key: &str) -> Option<&str> {
        self.get(&self.chosen, key)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.own(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Where the profile in use has an API, by its id: `EC2`, `Route 53`.
    pub(super) fn endpoint_url(&self, service: &str) -> Option<&str> {
        if self.is_true("ignore_configured_endpoint_urls") {
            return None;
        }
        let id = service.to_lowercase().replace(' ', "_");
        let of_services = self.own("services").and_then(|name| self.services.get(name));
        let particular = of_services.and_then(|keys| keys.get(&format!("{id}.endpoint_url")));
        particular.map(String::as_str).or_else(|| self.own("endpoint_url"))
    }
}

/// Values may be secrets.
impl std::fmt::Debug for Profiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profiles").field("chosen", &self.chosen).finish_non_exhaustive()
    }
}

/// `key = value`, without a comment that follows a space.
fn pair(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    let comment = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    let value = &value[..comment.unwrap_or(value.len())];
    Some((key.trim().to_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str, credentials: &str, chosen: &str) -> Result<Profiles, ProfileError> {
        let mut all = Profiles { chosen: chosen.to_owned(), ..Profiles::default() };
        all.take(Kind::Config, config, Path::new("config"))?;
        all.take(Kind::Credentials, credentials, Path::new("credentials"))?;
        Ok(all)
    }

    const CONFIG: &str = "\
# mine
[default]
region = eu-north-1
[profile blue]
REGION=us-gov-west-1 ; a comment
role_arn = arn:aws:iam::1:role/x#y
services = here
s3 =
  max_concurrent_requests = 20
endpoint_url = http://all
[services here]
elastic_load_balancing_v2 =
  endpoint_url = http://nlb
[sso-session s]
sso_region = us-east-1
";

    #[test]
    fn a_profile_is_read_from_both_files() {
        let all = read(CONFIG, "[blue]\naws_access_key_id = AKID\nregion = eu-west-1\n", "blue").expect("profiles");
        for (profile, key, value) in [
            ("default", "region", Some("eu-north-1")),
            ("blue", "region", Some("eu-west-1")),
            ("blue", "role_arn", Some("arn:aws:iam::1:role/x#y")),
            ("blue", "aws_access_key_id", Some("AKID")),
            ("blue", "sso_region", None),
            ("green", "region", None),
        ] {
            assert_eq!(all.get(profile, key), value, "{profile} {key}");
        }
        assert!(all.has("blue") && !all.has("s"));
    }

    #[test]
    fn a_profile_says_where_apis_are() {
        let all = read(CONFIG, "", "blue").expect("profiles");
        assert_eq!(all.endpoint_url("Elastic Load Balancing v2"), Some("http://nlb"));
        assert_eq!(all.endpoint_url("Route 53"), Some("http://all"));
        let ignoring = CONFIG.replace("services = here", "ignore_configured_endpoint_urls = true");
        assert_eq!(read(&ignoring, "", "blue").expect("profiles").endpoint_url("EC2"), None);
        assert_eq!(read(CONFIG, "", "default").expect("profiles").endpoint_url("EC2"), None);
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        for (text, line) in [("[default\n", 1), ("[default]\nregion\n", 2)] {
            let error = read(text, "", "default").expect_err("a mistake").to_string();
            assert_eq!(error, format!("config: line {line} is neither a [section] nor key = value"));
        }
    }
}
