//! PriorityLevelConfiguration: how many requests of a sort run at a time, and what becomes of the others.

use super::{Path, defaults, status};
use crate::{
    error::FieldError,
    kinds::{
        check::{self, Errors},
        columns::{self, AGE, NAME},
    },
    object::Fields,
    resource::{Column, Rules},
};
use serde_json::{Value, json};

/// More queues than anybody has use for.
const MOST_QUEUES: i64 = 10_000_000;
/// Bits of a flow's hash that dealing its hand may use up.
const HASH_BITS: f64 = 60.0;

/// Rules of flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration.
pub(in crate::kinds) struct PriorityLevel;

impl Rules for PriorityLevel {
    fn default(&self, level: &mut Value) {
        if level.at("spec.exempt").is_object() {
            level.set_default("spec.exempt.nominalConcurrencyShares", 0);
            level.set_default("spec.exempt.lendablePercent", 0);
        }
        if level.at("spec.limited").is_object() {
            level.set_default("spec.limited.nominalConcurrencyShares", 30);
            level.set_default("spec.limited.lendablePercent", 0);
        }
        let queuing = "spec.limited.limitResponse.queuing";
        if level.at(queuing).is_object() {
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                let path = format!("{queuing}.{field}");
                if level.int_at(&path).unwrap_or_default() == 0 {
                    level.set(&path, value);
                }
            }
        }
    }

    fn prepare_create(&self, level: &mut Value) {
        level.set("status", json!({}));
    }

    fn prepare_update(&self, level: &mut Value, old: &Value) {
        level.set("status", old.at("status").clone());
    }

    fn validate(&self, level: &Value) -> Errors {
        let mut errors = Errors::new();
        let (path, spec, name) = (Path::new("spec"), level.at("spec"), level.str_at("metadata.name"));
        let kind = spec.str_at("type");
        check::required_one_of(&mut errors, &path.child("type"), kind, &["Exempt", "Limited"]);
        if errors.is_empty() && (name == "exempt") != (kind == "Exempt") {
            errors.push(FieldError::invalid(&path.child("type"), kind, "'Exempt' is for the level 'exempt' alone"));
        }
        let (limited, exempt) = (path.child("limited"), path.child("exempt"));
        match kind {
            "Exempt" => {
                if !spec.at("limited").is_null() {
                    errors.push(FieldError::forbidden(&limited, "only when type is Limited"));
                }
                shares(&mut errors, &exempt, spec.at("exempt"));
            }
            "Limited" => {
                if !spec.at("exempt").is_null() {
                    errors.push(FieldError::forbidden(&exempt, "only when type is Exempt"));
                }
                match spec.at("limited") {
                    Value::Null => errors.push(FieldError::required(&limited, "needed when type is Limited")),
                    given => {
                        shares(&mut errors, &limited, given);
                        check::not_negative(&mut errors, &limited, given, "borrowingLimitPercent");
                        response(&mut errors, &limited.child("limitResponse"), given.at("limitResponse"));
                    }
                }
            }
            _ => {}
        }
        if is_changed(name, spec) {
            let text = match name {
                "exempt" => "of the spec of 'exempt' only spec.exempt can be changed".to_owned(),
                name => format!("the spec of '{name}' cannot be changed"),
            };
            errors.push(FieldError::invalid(&path, spec.clone(), text));
        }
        errors
    }

    fn validate_status(&self, level: &Value, _old: &Value) -> Errors {
        status(level)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns::columns(&[
            NAME,
            ("Type", "string", 0, "Whether requests are limited at all"),
            ("NominalConcurrencyShares", "string", 0, "Its part of what the server does at a time"),
            ("Queues", "string", 0, "Queues in which requests wait"),
            ("HandSize", "string", 0, "Queues that one flow may use"),
            ("QueueLengthLimit", "string", 0, "Requests that may wait in one queue"),
            AGE,
        ])
    }

    fn cells(&self, level: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let number = |path: &str| match level.at(path) {
            Value::Null => "<none>".into(),
            number => number.clone(),
        };
        vec![
            columns::name(level),
            level.str_at("spec.type").into(),
            number("spec.limited.nominalConcurrencyShares"),
            number("spec.limited.limitResponse.queuing.queues"),
            number("spec.limited.limitResponse.queuing.handSize"),
            number("spec.limited.limitResponse.queuing.queueLengthLimit"),
            columns::age(level, now),
        ]
    }
}

/// Whether something was changed that is fixed in a level that every cluster has.
fn is_changed(name: &str, spec: &Value) -> bool {
    let Some(fixed) = defaults::mandatory_level(name) else { return false };
    let mut wanted = fixed.at("spec").clone();
    if name == "exempt" {
        wanted.set("exempt", spec.at("exempt").clone());
    }
    !check::same(spec, &wanted)
}

fn shares(errors: &mut Errors, path: &Path, given: &Value) {
    check::not_negative(errors, path, given, "nominalConcurrencyShares");
    if let Some(percent) = given.int_at("lendablePercent") {
        check::in_range(errors, &path.child("lendablePercent"), percent, 0, 100);
    }
}

fn response(errors: &mut Errors, path: &Path, given: &Value) {
    let (at, queuing) = (path.child("queuing"), given.at("queuing"));
    check::required_one_of(errors, &path.child("type"), given.str_at("type"), &["Queue", "Reject"]);
    match (given.str_at("type"), queuing) {
        ("Reject", Value::Null) => {}
        ("Reject", _) => errors.push(FieldError::forbidden(&at, "only when type is Queue")),
        ("Queue", Value::Null) => errors.push(FieldError::required(&at, "needed when type is Queue")),
        ("Queue", _) => queues(errors, &at, queuing),
        _ => {}
    }
}

fn queues(errors: &mut Errors, path: &Path, given: &Value) {
    let number = |field: &str| given.int_at(field).unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    check::in_range(errors, &path.child("queueLengthLimit"), number("queueLengthLimit"), 1, i64::from(i32::MAX));
    check::in_range(errors, &path.child("queues"), queues, 1, MOST_QUEUES);
    if hand <= 0 || hand > queues {
        let text = format!("must be between 1 and the number of queues ({queues})");
        errors.push(FieldError::invalid(&path.child("handSize"), hand, text));
    } else if bits(queues, hand) > HASH_BITS {
        let text = format!(
            "dealing hands of {hand} from {queues} queues needs more than {HASH_BITS} bits; give less of either"
        );
        errors.push(FieldError::invalid(&path.child("handSize"), hand, text));
    }
}

#[allow(clippy::cast_precision_loss, reason = "both are far below 2^52")]
fn bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}
