//! Precedence, unknown names and collected mistakes of `Settings`.

use super::*;

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

const PORT: DefaultFlag<u16> =
    Flag::new("port", "PORT", "a port from 0 to 65535", |text| text.parse().map_err(said), "a port").or("53");

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn said(error: std::num::ParseIntError) -> String {
    error.to_string()
}

fn port(settings: Settings) -> Result<u16, Mistakes> {
    settings.read(|given| Some(given.get(&PORT)))
}

const FILE: &str = "/etc/twinstack/dns.yaml";

#[test]
fn the_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let none = || Settings::new("dns");
    let file = || none().file_content(Path::new(FILE), b"port: 3");
    let environment = || file().environment(pairs([("TWINSTACK_DNS_PORT", "2"), ("TWINSTACK_PROXY_PORT", "9")]));
    let flag = || environment().flags(pairs([("port", "1")]));
    for (settings, expected) in [(none(), 53), (file(), 3), (environment(), 2), (flag(), 1)] {
        assert_eq!(port(settings).unwrap(), expected);
    }
}

#[test]
fn a_key_without_a_value_is_as_good_as_absent() {
    assert_eq!(port(Settings::new("dns").file_content(Path::new(FILE), b"port:\n")).unwrap(), 53);
}

#[test]
fn all_mistakes_of_all_sources_come_in_one_answer() {
    let result = Settings::new("controller-manager")
        .flags(pairs([("cluster-cidr", "10.0.0.0/33")]))
        .environment(pairs([
            ("TWINSTACK_CONTROLLER_MANAGER_PORT", "99999"),
            ("TWINSTACK_CONTROLLER_MANAGER_CLUSTER_CDIR", "x"),
        ]))
        .file_content(Path::new(FILE), b"prot: 1\nzzz: 2\ndeep: {a: [b]}\n")
        .read(|given| {
            given.get(&PORT);
            let refuse = |_: &str| Err::<(), _>("prefix length over 32".to_owned());
            let cidr = given.required(&Flag::new("cluster-cidr", "CIDR", "a CIDR", refuse, ""));
            let zone = given.required(&Flag::new("zone", "ZONE", "a domain name", |text| Ok(text.to_owned()), ""));
            given.reject(PORT.name, "taken by --zone");
            Some((cidr?, zone?))
        });
    assert_eq!(
        result.unwrap_err().to_string(),
        r#"configuration of controller-manager: 8 mistakes
  /etc/twinstack/dns.yaml: deep: nested too deep; accepted: a value, a list of values, or a mapping of names to values
  TWINSTACK_CONTROLLER_MANAGER_PORT "99999": number too large to fit in target type; accepted: a port from 0 to 65535
  --cluster-cidr "10.0.0.0/33": prefix length over 32; accepted: a CIDR
  --zone: must be given; accepted: a domain name
  TWINSTACK_CONTROLLER_MANAGER_PORT "99999": taken by --zone
  TWINSTACK_CONTROLLER_MANAGER_CLUSTER_CDIR: unknown variable; did you mean TWINSTACK_CONTROLLER_MANAGER_CLUSTER_CIDR?
  /etc/twinstack/dns.yaml: prot: unknown key; did you mean port?
  /etc/twinstack/dns.yaml: zzz: unknown key"#
    );
}

#[test]
fn variables_of_a_service_or_of_another_component_are_passed_over() {
    let settings = Settings::new("dns").environment(pairs([
        ("TWINSTACK_DNS_PORT", "tcp://10.0.0.10:53"),
        ("TWINSTACK_DNS_SERVICE_HOST", "10.0.0.10"),
        ("TWINSTACK_DNS_SERVICE_PORT", "53"),
        ("TWINSTACK_DNS_SERVICE_PORT_DNS_TCP", "53"),
        ("TWINSTACK_DNS_PORT_53_TCP_PROTO", "tcp"),
        ("TWINSTACK_DNS_OPERATOR_IMAGE", "x"),
    ]));
    assert_eq!(port(settings).unwrap(), 53);
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none.yaml");
    let message = port(Settings::new("dns").file(&path)).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("configuration of dns: {}: cannot be read: No such file or directory (os error 2)", path.display())
    );
}

#[test]
fn a_flag_nobody_asked_for_is_a_mistake() {
    let message = port(Settings::new("dns").flags(pairs([("prt", "1")]))).unwrap_err().to_string();
    assert_eq!(message, "configuration of dns: --prt: unknown flag; did you mean port?");
}

#[test]
fn a_commands_own_defaults_are_the_weakest_source() {
    let given = |flags: &[(&str, &str)]| {
        let flags = flags.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let settings = Settings::new("up").flags(flags).defaults([("port".to_owned(), "7".to_owned())]);
        port(settings).unwrap()
    };
    assert_eq!(given(&[]), 7);
    assert_eq!(given(&[("port", "9")]), 9);
}
