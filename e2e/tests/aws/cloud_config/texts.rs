//! Every text: what the target becomes, what the transformer prints, and what the manager would do with it.

use super::cluster::{Cluster, GATE, TARGET};
use e2e::{account, run};
use serde_json::json;

/// What `cloud-config transform` prints for a text.
fn transformed(cluster: &Cluster, text: &str, gate: bool) -> String {
    let file = cluster.server.folder().join("source.conf");
    std::fs::write(&file, text).unwrap();
    let output = run(&[
        "cloud-config",
        "transform",
        &format!("--cloud-config={}", file.display()),
        &format!("--feature-gates={GATE}={gate}"),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the cloud controller manager would do for a Service with this text as its file.
fn plan(cluster: &Cluster, text: &str, families: &[&str]) -> String {
    let policy = if families.len() == 2 { "RequireDualStack" } else { "SingleStack" };
    let service = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "00000000-1111-2222-3333-444455556666",
            "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}},
        "spec": {"type": "LoadBalancer", "ipFamilies": families, "ipFamilyPolicy": policy,
            "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]},
    });
    let account = json!({
        "subnets": [{"id": "subnet-1", "vpc": "vpc-1", "zone": "eu-west-1a", "ipv4": "10.0.0.0/24", "ipv6": ["2001:db8::/64"],
            "free_ipv4": 200, "tags": {"kubernetes.io/cluster/lab": "owned"}}],
        "route_tables": [{"id": "rtb-1", "vpc": "vpc-1", "main": true, "routes": [
            {"to": "0.0.0.0/0", "via": {"gateway": "igw-1"}}, {"to": "::/0", "via": {"gateway": "igw-1"}}]}],
        "zones": [{"name": "eu-west-1a", "kind": "availability-zone"}],
        "instances": {},
    });
    let folder = cluster.server.folder();
    let files =
        [("service.json", service.to_string()), ("account.json", account.to_string()), ("cloud.conf", text.to_owned())];
    let [service, account, config] = files.map(|(name, text)| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    });
    let output =
        run(&["cloud-controller-manager", "plan", "-f", &service, "--observed", &account, "--cloud-config", &config]);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(super) const DEFAULTS: &str = "[Global]\n\
    DisableSecurityGroupIngress                     = false\n\
    ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
    ClusterServiceSharedLoadBalancerHealthProbePort = 0\n";
const MANAGED_LINE: &str = "NLBSecurityGroupMode                            = Managed\n";

/// What the administrator writes, and what the target is with the gate closed; open, the mode stands after the known keys of Global.
const TEXTS: &[(&str, &str)] = &[
    ("", DEFAULTS),
    ("[Global]\n", DEFAULTS),
    (
        "[Global]\nDisableSecurityGroupIngress = true\nZone                        = us-west-2a\n",
        "[Global]\n\
         Zone                                            = us-west-2a\n\
         DisableSecurityGroupIngress                     = true\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nZone = us-west-2a\n\
         [ServiceOverride \"2\"]\nService = s3\nRegion = us-west-1\nURL = https://[2001:db8::1]\nSigningRegion = r\n\
         [ServiceOverride \"1\"]\nService = ec2\nRegion = us-west-2\nURL = https://192.0.2.1\nSigningRegion = r\n",
        "[Global]\n\
         Zone                                            = us-west-2a\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\n\
         [ServiceOverride \"1\"]\n\
         Service       = ec2\nRegion        = us-west-2\nURL           = https://192.0.2.1\nSigningRegion = r\n\n\
         [ServiceOverride \"2\"]\n\
         Service       = s3\nRegion        = us-west-1\nURL           = https://[2001:db8::1]\nSigningRegion = r\n",
    ),
    (
        "[Global]\nClusterServiceLoadBalancerHealthProbeMode = ServiceNodePort\nVPC = vpc-1\n",
        "[Global]\n\
         VPC                                             = vpc-1\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = ServiceNodePort\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv4\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv4\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv6\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv6\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv6\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv4\n\
         NodeIPFamilies                                  = ipv6\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "global:\n  nodeIPFamilies: [ipv6, ipv4]\n",
        "[Global]\n\
         DisableSecurityGroupIngress                     = false\n\
         NodeIPFamilies                                  = ipv6\n\
         NodeIPFamilies                                  = ipv4\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n",
    ),
    (
        "[Global]\nMystery = a;b\nVPC = vpc-1 ; here\n[Riddle \"x\"]\nAnswer = 42\n",
        "[Global]\n\
         VPC                                             = vpc-1\n\
         DisableSecurityGroupIngress                     = false\n\
         ClusterServiceLoadBalancerHealthProbeMode       = Shared\n\
         ClusterServiceSharedLoadBalancerHealthProbePort = 0\n\
         Mystery                                         = a\n\n\
         [Riddle \"x\"]\n\
         Answer = 42\n",
    ),
];

/// The same text with the gate open.
pub(super) fn with_gate(text: &str) -> String {
    let last = "ClusterServiceSharedLoadBalancerHealthProbePort = 0\n";
    text.replacen(last, &format!("{last}{MANAGED_LINE}"), 1)
}

#[test]
fn every_text_becomes_what_the_transformer_prints_and_the_manager_reads() {
    let Some(cluster) = Cluster::start() else { return };
    let sync = cluster.sync_alone(&[]);
    // Nothing is there at all: the defaults.
    cluster.until_text(&sync, DEFAULTS);
    for gate in [false, true] {
        let (open, closed) = (["4.20"], ["4.20"]);
        cluster.gates(&open[..usize::from(gate)], &closed[..usize::from(!gate)]);
        for (text, closed) in TEXTS {
            let expected = if gate { with_gate(closed) } else { (*closed).to_owned() };
            cluster.source(text);
            // A target of before may have the same text: it has to be made anew, from the source of now.
            let uid = cluster.target().map(|target| target["metadata"]["uid"].clone());
            cluster.kubectl.ok(&["-n", TARGET, "delete", "configmap", "cloud-conf", "--ignore-not-found"]);
            cluster.until(&sync, &expected, |target| {
                Some(&target["metadata"]["uid"]) != uid.as_ref() && target["data"] == json!({"cloud.conf": expected})
            });
            assert_eq!(transformed(&cluster, text, gate), expected, "{text}");
            assert_eq!(transformed(&cluster, &expected, gate), expected, "once more changes nothing");
            for families in [&["IPv4"][..], &["IPv4", "IPv6"], &["IPv6", "IPv4"]] {
                let steps = plan(&cluster, &expected, families);
                assert_eq!(steps.contains("create security group"), gate, "{expected}\n{steps}");
            }
        }
    }
    let unknown = sync.output().matches("[Global] Mystery is not known and does nothing").count();
    assert!((1..=4).contains(&unknown), "told when it comes, and not again and again: {unknown}\n{}", sync.output());
    account::nothing_was_forbidden(&sync.output());
}
