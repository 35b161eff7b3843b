//! As much of a Kubernetes API as a DNS server asks for: lists of so many dual-stack Services, and watches that tell nothing.

use crate::Result;
use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

/// Items of the lists.
struct Lists {
    services: Vec<String>,
    slices: Vec<String>,
    namespaces: Vec<String>,
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
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for number in 0..count {
            let v4 = Ipv4Addr::from_bits(0x0a60_0001 + number);
            let v6 = Ipv6Addr::from_bits(0xfd00_0096_u128 << 96 | u128::from(number + 1));
            let (pod4, pod6) = (Ipv4Addr::from_bits(0x0b00_0001 + number), Ipv6Addr::from_bits(v6.to_bits() ^ 1 << 96));
            services.push(format!(
                r#"{{"metadata":{{"name":"service-{number}","namespace":"bench","resourceVersion":"1"}},"spec":{{"type":"ClusterIP","clusterIP":"{v4}","clusterIPs":["{v4}","{v6}"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":8080}}]}}}}"#
            ));
            for (family, pod) in [("IPv4", pod4.to_string()), ("IPv6", pod6.to_string())] {
                slices.push(format!(
                    r#"{{"metadata":{{"name":"service-{number}-{family}","namespace":"bench","resourceVersion":"1","labels":{{"kubernetes.io/service-name":"service-{number}"}}}},"addressType":"{family}","endpoints":[{{"addresses":["{pod}"],"conditions":{{"ready":true}}}}],"ports":[{{"name":"http","protocol":"TCP","port":8080}}]}}"#
                ));
            }
        }
        Self { services, slices, namespaces: vec![r#"{"metadata":{"name":"bench","resourceVersion":"1"}}"#.to_owned()] }
    }

    /// Code and body for a path with its query.
    fn answer(&self, path: &str) -> (u16, String) {
        let failure = |code, reason| {
            let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason""#;
            (code, format!(r#"{body}:"{reason}","code":{code}}}"#))
        };
        // Newer clients ask for a list in a watch; this makes them ask as all do.
        if path.contains("sendInitialEvents=true") {
            return failure(422, "Invalid");
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (kind, version, items) = match path {
            "/api/v1/services" => ("Service", "v1", &self.services),
            "/api/v1/namespaces" => ("Namespace", "v1", &self.namespaces),
            "/apis/discovery.k8s.io/v1/endpointslices" => ("EndpointSlice", "discovery.k8s.io/v1", &self.slices),
            "/version" => return (200, r#"{"major":"1","minor":"37","gitVersion":"v1.37.0"}"#.to_owned()),
            _ => return failure(404, "NotFound"),
        };
        // As the real one: who takes any version gets everything at once, others get pages.
        let asked = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let number = |key: &str| asked(key).and_then(|text| text.parse::<usize>().ok());
        let start = number("continue").unwrap_or(0).min(items.len());
        let limit = number("limit").filter(|limit| *limit > 0 && asked("resourceVersion") != Some("0"));
        let end = limit.map_or(items.len(), |limit| (start + limit).min(items.len()));
        let next = if end < items.len() { format!(r#","continue":"{end}""#) } else { String::new() };
        let metadata = format!(r#"{{"resourceVersion":"1"{next}}}"#);
        let items = items[start..end].join(",");
        (200, format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{metadata},"items":[{items}]}}"#))
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
