//! Which feature gates are open in which set. Only gates that something here looks at are listed.

use api::config::FeatureSet;
use std::collections::BTreeMap;

/// Needed to install a dual-stack cluster on AWS.
pub(crate) const DUAL_STACK_INSTALL: &str = "AWSDualStackInstall";
/// Network load balancers get a managed security group.
pub(crate) const NLB_SECURITY_GROUP: &str = "AWSServiceLBNetworkSecurityGroup";
/// Templates in the DNS operator.
pub(crate) const DNS_TEMPLATES: &str = "DNSTemplatePlugin";

/// Gate, and whether the set for everybody and the preview sets open it.
const KNOWN: [(&str, bool, bool); 3] =
    [(DUAL_STACK_INSTALL, false, true), (NLB_SECURITY_GROUP, true, true), (DNS_TEMPLATES, false, true)];

/// Every gate with whether it is open. `single` is what the custom set says about gates one by one; it may name others.
pub(crate) fn resolve(set: FeatureSet, single: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    let preview = matches!(set, FeatureSet::TechPreviewNoUpgrade | FeatureSet::DevPreviewNoUpgrade);
    let known =
        KNOWN.map(|(name, everybody, previewed)| (name.to_owned(), if preview { previewed } else { everybody }));
    let mut gates = BTreeMap::from(known);
    gates.extend(single.clone());
    gates
}
