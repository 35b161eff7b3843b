//! The command line and what it writes: help, `init`, manifests, images, `doctor` and `trace`, and machines that lack a family.

mod commands;
mod envtest;
mod image;
mod init;
mod init_processes;
mod inspect;
mod manifests;
mod one_family;
