//! Pods as tables: what is refused and where, what may change, how addresses of both families read.

use super::*;
use crate::{
    error::Reason::{Duplicate, Forbidden, Invalid, NotFound, NotSupported, Required},
    kinds::tests::{Mistake, changed, create, keeps, refuses, resource, update, update_status},
};

fn pod(container: Value, more: Value) -> Value {
    let mut spec = more;
    let mut first = json!({"name": "c", "image": "i"});
    for (field, value) in container.as_object().unwrap() {
        first[field] = value.clone();
    }
    spec["containers"] = json!([first]);
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Mistakes in the first container: field below it, value, the path below it that is reported, reason.
fn container(good: Value, mistakes: &[Mistake<'_>]) {
    let volumes = json!([{"name": "v"}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]);
    let object = pod(good, json!({"volumes": volumes}));
    let long: Vec<(String, Value, String, _)> = mistakes
        .iter()
        .map(|(pointer, value, field, reason)| {
            (format!("/spec/containers/0{pointer}"), value.clone(), format!("spec.containers[0].{field}"), *reason)
        })
        .collect();
    let mistakes: Vec<Mistake<'_>> = long.iter().map(|(p, v, f, r)| (p.as_str(), v.clone(), f.as_str(), *r)).collect();
    refuses("", "pods", &object, &mistakes);
}

#[test]
fn containers_are_checked_field_by_field() {
    container(
        json!({"ports": [{"name": "a", "containerPort": 80, "hostPort": 80}, {"name": "b", "containerPort": 81}]}),
        &[
            ("/name", json!("a.b"), "name", Invalid),
            ("/name", json!(""), "name", Required),
            ("/image", json!(""), "image", Required),
            ("/image", json!(" i"), "image", Invalid),
            ("/imagePullPolicy", json!("Often"), "imagePullPolicy", NotSupported),
            ("/terminationMessagePolicy", json!("None"), "terminationMessagePolicy", NotSupported),
            ("/restartPolicy", json!("Often"), "restartPolicy", NotSupported),
            (
                "/restartPolicyRules",
                json!([{"action": "Restart", "exitCodes": {"operator": "In"}}]),
                "restartPolicy",
                Required,
            ),
            (
                "/resizePolicy",
                json!([{"resourceName": "disk", "restartPolicy": "NotRequired"}]),
                "resizePolicy",
                NotSupported,
            ),
            ("/ports/0/containerPort", json!(0), "ports[0].containerPort", Required),
            ("/ports/0/containerPort", json!(70000), "ports[0].containerPort", Invalid),
            ("/ports/0/hostPort", json!(-1), "ports[0].hostPort", Invalid),
            ("/ports/0/protocol", json!("ICMP"), "ports[0].protocol", NotSupported),
            ("/ports/0/name", json!("a_b"), "ports[0].name", Invalid),
            ("/ports/1/name", json!("a"), "ports[1].name", Duplicate),
            ("/ports/1/hostPort", json!(80), "ports[1].hostPort", Duplicate),
        ],
    );
}

#[test]
fn environments_mounts_and_resources() {
    container(
        json!({
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
            "volumeDevices": [{"name": "w", "devicePath": "/w"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "a.io/b": "1"}, "requests": {"cpu": "500m"}},
        }),
        &[
            ("/env/0/name", json!(""), "env[0].name", Required),
            ("/env/0/name", json!("a=b"), "env[0].name", Invalid),
            ("/env/0/value", json!("x"), "env[0].valueFrom", Invalid),
            ("/env/0/valueFrom", json!({}), "env[0].valueFrom", Invalid),
            (
                "/env/0/valueFrom/fieldRef/fieldPath",
                json!("metadata.labels"),
                "env[0].valueFrom.fieldRef.fieldPath",
                NotSupported,
            ),
            ("/env/0/valueFrom/fieldRef/fieldPath", json!("spec.x"), "env[0].valueFrom.fieldRef.fieldPath", Invalid),
            (
                "/env/0/valueFrom/fieldRef/fieldPath",
                json!("metadata.labels['a b']"),
                "env[0].valueFrom.fieldRef",
                Invalid,
            ),
            (
                "/env/1/valueFrom/resourceFieldRef/resource",
                json!("x"),
                "env[1].valueFrom.resourceFieldRef.resource",
                NotSupported,
            ),
            (
                "/env/1/valueFrom/resourceFieldRef/divisor",
                json!("1Mi"),
                "env[1].valueFrom.resourceFieldRef.divisor",
                Invalid,
            ),
            ("/env/2/valueFrom/secretKeyRef/key", json!(""), "env[2].valueFrom.secretKeyRef.key", Required),
            ("/env/2/valueFrom/secretKeyRef/name", json!("A"), "env[2].valueFrom.secretKeyRef.name", Invalid),
            ("/envFrom/0", json!({}), "envFrom", Invalid),
            ("/envFrom/0/configMapRef/name", json!(""), "envFrom[0].configMapRef.name", Required),
            ("/volumeMounts/0/name", json!("x"), "volumeMounts[0].name", NotFound),
            ("/volumeMounts/0/mountPath", json!(""), "volumeMounts[0].mountPath", Required),
            ("/volumeMounts/0/subPath", json!("../x"), "volumeMounts.subPath", Invalid),
            ("/volumeMounts/0/mountPropagation", json!("Bidirectional"), "volumeMounts.mountPropagation", Forbidden),
            ("/volumeMounts/0/recursiveReadOnly", json!("Enabled"), "volumeMounts.recursiveReadOnly", Forbidden),
            ("/volumeDevices/0/name", json!("x"), "volumeDevices[0].name", NotFound),
            ("/volumeDevices/0/devicePath", json!("a/.."), "volumeDevices[0].devicePath", Invalid),
            ("/resources/requests/cpu", json!("2"), "resources.requests", Invalid),
            ("/resources/requests/cpu", json!("-1"), "resources.requests[cpu]", Invalid),
            ("/resources/limits/foo", json!("1"), "resources.limits[foo]", Invalid),
            ("/resources/requests/a.io~1c", json!("1"), "resources.limits", Required),
            ("/resources/limits/hugepages-2Mi", json!("3Mi"), "resources.limits[hugepages-2Mi]", Invalid),
        ]
        .into_iter()
        // Limits become requests too, and are refused in both places.
        .filter(|(pointer, ..)| !pointer.starts_with("/resources/limits/"))
        .collect::<Vec<_>>(),
    );
}

#[test]
fn probes_hooks_and_security() {
    container(
        json!({
            "livenessProbe": {"httpGet": {"path": "/h", "port": "http", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
            "readinessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2},
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            "securityContext": {"runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
        }),
        &[
            ("/livenessProbe/httpGet", json!(null), "livenessProbe", Required),
            ("/livenessProbe/exec", json!({"command": ["x"]}), "livenessProbe.httpGet", Forbidden),
            ("/livenessProbe/httpGet/port", json!(0), "livenessProbe.httpGet.port", Invalid),
            ("/livenessProbe/httpGet/scheme", json!("FTP"), "livenessProbe.httpGet.scheme", NotSupported),
            ("/livenessProbe/httpGet/httpHeaders/0/name", json!("a b"), "livenessProbe.httpGet.httpHeaders", Invalid),
            ("/livenessProbe/successThreshold", json!(2), "livenessProbe.successThreshold", Invalid),
            ("/livenessProbe/periodSeconds", json!(-1), "livenessProbe.periodSeconds", Invalid),
            (
                "/readinessProbe/terminationGracePeriodSeconds",
                json!(1),
                "readinessProbe.terminationGracePeriodSeconds",
                Invalid,
            ),
            ("/lifecycle/preStop/sleep/seconds", json!(31), "lifecycle.preStop.sleep", Invalid),
            ("/securityContext/runAsUser", json!(-1), "securityContext.runAsUser", Invalid),
            ("/securityContext/procMount", json!("Unmasked"), "securityContext.procMount", Invalid),
            (
                "/securityContext/seccompProfile/type",
                json!("Mine"),
                "securityContext.seccompProfile.type",
                NotSupported,
            ),
            (
                "/securityContext/seccompProfile/type",
                json!("Localhost"),
                "securityContext.seccompProfile.localhostProfile",
                Required,
            ),
            (
                "/securityContext",
                json!({"privileged": true, "allowPrivilegeEscalation": false}),
                "securityContext",
                Invalid,
            ),
        ],
    );
}

#[test]
fn volumes_have_one_source_and_safe_paths() {
    let volumes = json!([
        {"name": "a", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
        {"name": "b", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"secret": {"name": "s"}},
            {"podCertificate": {"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "k", "maxExpirationSeconds": 3600}}]}},
        {"name": "c", "downwardAPI": {"items": [{"path": "d", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "d", "hostPath": {"path": "/h"}},
        {"name": "e", "csi": {"driver": "d.io"}},
        {"name": "f", "image": {"reference": "i:1"}},
        {"name": "g", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}}},
    ]);
    let good = pod(json!({}), json!({"volumes": volumes, "serviceAccountName": "sa"}));
    let claim = "spec.volumes[6].ephemeral.volumeClaimTemplate.spec";
    let (modes, storage) = (format!("{claim}.accessModes"), format!("{claim}.resources[storage]"));
    refuses(
        "",
        "pods",
        &good,
        &[
            ("/spec/volumes/0/name", json!("A"), "spec.volumes[0].name", Invalid),
            ("/spec/volumes/0/name", json!("b"), "spec.volumes[1].name", Duplicate),
            ("/spec/volumes/0/emptyDir", json!({}), "spec.volumes[0].configMap", Forbidden),
            ("/spec/volumes/0/configMap/name", json!(""), "spec.volumes[0].configMap.name", Required),
            ("/spec/volumes/0/configMap/defaultMode", json!(512), "spec.volumes[0].configMap.defaultMode", Invalid),
            ("/spec/volumes/0/configMap/items/0/key", json!(""), "spec.volumes[0].configMap.items[0].key", Required),
            ("/spec/volumes/0/configMap/items/0/path", json!("/p"), "spec.volumes[0].configMap.items[0].path", Invalid),
            (
                "/spec/volumes/0/configMap/items/0/path",
                json!("..p"),
                "spec.volumes[0].configMap.items[0].path",
                Invalid,
            ),
            (
                "/spec/volumes/1/projected/sources/0/serviceAccountToken/expirationSeconds",
                json!(599),
                "spec.volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds",
                Invalid,
            ),
            (
                "/spec/volumes/1/projected/sources/0/serviceAccountToken/path",
                json!("../t"),
                "spec.volumes[1].projected.path",
                Invalid,
            ),
            (
                "/spec/volumes/1/projected/sources/0/secret",
                json!({"name": "s"}),
                "spec.volumes[1].projected.sources[0]",
                Forbidden,
            ),
            (
                "/spec/volumes/1/projected/sources/2/podCertificate/maxExpirationSeconds",
                json!(3599),
                "spec.volumes[1].projected.sources[2].podCertificate.maxExpirationSeconds",
                Invalid,
            ),
            (
                "/spec/volumes/1/projected/sources/2/podCertificate/maxExpirationSeconds",
                json!(91 * 86_400 + 1),
                "spec.volumes[1].projected.sources[2].podCertificate.maxExpirationSeconds",
                Invalid,
            ),
            (
                "/spec/volumes/1/projected/sources/2/podCertificate/keyType",
                json!("RSA1024"),
                "spec.volumes[1].projected.sources[2].podCertificate.keyType",
                NotSupported,
            ),
            (
                "/spec/volumes/1/projected/sources/2/podCertificate/keyPath",
                json!(""),
                "spec.volumes[1].projected.sources[2].podCertificate",
                Required,
            ),
            (
                "/spec/volumes/1/projected/sources/2/podCertificate/userAnnotations",
                json!({"plain": "x"}),
                "spec.volumes[1].projected.sources[2].podCertificate.userAnnotations",
                Invalid,
            ),
            ("/spec/volumes/2/downwardAPI/items/0/path", json!(""), "spec.volumes[2].downwardAPI.path", Required),
            (
                "/spec/volumes/2/downwardAPI/items/0/fieldRef/fieldPath",
                json!("status.podIP"),
                "spec.volumes[2].downwardAPI.fieldRef.fieldPath",
                NotSupported,
            ),
            ("/spec/volumes/3/hostPath/path", json!("/a/.."), "spec.volumes[3].hostPath.path", Invalid),
            ("/spec/volumes/3/hostPath/type", json!("Pipe"), "spec.volumes[3].hostPath.type", NotSupported),
            ("/spec/volumes/4/csi/driver", json!(""), "spec.volumes[4].csi.driver", Required),
            ("/spec/volumes/5/image/reference", json!(""), "spec.volumes[5].image.reference", Required),
            ("/spec/volumes/6/ephemeral/volumeClaimTemplate/spec/accessModes", json!([]), modes.as_str(), Required),
            ("/spec/volumes/6/ephemeral/volumeClaimTemplate/spec/resources", json!({}), storage.as_str(), Required),
            (
                "/spec/serviceAccountName",
                json!(null),
                "spec.volumes[1].projected.sources[0].serviceAccountToken",
                Forbidden,
            ),
        ],
    );
}

#[test]
fn names_addresses_and_scheduling_of_both_families() {
    let good = pod(
        json!({}),
        json!({
            "hostname": "h", "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10", "fd00::10"], "searches": ["a.b"]},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "fd00::1", "hostnames": ["b"]}],
            "tolerations": [{"key": "k", "effect": "NoExecute", "tolerationSeconds": 1}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
            ],
            "schedulingGates": [{"name": "a.io/g"}], "os": {"name": "linux"},
        }),
    );
    let spread = "spec.topologySpreadConstraints[0]";
    let (skew, when, domains) =
        (format!("{spread}.maxSkew"), format!("{spread}.whenUnsatisfiable"), format!("{spread}.minDomains"));
    refuses(
        "",
        "pods",
        &good,
        &[
            ("/metadata/name", json!("A"), "metadata.name", Invalid),
            ("/spec/hostname", json!("a.b"), "spec.hostname", Invalid),
            ("/spec/hostnameOverride", json!("A"), "spec.hostnameOverride", Invalid),
            ("/spec/serviceAccountName", json!("A"), "spec.serviceAccountName", Invalid),
            ("/spec/restartPolicy", json!("Often"), "spec.restartPolicy", NotSupported),
            ("/spec/dnsPolicy", json!("Mine"), "spec.dnsPolicy", NotSupported),
            ("/spec/dnsConfig", json!(null), "spec.dnsConfig", Required),
            ("/spec/dnsConfig/nameservers/0", json!("010.0.0.10"), "spec.dnsConfig.nameservers[0]", Invalid),
            ("/spec/dnsConfig/nameservers/1", json!("::ffff:10.0.0.1"), "spec.dnsConfig.nameservers[1]", Invalid),
            ("/spec/dnsConfig/searches/0", json!("a..b"), "spec.dnsConfig.searches[0]", Invalid),
            ("/spec/hostAliases/0/ip", json!("x"), "spec.hostAliases[0].ip", Invalid),
            ("/spec/hostAliases/1/hostnames/0", json!("A"), "spec.hostAliases[1].hostnames[0]", Invalid),
            ("/spec/tolerations/0/effect", json!("NoSchedule"), "spec.tolerations[0].effect", Invalid),
            ("/spec/tolerations/0/key", json!(null), "spec.tolerations[0].operator", Invalid),
            ("/spec/tolerations/0/operator", json!("Near"), "spec.tolerations[0].operator", NotSupported),
            ("/spec/topologySpreadConstraints/0/maxSkew", json!(0), skew.as_str(), Invalid),
            ("/spec/topologySpreadConstraints/0/whenUnsatisfiable", json!("Wait"), when.as_str(), NotSupported),
            ("/spec/topologySpreadConstraints/0/minDomains", json!(0), domains.as_str(), Invalid),
            ("/spec/schedulingGates/0/name", json!("a b"), "spec.schedulingGates[0]", Invalid),
            ("/spec/nodeName", json!("n"), "spec.nodeName", Forbidden),
            ("/spec/os/name", json!("plan9"), "spec.os", NotSupported),
            ("/spec/activeDeadlineSeconds", json!(0), "spec.activeDeadlineSeconds", Invalid),
            ("/spec/priorityClassName", json!("A"), "spec.priorityClassName", Invalid),
            ("/spec/runtimeClassName", json!(""), "spec.runtimeClassName", Invalid),
            ("/spec/securityContext", json!({"fsGroup": -1}), "spec.securityContext.fsGroup", Invalid),
            (
                "/spec/securityContext",
                json!({"sysctls": [{"name": "A", "value": "1"}]}),
                "spec.securityContext.sysctls[0].name",
                Invalid,
            ),
        ],
    );
    let mut shared = good.clone();
    shared["spec"]["hostPID"] = json!(true);
    refuses(
        "",
        "pods",
        &shared,
        &[("/spec/shareProcessNamespace", json!(true), "spec.shareProcessNamespace", Invalid)],
    );
}

#[test]
fn little_of_a_pod_may_change() {
    let good = pod(
        json!({}),
        json!({"tolerations": [{"operator": "Exists"}], "activeDeadlineSeconds": 10, "nodeSelector": {"a": "b"}}),
    );
    keeps(
        "",
        "pods",
        &good,
        &[
            ("/spec/containers/0/name", json!("d"), "spec", Forbidden),
            (
                "/spec/containers",
                json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]),
                "spec.containers",
                Forbidden,
            ),
            ("/spec/tolerations", json!([]), "spec.tolerations", Forbidden),
            ("/spec/activeDeadlineSeconds", json!(11), "spec.activeDeadlineSeconds", Invalid),
            ("/spec/schedulingGates", json!([{"name": "g"}]), "spec.schedulingGates[0].name", Forbidden),
            ("/spec/nodeSelector", json!({"a": "b", "c": "d"}), "spec", Forbidden),
        ],
    );
    let rules = resource("", "pods");
    let (stored, _) = create(&rules, &good);
    for (pointer, value) in [
        ("/spec/containers/0/image", json!("j")),
        ("/spec/activeDeadlineSeconds", json!(9)),
        ("/spec/tolerations", json!([{"operator": "Exists"}, {"key": "k", "operator": "Exists"}])),
    ] {
        assert_eq!(update(&rules, &changed(&stored, pointer, &value), &stored), [], "{pointer}");
    }
}

#[test]
fn pod_addresses_are_one_or_two_one_of_each_family() {
    let rules = resource("", "pods");
    let (stored, _) = create(&rules, &pod(json!({}), json!({})));
    let ips = |list: &[&str]| {
        let entries: Vec<Value> = list.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"phase": "Running", "qosClass": "BestEffort", "podIP": list.first(), "podIPs": entries, "hostIP": list.first(), "hostIPs": entries})
    };
    for good in [&["10.0.0.1"][..], &["fd00::1"], &["10.0.0.1", "fd00::1"], &["fd00::1", "10.0.0.1"]] {
        assert_eq!(update_status(&rules, ips(good), &stored), [], "{good:?}");
    }
    for (bad, field) in [
        (&["10.0.0.1", "10.0.0.2"][..], "status.podIPs"),
        (&["fd00::1", "fd00::2"], "status.podIPs"),
        (&["10.0.0.1", "fd00::1", "fd00::2"], "status.podIPs"),
        (&["010.0.0.1"], "status.podIPs[0]"),
        (&["10.0.0.1", "::ffff:10.0.0.2"], "status.podIPs[1]"),
    ] {
        let found = update_status(&rules, ips(bad), &stored);
        assert!(found.contains(&(field.to_owned(), Invalid)), "{bad:?} {found:?}");
    }
}

#[test]
fn a_pod_with_limits_of_its_own_asks_for_what_its_containers_ask_for() {
    let good = pod(
        json!({"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}),
        json!({"resources": {"limits": {"cpu": "1", "memory": "2Gi"}}}),
    );
    let (stored, mistakes) = create(&resource("", "pods"), &good);
    assert_eq!(mistakes, []);
    assert_eq!(stored.at("spec.resources.requests"), &json!({"cpu": "250m", "memory": "1Gi"}));
    refuses(
        "",
        "pods",
        &good,
        &[("/spec/resources/requests", json!({"cpu": "100m"}), "spec.resources.requests[cpu]", Invalid)],
    );
}

#[test]
fn amounts_are_rounded_up_to_thousandths() {
    let (stored, _) =
        create(&resource("", "pods"), &pod(json!({"resources": {"requests": {"cpu": "100u"}}}), json!({})));
    assert_eq!(stored.pointer("/spec/containers/0/resources/requests/cpu"), Some(&json!("1m")));
}

#[test]
fn advice_is_given_and_stops_nothing() {
    let cases = [
        (pod(json!({}), json!({})), 0),
        (pod(json!({}), json!({"imagePullSecrets": [{"name": "s"}, {"name": "s"}]})), 1),
        (pod(json!({}), json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}})), 1),
        (pod(json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}), json!({})), 1),
        (pod(json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}), json!({})), 0),
        (pod(json!({"ports": [{"containerPort": 80}, {"containerPort": 80}]}), json!({})), 1),
        (changed(&pod(json!({}), json!({})), "/metadata/name", &json!("a.b")), 1),
    ];
    let rules = resource("", "pods");
    for (object, wanted) in cases {
        let (stored, mistakes) = create(&rules, &object);
        assert_eq!(mistakes, [], "{object}");
        assert_eq!(rules.rules.warnings(&stored, None).len(), wanted, "{object}");
    }
}
