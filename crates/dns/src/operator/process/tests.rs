//! The Corefile of the cluster, on this machine.

use super::*;
use std::str::FromStr;

fn local(hosts: &str, port: u16) -> Local {
    let kubeconfig = Some(PathBuf::from("/data/admin.kubeconfig"));
    Local {
        hosts: Hosts::from_str(hosts).unwrap(),
        port,
        kubeconfig,
        folder: PathBuf::from("/data/dns"),
        records: false,
        threads: 1,
    }
}

const CLUSTER: &str = "# tls
secure.example.com:5353 {
    prometheus :9153
    forward . tls://192.0.2.1 {
        tls_servername dns.example.com
        tls /etc/pki/dns.example.com-ca-corp-7/ca-bundle.crt
        policy random
    }
}
.:5353 {
    health {
        lameduck 20s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    prometheus :9153
    reload
}
hostname.bind:5353 {
    chaos
}
";

const HERE: &str = "secure.example.com:10053 {
    bind 127.0.0.1 ::1
    forward . tls://192.0.2.1 {
        tls_servername dns.example.com
        tls /data/dns/etc/pki/dns.example.com-ca-corp-7/ca-bundle.crt
        policy random
    }
}
.:10053 {
    bind 127.0.0.1 ::1
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        kubeconfig /data/admin.kubeconfig
    }
    reload 2s 1s
}
hostname.bind:10053 {
    bind 127.0.0.1 ::1
    chaos
}
";

#[test]
fn addresses_ports_and_files_are_those_of_this_machine() {
    let adapted = local("127.0.0.1,::1", 10053).adapted(CLUSTER).unwrap();
    assert_eq!(adapted.to_string(), HERE);
    // The server hashes what it reads: the same text.
    let read = corefile::parse("Corefile", HERE, &Disk).unwrap().to_string();
    assert_eq!(local("127.0.0.1,::1", 10053).hash(CLUSTER), Some(sha512(&read)));
    let everywhere = local("::", 53).adapted(CLUSTER).unwrap().to_string();
    assert!(everywhere.contains(".:53 {\n    kubernetes") && !everywhere.contains("bind 1"), "{everywhere}");
    let v6 = local("::1", 0).adapted(CLUSTER).unwrap().to_string();
    assert!(v6.contains(".:0 {\n    bind ::1\n"), "{v6}");
}

/// In the block of all names alone: the others are somebody's zones.
#[test]
fn records_of_the_cluster_are_answered_where_they_are_asked_for() {
    let adapted = Local { records: true, ..local("127.0.0.1,::1", 10053) }.adapted(CLUSTER).unwrap().to_string();
    let records =
        "    reload 2s 1s\n    dnsrecords {\n        kubeconfig /data/admin.kubeconfig\n    }\n}\nhostname.bind";
    assert!(adapted.contains(records) && adapted.matches("dnsrecords").count() == 1, "{adapted}");
}

#[test]
fn no_path_leads_out_of_the_folder() {
    for (path, expected) in [
        ("/etc/pki/a/ca-bundle.crt", "/data/dns/etc/pki/a/ca-bundle.crt"),
        ("/../../etc/passwd", "/data/dns/etc/passwd"),
        ("a/./../b", "/data/dns/a/b"),
    ] {
        assert_eq!(adapt::here(path, std::path::Path::new("/data/dns")).display().to_string(), expected);
    }
}
