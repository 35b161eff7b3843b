//! The command line: help that teaches, versions, and mistakes answered with exit code 64 and a way on.

use e2e::{Process, run, twinstack, wait_for};
use std::{
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_every_command_and_succeeds() {
    let output = run(&["--help"]);
    let help = text(&output.stdout);
    assert!(output.status.success());
    for word in ["apiserver", "up", "version", "completions", "man"] {
        assert!(help.contains(word), "{word} is missing in\n{help}");
    }
}

#[test]
fn help_of_a_command_has_an_example() {
    let help = text(&run(&["apiserver", "--help"]).stdout);
    assert!(help.contains("Example:"), "{help}");
    assert!(help.contains("--service-cluster-ip-range"), "{help}");
}

#[test]
fn version_is_for_people_and_for_programs() {
    assert!(text(&run(&["version"]).stdout).starts_with("twinstack 0."));
    let json: serde_json::Value = serde_json::from_slice(&run(&["version", "-o", "json"]).stdout).expect("JSON");
    assert!(json["version"].as_str().is_some_and(|version| version.starts_with("0.")), "{json}");
}

#[test]
fn a_wrong_flag_is_answered_with_a_suggestion_and_exit_code_64() {
    let output = run(&["version", "--outputt=json"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("--output"), "{}", text(&output.stderr));
    let output = run(&["versoin"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("version"), "{}", text(&output.stderr));
}

#[test]
fn all_mistakes_are_reported_at_once_before_anything_is_bound() {
    let output = run(&[
        "apiserver",
        "--service-cluster-ip-range=10.96.0.0/16,10.97.0.0/16",
        "--secure-port=99999",
        "--bind-address=::1,fd00::1",
    ]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{complaint}");
    for word in ["--service-cluster-ip-range", "10.97.0.0/16", "--secure-port", "99999", "--bind-address", "fd00::1"] {
        assert!(complaint.contains(word), "{word} is missing in\n{complaint}");
    }
}

#[test]
fn completions_and_manual_pages_are_made() {
    assert!(text(&run(&["completions", "bash"]).stdout).contains("_twinstack"));
    let folder = tempfile::tempdir().expect("a folder can be made");
    let output = run(&["man", &folder.path().display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("twinstack-apiserver.1")).expect("a page");
    assert!(page.contains("service\\-cluster\\-ip\\-range"), "{page}");
}

#[test]
fn as_many_files_as_are_allowed_may_be_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, data) = (twinstack().display().to_string(), folder.path().join("data").display().to_string());
    let script = r#"ulimit -Sn 256; exec "$0" "$@""#;
    let words =
        ["-c", script, &program, "apiserver", "--bind-address=127.0.0.1", "--secure-port=0", "--data-dir", &data];
    let process = Process::start("sh", &words, &folder.path().join("log"));
    let ready = || process.output().contains("API server is ready").then_some(());
    assert!(wait_for(Duration::from_secs(90), ready).is_some(), "{}", process.output());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("one of the limits");
    let numbers: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(numbers[3], numbers[4], "{line}");
}

/// `head` has read enough, a disk is full: both end the program with a word at most, not with a trace of its inside.
#[test]
fn output_that_nobody_takes_ends_the_program_quietly() {
    for words in [&["version"][..], &["completions", "bash"]] {
        // Shut down rather than closed: a program that another test starts just now may have a copy of the other end.
        let (reader, writer) = UnixStream::pair().expect("a pair of sockets");
        reader.shutdown(Shutdown::Both).expect("it can be shut down");
        let printing_to = |output: std::process::Stdio| {
            let mut command = std::process::Command::new(twinstack());
            command.args(words).stdout(output).output().expect("the binary runs")
        };
        let output = printing_to(OwnedFd::from(writer).into());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{words:?}");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = printing_to(full.into());
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {complaint}");
        assert!(
            complaint.starts_with("error: standard output: No space left") && complaint.lines().count() == 1,
            "{complaint}"
        );
    }
}

#[test]
fn a_cause_is_told_once() {
    let output = run(&["doctor", "--kubeconfig=/nowhere/kubeconfig"]);
    let complaint = text(&output.stderr);
    assert_eq!(complaint.matches("No such file").count(), 1, "{complaint}");
    assert_eq!(complaint.matches("failed to read").count(), 1, "{complaint}");
}

#[test]
fn blocks_of_pods_that_have_addresses_of_services_are_refused() {
    for (pods, services) in [
        ("10.96.0.0/12", "10.96.0.0/16"),
        ("fd00:96::/64", "fd00:96::/112"),
        ("10.244.0.0/16,fd00:96::/64", "10.96.0.0/16,fd00:96::/112"),
        ("fd00:244::/56,10.96.0.0/20", "fd00:96::/112,10.96.0.0/16"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = run(&[
            "up",
            "--nodes=0",
            &format!("--cluster-cidr={pods}"),
            &format!("--service-cluster-ip-range={services}"),
            &format!("--data-dir={}", folder.path().join("data").display()),
        ]);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{complaint}");
        assert!(complaint.contains("--cluster-cidr") && complaint.contains("overlaps"), "{complaint}");
        assert!(!folder.path().join("data").exists());
    }
}

/// Of what is not there nobody can say that nothing is wrong with it.
#[test]
fn doctor_says_what_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("objects.yaml");
    let web = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: None}}";
    for (content, words, expected) in [
        (web, &["service/web"][..], Ok("nothing is wrong")),
        (web, &["-n", "shop"], Ok("nothing is wrong")),
        (web, &["service/other"], Err("there is no service other")),
        (web, &["service/web", "-n", "else"], Err("there is no service web in namespace else")),
        (web, &["-n", "nowhere"], Err("there is nothing to look at in namespace nowhere")),
        ("garbage", &[], Err("is no object of Kubernetes, as it has no kind")),
        ("", &[], Err("there is no object in it")),
    ] {
        std::fs::write(&file, content).expect("written");
        let output = run(&[&["doctor", "--filename", &file.display().to_string()], words].concat());
        let (printed, complaint) = (text(&output.stdout), text(&output.stderr));
        match expected {
            Ok(words) => assert!(output.status.success() && printed.contains(words), "{printed}{complaint}"),
            Err(words) => assert!(output.status.code() == Some(1) && complaint.contains(words), "{printed}{complaint}"),
        }
    }
}
