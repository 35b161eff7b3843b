//! The file of `--config`: flags as keys, or a KubeProxyConfiguration as kube-proxy reads it.

use crate::flag::{CONFIG, LOG_FORMAT, LOG_LEVEL};
use proxy::config;
use runtime::config::Settings;
use std::path::Path;

/// What counts beside a KubeProxyConfiguration, which otherwise stands in place of flags, as upstream has it.
const BESIDE: &[&str] = &[
    CONFIG.name,
    super::HOSTNAME_OVERRIDE.name,
    super::CLEANUP.flag().name,
    super::DRY_RUN.flag().name,
    super::WRITE_CONFIG_TO.name,
    LOG_FORMAT.flag().name,
    LOG_LEVEL.flag().name,
    super::explain::SERVICE.name,
    super::explain::OUTPUT.flag().name,
];

/// Adds what the file says.
pub(crate) fn read(mut settings: Settings, path: &Path) -> Settings {
    let read = std::fs::read(path).ok().and_then(|content| config::read(&content));
    let Some(read) = read else { return settings.file(path) };
    let warn = |text: String| anstream::eprintln!("\x1b[1;33mwarning:\x1b[0m {}: {text}", path.display());
    for place in settings.forget_all_but(BESIDE) {
        warn(format!("{place} has no effect: the file stands in its place"));
    }
    if !read.idle.is_empty() {
        warn(format!("no effect here: {}", read.idle.join(", ")));
    }
    settings = settings.fields(path, read.values.into_iter().map(|given| (given.flag, given.field, given.text)));
    read.problems
        .into_iter()
        .fold(settings, |settings, problem| settings.wrong_field(path, &problem.field, problem.value, &problem.problem))
}
