//! What a kubelet may read, write and evict.

use super::*;

#[tokio::test]
async fn a_kubelet_reads_what_its_pods_need() {
    let server = apiserver::testing::server().await;
    account(&server, "app").await;
    for name in ["mine", "other"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        make(&server, "/api/v1/namespaces/default/secrets", secret).await;
    }
    for name in ["n1", "n2"] {
        make(&server, "/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    }
    let ours = make(&server, "/api/v1/namespaces/default/pods", pod("ours", "n1", "app", "mine")).await;
    let theirs = make(&server, "/api/v1/namespaces/default/pods", pod("theirs", "n2", "app", "other")).await;
    let (n1, base) = (kubelet("n1"), "/api/v1/namespaces/default");
    until("the pod in the graph", || async { get(&server, &n1, &format!("{base}/secrets/mine")).await.status == 200 })
        .await;
    for (path, want) in [
        (format!("{base}/secrets/other"), 403),
        (format!("{base}/secrets"), 403),
        (format!("{base}/secrets?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}/secrets?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{base}/secrets?fieldSelector=metadata.name%3Dother"), 403),
        (format!("{base}/pods/ours"), 200),
        (format!("{base}/pods/theirs"), 403),
        ("/api/v1/pods".to_owned(), 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(), 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".to_owned(), 403),
        ("/api/v1/nodes/n1".to_owned(), 200),
        ("/api/v1/nodes/n2".to_owned(), 403),
        ("/api/v1/nodes".to_owned(), 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned(), 200),
        ("/api/v1/nodes?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dn1".to_owned(), 200),
        ("/api/v1/services".to_owned(), 200),
        ("/apis/discovery.k8s.io/v1/endpointslices".to_owned(), 200),
        (format!("{base}/serviceaccounts"), 403),
    ] {
        assert_eq!(get(&server, &n1, &path).await.status, want, "{path}");
    }
    let refused = get(&server, &n1, &format!("{base}/secrets/other")).await;
    assert_eq!(
        message(&refused),
        (
            403,
            "secrets \"other\" is forbidden: User \"system:node:n1\" cannot get resource \"secrets\" in API group \"\" in the \
             namespace \"default\": no relationship found between node 'n1' and this object"
                .to_owned()
        )
    );
    let request = |pod: &Value| {
        let bound =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}})
    };
    let path = format!("{base}/serviceaccounts/app/token");
    let good = post(&server, &n1, &path, &request(&ours)).await;
    assert_eq!(good.status, 201, "{}", good.json());
    assert_eq!(post(&server, &n1, &path, &request(&theirs)).await.status, 403, "a pod of another node");
    let unbound = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    assert_eq!(post(&server, &n1, &path, &unbound).await.status, 403, "bound to no pod");
    remove(&server, &format!("{base}/pods/ours")).await;
    until("the end of the pod", || async { get(&server, &n1, &format!("{base}/secrets/mine")).await.status == 403 })
        .await;
}

#[tokio::test]
async fn a_kubelet_writes_what_is_its_own() {
    let server = apiserver::testing::server().await;
    let n1 = kubelet("n1");
    let node = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    assert_eq!(
        post(&server, &n1, "/api/v1/nodes", &node("n1", json!({"kubernetes.io/hostname": "n1"}))).await.status,
        201
    );
    let other = post(&server, &n1, "/api/v1/nodes", &node("n2", json!({}))).await;
    assert_eq!(
        message(&other),
        (403, r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#.to_owned())
    );
    make(&server, "/api/v1/nodes", node("n2", json!({}))).await;
    account(&server, "default").await;
    make(&server, "/api/v1/namespaces/default/pods", pod("ours", "n1", "default", "s")).await;
    make(&server, "/api/v1/namespaces/default/pods", pod("theirs", "n2", "default", "s")).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let running = json!({"status": {"phase": "Running"}});
    let drawing = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "yes"}}});
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    for (path, body, want) in [
        ("/api/v1/nodes/n1/status".to_owned(), &ready, 200),
        ("/api/v1/nodes/n2/status".to_owned(), &ready, 403),
        ("/api/v1/nodes/n1".to_owned(), &drawing, 403),
        ("/api/v1/nodes/n1".to_owned(), &taint, 403),
        (format!("{pods}/ours/status"), &running, 200),
        (format!("{pods}/theirs/status"), &running, 403),
        (format!("{pods}/ours"), &drawing, 403),
    ] {
        let reply = with_headers(&server, &n1, "PATCH", &path, &[], body).await;
        assert_eq!(reply.status, want, "{path} {body}: {}", reply.json());
    }
    let free = post(&server, &n1, pods, &pod("free", "n1", "default", "s")).await;
    assert_eq!(free.status, 403, "only mirror pods: {}", free.json());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease =
        |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    assert_eq!(post(&server, &n1, leases, &lease("n1")).await.status, 201);
    assert_eq!(post(&server, &n1, leases, &lease("n2")).await.status, 403);
    assert_eq!(with_headers(&server, &n1, "DELETE", &format!("{pods}/theirs"), &[], &Value::Null).await.status, 403);
    assert_eq!(with_headers(&server, &n1, "DELETE", &format!("{pods}/ours"), &[], &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_kubelet_evicts_what_runs_on_its_node() {
    let server = apiserver::testing::server().await;
    let (n1, pods) = (kubelet("n1"), "/api/v1/namespaces/default/pods");
    account(&server, "default").await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {}}},
    });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    make(&server, budgets, budget).await;
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    let merge = [("content-type", "application/merge-patch+json")];
    let status = ask(&server, "PATCH", &format!("{budgets}/b/status"), &merge, allowed.to_string()).await;
    assert_eq!(status.status, 200, "{}", status.json());
    for (name, node) in [("ours", "n1"), ("theirs", "n2")] {
        make(&server, pods, pod(name, node, "default", "s")).await;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(
            ask(&server, "PATCH", &format!("{pods}/{name}/status"), &merge, ready.to_string()).await.status,
            200
        );
    }
    let left = async || {
        get(&server, &user_root(), &format!("{budgets}/b")).await.json()["status"]["disruptionsAllowed"].clone()
    };
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        post(&server, &n1, &format!("{pods}/{name}/eviction"), &eviction).await
    };
    let theirs = evict("theirs").await;
    let why = r#"pods "theirs" is forbidden: node n1 can only evict pods with spec.nodeName set to itself"#;
    assert_eq!(message(&theirs), (403, why.to_owned()));
    assert_eq!(left().await, 1, "a refused eviction spends nothing");
    let ours = evict("ours").await;
    assert_eq!(ours.status, 201, "{}", ours.json());
    assert_eq!(left().await, 0);
    assert!(
        get(&server, &user_root(), &format!("{pods}/ours")).await.json()["metadata"]["deletionTimestamp"].is_string()
    );
}
