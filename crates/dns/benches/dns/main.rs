//! How much a query costs: CPU time, latency and memory of the server, of a bare echo loop, and of CoreDNS if `COREDNS`
//! names it. `cargo bench --package dns --bench dns`; docs/BENCHMARKS.md tells what the lines mean.
//!
//! Every server is a process of its own, pinned to one core; the generator has the others. `echo PORT` and
//! `serve COREFILE` are how this program starts itself as one.

mod api;
mod cases;
mod load;
mod report;
mod server;
mod upstream;

use std::{error::Error, process::ExitCode};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["echo"] => server::echo(),
        ["serve", corefile] => server::serve(corefile.as_ref()),
        _ => cases::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
