//! From words on the command line to a command and its settings.

use crate::{
    commands::{self, Command},
    flag::{AnyFlag, BOOL, COMMON, CONFIG, REST},
};
use runtime::config::{Mistakes, Settings};
use std::{ffi::OsString, io::Write as _, path::Path, process::ExitCode};

/// Between words that may have commas.
const LINE: &str = "\n";

/// Exit code for a command line or settings that cannot be used (`EX_USAGE`).
const USAGE: u8 = 64;

/// The command that was asked for, with everything given to it; or the exit code when there is nothing to run.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<(&'static Command, Settings), ExitCode> {
    let words = one_dash(named(words).collect());
    let matches = clap().try_get_matches_from(words).map_err(|error| {
        // Nothing can be done about a closed terminal.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
    })?;
    let Some((name, given)) = matches.subcommand() else { return Err(ExitCode::from(USAGE)) };
    let (name, given) = match given.subcommand() {
        Some((part, inner)) => (format!("{name} {part}"), inner),
        None => (name.to_owned(), given),
    };
    let Some(command) = commands::ALL.iter().find(|command| command.name == name) else {
        return Err(ExitCode::from(USAGE));
    };
    let flags = values(command, given);
    let mut settings = Settings::new(&command.name.replace(' ', "-")).flags(flags).environment(std::env::vars());
    let config = command.long_running.then(|| given.get_one::<String>(CONFIG.name)).flatten();
    if command.name == commands::kubelet::COMMAND.name {
        let folder = given.get_one::<String>(commands::kubelet::CONFIG_DIR).map(Path::new);
        settings = commands::kubelet::file::read(settings, config.map(Path::new), folder);
    } else if let Some(path) = config {
        // A folder is for `up`, which reads it as what `init` wrote.
        let folder = command.name == "up" && Path::new(path).is_dir();
        settings = match command.name {
            _ if folder => settings,
            // It may be one of kube-proxy's.
            "proxy" | "proxy explain" => commands::proxy::file::read(settings, Path::new(path)),
            _ => settings.file(Path::new(path)),
        };
    }
    Ok((command, settings))
}

/// Under the name of an upstream program this is that one: `kube-apiserver ...` is `twinstack apiserver ...`.
fn named(mut words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let program = words.next();
    let file = program.as_ref().and_then(|program| Path::new(program).file_name()).and_then(|name| name.to_str());
    let command = match file {
        Some("kube-apiserver") => Some("apiserver"),
        Some("etcd") => Some("etcd"),
        Some("coredns") => Some("dns"),
        _ => None,
    };
    program.into_iter().chain(command.map(OsString::from)).chain(words)
}

/// CoreDNS has Go's own flags, for which one dash is as good as two: `dns -conf Corefile`.
fn one_dash(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_dns = words.get(1).is_some_and(|word| word == commands::dns::COMMAND.name);
    for word in words.iter_mut().skip(2).filter(|_| is_dns) {
        let Some(text) = word.to_str().and_then(|text| text.strip_prefix('-')) else { continue };
        let name = text.split('=').next().unwrap_or(text);
        if flags(&commands::dns::COMMAND).any(|flag| flag.name() == name) {
            *word = format!("--{text}").into();
        }
    }
    words
}

/// Every flag that is given, with its text.
fn values(command: &Command, given: &clap::ArgMatches) -> Vec<(String, String)> {
    let text = |flag: &dyn AnyFlag| {
        let values: Vec<&str> = given.get_many::<String>(flag.name())?.map(String::as_str).collect();
        let between = if flag.value() == REST { LINE } else { "," };
        Some((flag.name().to_owned(), values.join(between)))
    };
    flags(command).filter_map(text).collect()
}

/// The words of a flag that is everything after `--`.
pub(crate) fn rest(text: &str) -> Vec<String> {
    text.split(LINE).map(str::to_owned).collect()
}

/// The flags of a command that is not run, from words that are meant for it.
pub(crate) fn of(command: &Command, words: Vec<String>) -> anyhow::Result<Vec<(String, String)>> {
    let given = subcommand(command).no_binary_name(true).disable_help_flag(true).try_get_matches_from(words);
    // What runs prints the word itself.
    let given =
        given.map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_start_matches("error: ").trim_end()))?;
    Ok(values(command, &given))
}

/// All flags of a command.
pub(crate) fn flags(command: &Command) -> impl Iterator<Item = &'static dyn AnyFlag> + use<> {
    let common = if command.long_running { COMMON } else { &[] };
    command.flags.iter().copied().flatten().chain(common).copied()
}

/// The whole command line as clap knows it; completions and man pages are made from it.
pub(crate) fn clap() -> clap::Command {
    let root = clap::Command::new("twinstack")
        .about("Dual-stack Kubernetes networking in one binary")
        .long_about(
            "Dual-stack (IPv4 + IPv6) Kubernetes networking in one binary.\n\n\
             Every component is a command with the flags of the program it stands for, and works against Twinstack's \
             own API server or any Kubernetes. `twinstack up` runs all of them in one process.",
        )
        .after_help("Try:\n  twinstack up                  a cluster on this machine\n  twinstack help apiserver      what a command does, with an example")
        .version(runtime::version::BUILD.version)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(120);
    let whole = commands::ALL.iter().filter(|command| !command.name.contains(' '));
    whole.fold(root, |root, command| {
        let is_part = |part: &&Command| part.name.strip_prefix(command.name).is_some_and(|rest| rest.starts_with(' '));
        let parts = commands::ALL.iter().filter(is_part);
        root.subcommand(parts.fold(subcommand(command), |sub, part| {
            sub.args_conflicts_with_subcommands(true).subcommand(subcommand(part))
        }))
    })
}

fn subcommand(command: &Command) -> clap::Command {
    let example =
        format!("Example:\n{}", command.example.lines().map(|line| format!("  {line}\n")).collect::<String>());
    let word = command.name.rsplit(' ').next().unwrap_or(command.name);
    let mut sub = clap::Command::new(word)
        .args_override_self(true)
        .about(command.about)
        .after_help(example.trim_end().to_owned());
    if !command.more.is_empty() {
        sub = sub.long_about(format!("{}\n\n{}", capitalised(command.about), command.more));
    }
    for flag in flags(command) {
        let mut arg = clap::Arg::new(flag.name()).value_name(flag.value()).help(help(flag));
        arg = match command.positional == Some(flag.name()) {
            true => arg.required(flag.default_text().is_empty()),
            false if flag.value() == REST => arg.last(true).num_args(0..),
            false => arg.long(flag.name()),
        };
        if let Some(letter) = flag.short() {
            arg = arg.short(letter);
        }
        // A list may also be given one value at a time; of anything else the last one counts, as upstream has it.
        if flag.value().ends_with(",...") {
            arg = arg.action(clap::ArgAction::Append);
        }
        // `--flag` alone means true, as upstream's boolean flags have it.
        if flag.value() == BOOL {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("true|false");
        }
        sub = sub.arg(arg);
    }
    sub
}

fn help(flag: &dyn AnyFlag) -> String {
    match flag.default_text() {
        none if none.is_empty() => flag.help().to_owned(),
        default => format!("{} [default: {default}]", flag.help()),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Tells what went wrong and turns it into an exit code.
pub(crate) fn exit(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(mistakes) = error.downcast_ref::<Mistakes>() {
        anstream::eprintln!("{mistakes}");
        return ExitCode::from(USAGE);
    }
    anstream::eprintln!("\x1b[1;31merror:\x1b[0m {}", line(&error));
    ExitCode::FAILURE
}

/// What happened, with each cause that says something new: many errors repeat their own.
fn line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for words in error.chain().map(ToString::to_string) {
        if !line.contains(&words) {
            line += if line.is_empty() { "" } else { ": " };
            line += &words;
        }
    }
    line
}

/// Ends the process as others end when nobody reads what they print any more, or it cannot be kept: with a word, not with a trace of
/// where in the program that was.
pub(crate) fn end_when_output_fails() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        let Some(why) = text.strip_prefix("failed printing to stdout: ") else { return usual(panic) };
        // Whoever closed the pipe has what it wanted.
        if why.contains("Broken pipe") {
            std::process::exit(0);
        }
        let _ = writeln!(std::io::stderr(), "error: standard output: {why}");
        std::process::exit(1);
    }));
}

#[cfg(test)]
mod tests;
