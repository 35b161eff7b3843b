//! Flags of the types that many commands have, and the tables that commands are made of.

use crate::read;
use net::{Cidr, DualStack};
use runtime::{
    listen::Hosts,
    log::{Format, Level},
};
use std::{net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

pub(crate) use runtime::config::{AnyFlag, DefaultFlag, Flag};

/// Flags that are read together.
pub(crate) type Flags = &'static [&'static dyn AnyFlag];

/// Value of the one whose text is everything after `--`.
pub(crate) const REST: &str = "FLAG";
/// Value of one that is true when it stands alone.
pub(crate) const BOOL: &str = "BOOL";
/// Both families of this machine, and nobody else.
pub(crate) const LOOPBACK: &str = "127.0.0.1,::1";
/// The domain that Services have on almost every cluster.
pub(crate) const CLUSTER_DOMAIN: &str = "cluster.local";
/// As `twinstack image` calls what it makes.
pub(crate) const IMAGE: &str = "localhost/twinstack:latest";

/// States flags, and lists them in a table for the command.
macro_rules! flags {
    ($(#[$doc:meta])* $seen:vis $table:ident: $($name:ident: $kind:ty = $flag:expr;)*) => {
        $($seen const $name: $kind = $flag;)*
        $(#[$doc])*
        $seen const $table: $crate::flag::Flags = &[$(&$name),*];
    };
}
pub(crate) use flags;

flags! {
    /// Flags that every long-running command has.
    pub(crate) COMMON:
    CONFIG: Flag<PathBuf> = file("config", "YAML or JSON file with flags as keys; a flag wins over the environment, that over the file");
    LOG_FORMAT: DefaultFlag<Format> = Flag::new("log-format", "text|json", "text, json", read::parsed, "how log lines are written, to stderr").or("text");
    LOG_LEVEL: DefaultFlag<Level> = Flag::new("log-level", "LEVEL", "off, error, warn, info, debug, trace, a number, or a list such as info,hyper=warn", read::level, "error, warn, info, debug, trace, or a filter such as info,hyper=warn").short('v').or("info");
}

/// How a component reaches the API; a pod's service account when it is not given.
pub(crate) const KUBECONFIG: Flag<PathBuf> =
    file("kubeconfig", "how to reach the API; the pod's service account when not given");

#[rustfmt::skip]
pub(crate) const RELEASE_VERSION: Flag<String> = text(
    "release-version", "VERSION", "a version",
    "the version whose feature gates count, where the FeatureGate lists several; without it a gate must be open for all of them",
);

/// In what form an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

pub(crate) const fn output(help: &'static str) -> DefaultFlag<Form> {
    Flag::new("output", "text|json", "text, json", read::form, help).short('o').or("text")
}

pub(crate) const fn text(
    name: &'static str,
    value: &'static str,
    accepted: &'static str,
    help: &'static str,
) -> Flag<String> {
    Flag::new(name, value, accepted, read::text, help)
}

/// A text that is not empty.
pub(crate) const fn word(
    name: &'static str,
    value: &'static str,
    accepted: &'static str,
    help: &'static str,
) -> Flag<String> {
    Flag::new(name, value, accepted, read::word, help)
}

/// Texts between commas.
pub(crate) const fn words(
    name: &'static str,
    value: &'static str,
    accepted: &'static str,
    help: &'static str,
) -> Flag<Vec<String>> {
    Flag::new(name, value, accepted, read::words, help)
}

pub(crate) const fn file(name: &'static str, help: &'static str) -> Flag<PathBuf> {
    Flag::new(name, "FILE", "a file", read::path, help)
}

pub(crate) const fn folder(name: &'static str, help: &'static str) -> Flag<PathBuf> {
    Flag::new(name, "FOLDER", "a folder", read::path, help)
}

/// What is in a file.
pub(crate) const fn content(name: &'static str, help: &'static str) -> Flag<String> {
    Flag::new(name, "FILE", "a readable file", read::content, help)
}

pub(crate) const fn switch(name: &'static str, help: &'static str) -> Flag<bool> {
    Flag::new(name, BOOL, "true, false", read::parsed, help)
}

pub(crate) const fn port(name: &'static str, help: &'static str) -> Flag<u16> {
    Flag::new(name, "PORT", "a port from 0 to 65535", read::parsed, help)
}

pub(crate) const fn count<T: FromStr<Err: ToString>>(name: &'static str, help: &'static str) -> Flag<T> {
    Flag::new(name, "COUNT", "a number", read::parsed, help)
}

/// How many of something, where none at all would do nothing.
pub(crate) const fn positive(name: &'static str, help: &'static str) -> Flag<usize> {
    Flag::new(name, "COUNT", "a number from 1 on", read::positive, help)
}

pub(crate) const fn duration(name: &'static str, help: &'static str) -> Flag<Duration> {
    Flag::new(name, "DURATION", read::DURATION, read::duration, help)
}

/// How often something is done.
pub(crate) const fn period(name: &'static str, help: &'static str) -> Flag<Duration> {
    Flag::new(name, "DURATION", read::DURATION, read::period, help)
}

/// Where to listen.
pub(crate) const fn hosts(name: &'static str, help: &'static str) -> Flag<Hosts> {
    Flag::new(name, "ADDRESS[,ADDRESS]", "one address, or one of each family", read::parsed, help)
}

pub(crate) const fn addresses(name: &'static str, help: &'static str) -> Flag<DualStack<IpAddr>> {
    Flag::named(name, "ADDRESS[,ADDRESS]", "one address, or one of each family", read::one_or_pair, help)
}

pub(crate) const fn cidrs(name: &'static str, help: &'static str) -> Flag<DualStack<Cidr>> {
    Flag::named(name, "CIDR[,CIDR]", "one CIDR, or one of each family", read::one_or_pair, help)
}
