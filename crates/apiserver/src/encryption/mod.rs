//! Values at rest: encrypted on their way to the disk or to etcd, by the providers of `--encryption-provider-config`.
//!
//! Mirrors kube-apiserver's stored forms, so that either server reads what the other wrote with the same file. `config` reads
//! the file, `provider` encrypts, `resources` finds out which providers a key has. The first provider and its first key write,
//! all of them read; what none can read is an error that says which one is missing.

mod config;
mod provider;
mod resources;
#[cfg(test)]
mod tests;

pub use config::ConfigError;

use self::{provider::Provider, resources::Resources};
use std::borrow::Cow;
use store::{Plain, StorageKey, Transform};

/// What every encrypted value begins with.
const MARK: &[u8] = b"k8s:enc:";

/// Which providers each resource has.
#[derive(Debug)]
pub struct Encryption {
    rules: Vec<Rule>,
    resources: Resources,
}

/// Resources, and the providers they share.
#[derive(Debug)]
struct Rule {
    /// `secrets`, `deployments.apps`, `*.apps`, `*.` (all of the core group), `*.*`.
    resources: Vec<GroupResource>,
    providers: Vec<Provider>,
}

/// A group and a resource of it; `*` is any.
#[derive(Clone, PartialEq, Eq, Debug)]
struct GroupResource {
    group: String,
    resource: String,
}

impl GroupResource {
    fn new(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl Encryption {
    /// Nothing is encrypted, and nothing that is can be read.
    pub fn none() -> Self {
        Self { rules: Vec::new(), resources: Resources::built_in() }
    }

    /// Reads a file's text; every mistake is told.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Ok(Self { rules: config::parse(text)?, resources: Resources::built_in() })
    }

    /// The providers of a key, in the order of the file. What names the resource itself comes before what names its group,
    /// and that before what names everything.
    fn providers(&self, key: &str) -> Vec<&Provider> {
        let Some(of) = self.resources.of(key) else { return Vec::new() };
        let any = GroupResource { group: of.group.clone(), resource: "*".into() };
        let all = GroupResource { group: "*".into(), resource: "*".into() };
        // A rule after one that masks it has no say, as upstream.
        let unmasked = |wanted: &GroupResource, masks: &[&GroupResource]| -> Vec<&Provider> {
            let has = |rule: &Rule, what: &GroupResource| rule.resources.contains(what);
            let until = self.rules.iter().position(|rule| masks.iter().any(|mask| has(rule, mask)));
            let open = &self.rules[..until.unwrap_or(self.rules.len())];
            open.iter().filter(|rule| has(rule, wanted)).flat_map(|rule| &rule.providers).collect()
        };
        let found = unmasked(&of, &[&any, &all]);
        let found = if found.is_empty() { unmasked(&any, &[&all]) } else { found };
        if found.is_empty() { unmasked(&all, &[]) } else { found }
    }
}

impl Transform for Encryption {
    fn seal<'a>(&self, storage_key: StorageKey<'_>, value: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        match self.providers(storage_key.key).first() {
            Some(provider) => provider.seal(&storage_key.to_string(), value),
            None => Ok(Cow::Borrowed(value)),
        }
    }

    fn open<'a>(&self, storage_key: StorageKey<'_>, stored: &'a [u8]) -> Result<Plain<'a>, String> {
        let providers = self.providers(storage_key.key);
        // What is not served here is nobody's business: kube-apiserver may have written it into the same etcd.
        let served = self.resources.of(storage_key.key).is_some();
        if providers.is_empty() && !(served && stored.starts_with(MARK)) {
            return Ok(Plain { value: Cow::Borrowed(stored), stale: false });
        }
        let name = storage_key.to_string();
        let mut broken = false;
        for (index, provider) in providers.into_iter().enumerate() {
            match provider.open(&name, stored) {
                Ok(Some(Plain { value, stale })) => return Ok(Plain { value, stale: stale || index > 0 }),
                Ok(None) => {}
                // Another provider of the same kind may have a key of the same name.
                Err(provider::Broken) => broken = true,
            }
        }
        Err(why(stored, broken))
    }
}

/// What would be needed to read a value that no provider could.
fn why(stored: &[u8], broken: bool) -> String {
    const FLAG: &str = "--encryption-provider-config";
    let Some(rest) = stored.strip_prefix(MARK) else {
        return format!("it is not encrypted, and {FLAG} has no identity among the resource's providers");
    };
    let head = String::from_utf8_lossy(&rest[..rest.len().min(256)]).into_owned();
    let mut parts = head.split(':');
    let (kind, _version, key) = (parts.next(), parts.next(), parts.next());
    let (kind, key) = (kind.unwrap_or_default(), key.unwrap_or_default());
    if broken {
        return format!(
            "it was encrypted by {kind} with key {key:?}; {FLAG} has that key with another secret, or the value is damaged"
        );
    }
    format!("it was encrypted by {kind} with key {key:?}, which {FLAG} does not give to this resource")
}
