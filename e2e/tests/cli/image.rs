//! `twinstack image`: the programs in it run where nothing else is, and containerd takes it (where `CONTAINERD` names one).

use e2e::{Process, run, twinstack, wait_for};
use serde_json::Value;
use std::{path::Path, process::Command, time::Duration};

const NAME: &str = "registry.example.test/twinstack:e2e";
const PATIENCE: Duration = Duration::from_secs(30);

/// What a program printed; it must be content.
fn printed(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("the program runs");
    let (message, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {words:?}: {message}{complained}");
    message.into_owned()
}

fn image(file: &str) -> String {
    let output = run(&["image", "--tag", NAME, "--output", file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let message = String::from_utf8(output.stdout).expect("text");
    message.split_whitespace().find(|word| word.starts_with("sha256:")).expect("its digest is told").to_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn its_programs_run_where_nothing_else_is() {
    if !Command::new("chroot").args(["/", "true"]).status().is_ok_and(|status| status.success()) {
        return e2e::skip("programs of the image", "run as root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let digest = image(&at("image.tar"));
    printed("tar", &["-xf", &at("image.tar"), "-C", &at("")]);
    // One and the same thing, found by docker's way and by OCI's.
    let index = json(&folder.path().join("index.json"));
    let described = &index["manifests"][0];
    assert_eq!(
        (described["digest"].as_str(), described["annotations"]["io.containerd.image.name"].as_str()),
        (Some(&*digest), Some(NAME))
    );
    let manifest = json(&folder.path().join(digest.replace("sha256:", "blobs/sha256/")));
    let layer = manifest["layers"][0]["digest"].as_str().expect("a layer").replace("sha256:", "blobs/sha256/");
    assert_eq!(json(&folder.path().join("manifest.json"))[0]["Layers"][0], layer.as_str());
    assert!(printed("sha256sum", &[&at(&layer)]).starts_with(layer.trim_start_matches("blobs/sha256/")));

    let root = at("root");
    std::fs::create_dir(&root).expect("a folder");
    printed("tar", &["-xf", &at(&layer), "-C", &root]);
    let inside = |words: &[&str]| printed("chroot", &[&[root.as_str()], words].concat());
    let here = printed(&twinstack().display().to_string(), &["version"]);
    assert_eq!(inside(&["/usr/bin/twinstack", "version"]), here);
    for (program, flag, word) in [("haproxy", "-v", "HAProxy version"), ("nft", "--version", "nftables v")] {
        // It is where the machine has it.
        let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let path = folders
            .map(|folder| format!("{folder}/{program}"))
            .into_iter()
            .find(|path| Path::new(&format!("{root}{path}")).exists());
        let path = path.expect("the image has the program");
        assert!(inside(&[&path, flag]).contains(word), "{program}");
    }
}

#[test]
fn containerd_takes_it_and_runs_it() {
    let Ok(containerd) = std::env::var("CONTAINERD") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let digest = image(&at("image.tar"));
    let config = format!(
        "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {:?}\n",
        at("data"),
        at("state"),
        at("socket")
    );
    std::fs::write(at("config.toml"), config).expect("a file");
    let daemon = Process::start(&containerd, &["--config", &at("config.toml")], &folder.path().join("log"));
    let socket = at("socket");
    let ctr = |words: &[&str]| printed("ctr", &[&["--address", &socket], words].concat());
    let ready = wait_for(PATIENCE, || {
        let asked = Command::new("ctr").args(["--address", &socket, "version"]).output();
        asked.is_ok_and(|asked| asked.status.success()).then_some(())
    });
    assert!(ready.is_some(), "{}", daemon.output());
    ctr(&["images", "import", "--snapshotter=native", &at("image.tar")]);
    assert!(ctr(&["images", "ls"]).lines().any(|line| line.starts_with(NAME) && line.contains(&digest)));
    let message = ctr(&["run", "--rm", "--snapshotter=native", NAME, "twinstack-e2e", "/usr/bin/twinstack", "version"]);
    assert_eq!(message, printed(&twinstack().display().to_string(), &["version"]));
    ctr(&["images", "rm", NAME]);
}
