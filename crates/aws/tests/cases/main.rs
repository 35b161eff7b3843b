//! What Services get from AWS, case by case, against an account in memory. `e2e` runs the same files against moto.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

mod cut_off;
mod drift;
mod economy;
mod emulated;
mod leftovers;
mod load_balancers;
mod memory_only;
mod moments;
mod neighbours;
mod reach;
mod refusals;
mod tables;
mod targets;
mod transitions;
mod world;
