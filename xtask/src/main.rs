//! Chores of the repository: `cargo xtask deps` checks the layer rules, `cargo xtask deny` what comes from others, `cargo xtask types`
//! renews the table of API types, `cargo xtask compat` that of kinds in the docs, `cargo xtask conformance` reads what Kubernetes' own suite said.

mod compat;
mod conformance;
mod deny;
mod deps;
mod types;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  compat            write the table of kinds in docs/compat.md
  conformance       a table of what Kubernetes' conformance suite said (`make conformance` runs both)
  deny              check licences, bans and sources of all dependencies against deny.toml
  deps              check the layer rules of docs/ARCHITECTURE.md
  types --from DIR  renew crates/api/src/schema/types.txt from the Go modules of the Kubernetes API in DIR
                    (\"$(go env GOMODCACHE)/k8s.io\"; xtask/README.md tells more)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) if command == "compat" && rest.is_empty() => compat::run(),
        Some((command, rest)) if command == "conformance" => conformance::run(rest),
        Some((command, rest)) if command == "deny" && rest.is_empty() => deny::run(),
        Some((command, rest)) if command == "deps" && rest.is_empty() => deps::run(),
        Some((command, rest)) if command == "types" => types::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
