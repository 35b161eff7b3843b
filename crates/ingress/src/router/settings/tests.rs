//! The environment as the operator writes it, and mistakes in it.

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Settings, Vec<Mistake>> {
    Settings::from_environment(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn nothing_given_is_upstreams_defaults() {
    let settings = read(&[]).unwrap();
    assert_eq!((settings.listen.http, settings.listen.https, settings.listen.stats), (80, 443, 1936));
    assert_eq!(settings.listen.mode.families(), [Family::V4]);
    assert_eq!(settings.listen.proxy_protocol, ProxyProtocol::Off);
    assert_eq!(settings.timeouts.server, "30s");
    assert_eq!(settings.resources.max_connections, Some(50_000));
    assert!(settings.log.is_none() && settings.tls.http2 && settings.update_status);
}

#[test]
fn modes_and_senders() {
    for (mode, families) in [("v4", 1), ("v6", 1), ("v4v6", 2)] {
        assert_eq!(read(&[("ROUTER_IP_V4_V6_MODE", mode)]).unwrap().listen.mode.families().len(), families);
    }
    let trusted = ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "10.0.0.0/8,fd00::/8");
    for (variables, v4, v6, other) in [
        (&[("ROUTER_USE_PROXY_PROTOCOL", "true")][..], true, true, true),
        (&[("ROUTER_USE_PROXY_PROTOCOL", "true"), trusted], true, true, false),
        (&[trusted], false, false, false),
        (&[("ROUTER_USE_PROXY_PROTOCOL", "false"), trusted], false, false, false),
    ] {
        let proxy = read(variables).unwrap().listen.proxy_protocol;
        let expected = ["10.1.2.3", "fd00::1", "192.0.2.1"].map(|sender| proxy.expected_from(sender.parse().unwrap()));
        assert_eq!(expected, [v4, v6, other], "{variables:?}");
    }
}

#[test]
fn every_mistake_names_its_variable_value_and_what_is_accepted() {
    let mistakes = read(&[
        ("ROUTER_IP_V4_V6_MODE", "v5"),
        ("ROUTER_SERVICE_HTTP_PORT", "0"),
        ("ROUTER_DEFAULT_SERVER_TIMEOUT", "30s\nuser root"),
        ("ROUTER_CIPHERS", "a b"),
        ("ROUTER_USE_PROXY_PROTOCOL", "maybe"),
        ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", "10.0.0.1/8"),
        ("ROUTER_COOKIE_NAME", "a;b"),
        ("ROUTE_LABELS", "a b"),
    ])
    .unwrap_err();
    assert_eq!(mistakes.len(), 8, "{mistakes:#?}");
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert!(lines.contains(&"ROUTER_IP_V4_V6_MODE: \"v5\" cannot be used; accepted: v4, v6, v4v6".to_owned()));
}

#[test]
fn logs_go_where_they_are_asked_to() {
    for (address, expected) in [
        ("stdout", Some(LogTo::Stdout)),
        ("10.0.0.1:514", Some(LogTo::Syslog("10.0.0.1:514".to_owned()))),
        ("[fd00::1]:514", Some(LogTo::Syslog("fd00::1:514".to_owned()))),
        ("/var/lib/rsyslog/rsyslog.sock", Some(LogTo::Syslog("/var/lib/rsyslog/rsyslog.sock".to_owned()))),
        ("", None),
    ] {
        assert_eq!(read(&[("ROUTER_SYSLOG_ADDRESS", address)]).unwrap().log.map(|log| log.to), expected);
    }
    assert!(read(&[("ROUTER_SYSLOG_ADDRESS", "here")]).is_err());
}

#[test]
fn texts_that_come_quoted_are_taken_without_quotes() {
    let settings = read(&[
        ("ROUTER_SYSLOG_ADDRESS", "stdout"),
        ("ROUTER_SYSLOG_FORMAT", r#""%ci \"%r\" \\""#),
        ("ROUTER_ENABLE_COMPRESSION", "true"),
        ("ROUTER_COMPRESSION_MIME", r#"text/html "text/css; charset=utf-8" application/json"#),
    ])
    .unwrap();
    assert_eq!(settings.log.unwrap().format.as_deref(), Some(r#"%ci "%r" \"#));
    assert_eq!(settings.http.compression.unwrap(), ["text/html", "text/css", "application/json"]);
}

#[test]
fn headers_and_captures_for_all_routes() {
    let settings = read(&[
        ("ROUTER_HTTP_REQUEST_HEADERS", "X-A:it%27s%20%25%5Breq.hdr%28host%29%2Clower%5D:Set,X-B:Delete"),
        ("ROUTER_HTTP_RESPONSE_HEADERS", "X-C:a%3Ab:Set"),
        ("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "Host:15,Referer:10"),
        ("ROUTER_CAPTURE_HTTP_COOKIE", "session=:9"),
    ])
    .unwrap();
    let values: Vec<Option<&str>> = settings.http.request_headers.iter().map(|rule| rule.value.as_deref()).collect();
    assert_eq!(values, [Some("it's %[req.hdr(host),lower]"), None]);
    assert_eq!(settings.http.response_headers[0].value.as_deref(), Some("a:b"));
    assert_eq!(settings.http.captures.len(), 3);
    for (name, value) in [
        ("ROUTER_HTTP_REQUEST_HEADERS", "X-A:%25%5Bsrc%5D:Set"),
        ("ROUTER_HTTP_REQUEST_HEADERS", "X-A:a%0Ab:Set"),
        ("ROUTER_HTTP_REQUEST_HEADERS", "Host:a:Set"),
        ("ROUTER_HTTP_RESPONSE_HEADERS", "X-A:%zz:Set"),
        ("ROUTER_CAPTURE_HTTP_REQUEST_HEADERS", "a b:1"),
        ("ROUTER_CAPTURE_HTTP_COOKIE", "a"),
        ("ROUTER_UNIQUE_ID_FORMAT", "%nonsense"),
        ("ROUTER_UNIQUE_ID_FORMAT", "%[env(HOME)]"),
        ("ROUTER_SYSLOG_FORMAT", "%[lua.f]"),
        ("ROUTER_H1_CASE_ADJUST", "X-A,X-a"),
        ("ROUTER_H1_CASE_ADJUST", "a b"),
        ("ROUTER_PROXY_PROTOCOL_TRUSTED_CIDRS", ","),
        ("ROUTER_MUTUAL_TLS_AUTH", "required"),
    ] {
        assert_eq!(read(&[(name, value)]).unwrap_err().len(), 1, "{name}={value}");
    }
}
