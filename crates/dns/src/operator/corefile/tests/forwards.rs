//! Whom servers ask, row by row as upstream's own tables.

use super::*;

/// The `forward` block of the default server, or the mistakes.
fn resolvers(given: &Value) -> String {
    let spec: OperatorDnsSpec = serde_json::from_value(json!({"upstreamResolvers": given})).unwrap();
    match check::base(&spec, &domain()) {
        Ok(_) => forward(&json!({"upstreamResolvers": given})),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// The first `forward` block, in one line.
fn forward(spec: &Value) -> String {
    let text = render(spec, V4);
    let block = text.split("    forward . ").nth(1).unwrap().split("\n    }").next().unwrap();
    block.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn resolvers_are_asked_as_the_resource_says() {
    let system = json!({"type": "SystemResolvConf"});
    let at = |address: &str, port: u32| json!({"type": "Network", "address": address, "port": port});
    let bare = |address: &str| json!({"type": "Network", "address": address});
    let name = json!({"serverName": "dns.example.com"});
    let bundle = |bundle: &str| json!({"transport": "TLS", "tls": {"serverName": "dns.example.com", "caBundle": {"name": bundle}}});
    let address = "spec.upstreamResolvers.upstreams[0].address: \"\" is empty; type Network needs an address";
    let transport = "spec.upstreamResolvers.transportConfig.transport: \"TLS\" needs upstreams of type Network alone: the \
                     node's resolvers are not asked over TLS";
    for (row, given, expected) in [
        (
            "five of both families, with and without ports",
            json!({"upstreams": [bare("192.0.2.1"), at("192.0.2.2", 5353), bare("2001:db8::1"), at("2001:db8::2", 5353), system], "policy": "Random"}),
            "192.0.2.1 192.0.2.2:5353 2001:db8::1 [2001:db8::2]:5353 /etc/resolv.conf { policy random",
        ),
        ("just a policy", json!({"policy": "Random"}), "/etc/resolv.conf { policy random"),
        ("no upstreams", json!({"upstreams": []}), "/etc/resolv.conf { policy sequential"),
        ("nothing", json!(null), "/etc/resolv.conf { policy sequential"),
        ("no address", json!({"upstreams": [{"type": "Network"}]}), address),
        ("no policy", json!({"upstreams": [bare("192.0.2.1")]}), "192.0.2.1 { policy sequential"),
        (
            "a policy",
            json!({"upstreams": [bare("192.0.2.1")], "policy": "RoundRobin"}),
            "192.0.2.1 { policy round_robin",
        ),
        (
            "doubles",
            json!({"upstreams": [at("192.0.2.1", 53), bare("192.0.2.1"), bare("2001:DB8::1"), at("2001:db8::1", 53), system, system]}),
            "192.0.2.1 2001:db8::1 /etc/resolv.conf { policy sequential",
        ),
        (
            "a double without a type",
            json!({"upstreams": [{"type": ""}, system]}),
            "/etc/resolv.conf { policy sequential",
        ),
        ("the system alone", json!({"upstreams": [system]}), "/etc/resolv.conf { policy sequential"),
        (
            "the system first",
            json!({"upstreams": [system, bare("192.0.2.1")]}),
            "/etc/resolv.conf 192.0.2.1 { policy sequential",
        ),
        (
            "an address of the system means nothing",
            json!({"upstreams": [{"type": "SystemResolvConf", "address": "192.0.2.1", "port": 99}]}),
            "/etc/resolv.conf { policy sequential",
        ),
        // Upstream writes it in capitals.
        ("one way to write IPv6", json!({"upstreams": [bare("2001:0DB8::AB")]}), "2001:db8::ab { policy sequential"),
        ("TLS without upstreams", json!({"transportConfig": {"transport": "TLS", "tls": name}}), transport),
        (
            "TLS with the system",
            json!({"upstreams": [bare("192.0.2.1"), system], "transportConfig": {"transport": "TLS", "tls": name}}),
            transport,
        ),
        (
            "TLS without a name",
            json!({"upstreams": [bare("192.0.2.1")], "transportConfig": {"transport": "TLS"}}),
            "spec.upstreamResolvers.transportConfig.tls.serverName: \"\" is no server name; TLS needs the name in the \
             certificates of the upstreams",
        ),
        (
            "TLS with an empty name",
            json!({"upstreams": [bare("192.0.2.1")], "transportConfig": {"transport": "TLS", "tls": {"serverName": ""}}}),
            "spec.upstreamResolvers.transportConfig.tls.serverName: \"\" is no server name; TLS needs the name in the \
             certificates of the upstreams",
        ),
        (
            "TLS at its own port and at others",
            json!({"upstreams": [bare("192.0.2.1"), at("192.0.2.2", 53), at("2001:db8::1", 8853)], "transportConfig": {"transport": "TLS", "tls": name}}),
            "tls://192.0.2.1 tls://192.0.2.2:53 tls://[2001:db8::1]:8853 { tls_servername dns.example.com tls policy sequential",
        ),
        (
            "TLS with authorities",
            json!({"upstreams": [bare("2001:db8::1")], "transportConfig": bundle("corp")}),
            "tls://2001:db8::1 { tls_servername dns.example.com tls /etc/pki/dns.example.com-ca-corp-7/ca-bundle.crt policy sequential",
        ),
        (
            "TLS with authorities that are not there",
            json!({"upstreams": [bare("192.0.2.1")], "transportConfig": bundle("none")}),
            "tls://192.0.2.1 { tls_servername dns.example.com tls policy sequential",
        ),
        (
            "a name without TLS",
            json!({"upstreams": [bare("192.0.2.1")], "transportConfig": {"transport": "Cleartext", "tls": name}}),
            "192.0.2.1 { policy sequential",
        ),
        (
            "over TCP",
            json!({"upstreams": [bare("2001:db8::1")], "protocolStrategy": "TCP"}),
            "2001:db8::1 { policy sequential force_tcp",
        ),
        (
            "over either",
            json!({"upstreams": [bare("192.0.2.1")], "protocolStrategy": ""}),
            "192.0.2.1 { policy sequential",
        ),
    ] {
        assert_eq!(resolvers(&given), expected, "{row}");
    }
}

#[test]
fn servers_of_their_own_ask_whom_they_name() {
    let server = |plugin: Value| json!({"servers": [{"name": "foo", "zones": ["foo.com"], "forwardPlugin": plugin}]});
    let tls = json!({"transport": "TLS", "tls": {"serverName": "dns.example.com"}});
    for (row, plugin, expected) in [
        (
            "the default policy",
            json!({"upstreams": ["192.0.2.1", "192.0.2.2:5353"]}),
            "192.0.2.1 192.0.2.2:5353 { policy random",
        ),
        (
            "both families",
            json!({"upstreams": ["192.0.2.1", "2001:db8::1"], "policy": "Sequential"}),
            "192.0.2.1 2001:db8::1 { policy sequential",
        ),
        (
            "over TCP",
            json!({"upstreams": ["192.0.2.1"], "protocolStrategy": "TCP"}),
            "192.0.2.1 { policy random force_tcp",
        ),
        (
            "TLS",
            json!({"upstreams": ["192.0.2.1", "[2001:db8::1]:8853"], "transportConfig": tls}),
            "tls://192.0.2.1 tls://[2001:db8::1]:8853 { tls_servername dns.example.com tls policy random",
        ),
    ] {
        assert_eq!(forward(&server(plugin)), expected, "{row}");
    }
    for upstream in ["dns.example.com", "dns.example.com:53"] {
        let given = server(json!({"upstreams": [upstream], "transportConfig": tls}));
        let spec: OperatorDnsSpec = serde_json::from_value(given).unwrap();
        let mistakes = check::base(&spec, &domain()).unwrap_err();
        assert!(mistakes[0].to_string().contains("is no address"), "{}", mistakes[0]);
    }
}
