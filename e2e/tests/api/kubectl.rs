//! kubectl as people use it, every version on the machine, against a running API server. The output is what they would see.

use e2e::{Kubectl, Server, wait_for};
use std::time::Duration;

/// Each kubectl in a namespace of its own; the server is shared.
fn with_each(test: impl Fn(&Kubectl, &str)) {
    let server = Server::start(&[]);
    for kubectl in server.kubectls() {
        let namespace = format!("with-{}", kubectl.version.replace('.', "-"));
        kubectl.ok(&["create", "namespace", &namespace]);
        kubectl.ok(&["config", "set-context", "--current", &format!("--namespace={namespace}")]);
        test(&kubectl, &namespace);
    }
}

/// Lines and columns without the width of the columns.
fn squeezed(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn configmap(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{data}")
}

#[test]
fn what_there_is_can_be_listed_and_explained() {
    with_each(|kubectl, _| {
        let resources = squeezed(&kubectl.ok(&["api-resources"]));
        for row in [
            "services svc v1 true Service",
            "deployments deploy apps/v1 true Deployment",
            "statefulsets sts apps/v1 true StatefulSet",
            "cronjobs cj batch/v1 true CronJob",
            "endpointslices discovery.k8s.io/v1 true EndpointSlice",
            "servicecidrs networking.k8s.io/v1 false ServiceCIDR",
            "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
        ] {
            assert!(resources.contains(row), "{row}\n{resources}");
        }
        assert!(!resources.contains("networkpolicies"), "nothing acts on these:\n{resources}");
        assert!(kubectl.ok(&["api-versions"]).contains("rbac.authorization.k8s.io/v1"));
        let explained = kubectl.ok(&["explain", "pod.spec.containers"]);
        for word in ["image", "<string>", "ports", "livenessProbe"] {
            assert!(explained.contains(word), "{word}\n{explained}");
        }
        assert!(kubectl.ok(&["explain", "services.spec.ipFamilyPolicy"]).contains("ipFamilyPolicy"));
        let missing = kubectl.fails(&["get", "networkpolicies"], "");
        assert!(missing.contains("the server doesn't have a resource type \"networkpolicies\""), "{missing}");
    });
}

#[test]
fn objects_are_created_applied_replaced_and_deleted() {
    with_each(|kubectl, _| {
        assert_eq!(kubectl.ok(&["create", "configmap", "made", "--from-literal=a=1"]), "configmap/made created\n");
        let again = kubectl.fails(&["create", "configmap", "made"], "");
        assert!(again.contains("configmaps \"made\" already exists"), "{again}");

        let apply = |text: &str| kubectl.ok_with(&["apply", "-f", "-"], text);
        assert_eq!(apply(&configmap("kept", "  a: x\n  b: q\n")), "configmap/kept created\n");
        assert_eq!(apply(&configmap("kept", "  a: x\n  b: q\n")), "configmap/kept unchanged\n");
        assert_eq!(apply(&configmap("kept", "  a: z\n")), "configmap/kept configured\n");
        assert_eq!(kubectl.ok(&["get", "cm", "kept", "-o", "jsonpath={.data}"]), "{\"a\":\"z\"}");

        let dry = kubectl.ok_with(&["apply", "--dry-run=server", "-f", "-"], &configmap("never", "  a: b\n"));
        assert_eq!(dry, "configmap/never created (server dry run)\n");
        let missing = kubectl.fails(&["get", "cm", "never"], "");
        assert!(missing.contains("configmaps \"never\" not found"), "{missing}");

        assert_eq!(
            kubectl.ok_with(&["replace", "-f", "-"], &configmap("made", "  a: \"2\"\n")),
            "configmap/made replaced\n"
        );
        assert_eq!(kubectl.ok(&["get", "cm", "made", "-o", "jsonpath={.data.a}"]), "2");
        let waiting = kubectl.background(&["wait", "--for=delete", "cm/made", "--timeout=60s", "-v=6"]);
        let watches = || waiting.output().contains("configmaps").then_some(());
        assert!(wait_for(Duration::from_secs(60), watches).is_some(), "{}", waiting.output());
        let deleted = kubectl.ok(&["delete", "cm", "made"]);
        assert!(deleted.starts_with("configmap \"made\" deleted"), "{deleted}");
        let met = || waiting.output().contains("configmap/made condition met").then_some(());
        assert!(wait_for(Duration::from_secs(60), met).is_some(), "{}", waiting.output());
    });
}

#[test]
fn a_mistake_in_a_manifest_is_named_and_nothing_is_stored() {
    with_each(|kubectl, _| {
        let typo = "apiVersion: v1\nkind: Service\nmetadata: {name: typo}\nspec:\n  portss: [{port: 80}]\n";
        let complaint = kubectl.fails(&["apply", "-f", "-"], typo);
        assert!(complaint.contains("portss"), "{complaint}");
        let wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec:\n  ports: [{port: 99999}]\n  type: Sometimes\n";
        let complaint = kubectl.fails(&["apply", "-f", "-"], wrong);
        assert!(
            complaint.contains("spec.ports[0].port") && complaint.contains("spec.type"),
            "all at once: {complaint}"
        );
        let name = kubectl.fails(&["create", "configmap", "Not_A_Name"], "");
        assert!(name.contains("metadata.name") && name.contains("Not_A_Name"), "{name}");
        assert_eq!(kubectl.ok(&["get", "services", "-o", "name"]), "");
    });
}

#[test]
fn server_side_apply_keeps_owners_apart() {
    with_each(|kubectl, _| {
        let apply = |manager: &str, text: &str, more: &[&str]| {
            let manager = format!("--field-manager={manager}");
            let mut words = vec!["apply", "--server-side", &manager, "-f", "-"];
            words.extend(more);
            kubectl.run_with(&words, text)
        };
        let first = apply("one", &configmap("shared", "  a: x\n  b: q\n"), &[]);
        assert_eq!(first.stdout, "configmap/shared serverside-applied\n", "{}", first.stderr);
        let refused = apply("two", &configmap("shared", "  a: other\n"), &[]);
        assert!(!refused.success);
        assert!(
            refused.stderr.contains("conflict with \"one\"") && refused.stderr.contains(".data.a"),
            "{}",
            refused.stderr
        );
        assert!(apply("two", &configmap("shared", "  a: other\n"), &["--force-conflicts"]).success);
        assert!(apply("one", &configmap("shared", "  b: q\n"), &[]).success);
        assert_eq!(kubectl.ok(&["get", "cm", "shared", "-o", "jsonpath={.data}"]), "{\"a\":\"other\",\"b\":\"q\"}");
        assert!(apply("two", &configmap("shared", "  c: new\n"), &[]).success);
        assert_eq!(kubectl.ok(&["get", "cm", "shared", "-o", "jsonpath={.data}"]), "{\"b\":\"q\",\"c\":\"new\"}");
    });
}

#[test]
fn four_ways_to_patch_and_marks() {
    with_each(|kubectl, _| {
        kubectl.ok(&["create", "deployment", "web", "--image=nginx"]);
        let patch =
            |kind: &str, text: &str| kubectl.ok(&["patch", "deployment", "web", &format!("--type={kind}"), "-p", text]);
        let images =
            || kubectl.ok(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}"]);
        let side_car = r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"busybox"}]}}}}"#;
        assert_eq!(patch("strategic", side_car), "deployment.apps/web patched\n");
        assert_eq!(images(), "busybox nginx", "a strategic patch merges containers by name");
        assert_eq!(
            patch("merge", r#"{"metadata":{"annotations":{"why":"because"}}}"#),
            "deployment.apps/web patched\n"
        );
        let replace = r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"alpine"}]"#;
        assert_eq!(patch("json", replace), "deployment.apps/web patched\n");
        assert_eq!(images(), "alpine nginx");
        let gone = kubectl.fails(
            &["patch", "deployment", "web", "--type=json", "-p", r#"[{"op":"remove","path":"/spec/none"}]"#],
            "",
        );
        assert!(gone.contains("invalid") || gone.contains("the server rejected"), "{gone}");

        assert!(kubectl.ok(&["label", "deployment", "web", "tier=front"]).contains("labeled"));
        assert!(kubectl.ok(&["annotate", "deployment", "web", "why-", "note=x"]).contains("annotated"));
        assert_eq!(
            kubectl.ok(&["get", "deployments", "-l", "tier=front,app in (web)", "-o", "name"]),
            "deployment.apps/web\n"
        );
        assert_eq!(kubectl.ok(&["get", "deployments", "-l", "tier!=front", "-o", "name"]), "");
        assert_eq!(
            kubectl.ok(&["get", "deployment", "web", "-o", "jsonpath={.metadata.annotations}"]),
            "{\"note\":\"x\"}"
        );
    });
}

#[test]
fn edit_is_a_get_and_a_patch() {
    with_each(|kubectl, _| {
        kubectl.ok(&["create", "configmap", "edited", "--from-literal=a=old"]);
        let output = kubectl.edit(&["edit", "configmap", "edited"], "s/old/new/");
        assert!(output.success, "{}", output.stderr);
        assert!(output.stdout.contains("configmap/edited edited"), "{}", output.stdout);
        assert_eq!(kubectl.ok(&["get", "cm", "edited", "-o", "jsonpath={.data.a}"]), "new");
    });
}

#[test]
fn workloads_are_created_scaled_and_waited_for() {
    with_each(|kubectl, _| {
        assert_eq!(kubectl.ok(&["create", "deployment", "web", "--image=nginx:1"]), "deployment.apps/web created\n");
        assert_eq!(kubectl.ok(&["scale", "deployment", "web", "--replicas=3"]), "deployment.apps/web scaled\n");
        let wide = squeezed(&kubectl.ok(&["get", "deployment", "web", "-o", "wide"]));
        let header = "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR";
        assert!(
            wide.starts_with(header) && wide.contains("web 0/3 0 0") && wide.ends_with("nginx nginx:1 app=web"),
            "{wide}"
        );
        let stale = kubectl.fails(&["rollout", "status", "deployment/web", "--timeout=1s"], "");
        assert!(stale.contains("timed out"), "{stale}");

        // What its controller would write.
        let generation = kubectl.ok(&["get", "deployment", "web", "-o", "jsonpath={.metadata.generation}"]);
        assert_eq!(generation, "2");
        let status = format!(
            r#"{{"status":{{"observedGeneration":{generation},"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,
               "conditions":[{{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"ok"}}]}}}}"#
        );
        kubectl.patch_status("/apis/apps/v1", "deployments", "web", &status);
        let rolled = kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        assert!(rolled.contains("deployment \"web\" successfully rolled out"), "{rolled}");
        let met = kubectl.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
        assert_eq!(met, "deployment.apps/web condition met\n");
        let described = squeezed(&kubectl.ok(&["describe", "deployment", "web"]));
        assert!(
            described.contains("Replicas: 3 desired | 3 updated | 3 total | 3 available | 0 unavailable"),
            "{described}"
        );
    });
}

#[test]
fn a_running_pod_is_debugged_and_resized() {
    with_each(|kubectl, namespace| {
        kubectl.ok(&["create", "serviceaccount", "runner"]);
        let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  serviceAccountName: runner\n  containers:\n  \
                   - {name: web, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}\n";
        kubectl.ok_with(&["apply", "-f", "-"], pod);
        let before = kubectl.ok(&["get", "pod", "web", "-o", "jsonpath={.metadata.labels}{.spec.containers}"]);
        let path = format!("/api/v1/namespaces/{namespace}/pods/web");
        let read =
            || -> serde_json::Value { serde_json::from_str(&kubectl.ok(&["get", "--raw", &path])).expect("a pod") };
        let minor: u32 = kubectl.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("1.MINOR");
        if minor > 22 {
            kubectl.ok(&["debug", "web", "--image=busybox", "--target=web", "--container=look", "--attach=false"]);
        } else {
            // It sent a kind of its own then, which no server knows any more.
            let mut wanted = read();
            wanted["metadata"]["labels"] = serde_json::json!({"x": "y"});
            let look = serde_json::json!({"name": "look", "image": "busybox", "targetContainerName": "web"});
            wanted["spec"]["ephemeralContainers"] = serde_json::json!([look]);
            kubectl
                .ok_with(&["replace", "--raw", &format!("{path}/ephemeralcontainers"), "-f", "-"], &wanted.to_string());
        }
        let added = "jsonpath={.spec.ephemeralContainers[*].name} {.spec.ephemeralContainers[*].targetContainerName}";
        assert_eq!(kubectl.ok(&["get", "pod", "web", "-o", added]), "look web");
        assert_eq!(kubectl.ok(&["get", "pod", "web", "-o", "jsonpath={.metadata.labels}{.spec.containers}"]), before);

        let mut wanted = read();
        wanted["metadata"]["labels"] = serde_json::json!({"x": "y"});
        wanted["spec"]["containers"][0]["image"] = "other".into();
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m".into();
        kubectl.ok_with(&["replace", "--raw", &format!("{path}/resize"), "-f", "-"], &wanted.to_string());
        let shown =
            "jsonpath={.metadata.labels}{.spec.containers[0].image} {.spec.containers[0].resources.requests.cpu}";
        assert_eq!(kubectl.ok(&["get", "pod", "web", "-o", shown]), "nginx 150m");
    });
}

#[test]
fn a_watch_shows_changes_as_they_come() {
    with_each(|kubectl, _| {
        kubectl.ok(&["create", "configmap", "seen", "--from-literal=a=1"]);
        let watch = kubectl.background(&["get", "configmaps", "-w", "--field-selector=metadata.name=seen"]);
        let lines = |count: usize| {
            wait_for(Duration::from_secs(60), || (watch.output().lines().count() >= count).then_some(())).is_some()
        };
        assert!(lines(2), "{}", watch.output());
        kubectl.ok(&["patch", "configmap", "seen", "-p", r#"{"data":{"b":"2"}}"#]);
        assert!(lines(3), "{}", watch.output());
        let shown = squeezed(&watch.output());
        assert!(shown.starts_with("NAME DATA AGE\nseen 1 ") && shown.contains("\nseen 2 "), "{shown}");
    });
}

#[test]
fn a_difference_is_shown_before_it_is_made() {
    with_each(|kubectl, _| {
        kubectl.ok_with(&["apply", "-f", "-"], &configmap("now", "  a: x\n"));
        let output = kubectl.run_with(&["diff", "-f", "-"], &configmap("now", "  a: z\n"));
        assert!(
            output.stdout.contains("-  a: x") && output.stdout.contains("+  a: z"),
            "{}{}",
            output.stdout,
            output.stderr
        );
        assert_eq!(kubectl.ok(&["get", "cm", "now", "-o", "jsonpath={.data.a}"]), "x");
        assert!(kubectl.run_with(&["diff", "-f", "-"], &configmap("now", "  a: x\n")).success, "no difference");
    });
}

#[test]
fn who_may_what_is_told() {
    with_each(|kubectl, namespace| {
        assert_eq!(kubectl.ok(&["auth", "can-i", "create", "pods"]), "yes\n");
        assert_eq!(kubectl.run(&["auth", "can-i", "create", "pods", "--as=eve"]).stdout, "no\n");
        kubectl.ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods"]);
        kubectl.ok(&["create", "rolebinding", "eve-reads", "--role=reader", "--user=eve"]);
        let allowed = wait_for(Duration::from_secs(60), || {
            kubectl.run(&["auth", "can-i", "list", "pods", "--as=eve"]).success.then_some(())
        });
        assert!(allowed.is_some());
        assert_eq!(kubectl.ok(&["get", "pods", "--as=eve", "-o", "name"]), "");
        let refused = kubectl.fails(&["get", "secrets", "--as=eve"], "");
        let words = format!(
            "secrets is forbidden: User \"eve\" cannot list resource \"secrets\" in API group \"\" in the namespace \"{namespace}\""
        );
        assert!(refused.contains(&words), "{refused}");
        let listed = squeezed(&kubectl.ok(&["auth", "can-i", "--list", "--as=eve"]));
        assert!(listed.contains("pods [] [] [get list]"), "{listed}");
    });
}

#[test]
fn services_show_both_families() {
    with_each(|kubectl, _| {
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: both}\nspec:\n  ipFamilyPolicy: RequireDualStack\n  selector: {app: x}\n  ports: [{port: 80}]\n";
        assert_eq!(kubectl.ok_with(&["apply", "-f", "-"], service), "service/both created\n");
        let families = kubectl.ok(&["get", "service", "both", "-o", "jsonpath={.spec.ipFamilies}"]);
        assert_eq!(families, r#"["IPv4","IPv6"]"#);
        let ips = kubectl.ok(&["get", "service", "both", "-o", "jsonpath={.spec.clusterIPs[0]} {.spec.clusterIPs[1]}"]);
        assert!(ips.starts_with("10.96.") && ips.contains(" fd00:10:96::"), "{ips}");
        let row = squeezed(&kubectl.ok(&["get", "service", "both", "-o", "wide"]));
        assert!(
            row.starts_with("NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR\nboth ClusterIP 10.96."),
            "{row}"
        );
        assert!(row.ends_with("app=x"), "{row}");
        if kubectl.version != "1.20" {
            let described = squeezed(&kubectl.ok(&["describe", "service", "both"]));
            assert!(described.contains("IP Families: IPv4,IPv6") && described.contains("IPs: 10.96."), "{described}");
        }
    });
}

#[test]
fn flow_control_reads_as_upstreams() {
    with_each(|kubectl, _| {
        let table = |what: &str| {
            let text = squeezed(&kubectl.ok(&["get", what]));
            // The age is whatever it is.
            let seconds = |word: &str| word.len() > 1 && word.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok();
            let line = |line: &str| {
                let words = line
                    .split(' ')
                    .map(|word| if seconds(word) && !word.ends_with(char::is_numeric) { "AGE" } else { word });
                words.collect::<Vec<_>>().join(" ")
            };
            text.lines().map(line).collect::<Vec<_>>().join("\n")
        };
        let schemas = "NAME PRIORITYLEVEL MATCHINGPRECEDENCE DISTINGUISHERMETHOD AGE MISSINGPL\n\
                       exempt exempt 1 <none> AGE False\n\
                       probes exempt 2 <none> AGE False\n\
                       system-leader-election leader-election 100 ByUser AGE False\n\
                       system-node-high node-high 400 ByUser AGE False\n\
                       system-nodes system 500 ByUser AGE False\n\
                       kube-controller-manager workload-high 800 ByNamespace AGE False\n\
                       kube-scheduler workload-high 800 ByNamespace AGE False\n\
                       kube-system-service-accounts workload-high 900 ByNamespace AGE False\n\
                       service-accounts workload-low 9000 ByUser AGE False\n\
                       global-default global-default 9900 ByUser AGE False\n\
                       catch-all catch-all 10000 ByUser AGE False";
        let reported = wait_for(Duration::from_secs(60), || (table("flowschemas") == schemas).then_some(()));
        assert!(reported.is_some(), "{}", table("flowschemas"));
        assert_eq!(
            table("prioritylevelconfigurations"),
            "NAME TYPE NOMINALCONCURRENCYSHARES QUEUES HANDSIZE QUEUELENGTHLIMIT AGE\n\
             catch-all Limited 5 <none> <none> <none> AGE\n\
             exempt Exempt <none> <none> <none> <none> AGE\n\
             global-default Limited 20 128 6 50 AGE\n\
             leader-election Limited 10 16 4 50 AGE\n\
             node-high Limited 40 64 6 50 AGE\n\
             system Limited 30 64 6 50 AGE\n\
             workload-high Limited 40 128 6 50 AGE\n\
             workload-low Limited 100 128 6 50 AGE"
        );
        assert!(kubectl.ok(&["explain", "flowschemas.spec"]).contains("matchingPrecedence"));
    });
}
