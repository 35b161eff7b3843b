//! What AWS refuses, in the words of whoever can mend it: the annotation, its value, and what is accepted.

use crate::{
    account::{Attributes, AwsError, Kind, NewClassicLoadBalancer, NewLoadBalancer, SubnetMapping},
    model::{
        annotations::name,
        rules::{BACKEND_GROUP, OWN_GROUP},
    },
    plan::{Action, ListenerPlan},
};
use std::collections::BTreeSet;

/// The error with the annotation that asked for what is refused, where there is one.
pub(super) fn explain(action: &Action, error: AwsError) -> AwsError {
    match error {
        AwsError::NotFound { kind, message } if is_given(kind) => {
            let message = with(cause(action, Some(kind), &message), &message);
            AwsError::NotFound { kind, message }
        }
        AwsError::Invalid { code, message } if code != "InvalidTarget" => {
            let kind = kind_of(&code);
            let message = with(cause(action, kind, &message), &message);
            AwsError::Invalid { code, message }
        }
        AwsError::LimitExceeded { code, message } => {
            let message = with(limit(action), &message);
            AwsError::LimitExceeded { code, message }
        }
        error => error,
    }
}

/// Whether users name such a thing.
fn is_given(kind: Kind) -> bool {
    matches!(kind, Kind::Certificate | Kind::Policy | Kind::SecurityGroup | Kind::Subnet | Kind::Address)
}

struct Cause {
    /// What is at fault, with its value.
    what: String,
    advice: &'static str,
}

fn with(cause: Option<Cause>, message: &str) -> String {
    cause.map_or_else(|| message.to_owned(), |Cause { what, advice }| format!("{what}: {message}; {advice}"))
}

fn annotation(suffix: &str, value: impl AsRef<str>, advice: &'static str) -> Cause {
    Cause { what: format!("{}: {:?}", name(suffix), value.as_ref()), advice }
}

/// What an error code is about where it does not say that something is missing.
fn kind_of(code: &str) -> Option<Kind> {
    match code {
        "SSLPolicyNotFound" => Some(Kind::Policy),
        "UnsupportedCertificate" | "InvalidCertificate" => Some(Kind::Certificate),
        "InvalidSecurityGroup" => Some(Kind::SecurityGroup),
        "InvalidSubnet" => Some(Kind::Subnet),
        _ => None,
    }
}

const CERTIFICATE: &str =
    "give the ARN of a certificate that ACM or IAM has in this region; the listener stays as it was";
const POLICY: &str =
    "give the name of a security policy that this region has, or take the annotation away for AWS's default";
const GROUPS: &str = "give ids of security groups that are in the cluster's VPC";
const SUBNETS: &str = "give subnets of the cluster's VPC, one for each zone";
const ADDRESSES: &str =
    "give allocation ids of Elastic IPs of this account that nothing else uses, one for each subnet";
const LOG: &str = "give a bucket of this region whose policy lets load balancers write their log";
const TAGS: &str = "give tags that AWS accepts: keys without aws:, up to 45";
const TARGETS: &str = "give attributes that the target group can have";
const CHECK: &str = "give a health check that AWS accepts for this protocol";

fn joined<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    let all: Vec<&str> =
        all.into_iter().filter(|one| ![OWN_GROUP, BACKEND_GROUP].contains(&one.as_str())).map(String::as_str).collect();
    all.join(",")
}

fn cause(action: &Action, kind: Option<Kind>, message: &str) -> Option<Cause> {
    match action {
        Action::CreateListener { listener, .. } | Action::ModifyListener { listener, .. } => {
            listener_cause(listener, kind, message)
        }
        Action::AddCertificates { certificates, .. } => Some(annotation("ssl-cert", joined(certificates), CERTIFICATE)),
        Action::CreateLoadBalancer(new) => balancer_cause(new, kind),
        Action::CreateClassic(new) => classic_cause(new, kind),
        Action::SetGroups { groups } | Action::ApplyGroups { groups } => groups_cause(groups),
        Action::SetSubnets { subnets, .. } => subnets_cause(subnets, kind),
        Action::AttachSubnets { subnets } => Some(annotation("subnets", joined(subnets), SUBNETS)),
        Action::SetAttributes { attributes } => log_cause(attributes),
        Action::SetClassicAttributes { attributes } => {
            let bucket = attributes.access_log_bucket.as_ref().filter(|_| attributes.access_log)?;
            Some(annotation("access-log-s3-bucket-name", bucket, LOG))
        }
        Action::CreateClassicListeners { listeners } => {
            let certificates = listeners.iter().filter_map(|listener| listener.certificate.as_ref());
            Some(joined(certificates)).filter(|all| !all.is_empty()).map(|all| annotation("ssl-cert", all, CERTIFICATE))
        }
        Action::CreatePolicy(policy) => {
            let reference = policy.attributes.get("Reference-Security-Policy")?;
            Some(annotation("ssl-negotiation-policy", reference, POLICY))
        }
        Action::TagGroup { tags, .. }
        | Action::TagLoadBalancer { tags }
        | Action::TagTargetGroup { tags, .. }
        | Action::TagListener { tags, .. }
        | Action::TagClassic { tags } => Some(annotation("additional-resource-tags", joined(tags.keys()), TAGS)),
        Action::SetTargetGroupAttributes { attributes, .. } => {
            let pairs: Vec<String> = attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Some(annotation("target-group-attributes", pairs.join(","), TARGETS))
        }
        Action::SetHealthCheck { check, .. } => Some(annotation("healthcheck-protocol", &check.protocol, CHECK)),
        _ => None,
    }
}

/// AWS has words for both, and one code for several things.
fn listener_cause(listener: &ListenerPlan, kind: Option<Kind>, message: &str) -> Option<Cause> {
    let lower = message.to_lowercase();
    let policy = listener.ssl_policy.as_ref().filter(|_| kind == Some(Kind::Policy) || lower.contains("policy"));
    if let Some(policy) = policy {
        return Some(annotation("ssl-negotiation-policy", policy, POLICY));
    }
    let certificate = listener.certificate.as_ref();
    let certificate = certificate.filter(|_| kind == Some(Kind::Certificate) || lower.contains("certificate"))?;
    Some(annotation("ssl-cert", certificate, CERTIFICATE))
}

fn balancer_cause(new: &NewLoadBalancer, kind: Option<Kind>) -> Option<Cause> {
    match kind {
        Some(Kind::SecurityGroup) => groups_cause(&new.security_groups),
        kind => subnets_cause(&new.subnets, kind),
    }
}

fn classic_cause(new: &NewClassicLoadBalancer, kind: Option<Kind>) -> Option<Cause> {
    match kind? {
        Kind::SecurityGroup => groups_cause(&new.security_groups),
        Kind::Subnet => Some(annotation("subnets", joined(&new.subnets), SUBNETS)),
        Kind::Certificate => {
            let certificates = new.listeners.iter().filter_map(|listener| listener.certificate.as_ref());
            Some(annotation("ssl-cert", joined(certificates), CERTIFICATE))
        }
        _ => None,
    }
}

fn groups_cause(groups: &BTreeSet<String>) -> Option<Cause> {
    let given = joined(groups);
    (!given.is_empty()).then(|| annotation("security-groups", given, GROUPS))
}

fn subnets_cause(subnets: &[SubnetMapping], kind: Option<Kind>) -> Option<Cause> {
    let allocations = joined(subnets.iter().filter_map(|mapping| mapping.allocation.as_ref()));
    let private = joined(subnets.iter().filter_map(|mapping| mapping.private_ipv4.as_ref()));
    match kind {
        Some(Kind::Address) => Some(annotation("eip-allocations", allocations, ADDRESSES)),
        Some(Kind::Subnet) => {
            Some(annotation("subnets", joined(subnets.iter().map(|mapping| &mapping.subnet)), SUBNETS))
        }
        _ if !allocations.is_empty() => Some(annotation("eip-allocations", allocations, ADDRESSES)),
        _ if !private.is_empty() => Some(annotation(
            "private-ipv4-addresses",
            private,
            "give addresses that are free, one of each subnet's range, in the order of the subnets",
        )),
        _ => None,
    }
}

fn log_cause(attributes: &Attributes) -> Option<Cause> {
    let bucket = attributes.get("access_logs.s3.bucket").filter(|bucket| !bucket.is_empty())?;
    Some(annotation("access-log-s3-bucket-name", bucket, LOG))
}

fn limit(action: &Action) -> Option<Cause> {
    match action {
        Action::Authorize { group, .. } => Some(Cause {
            what: if group == OWN_GROUP { "the load balancer's security group".to_owned() } else { group.clone() },
            advice: "take rules away that nobody needs, or ask AWS for a higher quota of rules per security group",
        }),
        Action::AddCertificates { certificates, .. } => Some(annotation(
            "ssl-cert",
            joined(certificates),
            "give fewer certificates, or ask AWS for a higher quota of certificates per load balancer",
        )),
        Action::CreateLoadBalancer(_) | Action::CreateClassic(_) => Some(Cause {
            what: "the load balancer".to_owned(),
            advice: "delete a Service that is not needed, or ask AWS for a higher quota of load balancers",
        }),
        Action::CreateTargetGroup(_) => Some(Cause {
            what: "the target group".to_owned(),
            advice: "delete target groups that nobody needs, or ask AWS for a higher quota of target groups",
        }),
        Action::Register { group, .. } => Some(Cause {
            what: group.clone(),
            advice: "choose fewer nodes with the annotation target-node-labels, or ask AWS for a higher quota of targets",
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(certificate: Option<&str>, policy: Option<&str>) -> Action {
        let some = |text: Option<&str>| text.map(str::to_owned);
        let (certificate, ssl_policy) = (some(certificate), some(policy));
        let (protocol, target_group) = ("TLS".to_owned(), "web".to_owned());
        let listener = ListenerPlan { port: 443, protocol, target_group, certificate, ssl_policy };
        Action::ModifyListener { arn: "arn".to_owned(), listener }
    }

    #[test]
    fn an_error_names_the_annotation_its_value_and_what_to_do() {
        let missing = |kind, message: &str| AwsError::NotFound { kind, message: message.to_owned() };
        let invalid =
            |code: &str, message: &str| AwsError::Invalid { code: code.to_owned(), message: message.to_owned() };
        let prefix = "service.beta.kubernetes.io/aws-load-balancer-";
        for (action, error, expected) in [
            (
                listener(Some("arn:c"), None),
                missing(Kind::Certificate, "Certificate 'arn:c' not found"),
                "certificate not found: @ssl-cert: \"arn:c\": Certificate 'arn:c' not found; give the ARN of a certificate that ACM or \
                 IAM has in this region; the listener stays as it was",
            ),
            (
                listener(Some("arn:c"), Some("Old")),
                invalid("SSLPolicyNotFound", "SSL policy 'Old' not found"),
                "refused by AWS (SSLPolicyNotFound): @ssl-negotiation-policy: \"Old\": SSL policy 'Old' not found; give the name of a \
                 security policy that this region has, or take the annotation away for AWS's default",
            ),
            (
                Action::SetGroups { groups: [OWN_GROUP.to_owned(), "sg-1".to_owned()].into() },
                invalid("InvalidSecurityGroup", "One or more security groups are invalid"),
                "refused by AWS (InvalidSecurityGroup): @security-groups: \"sg-1\": One or more security groups are invalid; give ids of \
                 security groups that are in the cluster's VPC",
            ),
            (
                Action::SetAttributes { attributes: [("access_logs.s3.bucket".to_owned(), "logs".to_owned())].into() },
                invalid("InvalidConfigurationRequest", "Access Denied for bucket: logs"),
                "refused by AWS (InvalidConfigurationRequest): @access-log-s3-bucket-name: \"logs\": Access Denied for bucket: logs; give \
                 a bucket of this region whose policy lets load balancers write their log",
            ),
            (
                Action::DeleteListener { arn: "arn".to_owned(), port: 80 },
                invalid("X", "whatever"),
                "refused by AWS (X): whatever",
            ),
        ] {
            assert_eq!(explain(&action, error).to_string(), expected.replace('@', prefix));
        }
    }
}
