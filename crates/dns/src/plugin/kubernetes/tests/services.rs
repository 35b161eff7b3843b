//! Services, endpoints and Pods: what CoreDNS's own tables say, row by row.

use super::{
    fixture::{CLUSTER, cluster, holds},
    *,
};
use crate::{plugin::forward::testing::Upstream, testing::Asked};

fn table(stanza: &str, rows: &str) {
    let (_index, records) = cluster(CLUSTER, false);
    let plugin = plugin(stanza, &records, &["192.0.2.53", "2001:db8::53", "127.0.0.1", "::1"]);
    holds(rows, |name, rtype| ask(&plugin, name, rtype));
}

const EXPOSED: &str = "kubernetes cluster.local {\n namespaces testns\n }";

#[test]
fn services_have_their_addresses_and_ports() {
    table(
        EXPOSED,
        "
svc1@ A => NOERROR aa | svc1@ 5 IN A 10.0.0.1
svcempty@ A => NOERROR aa | svcempty@ 5 IN A 10.0.0.1
svc6@ AAAA => NOERROR aa | svc6@ 5 IN AAAA 1234:abcd::1
svc1@ SRV => NOERROR aa | svc1@ 5 IN SRV 0 100 80 svc1@ | | svc1@ 5 IN A 10.0.0.1
svcempty@ SRV => NOERROR aa | svcempty@ 5 IN SRV 0 100 80 svcempty@ | | svcempty@ 5 IN A 10.0.0.1
svc6@ SRV => NOERROR aa | svc6@ 5 IN SRV 0 100 80 svc6@ | | svc6@ 5 IN AAAA 1234:abcd::1
_http._tcp.svc1@ SRV => NOERROR aa | _http._tcp.svc1@ 5 IN SRV 0 100 80 svc1@ | | svc1@ 5 IN A 10.0.0.1
_http._tcp.svcempty@ SRV => NOERROR aa | _http._tcp.svcempty@ 5 IN SRV 0 100 80 svcempty@ | | svcempty@ 5 IN A 10.0.0.1
_http._tcp.svc6@ SRV => NOERROR aa | _http._tcp.svc6@ 5 IN SRV 0 100 80 svc6@ | | svc6@ 5 IN AAAA 1234:abcd::1
svc-dual-stack@ A => NOERROR aa | svc-dual-stack@ 5 IN A 10.0.0.3
svc-dual-stack@ AAAA => NOERROR aa | svc-dual-stack@ 5 IN AAAA 10::3
svc-dual-stack@ SRV => NOERROR aa | svc-dual-stack@ 5 IN SRV 0 50 80 svc-dual-stack@ | | svc-dual-stack@ 5 IN A 10.0.0.3, svc-dual-stack@ 5 IN AAAA 10::3
_http._tcp.svc-dual-stack@ SRV => NOERROR aa | _http._tcp.svc-dual-stack@ 5 IN SRV 0 50 80 svc-dual-stack@ | | svc-dual-stack@ 5 IN A 10.0.0.3, svc-dual-stack@ 5 IN AAAA 10::3
hdls1@ A => NOERROR aa | hdls1@ 5 IN A 172.0.0.2, hdls1@ 5 IN A 172.0.0.3, hdls1@ 5 IN A 172.0.0.4, hdls1@ 5 IN A 172.0.0.5
hdls1@ AAAA => NOERROR aa | hdls1@ 5 IN AAAA 5678:abcd::1, hdls1@ 5 IN AAAA 5678:abcd::2
hdlsprtls@ A => NOERROR aa | hdlsprtls@ 5 IN A 172.0.0.20
_http._tcp.hdls1@ SRV => NOERROR aa | _http._tcp.hdls1@ 5 IN SRV 0 16 80 172-0-0-2.hdls1@, _http._tcp.hdls1@ 5 IN SRV 0 16 80 172-0-0-3.hdls1@, _http._tcp.hdls1@ 5 IN SRV 0 16 80 dup-name.hdls1@, _http._tcp.hdls1@ 5 IN SRV 0 16 80 5678-abcd--1.hdls1@, _http._tcp.hdls1@ 5 IN SRV 0 16 80 5678-abcd--2.hdls1@ | | 172-0-0-2.hdls1@ 5 IN A 172.0.0.2, 172-0-0-3.hdls1@ 5 IN A 172.0.0.3, dup-name.hdls1@ 5 IN A 172.0.0.4, dup-name.hdls1@ 5 IN A 172.0.0.5, 5678-abcd--1.hdls1@ 5 IN AAAA 5678:abcd::1, 5678-abcd--2.hdls1@ 5 IN AAAA 5678:abcd::2
dns-version.cluster.local. TXT => NOERROR aa | dns-version.cluster.local. 28800 IN TXT \"1.1.0\"
external@ CNAME => NOERROR aa | external@ 5 IN CNAME ext.interwebs.test.
external-to-service@ A => NOERROR aa | external-to-service@ 5 IN CNAME svc1@, svc1@ 5 IN A 10.0.0.1
external-to-service@ AAAA => NOERROR aa | | SOA
external-address@ CNAME => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn endpoints_have_names() {
    table(
        EXPOSED,
        "
5678-abcd--2.hdls1.testns.svc.cluster.local AAAA => NOERROR aa | 5678-abcd--2.hdls1@ 5 IN AAAA 5678:abcd::2
5678-abcd--1.hdls1@ AAAA => NOERROR aa | 5678-abcd--1.hdls1@ 5 IN AAAA 5678:abcd::1
172-0-0-20.hdlsprtls@ A => NOERROR aa | 172-0-0-20.hdlsprtls@ 5 IN A 172.0.0.20
172-0-0-2.hdls1@ A => NOERROR aa | 172-0-0-2.hdls1@ 5 IN A 172.0.0.2
172-0-0-3.hdls1@ A => NOERROR aa | 172-0-0-3.hdls1@ 5 IN A 172.0.0.3
172-0-0-3.hdls1@ AAAA => NOERROR aa | | SOA
dup-name.hdls1@ A => NOERROR aa | dup-name.hdls1@ 5 IN A 172.0.0.4, dup-name.hdls1@ 5 IN A 172.0.0.5
ep1a.svc1@ A => NOERROR aa | ep1a.svc1@ 5 IN A 172.0.0.1
",
    );
}

#[test]
fn what_is_not_there_is_denied_in_the_right_way() {
    table(
        EXPOSED,
        "
svc1@ AAAA => NOERROR aa | | SOA
svc0@ AAAA => NXDOMAIN aa | | SOA
svc0@ A => NXDOMAIN aa | | SOA
svc0.svc-nons.svc.cluster.local. A => NXDOMAIN aa | | SOA
svc1.unexposedns.svc.cluster.local. A => NXDOMAIN aa | | SOA
svc1@ TXT => NOERROR aa | | SOA
svc0.svc-nons.svc.cluster.local. TXT => NXDOMAIN aa | | SOA
bogusendpoint.hdls1@ A => NXDOMAIN aa | | SOA
bogusendpoint.svc0@ A => NXDOMAIN aa | | SOA
svc.cluster.local. A => NOERROR aa | | SOA
pod.cluster.local. A => NOERROR aa | | SOA
testns.svc.cluster.local. A => NOERROR aa | | SOA
svc.cluster.local. NS => NOERROR aa | | SOA
testns.svc.cluster.local. NS => NOERROR aa | | SOA
foo.cluster.local. NS => NXDOMAIN aa | | SOA
foo.svc.cluster.local. NS => NXDOMAIN aa | | SOA
svc1@ SOA => NOERROR aa | | SOA
endpoint.external@ CNAME => NXDOMAIN aa | | SOA
subdomain.subdomain.external@ CNAME => NXDOMAIN aa | | SOA
_http._tcp.external@ SRV => NXDOMAIN aa | | SOA
_none._tcp.svc1@ SRV => NXDOMAIN aa | | SOA
svc1@ HTTPS => NOERROR aa | | SOA
svc1@ ANY => NOERROR aa | | SOA
svc1@ MX => NOERROR aa | | SOA
webs.testns.pood.cluster.local. A => NXDOMAIN aa | | SOA
too.long.for.what.i.am.trying.to.pod.cluster.local. A => NXDOMAIN aa | | SOA
us-west-2a.pin._zone.hdls1@ A => NXDOMAIN aa | | SOA
us-west-2a.prefer._zone.hdls1@ AAAA => NXDOMAIN aa | | SOA
corp.example.com.pin._zone.hdls1@ A => NXDOMAIN aa | | SOA
us-west-2a._zone.hdls1@ A => NXDOMAIN aa | | SOA
172-0-0-2.cluster1.hdls1@ A => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn without_a_list_every_namespace_is_exposed() {
    table(
        "kubernetes cluster.local",
        "
svc1@ A => NOERROR aa | svc1@ 5 IN A 10.0.0.1
svc1.unexposedns.svc.cluster.local. A => NOERROR aa | svc1.unexposedns.svc.cluster.local. 5 IN A 10.0.0.2
svc1.nsnoexist.svc.cluster.local. A => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn pods_are_what_the_mode_says() {
    table(
        "kubernetes cluster.local {\n pods disabled\n }",
        "
10-240-0-1.podns.pod.cluster.local. A => NXDOMAIN aa | | SOA
172-0-0-2.podns.pod.cluster.local. A => NXDOMAIN aa | | SOA
fd00-240--1.podns.pod.cluster.local. AAAA => NXDOMAIN aa | | SOA
podns.pod.cluster.local. A => NXDOMAIN aa | | SOA
podns.pod.cluster.local. TXT => NXDOMAIN aa | | SOA
podns.pod.cluster.local. SRV => NXDOMAIN aa | | SOA
podns.pod.cluster.local. MX => NXDOMAIN aa | | SOA
podns.svc.cluster.local. A => NOERROR aa | | SOA
pod.cluster.local. A => NOERROR aa | | SOA
",
    );
    table(
        "kubernetes cluster.local {\n pods insecure\n }",
        "
10-240-0-1.podns.pod.cluster.local. A => NOERROR aa | 10-240-0-1.podns.pod.cluster.local. 5 IN A 10.240.0.1
172-0-0-2.podns.pod.cluster.local. A => NOERROR aa | 172-0-0-2.podns.pod.cluster.local. 5 IN A 172.0.0.2
fd00-240--9.podns.pod.cluster.local. AAAA => NOERROR aa | fd00-240--9.podns.pod.cluster.local. 5 IN AAAA fd00:240::9
blah.podns.pod.cluster.local. A => NXDOMAIN aa | | SOA
blah.podns.pod.cluster.local. AAAA => NXDOMAIN aa | | SOA
blah.podns.pod.cluster.local. HINFO => NXDOMAIN aa | | SOA
blah.pod-nons.pod.cluster.local. A => NXDOMAIN aa | | SOA
podns.pod.cluster.local. A => NOERROR aa | | SOA
",
    );
    table(
        "kubernetes cluster.local {\n pods verified\n }",
        "
10-240-0-1.podns.pod.cluster.local. A => NOERROR aa | 10-240-0-1.podns.pod.cluster.local. 5 IN A 10.240.0.1
fd00-240--1.podns.pod.cluster.local. AAAA => NOERROR aa | fd00-240--1.podns.pod.cluster.local. 5 IN AAAA fd00:240::1
podns.pod.cluster.local. A => NOERROR aa | | SOA
svcns.svc.cluster.local. A => NOERROR aa | | SOA
pod-nons.pod.cluster.local. A => NXDOMAIN aa | | SOA
172-0-0-2.podns.pod.cluster.local. A => NXDOMAIN aa | | SOA
fd00-240--9.podns.pod.cluster.local. AAAA => NXDOMAIN aa | | SOA
fd00-240--1.podns.pod.cluster.local. A => NOERROR aa | | SOA
fd00-240--1.podns.pod.cluster.local. TXT => NOERROR aa | | SOA
fd00-240--1.podns.pod.cluster.local. MX => NOERROR aa | | SOA
fd00-240-0-0-0-0-0-1.podns.pod.cluster.local. AAAA => NXDOMAIN aa | | SOA
fd00-240-0-0-0-0-0-1.podns.pod.cluster.local. MX => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn pods_that_share_an_address_are_all_there_until_the_last_one_goes() {
    let (mut index, records) =
        cluster(&format!("{CLUSTER}pod svcns/host 10.240.0.1,fd00:240::1\npod podns/more 10.240.0.1\n"), false);
    let plugin = plugin("kubernetes cluster.local {\n pods verified\n }", &records, &[]);
    let there = |namespace: &str| {
        let name = format!("10-240-0-1.{namespace}.pod.cluster.local.");
        ask(&plugin, &name, "A").starts_with("NOERROR")
    };
    assert!(there("podns") && there("svcns") && !there("testns"));
    let gone = |namespace: &str, name: &str| {
        let object = serde_json::json!({"metadata": {"namespace": namespace, "name": name}});
        Change::NoPod(serde_json::from_value(object).unwrap())
    };
    index.apply(gone("podns", "foo"), 8);
    assert!(there("podns") && there("svcns"));
    index.apply(gone("podns", "more"), 8);
    assert!(!there("podns") && there("svcns"));
    index.apply(gone("svcns", "host"), 8);
    assert!(!there("podns") && !there("svcns"));
}

#[test]
fn empty_services_can_be_left_out() {
    table(
        "kubernetes cluster.local {\n ignore empty_service\n }",
        "
svcempty@ A => NXDOMAIN aa | | SOA
svcempty@ SRV => NXDOMAIN aa | | SOA
svc6@ AAAA => NXDOMAIN aa | | SOA
svc1@ A => NOERROR aa | svc1@ 5 IN A 10.0.0.1
external@ CNAME => NOERROR aa | external@ 5 IN CNAME ext.interwebs.test.
",
    );
}

#[test]
fn answers_have_the_case_of_the_question() {
    table(
        EXPOSED,
        "
not-a-service.testns.svc.ClUsTeR.lOcAl. A => NXDOMAIN aa | | ClUsTeR.lOcAl. 5 IN SOA ns.dns.ClUsTeR.lOcAl. hostmaster.ClUsTeR.lOcAl. 7 7200 1800 86400 5
SvC1.TeStNs.SvC.cLuStEr.LoCaL. A => NOERROR aa | SvC1.TeStNs.SvC.cLuStEr.LoCaL. 5 IN A 10.0.0.1
SvC6.TeStNs.SvC.cLuStEr.LoCaL. AAAA => NOERROR aa | SvC6.TeStNs.SvC.cLuStEr.LoCaL. 5 IN AAAA 1234:abcd::1
_HtTp._TcP.sVc1.TeStNs.SvC.cLuStEr.LoCaL. SRV => NOERROR aa | _HtTp._TcP.sVc1.TeStNs.SvC.cLuStEr.LoCaL. 5 IN SRV 0 100 80 svc1.testns.svc.cLuStEr.LoCaL. | | svc1.testns.svc.cLuStEr.LoCaL. 5 IN A 10.0.0.1
Cluster.local. SOA => NOERROR aa | Cluster.local. 5 IN SOA ns.dns.Cluster.local. hostmaster.Cluster.local. 7 7200 1800 86400 5
",
    );
}

#[test]
fn an_endpoint_is_named_by_host_pod_or_address() {
    for (written, by_pod, label) in [
        ("10.11.12.13", false, "10-11-12-13"),
        ("epname=10.11.12.13", false, "epname"),
        ("hello-abcde@10.11.12.13", false, "10-11-12-13"),
        ("epname=hello-abcde@10.11.12.13", false, "epname"),
        ("epname=hello-abcde@10.11.12.13", true, "epname"),
        ("hello-abcde@10.11.12.13", true, "hello-abcde"),
        ("2001:db8:3333:4444:5555:6666:7777:8888", false, "2001-db8-3333-4444-5555-6666-7777-8888"),
        ("2001:db8:3333:4444:5555:6666::", false, "2001-db8-3333-4444-5555-6666--0"),
        ("hello-abcde@2001:db8::1", true, "hello-abcde"),
    ] {
        let lines = format!("namespace testns\nservice testns/h None\nslice testns/h/a {written} http/TCP/80");
        let (_index, records) = cluster(&lines, by_pod);
        let plugin = plugin("kubernetes cluster.local", &records, &[]);
        let address = written.rsplit(['=', '@']).next().unwrap();
        // The address as everybody writes it.
        let address: IpAddr = address.parse().unwrap();
        let rtype = if address.is_ipv6() { "AAAA" } else { "A" };
        let row = format!("{label}.h@ {rtype} => NOERROR aa | {label}.h@ 5 IN {rtype} {address}");
        holds(&row, |name, rtype| ask(&plugin, name, rtype));
    }
}

/// Questions that lead out of the cluster, asked of a whole server.
#[test]
fn names_outside_are_looked_up_through_the_server() {
    let many: Vec<String> = (0..100).map(|n| format!("ext.interwebs.test. 5 IN AAAA 2001:db8::{n:x}")).collect();
    let few = ["ext.interwebs.test. 5 IN A 192.0.2.4".to_owned()];
    let texts: Vec<&str> = many.iter().chain(&few).map(String::as_str).collect();
    let upstream = Upstream::start(&texts);
    let (_index, records) = cluster(CLUSTER, false);
    let (lasting, _cluster) = lasting(EXPOSED, &records);
    let corefile = format!(". {{\n {EXPOSED}\n forward . {}\n}}", upstream.address());
    let asked = Asked::with(&corefile, &lasting);
    holds(
        "
external@ A => NOERROR aa | external@ 5 IN CNAME ext.interwebs.test., ext.interwebs.test. 5 IN A 192.0.2.4
external@ CNAME => NOERROR aa | external@ 5 IN CNAME ext.interwebs.test.
cluster.local. AXFR => REFUSED
cluster.local. IXFR => REFUSED
",
        |name, rtype| asked.ask(name, rtype),
    );
    // What was cut on its way here is passed on as cut.
    let cut = asked.ask("external.testns.svc.cluster.local.", "AAAA");
    let start = "NOERROR aa tc | external.testns.svc.cluster.local. 5 IN CNAME ext.interwebs.test., ext.interwebs.test. 5 IN AAAA 2001:db8::";
    assert!(cut.starts_with(start), "{cut}");
}
