//! What a router writes into the status of a Route.

use super::Refusal;
use api::config::{RouteCondition, RouteIngress};

/// The entry of this router after a verdict. `old` is its entry so far: the time of the last change stays if nothing
/// changed. `now` is in RFC 3339.
pub fn route_ingress(
    old: Option<&RouteIngress>,
    (router, canonical): (&str, &str),
    (host, policy): (&str, &str),
    (verdict, ignored): (&Result<(), Refusal>, &[String]),
    now: &str,
) -> RouteIngress {
    let (status, reason, message) = match verdict {
        Ok(()) if ignored.is_empty() => ("True", "", String::new()),
        Ok(()) => ("True", "PartlyServed", ignored.join("; ")),
        Err(refusal) => ("False", refusal.reason, refusal.message.clone()),
    };
    let before = old.and_then(|old| old.conditions.iter().find(|condition| condition.kind == "Admitted"));
    let since = before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
    let condition = RouteCondition {
        kind: "Admitted".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Some(since.unwrap_or_else(|| now.to_owned())),
    };
    RouteIngress {
        host: host.to_owned(),
        router_name: router.to_owned(),
        conditions: vec![condition],
        wildcard_policy: if policy.is_empty() { "None".to_owned() } else { policy.to_owned() },
        router_canonical_hostname: canonical.to_owned(),
    }
}

/// Whether an entry says that the Route is served.
pub fn admitted(entry: &RouteIngress) -> bool {
    entry.conditions.iter().any(|condition| condition.kind == "Admitted" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_changes_only_with_the_status() {
        let name = ("default", "router.apps.test");
        let first = route_ingress(None, name, ("a.test", ""), (&Ok(()), &[]), "then");
        assert!(admitted(&first));
        assert_eq!(route_ingress(Some(&first), name, ("a.test", ""), (&Ok(()), &[]), "now"), first);
        let refusal = Err(Refusal { reason: "HostAlreadyClaimed", message: "x".to_owned() });
        let second = route_ingress(Some(&first), name, ("a.test", ""), (&refusal, &[]), "now");
        assert_eq!(second.conditions[0].last_transition_time.as_deref(), Some("now"));
        assert!(!admitted(&second));
    }
}
