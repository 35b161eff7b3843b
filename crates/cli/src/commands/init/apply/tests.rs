//! Every definition and object is accepted by a server, with its status, and again without a change.

use super::*;
use ::apiserver::{client, testing};
use http::Method;
use std::path::Path;

const KUBEADM: &str = "
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
networking: {podSubnet: 'fd00:10:20::/72,10.20.0.0/16', serviceSubnet: 'fd00:1234::/110,10.96.0.0/12'}
controllerManager: {extraArgs: [{name: node-cidr-mask-size-ipv6, value: '80'}]}
";

const INSTALL: &str = "
apiVersion: v1
metadata: {name: lab}
baseDomain: example.test
platform: {aws: {region: eu-west-1, ipFamily: DualStackIPv6Primary}}
featureSet: TechPreviewNoUpgrade
";

fn objects(text: &str) -> Vec<Value> {
    let read = install::read(
        Path::new("lab.yaml"),
        text,
        install::KnownFlags { api_server: &[], controller_manager: &["node-cidr-mask-size-ipv6"] },
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("lab");
    install::write(&read.cluster, "1.2.3", &target, install::Overwrite::No, std::time::SystemTime::now()).unwrap();
    install::objects(&target).unwrap()
}

async fn get(server: &Arc<ApiServer>, path: &str) -> Value {
    client::ask(server, Method::GET, path, None).await.unwrap()
}

#[tokio::test]
async fn what_init_writes_is_accepted_with_its_status() {
    for (text, platform) in [(KUBEADM, "None"), (INSTALL, "AWS")] {
        let server = testing::server().await;
        apply(&server, &objects(text)).await.unwrap();
        let infrastructure = get(&server, "/apis/config.openshift.io/v1/infrastructures/cluster").await;
        assert_eq!(infrastructure["status"]["platformStatus"]["type"], platform);
        let network = get(&server, "/apis/config.openshift.io/v1/networks/cluster").await;
        assert_eq!(network["status"], network["spec"]);
        let gates = get(&server, "/apis/config.openshift.io/v1/featuregates/cluster").await;
        assert_eq!(gates["status"]["featureGates"][0]["version"], "1.2.3");
        let path = "/apis/operator.openshift.io/v1/namespaces/openshift-ingress-operator/ingresscontrollers/default";
        assert!(get(&server, path).await["spec"]["endpointPublishingStrategy"]["type"].is_string());

        apply(&server, &objects(text)).await.unwrap();
        let again = get(&server, "/apis/config.openshift.io/v1/infrastructures/cluster").await;
        assert_eq!(again["metadata"]["resourceVersion"], infrastructure["metadata"]["resourceVersion"]);
    }
}

#[tokio::test]
async fn what_somebody_changed_stays() {
    let server = testing::server().await;
    let objects = objects(INSTALL);
    apply(&server, &objects).await.unwrap();
    let path = "/apis/operator.openshift.io/v1/namespaces/openshift-ingress-operator/ingresscontrollers/default";
    client::ask(&server, Method::PATCH, path, Some(&json!({"spec": {"replicas": 5}}))).await.unwrap();
    apply(&server, &objects).await.unwrap();
    assert_eq!(get(&server, path).await["spec"]["replicas"], 5);
}

#[tokio::test]
async fn the_families_of_an_installed_cluster_stay() {
    let server = testing::server().await;
    apply(&server, &objects(INSTALL)).await.unwrap();
    let path = "/apis/config.openshift.io/v1/infrastructures/cluster/status";
    let patch = json!({"status": {"platformStatus": {"aws": {"ipFamily": "IPv4"}}}});
    let refused = client::ask(&server, Method::PATCH, path, Some(&patch)).await.unwrap_err();
    assert!(refused.message.contains("ipFamily is decided at installation"), "{}", refused.message);
}

#[tokio::test]
async fn rules_of_ingress_controllers_hold() {
    let server = testing::server().await;
    apply(&server, &objects(INSTALL)).await.unwrap();
    let path = "/apis/operator.openshift.io/v1/namespaces/openshift-ingress-operator/ingresscontrollers";
    let aws = |scope: &str, nlb: Value| {
        json!({"endpointPublishingStrategy": {"type": "LoadBalancerService", "loadBalancer": {
            "scope": scope, "providerParameters": {"type": "AWS", "aws": {"type": "NLB", "networkLoadBalancer": nlb}}}}})
    };
    let eip = "eipalloc-0123456789abcdef0";
    let subnet = "subnet-0123456789abcdef0";
    for (spec, problem) in [
        (json!({"domain": "Apps.Test"}), "DNS name in lower case"),
        (json!({"tuningOptions": {"maxConnections": 5}}), "2000 to 2000000"),
        (aws("Internal", json!({"eipAllocations": [eip]})), "eipAllocations need scope External"),
        (aws("External", json!({"eipAllocations": [eip, eip]})), "an allocation may stand only once"),
        (
            aws("External", json!({"eipAllocations": [eip], "subnets": {"ids": [subnet], "names": ["a"]}})),
            "as many eipAllocations as subnets",
        ),
        (aws("External", json!({"subnets": {}})), "give at least one id or name"),
        (aws("External", json!({"subnets": {"names": ["subnet-a"]}})), "is an id"),
        (aws("Everywhere", json!({})), "Unsupported value"),
    ] {
        let object = json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
            "metadata": {"name": "other", "namespace": "openshift-ingress-operator"}, "spec": spec});
        let refused = client::ask(&server, Method::POST, path, Some(&object)).await.unwrap_err();
        assert!(refused.message.contains(problem), "{problem}: {}", refused.message);
    }
    let fine = json!({"apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
        "metadata": {"name": "other", "namespace": "openshift-ingress-operator"},
        "spec": aws("External", json!({"eipAllocations": [eip], "subnets": {"ids": [subnet]}}))});
    client::ask(&server, Method::POST, path, Some(&fine)).await.unwrap();
}
