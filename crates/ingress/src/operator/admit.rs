//! Whether an IngressController can be served, and what it then comes to: domain, strategy.
//!
//! Called by `reconcile` for every pass; only a change of the outcome is written. Mirrors upstream's admission; differs in that
//! ports of the host network that clash and everything that a router would not start with are refused here, and that what
//! has no effect is told.

use super::{
    cluster::Cluster,
    names::Names,
    objects::IngressController,
    plan::{Input, environment, tls},
    strategy,
};
use api::config::{Publishing, PublishingKind};
use kube::ResourceExt;

/// What an admitted IngressController comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Domain, decided once.
    pub domain: String,
    /// How routers are reached.
    pub strategy: Publishing,
    /// What the spec asks for in vain, one sentence each.
    pub without_effect: Vec<String>,
    /// Whether the domain is outside of the base domain, so that its records are somebody else's.
    pub foreign_domain: bool,
}

/// Everything that is wrong, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<String>);

/// Decides. `others` are the domains of other admitted IngressControllers, with their names.
pub fn admit(
    controller: &IngressController,
    others: &[(String, String)],
    cluster: &Cluster,
) -> Result<Admission, Refused> {
    let (spec, status) = (&controller.spec, controller.status.as_ref());
    let given = spec.domain.clone().filter(|domain| !domain.is_empty());
    let decided = status.and_then(|status| status.domain.clone()).filter(|domain| !domain.is_empty());
    let domain = decided.clone().or_else(|| given.clone()).unwrap_or_else(|| cluster.domain.clone());
    let foreign_domain = !cluster.publishes(&domain);
    let before = status.and_then(|status| status.endpoint_publishing_strategy.as_ref());
    let strategy = strategy::wanted(spec.endpoint_publishing_strategy.as_ref(), before, cluster, !foreign_domain);

    let mut wrong = Vec::new();
    if domain.is_empty() {
        wrong.push("spec.domain: is empty, and the Ingress configuration names none; give a domain".to_owned());
    }
    if let Some((other, _)) = others.iter().find(|(name, taken)| *taken == domain && *name != controller.name_any()) {
        wrong.push(format!("spec.domain: {domain:?} is the domain of IngressController {other:?}; give another one"));
    }
    wrong.extend(tls::mistakes(spec.tls_security_profile.as_ref()));
    wrong.extend(buffers(controller));
    wrong.extend(ports(&strategy));
    for (at, pattern) in spec.client_tls.iter().flat_map(|tls| tls.allowed_subject_patterns.iter().enumerate()) {
        if let Err(error) = api::go_regex::compile(pattern) {
            let short = error.to_string().lines().last().unwrap_or_default().to_owned();
            wrong.push(format!("spec.clientTLS.allowedSubjectPatterns[{at}]: {pattern:?} is no pattern: {short}"));
        }
    }
    let mut without_effect = Vec::new();
    if let Some(given) = given.filter(|given| decided.as_ref().is_some_and(|decided| decided != given)) {
        without_effect
            .push(format!("spec.domain {given:?} has no effect: the domain stays {domain:?} once it is decided"));
    }
    if let Some(given) = spec.endpoint_publishing_strategy.as_ref().filter(|given| given.kind != strategy.kind) {
        without_effect.push(format!(
            "spec.endpointPublishingStrategy.type {} has no effect: {} stays once it is decided; delete the \
             IngressController and create it again to change it",
            given.kind.name(),
            strategy.kind.name(),
        ));
    }
    let mut admission = Admission { domain, strategy, without_effect, foreign_domain };
    let names = Names::of(&controller.name_any());
    let input = Input { controller, admission: &admission, cluster, names: &names };
    // A domain that is missing was said above.
    if !admission.domain.is_empty() {
        wrong.extend(environment::mistakes(input));
    }
    let more = environment::without_effect(input);
    admission.without_effect.extend(more);
    if wrong.is_empty() { Ok(admission) } else { Err(Refused(wrong)) }
}

fn buffers(controller: &IngressController) -> Option<String> {
    let tuning = controller.spec.tuning_options.as_ref()?;
    let size = tuning.header_buffer_bytes.filter(|size| *size != 0).unwrap_or(32768);
    let rewrite = tuning.header_buffer_max_rewrite_bytes.filter(|size| *size != 0).unwrap_or(8192);
    (size <= rewrite).then(|| {
        format!(
            "spec.tuningOptions.headerBufferMaxRewriteBytes: {rewrite} must be less than headerBufferBytes, which is {size}"
        )
    })
}

fn ports(strategy: &Publishing) -> Vec<String> {
    let Some(host) = strategy.host_network.as_ref().filter(|_| strategy.kind == PublishingKind::HostNetwork) else {
        return Vec::new();
    };
    let ports = [("httpPort", host.http_port), ("httpsPort", host.https_port), ("statsPort", host.stats_port)];
    let clash = |at: usize| ports[..at].iter().find(|(_, port)| *port == ports[at].1);
    let clashes = (1..ports.len()).filter_map(|at| Some((ports[at], clash(at)?.0)));
    clashes
        .map(|((field, port), other)| {
            format!(
                "spec.endpointPublishingStrategy.hostNetwork.{field}: {} is {other} as well; the three ports must differ",
                port.unwrap_or_default()
            )
        })
        .collect()
}
