//! `twinstack down` and `twinstack reset`: a cluster on this machine ends, and with `reset` is forgotten.

use super::{Command, lab, up};
use crate::flag::{DefaultFlag, flags, switch};
use anyhow::{Context, bail};
use kernel::child;
use runtime::config::Settings;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Pods have two seconds, then everything is taken away.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) const DOWN: Command = Command {
    name: "down",
    about: "stop the cluster that `up` runs",
    more: "Tells `twinstack up` of the data folder to end, in the background or in another terminal, and waits for that; then takes away what a killed one left. \
           State, images and volumes stay, and the next `twinstack up` goes on with them. That nothing runs is no mistake.",
    example: "twinstack up -d\ntwinstack down",
    flags: &[&[&lab::DATA_DIR]],
    positional: None,
    long_running: false,
    check: |given| {
        given.optional(&lab::DATA_DIR);
        Some(())
    },
    run: |settings| {
        let folder = settings.read(|given| Some(folder(given)))?;
        end(&folder)
    },
};

pub(super) const RESET: Command = Command {
    name: "reset",
    about: "stop the cluster that `up` runs and delete all that it keeps",
    more: "Does what `twinstack down` does, and then deletes the data folder: objects, certificates, images, volumes, logs. There is no way back, so it wants --yes.",
    example: "twinstack reset --yes",
    flags: &[&[&lab::DATA_DIR], RESET_FLAGS],
    positional: None,
    long_running: false,
    check: |given| {
        given.optional(&lab::DATA_DIR);
        given.get(&YES);
        Some(())
    },
    run: reset,
};

flags! {
    RESET_FLAGS:
    YES: DefaultFlag<bool> = switch("yes", "delete it").or("false");
}

fn folder(given: &mut Settings) -> PathBuf {
    given.optional(&lab::DATA_DIR).unwrap_or_else(up::data_dir)
}

#[allow(clippy::disallowed_methods, reason = "this process does nothing but wait")]
fn end(folder: &Path) -> anyhow::Result<()> {
    let mut done = Vec::new();
    if let Some(note) = up::running::find(folder)? {
        child::terminate(note.process);
        let begun = Instant::now();
        while child::is_alive(note.process) {
            if begun.elapsed() > PATIENCE {
                bail!("process {} was told to end {} s ago and still runs", note.process, PATIENCE.as_secs());
            }
            std::thread::sleep(PAUSE);
        }
        done.push(format!("process {} has ended", note.process));
    }
    let routers = end_routers(folder);
    done.extend((routers > 0).then(|| format!("{routers} processes of its router were told to end")));
    let left = lab::take_away(&::lab::Home::of(folder))?;
    done.extend((left > 0).then(|| format!("{left} things of its nodes were taken away")));
    match done.is_empty() {
        true => anstream::println!("nothing runs with the data folder {}", folder.display()),
        false => anstream::println!("{}", done.join(", ")),
    }
    Ok(())
}

/// What a killed `up` leaves serving: the router, and HAProxy, which a killed router leaves.
fn end_routers(folder: &Path) -> usize {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let files = format!("{}/", folder.join("ingress").display());
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours: Vec<u32> =
        ids.filter(|id| child::command_line(*id).is_some_and(|line| is_router(&line, &files))).collect();
    ours.iter().for_each(|id| child::terminate(*id));
    ours.len()
}

/// Whether a command line is that of a router, or of its HAProxy, with files below this folder.
fn is_router(line: &str, files: &str) -> bool {
    let mut words = line.split(' ');
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let router = words.clone().next() == Some("router");
    (router || program == "haproxy") && words.any(|word| word.trim_start_matches("--working-dir=").starts_with(files))
}

fn reset(settings: Settings) -> anyhow::Result<()> {
    let (folder, yes) = settings.read(|given| Some((folder(given), given.get(&YES))))?;
    if !folder.exists() {
        anstream::println!("there is no data folder {}", folder.display());
        return Ok(());
    }
    // Whatever else was named by mistake stays.
    if !folder.join("admin.kubeconfig").is_file() {
        bail!("--data-dir {}: is no data folder of `twinstack up`: it has no admin.kubeconfig", folder.display());
    }
    if !yes {
        bail!("this would delete {} with everything in it; --yes does", folder.display());
    }
    end(&folder)?;
    std::fs::remove_dir_all(&folder).with_context(|| format!("{} is not deleted", folder.display()))?;
    anstream::println!("{} is deleted", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routers_of_the_folder_are_ended() {
        let files = "/data/ingress/";
        for (line, expected) in [
            ("/usr/bin/twinstack router --working-dir=/data/ingress/default/haproxy --kubeconfig=/k", true),
            ("/usr/sbin/haproxy -W -f /data/ingress/default/haproxy/1/haproxy.cfg", true),
            ("/usr/bin/twinstack router --working-dir=/data-2/ingress/default/haproxy", false),
            ("/usr/sbin/haproxy -f /etc/haproxy/haproxy.cfg", false),
            ("less /data/ingress/default/haproxy/1/haproxy.cfg", false),
            ("", false),
        ] {
            assert_eq!(is_router(line, files), expected, "{line}");
        }
    }
}
