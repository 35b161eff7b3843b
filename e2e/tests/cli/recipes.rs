//! The recipes of `docs/guide/testing-controllers.md` work as they stand there.

use e2e::{Process, twinstack, wait_for};
use std::{env, fs, path::Path, process::Command, time::Duration};

const GUIDE: &str = include_str!("../../../docs/guide/testing-controllers.md");
const RUST: &str = include_str!("recipe.rs");

const PATIENCE: Duration = Duration::from_secs(120);

/// The block of the guide in this language.
fn block(language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, rest) = GUIDE.split_once(&begin).expect("the guide has it");
    rest.split_once("```\n").expect("a block ends").0
}

/// A folder where the program goes by its usual name, first on the PATH.
fn path(folder: &Path) -> String {
    std::os::unix::fs::symlink(twinstack(), folder.join("twinstack")).expect("a name");
    format!("{}:{}", folder.display(), env::var("PATH").unwrap_or_default())
}

fn succeeds(command: &mut Command) {
    let output = command.output().expect("it starts");
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}

/// What it does itself is in `recipe`, the same text as a module of this program.
#[test]
fn the_rust_recipe_is_the_one_that_is_run() {
    // In this program it is where the tests have it.
    assert_eq!(block("rust"), RUST.replace("e2e::twinstack()", "\"twinstack\""));
}

#[test]
fn the_line_that_other_languages_wait_for_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = format!("--data-dir={}", folder.path().join("data").display());
    let words = ["apiserver", "--secure-port=0", "--bind-address=127.0.0.1,::1", &data];
    let server = Process::start(twinstack(), &words, &folder.path().join("log"));
    let ready = wait_for(PATIENCE, || server.output().contains("API server is ready").then_some(()));
    assert!(ready.is_some(), "{}", server.output());
    assert!(folder.path().join("data/admin.kubeconfig").exists());
}

#[test]
fn the_python_recipe_works() {
    let Some(python) = env::var_os("KUBERNETES_PYTHON") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recipe.py");
    let call = "\ntest_a_service_gets_an_address_of_each_family()\n";
    fs::write(&file, format!("{}{call}", block("python"))).expect("a file");
    succeeds(Command::new(python).arg(&file).env("PATH", path(folder.path())));
}

#[test]
fn the_java_recipe_works() {
    let Some(classes) = env::var_os("KUBERNETES_JAVA_CLASSPATH") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("ControllerTest.java");
    fs::write(&source, block("java")).expect("a file");
    let path = path(folder.path());
    succeeds(Command::new("javac").arg("-cp").arg(&classes).arg("-d").arg(folder.path()).arg(&source));
    let all = [folder.path().as_os_str(), ":".as_ref(), &classes].join("".as_ref());
    succeeds(Command::new("java").arg("-cp").arg(all).arg("ControllerTest").env("PATH", path));
}
