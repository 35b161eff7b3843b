//! As much of a Kubernetes API as a DNS server asks for: lists of so many dual-stack Services, and watches that tell nothing.

use crate::Result;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Bodies of the lists.
struct Lists {
    services: String,
    slices: String,
    namespaces: String,
}

/// Serves so many Services until the process ends. Where it listens.
pub(crate) fn start(services: u32) -> Result<SocketAddr> {
    let lists = Arc::new(Lists::new(services));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lists = Arc::clone(&lists);
            // A client that goes away ends its connection, and nothing else.
            std::thread::spawn(move || _ = converse(&stream, &lists));
        }
    });
    Ok(address)
}

/// The name of a Service.
pub(crate) fn name(number: u32) -> String {
    format!("service-{number}.bench.svc.cluster.local.")
}

impl Lists {
    fn new(count: u32) -> Self {
        let (mut services, mut slices) = (String::new(), String::new());
        for number in 0..count {
            let v4 = Ipv4Addr::from_bits(0x0a60_0001 + number);
            let v6 = Ipv6Addr::from_bits(0xfd00_0096_u128 << 96 | u128::from(number + 1));
            let (pod4, pod6) = (Ipv4Addr::from_bits(0x0b00_0001 + number), Ipv6Addr::from_bits(v6.to_bits() ^ 1 << 96));
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(
                services,
                r#"{comma}{{"metadata":{{"name":"service-{number}","namespace":"bench","resourceVersion":"1"}},"spec":{{"type":"ClusterIP","clusterIP":"{v4}","clusterIPs":["{v4}","{v6}"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":8080}}]}}}}"#
            );
            for (family, pod, comma) in [("IPv4", pod4.to_string(), comma), ("IPv6", pod6.to_string(), ",")] {
                let _ = write!(
                    slices,
                    r#"{comma}{{"metadata":{{"name":"service-{number}-{family}","namespace":"bench","resourceVersion":"1","labels":{{"kubernetes.io/service-name":"service-{number}"}}}},"addressType":"{family}","endpoints":[{{"addresses":["{pod}"],"conditions":{{"ready":true}}}}],"ports":[{{"name":"http","protocol":"TCP","port":8080}}]}}"#
                );
            }
        }
        let list = |kind: &str, version: &str, items: &str| {
            format!(
                r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{{"resourceVersion":"1"}},"items":[{items}]}}"#
            )
        };
        Self {
            services: list("Service", "v1", &services),
            slices: list("EndpointSlice", "discovery.k8s.io/v1", &slices),
            namespaces: list("Namespace", "v1", r#"{"metadata":{"name":"bench","resourceVersion":"1"}}"#),
        }
    }

    /// Code and body for a path with its query.
    fn answer(&self, path: &str) -> (u16, &str) {
        // Newer clients ask for a list in a watch; this makes them ask as all do.
        if path.contains("sendInitialEvents=true") {
            return (422, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}"#);
        }
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        match path {
            "/api/v1/services" => (200, &self.services),
            "/api/v1/namespaces" => (200, &self.namespaces),
            "/apis/discovery.k8s.io/v1/endpointslices" => (200, &self.slices),
            "/version" => (200, r#"{"major":"1","minor":"37","gitVersion":"v1.37.0"}"#),
            _ => (404, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#),
        }
    }
}

fn converse(stream: &TcpStream, lists: &Lists) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(request) = lines.next() {
        let request = request?;
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let (code, body) = lists.answer(path);
        let mut writer = stream;
        if code == 200 && (path.contains("watch=true") || path.contains("watch=1")) {
            writer.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            // Nothing ever happens; the client closes when it has enough.
            let _ = lines.next();
            return Ok(());
        }
        write!(
            writer,
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        writer.write_all(body.as_bytes())?;
    }
    Ok(())
}
