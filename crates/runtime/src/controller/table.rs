//! The table of controllers and what `--controllers=` picks from it.

use super::{Context, Result};
use crate::suggest;
use futures::future::BoxFuture;

#[derive(Debug)]
pub struct Controller<O> {
    /// Upstream's name.
    pub name: &'static str,
    /// Upstream's older name; empty when it has none.
    pub alias: &'static str,
    /// Whether `*` means it as well.
    pub default_on: bool,
    /// Runs it. Restarted after an error or a panic; ends for good with `Ok`; stopped by being dropped.
    pub run: fn(Context<O>) -> BoxFuture<'static, Result<()>>,
}

/// `--controllers=`: `*` for all that are on by default, a name, `-name` for all but that one. The first word for a
/// controller counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    words: Vec<String>,
}

/// A word of `--controllers` that is no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a controller{suggestion}; accepted are *, a name or -name, of: {known}")]
pub struct UnknownController {
    word: String,
    suggestion: String,
    known: String,
}

impl Default for Selection {
    fn default() -> Self {
        Self { words: vec!["*".to_owned()] }
    }
}

impl Selection {
    /// Reads a list of words.
    pub fn parse<O>(list: &str, known: &[&Controller<O>]) -> Result<Self, UnknownController> {
        let words: Vec<String> =
            list.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        for word in words.iter().filter(|word| *word != "*") {
            let name = word.strip_prefix('-').unwrap_or(word);
            if !known.iter().any(|controller| controller.is_called(name)) {
                let names: Vec<&str> = known.iter().map(|controller| controller.name).collect();
                let suggestion = suggest::nearest(name, names.iter().copied())
                    .map(|close| format!(" (did you mean {close}?)"))
                    .unwrap_or_default();
                return Err(UnknownController { word: word.clone(), suggestion, known: names.join(", ") });
            }
        }
        Ok(Self { words })
    }

    /// Whether it picks this controller.
    #[must_use]
    pub fn picks<O>(&self, controller: &Controller<O>) -> bool {
        let own = self.words.iter().find_map(|word| match word.strip_prefix('-') {
            Some(name) => controller.is_called(name).then_some(false),
            None => controller.is_called(word).then_some(true),
        });
        own.unwrap_or_else(|| controller.default_on && self.words.iter().any(|word| word == "*"))
    }
}

impl<O> Controller<O> {
    fn is_called(&self, name: &str) -> bool {
        !name.is_empty() && (name == self.name || name == self.alias)
    }
}

/// Runs the picked controllers, each as a task of its name, until the process stops.
pub fn start<O: Send + Sync + 'static>(
    context: &Context<O>,
    controllers: &[&'static Controller<O>],
    selection: &Selection,
) {
    for controller in controllers.iter().copied().filter(|controller| selection.picks(controller)) {
        let shared = context.clone();
        context.tasks().restarting(controller.name, move |stop| {
            let run = (controller.run)(shared.clone());
            async move {
                tokio::select! {
                    () = stop.cancelled() => Ok(()),
                    ended = run => ended,
                }
            }
        });
    }
}
