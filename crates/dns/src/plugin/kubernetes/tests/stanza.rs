//! What may stand in a stanza, and what is said about the rest.

use super::*;

fn read(stanza: &str) -> Result<KubernetesOptions, String> {
    let file = corefile::parse("Corefile", &format!("coredns.local {{\n {stanza}\n}}"), &Disk).unwrap();
    let block = [Name::parse("coredns.local").unwrap()];
    parse::options(&file.blocks[0].directives[0], &block, Path::new("")).map_err(|problem| problem.to_string())
}

#[test]
fn stanzas_say_what_is_meant() {
    let zones =
        |options: &KubernetesOptions| options.zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    for (stanza, expected) in [
        ("kubernetes", "coredns.local. Disabled 0 ttl 5"),
        ("kubernetes coredns.local test.local", "coredns.local. test.local. Disabled 0 ttl 5"),
        ("kubernetes coredns.local {\n }", "coredns.local. Disabled 0 ttl 5"),
        ("kubernetes {\n namespaces demo\n }", "coredns.local. Disabled 1 ttl 5"),
        ("kubernetes {\n namespaces demo test\n }", "coredns.local. Disabled 2 ttl 5"),
        ("kubernetes {\n pods disabled\n }", "coredns.local. Disabled 0 ttl 5"),
        ("kubernetes {\n pods insecure\n }", "coredns.local. Insecure 0 ttl 5"),
        ("kubernetes {\n pods verified\n }", "coredns.local. Verified 0 ttl 5"),
        ("kubernetes {\n ttl 0\n }", "coredns.local. Disabled 0 ttl 0"),
        ("kubernetes {\n ttl 3600\n }", "coredns.local. Disabled 0 ttl 3600"),
        ("kubernetes 10.0.0.0/24 fd00::/8 a.test", "0.0.10.in-addr.arpa. d.f.ip6.arpa. a.test. Disabled 0 ttl 5"),
    ] {
        let options = read(stanza).unwrap();
        let described =
            format!("{} {:?} {} ttl {}", zones(&options), options.pods, options.namespaces.len(), options.ttl);
        assert_eq!(described, expected, "{stanza}");
    }
    assert_eq!(read("kubernetes 10.0.0.0/24 fd00::/8 a.test").unwrap().primary.to_string(), "a.test.");
    let fall = read("kubernetes {\n fallthrough ip6.arpa in-addr.arpa foo.com\n }").unwrap().fall;
    for (name, through) in [("a.foo.com", true), ("1.in-addr.arpa", true), ("1.ip6.arpa", true), ("a.test", false)] {
        assert_eq!(fall.covers(&Name::parse(name).unwrap()), through, "{name}");
    }
    assert!(read("kubernetes {\n fallthrough\n }").unwrap().fall.covers(&Name::ROOT));
}

#[test]
fn what_is_watched_is_chosen() {
    for (stanza, expected) in [
        ("labels environment=prod", "labels Some(\"environment=prod\")"),
        (
            "labels environment in (production, staging, qa),application=nginx",
            "labels Some(\"environment in (production, staging, qa),application=nginx\")",
        ),
        ("namespace_labels istio-injection=enabled", "labels None of Some(\"istio-injection=enabled\")"),
        ("endpoint_pod_names", "labels None pod_names"),
        ("noendpoints", "labels None no endpoints"),
        ("ignore empty_service", "labels None ignore_empty"),
        ("endpoint http://localhost:9090 http://[::1]:9091", "labels None http://localhost:9090"),
        ("kubeconfig file", "labels None \"file\""),
        ("kubeconfig file context", "labels None \"file\" in context"),
        ("kubeconfig file context\n startup_timeout 1s", "labels None \"file\" in context"),
        ("apiserver_qps 50.0\n apiserver_burst 100\n apiserver_max_inflight 25", "labels None"),
    ] {
        let options = read(&format!("kubernetes {{\n {stanza}\n }}")).unwrap();
        let watch = &options.watch;
        let mut described = format!("labels {:?}", watch.labels);
        if let Some(labels) = &watch.namespace_labels {
            described += &format!(" of {:?}", Some(labels));
        }
        for (word, set) in [
            (" pod_names", watch.details.pod_names),
            (" no endpoints", !watch.endpoints),
            (" ignore_empty", options.ignore_empty),
        ] {
            described += if set { word } else { "" };
        }
        if let Some(endpoint) = &watch.source.endpoint {
            described += &format!(" {endpoint}");
        }
        if let Some((file, context)) = &watch.source.kubeconfig {
            described += &format!(" {file:?}");
            described += &context.as_ref().map(|context| format!(" in {context}")).unwrap_or_default();
        }
        assert_eq!(described, expected, "{stanza}");
    }
}

#[test]
fn mistakes_are_told_with_what_is_accepted() {
    for (stanza, expected) in [
        ("endpoint", "\"endpoint\": plugin kubernetes: needs an address"),
        ("namespaces", "\"namespaces\": plugin kubernetes: needs at least one namespace"),
        ("labels", "\"labels\": plugin kubernetes: needs a selector"),
        ("namespace_labels", "\"namespace_labels\": plugin kubernetes: needs a selector"),
        (
            "labels environment in (production, qa",
            "\"environment\": plugin kubernetes: \"environment in (production, qa\" is no selector; accepted: key=value, \
             key!=value, key in (a,b), key notin (a,b), key, !key, with commas between them",
        ),
        ("namespace_labels a=b=c", "\"a=b=c\" is no selector"),
        ("pods giant_seed", "\"giant_seed\": plugin kubernetes: accepted: disabled, insecure, verified"),
        ("endpoint_pod_names giant_seed", "plugin kubernetes"),
        ("noendpoints ixnay on the endpointsay", "plugin kubernetes"),
        ("ignore", "plugin kubernetes"),
        ("ignore ixnay on the endpointsay", "plugin kubernetes"),
        ("kubeconfig", "needs a file, and perhaps a context"),
        ("kubeconfig file context extraarg", "needs a file, and perhaps a context"),
        ("ttl -1", "\"-1\": plugin kubernetes: accepted: a number from 0 to 3600"),
        ("ttl 3601", "\"3601\": plugin kubernetes: accepted: a number from 0 to 3600"),
        ("ttl", "plugin kubernetes"),
        ("startup_timeout soon", "\"soon\": plugin kubernetes: is no duration"),
        ("apiserver_qps -10", "\"-10\": plugin kubernetes: accepted: a number from 0"),
        ("apiserver_burst -5", "\"-5\": plugin kubernetes: accepted: a whole number from 0"),
        ("apiserver_max_inflight -1", "\"-1\": plugin kubernetes: accepted: a whole number from 0"),
        ("multicluster clusterset.local", "\"multicluster\": plugin kubernetes: is not built"),
        ("zonal yes", "plugin kubernetes"),
        ("zonal\n noendpoints", "plugin kubernetes: zonal and noendpoints do not go together"),
        ("tls a b c", "\"tls\": plugin kubernetes: is not built: name a kubeconfig"),
    ] {
        let problem = testing::refused(&format!("coredns.local {{\n kubernetes {{\n {stanza}\n }}\n}}"));
        assert!(problem.contains(expected), "{stanza}: {problem}");
    }
}
