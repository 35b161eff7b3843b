//! The rules themselves: pure, so that a forbidden edge can be tried in a test.

use super::{
    read::{Crate, Workspace},
    vocabulary,
};

/// Lower layers first. A crate uses only crates of lower layers; within a layer they do not know each other.
const LAYERS: &[&[&str]] = &[
    &["net"],
    &["kernel", "api", "objects", "store"],
    &["runtime", "schema", "patch", "access"],
    &["apiserver", "install", "control", "aws", "ingress", "dns", "proxy", "node", "lab"],
    &["inspect"],
    &["cli"],
    &["xtask", "e2e", "bench", "fuzz"],
];

/// Where no async may stand: whole crates, and files that decide.
const PURE_CRATES: &[&str] = &["net", "api", "schema", "patch"];
const PURE_FILES: &[&str] = &["/plan.rs", "/plan/", "src/wire/", "src/corefile/"];

/// Every broken rule, as a sentence.
pub(super) fn check(workspace: &Workspace) -> Vec<String> {
    let mut broken = Vec::new();
    for member in &workspace.crates {
        layers(member, &mut broken);
        manifest(member, &mut broken);
        for (file, text) in &member.sources {
            source(&member.name, file, text, &mut broken);
        }
    }
    table(workspace, &mut broken);
    broken
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

fn layers(member: &Crate, broken: &mut Vec<String>) {
    let Some(own) = layer(&member.name) else {
        broken.push(format!("{}: has no layer; give it one in xtask/src/deps/rules.rs", member.name));
        return;
    };
    for used in &member.uses {
        let below = layer(used).is_some_and(|layer| layer < own);
        if !below {
            broken.push(format!("{} -> {used}: layers point down only ({})", member.name, picture()));
        }
    }
}

fn picture() -> String {
    LAYERS[..LAYERS.len() - 1].iter().map(|layer| layer.join(", ")).collect::<Vec<_>>().join(" < ")
}

fn manifest(member: &Crate, broken: &mut Vec<String>) {
    let name = &member.name;
    if member.has_build_script {
        broken.push(format!("{name}: has a build script; generated files are checked in"));
    }
    if name != "kernel" && !member.manifest.contains("[lints]\nworkspace = true") {
        broken.push(format!("{name}: lacks `[lints] workspace = true`, which forbids unsafe code"));
    }
    for dependency in dependencies(&member.manifest) {
        if !dependency.contains("workspace = true") {
            broken.push(format!("{name}: `{dependency}` must be declared once, in the workspace table"));
        }
    }
}

/// The lines that declare dependencies of any sort.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.contains("dependencies]");
        } else if inside && line.contains('=') && !line.starts_with('#') {
            found.push(line);
        }
    }
    found
}

fn source(name: &str, file: &str, text: &str, broken: &mut Vec<String>) {
    let outside = ["xtask", "e2e", "bench"].contains(&name);
    let test = ["tests/", "benches/"].iter().any(|folder| file.starts_with(folder))
        || file.contains("/tests/")
        || file.ends_with("tests.rs");
    let code = || {
        text.lines()
            .enumerate()
            .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    };
    let mut report = |rule: &str, number: usize| broken.push(format!("{name}/{file}:{}: {rule}", number + 1));
    for (number, line) in code() {
        let spawns = line.contains("process::Command") || line.contains("Command::new(");
        if spawns && name != "kernel" && !outside && !test && !line.contains("clap::Command") {
            report("starts a process; processes are started in kernel", number);
        }
        if line.contains("aws_sdk_") && !outside {
            report("uses an AWS SDK; AWS is asked by aws/clients", number);
        }
        if let Some(rule) = vocabulary::second_copy(name, file, line).filter(|_| !outside && !test) {
            report(&rule, number);
        }
        let pure = PURE_CRATES.contains(&name) || PURE_FILES.iter().any(|part| file.contains(part));
        if pure && !test && ["async fn", "async move", ".await", "tokio::"].iter().any(|word| line.contains(word)) {
            report("is async; this place decides and does no I/O", number);
        }
    }
}

/// Every third-party crate in the table is used, and stands in a paragraph that begins with its reason.
fn table(workspace: &Workspace, broken: &mut Vec<String>) {
    let Some((_, rest)) = workspace.manifest.split_once("[workspace.dependencies]\n") else {
        broken.push("Cargo.toml: there is no [workspace.dependencies]".into());
        return;
    };
    let table = rest.split("\n[").next().unwrap_or(rest);
    let mut reason = false;
    for line in table.lines().map(str::trim) {
        if line.is_empty() {
            reason = false;
        } else if line.starts_with('#') {
            reason = true;
        } else if let Some((name, _)) = line.split_once(" =") {
            if !reason {
                broken.push(format!("Cargo.toml: `{name}` stands without a reason"));
            }
            let wanted = format!("{name}.workspace = true");
            let other = format!("{name} = {{ workspace = true");
            let used = |member: &Crate| {
                member.manifest.lines().any(|line| line.starts_with(&wanted) || line.starts_with(&other))
            };
            if !workspace.crates.iter().any(used) {
                broken.push(format!("Cargo.toml: `{name}` is declared but not used"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::read, *};

    fn real() -> Workspace {
        read::workspace().expect("the tests run inside the workspace")
    }

    fn named<'a>(workspace: &'a mut Workspace, name: &str) -> &'a mut Crate {
        workspace.crates.iter_mut().find(|member| member.name == name).expect("a crate of ours")
    }

    #[test]
    fn the_workspace_keeps_its_rules() {
        assert_eq!(check(&real()), Vec::<String>::new());
    }

    #[test]
    fn a_forbidden_edge_is_reported() {
        for (from, to) in
            [("net", "runtime"), ("runtime", "cli"), ("store", "api"), ("runtime", "apiserver"), ("cli", "e2e")]
        {
            let mut workspace = real();
            named(&mut workspace, from).uses.push(to.into());
            let broken = check(&workspace);
            assert!(
                broken.iter().any(|rule| rule.starts_with(&format!("{from} -> {to}: layers"))),
                "{from} -> {to}: {broken:?}"
            );
        }
    }

    #[test]
    fn each_other_rule_can_be_broken() {
        type Change = fn(&mut Workspace);
        let table: &[(&str, Change)] = &[
            ("starts a process", |w| {
                named(w, "net").sources.push(("src/x.rs".into(), "std::process::Command::new(\"ls\")".into()))
            }),
            ("is async", |w| named(w, "net").sources.push(("src/x.rs".into(), "pub async fn x() {}".into()))),
            ("is async", |w| named(w, "runtime").sources.push(("src/x/plan.rs".into(), "x().await".into()))),
            ("uses an AWS SDK", |w| {
                named(w, "cli").sources.push(("src/x.rs".into(), "use aws_sdk_route53::Client;".into()))
            }),
            ("second copy of near words", |w| {
                named(w, "cli").sources.push(("src/x.rs".into(), "fn levenshtein(a: &str, b: &str)".into()))
            }),
            ("declared once", |w| named(w, "net").manifest.push_str("\n[dev-dependencies]\nrand = \"1\"\n")),
            ("has a build script", |w| named(w, "net").has_build_script = true),
            ("forbids unsafe code", |w| {
                named(w, "net").manifest = named(w, "net").manifest.replace("workspace = true", "")
            }),
            ("has no layer", |w| named(w, "net").name = "helpers".into()),
            ("stands without a reason", |w| {
                w.manifest = w.manifest.replace("[workspace.dependencies]\n", "[workspace.dependencies]\nx = \"1\"\n")
            }),
            ("declared but not used", |w| {
                w.manifest =
                    w.manifest.replace("[workspace.dependencies]\n", "[workspace.dependencies]\n# why\nx = \"1\"\n")
            }),
        ];
        for (rule, change) in table {
            let mut workspace = real();
            change(&mut workspace);
            let broken = check(&workspace);
            assert!(broken.iter().any(|line| line.contains(rule)), "{rule}: {broken:?}");
        }
    }
}
