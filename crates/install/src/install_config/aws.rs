//! `platform.aws` and what it needs of the rest.

use crate::{
    Aws,
    fields::{Fields, Unknown, scalar, shown},
    gates,
    notes::Notes,
};
use api::{
    config::{AwsIpFamily, AwsResourceTag, LoadBalancerKind, Scope, ServiceEndpoint},
    path::Path as Field,
};
use runtime::suggest;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn scope(fields: &mut Fields<'_>, notes: &mut Notes) -> Scope {
    match fields.text("publish", notes).as_deref() {
        None | Some("External") => Scope::External,
        Some("Internal") => Scope::Internal,
        Some(other) => {
            notes.wrong(&fields.child("publish"), other, "cannot be used; accepted: External, Internal");
            Scope::External
        }
    }
}

pub(super) fn read(platform: &mut Fields<'_>, scope: Scope, notes: &mut Notes) -> Aws {
    let mut section = platform.section("aws", notes);
    let region = section.text("region", notes);
    match region.as_deref() {
        None => notes.refused(&section.child("region"), "must be given; a region such as eu-west-1"),
        Some(region) if !is_region(region) => {
            notes.wrong(
                &section.child("region"),
                region,
                "is no region; accepted: words and a number with hyphens, such as eu-west-1",
            );
        }
        Some(_) => {}
    }
    let ip_family = word(&mut section, "ipFamily", &AwsIpFamily::ALL.map(|family| (family.name(), family)), notes);
    let ip_family = ip_family.unwrap_or_default();
    let kinds = [LoadBalancerKind::Nlb, LoadBalancerKind::Classic].map(|kind| (kind.name(), kind));
    let usual = if ip_family.families().is_dual() { LoadBalancerKind::Nlb } else { LoadBalancerKind::Classic };
    let load_balancer = word(&mut section, "lbType", &kinds, notes).unwrap_or(usual);
    let endpoints = endpoints(&mut section, notes);
    let tags = tags(&mut section, notes);
    let private_zone = section.text("hostedZone", notes);
    let private_zone_role = section.text("hostedZoneRole", notes);
    if let Some(role) = &private_zone_role {
        let problem = match &private_zone {
            None => Some("is for a zone that hostedZone names; give both or neither"),
            Some(_) if !is_role(role) => {
                Some("is no role; accepted: an ARN such as arn:aws:iam::123456789012:role/NAME")
            }
            Some(_) => None,
        };
        problem.into_iter().for_each(|problem| notes.wrong(&section.child("hostedZoneRole"), role, problem));
    }
    section.pass_over(&["amiID", "subnets", "vpc", "defaultMachinePlatform", "publicIpv4Pool"]);
    section.pass_over(&["experimentalPropagateUserTags", "preserveBootstrapIgnition", "bestEffortDeleteIgnition"]);
    section.unused(&["userProvisionedDNS"], "has no effect here", notes);
    section.end(notes);
    let region = region.unwrap_or_default();
    Aws { region, ip_family, load_balancer, scope, endpoints, tags, private_zone, private_zone_role }
}

/// As far as it can be told here; AWS knows whether there is one.
fn is_role(text: &str) -> bool {
    let account = text.strip_prefix("arn:aws").and_then(|rest| rest.split_once(":iam::")).map(|(_, rest)| rest);
    account.and_then(|rest| rest.split_once(":role/")).is_some_and(|(account, name)| {
        account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty()
    })
}

/// What dual-stack needs: a load balancer that can do it, and the gate.
pub(super) fn check(aws: &Aws, gates: &BTreeMap<String, bool>, notes: &mut Notes) {
    if !aws.ip_family.families().is_dual() {
        return;
    }
    let section = Field::new("platform").child("aws");
    if aws.load_balancer == LoadBalancerKind::Classic {
        let family = aws.ip_family.name();
        let problem = format!("cannot be dual-stack, which ipFamily {family} asks for; accepted with it: NLB");
        notes.wrong(&section.child("lbType"), aws.load_balancer.name(), problem);
    }
    if gates.get(gates::DUAL_STACK_INSTALL) != Some(&true) {
        let problem = format!(
            "needs the feature gate {gate}; set featureSet to TechPreviewNoUpgrade, or to CustomNoUpgrade with {gate}=true \
             in featureGates",
            gate = gates::DUAL_STACK_INSTALL
        );
        notes.wrong(&section.child("ipFamily"), aws.ip_family.name(), problem);
    }
}

/// One of a few words.
fn word<T: Copy>(
    section: &mut Fields<'_>,
    name: &'static str,
    words: &[(&'static str, T)],
    notes: &mut Notes,
) -> Option<T> {
    let text = section.text(name, notes)?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = suggest::nearest(&text, names.iter().copied()).map(|near| format!("; did you mean {near}?"));
        let problem = format!("cannot be used; accepted: {}{}", names.join(", "), near.unwrap_or_default());
        notes.wrong(&section.child(name), text, problem);
    }
    found
}

fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let Some((number, words)) = parts.split_last() else { return false };
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_lowercase());
    words.len() >= 2 && words.iter().all(is_word) && !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())
}

fn endpoints(section: &mut Fields<'_>, notes: &mut Notes) -> Vec<ServiceEndpoint> {
    let mut endpoints: Vec<ServiceEndpoint> = Vec::new();
    for (path, item) in section.list("serviceEndpoints", notes) {
        let mut fields = Fields::new(path, Some(item), Unknown::Warning, notes);
        let (name, url) =
            (fields.text("name", notes).unwrap_or_default(), fields.text("url", notes).unwrap_or_default());
        let is_name =
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
        if !is_name {
            notes.wrong(&fields.child("name"), &name, "is no service; accepted: its name in lower case, such as ec2");
        }
        if !url.starts_with("https://") {
            notes.wrong(&fields.child("url"), &url, "cannot be used; accepted: https://HOST");
        }
        if endpoints.iter().any(|endpoint| endpoint.name == name) {
            notes.wrong(&fields.child("name"), &name, "stands twice; give one endpoint for a service");
        }
        fields.end(notes);
        endpoints.push(ServiceEndpoint { name, url });
    }
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    endpoints
}

/// Tags go into the Infrastructure only when they are to be used for what the cluster makes later.
fn tags(section: &mut Fields<'_>, notes: &mut Notes) -> Vec<AwsResourceTag> {
    const MOST: usize = 25;
    let propagate = section.boolean("propagateUserTags", notes).unwrap_or(false);
    let value = section.value("userTags");
    if let Some(other) = value.filter(|value| !value.is_object()) {
        notes.wrong(&section.child("userTags"), shown(other), "is not a mapping of keys to values");
    }
    let value = value.and_then(Value::as_object);
    let tags: Vec<AwsResourceTag> = value
        .into_iter()
        .flatten()
        .map(|(key, value)| AwsResourceTag { key: key.clone(), value: scalar(value).unwrap_or_default() })
        .collect();
    let fits = |text: &str, most: usize| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/=+@ -".contains(c);
        (1..=most).contains(&text.len()) && text.chars().all(allowed)
    };
    for tag in tags.iter().filter(|tag| !fits(&tag.key, 128) || !fits(&tag.value, 256)) {
        let field = section.child("userTags").key(&tag.key);
        notes.wrong(
            &field,
            &tag.value,
            "is no tag; accepted: letters, digits, blanks and _.:/=+@- in key (1-128) and value (1-256)",
        );
    }
    if propagate && tags.len() > MOST {
        notes.refused(&section.child("userTags"), format!("{} tags are more than {MOST}", tags.len()));
    }
    if propagate { tags } else { Vec::new() }
}
