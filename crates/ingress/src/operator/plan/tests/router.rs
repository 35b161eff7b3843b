//! The tables of routers: their environment, their Deployment by strategy and topology, their TLS profiles.

use super::super::{class, deployment, environment, small, tls};
use crate::operator::{names, testing::Case};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

#[test]
fn the_ip_mode_follows_the_pods_networks() {
    for (networks, expected) in [
        (vec!["10.128.0.0/14"], None),
        (vec!["fd01::/48"], Some("v6")),
        (vec!["10.128.0.0/14", "fd01::/48"], Some("v4v6")),
        (vec!["fd01::/48", "10.128.0.0/14"], Some("v4v6")),
        (vec!["fd01::/48", "no range"], Some("v6")),
        (vec![], None),
    ] {
        let case = Case::strategy(json!({"type": "Private"})).on("None").pods(&networks);
        let environment = environment::environment(case.input(), None).unwrap();
        assert_eq!(environment.get("ROUTER_IP_V4_V6_MODE").map(String::as_str), expected, "{networks:?}");
    }
}

#[test]
fn the_environment_says_what_the_spec_says() {
    let defaults = Case::strategy(json!({"type": "Private"})).on("None");
    let environment = environment::environment(defaults.input(), None).unwrap();
    for (name, value) in [
        ("ROUTER_SERVICE_NAME", "default"),
        ("ROUTER_SERVICE_NAMESPACE", "openshift-ingress"),
        ("ROUTER_DOMAIN", "apps.example.test"),
        ("ROUTER_CANONICAL_HOSTNAME", "router-default.apps.example.test"),
        ("STATS_PORT", "1936"),
        ("ROUTER_SET_FORWARDED_HEADERS", "append"),
        ("ROUTER_DISABLE_NAMESPACE_OWNERSHIP_CHECK", "false"),
        ("ROUTER_ALLOW_WILDCARD_ROUTES", "false"),
        ("ROUTER_LOAD_BALANCE_ALGORITHM", "random"),
        ("ROUTER_THREADS", "4"),
        ("RELOAD_INTERVAL", "5s"),
        ("SSL_MIN_VERSION", "TLSv1.2"),
        ("ROUTER_DISABLE_HTTP2", "true"),
    ] {
        assert_eq!(environment.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in
        ["ROUTER_SERVICE_HTTP_PORT", "NAMESPACE_LABELS", "ROUTER_SYSLOG_ADDRESS", "ROUTER_DEFAULT_TUNNEL_TIMEOUT"]
    {
        assert!(!environment.contains_key(name), "{name}");
    }
    let spec = json!({
        "endpointPublishingStrategy": {"type": "HostNetwork", "hostNetwork": {"httpPort": 8080, "httpsPort": 8443, "statsPort": 0}},
        "namespaceSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]},
        "routeSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]},
        "routeAdmission": {"namespaceOwnership": "InterNamespaceAllowed", "wildcardPolicy": "WildcardsAllowed"},
        "tlsSecurityProfile": {"type": "Modern"},
        "httpHeaders": {"forwardedHeaderPolicy": "IfNone", "actions": {"request": [
            {"name": "X-A", "action": {"type": "Set", "set": {"value": "a,b:c"}}}, {"name": "X-B", "action": {"type": "Delete"}},
        ]}},
        "logging": {"access": {"destination": {"type": "Syslog", "syslog": {"address": "fd00::5", "port": 514}}}},
        "tuningOptions": {"threadCount": 8, "maxConnections": -1, "clientTimeout": "1m", "reloadInterval": "10ms", "connectTimeout": "1500ms"},
    });
    let case = Case::new(spec).on("None");
    let environment = environment::environment(case.input(), None).unwrap();
    for (name, value) in [
        ("ROUTER_SERVICE_HTTP_PORT", "8080"),
        ("ROUTER_SERVICE_HTTPS_PORT", "8443"),
        ("STATS_PORT", "1936"),
        ("NAMESPACE_LABELS", "a=b,c in (d,e)"),
        ("ROUTE_LABELS", "!x"),
        ("ROUTER_DISABLE_NAMESPACE_OWNERSHIP_CHECK", "true"),
        ("ROUTER_ALLOW_WILDCARD_ROUTES", "true"),
        ("SSL_MIN_VERSION", "TLSv1.3"),
        ("ROUTER_SET_FORWARDED_HEADERS", "if-none"),
        ("ROUTER_HTTP_REQUEST_HEADERS", "X-A:a%2Cb%3Ac:Set,X-B:Delete"),
        ("ROUTER_SYSLOG_ADDRESS", "[fd00::5]:514"),
        ("ROUTER_THREADS", "8"),
        ("ROUTER_MAX_CONNECTIONS", "auto"),
        ("ROUTER_DEFAULT_CLIENT_TIMEOUT", "60s"),
        ("ROUTER_DEFAULT_CONNECT_TIMEOUT", "1500ms"),
        ("RELOAD_INTERVAL", "1s"),
    ] {
        assert_eq!(environment.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn a_deployment_by_strategy_and_topology() {
    for (what, case, expected) in [
        ("private", Case::strategy(json!({"type": "Private"})), json!({"maxUnavailable": "50%", "maxSurge": "25%"})),
        (
            "four",
            Case::new(json!({"replicas": 4, "endpointPublishingStrategy": {"type": "Private"}})),
            json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
        ),
        ("host", Case::strategy(json!({"type": "HostNetwork"})), json!({"maxUnavailable": "25%", "maxSurge": 0})),
        (
            "single node",
            Case::strategy(json!({"type": "Private"})).topology("SingleReplica", "SingleReplica"),
            json!({"maxUnavailable": "25%", "maxSurge": "25%"}),
        ),
    ] {
        let wanted = deployment::wanted(case.on("None").input(), None, "image").unwrap();
        let _: Deployment = serde_json::from_value(wanted.clone()).unwrap();
        assert_eq!(wanted["spec"]["strategy"]["rollingUpdate"], expected, "{what}");
        let pod = &wanted["spec"]["template"]["spec"];
        let router = &pod["containers"][0];
        assert_eq!(pod["hostNetwork"] == true, what == "host", "{what}");
        let apart = pod["affinity"]["podAntiAffinity"].is_object();
        assert_eq!(apart, !matches!(what, "host" | "single node"), "{what}");
        assert!(pod["affinity"]["nodeAffinity"].to_string().contains("remote-worker"), "{what}: not on distant nodes");
        assert_eq!(router["readinessProbe"]["httpGet"]["host"] == "localhost", what == "host", "{what}");
        assert_eq!(router["readinessProbe"]["httpGet"]["path"], "/healthz/ready", "{what}");
        assert_eq!(router["ports"][0]["hostPort"] == 80, what == "host", "{what}");
    }
    // Generations differ exactly where Pods do.
    let label = |case: Case| {
        let wanted = deployment::wanted(case.on("None").input(), None, "image").unwrap();
        wanted["spec"]["template"]["metadata"]["labels"][names::HASH].clone()
    };
    let one = label(Case::strategy(json!({"type": "Private"})));
    assert_eq!(one, label(Case::strategy(json!({"type": "Private"}))));
    assert_ne!(one, label(Case::strategy(json!({"type": "Private", "private": {"protocol": "PROXY"}}))));
}

#[test]
fn replicas_and_placement_by_topology() {
    let (ha, one, outside) = ("HighlyAvailable", "SingleReplica", "External");
    for (control, infrastructure, placement, replicas, role) in [
        (ha, ha, "Workers", 2, "worker"),
        (one, one, "Workers", 1, "worker"),
        (ha, one, "Workers", 1, "worker"),
        (one, ha, "Workers", 2, "worker"),
        (one, ha, "ControlPlane", 1, "master"),
        (ha, one, "ControlPlane", 2, "master"),
        (outside, ha, "Workers", 2, "worker"),
        (outside, one, "Workers", 1, "worker"),
    ] {
        let case =
            Case::strategy(json!({"type": "Private"})).on("None").topology(control, infrastructure).placed(placement);
        let wanted = deployment::wanted(case.input(), None, "image").unwrap();
        assert_eq!(wanted["spec"]["replicas"], replicas, "{control} {infrastructure} {placement}");
        let selector = &wanted["spec"]["template"]["spec"]["nodeSelector"];
        assert!(selector.get(format!("node-role.kubernetes.io/{role}")).is_some(), "{selector}");
        let budget = small::budget(case.input()).map(|budget| budget["spec"]["maxUnavailable"].clone());
        assert_eq!(budget, (replicas > 1).then(|| json!("50%")), "{control} {infrastructure} {placement}");
    }
    for (replicas, expected) in [(1, None), (2, Some(json!(1))), (3, Some(json!("25%")))] {
        let case = Case::new(json!({"replicas": replicas})).on("None");
        assert_eq!(small::budget(case.input()).map(|budget| budget["spec"]["maxUnavailable"].clone()), expected);
    }
}

#[test]
fn a_probes_timeout_is_kept() {
    let case = Case::strategy(json!({"type": "Private"})).on("None");
    let mut wanted = deployment::wanted(case.input(), None, "image").unwrap();
    let mut changed = wanted.clone();
    let container = "/spec/template/spec/containers/0";
    changed.pointer_mut(container).unwrap()["readinessProbe"]["timeoutSeconds"] = json!(7);
    changed.pointer_mut(container).unwrap()["readinessProbe"]["periodSeconds"] = json!(99);
    deployment::keep_timeouts(&mut wanted, &serde_json::from_value(changed).unwrap());
    let probe = &wanted.pointer(container).unwrap()["readinessProbe"];
    assert_eq!((&probe["timeoutSeconds"], &probe["periodSeconds"]), (&json!(7), &json!(10)));
}

#[test]
fn profiles_of_tls() {
    let profile = |value: Value| serde_json::from_value(value).unwrap();
    let custom = |ciphers: Value, version: &str| json!({"type": "Custom", "custom": {"ciphers": ciphers, "minTLSVersion": version}});
    for (given, wrong) in [
        (json!({"type": "Old"}), None),
        (custom(json!(["ECDHE-RSA-AES128-GCM-SHA256"]), "VersionTLS12"), None),
        (custom(json!([]), "VersionTLS12"), Some("name at least one cipher")),
        (custom(json!(["bad cipher;"]), "VersionTLS12"), Some("ciphers[0]")),
        (custom(json!(["TLS_AES_128_GCM_SHA256"]), "VersionTLS12"), Some("VersionTLS13")),
        (custom(json!(["ECDHE-RSA-AES128-GCM-SHA256"]), "VersionTLS13"), Some("begins with TLS_")),
        (custom(json!(["TLS_AES_128_GCM_SHA256"]), "VersionTLS13"), None),
    ] {
        let mistakes = tls::mistakes(Some(&profile(given.clone()))).join("; ");
        assert_eq!(mistakes.is_empty(), wrong.is_none(), "{given}: {mistakes}");
        assert!(mistakes.contains(wrong.unwrap_or_default()), "{given}: {mistakes}");
    }
    assert_eq!(tls::resolve(Some(&profile(custom(json!(["A", "TLS_B"]), "VersionTLS10")))).min_version, "TLSv1.1");
    assert_eq!(tls::resolve(None).ciphers.len(), 6);
}

/// What the whole cluster says counts where an IngressController says nothing.
#[test]
fn the_controllers_own_words_come_first() {
    let variable = |case: &Case, name: &str| environment::environment(case.input(), None).unwrap().get(name).cloned();
    for (own, all, http2, hard_stop) in [
        (None, None, "true", None),
        (Some("true"), None, "false", Some("true")),
        (None, Some("true"), "false", Some("true")),
        (Some("false"), Some("true"), "true", Some("false")),
        (Some("true"), Some("false"), "false", Some("true")),
    ] {
        let mut case = Case::strategy(json!({"type": "Private"})).on("None");
        (case.cluster.http2, case.cluster.hard_stop_after) = (all.map(str::to_owned), all.map(str::to_owned));
        for key in [names::HTTP2, names::HARD_STOP_AFTER] {
            let annotations = case.controller.metadata.annotations.get_or_insert_default();
            annotations.extend(own.map(|value| (key.to_owned(), value.to_owned())));
        }
        assert_eq!(variable(&case, "ROUTER_DISABLE_HTTP2").as_deref(), Some(http2), "{own:?} over {all:?}");
        assert_eq!(variable(&case, "ROUTER_HARD_STOP_AFTER").as_deref(), hard_stop, "{own:?} over {all:?}");
    }
    for (own, all, expected) in [
        (json!(null), json!(null), "TLSv1.2"),
        (json!(null), json!({"type": "Modern"}), "TLSv1.3"),
        (json!({"type": "Intermediate"}), json!({"type": "Modern"}), "TLSv1.2"),
        (json!({}), json!({"type": "Modern"}), "TLSv1.3"),
        (json!({"type": "Modern"}), json!(null), "TLSv1.3"),
    ] {
        let mut case = Case::new(json!({"tlsSecurityProfile": own})).on("None");
        case.cluster.tls = serde_json::from_value(all.clone()).unwrap();
        assert_eq!(variable(&case, "SSL_MIN_VERSION").as_deref(), Some(expected), "{own} over {all}");
    }
}

#[test]
fn what_routers_read_is_mounted_from_their_own_namespace() {
    let spec = json!({
        "clientTLS": {"clientCertificatePolicy": "Optional", "clientCA": {"name": "people"}},
        "httpErrorCodePages": {"name": "pages"},
        "logging": {"access": {"destination": {"type": "Container"}}},
        "nodePlacement": {"nodeSelector": {"matchLabels": {"edge": ""}}, "tolerations": [{"operator": "Exists"}]},
    });
    let case = Case::new(spec).on("None");
    let wanted = deployment::wanted(case.input(), None, "image").unwrap();
    let pod = &wanted["spec"]["template"]["spec"];
    let volumes: Vec<(&Value, &Value)> =
        pod["volumes"].as_array().unwrap().iter().map(|one| (&one["name"], &one["configMap"]["name"])).collect();
    for (volume, map) in [
        ("client-ca", "router-client-ca-default"),
        ("error-pages", "default-errorpages"),
        ("service-ca-bundle", "service-ca-bundle"),
    ] {
        assert!(volumes.contains(&(&json!(volume), &json!(map))), "{volumes:?}");
    }
    let work = json!({"name": "work", "mountPath": "/var/lib/twinstack"});
    assert!(pod["containers"][0]["volumeMounts"].as_array().unwrap().contains(&work), "{pod:#}");
    assert!(pod["volumes"].as_array().unwrap().contains(&json!({"name": "work", "emptyDir": {}})), "{pod:#}");
    let copies: Vec<_> = small::copies(case.input()).iter().map(|copy| (copy.source, copy.name)).collect();
    assert_eq!(copies, [("people", "router-client-ca-default"), ("pages", "default-errorpages")]);
    let environment = environment::environment(case.input(), None).unwrap();
    for (name, value) in [
        ("ROUTER_MUTUAL_TLS_AUTH", "optional"),
        ("ROUTER_MUTUAL_TLS_AUTH_CA", "/etc/pki/tls/client-ca/ca-bundle.pem"),
        ("ROUTER_ERRORFILE_503", "/var/lib/haproxy/errorfiles/error-page-503.http"),
        ("ROUTER_SYSLOG_ADDRESS", "stdout"),
    ] {
        assert_eq!(environment.get(name).map(String::as_str), Some(value), "{name}");
    }
    // A place of one's own replaces the default one altogether.
    assert_eq!(pod["nodeSelector"], json!({"edge": ""}));
    assert_eq!(pod["affinity"]["nodeAffinity"], Value::Null);
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(small::copies(Case::new(json!({})).on("None").input()), []);
}

#[test]
fn a_class_leads_to_its_ingress_controller() {
    let case = Case::strategy(json!({"type": "Private"})).on("None");
    let wanted = class::wanted(case.input());
    let class = |value: Value| serde_json::from_value(value).unwrap();
    assert_eq!(wanted["metadata"]["name"], "openshift-default");
    assert!(!class::is_foreign(&class(wanted.clone()), "default"));
    for (what, spec, foreign) in [
        (
            "upstream's",
            json!({"controller": class::CONTROLLER, "parameters": {"kind": "IngressController", "name": "default"}}),
            false,
        ),
        ("upstream's without parameters", json!({"controller": class::CONTROLLER}), false),
        (
            "another IngressController's",
            json!({"controller": class::CONTROLLER, "parameters": {"kind": "IngressController", "name": "other"}}),
            true,
        ),
        ("another controller's", json!({"controller": "example.test/other"}), true),
        ("nobody's", json!({}), true),
    ] {
        assert_eq!(
            class::is_foreign(&class(json!({"metadata": {"name": "openshift-default"}, "spec": spec})), "default"),
            foreign,
            "{what}"
        );
    }
}

#[test]
fn prometheus_asks_with_the_password_of_the_statistics() {
    let case = Case::strategy(json!({"type": "Private"})).on("None");
    let monitor = small::monitor(case.input());
    let _: crate::operator::objects::ServiceMonitor = serde_json::from_value(monitor.clone()).unwrap();
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["basicAuth"]["password"], json!({"name": "router-stats-default", "key": "statsPassword"}));
    let secret = small::stats(case.input(), "secret");
    assert!(secret["stringData"].get("statsPassword").is_some() && secret["stringData"].get("statsUsername").is_some());
}
