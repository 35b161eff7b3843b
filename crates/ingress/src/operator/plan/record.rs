//! The DNSRecord of an IngressController's wildcard.

use super::Input;
use crate::operator::{
    names::{OPERATOR_NAMESPACE, RECORD_FINALIZER},
    objects::DnsRecord,
};
use api::config::{DnsManagement, DnsRecordSpec, PublishingKind, RecordType};
use k8s_openapi::api::core::v1::Service;
use std::net::IpAddr;

/// Seconds for which answers may be remembered.
const TTL: i64 = 30;

/// The record; nothing while there is nothing to lead to, in which case one that exists is left alone.
///
/// Upstream takes the first entry of the load balancer alone; here every address counts, so that both families are published.
pub fn wanted(input: Input<'_>, service: Option<&Service>) -> Option<DnsRecord> {
    let strategy = &input.admission.strategy;
    if strategy.kind != PublishingKind::LoadBalancerService || input.admission.domain.is_empty() {
        return None;
    }
    let entries = service?.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
    let host = entries.iter().find_map(|entry| entry.hostname.clone()).filter(|host| !host.is_empty());
    let (record_type, targets) = match host {
        Some(host) => (RecordType::Cname, vec![host]),
        None => {
            let addresses: Vec<IpAddr> = entries.iter().filter_map(|entry| entry.ip.as_ref()?.parse().ok()).collect();
            let kind = match addresses.iter().all(IpAddr::is_ipv6) {
                true => RecordType::Aaaa,
                false => RecordType::A,
            };
            (kind, addresses.iter().map(IpAddr::to_string).collect())
        }
    };
    if targets.is_empty() {
        return None;
    }
    let policy =
        strategy.load_balancer.as_ref().map_or(DnsManagement::Managed, |balancer| balancer.dns_management_policy);
    let domain = input.admission.domain.trim_end_matches('.');
    let spec = DnsRecordSpec {
        dns_name: format!("*.{domain}."),
        targets,
        record_type,
        record_ttl: TTL,
        dns_management_policy: policy,
    };
    let mut record = DnsRecord::new(Some(OPERATOR_NAMESPACE), &input.names.record, spec);
    record.metadata.labels = Some(input.names.owning());
    record.metadata.finalizers = Some(vec![RECORD_FINALIZER.to_owned()]);
    record.metadata.owner_references = Some(vec![input.controller.owner()]);
    Some(record)
}
