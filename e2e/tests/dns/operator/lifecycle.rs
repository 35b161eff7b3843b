//! Records of Services, changes by hand, and the workload itself.

use super::*;
use e2e::definition;

#[test]
fn services_of_every_family_have_their_records() {
    let Some(cluster) = Cluster::without_gate(BOTH) else { return };
    let ports = json!([{"port": 80}]);
    let dual = cluster.service("dual", &json!({"ipFamilyPolicy": "RequireDualStack", "ports": ports}));
    let v4 = cluster.service("v4", &json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"], "ports": ports}));
    let v6 = cluster.service("v6", &json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"], "ports": ports}));
    let none: [&str; 0] = [];
    for (name, rtype, records) in [
        ("dual", A, vec![dual[0].as_str()]),
        ("dual", AAAA, vec![dual[1].as_str()]),
        ("v4", A, vec![v4[0].as_str()]),
        ("v4", AAAA, none.to_vec()),
        ("v6", A, none.to_vec()),
        ("v6", AAAA, vec![v6[0].as_str()]),
    ] {
        cluster.becomes(&format!("{name}.default.svc.cluster.local"), rtype, &records);
    }
    // Headless: the addresses of the pods, of each family.
    cluster.kubectl.ok(&["create", "deployment", "web", "--image=example.com/web:1", "--replicas=2"]);
    let selector = json!({"app": "web"});
    cluster.service(
        "headless",
        &json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "selector": selector, "ports": ports}),
    );
    let pods = cluster.until("two pods with two addresses each", || {
        let template = "jsonpath={.items[*].status.podIPs[*].ip}";
        let text = cluster.kubectl.run(&["get", "pods", "-l", "app=web", "-o", template]).stdout;
        let mut addresses: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        addresses.sort();
        (addresses.len() == 4).then_some(addresses)
    });
    for (rtype, v6) in [(A, false), (AAAA, true)] {
        let records: Vec<&str> = pods.iter().map(String::as_str).filter(|one| one.contains(':') == v6).collect();
        cluster.becomes("headless.default.svc.cluster.local", rtype, &records);
    }
    // The Service of DNS itself has an address of each family, and the resource says the first.
    let dns = cluster.kubectl.ok(&[
        "get",
        "service",
        "-n",
        "openshift-dns",
        "dns-default",
        "-o",
        "jsonpath={.spec.clusterIPs[*]}",
    ]);
    assert!(dns.starts_with("10.96.0.10 fd00:10:96::"), "{dns}");
    assert_eq!(cluster.dns()["status"]["clusterIP"], "10.96.0.10");
    cluster.condition("Available", "True", "AsExpected");
    cluster.condition("Degraded", "False", "AsExpected");
}

/// What somebody changes by hand is put right; what the operator is told to leave alone stays.
#[test]
fn hand_made_changes_are_put_right_unless_unmanaged() {
    let Some(cluster) = Cluster::without_gate(BOTH) else { return };
    let good = cluster.corefile();
    let broken = json!({"data": {"Corefile": ".:5353 {\n    whoops\n}\n"}}).to_string();
    let change = ["patch", "configmap", "dns-default", "-n", "openshift-dns", "--type=merge", "-p", &broken];
    cluster.kubectl.ok(&change);
    cluster.until("the Corefile is put right", || (cluster.corefile() == good).then_some(()));
    cluster.patch(&json!({"managementState": "Unmanaged"}));
    cluster.condition("Upgradeable", "False", "OperatorUnmanaged");
    cluster.kubectl.ok(&change);
    let message = cluster.condition("Degraded", "True", "ConfigurationRefused");
    assert!(message.contains("unknown plugin"), "{message}");
    cluster.is_resolved("www.example.com", A);
    cluster.patch(&json!({"managementState": "Managed"}));
    cluster.until("the Corefile is put right", || (cluster.corefile() == good).then_some(()));
    cluster.condition("Degraded", "False", "AsExpected");
    // Without the resource there is a new one.
    cluster.kubectl.ok(&["delete", DNS, "default"]);
    cluster.until("there is a new resource", || (!cluster.dns()["status"]["conditions"].is_null()).then_some(()));
}

/// The other operand: everything is made as it should be, once, and nothing claims that it runs.
#[test]
fn a_workload_is_made_once_and_not_taken_for_running() {
    let server = Server::start(&[BOTH[0]]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    // With the rights that its manifests give it, and no others.
    let kubeconfig = account::limited("dns-operator", &kubectl, &server.kubeconfig());
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let lease = "--leader-elect-resource-namespace=openshift-dns-operator";
    let words = ["dns-operator", &kubeconfig, lease, "--secure-port=0", "--image=example.com/twinstack:1"];
    let operator = Process::start(twinstack(), &words, &server.folder().join("operator.log"));
    let get = |words: &[&str]| kubectl.run(&[&["get"], words].concat()).stdout;
    let reached = wait_for(PATIENCE, || {
        let reasons = get(&[DNS, "default", "-o", "jsonpath={.status.conditions[*].reason}"]);
        (reasons == "NoDaemonSetPods AsExpected Reconciling AsExpected").then_some(())
    });
    assert!(reached.is_some(), "{}", operator.output());
    let kinds = "configmap,daemonset,service,serviceaccount,clusterrole,clusterrolebinding";
    let list =
        || get(&[kinds, "-n", "openshift-dns", "-l", "dns.operator.openshift.io/owning-dns=default", "-o", "name"]);
    let expected = [
        "configmap/dns-default",
        "daemonset.apps/dns-default",
        "service/dns-default",
        "service/dns-default-metrics",
        "serviceaccount/dns",
        "clusterrole.rbac.authorization.k8s.io/openshift-dns",
        "clusterrolebinding.rbac.authorization.k8s.io/openshift-dns",
    ];
    assert_eq!(list().lines().collect::<Vec<_>>(), expected);
    let versions = || {
        get(&[
            "configmap,daemonset,service",
            "-n",
            "openshift-dns",
            "-o",
            "jsonpath={.items[*].metadata.resourceVersion}",
        ])
    };
    let before = versions();
    // A change that concerns the DaemonSet alone.
    let patch = json!({"spec": {"nodePlacement": {"nodeSelector": {"dns": "yes"}}}}).to_string();
    kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", &patch]);
    let selector = "jsonpath={.spec.template.spec.nodeSelector}";
    let changed = wait_for(PATIENCE, || {
        (get(&["daemonset", "dns-default", "-n", "openshift-dns", "-o", selector]) == "{\"dns\":\"yes\"}").then_some(())
    });
    assert!(changed.is_some(), "{}", operator.output());
    let (before, after): (Vec<String>, Vec<String>) =
        (before.split(' ').map(str::to_owned).collect(), versions().split(' ').map(str::to_owned).collect());
    let same = before.iter().zip(&after).filter(|(before, after)| before == after).count();
    assert_eq!((after.len(), same), (before.len(), before.len() - 1), "only the DaemonSet is written");
    // What somebody changes by hand is put right.
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    kubectl.ok(&["set", "image", "daemonset/dns-default", "-n", "openshift-dns", "dns=example.com/other:1"]);
    let mended = wait_for(PATIENCE, || {
        let found = get(&["daemonset", "dns-default", "-n", "openshift-dns", "-o", image]);
        (found == "example.com/twinstack:1").then_some(())
    });
    assert!(mended.is_some(), "{}", operator.output());
    account::nothing_was_forbidden(&operator.output());
}

/// A release that did not know `spec.templates` was here before: the operator brings its definition up to date when it starts.
#[test]
fn an_older_definition_is_brought_up_to_date() {
    let server = Server::start(&[BOTH[0]]);
    let Some(kubectl) = server.kubectls().pop() else { return };
    let today = api::config::definitions_named(&[DNS]).pop().expect("a definition");
    definition::make_older(&kubectl, today, "dns-operator", "templates");
    let default =
        json!({"apiVersion": "operator.openshift.io/v1", "kind": "DNS", "metadata": {"name": "default"}, "spec": {}});
    kubectl.ok_with(&["create", "-f", "-"], &default.to_string());
    let templates = json!([filter("v6", &["example.com"])]);
    let is_known = || definition::is_known(&kubectl, &[DNS, "default"], "templates", &templates);
    assert!(!is_known(), "the older definition does not have it");
    let kubeconfig = account::limited("dns-operator", &kubectl, &server.kubeconfig());
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let words =
        ["dns-operator", &kubeconfig, "--leader-elect=false", "--secure-port=0", "--image=example.com/twinstack:1"];
    let operator = Process::start(twinstack(), &words, &server.folder().join("operator.log"));
    assert!(wait_for(PATIENCE, || is_known().then_some(())).is_some(), "{}", operator.output());
    account::nothing_was_forbidden(&operator.output());
    // The next one finds nothing to do.
    drop(operator);
    let version = || kubectl.ok(&["get", "crd", DNS, "-o", "jsonpath={.metadata.resourceVersion}"]);
    let before = version();
    let again = Process::start(twinstack(), &words, &server.folder().join("again.log"));
    let conditions = || kubectl.run(&["get", DNS, "default", "-o", "jsonpath={.status.conditions}"]).stdout;
    assert!(wait_for(PATIENCE, || (!conditions().is_empty()).then_some(())).is_some(), "{}", again.output());
    assert_eq!(version(), before, "{}", again.output());
}
