//! The whole command line, command by command: what the tables say agrees with itself and with what is read.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Flags of one name that are not the same in all commands, and why: another type, default or sentence of help.
const DIFFERENT: &[(&str, &str)] = &[
    ("anonymous-auth", "of the API server, and of a kubelet"),
    ("authorization-mode", "of the API server, and of a kubelet, which asks that one"),
    ("bind-address", "servers listen there, the proxy is reached there; up is for this machine alone"),
    ("cert-dir", "of the API server, and of a node"),
    ("client-ca-file", "of the API server, and of a kubelet"),
    ("cloud-config", "the manager wants what it means, plan its text, transform also that of standard input"),
    ("cloud-provider", "upstream's managers know different ones"),
    ("cluster-cidr", "each says what it does with pods' addresses; up has some"),
    ("cluster-domain", "the operator writes it into a Corefile, Pods look for names in it"),
    ("cluster-name", "upstream's word for what only clouds use"),
    ("config", "init reads kubeadm's file there, as kubeadm does"),
    ("configure-cloud-routes", "each says what it takes"),
    ("controllers", "each has its own; up says that they are controllers"),
    ("data-dir", "up has one"),
    ("dns-bind-address", "up always runs the server in its process"),
    ("dns-port", "up always runs the server in its process"),
    ("dry-run", "each says what it prints"),
    ("feature-gates", "programs take theirs, the transformer obeys one"),
    ("filename", "a Service, or the objects of a cluster"),
    ("healthz-bind-address", "kube-proxy's word, and kubelet's, whose port is another flag"),
    ("hostname-override", "explain can be asked about another node"),
    ("image", "each says whose"),
    ("kubeconfig", "doctor and trace are for people, who have kubectl's"),
    ("leader-elect-resource-name", "each has its own lease"),
    ("load-balancer-ip-range", "up says who gets them"),
    ("namespace", "doctor looks at all, a Service is in one"),
    ("nodeport-addresses", "explain is shorter"),
    ("object", "doctor looks at everything, a request goes to one"),
    ("operand", "each says what it runs"),
    ("output", "a form, or a file"),
    ("proxy-mode", "explain is shorter"),
    ("quiet", "where a server listens, or what to try"),
    ("secure-port", "each has its own"),
    ("server", "a program in an image, or where the API is"),
    ("service-cluster-ip-range", "the API server gives addresses of it away, the controllers keep off"),
    ("tls-cert-file", "each says to whom it is shown"),
    ("tls-private-key-file", "each says of what"),
];

#[test]
fn the_command_line_is_consistent() {
    clap().debug_assert();
}

#[test]
fn every_command_teaches_with_an_example() {
    for command in commands::ALL {
        assert!(command.example.contains("twinstack "), "{}", command.name);
        assert!(!command.about.ends_with('.'), "{}", command.name);
    }
}

#[test]
fn every_flag_has_a_help_and_a_default_that_it_takes() {
    for command in commands::ALL {
        let mut names = BTreeSet::new();
        for flag in flags(command) {
            let place = format!("{} --{}", command.name, flag.name());
            assert!(names.insert(flag.name()), "{place} is there twice");
            assert!(!flag.help().is_empty() && !flag.help().ends_with('.'), "{place}: {:?}", flag.help());
            assert!(!flag.value().is_empty(), "{place}");
            if flag.has_typed_default() {
                assert_eq!(flag.check(&flag.default_text()), Ok(()), "{place}: {:?}", flag.default_text());
            }
        }
    }
}

#[test]
fn a_flag_of_one_name_is_one_flag() {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for command in commands::ALL {
        for flag in flags(command) {
            let told = format!("{} {} {} [{}]", flag.type_name(), flag.value(), flag.help(), flag.default_text());
            all.entry(flag.name()).or_default().insert(told);
        }
    }
    let different: Vec<&str> = all.iter().filter(|(_, told)| told.len() > 1).map(|(name, _)| *name).collect();
    let listed: Vec<&str> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    assert_eq!(different, listed, "{:#?}", different.iter().map(|name| (name, &all[name])).collect::<Vec<_>>());
}

#[test]
fn what_a_command_lists_is_what_it_reads() {
    for command in commands::ALL {
        let mut asked = BTreeSet::new();
        // It may lack what must be given.
        let _ = Settings::new(command.name).read(|given| {
            let read = command.read(given);
            asked = given.asked().collect();
            read
        });
        let listed: BTreeSet<&str> = flags(command).map(AnyFlag::name).collect();
        let unread: Vec<_> = listed.difference(&asked).collect();
        assert_eq!(unread, Vec::<&&str>::new(), "{}", command.name);
        // Those of its parts can be given in files and the environment; of `proxy explain` those of `proxy`.
        if !matches!(command.name, "up" | "proxy explain") {
            let unlisted: Vec<_> = asked.difference(&listed).collect();
            assert_eq!(unlisted, Vec::<&&str>::new(), "{}", command.name);
        }
    }
}

#[test]
fn the_flags_of_coredns_may_have_one_dash() {
    let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    for (given, expected) in [
        ("twinstack dns -conf Corefile -dns.port=1053 -quiet", "twinstack dns --conf Corefile --dns.port=1053 --quiet"),
        ("twinstack dns -p 1053 --conf x", "twinstack dns -p 1053 --conf x"),
        ("twinstack up -conf x", "twinstack up -conf x"),
    ] {
        assert_eq!(one_dash(words(given)), words(expected));
    }
    assert_eq!(
        named(words("/usr/bin/coredns -conf x").into_iter()).collect::<Vec<_>>(),
        words("/usr/bin/coredns dns -conf x")
    );
    let matches = clap().try_get_matches_from(one_dash(words("coredns dns -conf x -p 1053"))).unwrap();
    let given = matches.subcommand_matches("dns").unwrap();
    assert_eq!(given.get_one::<String>("conf").map(String::as_str), Some("x"));
    assert_eq!(given.get_one::<String>("dns.port").map(String::as_str), Some("1053"));
}
