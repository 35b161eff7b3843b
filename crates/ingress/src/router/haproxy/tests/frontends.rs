//! Where HAProxy listens, and whom it lets in.

use super::*;

const TRUSTED: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "10.0.0.0/8,fd00::/8");
const PROXY: (&str, &str) = ("ROUTER_USE_PROXY_PROTOCOL", "true");
const WHOLE: (&str, &str) = ("ROUTER_PROXY_PROTOCOL_SPLIT_HEADERS", "false");

/// The lines of a section that say who may come, for port 80 whatever the port is.
fn arrivals(written: &Written, section: &str, port: &str) -> Vec<String> {
    let list = written.folder.path().join("generation-1/proxy-senders.list").display().to_string();
    let folder = written.folder.path().display().to_string();
    let is_arrival = |line: &&str| line.starts_with("bind") || line.contains("LIST") || line.contains("expect-proxy");
    let lines = written.section(section).into_iter().filter(|line| is_arrival(line) || line.contains(&list));
    lines.map(|line| line.replace(&list, "LIST").replace(&folder, "F").replace(port, ":80")).collect()
}

#[test]
fn binds_follow_the_mode_and_the_proxy_protocol() {
    for (variables, expected) in [
        (&[][..], &["bind 0.0.0.0:80"][..]),
        (&[("ROUTER_IP_V4_V6_MODE", "v6")], &["bind [::]:80 v6only"]),
        (&[("ROUTER_IP_V4_V6_MODE", "v4v6")], &["bind 0.0.0.0:80", "bind [::]:80 v6only"]),
        (
            &[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY, WHOLE],
            &["bind 0.0.0.0:80 accept-proxy", "bind [::]:80 v6only accept-proxy"],
        ),
        (&[("ROUTER_IP_V4_V6_MODE", "v6"), PROXY, WHOLE], &["bind [::]:80 v6only accept-proxy"]),
        (
            &[PROXY, WHOLE, TRUSTED],
            &["bind 0.0.0.0:80", "tcp-request connection expect-proxy layer4 if { src -f LIST }"],
        ),
        (&[TRUSTED], &["bind 0.0.0.0:80"]),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (section, port) in [("frontend public from", ":80"), ("frontend public_ssl ", ":443")] {
            assert_eq!(arrivals(&written, section, port), expected, "{variables:?} {section}");
        }
        assert!(!written.config.contains("1936"), "the health port is not HAProxy's");
        assert!(!written.config.contains("lua"), "nothing waits");
        written.check();
    }
}

#[test]
fn it_listens_where_it_is_told_to() {
    let both = ("ROUTER_IP_V4_V6_MODE", "v4v6");
    for (variables, expected) in [
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "127.0.0.1,::1")][..], &["bind 127.0.0.1:80", "bind [::1]:80 v6only"][..]),
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "::1,127.0.0.1")], &["bind 127.0.0.1:80", "bind [::1]:80 v6only"]),
        (&[both, ("ROUTER_LISTEN_ADDRESSES", "2001:db8::1")], &["bind [2001:db8::1]:80 v6only"]),
        (&[("ROUTER_LISTEN_ADDRESSES", "127.0.0.1,::1")], &["bind 127.0.0.1:80"]),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (section, port) in [("frontend public from", ":80"), ("frontend public_ssl ", ":443")] {
            assert_eq!(arrivals(&written, section, port), expected, "{variables:?} {section}");
        }
    }
}

/// In a folder of its own HAProxy finds its sockets, and nothing else, under other names.
#[test]
fn a_user_of_its_own_sees_its_sockets_and_nothing_else() {
    let settings = settings(&[PROXY, ("ROUTER_SYSLOG_ADDRESS", "/dev/log")]);
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path()).unwrap().with_jail(Some(Jail { uid: 1234, gid: 5678 }));
    let default_certificate = &default_certificate();
    let files = Files { settings: &settings, layout: &layout, default_certificate, service_ca: "" };
    write(files, 1, &cluster().model(Default::default())).unwrap();
    let text = fs::read_to_string(layout.config(1)).unwrap().replace(&folder.path().display().to_string(), "F");
    let global: Vec<&str> = text.lines().skip(2).take(3).map(str::trim).collect();
    assert_eq!(global, ["chroot F/run", "uid 1234", "gid 5678"]);
    for (name, bound, seen) in [
        (
            "behind the header",
            "bind unix@F/run/public.sock mode 600 uid 1234 gid 5678 accept-proxy",
            "unix@/public.sock",
        ),
        (
            "ends TLS",
            "bind unix@F/run/tls.sock mode 600 uid 1234 gid 5678 accept-proxy ssl",
            "unix@/tls.sock send-proxy-v2",
        ),
        ("logs", "stats socket F/admin.sock mode 600 level admin", "log /log.sock len"),
    ] {
        assert!(text.contains(bound), "{name}: {bound}\n{text}");
        assert!(text.contains(seen), "{name}: {seen}\n{text}");
    }
    let mode = |path: &std::path::Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
    assert_eq!(mode(&folder.path().join("run")), 0o711);
}

#[test]
fn a_frontend_in_front_waits_for_the_whole_header() {
    for (variables, expected) in [
        (&[PROXY][..], &["bind 0.0.0.0:80"][..]),
        (&[("ROUTER_IP_V4_V6_MODE", "v6"), PROXY], &["bind [::]:80 v6only"]),
        (&[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY], &["bind 0.0.0.0:80", "bind [::]:80 v6only"]),
        (
            &[("ROUTER_IP_V4_V6_MODE", "v4v6"), PROXY, TRUSTED],
            &[
                "bind 0.0.0.0:80",
                "bind [::]:80 v6only",
                "tcp-request content set-var(sess.own_address) int(1) unless { src -f LIST }",
                "tcp-request content accept unless { src -f LIST }",
            ],
        ),
    ] {
        let written = Written::new(&settings(variables), &cluster().model(Default::default()));
        for (name, port) in [("public", ":80"), ("public_ssl", ":443")] {
            let in_front = arrivals(&written, &format!("frontend header_{name} "), port);
            assert_eq!(in_front, expected, "{variables:?} {name}");
            let behind = arrivals(&written, &format!("frontend {name} "), port);
            assert_eq!(behind, [format!("bind unix@F/run/{name}.sock mode 600 accept-proxy")], "{variables:?} {name}");
        }
        assert!(written.section("global").contains(&"maxconn 100000"), "each connection is two");
        written.check();
    }
}

/// A spare is logged under the name that its Route has after the next reload, whatever the format.
#[test]
fn access_logs_name_the_route() {
    let model = cluster().model(Default::default());
    for (format, expected) in [
        ("", "log-format '%ci:%cp [%tr] %ft %[var(txn.name)]/%s "),
        ("it's %{+Q}b %bq", r"log-format 'it'\''s %{+Q}[var(txn.name)] %bq'"),
    ] {
        let settings = settings(&[("ROUTER_SYSLOG_ADDRESS", "stdout"), ("ROUTER_SYSLOG_FORMAT", format)]);
        let written = Written::new(&settings, &model);
        for frontend in ["frontend public from", "frontend fe_tls"] {
            assert!(written.section(frontend).iter().any(|line| line.starts_with(expected)), "{}", written.config);
        }
        let passed = "log-format '%ci:%cp [%t] %ft %[var(sess.name)]/%s ";
        assert!(
            written.section("frontend public_ssl").iter().any(|line| line.starts_with(passed)),
            "{}",
            written.config
        );
        assert_eq!(written.map("log-name.map"), "");
        written.check();
    }
    let silent = Written::new(&settings(&[]), &model);
    assert!(!silent.config.contains("log-format") && !silent.config.contains(".name)"), "{}", silent.config);
}
