//! AWS: the clients, the cloud controller manager and the operators against moto, which `e2e::aws_strict` makes as strict as AWS.
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

mod cases;
mod clients;
mod cloud_config;
mod cloud_controller_manager;
mod cut_off;
mod ingress;
mod private_zone;
mod strict;
