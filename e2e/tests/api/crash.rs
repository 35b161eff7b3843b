//! What was acknowledged is there after a power cut, and the server goes on where it was.

use e2e::{Server, wait_for};
use std::time::Duration;

#[test]
fn acknowledged_writes_outlive_the_process() {
    let mut server = Server::start(&[]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let uid = |name: &str| {
        kubectl.ok(&["get", "configmap", name, "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"])
    };
    let mut known = Vec::new();
    for round in 0..5 {
        let name = format!("round-{round}");
        kubectl.ok(&["create", "configmap", &name]);
        known.push((name.clone(), uid(&name)));
        server.crash_and_restart();
        for (name, before) in &known {
            let after = server.kubectls().pop().expect("as before").ok(&[
                "get",
                "configmap",
                name,
                "-o",
                "jsonpath={.metadata.uid} {.metadata.resourceVersion}",
            ]);
            assert_eq!(&after, before, "{name} after round {round}");
        }
    }
}

#[test]
fn a_stop_is_clean_and_quick() {
    let mut server = Server::start(&[]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let watch = kubectl.background(&["get", "configmaps", "-A", "-w", "-v=6"]);
    let watches = || watch.output().contains("watch=true").then_some(());
    assert!(wait_for(Duration::from_secs(60), watches).is_some(), "{}", watch.output());
    // It gives itself ten seconds; what takes longer is cut off, and that is told by the code.
    let status = server.process().terminate(Duration::from_secs(60));
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{}\n{}", server.log(), watch.output());
}
