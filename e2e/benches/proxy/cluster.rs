//! Services and their slices, by the thousand, over a few connections that stay open.

use e2e::proxy_lab::{Lab, PLAIN_API, PODS};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    ops::Range,
    thread,
};

const CONNECTIONS: usize = 12;
/// The Service that is asked.
pub(crate) const PROBE: [&str; 2] = ["10.96.0.50", "fd00:10:96::50"];

/// The Service whose endpoint changes.
pub(crate) fn make_probe(lab: &Lab) {
    lab.apply(&service("probe", [PROBE[0].to_owned(), PROBE[1].to_owned()]));
    for family in [0, 1] {
        lab.apply(&probe_slice(family, 0));
    }
}

/// Its endpoint of a family is a pod of the lab.
pub(crate) fn probe_slice(family: usize, pod: usize) -> Value {
    slice("probe", family, vec![PODS[pod][family].to_owned()])
}

fn service(name: &str, ips: [String; 2]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilyPolicy": "RequireDualStack",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    })
}

fn slice(service: &str, family: usize, addresses: Vec<String>) -> Value {
    let endpoint = |ip: String| json!({"addresses": [ip], "nodeName": "n2", "conditions": {"ready": true}});
    let endpoints: Vec<Value> = addresses.into_iter().map(endpoint).collect();
    let kind = ["IPv4", "IPv6"][family];
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-{family}"), "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
        "addressType": kind, "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// Where the Services that are made by the thousand lead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leads {
    /// To three endpoints each, where nobody is.
    Nowhere,
    /// To the lab's first pod.
    ToPod,
}

/// Addresses of the Service with a number.
pub(crate) fn addresses(number: usize) -> [String; 2] {
    let low = number + 256;
    [format!("10.96.{}.{}", low / 256, low % 256), format!("fd00:10:96::{low:x}")]
}

/// Makes Services with these numbers, dual-stack.
pub(crate) fn fill(lab: &Lab, numbers: Range<usize>, leads: Leads) {
    thread::scope(|scope| {
        for worker in 0..CONNECTIONS {
            let mine = numbers.clone().skip(worker).step_by(CONNECTIONS);
            scope.spawn(move || {
                let made = lab.node.within(|| {
                    mine.map(|number| Made { number, leads })
                        .try_fold(Connection::open()?, |connection, made| made.make(connection))
                });
                made.expect("entered").expect("objects can be made");
            });
        }
    });
}

struct Made {
    number: usize,
    leads: Leads,
}

impl Made {
    fn make(self, mut connection: Connection) -> std::io::Result<Connection> {
        let Self { number, leads } = self;
        let name = format!("service-{number}");
        connection.post("/api/v1/namespaces/default/services", &service(&name, addresses(number)))?;
        for family in [0, 1] {
            let ip = |pod: usize| match family {
                0 => format!("10.{}.{}.{}", 128 + pod / 65_536, pod / 256 % 256, pod % 256),
                _ => format!("fd45::{:x}:{:x}", pod / 65_536 + 1, pod % 65_536),
            };
            let pods = match leads {
                Leads::Nowhere => (1..=3).map(|at| ip(number * 3 + at)).collect(),
                Leads::ToPod => vec![PODS[0][family].to_owned()],
            };
            connection
                .post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice(&name, family, pods))?;
        }
        Ok(connection)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open() -> std::io::Result<Self> {
        let stream = TcpStream::connect(PLAIN_API)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Waits for the answer, which must be that it was made.
    fn post(&mut self, path: &str, object: &Value) -> std::io::Result<()> {
        let body = object.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        let status = self.line()?;
        let mut length = None;
        loop {
            let line = self.line()?.to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("content-length:") {
                length = text.trim().parse::<u64>().ok();
            }
        }
        let mut answer = Vec::new();
        match length {
            Some(length) => drop((&mut self.stream).take(length).read_to_end(&mut answer)?),
            None => self.chunks(&mut answer)?,
        }
        let good = status.contains(" 201 ");
        assert!(good, "{status} {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    fn chunks(&mut self, answer: &mut Vec<u8>) -> std::io::Result<()> {
        loop {
            let length = u64::from_str_radix(&self.line()?, 16).map_err(std::io::Error::other)?;
            (&mut self.stream).take(length).read_to_end(answer)?;
            self.line()?;
            if length == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
