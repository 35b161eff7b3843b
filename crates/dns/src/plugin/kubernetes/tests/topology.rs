//! Names of zones of the topology: endpoints of a headless Service that are near.

use super::{
    fixture::{cluster, holds},
    *,
};

const CLUSTER: &str = "
namespace testns
service testns/db None pg/TCP/5432
service testns/web 10.0.0.1,10::1 http/TCP/80
service testns/none None pg/TCP/5432
external testns/ext ext.interwebs.test
slice testns/db/a a1=172.0.0.1~Zone-a,b1=172.0.0.2~zone-b,far=172.0.0.3~corp.example.com,lost=172.0.0.4 pg/TCP/5432
slice testns/db/b a1=5678:abcd::1~Zone-a,b1=5678:abcd::2~zone-b pg/TCP/5432
slice testns/web/a 172.0.0.9~zone-a http/TCP/80
";

#[test]
fn endpoints_of_a_zone_have_a_name_in_both_families() {
    let (_index, records) = cluster(CLUSTER, false);
    let plugin = plugin("kubernetes cluster.local in-addr.arpa {\n zonal\n }", &records, &[]);
    let rows = "
zone-a.pin._zone.db@ A => NOERROR aa | zone-a.pin._zone.db@ 5 IN A 172.0.0.1
zone-a.pin._zone.db@ AAAA => NOERROR aa | zone-a.pin._zone.db@ 5 IN AAAA 5678:abcd::1
zone-B.prefer._zone.db@ A => NOERROR aa | zone-B.prefer._zone.db@ 5 IN A 172.0.0.2
zone-a.pin._zone.db@ SRV => NOERROR aa | zone-a.pin._zone.db@ 5 IN SRV 0 50 5432 a1.db@ | | a1.db@ 5 IN A 172.0.0.1, a1.db@ 5 IN AAAA 5678:abcd::1
corp.example.com.pin._zone.db@ A => NOERROR aa | corp.example.com.pin._zone.db@ 5 IN A 172.0.0.3
corp.example.com.pin._zone.db@ AAAA => NOERROR aa | | SOA
corp.example.com.prefer._zone.db@ AAAA => NOERROR aa | | SOA
example.com.pin._zone.db@ A => NOERROR aa | | SOA
zone-c.pin._zone.db@ A => NOERROR aa | | SOA
zone-c.pin._zone.db@ TXT => NOERROR aa | | SOA
zone-c.pin._zone.db@ MX => NOERROR aa | | SOA
zone-a.pin._zone.db@ TXT => NOERROR aa | | SOA
zone-a.pin._zone.none@ A => NOERROR aa | | SOA
zone-a.prefer._zone.none@ A => NOERROR aa | | SOA
none@ A => NXDOMAIN aa | | SOA
zone-c.prefer._zone.db@ AAAA => NOERROR aa | zone-c.prefer._zone.db@ 5 IN AAAA 5678:abcd::1, zone-c.prefer._zone.db@ 5 IN AAAA 5678:abcd::2
zone-a.near._zone.db@ A => NXDOMAIN aa | | SOA
zone-a.pin.zone.db@ A => NXDOMAIN aa | | SOA
pin._zone.db@ A => NXDOMAIN aa | | SOA
zone-a.pin._zone.web@ A => NXDOMAIN aa | | SOA
zone-a.pin._zone.web@ SRV => NXDOMAIN aa | | SOA
zone-a.pin._zone.web@ TXT => NXDOMAIN aa | | SOA
zone-a.pin._zone.ext@ A => NXDOMAIN aa | | SOA
zone-a.pin._zone.gone@ A => NXDOMAIN aa | | SOA
zone-a.pin._zone.db.other.svc.cluster.local. A => NXDOMAIN aa | | SOA
zone-a.pin._zone.db.testns.pod.cluster.local. A => NXDOMAIN aa | | SOA
";
    holds(rows, |name, rtype| ask(&plugin, name, rtype));
}

#[test]
fn nothing_changes_where_nobody_asked_for_zones() {
    let (_index, records) = cluster(CLUSTER, false);
    let plugin = plugin("kubernetes cluster.local", &records, &[]);
    for name in ["zone-a.pin._zone.db@", "zone-a.prefer._zone.db@", "zone-c.prefer._zone.db@"] {
        for rtype in ["A", "AAAA", "SRV", "TXT", "MX"] {
            holds(&format!("{name} {rtype} => NXDOMAIN aa | | SOA"), |name, rtype| ask(&plugin, name, rtype));
        }
    }
}
