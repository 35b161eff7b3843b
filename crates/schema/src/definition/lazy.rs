//! The schema of a version: kept packed, compiled when the first object of its kind comes by.
//!
//! A cluster has the definitions of many projects and objects of few of their kinds. A schema as JSON values, compiled, with
//! its rules, weighs some fifty times its packed text; so it is checked when the definition is read, and then let go.

use crate::{
    Packed,
    cel::{self, RuleTree},
    structural::{Schema, Structural},
};
use api::{error::FieldError, path::Path};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// See the module. Clones share what is compiled.
#[derive(Clone, Debug)]
pub struct LazySchema {
    packed: Packed,
    /// Whether the status subresource is on, which the schema is checked by.
    status: bool,
    compiled: Arc<OnceLock<Compiled>>,
}

#[derive(Debug)]
struct Compiled {
    schema: Structural,
    rules: RuleTree,
}

impl LazySchema {
    /// Checks the schema at `path` and calls `look` with it; all mistakes at once.
    pub(super) fn read<T>(
        source: &Value,
        path: &Path,
        status: bool,
        look: impl FnOnce(&Structural) -> T,
    ) -> (Option<T>, Result<Self, Vec<FieldError>>) {
        let schema = match Structural::parse(source, path, status) {
            Ok(schema) => schema,
            Err(mistakes) => return (None, Err(mistakes)),
        };
        let looked = look(&schema);
        let checked = cel::compile(&schema, path);
        let made = checked.map(|_| Self { packed: Packed::new(source), status, compiled: Arc::default() });
        (Some(looked), made)
    }

    /// The schema as its author wrote it.
    pub fn source(&self) -> &Packed {
        &self.packed
    }

    /// The schema of the object as a whole.
    pub fn root(&self) -> &Schema {
        self.compiled().schema.root()
    }

    pub fn rules(&self) -> &RuleTree {
        &self.compiled().rules
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let (path, source) = (Path::root(), self.packed.value());
            let schema = Structural::parse(&source, &path, self.status).expect("it was checked when it was read");
            let rules = cel::compile(&schema, &path).expect("they were checked when they were read");
            Compiled { schema, rules }
        })
    }
}

/// Equal when they were read from equal values.
impl PartialEq for LazySchema {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status && self.packed == other.packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(source: &Value) -> LazySchema {
        LazySchema::read(source, &Path::root(), true, |_| ()).1.unwrap()
    }

    #[test]
    fn a_schema_is_checked_at_once_and_compiled_when_it_is_asked_for() {
        let source = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
        }}}});
        let schema = read(&source);
        assert!(schema.compiled.get().is_none());
        assert_eq!(schema.source().value(), source);
        let shared = schema.clone();
        assert!(schema.root().properties.contains_key("spec") && !schema.rules().is_empty());
        assert!(shared.compiled.get().is_some());
        assert_eq!(schema, read(&source));
        assert_ne!(schema, read(&json!({"type": "object"})));
        let broken = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing > 0"}]});
        assert!(LazySchema::read(&broken, &Path::root(), true, |_| ()).1.is_err());
    }
}
