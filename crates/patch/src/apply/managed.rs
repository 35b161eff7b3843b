//! `metadata.managedFields`: who owns what, read and written.
//!
//! Used by `update` and `request`. Mirrors the order, the limits and the forgiveness of apimachinery's managedfields.

use super::{path::BadStep, set::FieldSet, typed};
use api::{object::Fields, schema::Shape};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt};

/// Where the entries stand in an object.
pub(super) const ENTRIES: &str = "metadata.managedFields";
/// How many managers that update, rather than apply, are kept apart.
const MOST_UPDATERS: usize = 10;
/// Who owns what the oldest updaters owned, once there are too many of them.
const OLD_UPDATERS: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Tells managers apart. One that applies is the same through all versions; one that updates is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Manager {
    pub(super) fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self { name: name.into(), operation, api_version: api_version.into(), subresource: subresource.into() }
    }

    /// The same manager in another version of the object.
    pub(super) fn at_version(self, api_version: &str) -> Self {
        Self { api_version: if self.api_version.is_empty() { String::new() } else { api_version.into() }, ..self }
    }
}

/// As conflicts name it.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// What a manager owns, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) api_version: String,
    pub(super) fields: FieldSet,
    /// RFC 3339 in seconds; absent when the manager never changed the object.
    pub(super) time: Option<String>,
    /// The index of the entry that says the same but for the time, among those that were read: it is written again
    /// as it is.
    source: Option<usize>,
}

impl Owned {
    /// What no entry says yet.
    pub(super) fn new(api_version: &str, fields: FieldSet, time: Option<String>) -> Self {
        Self { api_version: api_version.to_owned(), fields, time, source: None }
    }

    /// Takes fields away.
    pub(super) fn lose(&mut self, gone: &FieldSet) {
        if self.fields.subtract(gone) {
            self.source = None;
        }
    }

    /// Adds fields.
    pub(super) fn gain(&mut self, more: FieldSet) {
        if !more.is_within(&self.fields) {
            self.fields = std::mem::take(&mut self.fields).union(more);
            self.source = None;
        }
    }
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managed(pub(super) BTreeMap<Manager, Owned>);

/// Why a list of entries cannot be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum BadEntry {
    #[error("operation must be Apply or Update, got {0:?}")]
    Operation(String),
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("fieldsType must be FieldsV1, got {0:?}")]
    FieldsType(String),
    #[error(transparent)]
    Fields(#[from] BadStep),
}

impl Managed {
    /// The managers of an object; none when its entries cannot be read, so that a broken list never blocks a write.
    pub(super) fn of(object: &Value) -> Self {
        Self::read(object.list_at(ENTRIES)).unwrap_or_default()
    }

    /// Takes the entries out of an object.
    pub(super) fn take_entries(object: &mut Value) -> Vec<Value> {
        match object.remove(ENTRIES) {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        }
    }

    pub(super) fn read(entries: &[Value]) -> Result<Self, BadEntry> {
        let mut managers = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let operation = match entry.str_at("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                other => return Err(BadEntry::Operation(other.to_owned())),
            };
            let api_version = entry.str_at("apiVersion");
            if api_version.is_empty() {
                return Err(BadEntry::ApiVersion);
            }
            if entry.str_at("fieldsType") != "FieldsV1" {
                return Err(BadEntry::FieldsType(entry.str_at("fieldsType").to_owned()));
            }
            let manager = Manager {
                name: entry.str_at("manager").to_owned(),
                operation,
                api_version: if operation == Operation::Apply { String::new() } else { api_version.to_owned() },
                subresource: entry.str_at("subresource").to_owned(),
            };
            let owned = Owned {
                api_version: api_version.to_owned(),
                fields: FieldSet::from_value(entry.at("fieldsV1"))?,
                time: Some(entry.str_at("time")).filter(|time| !time.is_empty()).map(str::to_owned),
                source: Some(index),
            };
            managers.insert(manager, owned);
        }
        Ok(Self(managers))
    }

    /// Writes the entries into an object, or removes the list when there are none. `read` are those that these managers
    /// were read from.
    pub(super) fn write(&self, object: &mut Value, read: Vec<Value>) {
        if self.0.is_empty() {
            object.remove(ENTRIES);
        } else {
            object.set(ENTRIES, self.entries(read));
        }
    }

    /// The entries: appliers first, then by age; those without a time are the oldest.
    fn entries(&self, mut read: Vec<Value>) -> Value {
        let mut sorted: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        // RFC 3339 in UTC sorts as text.
        sorted.sort_by_key(|(manager, owned)| {
            (manager.operation, &owned.time, &manager.name, &owned.api_version, &manager.subresource)
        });
        let mut entry = |(manager, owned): (&Manager, &Owned)| match owned.source.and_then(|index| read.get_mut(index))
        {
            Some(before) => with_time(before.take(), owned.time.as_deref()),
            None => entry(manager, owned),
        };
        sorted.into_iter().map(&mut entry).collect()
    }

    /// Drops entries of versions that the kind does not have any more, and brings the others in line with its type.
    pub(super) fn modernise(&mut self, shape: &Shape, versions: &[&str]) {
        self.0.retain(|_, owned| versions.contains(&owned.api_version.as_str()));
        for owned in self.0.values_mut() {
            if typed::collapse(&mut owned.fields, shape) {
                owned.source = None;
            }
        }
    }

    /// Has every entry written anew: those of a client may say what they say in words of their own.
    pub(super) fn reword(&mut self) {
        self.0.values_mut().for_each(|owned| owned.source = None);
    }

    /// Joins the oldest updaters of a version until there are few enough.
    pub(super) fn cap(&mut self) {
        if self.0.len() <= MOST_UPDATERS {
            return;
        }
        let mut updaters: Vec<(Option<String>, Manager)> = self
            .0
            .iter()
            .filter(|(manager, _)| manager.operation == Operation::Update)
            .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in updaters {
            if count <= MOST_UPDATERS {
                break;
            }
            let Some(version) = self.0.get(&manager).map(|owned| owned.api_version.clone()) else { continue };
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(OLD_UPDATERS, Operation::Update, &version, "");
            let oldest = self.0.remove(&bucket).or_else(|| self.0.remove(first));
            let (Some(oldest), Some(owned)) = (oldest, self.0.remove(&manager)) else { continue };
            let joined = Owned { fields: oldest.fields.union(owned.fields), source: None, ..owned };
            self.0.insert(bucket, joined);
            count -= 1;
        }
    }
}

fn with_time(mut entry: Value, time: Option<&str>) -> Value {
    match time {
        Some(time) if entry.str_at("time") != time => entry.set("time", time),
        None => drop(entry.remove("time")),
        Some(_) => {}
    }
    entry
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    put("manager", json!(manager.name));
    put("operation", json!(manager.operation.text()));
    put("apiVersion", json!(owned.api_version));
    put("fieldsType", json!("FieldsV1"));
    put("fieldsV1", owned.fields.to_value());
    if let Some(time) = &owned.time {
        put("time", json!(time));
    }
    if !manager.subresource.is_empty() {
        put("subresource", json!(manager.subresource));
    }
    Value::Object(entry)
}

/// Why a list of entries is no `metadata.managedFields`; none when it is.
pub fn check_entries(entries: &[Value]) -> Result<(), String> {
    Managed::read(entries).map(drop).map_err(|error| error.to_string())
}
