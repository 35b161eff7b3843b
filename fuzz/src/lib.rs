//! Every parser that meets a stranger's bytes, as a function of bytes.
//!
//! A target takes any input, must end soon and use little memory, and panics when what it promises does not hold: that what
//! was written can be read again, that a change made twice is a change made once, that no field gets out of its place in a
//! rendered file. `tests/corpus.rs` replays the inputs that are checked in; `make fuzz` looks for new ones with libFuzzer.

mod aws;
mod crd;
mod dns;
mod files;
mod identity;
mod input;
mod kernel;
mod net;
mod objects;
mod patches;
mod requests;
mod router;
mod rules;
mod selectors;

/// One parser, or several that meet the same bytes.
pub struct Target {
    /// Its corpus has this name, and FUZZ_TARGET takes it.
    pub name: &'static str,
    /// Longest input that is tried.
    pub longest: usize,
    /// Panics on a finding.
    pub run: fn(&[u8]),
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        Self { name, longest: 4096, run }
    }

    const fn up_to(self, longest: usize) -> Self {
        Self { longest, ..self }
    }
}

/// All targets.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    let rooms: [&'static [Target]; 13] = [
        net::TARGETS,
        objects::TARGETS,
        requests::TARGETS,
        identity::TARGETS,
        selectors::TARGETS,
        patches::TARGETS,
        crd::TARGETS,
        dns::TARGETS,
        router::TARGETS,
        rules::TARGETS,
        kernel::TARGETS,
        files::TARGETS,
        aws::TARGETS,
    ];
    rooms.into_iter().flatten()
}

#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    targets().find(|target| target.name == name)
}
