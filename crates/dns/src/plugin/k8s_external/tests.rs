//! Services as the world outside sees them, in both families.

use super::*;
use crate::{
    chain::Chain,
    compile::Lasting,
    observe::Observers,
    plugin::kubernetes::tests::{outside, plugin},
    routes::Routes,
    testing::{Asked, refused},
};

/// What the plugin answers over this cluster, with a template below it that knows every name elsewhere.
fn asked(line: &str, stanza: &str, local: &[&str], cluster: &str) -> Asked {
    let (_index, records) = outside(cluster);
    let kubernetes = Arc::new(plugin(stanza, &records, local));
    let file = format!(". {{\n {line}\n kubernetes cluster.local\n}}");
    let file = crate::corefile::parse("Corefile", &file, &crate::corefile::Disk).unwrap();
    let lasting = Lasting::default();
    let external = read(&file.blocks[0].directives[0], &[Name::ROOT]).unwrap();
    assert!(external.cluster.set(kubernetes).is_ok());
    let elsewhere = crate::testing::build(
        ". {\n template IN A elsewhere.test {\n answer \"{{ .Name }} 60 IN A 198.51.100.7\"\n }\n template IN AAAA elsewhere.test {\n answer \"{{ .Name }} 60 IN AAAA 2001:db8::7\"\n }\n}",
    );
    let elsewhere = elsewhere.unwrap().routes.into_values().next().unwrap();
    let observers = || Observers::new(&lasting, &[Name::ROOT], &[53]);
    let chain =
        |plugins: Arc<[Box<dyn Plugin>]>| Chain { plugins, observers: observers(), nsid: None, reads_options: false };
    let mut routes = Routes::default();
    routes.add(&Name::ROOT, &Arc::new(chain([Box::new(external) as Box<dyn Plugin>].into())));
    let below = crate::testing::query("x.elsewhere.test.", rtype::A);
    let below = Arc::clone(elsewhere.chain(&below).unwrap());
    routes.add(&Name::parse("elsewhere.test").unwrap(), &below);
    Asked::over(routes)
}

const CLUSTER: &str = "
namespace testns
namespace other
service testns/web 10.0.0.1,10::1 http/TCP/80 https/TCP/443
outside testns/web 192.0.2.1,2001:db8::1
service testns/lb 10.0.0.2 http/TCP/80 https/TCP/443
outside testns/lb =lb.elsewhere.test
service testns/inner 10.0.0.3 http/TCP/80
service testns/plain 10.0.0.4
outside testns/plain 192.0.2.4
service testns/db None pg/TCP/5432
slice testns/db/a one=172.0.0.1,two=172.0.0.2 pg/TCP/5432
slice testns/db/b one=5678:abcd::1 pg/TCP/5432
service other/web 10.0.0.5 http/TCP/80
outside other/web 192.0.2.1
";

/// `name type => answer`; `%` is the zone, `SOA` its record.
fn holds(asked: &Asked, rows: &str) {
    let soa = "example.org. 5 IN SOA ns1.dns.example.org. hostmaster.dns.example.org. 7 7200 1800 86400 5";
    let mut wrong = String::new();
    for row in rows.lines().filter(|row| !row.is_empty()) {
        let (question, expected) = row.split_once(" => ").unwrap();
        let (name, rtype) = question.split_once(' ').unwrap();
        let got =
            asked.ask(&name.replace('%', ".example.org."), rtype).replace(soa, "SOA").replace(".example.org.", "%");
        if got != expected {
            wrong += &format!("{question}\n  expected {expected}\n  got      {got}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

const LINE: &str = "k8s_external example.org in-addr.arpa ip6.arpa";

#[test]
fn services_are_found_by_the_addresses_that_the_world_knows() {
    let asked = asked(LINE, "kubernetes cluster.local", &[], CLUSTER);
    holds(
        &asked,
        "
web.testns% A => NOERROR aa | web.testns% 5 IN A 192.0.2.1
Web.testns% AAAA => NOERROR aa | Web.testns% 5 IN AAAA 2001:db8::1
web.testns% TXT => NOERROR aa | | SOA
web.testns% PTR => NOERROR aa | | SOA
_https._tcp.web.testns% SRV => NOERROR aa | _https._tcp.web.testns% 5 IN SRV 0 50 443 web.testns% | | web.testns% 5 IN A 192.0.2.1, web.testns% 5 IN AAAA 2001:db8::1
_https._tcp.web.testns% A => NOERROR aa | _https._tcp.web.testns% 5 IN A 192.0.2.1
_dns._tcp.web.testns% SRV => NXDOMAIN aa | | SOA
plain.testns% A => NOERROR aa | plain.testns% 5 IN A 192.0.2.4
plain.testns% SRV => NOERROR aa | | SOA
_http._tcp.plain.testns% A => NXDOMAIN aa | | SOA
inner.testns% A => NXDOMAIN aa | | SOA
db.testns% A => NXDOMAIN aa | | SOA
none.testns% A => NXDOMAIN aa | | SOA
testns% A => NOERROR aa | | SOA
none% A => NXDOMAIN aa | | SOA
a.b.c.web.testns% A => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn names_of_load_balancers_are_followed() {
    let asked = asked(LINE, "kubernetes cluster.local {\n ttl 9\n }", &[], CLUSTER);
    holds(
        &asked,
        "
lb.testns% A => NOERROR aa | lb.testns% 9 IN CNAME lb.elsewhere.test., lb.elsewhere.test. 60 IN A 198.51.100.7
lb.testns% AAAA => NOERROR aa | lb.testns% 9 IN CNAME lb.elsewhere.test., lb.elsewhere.test. 60 IN AAAA 2001:db8::7
_http._tcp.lb.testns% SRV => NOERROR aa | _http._tcp.lb.testns% 9 IN SRV 0 100 80 lb.elsewhere.test. | | lb.elsewhere.test. 60 IN A 198.51.100.7, lb.elsewhere.test. 60 IN AAAA 2001:db8::7
lb.testns% MX => NOERROR aa | | SOA
",
    );
}

#[test]
fn addresses_lead_back_to_services_that_are_exposed() {
    let all = asked(LINE, "kubernetes cluster.local", &[], CLUSTER);
    let six = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(23));
    assert_eq!(
        all.ask("1.2.0.192.in-addr.arpa.", "PTR"),
        "NOERROR aa | 1.2.0.192.in-addr.arpa. 5 IN PTR web.other.example.org., 1.2.0.192.in-addr.arpa. 5 IN PTR web.testns.example.org."
    );
    assert_eq!(all.ask(&six, "PTR"), format!("NOERROR aa | {six} 5 IN PTR web.testns.example.org."));
    assert!(all.ask("9.2.0.192.in-addr.arpa.", "PTR").starts_with("NXDOMAIN aa | | in-addr.arpa. 5 IN SOA"));
    let some = asked(LINE, "kubernetes cluster.local {\n namespaces testns\n }", &[], CLUSTER);
    assert!(some.ask("1.2.0.192.in-addr.arpa.", "PTR").ends_with("PTR web.testns.example.org."));
    assert!(some.ask("web.other.example.org.", "A").starts_with("NXDOMAIN"));
}

#[test]
fn endpoints_of_headless_services_are_shown_where_asked() {
    let asked = asked("k8s_external example.org {\n headless\n }", "kubernetes cluster.local", &[], CLUSTER);
    holds(
        &asked,
        "
db.testns% A => NOERROR aa | db.testns% 5 IN A 172.0.0.1, db.testns% 5 IN A 172.0.0.2
db.testns% AAAA => NOERROR aa | db.testns% 5 IN AAAA 5678:abcd::1
one.db.testns% A => NOERROR aa | one.db.testns% 5 IN A 172.0.0.1
three.db.testns% A => NXDOMAIN aa | | SOA
_pg._tcp.db.testns% SRV => NOERROR aa | _pg._tcp.db.testns% 5 IN SRV 0 33 5432 one.db.testns%, _pg._tcp.db.testns% 5 IN SRV 0 33 5432 two.db.testns% | | one.db.testns% 5 IN A 172.0.0.1, two.db.testns% 5 IN A 172.0.0.2, one.db.testns% 5 IN AAAA 5678:abcd::1
web.testns% A => NOERROR aa | web.testns% 5 IN A 192.0.2.1
inner.testns% A => NXDOMAIN aa | | SOA
",
    );
}

#[test]
fn the_zone_has_a_name_server_of_its_own() {
    let rows = "
example.org. NS => NOERROR aa | example.org. 5 IN NS ns1.dns% | | ns1.dns% 5 IN A 192.0.2.53, ns1.dns% 5 IN AAAA 2001:db8::53
example.org. SOA => NOERROR aa | SOA
example.org. A => NOERROR aa | | SOA
dns% A => NOERROR aa | | SOA
ns1.dns% A => NOERROR aa | ns1.dns% 5 IN A 192.0.2.53
ns1.dns% AAAA => NOERROR aa | ns1.dns% 5 IN AAAA 2001:db8::53
ns1.dns% TXT => NOERROR aa | | SOA
ns2.dns% A => NXDOMAIN aa | | SOA
a.ns1.dns% A => NXDOMAIN aa | | SOA
";
    // Without a Service in front of it the machine's own addresses, else those of the Service.
    holds(&asked(LINE, "kubernetes cluster.local", &["127.0.0.1", "192.0.2.53", "2001:db8::53"], CLUSTER), rows);
    let behind = "
namespace kube-system
service kube-system/dns 10.0.0.10 dns/UDP/53
outside kube-system/dns 192.0.2.53,2001:db8::53,=lb.elsewhere.test
slice kube-system/dns/a 10.244.0.2 dns/UDP/53
";
    holds(&asked(LINE, "kubernetes cluster.local", &["10.244.0.2"], behind), rows);
}

#[test]
fn settings_are_obeyed() {
    let line = "k8s_external example.org {\n apex Ns\n ttl 60\n fallthrough testns.example.org\n }";
    let asked = asked(line, "kubernetes cluster.local", &[], CLUSTER);
    assert_eq!(asked.ask("web.testns.example.org.", "A"), "NOERROR aa | web.testns.example.org. 60 IN A 192.0.2.1");
    let soa = "example.org. 60 IN SOA ns1.ns.example.org. hostmaster.ns.example.org. 7 7200 1800 86400 60";
    assert_eq!(asked.ask("example.org.", "SOA"), format!("NOERROR aa | {soa}"));
    assert_eq!(asked.ask("none.other.example.org.", "A"), format!("NXDOMAIN aa | | {soa}"));
    // Nobody is below.
    assert_eq!(asked.ask("none.testns.example.org.", "A"), "SERVFAIL");
}

#[test]
fn mistakes_are_named() {
    for (lines, expected) in [
        ("k8s_external example.org", "plugin k8s_external: needs the kubernetes plugin in this block"),
        (
            "k8s_external {\n ttl 3601\n }\n kubernetes a.test",
            "\"3601\": plugin k8s_external: accepted: a number from 0 to 3600",
        ),
        (
            "k8s_external {\n apex a.b\n }\n kubernetes a.test",
            "\"a.b\": plugin k8s_external: accepted: one label, such as dns",
        ),
        ("k8s_external {\n headles\n }\n kubernetes a.test", "did you mean headless?"),
    ] {
        let problem = refused(&format!(". {{\n {lines}\n}}"));
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn what_goes_away_is_gone() {
    let (mut index, records) = outside(CLUSTER);
    let kubernetes = plugin("kubernetes cluster.local", &records, &[]);
    let address = "192.0.2.1".parse().unwrap();
    let zone = Name::parse("example.org").unwrap();
    assert_eq!(kubernetes.outside_owners(address, &zone).len(), 2);
    crate::plugin::kubernetes::tests::forget_service(&mut index, "testns", "web");
    assert_eq!(kubernetes.outside_owners(address, &zone), [Name::parse("web.other.example.org").unwrap()]);
    assert_eq!(kubernetes.outside(&[b"web", b"testns"], false), FoundOutside::NoName);
    // A new list that names no Service.
    crate::plugin::kubernetes::tests::forget_services(&mut index);
    assert_eq!(kubernetes.outside_owners(address, &zone), []);
}
