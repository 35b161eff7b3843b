//! A flag: its name, type, default, help and reader, stated once. `--help`, completions, manual pages, the keys of files and
//! the variables are made from it, and [`Settings`](super::Settings) gives its value: there is no second place for a default.

use std::{any::type_name, fmt::Display, ops::Deref};

/// A flag without a default: whoever reads it says whether it must be given.
pub struct Flag<T: 'static> {
    /// Long name, without dashes; also the key in a file.
    pub name: &'static str,
    /// One letter, where tradition has one.
    pub short: Option<char>,
    /// What stands for the value in help.
    pub value: &'static str,
    /// One sentence, lower case.
    pub help: &'static str,
    /// Completes "accepted: ..."; empty where the reader's errors say it.
    pub accepted: &'static str,
    otherwise: Shown,
    reader: Reader<T>,
}

/// What help shows as the default.
#[derive(Clone, Copy)]
enum Shown {
    Words(&'static str),
    Made(fn() -> String),
}

/// From text to a value; an error completes "VALUE ...".
enum Reader<T> {
    Text(fn(&str) -> Result<T, String>),
    /// For those whose errors name the flag.
    Named(fn(&'static str, &str) -> Result<T, String>),
}

pub struct DefaultFlag<T: 'static> {
    flag: Flag<T>,
    default: Absent<T>,
}

/// What holds where nothing is given.
enum Absent<T: 'static> {
    /// As if this had been given.
    Text(&'static str),
    /// Depends on the machine; help shows the flag's words.
    Value(fn() -> T),
    /// Stands beside the code that works with it; help shows it as one would type it.
    Shown(fn() -> T, fn(&T) -> String),
}

impl<T> Flag<T> {
    /// One whose reader needs nothing but the text.
    #[must_use]
    pub const fn new(
        name: &'static str,
        value: &'static str,
        accepted: &'static str,
        read: fn(&str) -> Result<T, String>,
        help: &'static str,
    ) -> Self {
        Self { name, short: None, value, help, accepted, otherwise: Shown::Words(""), reader: Reader::Text(read) }
    }

    /// One whose reader says the flag's name in its errors.
    #[must_use]
    pub const fn named(
        name: &'static str,
        value: &'static str,
        accepted: &'static str,
        read: fn(&'static str, &str) -> Result<T, String>,
        help: &'static str,
    ) -> Self {
        Self { name, short: None, value, help, accepted, otherwise: Shown::Words(""), reader: Reader::Named(read) }
    }

    /// With a one-letter name.
    #[must_use]
    pub const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    /// The same flag of another command, which means a little more or less there.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// With other words on what is accepted.
    #[must_use]
    pub const fn accepted(mut self, words: &'static str) -> Self {
        self.accepted = words;
        self
    }

    /// What holds without it, in words: where other settings decide.
    #[must_use]
    pub const fn otherwise(mut self, words: &'static str) -> Self {
        self.otherwise = Shown::Words(words);
        self
    }

    /// The same for words that are made from the values of whoever decides.
    #[must_use]
    pub const fn otherwise_made(mut self, words: fn() -> String) -> Self {
        self.otherwise = Shown::Made(words);
        self
    }

    /// With a default, as one would type it.
    #[must_use]
    pub const fn or(self, text: &'static str) -> DefaultFlag<T> {
        DefaultFlag { flag: self.otherwise(text), default: Absent::Text(text) }
    }

    /// With a default that is made, and shown in words.
    #[must_use]
    pub const fn or_else(self, words: &'static str, value: fn() -> T) -> DefaultFlag<T> {
        DefaultFlag { flag: self.otherwise(words), default: Absent::Value(value) }
    }

    /// With the default of the code that works with it, and how that would be typed.
    #[must_use]
    pub const fn or_shown(self, value: fn() -> T, typed: fn(&T) -> String) -> DefaultFlag<T> {
        DefaultFlag { flag: self, default: Absent::Shown(value, typed) }
    }

    pub fn read(&self, text: &str) -> Result<T, String> {
        match self.reader {
            Reader::Text(read) => read(text),
            Reader::Named(read) => read(self.name, text),
        }
    }
}

impl<T: Display> Flag<T> {
    /// With the default of the code that works with it.
    #[must_use]
    pub const fn or_of(self, value: fn() -> T) -> DefaultFlag<T> {
        self.or_shown(value, T::to_string)
    }
}

impl<T> DefaultFlag<T> {
    /// The same flag of another command, which means a little more or less there.
    #[must_use]
    pub const fn help(mut self, help: &'static str) -> Self {
        self.flag = self.flag.help(help);
        self
    }

    /// The same flag of another command, with another default.
    #[must_use]
    pub const fn or(self, text: &'static str) -> Self {
        self.flag.or(text)
    }

    /// What it is without the default.
    #[must_use]
    pub const fn flag(&self) -> &Flag<T> {
        &self.flag
    }

    /// What holds where nothing is given.
    ///
    /// # Panics
    /// When the default cannot be read, which a test of the table finds.
    #[must_use]
    pub fn default(&self) -> T {
        match self.default {
            Absent::Text(text) => self.flag.read(text).expect("a default is a text that the flag takes"),
            Absent::Value(value) | Absent::Shown(value, _) => value(),
        }
    }
}

impl<T> Deref for DefaultFlag<T> {
    type Target = Flag<T>;

    fn deref(&self) -> &Flag<T> {
        &self.flag
    }
}

// Not derived: they hold no `T`.
impl<T> Clone for Flag<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Flag<T> {}
impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Reader<T> {}
impl<T> Clone for DefaultFlag<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DefaultFlag<T> {}
impl<T> Clone for Absent<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Absent<T> {}

/// A flag as a row of a table, whatever it is of.
pub trait AnyFlag: Sync {
    /// Long name.
    fn name(&self) -> &'static str;
    /// One letter.
    fn short(&self) -> Option<char>;
    /// What stands for the value in help.
    fn value(&self) -> &'static str;
    /// One sentence.
    fn help(&self) -> &'static str;
    /// Shown as the default; empty when there is none.
    fn default_text(&self) -> String;
    /// The type of its value.
    fn type_name(&self) -> &'static str;
    /// What is wrong with a text, if anything.
    fn check(&self, text: &str) -> Result<(), String>;
    /// Whether the default is a text that the flag takes.
    fn has_typed_default(&self) -> bool;
}

impl<T> AnyFlag for Flag<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn short(&self) -> Option<char> {
        self.short
    }

    fn value(&self) -> &'static str {
        self.value
    }

    fn help(&self) -> &'static str {
        self.help
    }

    fn default_text(&self) -> String {
        match self.otherwise {
            Shown::Words(words) => words.to_owned(),
            Shown::Made(words) => words(),
        }
    }

    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.read(text).map(drop)
    }

    fn has_typed_default(&self) -> bool {
        false
    }
}

impl<T> AnyFlag for DefaultFlag<T> {
    fn name(&self) -> &'static str {
        self.flag.name
    }

    fn short(&self) -> Option<char> {
        self.flag.short
    }

    fn value(&self) -> &'static str {
        self.flag.value
    }

    fn help(&self) -> &'static str {
        self.flag.help
    }

    fn default_text(&self) -> String {
        match self.default {
            Absent::Shown(value, typed) => typed(&value()),
            Absent::Text(_) | Absent::Value(_) => self.flag.default_text(),
        }
    }

    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.flag.check(text)
    }

    fn has_typed_default(&self) -> bool {
        matches!(self.default, Absent::Text(_) | Absent::Shown(..))
    }
}
