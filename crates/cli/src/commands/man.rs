//! `twinstack man`: manual pages, made from the same table as `--help`.

use super::Command;
use crate::{
    args,
    flag::{Flag, flags, folder},
};
use anyhow::Context;
use runtime::config::Settings;
use std::{fs, path::PathBuf};

pub(super) const COMMAND: Command = Command {
    name: "man",
    about: "write manual pages into a folder",
    more: "",
    example: "twinstack man /usr/local/share/man/man1 && man twinstack-version",
    flags: &[FLAGS],
    positional: Some("folder"),
    long_running: false,
    check: |given| given.required(&PAGES).map(drop),
    run,
};

flags! {
    FLAGS:
    PAGES: Flag<PathBuf> = folder("folder", "where the pages go; made if it is missing");
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let folder = settings.read(|given| given.required(&PAGES))?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(args::clap(), &folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    anstream::println!("wrote the pages of {} commands into {}", super::ALL.len(), folder.display());
    Ok(())
}
