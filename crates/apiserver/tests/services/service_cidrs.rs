//! ServiceCIDRs, IPAddresses and the Service `kubernetes`.

use super::*;

#[tokio::test]
async fn the_default_service_cidr_is_ready_and_stays_while_it_is_needed() {
    let server = server(settings("fd00:96::/108,10.96.0.0/16")).await;
    let cidr = get(&server, &format!("{CIDRS}/kubernetes")).await;
    assert_eq!(texts(&cidr["spec"]["cidrs"]), ["fd00:96::/108", "10.96.0.0/16"]);
    assert_eq!(texts(&cidr["metadata"]["finalizers"]), ["networking.k8s.io/service-cidr-finalizer"]);
    assert_eq!(
        (&cidr["status"]["conditions"][0]["type"], &cidr["status"]["conditions"][0]["status"]),
        (&json!("Ready"), &json!("True"))
    );
    // The kubernetes Service is in it, so it stays; new addresses do not come from it.
    assert_eq!(ask(&server, "DELETE", &format!("{CIDRS}/kubernetes"), &[], "").await.status, 200);
    ranges::reconcile(&server).await.unwrap();
    let cidr = get(&server, &format!("{CIDRS}/kubernetes")).await;
    assert_eq!(cidr["status"]["conditions"][0]["reason"], "Terminating");
    assert_eq!(create(&server, "s", json!({})).await.status, 500);
}

#[tokio::test]
async fn more_ranges_can_be_added_and_taken_away() {
    let server = server(settings("10.96.0.0/29")).await;
    let mut made = 0;
    while create(&server, &format!("s{made}"), json!({})).await.status == 201 {
        made += 1;
    }
    assert_eq!(made, 5, "of six addresses the kubernetes Service has one");
    let body = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.97.0.0/24"]}}).to_string();
    assert_eq!(ask(&server, "POST", CIDRS, &[], body).await.status, 201);
    ranges::reconcile(&server).await.unwrap();
    let ip = create(&server, "more", json!({})).await.json()["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10.97.0."), "{ip}");
    // It stays while an address of it is in use, and gives none meanwhile.
    assert_eq!(ask(&server, "DELETE", &format!("{CIDRS}/more"), &[], "").await.status, 200);
    ranges::reconcile(&server).await.unwrap();
    let leaving = get(&server, &format!("{CIDRS}/more")).await;
    assert_eq!(leaving["status"]["conditions"][0]["status"], "False", "{leaving}");
    assert_eq!(create(&server, "none", json!({})).await.status, 500);
    assert!(repair::repair(&server).await.unwrap().found.is_empty(), "an address of a leaving range is in order");
    delete(&server, "more").await;
    ranges::reconcile(&server).await.unwrap();
    assert_eq!(ask(&server, "GET", &format!("{CIDRS}/more"), &[], "").await.status, 404);
}

#[tokio::test]
async fn an_address_that_somebody_else_holds_is_not_given() {
    let server = server(settings("10.96.0.0/16,fd00:96::/108")).await;
    for ip in ["10.96.0.50", "fd00:96::50"] {
        let body = json!({"metadata": {"name": ip}, "spec": {"parentRef": {"group": "example.com", "resource": "gateways", "name": "g"}}});
        let reply = ask(&server, "POST", ADDRESSES, &[], body.to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.json());
        assert_eq!(causes(&create(&server, "s", json!({"clusterIP": ip})).await), ["spec.clusterIPs"]);
    }
    assert!(repair::repair(&server).await.unwrap().found.is_empty(), "it is not the server's to take away");
}

fn advertised(list: &str) -> Option<Advertised> {
    Some(Advertised { addresses: net::flags::one_or_pair::<IpAddr>("advertise-address", list).unwrap(), port: 6443 })
}

#[tokio::test]
async fn the_kubernetes_service_is_in_the_primary_family() {
    for (list, ip, family) in
        [("10.96.0.0/16,fd00:96::/108", "10.96.0.1", "IPv4"), ("fd00:96::/108,10.96.0.0/16", "fd00:96::1", "IPv6")]
    {
        let server = server(settings(list)).await;
        let service = get(&server, &format!("{COLLECTION}/kubernetes")).await;
        assert_eq!(texts(&service["spec"]["clusterIPs"]), [ip]);
        assert_eq!(texts(&service["spec"]["ipFamilies"]), [family]);
        assert_eq!(service["spec"]["ipFamilyPolicy"], "SingleStack");
        assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    }
}

#[tokio::test]
async fn the_kubernetes_service_can_be_in_both_families_and_leads_to_every_server() {
    let store = Store::memory(Retention::default());
    let base = Settings { kubernetes_service: KubernetesService::Both, ..settings("fd00:96::/108,10.96.0.0/16") };
    let first = on(&store, Settings { advertised: advertised("fd00::1,10.0.0.1"), ..base.clone() }).await;
    let second = on(&store, Settings { advertised: advertised("fd00::2,10.0.0.2"), ..base }).await;
    let service = get(&first, &format!("{COLLECTION}/kubernetes")).await;
    assert_eq!(texts(&service["spec"]["clusterIPs"]), ["fd00:96::1", "10.96.0.1"]);
    assert_eq!(service["spec"]["ipFamilyPolicy"], "PreferDualStack");
    let endpoints = get(&first, "/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "fd00::1"}, {"ip": "fd00::2"}]));
    assert_eq!(endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"], "true");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for (name, kind, want) in
        [("kubernetes", "IPv6", ["fd00::1", "fd00::2"]), ("kubernetes-ipv4", "IPv4", ["10.0.0.1", "10.0.0.2"])]
    {
        let slice = get(&first, &format!("{slices}/{name}")).await;
        let addresses: Vec<_> =
            slice["endpoints"].as_array().unwrap().iter().flat_map(|e| texts(&e["addresses"])).collect();
        assert_eq!((slice["addressType"].as_str().unwrap(), addresses), (kind, want.to_vec()), "{slice}");
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");
    }
    second.stop.cancel();
    kubernetes::leave(&second).await;
    let endpoints = get(&first, "/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "fd00::1"}]));
}

#[tokio::test]
async fn the_kubernetes_service_gains_the_second_family_when_asked() {
    let store = Store::memory(Retention::default());
    on(&store, settings("10.96.0.0/16,fd00:96::/108")).await;
    let both = Settings { kubernetes_service: KubernetesService::Both, ..Settings::default() };
    let server = on(&store, both).await;
    let service = get(&server, &format!("{COLLECTION}/kubernetes")).await;
    assert_eq!(texts(&service["spec"]["clusterIPs"]), ["10.96.0.1", "fd00:96::1"]);
}

#[tokio::test]
async fn metrics_tell_how_full_the_pools_are() {
    let server = server(settings("10.96.0.0/24,fd00:96::/120")).await;
    create(&server, "s", json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack"})).await;
    let text = ask(&server, "GET", "/metrics", &[], "").await;
    let text = String::from_utf8(text.bytes.to_vec()).unwrap();
    for line in [
        r#"kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.96.0.0/24"} 2"#,
        r#"kube_apiserver_clusterip_allocator_allocated_ips{cidr="fd00:96::/120"} 1"#,
        r#"kube_apiserver_clusterip_allocator_available_ips{cidr="10.96.0.0/24"} 252"#,
        r#"kube_apiserver_clusterip_allocator_available_ips{cidr="fd00:96::/120"} 254"#,
        "kube_apiserver_nodeport_allocator_allocated_ports 1",
        "kube_apiserver_nodeport_allocator_available_ports 2767",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
    }
}
