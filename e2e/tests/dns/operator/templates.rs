//! Templates: what they answer, where they apply, and their mistakes.

use super::*;

/// [OCPFeatureGate:DNSTemplatePlugin] 1: empty NOERROR for AAAA, A as before, the cluster works, less is asked upstream.
#[test]
fn aaaa_filtering_basic_and_specific_zones() {
    let Some(cluster) = Cluster::up(V4) else { return };
    let web = cluster.service("web", &json!({"ports": [{"port": 80}]}));
    cluster.is_resolved("before.example.com", AAAA);
    cluster.templates(&json!([filter("filter-aaaa", &["example.com"])]));
    let asked = cluster.upstream.asked();
    cluster.is_filtered("www.example.com");
    assert_eq!(cluster.upstream.asked(), asked, "a filtered question goes nowhere");
    cluster.is_resolved("www.example.com", A);
    cluster.is_resolved("www.example.org", AAAA);
    // The example of the proposal, as written.
    let example = "spec:\n  templates:\n    - name: filter-aaaa\n      zones: [\".\"]\n      queryType: AAAA\n      \
                   queryClass: IN\n      action:\n        returnEmpty:\n          rcode: NOERROR\n";
    cluster.kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", example]);
    cluster.until("the filter is for every name", || {
        let answer = udp(cluster.at(false), "again.example.org", AAAA)?;
        answer.records.is_empty().then_some(())
    });
    let asked = cluster.upstream.asked();
    for name in ["www.example.org", "x.test"] {
        cluster.is_filtered(name);
        cluster.is_resolved(name, A);
    }
    assert_eq!(cluster.upstream.asked(), asked);
    cluster.becomes("web.default.svc.cluster.local", A, &[&web[0]]);
    assert!(metric(&cluster, "coredns_template_matches_total", "type=\"AAAA\"") >= 3.0);
    cluster.condition("AAAAFilterDualStackWarning", "False", "AsExpected");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 2: the address that the template says, with its TTL.
#[test]
fn custom_responses() {
    for ranges in [V4, BOTH, V6] {
        let Some(cluster) = Cluster::up(ranges) else { return };
        // The example of the proposal, as written.
        let example = "spec:\n  templates:\n    - name: legacy-ipv6\n      zones: [\"legacy.corp.example.com\"]\n      \
                       queryType: AAAA\n      queryClass: IN\n      action:\n        generateResponse:\n          \
                       answerTemplate: \"{{ .Name }} 3600 IN AAAA 2001:db8::100\"\n          rcode: NOERROR\n";
        cluster.kubectl.ok(&["patch", DNS, "default", "--type=merge", "-p", example]);
        cluster.becomes("app.legacy.corp.example.com", AAAA, &["2001:db8::100"]);
        let ttl = cluster.ask("new.legacy.corp.example.com", AAAA).ttl;
        assert!((1..=3600).contains(&ttl) && ttl > 900 - 90, "{ttl}");
        cluster.is_resolved("app.legacy.corp.example.com", A);
        cluster.is_resolved("app.corp.example.com", AAAA);
    }
}

/// [OCPFeatureGate:DNSTemplatePlugin] 3: the most specific zone decides, each template by itself.
#[test]
fn multiple_templates() {
    let Some(cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([
        filter("all", &["."]),
        response("corp", &["corp.example.com"], "2001:db8::1", 60),
        response("app", &["app.corp.example.com"], "2001:db8::2", 60),
        filter("quiet", &["quiet.app.corp.example.com"]),
    ]));
    cluster.is_filtered("www.example.com");
    assert_eq!(cluster.ask("x.corp.example.com", AAAA).records, ["2001:db8::1"]);
    assert_eq!(cluster.ask("x.app.corp.example.com", AAAA).records, ["2001:db8::2"]);
    cluster.is_filtered("x.quiet.app.corp.example.com");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 4: the cluster's own AAAA records stay, the warning is set, names outside are filtered.
#[test]
fn dual_stack_protection() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let dual = cluster.service("dual", &json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}));
    cluster.templates(&json!([filter("filter-aaaa", &["."])]));
    let message = cluster.condition("AAAAFilterDualStackWarning", "True", "ClusterDomainExcluded");
    assert!(message.contains("template \"filter-aaaa\" for zone \".\""), "{message}");
    cluster.becomes("dual.default.svc.cluster.local", AAAA, &[&dual[1]]);
    cluster.becomes("dual.default.svc.cluster.local", A, &[&dual[0]]);
    assert_eq!(cluster.ask("nobody.default.svc.cluster.local", AAAA).rcode, 3, "a name that is not there is not there");
    cluster.is_filtered("www.example.com");
    cluster.is_resolved("www.example.com", A);
    // The same with another zone that contains the cluster's.
    cluster.templates(&json!([filter("filter-local", &["local"])]));
    assert_eq!(cluster.ask("dual.default.svc.cluster.local", AAAA).records, [dual[1].as_str()]);
    cluster.is_filtered("printer.local");
    // Specific zones need no warning.
    cluster.templates(&json!([filter("filter-zone", &["example.com"])]));
    cluster.condition("AAAAFilterDualStackWarning", "False", "AsExpected");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 5: templates are in the blocks of `spec.servers` too.
#[test]
fn template_application_to_custom_servers() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let other = Upstream::start();
    let upstream = format!("127.0.0.1:{}", other.port);
    cluster.patch(&json!({"servers": [{"name": "corp", "zones": ["corp.example.com"],
        "forwardPlugin": {"upstreams": [upstream], "policy": "Random"}}]}));
    cluster.until("the server of its own is asked", || {
        udp(cluster.at(true), "new.corp.example.com", AAAA)?;
        (other.asked() > 0).then_some(())
    });
    cluster.templates(&json!([filter("filter-aaaa", &["."])]));
    let corefile = cluster.corefile();
    assert_eq!(corefile.matches("template IN AAAA . {").count(), 2, "{corefile}");
    let asked = other.asked();
    cluster.is_filtered("www.corp.example.com");
    cluster.is_filtered("www.example.com");
    assert_eq!(other.asked(), asked);
    cluster.is_resolved("www.corp.example.com", A);
}

/// [OCPFeatureGate:DNSTemplatePlugin] 6: what is added, changed and removed is seen by clients, and none goes without an answer.
#[test]
fn template_updates() {
    let Some(cluster) = Cluster::up(BOTH) else { return };
    let name = "app.example.com";
    let (ends, names) = (AtomicBool::new(false), AtomicU32::new(0));
    let address = cluster.at(false);
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            let mut lost = 0;
            while !ends.load(Ordering::Relaxed) {
                let answer = udp_within(PATIENCE, address, "kubernetes.default.svc.cluster.local", A);
                lost += u32::from(answer.is_none());
            }
            lost
        });
        let steps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cluster.templates(&json!([response("t", &["example.com"], "2001:db8::1", 1)]));
            cluster.becomes(name, AAAA, &["2001:db8::1"]);
            cluster.templates(&json!([response("t", &["example.com"], "2001:db8::2", 1)]));
            cluster.becomes(name, AAAA, &["2001:db8::2"]);
            cluster.templates(&json!([filter("t", &["example.com"])]));
            cluster.becomes(name, AAAA, &[]);
            let remove = "[{\"op\": \"remove\", \"path\": \"/spec/templates\"}]";
            cluster.kubectl.ok(&["patch", DNS, "default", "--type=json", "-p", remove]);
            cluster.condition("TemplateConfigurationValid", "True", "NoTemplates");
            cluster.until("the filter is gone", || {
                // A new name each time: answers are kept for a while.
                let name = format!("n{}.example.com", names.fetch_add(1, Ordering::Relaxed));
                (udp(address, &name, AAAA)?.records == [Upstream::AAAA]).then_some(())
            });
        }));
        ends.store(true, Ordering::Relaxed);
        assert_eq!(lost.join().expect("the thread ends"), 0, "questions without an answer");
        if let Err(panic) = steps {
            std::panic::resume_unwind(panic);
        }
    });
}

/// [OCPFeatureGate:DNSTemplatePlugin] 7: what is wrong is refused by name, and the last valid configuration stays.
#[test]
fn error_cases() {
    let Some(cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([response("good", &["good.example.com"], "2001:db8::1", 60)]));
    let good = cluster.corefile();
    let bad_answer = json!({"name": "bad", "zones": ["a.test"], "queryType": "AAAA", "queryClass": "IN",
        "action": {"generateResponse": {"answerTemplate": "{{ .Name }} 60 IN A 192.0.2.1", "rcode": "NOERROR"}}});
    for (templates, reason, part) in [
        (
            json!([filter("bad", &["not a zone"])]),
            "InvalidZone",
            "template \"bad\": spec.templates[0].zones[0]: \"not a zone\"",
        ),
        (json!([filter("bad", &["cluster.local"])]), "ReservedZone", "\"cluster.local\" is the cluster domain"),
        (json!([filter("bad", &["svc.Cluster.Local."])]), "ReservedZone", "is within the cluster domain"),
        (
            json!([filter("one", &["a.test"]), filter("two", &["A.test."])]),
            "DuplicateZone",
            "template \"two\": spec.templates[1].zones[0]: \"A.test.\" has an AAAA template already",
        ),
        (json!([bad_answer]), "InvalidAnswerTemplate", "gives a record of type A, and not AAAA"),
    ] {
        cluster.patch(&json!({"templates": templates}));
        let message = cluster.condition("TemplateConfigurationValid", "False", reason);
        assert!(message.contains(part), "{message}");
        cluster.condition("TemplateConfigurationApplied", "False", "InvalidConfiguration");
        assert_eq!(cluster.corefile(), good);
        assert_eq!(cluster.ask("x.good.example.com", AAAA).records, ["2001:db8::1"]);
    }
    // What the schema knows never gets so far.
    for (templates, part) in [
        (
            json!([{"name": "a", "zones": ["a.test"], "queryType": "MX", "action": {"returnEmpty": {"rcode": "NOERROR"}}}]),
            "queryType",
        ),
        (json!([{"name": "a", "zones": ["a.test"], "action": {"returnEmpty": {"rcode": "NXDOMAIN"}}}]), "rcode"),
        (json!([{"name": "a", "zones": ["a.test"], "action": {}}]), "exactly one action"),
        (json!([{"name": "a", "zones": [], "action": {"returnEmpty": {"rcode": "NOERROR"}}}]), "zones"),
        (json!([{"name": "A b", "zones": ["a.test"], "action": {"returnEmpty": {"rcode": "NOERROR"}}}]), "name"),
    ] {
        let patch = json!({"spec": {"templates": templates}}).to_string();
        let message = cluster.kubectl.fails(&["patch", DNS, "default", "--type=merge", "-p", &patch], "");
        assert!(message.contains(part), "{message}");
    }
    // A cluster of IPv6 alone would have nothing left.
    let Some(v6) = Cluster::up(V6) else { return };
    v6.patch(&json!({"templates": [filter("filter-aaaa", &["."])]}));
    let message = v6.condition("TemplateConfigurationValid", "False", "FilterWouldBlockAllAddresses");
    assert!(message.contains("template \"filter-aaaa\""), "{message}");
    v6.is_resolved("www.example.com", AAAA);
}

/// [OCPFeatureGate:DNSTemplatePlugin] 8: while the gate is closed, templates mean nothing, and no condition speaks of them.
#[test]
fn feature_gate() {
    let Some(cluster) = Cluster::without_gate(V4) else { return };
    cluster.patch(&json!({"templates": [filter("filter-aaaa", &["."])]}));
    cluster.until("it is said that templates are ignored", || {
        let events = cluster.kubectl.run(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]).stdout;
        events.contains("TemplatesIgnored").then_some(())
    });
    assert!(!cluster.corefile().contains("template"));
    cluster.is_resolved("www.example.com", AAAA);
    let dns = cluster.dns();
    let kinds: Vec<&str> =
        dns["status"]["conditions"].as_array().into_iter().flatten().filter_map(|one| one["type"].as_str()).collect();
    assert_eq!(kinds, ["Available", "Degraded", "Progressing", "Upgradeable"]);
    let gate = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {"featureSet": "TechPreviewNoUpgrade"}});
    cluster.kubectl.ok_with(&["apply", "-f", "-"], &gate.to_string());
    cluster.condition("TemplateConfigurationApplied", "True", "AsExpected");
    cluster
        .until("the filter works", || udp(cluster.at(true), "x.example.org", AAAA)?.records.is_empty().then_some(()));
    cluster.is_filtered("www.example.org");
}

/// [OCPFeatureGate:DNSTemplatePlugin] 9: templates outlive a crash and a new start, and go when the gate is closed again.
#[test]
fn upgrade_downgrade() {
    let Some(mut cluster) = Cluster::up(V4) else { return };
    cluster.templates(&json!([response("kept", &["kept.example.com"], "2001:db8::1", 60)]));
    let before = cluster.corefile();
    cluster.restart();
    cluster.condition("TemplateConfigurationApplied", "True", "AsExpected");
    assert_eq!(cluster.corefile(), before);
    assert_eq!(cluster.ask("x.kept.example.com", AAAA).records, ["2001:db8::1"]);
    // An older release: its gates do not list this one.
    cluster.kubectl.ok(&["delete", "featuregates.config.openshift.io", "cluster"]);
    cluster.until("the templates are out of the Corefile", || (!cluster.corefile().contains("template")).then_some(()));
    cluster.until("the upstream is asked again", || {
        (udp(cluster.at(true), "later.kept.example.com", AAAA)?.records == [Upstream::AAAA]).then_some(())
    });
    assert_eq!(cluster.dns()["spec"]["templates"][0]["name"], "kept", "what was written is kept");
    cluster.open_gate_again();
}
