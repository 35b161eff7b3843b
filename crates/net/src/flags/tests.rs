//! Tables of flag texts, for every shape of cluster.

use super::*;

#[test]
fn a_list_of_one_or_two_families_keeps_its_order() {
    for text in ["10.244.0.0/16", "fd00::/48", "10.244.0.0/16,fd00::/48", "fd00::/48,10.244.0.0/16"] {
        assert_eq!(one_or_pair::<Cidr>("cluster-cidr", text).unwrap().to_string(), text);
        assert_eq!(one_or_pair::<Cidr>("cluster-cidr", &text.replace(',', " , ")).unwrap().to_string(), text);
    }
    for text in ["0.0.0.0", "::", "0.0.0.0,::", "::,0.0.0.0"] {
        assert_eq!(one_or_pair::<IpAddr>("bind-address", text).unwrap().to_string(), text);
    }
}

#[test]
fn a_list_reports_all_of_its_mistakes() {
    for (text, message) in [
        ("", "--cluster-cidr is empty; give one CIDR, or one of each family separated by a comma"),
        (
            "10.244.0.0/16,",
            r#"--cluster-cidr: value 2 of "10.244.0.0/16," is empty; give one CIDR, or one of each family"#,
        ),
        (
            "10.0.0.0/16,10.1.0.0/16",
            "--cluster-cidr: 10.0.0.0/16 and 10.1.0.0/16 are both IPv4; give one CIDR, or one of each family",
        ),
        (
            "fd00::/48,fd01::/48",
            "--cluster-cidr: fd00::/48 and fd01::/48 are both IPv6; give one CIDR, or one of each family",
        ),
        (
            "10.0.0.1/16,fd00::1/48,pods",
            concat!(
                "--cluster-cidr: \"10.0.0.1/16\" has host bits set; write 10.0.0.0/16\n",
                "--cluster-cidr: \"fd00::1/48\" has host bits set; write fd00::/48\n",
                "--cluster-cidr: \"pods\" is not an IP address; accepted are CIDRs like 10.0.0.0/16 and fd00::/64\n",
                "--cluster-cidr: \"10.0.0.1/16,fd00::1/48,pods\" has 3 values; give one CIDR, or one of each family",
            ),
        ),
    ] {
        assert_eq!(one_or_pair::<Cidr>("cluster-cidr", text).unwrap_err().to_string(), message);
    }
}

#[test]
fn service_ranges_have_the_size_that_services_need() {
    for text in ["10.96.0.0/12", "fd00::/112", "10.96.0.0/12,fd00::/64", "fd00::/108,10.0.0.0/8"] {
        assert_eq!(service_ranges(text).unwrap().to_string(), text);
    }
    assert_eq!(
        service_ranges("10.0.0.0/30,fd00::/48").unwrap_err().to_string(),
        "--service-cluster-ip-range: 10.0.0.0/30 is too small (4 of at least 8 addresses); use a prefix of /29 or shorter\n\
         --service-cluster-ip-range: fd00::/48 is too big; use an IPv6 prefix of /64 or longer"
    );
}

#[test]
fn a_node_ip_pair_names_both_addresses() {
    assert_eq!(node_ip(""), Ok(None));
    for text in ["10.0.0.1", "fd00::1", "10.0.0.1,fd00::1", "fd00::1,10.0.0.1", "0.0.0.0", "::"] {
        assert_eq!(node_ip(text).unwrap().unwrap().to_string(), text);
    }
    let rule = "is not the address of one machine; \
                a pair names both addresses; 0.0.0.0 or :: may stand alone, to detect one";
    assert_eq!(node_ip("0.0.0.0,fd00::1").unwrap_err().to_string(), format!("--node-ip: 0.0.0.0 {rule}"));
    assert_eq!(
        node_ip("::,0.0.0.0").unwrap_err().to_string(),
        format!("--node-ip: :: {rule}\n--node-ip: 0.0.0.0 {rule}")
    );
}

#[test]
fn the_advertised_address_has_the_family_of_the_first_service_range() {
    for (text, family) in [
        ("10.0.0.1", Family::V4),
        ("fd00::1", Family::V6),
        ("10.0.0.1,fd00::1", Family::V4),
        ("fd00::1,10.0.0.1", Family::V6),
        ("127.0.0.1", Family::V4),
    ] {
        assert_eq!(advertise_address(text, family).unwrap().to_string(), text);
        assert_eq!(advertise_address(text, family.other()).unwrap_err().iter().count(), 1);
    }
    assert_eq!(
        advertise_address("::,10.0.0.1", Family::V4).unwrap_err().to_string(),
        "--advertise-address: :: is not the address of one machine; give an address that other machines reach\n\
         --advertise-address: :: is IPv6, but the first service range is IPv4; put an IPv4 address first"
    );
}

#[test]
fn node_ports_can_be_switched_off() {
    assert_eq!(node_port_range("0-0"), Ok(None));
    assert_eq!(node_port_range("30000-32767"), Ok(Some(PortRange::NODE_PORTS)));
    assert_eq!(
        node_port_range("32767-30000").unwrap_err().to_string(),
        "--service-node-port-range: port range 32767-30000 ends before it begins; write 30000-32767"
    );
}
