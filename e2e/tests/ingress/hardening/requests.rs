//! Requests that could be read in two ways.

use super::*;

#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    everywhere("requests", "hostile requests to a real HAProxy", hostile_requests);
}

/// One host: `/private` is for addresses that nobody here has, all else is open.
fn hostile_requests(world: &World) {
    (0..2).for_each(|pod| world.pod(pod, POD_PORT));
    world.service("open", &[0], POD_PORT);
    world.service("guarded", &[1], POD_PORT);
    let (chain, key) = certificate("a.test");
    let tls =
        json!({"termination": "edge", "insecureEdgeTerminationPolicy": "Allow", "certificate": chain, "key": key});
    let guard = json!({"haproxy.router.openshift.io/ip_allowlist": "203.0.113.0/24"});
    world.route("root", "a.test", "open", json!({"tls": tls}), json!({}));
    world.route("private", "a.test", "guarded", json!({"path": "/private", "tls": tls}), guard);
    world.route("public", "a.test", "open", json!({"path": "/public", "tls": tls}), json!({}));
    let router = world.router("requests", 8080, &[]);
    let (http, https) = (router.ports.http, router.ports.https);
    for address in LOOPBACK {
        world.until((address, http), "a.test", "/", "pod-0 answers");
        world.until((address, http), "a.test", "/private", "403 forbidden");
        for (host, expected) in [
            ("a.test", "200"),
            ("A.Test.:8080", "200"),
            ("[::1]:8080", "503"),
            ("127.0.0.1", "503"),
            ("none_such.test", "503"),
            ("a.test/public", "400"),
            ("a.test/private", "400"),
            ("a.test:80/public", "400"),
            ("u@a.test", "400"),
            ("b.test,a.test", "400"),
            ("a.test b", "400"),
            ("a.test?", "400"),
            ("a.test#", "400"),
            ("a.test\\", "400"),
            ("a..test", "400"),
            ("*", "400"),
            ("", "400"),
            ("a.test\0", "400"),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = raw(world, address, http, request.as_bytes());
            assert!(answer.starts_with(&format!("http/1.1 {expected}")), "{host:?} at {address}: {answer}");
        }
        for (path, expected) in [
            ("/private/x", "403"),
            ("//private", "403"),
            ("/%70rivate", "403"),
            ("/%2fprivate", "403"),
            ("/private%2Fx", "403"),
            ("/./private", "400"),
            ("/public/../private", "400"),
            ("/public/%2e%2E/private", "400"),
            ("/public%2f..%2fprivate", "400"),
            ("/%zz", "400"),
            ("/100%", "400"),
            ("/private%00", "400"),
            ("/.well-known/x", "200"),
            ("/a%2Fb;c=d?x=%zz/../y", "200"),
            ("/privately", "200"),
            ("/public/x", "200"),
        ] {
            let answer = world.ask((address, http), &[], "a.test", path);
            assert!(answer.starts_with(&format!("http/1.1 {expected}")), "{path:?} at {address}: {answer}");
            // What is let through reaches the pod as it was.
            assert!(expected != "200" || answer.contains(&format!("get {path} http/1.1").to_lowercase()), "{answer}");
        }
        lines_and_headers(world, address, http);
        over_tls(world, address, https);
    }
}

fn lines_and_headers(world: &World, address: &str, port: u16) {
    let host = "Host: a.test\r\nConnection: close\r\n";
    for (name, request, expected) in [
        ("trace", format!("TRACE / HTTP/1.1\r\n{host}\r\n"), "405"),
        ("connect", format!("CONNECT a.test:80 HTTP/1.1\r\n{host}\r\n"), "40"),
        ("1.2", format!("GET / HTTP/1.2\r\n{host}\r\n"), "505"),
        ("2.0 in a line", format!("GET / HTTP/2.0\r\n{host}\r\n"), "505"),
        ("9.9", format!("GET / HTTP/9.9\r\n{host}\r\n"), "505"),
        ("no version", "GET /\r\n\r\n".to_owned(), "400"),
        ("1.0", format!("GET / HTTP/1.0\r\n{host}\r\n"), "200"),
        ("1.0 without a host", "GET / HTTP/1.0\r\n\r\n".to_owned(), "503"),
        ("1.1 without a host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), "400"),
        ("two hosts", format!("GET / HTTP/1.1\r\nHost: b.test\r\n{host}\r\n"), "400"),
        ("NUL", format!("GET / HTTP/1.1\r\n{host}X: a\0b\r\n\r\n"), "400"),
        ("x00", format!("GET / HTTP/1.1\r\n{host}X: ax00b\r\n\r\n"), "200"),
        ("a whole URL", format!("GET http://a.test/x HTTP/1.1\r\n{host}\r\n"), "200"),
        ("a URL without a path", format!("GET http://a.test HTTP/1.1\r\n{host}\r\n"), "200"),
        ("another URL", format!("GET http://b.test/x HTTP/1.1\r\n{host}\r\n"), "400"),
        ("a URL with a guarded path", format!("GET http://a.test/private HTTP/1.1\r\n{host}\r\n"), "403"),
        ("a URL with a name", format!("GET http://u@a.test/x HTTP/1.1\r\n{host}\r\n"), "400"),
        ("a URL without Host", "GET http://a.test/ HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), "400"),
        ("no path", format!("GET * HTTP/1.1\r\n{host}\r\n"), "503"),
        ("two lengths", format!("POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "400"),
        ("unknown chunks", format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n"), "400"),
        ("chunks of 1.0", format!("POST / HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "400"),
    ] {
        let answer = raw(world, address, port, request.as_bytes());
        assert!(answer.starts_with(&format!("http/1.1 {expected}")), "{name} at {address}: {answer}");
        let origin = name.starts_with("a ") && expected == "200";
        assert!(!origin || !answer.contains("get http"), "pods are asked as origins are: {answer}");
    }
    // With a length beside chunks the chunks count, the length is not passed on, and what follows is no request.
    let smuggled = format!(
        "POST /x HTTP/1.1\r\n{host}Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /private HTTP/1.1\r\nHost: a.test\r\n\r\n"
    );
    let answer = raw(world, address, port, smuggled.as_bytes());
    assert!(answer.contains("pod-0 answers") && !answer.contains("content-length: 60"), "{answer}");
    assert!(!answer.contains("/private"), "{answer}");
}

/// The same rules behind TLS, with both versions of HTTP.
fn over_tls(world: &World, address: &str, port: u16) {
    for version in ["--http1.1", "--http2"] {
        for (words, path, expected) in [
            (&[][..], "/", "200"),
            (&["-H", "Host: a.test/public"], "/private", "400"),
            (&["-H", "Host: u@a.test"], "/", "400"),
            (&["-H", "Host: A.Test."], "/private", "403"),
            (&[], "/private", "403"),
            (&[], "//private", "403"),
            (&[], "/%70rivate", "403"),
            (&[], "/public/../private", "400"),
            (&["-X", "TRACE"], "/", "405"),
        ] {
            let mut all = vec![version];
            all.extend(words);
            let answer = curl(world, address, port, &all, &format!("https://a.test{path}"));
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert_eq!(status, expected, "{version} {words:?} {path} at {address}: {answer}");
            assert_eq!(answer.starts_with("http/2"), version == "--http2", "{answer}");
        }
    }
}
