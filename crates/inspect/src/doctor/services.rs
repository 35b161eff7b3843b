//! Services: the families that were meant, endpoints in each of them, a load balancer that is there, nobody shut out by one family's ranges.

use super::{About, Cluster, Finding, Severity, pods::is_running};
use crate::{
    Snapshot,
    endpoints::{is_ready, service_of},
    families,
};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use net::{Cidr, Family};
use std::collections::HashMap;

/// By namespace and name of the Service.
type Slices<'a> = HashMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>;

/// The API's own Service: one family by design of many API servers.
const API: (&str, &str) = ("default", "kubernetes");

pub(super) fn check(snapshot: &Snapshot, cluster: Cluster) -> Vec<Finding> {
    let mut slices: Slices<'_> = HashMap::new();
    for slice in &snapshot.slices {
        if let Some(service) = service_of(slice) {
            slices.entry(service).or_default().push(slice);
        }
    }
    let services =
        snapshot.services.iter().filter(|service| is_kind(service, &["ClusterIP", "NodePort", "LoadBalancer"]));
    services
        .flat_map(|service| {
            let about = About::of("service", &service.metadata);
            let own = slices.get(&(about.namespace.as_str(), about.name.as_str())).map_or(&[][..], Vec::as_slice);
            let one = One { service, about: &about, slices: own };
            [one.policy(cluster), one.endpoints(snapshot), one.load_balancer(snapshot), one.source_ranges()]
                .into_iter()
                .flatten()
                .map(|(severity, problem, why, mend)| Finding { severity, about: about.clone(), problem, why, mend })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn is_kind(service: &Service, kinds: &[&str]) -> bool {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP");
    kinds.contains(&kind) && service.metadata.deletion_timestamp.is_none()
}

/// Severity, problem, reason, what to do.
type Problem = (Severity, String, String, String);

struct One<'a> {
    service: &'a Service,
    about: &'a About,
    slices: &'a [&'a EndpointSlice],
}

impl One<'_> {
    fn patch(&self, spec: &str) -> String {
        format!(
            "kubectl patch service {} -n {} --type=merge -p '{{\"spec\":{spec}}}'",
            self.about.name, self.about.namespace
        )
    }

    /// One family where there could be two.
    fn policy(&self, cluster: Cluster) -> Option<Problem> {
        let has = families::of_service(self.service).filter(|has| !has.is_dual() && cluster.is_dual())?;
        let (one, other) = (has.primary(), has.primary().other());
        let problem = format!("has {one} only");
        let both = self.patch(r#"{"ipFamilyPolicy":"RequireDualStack"}"#);
        let policy = self.service.spec.as_ref()?.ip_family_policy.as_deref();
        let named = (self.about.namespace.as_str(), self.about.name.as_str());
        Some(match policy {
            Some("PreferDualStack" | "RequireDualStack") => (
                Severity::Warning,
                problem,
                "it asks for both families, but was made when the cluster had one; a change that leaves its family fields alone keeps it so".to_owned(),
                both,
            ),
            _ if is_cluster_dns(self.about) => (
                Severity::Warning,
                problem,
                format!("it is the cluster's DNS: pods with {other} alone resolve nothing"),
                self.patch(r#"{"ipFamilyPolicy":"PreferDualStack"}"#),
            ),
            _ if named == API => (
                Severity::Hint,
                problem,
                format!("the API server advertises one address; pods with {other} alone do not reach the API by this name"),
                "start the API server with --dual-stack-kubernetes-service and an --advertise-address of each family".to_owned(),
            ),
            _ => (Severity::Hint, problem, "its ipFamilyPolicy is SingleStack, which is also the default".to_owned(), both),
        })
    }

    /// Each family leads somewhere, if any does.
    fn endpoints(&self, snapshot: &Snapshot) -> Option<Problem> {
        let families = families::of_service(self.service).filter(|_| !self.selector().is_empty())?;
        let empty = families.iter().find(|family| self.ready(*family) == 0)?;
        let other = families.iter().find(|family| self.ready(*family) > 0);
        let without = self.pods_without(empty, snapshot);
        let problem = match other {
            Some(other) => {
                let count = self.ready(other);
                format!("has no ready endpoint of {empty}, but {count} of {other}: who comes over {empty} is refused")
            }
            // That nothing is ready yet is no matter of families.
            None if without.is_empty() => return None,
            None => format!("has no endpoint of {empty}"),
        };
        let why = match without.as_slice() {
            [] => format!("its endpoints of {empty} are not ready"),
            [one] => format!("pod {one} has no {empty} address"),
            [first, rest @ ..] => format!("pod {first} and {} more have no {empty} address", rest.len()),
        };
        let labels: Vec<String> = self.selector().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let columns = "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,IPS:.status.podIPs[*].ip";
        let mend = format!("kubectl get pods -n {} -l {} -o {columns}", self.about.namespace, labels.join(","));
        Some((Severity::Error, problem, why, mend))
    }

    /// Names of running pods behind it that have no address of a family.
    fn pods_without<'s>(&self, family: Family, snapshot: &'s Snapshot) -> Vec<&'s str> {
        let chosen = |pod: &&Pod| {
            let labels = pod.metadata.labels.as_ref();
            let has =
                |name: &str, value: &str| labels.and_then(|labels| labels.get(name)).is_some_and(|own| own == value);
            pod.metadata.namespace.as_deref() == Some(&self.about.namespace)
                && self.selector().iter().all(|(name, value)| has(name, value))
        };
        let lacks = |pod: &&Pod| families::of_pod(pod).is_some_and(|families| !families.contains(family));
        let pods = snapshot.pods.iter().filter(|pod| is_running(pod)).filter(chosen).filter(lacks);
        pods.filter_map(|pod| pod.metadata.name.as_deref()).collect()
    }

    fn selector(&self) -> Vec<(&str, &str)> {
        let labels = self.service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).into_iter().flatten();
        labels.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn ready(&self, family: Family) -> usize {
        let kind = family.to_string();
        let of_family = self.slices.iter().filter(|slice| slice.address_type == kind);
        let endpoints = of_family.flat_map(|slice| slice.endpoints.iter().flatten());
        endpoints.filter(|endpoint| is_ready(endpoint)).count()
    }

    /// It has an address; if not, what was last said about it.
    fn load_balancer(&self, snapshot: &Snapshot) -> Option<Problem> {
        if !is_kind(self.service, &["LoadBalancer"]) {
            return None;
        }
        let status = self.service.status.as_ref();
        let refused = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten()
            .find(|one| one.type_ == "twinstack.dev/SecurityGroups" && one.status == "False");
        if let Some(condition) = refused {
            let mend = "delete the Service and make it again: AWS never lets a network load balancer that was made without a group have one";
            return Some((
                Severity::Warning,
                format!("its load balancer has no security group: {}", condition.reason),
                condition.message.clone(),
                mend.to_owned(),
            ));
        }
        let addresses = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref()).map_or(0, Vec::len);
        if addresses > 0 {
            return None;
        }
        let why = self.last_warning(snapshot).unwrap_or_else(|| match self.class() {
            Some(class) => format!("nobody who serves loadBalancerClass {class} has answered"),
            None => "no controller for load balancers has answered".to_owned(),
        });
        let mend = format!("kubectl describe service {} -n {}", self.about.name, self.about.namespace);
        Some((Severity::Error, "has no load balancer".to_owned(), why, mend))
    }

    fn class(&self) -> Option<&str> {
        self.service.spec.as_ref()?.load_balancer_class.as_deref()
    }

    fn last_warning(&self, snapshot: &Snapshot) -> Option<String> {
        let ours = snapshot.warnings.iter().filter(|event| {
            let Some(regarding) = &event.regarding else { return false };
            regarding.kind.as_deref() == Some("Service")
                && regarding.name.as_deref() == Some(&self.about.name)
                && regarding.namespace.as_deref() == Some(&self.about.namespace)
        });
        let time = |event: &&k8s_openapi::api::events::v1::Event| {
            let last = event.series.as_ref().map(|series| &series.last_observed_time).or(event.event_time.as_ref());
            last.map(|time| time.0).or_else(|| event.deprecated_last_timestamp.as_ref().map(|time| time.0))
        };
        let last = ours.max_by_key(time)?;
        Some(format!("{}: {}", last.reason.as_deref().unwrap_or_default(), last.note.as_deref().unwrap_or_default()))
    }

    /// Ranges of one family close the other.
    fn source_ranges(&self) -> Option<Problem> {
        let has = families::of_service(self.service).filter(|has| has.is_dual())?;
        let ranges = self.service.spec.as_ref()?.load_balancer_source_ranges.as_ref()?;
        let named = families::of_blocks(ranges.iter().map(|range| range.trim())).filter(|named| !named.is_dual())?;
        let closed = has.iter().find(|family| !named.contains(*family))?;
        let blocks = ranges.iter().filter_map(|range| range.trim().parse::<Cidr>().ok());
        let mut all: Vec<String> = blocks.map(|block| format!("\"{block}\"")).collect();
        all.push(format!("\"<clients of {closed}>\""));
        Some((
            Severity::Hint,
            format!("is closed for {closed}: loadBalancerSourceRanges name {} only", named.primary()),
            "a family without a range is never left open".to_owned(),
            self.patch(&format!("{{\"loadBalancerSourceRanges\":[{}]}}", all.join(","))),
        ))
    }
}

/// kubeadm's and OpenShift's.
fn is_cluster_dns(about: &About) -> bool {
    [("kube-system", "kube-dns"), ("openshift-dns", "dns-default")]
        .contains(&(about.namespace.as_str(), about.name.as_str()))
}
