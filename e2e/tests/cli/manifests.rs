//! `twinstack manifests`: what it prints is taken by the API as it is, and again without a change.

use e2e::{Server, run};

const COMPONENTS: [&str; 5] =
    ["cloud-controller-manager", "cloud-config-sync", "dns-operator", "ingress-operator", "proxy"];

fn printed(words: &[&str]) -> String {
    let output = run(&[&["manifests"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(words: &[&str]) -> String {
    let output = run(&[&["manifests"], words].concat());
    assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn every_component_is_taken_by_the_api() {
    let server = Server::start(&["--service-cluster-ip-range=fd00:96::/108,10.96.0.0/16"]);
    for kubectl in server.kubectls() {
        for component in COMPONENTS {
            for form in ["yaml", "json"] {
                let text = printed(&[component, "--server=[2001:db8::1]:6443", "--output", form]);
                kubectl.ok_with(&["apply", "-f", "-"], &text);
                let again = kubectl.ok_with(&["apply", "-f", "-"], &text);
                assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{component} {form}: {again}");
            }
        }
        let accounts = kubectl.ok(&["get", "daemonset,deployment", "-A", "-o", "jsonpath={.items[*].metadata.name}"]);
        assert_eq!(accounts.split(' ').count(), COMPONENTS.len(), "{accounts}");
        // Its account may do what it has to, and nothing else.
        let account = "--as=system:serviceaccount:kube-system:cloud-controller-manager";
        for (words, answer) in [
            (["patch", "services/status"].as_slice(), "yes"),
            (&["delete", "nodes"], "yes"),
            (&["update", "leases.coordination.k8s.io", "-n", "kube-system"], "yes"),
            (&["update", "leases.coordination.k8s.io", "-n", "default"], "no"),
            (&["get", "secrets", "-n", "kube-system"], "no"),
            (&["delete", "services"], "no"),
        ] {
            let message = kubectl.run(&[&["auth", "can-i", account], words].concat());
            assert_eq!(message.stdout.trim().split(' ').next(), Some(answer), "{words:?}: {}", message.stderr);
        }
    }
}

#[test]
fn flags_of_the_component_are_checked_and_its_file_goes_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("cloud.conf");
    std::fs::write(&config, "[Global]\nNLBSecurityGroupMode = Managed\n").expect("a file");
    let config = config.display().to_string();
    let both = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56";
    let text = printed(&["cloud-controller-manager", "--", "--cloud-config", &config, both]);
    for line in ["    NLBSecurityGroupMode = Managed", "- --cloud-config=/etc/kubernetes/twinstack/cloud.conf", both] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains(&config), "a path of this machine means nothing in a Pod");
    std::fs::write(&config, "[Global]\nNLBSecurityGroupMode = Mangled\n").expect("a file");
    for (words, problem) in [
        (["cloud-controller-manager", "--", "--cloud-config", &config].as_slice(), "NLBSecurityGroupMode"),
        (&["cloud-controller-manager", "--", "--cluster-cidr=10.0.0.0/8,10.1.0.0/16"], "--cluster-cidr"),
        (&["dns-operator", "--", "--image-pull=x"], "--image-pull"),
        (&["dns-operator", "--", "--kubeconfig=/root/x"], "--kubeconfig names a file of this machine"),
        (&["proxy"], "--server"),
        (&["proxy", "--server=2001:db8::1:6443"], "without brackets"),
        (&["kubelet"], "accepted: cloud-controller-manager, "),
    ] {
        let message = refused(words);
        assert!(message.contains(problem), "{words:?}: {message}");
    }
}
