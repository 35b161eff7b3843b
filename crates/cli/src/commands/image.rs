//! `twinstack image`: an OCI image of this very program and of those that it calls, or of what nodes without a registry need.

use super::Command;
use crate::flag::{DefaultFlag, Flag, IMAGE, file, flags, words};
use anyhow::Context;
use install::image::{self, Recipe};
use runtime::config::Settings;
use std::{fs::File, io::BufWriter, path::PathBuf};

pub(super) const COMMAND: Command = Command {
    name: "image",
    about: "make an image of this program, for clusters",
    more: "Writes an OCI image of this very program, and of those that it calls, with the libraries that they load on this machine. Neither Docker nor \
           a registry is needed; the same files give the same image. The archive is read by containerd, podman, skopeo and docker. \
           Other kinds are for nodes without a registry: netexec (a server that tells who asks whom, with a shell), busybox, haproxy, and pause, which holds a Pod's namespaces.",
    example: "twinstack image --tag registry.example.com/twinstack:1 --output twinstack.tar\n\
              ctr --namespace k8s.io images import twinstack.tar\n\
              twinstack image --kind pause --output /var/lib/twinstack/images/pause.tar\n\
              skopeo copy oci-archive:twinstack.tar docker://registry.example.com/twinstack:1",
    flags: &[FLAGS],
    positional: None,
    long_running: false,
    check: |given| {
        asked(given);
        Some(())
    },
    run,
};

flags! {
    FLAGS:
    KIND: DefaultFlag<Kind> = Flag::new("kind", "KIND", "twinstack, netexec, busybox, haproxy, pause", kind, "what it is an image of: twinstack, netexec, busybox, haproxy, pause").or("twinstack");
    TAG: Flag<String> = Flag::new("tag", "NAME:TAG", "a name such as registry.example.com/twinstack:1", name, "name of the image; localhost/twinstack:latest, or localhost/twinstack-KIND:latest");
    OUTPUT: Flag<PathBuf> = file("output", "where the archive is written; KIND.tar").short('o');
    WITH: DefaultFlag<Vec<String>> = words("with", "PROGRAM,...", "names of programs", "programs to take along: haproxy for routers, nft for the proxy; none if empty").or("haproxy,nft");
}

/// What an image is of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind(&'static str);

fn kind(text: &str) -> Result<Kind, String> {
    let known = ["twinstack", "netexec", "busybox", "haproxy", "pause"];
    known.into_iter().find(|known| *known == text).map(Kind).ok_or_else(|| "is no kind of image".to_owned())
}

struct Asked {
    recipe: Recipe,
    tag: String,
    output: PathBuf,
}

fn asked(given: &mut Settings) -> Asked {
    let (Kind(kind), tag, output, with) =
        (given.get(&KIND), given.optional(&TAG), given.optional(&OUTPUT), given.get(&WITH));
    let recipe = match kind {
        "netexec" => Recipe::Netexec,
        "busybox" => Recipe::Busybox,
        "haproxy" => Recipe::Haproxy,
        "pause" => Recipe::Pause,
        _ => Recipe::Twinstack { with },
    };
    let usual = if kind == "twinstack" { IMAGE.to_owned() } else { format!("localhost/twinstack-{kind}:latest") };
    Asked { recipe, tag: tag.unwrap_or(usual), output: output.unwrap_or_else(|| format!("{kind}.tar").into()) }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    let Asked { recipe, tag, output } = settings.read(|given| Some(asked(given)))?;
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let image = recipe.image(&own, &std::env::var("PATH").unwrap_or_default())?;
    // Under another name until it is whole.
    let part = output.with_extension("part");
    let file = File::create(&part).with_context(|| format!("--output {}", part.display()))?;
    let written = image::write(&image, &tag, BufWriter::new(file)).inspect_err(|_| {
        // What was wrong is told; half an archive helps nobody.
        let _ = std::fs::remove_file(&part);
    })?;
    std::fs::rename(&part, &output).with_context(|| format!("--output {}", output.display()))?;
    anstream::println!(
        "{}: {tag}, {} files, {} MB, {}",
        output.display(),
        written.files,
        written.size / 1_000_000,
        written.digest
    );
    anstream::println!("next: ctr --namespace k8s.io images import {}", output.display());
    Ok(())
}

/// `host[:port]/path[:tag]`, in the letters that registries take.
fn name(text: &str) -> Result<String, String> {
    let (path, tag) = match text.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        _ => (text, "latest"),
    };
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-:".contains(&byte);
        !part.is_empty()
            && part.bytes().all(plain)
            && part.bytes().all(|byte| byte != b':' || part.contains('.') || part.starts_with("localhost"))
    };
    let tagged = !tag.is_empty()
        && tag.len() <= 128
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    match path.split('/').all(part) && tagged {
        true => Ok(format!("{path}:{tag}")),
        false => Err("is no name of an image".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_tag_and_the_letters_of_registries() {
        for (text, expected) in [
            ("twinstack", Ok("twinstack:latest")),
            ("registry.example.test:5000/net/twinstack:v1", Ok("registry.example.test:5000/net/twinstack:v1")),
            ("localhost:5000/twinstack", Ok("localhost:5000/twinstack:latest")),
            ("registry.example.test/Twinstack:1", Err("is no name of an image")),
            ("", Err("is no name of an image")),
            ("x//y", Err("is no name of an image")),
            ("x:", Err("is no name of an image")),
            ("x y:1", Err("is no name of an image")),
        ] {
            assert_eq!(name(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
