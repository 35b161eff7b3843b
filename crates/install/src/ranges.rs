//! Reading and comparing address ranges, with the rules that both sorts of files share.

use crate::notes::Notes;
use api::path::Path as Field;
use net::{Cidr, DualStack, HasFamily, Mistakes, flags, flags::FlagError, flags::FlagValue};
use std::net::IpAddr;

/// One value or one of each family; mistakes are noted at `field`.
pub(crate) fn one_or_pair<T: FlagValue>(field: &Field, list: &str, notes: &mut Notes) -> Option<DualStack<T>> {
    flags::one_or_pair("", list).map_err(|errors| note(field, list, errors, notes)).ok()
}

/// Addresses that others reach the API server at, the first in the family that Services have first.
pub(crate) fn advertise(
    field: &Field,
    list: &str,
    primary: net::Family,
    notes: &mut Notes,
) -> Option<DualStack<IpAddr>> {
    flags::advertise_address(list, primary).map_err(|errors| note(field, list, errors, notes)).ok()
}

/// The words of `net` are about flags; here the field is named beside them.
fn note(field: &Field, list: &str, errors: Mistakes<FlagError>, notes: &mut Notes) {
    for error in errors {
        let text = error.to_string();
        let words =
            text.strip_prefix("--").and_then(|rest| rest.split_once(' ')).map_or(text.as_str(), |(_, rest)| rest);
        notes.wrong(field, list, words);
    }
}

/// Ranges of different uses must not share an address.
pub(crate) fn overlaps(ranges: &[(&Field, &str, Cidr)], notes: &mut Notes) {
    for (at, (field, used, range)) in ranges.iter().enumerate() {
        for (_, others, other) in ranges[..at].iter().filter(|(_, others, _)| others != used) {
            if range.overlaps(other) {
                notes.wrong(
                    field,
                    range.to_string(),
                    format!("overlaps {other}, which is for {others}; choose ranges apart"),
                );
            }
        }
    }
}

/// Services and Pods may differ in families; what that means is said, since it surprises.
pub(crate) fn compare<S: HasFamily, P: HasFamily>(
    field: &Field,
    services: &DualStack<S>,
    pods: &DualStack<P>,
    notes: &mut Notes,
) {
    let (services, pods) = (services.families(), pods.families());
    if let Some(missing) = services.iter().find(|family| !pods.contains(*family)) {
        notes.warn(field, format!("Pods get no {missing} address, so {missing} Services will have no endpoints"));
    } else if services.primary() != pods.primary() {
        let (first, other) = (pods.primary(), services.primary());
        notes.warn(
            field,
            format!("the first range is {first}, that of Services is {other}; the same order is less confusing"),
        );
    }
    if pods.is_dual() && !services.is_dual() {
        notes.warn(field, format!("Pods are dual-stack, Services only {}", services.primary()));
    }
}
