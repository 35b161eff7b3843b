//! Endpoints, EndpointSlice, Ingress, IngressClass, ServiceCIDR, IPAddress: addresses of both families.

use super::*;

#[test]
fn endpoints() {
    for ip in ["10.0.0.1", "fd00::1"] {
        let good = json!({"subsets": [{
            "addresses": [{"ip": ip, "hostname": "h", "nodeName": "n"}],
            "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}],
        }]});
        let at = |field: &str| format!("subsets[0].addresses[0].{field}");
        let (address, hostname, node) = (at("ip"), at("hostname"), at("nodeName"));
        let mut mistakes = vec![
            ("/subsets/0/addresses", json!([]), "subsets[0]", Required),
            ("/subsets/0/addresses/0/hostname", json!("a.b"), hostname.as_str(), Invalid),
            ("/subsets/0/addresses/0/nodeName", json!("A"), node.as_str(), Invalid),
            ("/subsets/0/ports/0/name", json!(null), "subsets[0].ports[0].name", Required),
            ("/subsets/0/ports/0/name", json!("a.b"), "subsets[0].ports[0].name", Invalid),
            ("/subsets/0/ports/0/port", json!(0), "subsets[0].ports[0].port", Invalid),
            ("/subsets/0/ports/0/protocol", json!("ICMP"), "subsets[0].ports[0].protocol", NotSupported),
            ("/subsets/0/ports/0/appProtocol", json!("a b"), "subsets[0].ports[0].appProtocol", Invalid),
        ];
        for bad in [
            "",
            "x",
            "010.0.0.1",
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.0.1",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "10.0.0.1/32",
        ] {
            mistakes.push(("/subsets/0/addresses/0/ip", json!(bad), address.as_str(), Invalid));
        }
        refuses("", "endpoints", &good, &mistakes);
        // What was stored with a mistake may stay, and may not be joined by another.
        let rules = resource("", "endpoints");
        let old = changed(&create(&rules, &good).0, "/subsets/0/addresses/0/ip", &json!("010.0.0.1"));
        assert_eq!(update(&rules, &old, &old), []);
        assert_ne!(update(&rules, &changed(&old, "/subsets/0/ports/0/port", &json!(82)), &old), []);
    }
}

#[test]
fn endpoint_slices() {
    for (kind, address, other) in [("IPv4", "10.0.0.1", "fd00::1"), ("IPv6", "fd00::1", "10.0.0.1")] {
        let good = json!({
            "addressType": kind,
            "endpoints": [{"addresses": [address], "hostname": "h", "nodeName": "n", "hints": {"forZones": [{"name": "z"}]}}],
            "ports": [{"name": "a", "port": 80}, {"port": 81}],
        });
        refuses(
            "discovery.k8s.io",
            "endpointslices",
            &good,
            &[
                ("/endpoints/0/addresses", json!([]), "endpoints[0].addresses", Required),
                ("/endpoints/0/addresses/0", json!(other), "endpoints[0].addresses", Invalid),
                ("/endpoints/0/addresses/0", json!("x"), "endpoints[0].addresses[0]", Invalid),
                ("/endpoints/0/hostname", json!("a.b"), "endpoints[0].hostname", Invalid),
                ("/endpoints/0/nodeName", json!("A"), "endpoints[0].nodeName", Invalid),
                ("/endpoints/0/hints/forZones/0/name", json!("a b"), "endpoints[0].hints.forZones[0].name", Invalid),
                ("/ports/1/name", json!("a"), "ports[1].name", Duplicate),
                ("/ports/0/name", json!("a.b"), "ports[0].name", Invalid),
                ("/ports/0/protocol", json!("ICMP"), "ports[0].protocol", NotSupported),
                ("/ports/0/appProtocol", json!("a b"), "ports[0].appProtocol", Invalid),
            ],
        );
        let type_only = json!({"addressType": kind, "endpoints": []});
        refuses(
            "discovery.k8s.io",
            "endpointslices",
            &type_only,
            &[
                ("/addressType", json!(null), "addressType", Required),
                ("/addressType", json!("MAC"), "addressType", NotSupported),
            ],
        );
        let swapped = json!(if kind == "IPv4" { "IPv6" } else { "IPv4" });
        keeps("discovery.k8s.io", "endpointslices", &type_only, &[("/addressType", swapped, "addressType", Invalid)]);
    }
}

#[test]
fn ingresses() {
    let good = json!({"spec": {
        "ingressClassName": "c",
        "tls": [{"hosts": ["a.b", "*.c.d"], "secretName": "s"}],
        "rules": [{"host": "a.b", "http": {"paths": [
            {"path": "/x", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}},
        ]}}],
    }});
    let path = |field: &str| format!("spec.rules[0].http.paths[0].{field}");
    let (at, kind, backend, port) =
        (path("path"), path("pathType"), path("backend"), path("backend.service.port.number"));
    let (name, port_name) = (path("backend.service.name"), path("backend.service.port.name"));
    let pointer = "/spec/rules/0/http/paths/0/path";
    let service = "/spec/rules/0/http/paths/0/backend/service";
    let mut mistakes = vec![
        ("/spec/rules", json!([]), "spec", Invalid),
        ("/spec/rules/0/host", json!("10.0.0.1"), "spec.rules[0].host", Invalid),
        ("/spec/rules/0/host", json!("fd00::1"), "spec.rules[0].host", Invalid),
        ("/spec/rules/0/host", json!("a.*"), "spec.rules[0].host", Invalid),
        ("/spec/rules/0/http/paths", json!([]), "spec.rules[0].http.paths", Required),
        ("/spec/rules/0/http/paths/0/pathType", json!(null), kind.as_str(), Required),
        ("/spec/rules/0/http/paths/0/pathType", json!("Regex"), kind.as_str(), NotSupported),
        ("/spec/rules/0/http/paths/0/backend", json!({}), backend.as_str(), Invalid),
        (
            "/spec/rules/0/http/paths/0/backend",
            json!({"service": {"name": "s", "port": {"number": 80}}, "resource": {"kind": "K", "name": "n"}}),
            backend.as_str(),
            Invalid,
        ),
        (service, json!({"name": "s"}), backend.as_str(), Required),
        (service, json!({"name": "s", "port": {"number": 80, "name": "http"}}), backend.as_str(), Invalid),
        (service, json!({"name": "s", "port": {"number": 70000}}), port.as_str(), Invalid),
        (service, json!({"name": "s", "port": {"name": "a_b"}}), port_name.as_str(), Invalid),
        (service, json!({"name": "", "port": {"number": 80}}), name.as_str(), Required),
        (service, json!({"name": "a.b", "port": {"number": 80}}), name.as_str(), Invalid),
        ("/spec/tls/0/hosts/0", json!("A"), "spec.tls[0].hosts[0]", Invalid),
        ("/spec/tls/0/secretName", json!("A"), "spec.tls[0].secretName", Invalid),
        ("/spec/ingressClassName", json!("A"), "spec.ingressClassName", Invalid),
        (
            "/metadata",
            json!({"annotations": {"kubernetes.io/ingress.class": "d"}}),
            "annotations.kubernetes.io/ingress.class",
            Invalid,
        ),
    ];
    for bad in ["x", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a/.", "/a%2fb", "/a%2Fb"] {
        mistakes.push((pointer, json!(bad), at.as_str(), Invalid));
    }
    refuses("networking.k8s.io", "ingresses", &good, &mistakes);
    let rules = resource("networking.k8s.io", "ingresses");
    let (stored, _) = create(&rules, &good);
    for (point, wanted) in [
        (json!({"ip": "10.0.0.1"}), None),
        (json!({"ip": "fd00::1"}), None),
        (json!({"hostname": "a.b"}), None),
        (json!({"ip": "010.0.0.1"}), Some("ip")),
        (json!({"ip": "x"}), Some("ip")),
        (json!({"hostname": "10.0.0.1"}), Some("hostname")),
        (json!({"hostname": "A"}), Some("hostname")),
    ] {
        let wanted: Vec<_> =
            wanted.map(|field| (format!("status.loadBalancer.ingress[0].{field}"), Invalid)).into_iter().collect();
        assert_eq!(update_status(&rules, json!({"loadBalancer": {"ingress": [point]}}), &stored), wanted);
    }
}

#[test]
fn ingress_classes() {
    let good = json!({"spec": {
        "controller": "a.io/b", "parameters": {"kind": "K", "name": "n", "scope": "Namespace", "namespace": "d"},
    }});
    refuses(
        "networking.k8s.io",
        "ingressclasses",
        &good,
        &[
            ("/spec/controller", json!(""), "spec.controller", Required),
            ("/spec/controller", json!("a"), "spec.controller", Invalid),
            ("/spec/controller", json!("A/b"), "spec.controller", Invalid),
            ("/spec/controller", json!(format!("a/{}", "x".repeat(250))), "spec.controller", TooLong),
            ("/spec/parameters/kind", json!(""), "spec.parameters.kind", Required),
            ("/spec/parameters/name", json!("a/b"), "spec.parameters.name", Invalid),
            ("/spec/parameters/apiGroup", json!("A"), "spec.parameters.apiGroup", Invalid),
            ("/spec/parameters/scope", json!("World"), "spec.parameters.scope", NotSupported),
            ("/spec/parameters/scope", json!("Cluster"), "spec.parameters.namespace", Forbidden),
            ("/spec/parameters/namespace", json!(null), "spec.parameters.namespace", Required),
        ],
    );
    keeps(
        "networking.k8s.io",
        "ingressclasses",
        &good,
        &[("/spec/controller", json!("a.io/c"), "spec.controller", Invalid)],
    );
}

#[test]
fn service_cidrs_and_ip_addresses() {
    let good = json!({"spec": {"cidrs": ["10.96.0.0/24", "fd00:96::/112"]}});
    refuses(
        "networking.k8s.io",
        "servicecidrs",
        &good,
        &[
            ("/spec/cidrs", json!([]), "spec.cidrs", Required),
            ("/spec/cidrs/0", json!("10.96.0.1/24"), "spec.cidrs[0]", Invalid),
            ("/spec/cidrs/1", json!("FD00:96::/112"), "spec.cidrs[1]", Invalid),
            ("/spec/cidrs/1", json!("10.97.0.0/24"), "spec.cidrs", Invalid),
            ("/spec/cidrs", json!(["10.96.0.0/24", "fd00:96::/112", "10.97.0.0/24"]), "spec.cidrs", Invalid),
        ],
    );
    for (one, two) in [("10.96.0.0/24", "fd00:96::/112"), ("fd00:96::/112", "10.96.0.0/24")] {
        let rules = resource("networking.k8s.io", "servicecidrs");
        let (stored, _) = create(&rules, &json!({"spec": {"cidrs": [one]}}));
        assert_eq!(update(&rules, &changed(&stored, "/spec/cidrs", &json!([one, two])), &stored), []);
        let wanted = [("spec.cidrs[0]".to_owned(), Invalid)];
        assert_eq!(update(&rules, &changed(&stored, "/spec/cidrs", &json!([two])), &stored), wanted);
    }
    for name in ["10.96.0.5", "fd00:96::5"] {
        let good = json!({"metadata": {"name": name}, "spec": {"parentRef": {
            "group": "", "resource": "services", "namespace": "d", "name": "s",
        }}});
        refuses(
            "networking.k8s.io",
            "ipaddresses",
            &good,
            &[
                ("/metadata/name", json!("010.96.0.5"), "metadata.name", Invalid),
                ("/metadata/name", json!("fd00:96:0::5"), "metadata.name", Invalid),
                ("/spec/parentRef", json!(null), "spec.parentRef", Required),
                ("/spec/parentRef/resource", json!(""), "spec.parentRef.resource", Required),
                ("/spec/parentRef/name", json!("a/b"), "spec.parentRef.name", Invalid),
                ("/spec/parentRef/group", json!("A"), "spec.parentRef.group", Invalid),
            ],
        );
        keeps(
            "networking.k8s.io",
            "ipaddresses",
            &good,
            &[("/spec/parentRef/name", json!("t"), "spec.parentRef", Invalid)],
        );
    }
}
