//! The word on what to try. It names only what serves: it is printed when all parts have come up or have had their time, and says of the
//! others why not.

use super::super::{dns_operator, ingress_operator};
use apiserver::launch::Started;
use runtime::task::Tasks;
use std::{convert::Infallible, net::SocketAddr, path::PathBuf, time::Duration};

/// How long parts have to come up before they are told to be missing, and how often they are looked at.
const PATIENCE: Duration = Duration::from_secs(20);
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

/// All that it tells of.
pub(super) struct Banner {
    api: Vec<SocketAddr>,
    lacking: Vec<String>,
    kubeconfig: PathBuf,
    dns: dns_operator::Serving,
    ingress: ingress_operator::Serving,
}

impl Banner {
    pub(super) fn new(started: &Started, dns: dns_operator::Serving, ingress: ingress_operator::Serving) -> Self {
        let mut lacking: Vec<String> = started.lacking.iter().cloned().collect();
        lacking.extend(dns.lacking().filter(|more| !lacking.contains(more)));
        Self { api: started.reachable.clone(), lacking, kubeconfig: started.kubeconfig.clone(), dns, ingress }
    }

    /// Prints it as a task of its own: a signal ends the wait.
    pub(super) fn print_when_serving(self, tasks: &Tasks) {
        tasks.once("banner", move |stop| async move {
            tokio::select! {
                () = stop.cancelled() => {}
                text = self.text_when_serving() => anstream::println!("{text}"),
            }
            Ok::<_, Infallible>(())
        });
    }

    async fn text_when_serving(&self) -> String {
        let start = tokio::time::Instant::now();
        loop {
            let (dns, dig) = self.dns.look();
            let ingress = self.ingress.look().await;
            let waits = [&dns, &ingress].into_iter().any(|part| matches!(part, Part::Missing(_)));
            if !waits || start.elapsed() > PATIENCE {
                return self.text(&dns, dig, &ingress);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn text(&self, dns: &Part, dig: Option<String>, ingress: &Part) -> String {
        let listening: Vec<String> = self.api.iter().map(|address| format!("https://{address}")).collect();
        let kubeconfig = self.kubeconfig.display().to_string();
        let mut rows = vec![
            ("API", listening.join(", ")),
            ("kubeconfig", kubeconfig.clone()),
            ("DNS", dns.line()),
            ("ingress", ingress.line()),
        ];
        rows.extend(self.lacking.iter().map(|lacking| ("missing", lacking.clone())));
        let program = std::env::current_exe().unwrap_or_else(|_| "twinstack".into());
        let mut commands = vec![
            format!("export KUBECONFIG={kubeconfig}"),
            "kubectl get namespaces".to_owned(),
            "kubectl create service clusterip web --tcp=80 && kubectl get service web -o jsonpath='{.spec.clusterIPs}'"
                .to_owned(),
        ];
        commands.extend(dig);
        commands.push(format!("{} doctor", program.display()));
        let rows: String = rows.iter().map(|(name, text)| format!("  {name:<12}{text}\n")).collect();
        let commands: String = commands.iter().map(|command| format!("  {command}\n")).collect();
        format!(
            "\n\x1b[1;32mTwinstack is up.\x1b[0m\n\n{rows}\nTry:\n{commands}\nCtrl-C stops it; started again it goes on where it was.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_does_not_serve_is_named_with_the_reason_and_nothing_else() {
        let banner = |addresses: &[&str], lacking: &[&str]| Banner {
            api: addresses.iter().map(|address| address.parse().expect("an address")).collect(),
            lacking: lacking.iter().map(|text| (*text).to_owned()).collect(),
            kubeconfig: PathBuf::from("/data/admin.kubeconfig"),
            dns: dns_operator::Serving::default(),
            ingress: ingress_operator::Serving::default(),
        };
        let missing = Part::Missing("127.0.0.1 port 10053: Address already in use".to_owned());
        let off = Part::Off("none; --ingress-domain runs the operator and a router".to_owned());
        let text = banner(&["127.0.0.1:6443"], &["this machine has no IPv6 (::1)"]).text(&missing, None, &off);
        for line in [
            "  API         https://127.0.0.1:6443\n",
            "  DNS         not serving: 127.0.0.1 port 10053: Address already in use\n",
            "  ingress     none; --ingress-domain runs the operator and a router\n",
            "  missing     this machine has no IPv6 (::1)\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("dig") && !text.contains("[::1]:"), "{text}");
        let serves = Part::Serves("127.0.0.1:10053, [::1]:10053".to_owned());
        let dig = "dig @127.0.0.1 -p 10053 kubernetes.default.svc.cluster.local +short".to_owned();
        let text = banner(&["127.0.0.1:6443", "[::1]:6443"], &[]).text(&serves, Some(dig), &off);
        for line in [
            "  API         https://127.0.0.1:6443, https://[::1]:6443\n",
            "  DNS         127.0.0.1:10053, [::1]:10053\n",
            "  dig @127.0.0.1 -p 10053 kubernetes.default.svc.cluster.local +short\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("missing"), "{text}");
    }
}
