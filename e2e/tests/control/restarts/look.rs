//! What each component has made of a round, seen from outside.

use super::cluster::{CLOUD_CONFIG_NAMESPACE, Cluster, Operands, vpc};
use e2e::dns::{self, A, AAAA};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];
const ANSWER: Duration = Duration::from_secs(10);
/// Where those that show health without a certificate show whether they see the API.
const READY: [(&str, &str); 4] = [
    ("controller-manager", "https://127.0.0.1:10257/readyz"),
    ("dns", "http://127.0.0.1:8181/readyz"),
    ("proxy", "http://127.0.0.1:10249/readyz"),
    ("router", "http://127.0.0.1:1936/readyz"),
];
const AWAY: &str = "the API cannot be reached";
const BACK: &str = "the API is back";

impl Cluster {
    /// Waits until every component has taken up what a round made.
    pub(crate) fn is_in_effect(&self, round: u32) {
        let of = |what: &str| format!("{what} of round {round}");
        let name = format!("web-{round}");
        self.until(&of("the pod"), || {
            let path = format!("/apis/apps/v1/namespaces/default/deployments/{name}");
            self.get(&path).is_some_and(|deployment| deployment["status"]["readyReplicas"] == 1)
        });
        self.until(&of("the endpoints"), || self.endpoints(&name) == 2);
        self.until(&of("the names"), || {
            LOOPBACK.iter().all(|at| self.resolved(at, &name).as_ref() == Some(&self.addresses[&round]))
        });
        self.until(&of("the rules"), || self.ruled(round) == 2);
        self.until(&of("the route"), || LOOPBACK.iter().all(|at| redirected(at, &name) == Some(true)));
        self.until(&of("the router's Deployment"), || {
            self.operands == Operands::Process || self.router_deployment(round)
        });
        self.until(&of("the cloud-config"), || self.cloud_config().contains(&vpc(round)));
        self.until(&of("the zone"), || self.zones().contains(&format!("z{round}.test")));
        self.until(&of("the load balancer"), || {
            let service = self.get(&format!("/api/v1/namespaces/default/services/lb-{round}"));
            service.is_some_and(|service| service["status"]["loadBalancer"]["ingress"][0]["hostname"].is_string())
        });
    }

    /// Waits until nothing is left of a round that was deleted.
    pub(crate) fn is_without_effect(&self, round: u32) {
        self.is_not_served(round);
        let of = |what: &str| format!("the end of {what} of round {round}");
        let name = format!("web-{round}");
        self.until(&of("the pod"), || {
            let pods = self.get(&format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}"));
            pods.is_some_and(|pods| pods["items"].as_array().is_some_and(Vec::is_empty))
        });
        self.until(&of("the endpoints"), || self.endpoints(&name) == 0);
        self.until(&of("the router's Deployment"), || !self.router_deployment(round));
        self.until(&of("the cloud-config"), || !self.cloud_config().contains(&vpc(round)));
        self.until(&of("the zone"), || !self.zones().contains(&format!("z{round}.test")));
        self.until(&of("the load balancer"), || {
            self.get(&format!("/api/v1/namespaces/default/services/lb-{round}")).is_none()
        });
    }

    /// Waits until clients find nothing of a round.
    pub(crate) fn is_not_served(&self, round: u32) {
        let of = |what: &str| format!("the end of {what} of round {round}");
        let name = format!("web-{round}");
        self.until(&of("the names"), || {
            LOOPBACK.iter().all(|at| self.resolved(at, &name).is_some_and(|all| all.is_empty()))
        });
        self.until(&of("the rules"), || self.ruled(round) == 0);
        self.until(&of("the route"), || LOOPBACK.iter().all(|at| redirected(at, &name) == Some(false)));
    }

    /// What clients ask for works now.
    pub(crate) fn goes_on_serving(&self, round: u32) {
        self.goes_on_serving_without("nobody", round);
    }

    /// The same while a component was killed, but for DNS if it is that.
    pub(crate) fn goes_on_serving_without(&self, component: &str, round: u32) {
        let name = format!("web-{round}");
        for at in LOOPBACK {
            assert!(component == "dns" || self.resolved(at, &name).as_ref() == Some(&self.addresses[&round]), "{at}");
            assert_eq!(redirected(at, &name), Some(true), "{at} without {component}");
        }
        assert_eq!(self.ruled(round), 2, "without {component}");
    }

    /// Stays until the time of an absence is over. Nothing happens while the API is away, so there is nothing else to wait for.
    pub(crate) fn stays_away(&self) {
        let text = std::env::var("TWINSTACK_AWAY_SECONDS").unwrap_or_default();
        let _ = e2e::wait_for(Duration::from_secs(text.parse().unwrap_or(15)), || None::<()>);
    }

    /// By the end of an absence everybody says that the view is old.
    pub(crate) fn tells_that_its_view_is_old(&self) {
        self.stays_away();
        for (component, url) in READY {
            self.until(&format!("{component} knows that its view is old"), || status(url) == "500");
        }
    }

    /// Everybody says that the view is current.
    pub(crate) fn tells_that_its_view_is_current(&self) {
        for (component, url) in READY {
            self.until(&format!("{component} knows that its view is current"), || status(url) == "200");
        }
        let metrics = curl("http://127.0.0.1:10249/metrics");
        assert!(metrics.contains(r#"twinstack_watch_view_age_seconds{resource="services"}"#), "{metrics}");
    }

    pub(crate) fn log_lengths(&self) -> BTreeMap<&'static str, usize> {
        self.components.iter().map(|(name, process)| (*name, process.output().len())).collect()
    }

    /// Since then each log has one line about an API that went and one that it came back, and little else about it.
    pub(crate) fn told_of_one_absence(&self, before: &BTreeMap<&'static str, usize>) {
        for (name, process) in &self.components {
            let output = process.output();
            let since = &output[before[name]..];
            assert_eq!((since.matches(AWAY).count(), since.matches(BACK).count()), (1, 1), "{name}:\n{since}");
            assert!(since.contains("https://127.0.0.1:644"), "{name}:\n{since}");
            let absence = since.split(BACK).next().unwrap_or_default();
            assert!(absence.lines().count() < 25, "a flood of {name}:\n{absence}");
        }
    }

    /// A component that is killed leaves a sign that it sees nothing any more.
    pub(crate) fn doctor_names_who_sees_nothing(&mut self) {
        let lease = |cluster: &Self| {
            let words = ["get", "leases", "-n", "kube-system", "-l", "twinstack.dev/view-of=dns", "-o", "name"];
            cluster.kubectl.ok(&words).trim().to_owned()
        };
        self.until("dns shows that it sees the API", || !lease(self).is_empty());
        let config = format!("--kubeconfig={}", self.kubeconfig.display());
        let examined = || String::from_utf8_lossy(&e2e::run(&["doctor", &config]).stdout).into_owned();
        // Signs are given every 20 seconds, and the last absence may not be over for everybody.
        self.until("everybody shows that it sees the API", || !examined().contains("has had no current view"));
        self.component("dns").kill();
        // As if it had been killed a while ago.
        let patch = r#"{"spec":{"renewTime":"2020-01-01T00:00:00.000000Z"}}"#;
        self.kubectl.ok(&["patch", "-n", "kube-system", &lease(self), "--type=merge", "-p", patch]);
        assert!(examined().contains("dns on "), "{}", examined());
        assert!(examined().contains("has had no current view of the API"), "{}", examined());
    }

    /// Families of the Service that have endpoints.
    fn endpoints(&self, service: &str) -> usize {
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let slices = self.get(&format!("{path}?labelSelector=kubernetes.io/service-name%3D{service}"));
        let slices = slices.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default();
        slices.iter().filter(|slice| slice["endpoints"].as_array().is_some_and(|all| !all.is_empty())).count()
    }

    /// What a Service's name stands for, IPv4 first. Nothing when nobody answers.
    fn resolved(&self, at: &str, service: &str) -> Option<Vec<String>> {
        let server = SocketAddr::new(at.parse().expect("an address"), 1053);
        let mut all = Vec::new();
        for rtype in [A, AAAA] {
            let packet = dns::question(&format!("{service}.default.svc.cluster.local."), rtype, false);
            all.extend(dns::udp(server, &packet, ANSWER)?.data().into_iter().map(str::to_owned));
        }
        Some(all)
    }

    /// Families whose rules know the address of a round's Service.
    fn ruled(&self, round: u32) -> usize {
        let rules = |family: &str| {
            let output = Command::new("nft").args(["list", "table", family, "twinstack-proxy"]).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
        };
        let rules = ["ip", "ip6"].map(rules).join("\n");
        let word = |address: &&String| {
            rules.split(|letter: char| letter.is_whitespace() || letter == ',').any(|word| word == address.as_str())
        };
        self.addresses[&round].iter().filter(word).count()
    }

    fn router_deployment(&self, round: u32) -> bool {
        self.get(&format!("/apis/apps/v1/namespaces/openshift-ingress/deployments/router-ic-{round}")).is_some()
    }

    fn cloud_config(&self) -> String {
        let map = self.get(&format!("/api/v1/namespaces/{CLOUD_CONFIG_NAMESPACE}/configmaps/cloud-conf"));
        map.unwrap_or_default()["data"].to_string()
    }

    fn zones(&self) -> String {
        let map = self.get("/api/v1/namespaces/openshift-dns/configmaps/dns-default").unwrap_or_default();
        map["data"]["Corefile"].as_str().unwrap_or_default().to_owned()
    }
}

/// Whether the router knows the host: it sends its clients to HTTPS. Nothing when HAProxy does not answer.
fn redirected(at: &str, name: &str) -> Option<bool> {
    let mut stream = TcpStream::connect(SocketAddr::new(at.parse().ok()?, 8080)).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {name}.apps.test\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1).map(|code| code == "302")
}

fn status(url: &str) -> String {
    let output = Command::new("curl").args(["-sk", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", url]).output();
    String::from_utf8_lossy(&output.expect("curl runs").stdout).into_owned()
}

fn curl(url: &str) -> String {
    let output = Command::new("curl").args(["-sk", "-m", "10", url]).output();
    String::from_utf8_lossy(&output.expect("curl runs").stdout).into_owned()
}
