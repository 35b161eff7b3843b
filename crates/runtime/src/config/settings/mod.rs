//! Reading settings by name from the three sources. Called by `cli`, once per component.

use super::{
    file::{self, Given},
    flag::{AnyFlag, DefaultFlag, Flag},
    mistakes::{Mistakes, SettingSource},
};
use crate::suggest;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
};

/// What was given for one component, and what is wrong with it so far.
#[derive(Debug)]
pub struct Settings {
    component: String,
    /// Strongest first. Each maps a setting's name to where it was given and as what.
    flags: Source,
    environment: Source,
    file: Source,
    defaults: Source,
    asked: BTreeSet<&'static str>,
    mistakes: Mistakes,
}

type Source = BTreeMap<String, (SettingSource, Option<String>)>;

impl Settings {
    /// Nothing given yet. `component` is the command's name, e.g. `controller-manager`.
    #[must_use]
    pub fn new(component: &str) -> Self {
        Self {
            component: component.to_owned(),
            flags: Source::new(),
            environment: Source::new(),
            file: Source::new(),
            defaults: Source::new(),
            asked: BTreeSet::new(),
            mistakes: Mistakes::new(component),
        }
    }

    /// Adds what was given on the command line: flag names without dashes, and their text.
    #[must_use]
    pub fn flags(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, text) in given {
            self.flags.insert(name.clone(), (SettingSource::Flag(name), Some(text)));
        }
        self
    }

    /// Adds the variables that begin with `TWINSTACK_<COMPONENT>_`; hand it [`std::env::vars`].
    ///
    /// In a pod, Kubernetes sets variables such as `TWINSTACK_DNS_PORT=tcp://10.0.0.10:53` for a Service called
    /// `twinstack-dns`. Those are not settings and are passed over.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let prefix = format!("TWINSTACK_{}_", self.component.to_uppercase().replace('-', "_"));
        for (variable, text) in variables {
            let Some(rest) = variable.strip_prefix(&prefix) else { continue };
            if is_service_link(rest, &text) {
                continue;
            }
            let name = rest.to_lowercase().replace('_', "-");
            self.environment.insert(name, (SettingSource::Environment(variable), Some(text)));
        }
        self
    }

    /// Adds what holds where nothing is given, for a command that has other defaults than the component it runs.
    #[must_use]
    pub fn defaults(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, text) in given {
            self.defaults.insert(name.clone(), (SettingSource::Flag(name), Some(text)));
        }
        self
    }

    /// Adds a configuration file. One that cannot be read is a mistake.
    #[must_use]
    pub fn file(mut self, path: &Path) -> Self {
        match std::fs::read(path) {
            Ok(content) => self.file_content(path, &content),
            Err(error) => {
                let source = SettingSource::File { path: path.to_owned(), key: None };
                self.mistakes.add(source, None, format!("cannot be read: {error}"));
                self
            }
        }
    }

    /// Adds the content of a configuration file; `path` is only for messages.
    #[must_use]
    pub fn file_content(mut self, path: &Path, content: &[u8]) -> Self {
        let source = |key: Option<String>| SettingSource::File { path: path.to_owned(), key };
        let parsed = file::parse(content);
        for (key, given) in parsed.values {
            let text = match given {
                Given::Text(text) => Some(text),
                Given::Nothing => None,
            };
            self.file.insert(key.clone(), (source(Some(key)), text));
        }
        for (key, problem) in parsed.problems {
            self.mistakes.add(source(key), None, problem);
        }
        self
    }

    /// Adds what a file of another form says: the setting's name, the file's field and the text as after the flag.
    #[must_use]
    pub fn fields<'a>(mut self, path: &Path, given: impl IntoIterator<Item = (&'a str, &'a str, String)>) -> Self {
        for (name, field, text) in given {
            let source = SettingSource::File { path: path.to_owned(), key: Some(field.to_owned()) };
            self.file.insert(name.to_owned(), (source, Some(text)));
        }
        self
    }

    /// Notes what is wrong with a field of such a file.
    #[must_use]
    pub fn wrong_field(mut self, path: &Path, field: &str, value: Option<String>, problem: &str) -> Self {
        let source = SettingSource::File { path: path.to_owned(), key: Some(field.to_owned()) };
        self.mistakes.add(source, value, problem);
        self
    }

    /// Forgets what flags and the environment say, except about `kept`: for a file that stands in their place. The answer says
    /// where something was forgotten.
    pub fn forget_all_but(&mut self, kept: &[&str]) -> Vec<SettingSource> {
        let mut forgotten = Vec::new();
        for source in [&mut self.flags, &mut self.environment] {
            let (keep, lose) = std::mem::take(source).into_iter().partition(|(name, _)| kept.contains(&name.as_str()));
            *source = keep;
            let lose: Source = lose;
            forgotten.extend(lose.into_values().map(|(source, _)| source));
        }
        forgotten
    }

    /// What was given for a flag, or `None` when nothing was or it is wrong (the mistake is then noted).
    pub fn optional<T>(&mut self, flag: &Flag<T>) -> Option<T> {
        self.refined(flag, |text| flag.read(text))
    }

    /// What was given of flags that change nothing, a line for each that says why.
    pub fn idle(&mut self, flags: &[&'static dyn AnyFlag]) -> Vec<String> {
        let mut lines = Vec::new();
        for flag in flags {
            self.asked.insert(flag.name());
            if self.given(flag.name()).is_some() {
                lines.push(format!("--{}: {}", flag.name(), flag.help()));
            }
        }
        lines
    }

    /// What was given for a flag, or its default.
    pub fn get<T>(&mut self, flag: &DefaultFlag<T>) -> T {
        self.optional(flag).unwrap_or_else(|| flag.default())
    }

    /// What was given for a flag; not giving it is a mistake. `None` always comes with a mistake noted.
    pub fn required<T>(&mut self, flag: &Flag<T>) -> Option<T> {
        let Flag { name, accepted, .. } = *flag;
        if self.given(name).is_none() {
            self.asked.insert(name);
            let accepted = if accepted.is_empty() { String::new() } else { format!("; accepted: {accepted}") };
            self.mistakes.add(SettingSource::Flag(name.to_owned()), None, format!("must be given{accepted}"));
            return None;
        }
        self.optional(flag)
    }

    /// What was given for a flag, read in the light of other settings.
    pub fn refined<T, U, E: Display>(&mut self, flag: &Flag<T>, read: impl FnOnce(&str) -> Result<U, E>) -> Option<U> {
        self.asked.insert(flag.name);
        let (source, text) = self.given(flag.name)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                let accepted = if flag.accepted.is_empty() { "" } else { "; accepted: " };
                self.mistakes.add(source, Some(text), format!("{error}{accepted}{}", flag.accepted));
                None
            }
        }
    }

    /// The text that was given for a flag.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.given(name).map(|(_, text)| text)
    }

    /// The flags that were asked for so far.
    pub fn asked(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.asked.iter().copied()
    }

    /// Notes that `name`, though well-formed, does not fit the other settings.
    pub fn reject(&mut self, name: &'static str, problem: impl Into<String>) {
        let (source, text) = match self.given(name) {
            Some((source, text)) => (source, Some(text)),
            None => (SettingSource::Flag(name.to_owned()), None),
        };
        self.mistakes.add(source, text, problem);
    }

    /// Builds the component's configuration, or returns every mistake. Ask for all settings before using `?` on one, so
    /// that no mistake hides another; use `?` only on what [`Settings::required`] gave.
    ///
    /// # Panics
    /// When `build` gives `None` although every setting it required is there.
    pub fn read<T>(mut self, build: impl FnOnce(&mut Self) -> Option<T>) -> Result<T, Mistakes> {
        let built = build(&mut self);
        self.note_unknown();
        self.mistakes.or(())?;
        Ok(built.expect("`build` gives `None` only for a required setting, whose mistake is noted"))
    }

    fn given(&self, name: &str) -> Option<(SettingSource, String)> {
        [&self.flags, &self.environment, &self.file, &self.defaults].into_iter().find_map(|source| {
            let (source, text) = source.get(name)?;
            Some((source.clone(), text.clone()?))
        })
    }

    /// Unknown keys of a file and unknown flags are mistakes. An unknown variable is one only if it looks like a
    /// mistyped setting: `TWINSTACK_DNS_OPERATOR_X` begins like a variable of `dns` and is none.
    fn note_unknown(&mut self) {
        for (source, sort) in [(&self.flags, "flag"), (&self.environment, "variable"), (&self.file, "key")] {
            for (name, (source, _)) in source.iter().filter(|(name, _)| !self.asked.contains(name.as_str())) {
                let near = suggest::nearest(name, self.asked.iter().copied());
                let problem = match (near, source) {
                    (None, SettingSource::Environment(_)) => continue,
                    (None, _) => format!("unknown {sort}"),
                    (Some(near), SettingSource::Environment(variable)) => {
                        let prefix = &variable[..variable.len() - name.len()];
                        format!("unknown {sort}; did you mean {prefix}{}?", near.to_uppercase().replace('-', "_"))
                    }
                    (Some(near), _) => format!("unknown {sort}; did you mean {near}?"),
                };
                self.mistakes.add(source.clone(), None, problem);
            }
        }
    }
}

/// Whether Kubernetes set the variable for a Service: `SERVICE_HOST`, `SERVICE_PORT`, `SERVICE_PORT_<NAME>`, and `PORT`
/// or `PORT_<number>_<protocol>` (`_PORT`, `_PROTO`, `_ADDR`).
fn is_service_link(rest: &str, text: &str) -> bool {
    rest == "SERVICE_HOST"
        || rest.starts_with("SERVICE_PORT")
        || (rest == "PORT" && text.contains("://"))
        || rest.strip_prefix("PORT_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
