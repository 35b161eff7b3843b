//! What objects use up of a ResourceQuota. Pure; the API server charges by it, a controller recounts by it.
//!
//! Mirrors `pkg/quota/v1`: pods, services and claims count by what they ask for, everything else by its number.

mod devices;
mod pod;
mod scope;
#[cfg(test)]
mod tests;

pub use scope::matches;

use crate::{
    kinds::quantity::{self, Amount, Amounts},
    object::Fields,
};
use jiff::Timestamp;
use serde_json::Value;

/// A kind of objects as quotas name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// `pods`.
    pub plural: &'a str,
}

/// Core kinds that quotas also count by their plain name.
const PLAIN: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];
/// What a quota for the claims of one storage class ends with.
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";

impl<'a> Counted<'a> {
    /// One of the core group.
    #[must_use]
    pub fn core(plural: &'a str) -> Self {
        Self { group: "", plural }
    }

    /// `count/pods`, `count/deployments.apps`.
    #[must_use]
    pub fn count_name(&self) -> String {
        if self.group.is_empty() {
            format!("count/{}", self.plural)
        } else {
            format!("count/{}.{}", self.plural, self.group)
        }
    }

    /// Whether quotas ever count it: what is only asked and what goes by itself is not.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        !matches!((self.group, self.plural), ("" | "events.k8s.io", "events") | ("", "bindings"))
            && !matches!(self.group, "authentication.k8s.io" | "authorization.k8s.io")
    }

    /// Whether a quota by this name counts objects of this kind.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        if name == self.count_name() || (self.group.is_empty() && self.plural == name && PLAIN.contains(&name)) {
            return true;
        }
        match (self.group, self.plural) {
            ("", "pods") => pod::has(name),
            ("", "services") => matches!(name, "services.nodeports" | "services.loadbalancers"),
            ("", "persistentvolumeclaims") => {
                let of_class = name.split_once(STORAGE_CLASS).map(|(_, rest)| rest);
                matches!(of_class.unwrap_or(name), "persistentvolumeclaims" | "requests.storage")
            }
            ("resource.k8s.io", "resourceclaims") => devices::has(name),
            _ => false,
        }
    }

    /// What one object uses.
    #[must_use]
    pub fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let one = Amount::count(1);
        let mut usage = Amounts::from([(self.count_name(), one)]);
        match (self.group, self.plural) {
            ("", "pods") => usage.extend(pod::usage(object, now)),
            ("", "services") => usage.extend(service(object)),
            ("", "persistentvolumeclaims") => usage.extend(claim(object)),
            ("resource.k8s.io", "resourceclaims") => usage.extend(devices::usage(object)),
            ("", plural) if PLAIN.contains(&plural) => drop(usage.insert(plural.to_owned(), one)),
            _ => {}
        }
        usage
    }

    /// What the object must say for itself before it can be counted against a quota with these names; none when it does.
    #[must_use]
    pub fn missing<'n>(&self, object: &Value, names: impl Iterator<Item = &'n String>) -> Option<String> {
        if *self == Counted::core("pods") { pod::missing(object, names) } else { None }
    }
}

fn service(service: &Value) -> Amounts {
    let ports = service.list_at("spec.ports");
    let given = ports.iter().filter(|port| port.int_at("nodePort").unwrap_or_default() != 0).count();
    let allocates = service.at("spec.allocateLoadBalancerNodePorts").as_bool() != Some(false);
    let (balancers, node_ports) = match service.str_at("spec.type") {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if allocates => (1, ports.len()),
        "LoadBalancer" => (1, given),
        _ => (0, 0),
    };
    [("services", 1), ("services.loadbalancers", balancers), ("services.nodeports", node_ports)]
        .map(|(name, number)| (name.to_owned(), Amount::count(number)))
        .into()
}

fn claim(claim: &Value) -> Amounts {
    let one = Amount::count(1);
    let mut usage = Amounts::from([("persistentvolumeclaims".to_owned(), one)]);
    let annotated = claim.at("metadata.annotations").get("volume.beta.kubernetes.io/storage-class");
    let class = annotated.and_then(Value::as_str).unwrap_or_else(|| claim.str_at("spec.storageClassName"));
    let storage = |at: &str| Amount::read(claim.at(at).str_at("storage")).map(Amount::rounded_up);
    let asked = storage("spec.resources.requests");
    // While a volume grows, and after it could not, what was allocated counts.
    let counted = asked.map(|asked| asked.at_least(storage("status.allocatedResources").unwrap_or_default()));
    if let Some(counted) = counted {
        usage.insert("requests.storage".to_owned(), counted);
    }
    if !class.is_empty() {
        usage.insert(format!("{class}{STORAGE_CLASS}persistentvolumeclaims"), one);
        if let Some(counted) = counted {
            usage.insert(format!("{class}{STORAGE_CLASS}requests.storage"), counted);
        }
    }
    usage
}

/// Whether the quota counts this object at all.
#[must_use]
pub fn covers(quota: &Value, counted: Counted<'_>, object: &Value) -> bool {
    let hard = quota.map_at("status.hard").into_iter().flatten();
    hard.into_iter().any(|(name, _)| counted.has(name)) && matches(quota, counted, object)
}

/// Amounts as `cpu=1,pods=2`.
#[must_use]
pub fn text(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

/// Amounts as an object has them.
#[must_use]
pub fn to_map(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

/// What a quota says of one object that is about to be stored: the new `status.used`, or why not. Nothing when it is not concerned.
///
/// `old` is the object before a change. Without `limited` (a status that reports what happened) usage grows past the limit too.
pub fn charge(
    quota: &Value,
    counted: Counted<'_>,
    object: &Value,
    old: Option<&Value>,
    limited: bool,
    now: Timestamp,
) -> Result<Option<Value>, String> {
    if !covers(quota, counted, object) {
        return Ok(None);
    }
    let name = quota.str_at("metadata.name");
    let (hard, used) = (quantity::amounts(quota.at("status.hard")), quantity::amounts(quota.at("status.used")));
    let restricted: Vec<&String> = hard.keys().filter(|name| counted.has(name)).collect();
    if let Some(missing) = counted.missing(object, restricted.iter().copied()) {
        return Err(format!("failed quota: {name}: {missing}"));
    }
    if restricted.iter().any(|name| !used.contains_key(*name)) {
        let names: Vec<&str> = restricted.iter().map(|name| name.as_str()).collect();
        return Err(format!("status unknown for quota: {name}, resources: {}", names.join(",")));
    }
    let mut usage = counted.usage(object, now);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.nanos < 0).map(|(name, _)| name.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    if let Some(old) = old.filter(|old| covers(quota, counted, old)) {
        let before = counted.usage(old, now);
        for (name, amount) in &mut usage {
            *amount = amount.less(before.get(name).copied().unwrap_or_default());
        }
    }
    let requested: Amounts =
        usage.into_iter().filter(|(name, amount)| amount.nanos > 0 && hard.contains_key(name)).collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let mut sum = used.clone();
    quantity::add(&mut sum, &requested);
    let exceeded: Vec<&String> = requested.keys().filter(|name| sum[*name].nanos > hard[*name].nanos).collect();
    if limited && !exceeded.is_empty() {
        let only = |amounts: &Amounts| -> String {
            text(&exceeded.iter().filter_map(|name| Some(((*name).clone(), *amounts.get(*name)?))).collect())
        };
        let (requested, used, limited) = (only(&requested), only(&used), only(&hard));
        return Err(format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"));
    }
    Ok(Some(to_map(&sum)))
}
