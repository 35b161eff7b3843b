//! What comes from others, checked against `deny.toml`: licences, banned crates, sources, checksums. `make lint` runs it.
//!
//! The file is cargo-deny's, and says the same to cargo-deny. That is minutes to build and asks the network for its advisories; this takes a
//! second, needs nothing that cargo does not bring, and looks at the same facts. Where cargo-deny is installed it runs as well; advisories
//! are its part.

mod licence;
mod policy;

use policy::{Package, Policy};
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Command};

/// Checks the workspace around the current directory.
pub(crate) fn run() -> Result<(), String> {
    let policy = Policy::parse(&read("deny.toml")?)?;
    let built = built()?;
    let packages = packages(&metadata()?)?.into_iter().filter(|package| built.contains(&package.id()));
    let packages: Vec<Package> = packages.collect();
    let mut broken = policy.check(&packages);
    broken.extend(policy::unsealed(&read("Cargo.lock")?));
    if !broken.is_empty() {
        let list = broken.iter().map(|one| format!("  {one}")).collect::<Vec<_>>().join("\n");
        return Err(format!("deny: {} packages break deny.toml\n{list}", broken.len()));
    }
    println!("deny: {} packages keep deny.toml: licences, bans, sources, checksums", packages.len());
    cargo_deny()
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn cargo() -> Command {
    Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
}

fn printed(words: &[&str]) -> Result<String, String> {
    let output = cargo().args(words).output().map_err(|error| format!("cargo {}: {error}", words[0]))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", words[0], String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn metadata() -> Result<Value, String> {
    let text = printed(&["metadata", "--format-version=1", "--locked"])?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// What is built for some target, as `name version`. `cargo metadata` also lists what only a feature would bring that nobody asks for.
fn built() -> Result<BTreeSet<String>, String> {
    let tree =
        printed(&["tree", "--locked", "--workspace", "--target=all", "--edges=all", "--prefix=none", "--format={p}"])?;
    let line = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split(' ').next()?))
    };
    Ok(tree.lines().filter_map(line).collect())
}

fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    let text = |package: &Value, field: &str| package[field].as_str().map(str::to_owned);
    let all = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let package = |package: &Value| {
        Some(Package {
            name: text(package, "name")?,
            version: text(package, "version")?,
            licence: text(package, "license"),
            source: text(package, "source"),
        })
    };
    all.iter().map(|one| package(one).ok_or_else(|| "cargo metadata: a package without a name".to_owned())).collect()
}

/// The real one, where it is. Its advisories need a database from the network: without one they are left out, and said so.
fn cargo_deny() -> Result<(), String> {
    let has = cargo().args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !has {
        println!(
            "deny: cargo-deny is not installed, so known vulnerabilities are not looked up (cargo install cargo-deny --locked)"
        );
        return Ok(());
    }
    let passes = |checks: &[&str]| {
        let status = cargo().args(["deny", "--offline", "check"]).args(checks).status();
        status.is_ok_and(|status| status.success())
    };
    if !passes(&["licenses", "bans", "sources"]) {
        return Err("deny: cargo-deny has found something".to_owned());
    }
    let fetched = cargo().args(["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    match fetched {
        true if !passes(&["advisories"]) => Err("deny: cargo-deny knows of vulnerabilities".to_owned()),
        true => Ok(()),
        false => {
            println!("deny: the database of advisories cannot be fetched here, so they are not looked up");
            Ok(())
        }
    }
}
