//! The zones themselves: reverse names, the apex, and who serves it.

use super::{
    fixture::{CLUSTER, cluster, holds},
    *,
};

const REVERSE: &str = "
namespace testns
service testns/svc1 192.168.1.100,fd00:77:30::2:100 http/TCP/80
service testns/svc2 None http/TCP/80
slice testns/svc1/a ep1a=10.0.0.100,double-ep=10.0.0.99 http/TCP/80
slice testns/svc1/b ep1b=1234:abcd::1,ip6svc1ex=fd00:77:30::a,ip6svc1in=fd00:77:30::2:9ba6 http/TCP/80
slice testns/svc1/c ep1a=10.0.0.100 http/TCP/80
slice testns/svc2/a double-ep=10.0.0.99 http/TCP/80
";

#[test]
fn addresses_lead_back_to_names() {
    let (_index, records) = cluster(REVERSE, false);
    let stanza = "kubernetes cluster.local 0.10.in-addr.arpa 168.192.in-addr.arpa \
        0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.c.b.a.4.3.2.1.ip6.arpa \
        0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.7.7.0.0.0.0.d.f.ip6.arpa";
    let plugin = plugin(stanza, &records, &[]);
    // `~` is the owner: reverse names are long.
    let ask = |name: &str, rtype: &str| ask(&plugin, name, rtype).replace(&format!("{name} 5"), "~ 5");
    holds(
        "
100.0.0.10.in-addr.arpa. PTR => NOERROR aa | ~ 5 IN PTR ep1a.svc1@
100.1.168.192.in-addr.arpa. PTR => NOERROR aa | ~ 5 IN PTR svc1@
0.0.1.0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.7.7.0.0.0.0.d.f.ip6.arpa. PTR => NOERROR aa | ~ 5 IN PTR svc1@
1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.c.b.a.4.3.2.1.ip6.arpa. PTR => NOERROR aa | ~ 5 IN PTR ep1b.svc1@
a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.7.7.0.0.0.0.d.f.ip6.arpa. PTR => NOERROR aa | ~ 5 IN PTR ip6svc1ex.svc1@
6.a.b.9.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.7.7.0.0.0.0.d.f.ip6.arpa. PTR => NOERROR aa | ~ 5 IN PTR ip6svc1in.svc1@
99.0.0.10.in-addr.arpa. PTR => NOERROR aa | ~ 5 IN PTR double-ep.svc1@, ~ 5 IN PTR double-ep.svc2@
101.0.0.10.in-addr.arpa. PTR => NXDOMAIN aa | | 0.10.in-addr.arpa. 5 IN SOA ns.dns.0.10.in-addr.arpa. hostmaster.0.10.in-addr.arpa. 7 7200 1800 86400 5
svc1.testns.svc.0.10.in-addr.arpa. A => NXDOMAIN aa | | 0.10.in-addr.arpa. 5 IN SOA ns.dns.0.10.in-addr.arpa. hostmaster.0.10.in-addr.arpa. 7 7200 1800 86400 5
example.org.cluster.local. PTR => NXDOMAIN aa | | SOA
100.0.0.10.cluster.local. PTR => NXDOMAIN aa | | SOA
svc1@ PTR => NOERROR aa | | SOA
",
        ask,
    );
}

#[test]
fn names_that_are_not_exposed_are_not_led_to() {
    let (_index, records) = cluster(CLUSTER, false);
    let plugin = plugin("kubernetes cluster.local in-addr.arpa {\n namespaces testns\n }", &records, &[]);
    for (name, expected) in [
        ("3.0.0.10.in-addr.arpa.", "NOERROR"),
        ("2.0.0.10.in-addr.arpa.", "NXDOMAIN"),
        ("40.0.0.172.in-addr.arpa.", "NXDOMAIN"),
    ] {
        assert_eq!(ask(&plugin, name, "PTR").split(' ').next(), Some(expected), "{name}");
    }
}

#[test]
fn the_apex_has_its_own_records() {
    let (_index, records) = cluster(CLUSTER, false);
    for (local, rows) in [
        (
            &["127.0.0.1", "::1", "192.0.2.53", "2001:db8::53"][..],
            "
cluster.local. NS => NOERROR aa | cluster.local. 5 IN NS ns.dns.cluster.local. | | ns.dns.cluster.local. 5 IN A 192.0.2.53, ns.dns.cluster.local. 5 IN AAAA 2001:db8::53
ns.dns.cluster.local. A => NOERROR aa | ns.dns.cluster.local. 5 IN A 192.0.2.53
ns.dns.cluster.local. AAAA => NOERROR aa | ns.dns.cluster.local. 5 IN AAAA 2001:db8::53
",
        ),
        (
            &["192.0.2.53"],
            "
ns.dns.cluster.local. A => NOERROR aa | ns.dns.cluster.local. 5 IN A 192.0.2.53
ns.dns.cluster.local. AAAA => NOERROR aa | | SOA
",
        ),
        (
            &["2001:db8::53"],
            "
ns.dns.cluster.local. A => NOERROR aa | | SOA
ns.dns.cluster.local. AAAA => NOERROR aa | ns.dns.cluster.local. 5 IN AAAA 2001:db8::53
",
        ),
        (
            &["127.0.0.1", "::1"],
            "
cluster.local. NS => NOERROR aa | | SOA
cluster.local. SOA => NOERROR aa | SOA
cluster.local. HINFO => NOERROR aa | | SOA
cluster.local. A => NOERROR aa | | SOA
cluster.local. AAAA => NOERROR aa | | SOA
cluster.local. SRV => NOERROR aa | | SOA
",
        ),
    ] {
        let plugin = plugin("kubernetes cluster.local", &records, local);
        holds(rows, |name, rtype| ask(&plugin, name, rtype));
    }
}

/// Three Services are in front of this server: one of each family, and one without an address of its own.
#[test]
fn services_in_front_of_this_server_are_the_name_servers() {
    let (_index, records) = cluster(
        "
namespace kube-system
service kube-system/dns-service 10.0.0.111 dns/UDP/53
service kube-system/dns6-service 10::111 dns/UDP/53
service kube-system/hdls-dns-service None dns/UDP/53
slice kube-system/dns-service/a 10.244.0.20 dns/UDP/53
slice kube-system/dns6-service/a 10.244.0.20 dns/UDP/53
slice kube-system/hdls-dns-service/a 10.244.0.20,10.244.0.21 dns/UDP/53
",
        false,
    );
    let plugin = plugin("kubernetes inter.webs.test", &records, &["10.244.0.20"]);
    // `%` is the namespace.
    let ask = |name: &str, rtype: &str| ask(&plugin, name, rtype).replace(".kube-system.svc.inter.webs.test.", "%");
    holds(
        "
inter.webs.test. NS => NOERROR aa | inter.webs.test. 5 IN NS dns-service%, inter.webs.test. 5 IN NS dns6-service%, inter.webs.test. 5 IN NS 10-244-0-20.hdls-dns-service%, inter.webs.test. 5 IN NS 10-244-0-21.hdls-dns-service% | | dns-service% 5 IN A 10.0.0.111, dns6-service% 5 IN AAAA 10::111, 10-244-0-20.hdls-dns-service% 5 IN A 10.244.0.20, 10-244-0-21.hdls-dns-service% 5 IN A 10.244.0.21
ns.dns.inter.webs.test. A => NOERROR aa | ns.dns.inter.webs.test. 5 IN A 10.0.0.111, ns.dns.inter.webs.test. 5 IN A 10.244.0.20, ns.dns.inter.webs.test. 5 IN A 10.244.0.21
ns.dns.inter.webs.test. AAAA => NOERROR aa | ns.dns.inter.webs.test. 5 IN AAAA 10::111
",
        ask,
    );
}
