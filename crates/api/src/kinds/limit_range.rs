//! Rules of LimitRange: how little and how much one container, pod or claim of a namespace may ask for.
//!
//! The API server holds new objects to it (`crate::limits`).

use super::{
    check::{self, Errors},
    columns, names,
    quantity::{self, Amount, Amounts},
    resources,
};
use crate::{
    error::FieldError,
    object::Fields,
    path::Path,
    resource::{Column, Rules},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rules of v1 LimitRange.
pub(super) struct LimitRange;

impl Rules for LimitRange {
    fn default(&self, range: &mut Value) {
        let items = range.at_mut("spec.limits").as_array_mut().into_iter().flatten();
        items.filter(|item| item.str_at("type") == "Container").for_each(fill_in);
        if range.at("spec.limits").is_null() {
            range.remove("spec.limits");
        }
    }

    fn validate(&self, range: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = Path::new("spec").child("limits");
        let mut seen = BTreeSet::new();
        for (i, item) in range.list_at("spec.limits").iter().enumerate() {
            let (at, kind) = (path.index(i), item.str_at("type"));
            type_name(&mut errors, &at.child("type"), kind);
            if !seen.insert(kind) {
                errors.push(FieldError::duplicate(&at.child("type"), kind));
            }
            limit(&mut errors, &at, kind, item);
        }
        errors
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::name_and_creation()
    }

    fn cells(&self, range: &Value, _now: jiff::Timestamp) -> Vec<Value> {
        columns::name_and_creation_cells(range)
    }
}

/// What containers get that ask for nothing: the limit is the most there may be, the request is the limit or else the least.
fn fill_in(item: &mut Value) {
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        for (name, amount) in item.map_at(from).cloned().into_iter().flatten() {
            let target = item.at_mut(to);
            if !target.is_object() {
                *target = json!({});
            }
            if target.get(&name).is_none() {
                target[name] = amount;
            }
        }
    }
}

fn type_name(errors: &mut Errors, path: &Path, kind: &str) {
    let wrong = names::qualified_name(kind);
    if wrong.is_empty() && !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        let text = "accepted are Container, Pod, PersistentVolumeClaim and names with a domain";
        errors.push(FieldError::invalid(path, kind, text));
    }
    check::all_of(errors, path, kind, wrong);
}

fn limit(errors: &mut Errors, at: &Path, kind: &str, item: &Value) {
    let is_pod = kind == "Pod";
    let mut read = |field: &str| -> Amounts {
        for (name, _) in item.map_at(field).into_iter().flatten() {
            let path = at.child(field).key(name);
            if matches!(kind, "Pod" | "Container") {
                resources::container_name(errors, &path, name);
            } else {
                resources::standard_name(errors, &path, name);
            }
        }
        quantity::amounts(item.at(field))
    };
    let (max, min) = (read("max"), read("min"));
    let nothing = (Amounts::new(), Amounts::new());
    let (limits, requests) = if is_pod { nothing } else { (read("default"), read("defaultRequest")) };
    let ratios = read("maxLimitRequestRatio");
    if is_pod {
        for field in ["default", "defaultRequest"] {
            if item.map_at(field).is_some_and(|map| !map.is_empty()) {
                errors.push(FieldError::forbidden(&at.child(field), "only containers have defaults, not a Pod"));
            }
        }
    }
    if kind == "PersistentVolumeClaim" && !max.contains_key("storage") && !min.contains_key("storage") {
        errors.push(FieldError::required(&at.child("limits"), "min or max of storage"));
    }
    let all: BTreeSet<&String> =
        [&max, &min, &limits, &requests, &ratios].into_iter().flat_map(Amounts::keys).collect();
    for name in all {
        let (max, min) = (max.get(name), min.get(name));
        let (limit, request, ratio) = (limits.get(name), requests.get(name), ratios.get(name));
        let mut ordered = |less: Option<&Amount>, more: Option<&Amount>, field: &str, what: (&str, &str)| {
            if let (Some(less), Some(more)) = (less, more)
                && less.nanos > more.nanos
            {
                let text = format!("{} {less} is more than {} {more}", what.0, what.1);
                let value = if field == "default" && what.1 == "max" { more } else { less };
                errors.push(FieldError::invalid(&at.child(field).key(name), value.to_string(), text));
            }
        };
        ordered(min, max, "min", ("min", "max"));
        ordered(min, request, "defaultRequest", ("min", "defaultRequest"));
        ordered(request, max, "defaultRequest", ("defaultRequest", "max"));
        ordered(request, limit, "defaultRequest", ("defaultRequest", "default"));
        ordered(min, limit, "default", ("min", "default"));
        ordered(limit, max, "default", ("default", "max"));
        if let Some(ratio) = ratio {
            check_ratio(errors, &at.child("maxLimitRequestRatio").key(name), *ratio, max.zip(min));
        }
        if let (Some(limit), Some(request)) = (limit, request)
            && !resources::may_overcommit(name)
            && limit.nanos != request.nanos
        {
            let text = format!("must equal default {limit}, for {name} cannot be overcommitted");
            errors.push(FieldError::invalid(&at.child("defaultRequest").key(name), request.to_string(), text));
        }
    }
}

fn check_ratio(errors: &mut Errors, path: &Path, ratio: Amount, bounds: Option<(&Amount, &Amount)>) {
    if ratio.nanos < Amount::count(1).nanos {
        errors.push(FieldError::invalid(path, ratio.to_string(), "must be 1 or more"));
    }
    if let Some((max, min)) = bounds
        && ratio.nanos.saturating_mul(min.nanos) > max.nanos.saturating_mul(Amount::count(1).nanos)
    {
        errors.push(FieldError::invalid(
            path,
            ratio.to_string(),
            format!("must not be more than max/min, {max}/{min}"),
        ));
    }
}
