//! What people do with kubectl to a Pod that runs: exec, logs, attach, port-forward, cp, debug, describe, top.

use e2e::{
    node_lab::{Lab, PATIENCE, Shape, missing, pod, server_pod, shell},
    wait_for,
};
use serde_json::json;

fn lab(shape: Shape) -> Option<Lab> {
    if let Some(enable) = missing() {
        e2e::skip("kubectl against pods with a real container runtime", enable);
        return None;
    }
    Some(Lab::new(shape, 1))
}

#[track_caller]
fn ok(lab: &Lab, words: &[&str], input: &str) -> String {
    lab.kubectl(words, input).unwrap_or_else(|error| panic!("kubectl {words:?}: {error}\n{}", lab.logs()))
}

#[test]
fn exec_logs_attach_and_cp_work() {
    for shape in [Shape::V4V6, Shape::V6V4] {
        let Some(lab) = lab(shape) else { return };
        let mut own = server_pod("web");
        own["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            // Two pipes have no order between them: the second is written to when the first has long been read.
            .push(shell("writer", "for n in 1 2 3; do echo line $n; done; sleep 2; echo oops >&2; sleep 3600"));
        lab.apply(&own);
        lab.ready("web");

        assert_eq!(ok(&lab, &["exec", "web", "-c", "server", "--", "echo", "a b"], ""), "a b\n");
        assert_eq!(ok(&lab, &["exec", "-i", "web", "-c", "server", "--", "cat"], "from here"), "from here");
        let error =
            lab.kubectl(&["exec", "web", "-c", "server", "--", "sh", "-c", "exit 7"], "").unwrap_err().to_string();
        assert!(error.contains("exit status: 7"), "{error}");
        let error = lab.kubectl(&["exec", "web", "-c", "nobody", "--", "true"], "").unwrap_err().to_string();
        assert!(error.contains("container nobody is not valid for pod web"), "{error}");

        let log = || ok(&lab, &["logs", "web", "-c", "writer"], "");
        let whole = wait_for(PATIENCE, || Some(log()).filter(|log| log.contains("oops")));
        assert_eq!(whole.unwrap_or_else(log), "line 1\nline 2\nline 3\noops\n");
        assert_eq!(ok(&lab, &["logs", "web", "-c", "writer", "--tail=1"], ""), "oops\n");
        assert_eq!(ok(&lab, &["logs", "web", "-c", "writer", "--limit-bytes=6"], ""), "line 1");
        let stamped = ok(&lab, &["logs", "web", "-c", "writer", "--timestamps", "--tail=1"], "");
        assert!(stamped.ends_with(" oops\n") && stamped.starts_with("20"), "{stamped}");
        let error = lab.kubectl(&["logs", "web", "-c", "writer", "--previous"], "").unwrap_err().to_string();
        assert!(error.contains("previous terminated container \"writer\" in pod \"web\" not found"), "{error}");

        let folder = tempfile::tempdir().unwrap();
        let (sent, back) = (folder.path().join("sent"), folder.path().join("back"));
        std::fs::write(&sent, "copied\n").unwrap();
        ok(&lab, &["cp", &sent.display().to_string(), "web:/tmp/there", "-c", "server"], "");
        ok(&lab, &["cp", "web:/tmp/there", &back.display().to_string(), "-c", "server"], "");
        assert_eq!(std::fs::read_to_string(&back).unwrap(), "copied\n");

        let mut reader = shell("reader", "read line; echo got $line; read more");
        (reader["stdin"], reader["stdinOnce"]) = (true.into(), true.into());
        let mut asks = pod("asks", &[reader]);
        asks["spec"]["restartPolicy"] = "Never".into();
        lab.apply(&asks);
        lab.ready("asks");
        ok(&lab, &["attach", "-i", "asks", "-c", "reader"], "hello\n");
        let told =
            wait_for(PATIENCE, || lab.kubectl(&["logs", "asks"], "").ok().filter(|log| log.contains("got hello")));
        assert!(told.is_some(), "{}", lab.logs());
    }
}

#[test]
fn a_log_is_followed_to_the_end_of_its_container() {
    let Some(lab) = lab(Shape::V4V6) else { return };
    let mut counts = pod("counts", &[shell("c", "for n in 1 2 3 4; do echo $n; sleep 1; done")]);
    counts["spec"]["restartPolicy"] = "Never".into();
    lab.apply(&counts);
    lab.until(&["get", "pod", "counts"], |pod| (pod["status"]["phase"] != "Pending").then_some(()));
    assert_eq!(ok(&lab, &["logs", "-f", "counts"], ""), "1\n2\n3\n4\n");
    let mut crashes = pod("crashes", &[shell("c", "echo run; exit 1")]);
    crashes["spec"]["restartPolicy"] = "OnFailure".into();
    lab.apply(&crashes);
    lab.until(&["get", "pod", "crashes"], |pod| {
        (pod["status"]["containerStatuses"][0]["restartCount"].as_i64() > Some(0)).then_some(())
    });
    let before = wait_for(PATIENCE, || lab.kubectl(&["logs", "--previous", "crashes"], "").ok());
    assert_eq!(before.as_deref(), Some("run\n"));
}

#[test]
fn ports_are_forwarded_and_a_pod_is_described_and_debugged() {
    for shape in [Shape::V4V6, Shape::V6] {
        let Some(lab) = lab(shape) else { return };
        lab.apply(&server_pod("web"));
        let ips = lab.ready("web");
        let kubectl = ["env", "kubectl"].map(str::to_owned);
        let config = format!("--kubeconfig={}", lab.kubeconfig().display());
        let words = [
            kubectl[0].as_str(),
            kubectl[1].as_str(),
            &config,
            "port-forward",
            "pod/web",
            "18080:8080",
            "--address",
            "127.0.0.1",
        ];
        let forward = lab.network.hub_process(&words, &lab.folder().join("forward.log"));
        let told: Vec<String> = ips.iter().map(ToString::to_string).collect();
        let answered = wait_for(PATIENCE, || {
            let answer =
                lab.network.hub().run("curl", &["-sS", "--max-time", "5", "http://127.0.0.1:18080/"], "").ok()?;
            (answer.stdout.trim() == told.join(",")).then_some(())
        });
        assert!(answered.is_some(), "{}\n{}", forward.output(), lab.logs());
        drop(forward);

        let described = ok(&lab, &["describe", "pod", "web"], "");
        for ip in &told {
            assert!(described.contains(&format!("IP:  {ip}")), "{described}");
        }
        for word in ["Started", "Ready", "localhost/twinstack-busybox:latest"] {
            assert!(described.contains(word), "{word}\n{described}");
        }

        // As `kubectl debug` of today does it; that of 1.20, which may be here, speaks a form that is gone.
        let mut debugged = lab.get(&["get", "pod", "web"]).unwrap();
        let mut look = shell("look", "echo looked; sleep 3600");
        look["targetContainerName"] = "server".into();
        debugged["spec"]["ephemeralContainers"] = json!([look]);
        let path = "/api/v1/namespaces/default/pods/web/ephemeralcontainers";
        ok(&lab, &["replace", "--raw", path, "-f", "-"], &debugged.to_string());
        let looked =
            wait_for(PATIENCE, || lab.kubectl(&["logs", "web", "-c", "look"], "").ok().filter(|log| log == "looked\n"));
        assert!(looked.is_some(), "{}", lab.logs());
    }
}

/// With a kubectl of today, where `KUBECTLS` names one: that of 1.20 speaks a form that is gone.
#[test]
fn a_pod_is_debugged_with_a_kubectl_of_today() {
    let named = std::env::var_os("KUBECTLS").unwrap_or_default();
    let Some(kubectl) = std::env::split_paths(&named).next().filter(|path| path.is_file()) else { return };
    let Some(lab) = lab(Shape::V6V4) else { return };
    lab.apply(&server_pod("web"));
    lab.ready("web");
    let run = |words: &[&str]| {
        let config = format!("--kubeconfig={}", lab.kubeconfig().display());
        let mut all = vec![config.as_str()];
        all.extend(words);
        let answer = lab.network.hub().run(&kubectl.display().to_string(), &all, "");
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", lab.logs())).stdout
    };
    let image = format!("--image={}", e2e::node_lab::IMAGE);
    run(&[
        "debug",
        "web",
        &image,
        "--image-pull-policy=IfNotPresent",
        "--target=server",
        "--container=look",
        "--attach=false",
        "--",
        "sh",
        "-c",
        "ps | grep -c '[h]ttpd'; sleep 3600",
    ]);
    // It sees the processes of the container that it looks into.
    let looked = wait_for(PATIENCE, || lab.kubectl(&["logs", "web", "-c", "look"], "").ok().filter(|log| log == "1\n"));
    assert!(looked.is_some(), "{:?}\n{}", lab.kubectl(&["logs", "web", "-c", "look"], ""), lab.logs());
    assert_eq!(run(&["exec", "web", "-c", "look", "--", "echo", "here"]), "here\n");
}

#[test]
fn the_kubelet_serves_whom_the_api_server_allows() {
    let Some(lab) = lab(Shape::V4V6) else { return };
    lab.apply(&server_pod("web"));
    lab.ready("web");
    let proxied = |path: &str| ok(&lab, &["get", "--raw", &format!("/api/v1/nodes/n0/proxy{path}")], "");
    assert!(proxied("/pods").contains("\"web\""));
    assert!(proxied("/runningpods/").contains("\"server\""));
    let summary: serde_json::Value = serde_json::from_str(&proxied("/stats/summary")).unwrap();
    assert_eq!(summary["node"]["nodeName"], "n0");
    let pods = summary["pods"].as_array().unwrap();
    let web = pods.iter().find(|pod| pod["podRef"]["name"] == "web").unwrap_or_else(|| panic!("{summary:#}"));
    assert!(web["memory"]["workingSetBytes"].as_u64() > Some(0), "{web:#}");
    assert!(
        proxied("/metrics/resource")
            .contains("container_memory_working_set_bytes{container=\"server\",namespace=\"default\",pod=\"web\"}")
    );
    assert!(proxied("/metrics/cadvisor").contains("container_cpu_usage_seconds_total{container=\"server\""));
    // By the front door, on each family: without a token, with one that may nothing, with one that may read metrics.
    let account = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "default"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "node-metrics"},
         "rules": [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "node-metrics"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "node-metrics"},
         "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]}]});
    lab.apply(&account);
    let token = |name: &str| {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = ok(&lab, &["create", "--raw", &path, "-f", "-"], &request.to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["status"]["token"].as_str().unwrap_or_default().to_owned()
    };
    for address in &lab.nodes[0].addresses {
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let status = |path: &str, token: &str| {
            let url = format!("https://{host}:10250{path}");
            let header = format!("Authorization: Bearer {token}");
            let mut words = vec!["-ksS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", url.as_str()];
            if !token.is_empty() {
                words.extend(["-H", &header]);
            }
            lab.network.hub().run("curl", &words, "").unwrap_or_else(|error| panic!("{error}\n{}", lab.logs())).stdout
        };
        assert_eq!(status("/metrics/resource", &token("reader")), "200");
        assert_eq!(status("/pods", &token("reader")), "403");
        assert_eq!(status("/metrics/resource", &token("nobody")), "403");
        assert_eq!(status("/metrics/resource", "nonsense"), "401");
        assert_eq!(status("/metrics/resource", ""), "401");
    }
}

#[test]
fn top_shows_what_nodes_and_pods_use() {
    let Some(lab) = lab(Shape::V6V4) else { return };
    lab.apply(&server_pod("web"));
    lab.ready("web");
    let mut last = String::new();
    let shown = wait_for(PATIENCE, || {
        last = lab
            .kubectl(&["top", "pods", "-l", "app=web", "--no-headers"], "")
            .unwrap_or_else(|error| error.to_string());
        // Name, processors, memory.
        last.lines().any(|line| line.starts_with("web ") && line.contains("Mi")).then_some(())
    });
    assert!(shown.is_some(), "{last}\n{}", lab.logs());
    assert!(ok(&lab, &["top", "nodes", "--no-headers"], "").starts_with("n0 "));
    assert!(ok(&lab, &["top", "pods", "--containers", "--no-headers"], "").contains("server"));
}
