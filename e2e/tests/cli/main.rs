//! The command line and what it writes: help, `init`, manifests, images, `doctor` and `trace`, and machines that lack a family.

mod commands;
mod envtest;
mod image;
mod init;
mod init_processes;
mod inspect;
mod manifests;
mod one_family;
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::default_trait_access,
    reason = "the guide has it as people write tests"
)]
mod recipe;
mod recipes;
