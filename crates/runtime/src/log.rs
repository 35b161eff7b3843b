//! Log lines to stderr, for people or for machines. Set up once by `main`; everything else only uses `tracing`.

use std::{
    io::{self, IsTerminal},
    str::FromStr,
};
use tracing::Subscriber;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
};

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One readable line per event.
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for Format {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format(text.to_owned())),
        }
    }
}

/// `--log-level` or `-v`: how much is logged, in all and of single parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    default: LevelFilter,
    parts: Vec<(String, LevelFilter)>,
}

impl Level {
    /// Libraries that say much and mean little below a warning; held back so that `debug` shows our own words.
    const QUIET: [&str; 5] = ["h2", "hyper", "hyper_util", "rustls", "tower"];

    /// Where kube warns of each watch that a server ended without a farewell; our own watch tells what comes of it.
    const HUSHED: &str = "kube_client::client";

    /// Kubernetes' `-v`: up to 3 is information, 4 and 5 help to debug, 6 and more show requests and everything else.
    #[must_use]
    pub fn from_verbosity(verbosity: u8) -> Self {
        match verbosity {
            0..=3 => Self::all(LevelFilter::INFO),
            4..=5 => Self::all(LevelFilter::DEBUG),
            6.. => Self::all(LevelFilter::TRACE),
        }
    }

    fn all(default: LevelFilter) -> Self {
        let hold_back = default == LevelFilter::INFO || default == LevelFilter::DEBUG;
        let quiet =
            Self::QUIET.map(|part| (part, LevelFilter::WARN)).into_iter().chain([(Self::HUSHED, LevelFilter::ERROR)]);
        let parts = quiet.filter(|_| hold_back).map(|(part, level)| (part.to_owned(), level)).collect();
        Self { default, parts }
    }

    fn filter(&self) -> Targets {
        Targets::new().with_default(self.default).with_targets(self.parts.clone())
    }
}

impl FromStr for Level {
    type Err = LogError;

    /// A level for all (`warn`), and levels of parts (`info,proxy=debug`); later ones win.
    fn from_str(text: &str) -> Result<Self, LogError> {
        let level = |word: &str| match word {
            "off" => Some(LevelFilter::OFF),
            "error" => Some(LevelFilter::ERROR),
            "warn" => Some(LevelFilter::WARN),
            "info" => Some(LevelFilter::INFO),
            "debug" => Some(LevelFilter::DEBUG),
            "trace" => Some(LevelFilter::TRACE),
            _ => None,
        };
        let refused = || LogError::Level(text.to_owned());
        let mut parsed = Self::from_verbosity(0);
        for item in text.split(',') {
            match item.split_once('=') {
                None => parsed = Self::all(level(item).ok_or_else(refused)?),
                Some(("", _)) => return Err(refused()),
                Some((part, word)) => parsed.parts.push((part.to_owned(), level(word).ok_or_else(refused)?)),
            }
        }
        Ok(parsed)
    }
}

/// Why logging could not be set up. The operator must change the flag; for `AlreadySet` it is a mistake in our code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// An unknown `--log-format`.
    #[error("{0:?} is not a log format; give text or json")]
    Format(String),
    /// An unknown `--log-level`.
    #[error("{0:?} is not a log level; give off, error, warn, info, debug, trace, or a list such as info,proxy=debug")]
    Level(String),
    /// Something set up logging before.
    #[error("logging is already set up")]
    AlreadySet,
}

/// Sends all events to stderr from now on.
pub fn init(format: Format, level: &Level) -> Result<(), LogError> {
    let colour = colour(io::stderr().is_terminal(), std::env::var("NO_COLOR").ok().as_deref());
    let subscriber = subscriber(format, level, colour, io::stderr);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadySet)
}

/// Colours are for a person at a terminal who has not set `NO_COLOR` to anything (<https://no-color.org>).
#[must_use]
pub fn colour(terminal: bool, no_color: Option<&str>) -> bool {
    terminal && no_color.is_none_or(str::is_empty)
}

/// What [`init`] installs, with any writer: for tests and for programs that keep their own.
pub fn subscriber<W>(format: Format, level: &Level, colour: bool, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_ansi(colour).with_writer(writer);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        Format::Text => layer.boxed(),
        Format::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
    };
    Box::new(Registry::default().with(layer.with_filter(level.filter())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, level: &str, colour: bool, events: impl FnOnce()) -> String {
        let lines = Lines::default();
        let level = level.parse().unwrap();
        let writer = lines.clone();
        let subscriber = subscriber(format, &level, colour, move || writer.clone());
        tracing::subscriber::with_default(subscriber, events);
        let bytes = lines.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_is_plain_without_colours_and_filtered_by_level() {
        let text = logged(Format::Text, "info", false, || {
            tracing::info!(port = 53, "listening");
            tracing::debug!("hidden");
        });
        assert!(text.ends_with("listening port=53\n"), "{text}");
        assert!(!text.contains('\x1b') && !text.contains("hidden"), "{text}");
        assert!(logged(Format::Text, "info", true, || tracing::info!("x")).contains('\x1b'));
    }

    #[test]
    fn json_is_one_object_per_line_with_the_fields_on_top() {
        let text = logged(Format::Json, "debug", true, || tracing::debug!(port = 53, "listening"));
        let object: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(
            (&object["level"], &object["message"], &object["port"]),
            (&"DEBUG".into(), &"listening".into(), &53.into())
        );
    }

    #[test]
    fn libraries_are_quiet_unless_everything_is_asked_for() {
        let noise = || tracing::debug!(target: "hyper::proto", "noise");
        assert_eq!(logged(Format::Text, "debug", false, noise), "");
        assert!(logged(Format::Text, "trace", false, noise).contains("noise"));
        assert!(logged(Format::Text, "info,hyper=debug", false, noise).contains("noise"));
    }

    #[test]
    fn verbosity_maps_to_levels() {
        for (verbosity, level) in [(0, "info"), (3, "info"), (4, "debug"), (5, "debug"), (6, "trace"), (10, "trace")] {
            assert_eq!(Level::from_verbosity(verbosity), level.parse().unwrap(), "-v {verbosity}");
        }
    }

    #[test]
    fn wrong_words_are_refused_with_what_is_accepted() {
        assert_eq!("xml".parse::<Format>().unwrap_err().to_string(), "\"xml\" is not a log format; give text or json");
        for wrong in ["loud", "", "INFO", "info=a=b=c", "=debug", "proxy=", "info,", "\t¹="] {
            assert_eq!(wrong.parse::<Level>(), Err(LogError::Level(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn colours_need_a_terminal_and_no_no_color() {
        for (terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (false, None, false),
            (false, Some("1"), false),
        ] {
            assert_eq!(colour(terminal, no_color), expected, "{terminal} {no_color:?}");
        }
    }

    proptest! {
        #[test]
        fn any_level_text_is_taken_or_refused_without_panic(text in ".{0,40}") {
            let _ = text.parse::<Level>();
        }
    }
}
