//! `deny.toml` as far as it is used, and what breaks it.

use super::licence;

/// Where crates.io is, in each way that cargo writes it.
const CRATES_IO: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];

/// A package of the graph.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) licence: Option<String>,
    /// None for our own.
    pub(super) source: Option<String>,
}

impl Package {
    /// `name version`.
    pub(super) fn id(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// What may come in.
#[derive(Debug)]
pub(super) struct Policy {
    licences: Vec<String>,
    banned: Vec<String>,
}

impl Policy {
    /// Reads the two lists. What else `deny.toml` can say must have the one value that is obeyed here, so that nobody relies on more.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines: String = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
        let list = |name: &str| {
            let start = lines.find(&format!("\n{name} = [")).ok_or_else(|| format!("deny.toml: no list {name:?}"))?;
            let rest = &lines[start..];
            let end = rest.find("]\n").unwrap_or(rest.len());
            Ok::<_, String>(rest[..end].to_owned())
        };
        for needed in ["unknown-registry = \"deny\"", "unknown-git = \"deny\"", "multiple-versions = \"allow\""] {
            if !lines.contains(needed) {
                return Err(format!("deny.toml: {needed} is expected; `cargo xtask deny` knows nothing else"));
            }
        }
        let licences = quoted(&list("allow")?);
        let banned = list("deny")?
            .lines()
            .filter_map(|line| quoted(line.split_once("crate = ")?.1).into_iter().next())
            .collect();
        Ok(Self { licences, banned })
    }

    /// All that breaks it.
    pub(super) fn check(&self, packages: &[Package]) -> Vec<String> {
        let mut broken = Vec::new();
        for Package { name, version, licence, source } in packages {
            let Some(source) = source else { continue };
            if !CRATES_IO.contains(&source.as_str()) {
                broken.push(format!("{name} {version} comes from {source}, not from crates.io"));
            }
            if self.banned.contains(name) {
                broken.push(format!("{name} {version} is banned; deny.toml says what is used instead"));
            }
            match licence {
                Some(text) if licence::allows(text, &self.licences) => {}
                Some(text) => broken.push(format!("{name} {version} has the licence {text}")),
                None => broken.push(format!("{name} {version} names no licence")),
            }
        }
        broken
    }
}

/// Packages of a lock file that come from a registry without a checksum: anybody could exchange their content.
pub(super) fn unsealed(lock: &str) -> Vec<String> {
    let packages = lock.split("[[package]]").skip(1);
    let foreign = packages.filter(|package| package.contains("\nsource = \"") && !package.contains("\nchecksum = \""));
    foreign.map(|package| format!("{} has no checksum in Cargo.lock", quoted(package).join(" "))).collect()
}

fn without_comment(line: &str) -> &str {
    match line.find('#') {
        Some(at) if line[..at].matches('"').count().is_multiple_of(2) => &line[..at],
        _ => line,
    }
}

/// The texts between quotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# a comment
[licenses]
allow = [\"Apache-2.0\", \"MIT\"]

[bans]
multiple-versions = \"allow\"
deny = [
  { crate = \"ring\", reason = \"another\" }, # why
  { crate = \"serde_yaml\", reason = \"old\" },
]

[sources]
unknown-registry = \"deny\"
unknown-git = \"deny\"
";

    fn package(name: &str, licence: &str, source: Option<&str>) -> Package {
        let licence = Some(licence).filter(|text| !text.is_empty()).map(str::to_owned);
        Package { name: name.to_owned(), version: "1.0.0".to_owned(), licence, source: source.map(str::to_owned) }
    }

    #[test]
    fn what_breaks_the_policy_is_named() {
        let policy = Policy::parse(FILE).expect("a policy");
        let io = Some(CRATES_IO[0]);
        for (package, expected) in [
            (package("serde", "MIT OR Apache-2.0", io), None),
            (package("ours", "", None), None),
            (package("viral", "GPL-3.0-only", io), Some("viral 1.0.0 has the licence GPL-3.0-only")),
            (package("silent", "", io), Some("silent 1.0.0 names no licence")),
            (package("ring", "MIT", io), Some("ring 1.0.0 is banned; deny.toml says what is used instead")),
            (
                package("fork", "MIT", Some("git+https://example.test/fork#1")),
                Some("fork 1.0.0 comes from git+https://example.test/fork#1, not from crates.io"),
            ),
        ] {
            assert_eq!(policy.check(&[package]).first().map(String::as_str), expected);
        }
    }

    #[test]
    fn a_file_that_asks_for_more_than_is_checked_is_refused() {
        assert!(Policy::parse(&FILE.replace("unknown-git = \"deny\"", "unknown-git = \"warn\"")).is_err());
        assert!(Policy::parse(&FILE.replace("multiple-versions = \"allow\"", "multiple-versions = \"deny\"")).is_err());
        let own = Policy::parse(include_str!("../../../deny.toml")).expect("the repository's own");
        assert!(own.banned.contains(&"ring".to_owned()) && own.licences.contains(&"MIT".to_owned()), "{own:?}");
        assert_eq!((own.banned.len(), own.licences.iter().any(|one| one == "ring")), (3, false), "{own:?}");
    }

    #[test]
    fn a_package_without_a_checksum_is_named() {
        let lock = "version = 4\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\
                    source = \"registry+https://x\"\nchecksum = \"00\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nsource = \"registry+https://x\"\n";
        assert_eq!(unsealed(lock), ["b 2.0.0 registry+https://x has no checksum in Cargo.lock"]);
    }
}
