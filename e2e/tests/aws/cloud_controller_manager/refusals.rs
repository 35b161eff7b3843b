//! A Service with a mistake keeps its load balancer, which follows the nodes, also when the manager is killed meanwhile.

use super::cloud::{Cloud, RANGES, families, service};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn targets_follow_nodes_while_a_change_is_refused() {
    for (ranges, first) in RANGES.into_iter().zip(["IPv4", "IPv6"]) {
        let Some(mut cloud) = Cloud::start(ranges, 3) else { return };
        let second = if first == "IPv4" { "IPv6" } else { "IPv4" };
        let dual = || families("RequireDualStack", &[first, second]);
        cloud.create(&service("web", &[], dual()));
        let host = cloud.host("web");
        let balancer = cloud.balancer(&host);
        let has = |cloud: &Cloud| -> BTreeSet<String> {
            cloud.target_groups(&balancer).iter().flat_map(|group| cloud.targets(group)).collect()
        };
        let instance = |cloud: &Cloud, index: usize| cloud.example.instances[index].0.clone();
        assert_eq!(has(&cloud).len(), 3);

        // No such certificate, and a word that is no number: AWS refuses the one, the other is never asked for.
        let mistakes: [(&[(&str, &str)], &str); 2] = [
            (&[("healthcheck-interval", "soon")], "aws-load-balancer-healthcheck-interval: \"soon\" is not accepted"),
            (&[("ssl-cert", "arn:aws:acm:us-east-1:123456789012:certificate/none")], "give the ARN of a certificate"),
        ];
        for (annotations, words) in mistakes {
            let bad: Value = service("web", annotations, dual());
            cloud.apply(&bad);
            cloud.until(words, || cloud.events("web").contains(words).then_some(()));
            cloud.kubectl.ok(&["delete", "node", "node-0"]);
            let others: BTreeSet<String> = [1, 2].map(|index| instance(&cloud, index)).into();
            cloud.until("it parts from a node", || (has(&cloud) == others).then_some(()));
            cloud.restart();
            cloud.create(&cloud.example.node(0));
            cloud.until("it finds a node", || (has(&cloud).len() == 3).then_some(()));
            assert_eq!(cloud.host("web"), host);
        }
        cloud.apply(&service("web", &[], dual()));
        cloud.settled();
        assert_eq!((has(&cloud).len(), cloud.host("web")), (3, host));
        cloud.delete("web");
        cloud.is_empty();
    }
}
