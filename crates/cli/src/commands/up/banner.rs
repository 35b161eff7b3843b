//! The word on what to try. It names only what serves: it is printed when all parts have come up or have had their time, and says of the
//! others why not.

use super::{
    super::{dns_operator, ingress_operator},
    demo, lab,
    running::NoteFile,
};
use apiserver::launch::Started;
use runtime::task::Tasks;
use serde_json::json;
use std::{convert::Infallible, net::SocketAddr, path::PathBuf, time::Duration};
use tokio::time::Instant;

/// How long parts have to come up before they are told to be missing, and how often they are looked at.
const PATIENCE: Duration = Duration::from_secs(20);
/// Nodes unpack images first.
const PATIENCE_WITH_NODES: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// What a part comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It serves, there.
    Serves(String),
    /// It was asked for and does not serve, because of this.
    Missing(String),
    /// Nobody asked for it; how one would.
    Off(String),
}

impl Part {
    fn line(&self) -> String {
        match self {
            Self::Serves(place) | Self::Off(place) => place.clone(),
            Self::Missing(why) => format!("not serving: {why}"),
        }
    }
}

/// What to try where Pods run, and where they do not.
const WITH_NODES: [&str; 3] = [
    "kubectl create deployment web --image=localhost/twinstack-busybox:latest -- httpd -f -p 8080 -h /etc",
    "kubectl expose deployment web --port=80 --target-port=8080 --type=LoadBalancer --overrides='{\"spec\":{\"ipFamilyPolicy\":\"PreferDualStack\"}}'",
    "for ip in $(kubectl get service web -o jsonpath='{.status.loadBalancer.ingress[*].ip}'); do case $ip in *:*) ip=\"[$ip]\";; esac; curl http://$ip/hostname; done",
];
const WITHOUT_NODES: [&str; 2] = [
    "kubectl get namespaces",
    "kubectl create service clusterip web --tcp=80 && kubectl get service web -o jsonpath='{.spec.clusterIPs}'",
];

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Text,
    Json,
    Nothing,
}

/// A part, and how long it took to come up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: &'static str,
    part: Part,
    after: Option<Duration>,
}

impl Row {
    fn line(&self) -> String {
        let after = self.after.map(|after| format!("  {:.1} s", after.as_secs_f64()));
        format!("  {:<12}{}{}\n", self.name, self.part.line(), after.unwrap_or_default())
    }
}

/// All that it tells of.
pub(super) struct Banner {
    begun: Instant,
    words: Words,
    api_after: Duration,
    api: Vec<SocketAddr>,
    lacking: Vec<String>,
    kubeconfig: PathBuf,
    note: NoteFile,
    nodes: lab::Serving,
    dns: dns_operator::Serving,
    ingress: ingress_operator::Serving,
    demo: Option<demo::Serving>,
}

impl Banner {
    /// `begun` is when the process began, from which all times are counted.
    pub(super) fn new(
        (begun, words): (Instant, Words),
        started: &Started,
        note: NoteFile,
        nodes: lab::Serving,
        dns: dns_operator::Serving,
        ingress: ingress_operator::Serving,
        demo: Option<demo::Serving>,
    ) -> Self {
        let mut lacking: Vec<String> = started.lacking.iter().cloned().collect();
        lacking.extend(dns.lacking().filter(|more| !lacking.contains(more)));
        Self {
            begun,
            words,
            api_after: begun.elapsed(),
            api: started.reachable.clone(),
            lacking,
            kubeconfig: started.kubeconfig.clone(),
            note,
            nodes,
            dns,
            ingress,
            demo,
        }
    }

    /// Prints it as a task of its own: a signal ends the wait.
    pub(super) fn print_when_serving(self, tasks: &Tasks) {
        tasks.once("banner", move |stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                text = self.text_when_serving() => {
                    // Who started it in the background waits for this.
                    if let Err(error) = self.note.write(Some(text.as_deref().unwrap_or_default())) {
                        tracing::warn!(%error, "it cannot be noted that everything serves");
                    }
                    text.into_iter().for_each(|text| anstream::println!("{text}"));
                }
            }
            Ok::<_, Infallible>(())
        });
    }

    async fn text_when_serving(&self) -> Option<String> {
        let patience = if self.nodes.are_there() { PATIENCE_WITH_NODES } else { PATIENCE };
        let names = ["nodes", "DNS", "ingress"].into_iter().chain(self.demo.as_ref().map(|_| "demo"));
        let mut parts: Vec<Row> = names.map(|name| Row { name, part: Part::Off(String::new()), after: None }).collect();
        loop {
            let (dns, dig) = self.dns.look();
            let mut now = vec![self.nodes.look().await, dns, self.ingress.look().await];
            if let Some(demo) = &self.demo {
                now.push(demo.look().await);
            }
            for (row, part) in parts.iter_mut().zip(now) {
                row.after = matches!(part, Part::Serves(_)).then(|| row.after.unwrap_or_else(|| self.begun.elapsed()));
                row.part = part;
            }
            let waits = parts.iter().any(|row| matches!(row.part, Part::Missing(_)));
            if !waits || self.begun.elapsed() > patience {
                return match self.words {
                    Words::Text => Some(self.text(&parts, dig)),
                    Words::Json => Some(self.json(&parts)),
                    Words::Nothing => None,
                };
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One line for programs that started this one.
    fn json(&self, parts: &[Row]) -> String {
        let part = |row: &Row| {
            let (state, text) = match &row.part {
                Part::Serves(place) => ("serves", place),
                Part::Missing(why) => ("missing", why),
                Part::Off(how) => ("off", how),
            };
            let mut part = json!({"name": row.name, "state": state, "text": text});
            if let Some(after) = row.after {
                part["seconds"] = json!((after.as_secs_f64() * 1000.0).round() / 1000.0);
            }
            part
        };
        let mut all = vec![part(&self.api())];
        all.extend(parts.iter().map(part));
        json!({"kubeconfig": self.kubeconfig, "parts": all, "missing": self.lacking}).to_string()
    }

    fn api(&self) -> Row {
        let listening: Vec<String> = self.api.iter().map(|address| format!("https://{address}")).collect();
        Row { name: "API", part: Part::Serves(listening.join(", ")), after: Some(self.api_after) }
    }

    fn text(&self, parts: &[Row], dig: Option<String>) -> String {
        let kubeconfig = self.kubeconfig.display().to_string();
        let plain = |name, text| Row { name, part: Part::Off(text), after: None };
        let mut rows = vec![self.api(), plain("kubeconfig", kubeconfig.clone())];
        rows.extend(parts.iter().cloned());
        rows.extend(self.lacking.iter().map(|lacking| plain("missing", lacking.clone())));
        let program = std::env::current_exe().unwrap_or_else(|_| "twinstack".into());
        let mut commands = vec![format!("export KUBECONFIG={kubeconfig}")];
        let more: &[&str] = if self.nodes.are_there() { &WITH_NODES } else { &WITHOUT_NODES };
        commands.extend(more.iter().map(|command| (*command).to_owned()));
        commands.extend(dig);
        commands.push(format!("{} doctor", program.display()));
        let rows: String = rows.iter().map(Row::line).collect();
        let commands: String = commands.iter().map(|command| format!("  {command}\n")).collect();
        format!(
            "\n\x1b[1;32mTwinstack is up.\x1b[0m\n\n{rows}\nTry:\n{commands}\nCtrl-C or `{} down` stops it; started again it goes on where it was.\n",
            program.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::operator::plan::environment::Ports;

    #[test]
    fn a_part_that_does_not_serve_is_named_with_the_reason_and_nothing_else() {
        let banner = |addresses: &[&str], lacking: &[&str]| Banner {
            begun: Instant::now(),
            words: Words::Text,
            api_after: Duration::from_millis(310),
            api: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
            lacking: lacking.iter().map(|text| (*text).to_owned()).collect(),
            kubeconfig: PathBuf::from("/data/admin.kubeconfig"),
            note: NoteFile(PathBuf::new()),
            nodes: lab::Serving::Off(String::new()),
            dns: dns_operator::Serving::default(),
            ingress: ingress_operator::Serving {
                client: Err(String::new()),
                ports: Ports { http: 80, https: 443, stats: 1936 },
            },
            demo: None,
        };
        let missing = Part::Missing("127.0.0.1 port 10053: Address already in use".to_owned());
        let off = Part::Off("none; --ingress-domain runs the operator and a router".to_owned());
        let none = Part::Off("none, so Pods stay Pending; for nodes: run as root".to_owned());
        let rows = |dns: Part| {
            [("nodes", none.clone()), ("DNS", dns), ("ingress", off.clone())].map(|(name, part)| Row {
                name,
                after: matches!(part, Part::Serves(_)).then_some(Duration::from_millis(1240)),
                part,
            })
        };
        let text = banner(&["127.0.0.1:6443"], &["this machine has no IPv6 (::1)"]).text(&rows(missing), None);
        for line in [
            "  API         https://127.0.0.1:6443  0.3 s\n",
            "  nodes       none, so Pods stay Pending; for nodes: run as root\n",
            "  DNS         not serving: 127.0.0.1 port 10053: Address already in use\n",
            "  ingress     none; --ingress-domain runs the operator and a router\n",
            "  missing     this machine has no IPv6 (::1)\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("dig") && !text.contains("[::1]:"), "{text}");
        let serves = Part::Serves("127.0.0.1:10053, [::1]:10053".to_owned());
        let dig = "dig @127.0.0.1 -p 10053 kubernetes.default.svc.cluster.local +short".to_owned();
        let text = banner(&["127.0.0.1:6443", "[::1]:6443"], &[]).text(&rows(serves), Some(dig));
        for line in [
            "  API         https://127.0.0.1:6443, https://[::1]:6443  0.3 s\n",
            "  DNS         127.0.0.1:10053, [::1]:10053  1.2 s\n",
            "  dig @127.0.0.1 -p 10053 kubernetes.default.svc.cluster.local +short\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("missing"), "{text}");
    }
}
