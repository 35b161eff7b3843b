//! An IngressController through its life on a whole API server in memory: every sort of edit, what follows from it, and what does not; zones that
//! fail and recover.

use super::super::{
    names::{CONFIG_NAMESPACE, MANAGED_CONFIG_NAMESPACE, OPERATOR_NAMESPACE},
    objects::{DnsConfig, DnsRecord, Infrastructure, Network},
    tests::in_process::{World, has, settled, to},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret, Service},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use runtime::cloud::CloudError;
use serde_json::{Value, json};
use std::time::Duration;

const AWS: &str = "service.beta.kubernetes.io/aws-load-balancer-";

fn annotation(now: &Value, key: &str) -> Value {
    now["services"]["router-default"][3][format!("{AWS}{key}")].clone()
}

fn env(now: &Value, name: &str) -> Option<String> {
    let all = now["deployments"]["router-default"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["name"] == name).map(|one| one["value"].as_str().unwrap_or_default().to_owned())
}

/// A patch for the parameters of the load balancer.
fn nlb(more: Value) -> Value {
    let mut patch = to("NLB");
    patch["spec"]["endpointPublishingStrategy"]["loadBalancer"]["providerParameters"]["aws"]["networkLoadBalancer"] =
        more;
    patch
}

fn balancer(field: &str, value: Value) -> Value {
    json!({"spec": {"endpointPublishingStrategy": {"loadBalancer": {(field): value}}}})
}

async fn patch<K>(api: Api<K>, name: &str, patch: Value)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
}

async fn record(world: &World) -> DnsRecord {
    let records: Api<DnsRecord> = Api::namespaced(world.client.clone(), OPERATOR_NAMESPACE);
    records.get("default-wildcard").await.expect("a record")
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_reach_the_live_service_or_wait_for_a_new_one() {
    let world = Box::pin(World::new("IPv4")).await;
    let operator = world.start(world.client.clone());
    let made = world.until("made", settled).await;
    assert_eq!(made["classes"]["openshift-default"]["parameters"]["name"], "default");

    // Tags of the Infrastructure.
    let tags = json!({"status": {"platformStatus": {"aws": {"resourceTags": [{"key": "team", "value": "edge"}]}}}});
    let infrastructures: Api<Infrastructure> = Api::all(world.client.clone());
    infrastructures.patch_status("cluster", &PatchParams::default(), &Patch::Merge(tags)).await.expect("patched");
    world.until("tagged", |now| annotation(now, "additional-resource-tags") == "team=edge").await;

    // The protocol: annotation and variable go together, and back.
    world.change(nlb(json!({"protocol": "PROXY"}))).await;
    let sends = |now: &Value| annotation(now, "target-group-attributes").to_string().contains("v2.enabled=true");
    world.until("PROXY", |now| sends(now) && env(now, "ROUTER_USE_PROXY_PROTOCOL").as_deref() == Some("true")).await;
    world.change(nlb(json!({"protocol": null}))).await;
    world.until("TCP", |now| !sends(now) && env(now, "ROUTER_USE_PROXY_PROTOCOL").is_none()).await;

    // Source ranges: brought when asked for, left when no longer asked for, and told.
    let ranges = json!(["192.0.2.0/24", "2001:db8::/32"]);
    world.change(balancer("allowedSourceRanges", ranges.clone())).await;
    let shown = |now: &Value| now["strategy"]["loadBalancer"]["allowedSourceRanges"].clone();
    world.until("ranges", |now| shown(now) == ranges && settled(now)).await;
    world.change(balancer("allowedSourceRanges", Value::Null)).await;
    world.until("told of ranges", |now| has(now, "LoadBalancerProgressing=True") && shown(now) == ranges).await;
    let services = world.operands::<Service>();
    patch(services.clone(), "router-default", json!({"spec": {"loadBalancerSourceRanges": null}})).await;
    world.until("open", |now| shown(now).is_null() && settled(now)).await;

    // Subnets and scope wait for a new load balancer.
    let before = services.get("router-default").await.expect("there");
    let subnet = "subnet-00000000000000001";
    world.change(nlb(json!({"subnets": {"ids": [subnet]}}))).await;
    world.until("waiting", |now| has(now, "LoadBalancerProgressing=True") && has(now, "Available=True")).await;
    world.change(balancer("scope", json!("Internal"))).await;
    let both = |now: &Value| has(now, "Progressing=True") && now["strategy"]["loadBalancer"]["scope"] == "Internal";
    let waiting = world.until("waiting for both", both).await;
    assert!(annotation(&waiting, "subnets").is_null() && annotation(&waiting, "internal").is_null());
    assert_eq!(services.get("router-default").await.expect("there").uid(), before.uid());
    let auto = json!({"metadata": {"annotations": {"ingress.operator.openshift.io/auto-delete-load-balancer": ""}}});
    world.change(auto).await;
    world
        .until("replaced", |now| {
            settled(now) && annotation(now, "subnets") == subnet && annotation(now, "internal") == "true"
        })
        .await;
    assert_ne!(services.get("router-default").await.expect("there").uid(), before.uid());

    // A change of the Network reaches routers by itself.
    assert_eq!(env(&made, "ROUTER_IP_V4_V6_MODE").as_deref(), Some("v4v6"));
    let networks: Api<Network> = Api::all(world.client.clone());
    patch(networks, "cluster", json!({"status": {"clusterNetwork": [{"cidr": "fd01::/48"}]}})).await;
    world.until("v6", |now| env(now, "ROUTER_IP_V4_V6_MODE").as_deref() == Some("v6")).await;

    // What others change on the internal Service is put right.
    patch(services.clone(), "router-internal-default", json!({"spec": {"selector": {"a": "b"}}})).await;
    let wanted = json!({"ingresscontroller.operator.openshift.io/deployment-ingresscontroller": "default"});
    for _ in 0..1000 {
        let selector =
            services.get("router-internal-default").await.expect("there").spec.and_then(|spec| spec.selector);
        if json!(selector) == wanted {
            break;
        }
        world.doubles().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let selector = services.get("router-internal-default").await.expect("there").spec.and_then(|spec| spec.selector);
    assert_eq!(json!(selector), wanted);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_follow_the_load_balancer_and_its_policy() {
    let world = Box::pin(World::new("DualStackIPv4Primary")).await;
    let operator = world.start(world.client.clone());
    world.until("made", settled).await;
    assert_eq!(world.dns.calls().len(), 2, "one call for each zone");
    assert_eq!(record(&world).await.status.expect("a status").observed_generation, Some(1));

    // Another host name, twice: each edit is published once, and the status follows each time.
    for (generation, host) in [(2, "second.elb.test"), (3, "third.elb.test")] {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": host}]}}});
        let services = world.operands::<Service>();
        services.patch_status("router-default", &PatchParams::default(), &Patch::Merge(status)).await.expect("patched");
        world.until(host, |now| settled(now) && now["zones"].to_string().matches(host).count() == 2).await;
        let mut seen = record(&world).await;
        for _ in 0..1000 {
            if seen.status.as_ref().and_then(|status| status.observed_generation) == Some(generation) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            seen = record(&world).await;
        }
        assert_eq!(seen.status.expect("a status").observed_generation, Some(generation));
        assert_eq!(world.dns.calls().len(), 2, "{host}: one call for each zone");
    }

    // Somebody else's: nothing more is asked of the zones, and nothing is taken away.
    world.change(balancer("dnsManagementPolicy", json!("Unmanaged"))).await;
    let unmanaged = |now: &Value| {
        has(now, "DNSManaged=False UnmanagedLoadBalancerDNS")
            && now["records"].to_string().matches("UnmanagedDNS").count() == 2
    };
    let now = world.until("unmanaged", unmanaged).await;
    assert!(has(&now, "Available=True"), "{now:#}");
    assert_eq!(now["zones"].as_array().map(Vec::len), Some(2));
    assert_eq!(world.dns.calls(), [""; 0]);
    world.change(balancer("dnsManagementPolicy", json!("Managed"))).await;
    world.until("managed again", |now| settled(now) && has(now, "DNSManaged=True") && has(now, "DNSReady=True")).await;

    // A zone that is configured no more does not count, and a new one does.
    let zones = json!({"spec": {"publicZone": {"id": "ZNEW"}, "privateZone": null}});
    patch(Api::<DnsConfig>::all(world.client.clone()), "cluster", zones).await;
    let moved = |now: &Value| has(now, "DNSReady=True") && now["zones"].to_string().contains("ZNEW");
    world.until("in the new zone", moved).await;
    operator.stop().await;
}

/// What a provider can say, and what is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_fails_is_told_and_recovers() {
    let denied =
        || CloudError::Failed("AccessDenied: not authorized to perform route53:ChangeResourceRecordSets".into());
    let missing = || CloudError::Refused("no hosted zone ZPUB".to_owned());
    let later = || CloudError::Later { reason: "Throttling: rate exceeded".to_owned(), after: Duration::ZERO };
    for (what, error, words, recovers_alone) in [
        ("denied", denied(), "route53:ChangeResourceRecordSets", false),
        ("not there", missing(), "no hosted zone ZPUB", false),
        ("throttled", later(), "Throttling: rate exceeded", true),
    ] {
        let world = Box::pin(World::new("DualStackIPv6Primary")).await;
        world.dns.fail("ZPUB", error);
        let operator = world.start(world.client.clone());
        let failed = |now: &Value| has(now, "DNSReady=False FailedZones") && has(now, "Available=False");
        world.until(what, failed).await;
        let zones = record(&world).await.status.expect("a status").zones;
        let reported: Vec<_> =
            zones.iter().map(|zone| (zone.conditions[0].status.as_str(), zone.conditions[0].reason.as_str())).collect();
        if !recovers_alone {
            assert_eq!(reported, [("True", "ProviderSuccess"), ("False", "ProviderError")], "{what}");
            assert!(zones[1].conditions[0].message.contains(words), "{what}: {}", zones[1].conditions[0].message);
            assert!(zones[1].conditions[0].message.contains("recording"), "who said so is told");
            assert_eq!(world.dns.calls().len(), 2, "{what}: nobody asks again at once");
            // The administrator has mended it, and touches the configuration instead of waiting.
            let touch = json!({"spec": {"baseDomain": "example.test."}});
            patch(Api::<DnsConfig>::all(world.client.clone()), "cluster", touch).await;
        }
        let well = |now: &Value| settled(now) && has(now, "DNSReady=True") && now["zones"].to_string().contains("ZPUB");
        world.until("recovered", well).await;
        operator.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_administrator_keeps_elsewhere_is_copied_to_the_routers() {
    let world = Box::pin(World::new("IPv4")).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = json!({"metadata": {"name": CONFIG_NAMESPACE}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).expect("one")).await.expect("created");
    let operator = world.start(world.client.clone());
    world.until("made", settled).await;
    let before = world.operands::<Deployment>().get("router-default").await.expect("there");
    // Whom clients are to trust: the certificate, and the authority that nobody else knows.
    let published: Api<ConfigMap> = Api::namespaced(world.client.clone(), MANAGED_CONFIG_NAMESPACE);
    let bundle = async || {
        let map = published.get("default-ingress-cert").await.expect("published");
        map.data.unwrap_or_default().remove("ca-bundle.crt").unwrap_or_default()
    };
    assert_eq!(bundle().await.matches("BEGIN CERTIFICATE").count(), 2);

    let client =
        json!({"spec": {"clientTLS": {"clientCertificatePolicy": "Required", "clientCA": {"name": "people"}}}});
    world.change(client).await;
    world.until("told that it is missing", |now| has(now, "Reconciled=False")).await;
    let still = world.operands::<Deployment>().get("router-default").await.expect("there");
    assert_eq!(still.metadata.generation, before.metadata.generation, "routers stay as they are");

    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), CONFIG_NAMESPACE);
    let people = json!({"metadata": {"name": "people"}, "data": {"ca-bundle.pem": "PEM"}});
    maps.create(&PostParams::default(), &serde_json::from_value(people).expect("one")).await.expect("created");
    world
        .until("served", |now| settled(now) && env(now, "ROUTER_MUTUAL_TLS_AUTH").as_deref() == Some("required"))
        .await;
    let beside = world.operands::<ConfigMap>();
    let copy = beside.get("router-client-ca-default").await.expect("a copy");
    assert_eq!(copy.data.expect("data")["ca-bundle.pem"], "PEM");

    // A certificate that is not there yet.
    world.change(json!({"spec": {"defaultCertificate": {"name": "mine"}}})).await;
    let reported = |now: &Value| has(now, "Reconciled=False") && has(now, "Available=True");
    world.until("told that the certificate is missing", reported).await;
    let mine = json!({"metadata": {"name": "mine"}, "stringData": {"tls.crt": "x", "tls.key": "y"}});
    let secrets = world.operands::<Secret>();
    secrets.create(&PostParams::default(), &serde_json::from_value(mine).expect("one")).await.expect("created");
    world.until("served with it", settled).await;
    assert_eq!(bundle().await, "x");

    world.change(json!({"spec": {"clientTLS": null}})).await;
    world.until("taken back", |now| settled(now) && env(now, "ROUTER_MUTUAL_TLS_AUTH").is_none()).await;
    for _ in 0..1000 {
        if beside.get_opt("router-client-ca-default").await.expect("an answer").is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(beside.get_opt("router-client-ca-default").await.expect("an answer").is_none());
    operator.stop().await;
}
