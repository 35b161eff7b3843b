//! Who owns which field after a write: the rules, for writes that state a wish (apply) and writes that state a result.
//!
//! Used by `request` and `update`. Mirrors structured-merge-diff's `merge.Updater` for kinds whose versions share one
//! type.

use super::{
    managed::{Managed, Manager, Owned},
    path::same,
    set::{FieldPath, FieldSet},
    typed::{self, Comparison},
};
use api::{error::ApiError, schema::Shape};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Whether an apply takes fields from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// A field that somebody else owns with another value is a conflict.
    No,
    /// The field changes hands.
    Yes,
}

/// A field that somebody else owns with another value.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: FieldPath,
}

/// What does not belong to any one writer.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.name",
        "metadata.namespace",
        "metadata.creationTimestamp",
        "metadata.selfLink",
        "metadata.uid",
        "metadata.clusterName",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.resourceVersion",
    ])
});

/// What a plain write changed, as far as anybody can own it.
pub(super) struct Touched {
    /// Set anew.
    pub(super) set: FieldSet,
    /// Taken away.
    pub(super) removed: FieldSet,
}

impl Touched {
    /// The fields that differ between `live` and `new`, but for those that this way of writing never changes.
    pub(super) fn between(shape: &Shape, live: &Value, new: &Value, reset: &FieldSet) -> Self {
        let Comparison { mut removed, modified, added } = typed::compare(shape, live, new).without(reset);
        let mut set = modified.union(added);
        set.subtract(&NEVER_OWNED);
        removed.subtract(&NEVER_OWNED);
        Self { set, removed }
    }

    /// Whether the write changed nothing that is owned.
    pub(super) fn is_nothing(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

/// Ownership after a plain write: the writer owns what it changed, nobody owns what is gone. `time` marks the writer's
/// entry if it changed anything.
pub(super) fn update(touched: Touched, managed: &mut Managed, writer: (Manager, &str, &str)) {
    let (manager, api_version, time) = writer;
    let Touched { set: mine, removed } = touched;
    for (other, owned) in &mut managed.0 {
        owned.lose(&removed);
        if *other != manager {
            owned.lose(&mine);
        }
    }
    if !mine.is_empty() {
        let owned = managed.0.entry(manager).or_insert_with(|| Owned::new(api_version, FieldSet::default(), None));
        owned.gain(mine);
        owned.time = Some(time.to_owned());
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
}

/// The object and the ownership after `config` is applied to `live`, or the fields in conflict.
///
/// The object is `None` when nothing changed in it; the applier's entry then keeps its time, or has none.
pub(super) fn apply(
    shape: &Shape,
    live: &Value,
    config: &Value,
    reset: &FieldSet,
    managed: &mut Managed,
    writer: (Manager, &str, &str),
    force: Force,
) -> Result<Option<Value>, Vec<Conflict>> {
    let (manager, api_version, time) = writer;
    let last = managed.0.remove(&manager);
    let applied = typed::fields(shape, config).difference_below(reset);
    let merged = typed::merge(shape, live, config);
    let new = match &last {
        // Whoever applies no less than before has nothing to take back.
        Some(last) if !last.fields.is_within(&applied) => prune(shape, &merged, &last.fields, &applied, managed),
        _ => merged,
    };

    let change = typed::compare(shape, live, &new).without(reset);
    let touched = change.modified.union(change.added);
    let mut conflicts = Vec::new();
    for (other, owned) in &mut managed.0 {
        let disputed = owned.fields.intersection(&touched);
        let paths = disputed.paths().into_iter();
        conflicts.extend(paths.map(|path| Conflict { manager: other.clone(), path }));
        owned.lose(&disputed);
        owned.lose(&change.removed);
    }
    if force == Force::No && !conflicts.is_empty() {
        return Err(conflicts);
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());

    let unchanged = same(live, &new);
    let before = last.as_ref().and_then(|last| last.time.clone());
    let fields = applied.difference(&NEVER_OWNED);
    if !fields.is_empty() {
        let mut owned = last
            .filter(|last| last.fields == fields && last.api_version == api_version)
            .unwrap_or_else(|| Owned::new(api_version, fields, None));
        owned.time = if unchanged { before } else { Some(time.to_owned()) };
        managed.0.insert(manager, owned);
    }
    Ok((!unchanged).then_some(new))
}

/// Removes what the applier applied last time, does not apply now, and nobody else owns.
pub(super) fn prune(shape: &Shape, merged: &Value, last: &FieldSet, applied: &FieldSet, others: &Managed) -> Value {
    let fields = |object: &Value| typed::with_named(&typed::fields(shape, object), shape);
    let last = typed::with_named(last, shape);
    let all = fields(merged);

    let pruned = typed::remove(shape, merged, &last);
    let owned = others.0.values().fold(applied.clone(), |all, owned| all.union(owned.fields.clone()));
    let keep = fields(&pruned).union(typed::with_named(&owned, shape));
    let pruned = typed::remove(shape, merged, &all.difference(&keep));

    let gone = all.difference(&fields(&pruned)).intersection(&last);
    typed::remove(shape, merged, &gone)
}

/// 409: whom the applied configuration contradicts, field by field.
pub(super) fn conflict_error(conflicts: &[Conflict]) -> ApiError {
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|Conflict { manager, path }| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {manager}"),
                "field": path.to_string(),
            })
        })
        .collect();
    let message = match conflicts {
        [Conflict { manager, path }] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        many => {
            let mut lines = Vec::new();
            let mut before = None;
            for Conflict { manager, path } in many {
                if before != Some(manager) {
                    lines.push(format!("conflicts with {manager}:"));
                    before = Some(manager);
                }
                lines.push(format!("- {path}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApiError::new(409, "Conflict", message).with_details(json!({ "causes": causes }))
}
