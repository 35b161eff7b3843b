//! The policies of the guide, applied by kubectl, on each shape of cluster and through a crash of the server.

use e2e::Server;

const GUIDE: &str = include_str!("../../../docs/guide/admission.md");

/// The YAML of the guide that is about this kind.
fn example(kind: &str) -> &'static str {
    let blocks = GUIDE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains(&format!("kind: {kind}\n"))).expect("the guide has an example")
}

fn service(policy: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {}}}\nspec: {{ipFamilyPolicy: {policy}, ports: [{{port: 80}}]}}\n",
        policy.to_lowercase()
    )
}

#[test]
fn the_policy_of_the_guide_holds_also_after_a_crash() {
    for (ranges, families) in [
        ("10.96.0.0/16", "[\"IPv4\"]"),
        ("fd00:96::/108", "[\"IPv6\"]"),
        ("10.96.0.0/16,fd00:96::/108", "[\"IPv4\",\"IPv6\"]"),
        ("fd00:96::/108,10.96.0.0/16", "[\"IPv6\",\"IPv4\"]"),
    ] {
        let mut server = Server::start(&[&format!("--service-cluster-ip-range={ranges}")]);
        server.kubectls().remove(0).ok_with(&["apply", "-f", "-"], example("ValidatingAdmissionPolicy"));
        for round in ["at first", "after a crash"] {
            let kubectl = server.kubectls().remove(0);
            let refused = kubectl.fails(&["apply", "-f", "-"], &service("SingleStack"));
            assert!(refused.contains("Services have both families here"), "{ranges} {round}: {refused}");
            let shown = ["-o", "jsonpath={.spec.ipFamilies}"];
            kubectl.ok_with(&["apply", "-f", "-"], &service("PreferDualStack"));
            let made = kubectl.ok(&[&["get", "service", "preferdualstack"], &shown[..]].concat());
            assert_eq!(made, families, "{ranges} {round}");
            kubectl.ok(&["delete", "service", "preferdualstack"]);
            server.crash_and_restart();
        }
        let kubectl = server.kubectls().remove(0);
        kubectl.ok_with(&["delete", "-f", "-"], example("ValidatingAdmissionPolicy"));
        kubectl.ok_with(&["apply", "-f", "-"], &service("SingleStack"));
    }
}

#[test]
fn the_default_family_policy_of_the_guide_holds_also_after_a_crash() {
    for (ranges, families) in [
        ("10.96.0.0/16", "[\"IPv4\"]"),
        ("fd00:96::/108", "[\"IPv6\"]"),
        ("10.96.0.0/16,fd00:96::/108", "[\"IPv4\",\"IPv6\"]"),
        ("fd00:96::/108,10.96.0.0/16", "[\"IPv6\",\"IPv4\"]"),
    ] {
        let mut server = Server::start(&[&format!("--service-cluster-ip-range={ranges}")]);
        server.kubectls().remove(0).ok_with(&["apply", "-f", "-"], example("MutatingAdmissionPolicy"));
        for round in ["at first", "after a crash"] {
            let kubectl = server.kubectls().remove(0);
            kubectl.ok(&["create", "service", "clusterip", "plain", "--tcp=80"]);
            let shown = ["-o", "jsonpath={.spec.ipFamilyPolicy} {.spec.ipFamilies}"];
            let made = kubectl.ok(&[&["get", "service", "plain"], &shown[..]].concat());
            assert_eq!(made, format!("PreferDualStack {families}"), "{ranges} {round}");
            kubectl.ok_with(&["apply", "-f", "-"], &service("SingleStack"));
            let own = kubectl.ok(&[&["get", "service", "singlestack"], &shown[..]].concat());
            assert!(own.starts_with("SingleStack "), "{ranges} {round}: {own}");
            kubectl.ok(&["delete", "service", "plain", "singlestack"]);
            server.crash_and_restart();
        }
        let kubectl = server.kubectls().remove(0);
        kubectl.ok_with(&["delete", "-f", "-"], example("MutatingAdmissionPolicy"));
        kubectl.ok(&["create", "service", "clusterip", "plain", "--tcp=80"]);
        let made = kubectl.ok(&["get", "service", "plain", "-o", "jsonpath={.spec.ipFamilyPolicy}"]);
        assert_eq!(made, "SingleStack", "{ranges}");
    }
}
