//! The binary: allocator, TLS provider, parse, run, exit code.

mod args;
mod commands;
mod component;
mod flag;
mod gates;
mod manager;
mod read;

use std::process::ExitCode;

/// Many short-lived objects from many threads: mimalloc keeps the resident set smallest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    args::end_when_output_fails();
    runtime::tls::install_provider();
    // Where it is forbidden there is what there was.
    let _ = kernel::limits::raise_open_files();
    match args::parse(std::env::args_os()) {
        Ok((command, settings)) => args::exit((command.run)(settings)),
        Err(code) => code,
    }
}
