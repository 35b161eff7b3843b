//! What a ResourceClaim uses: devices, by their class.

use crate::{
    kinds::quantity::{self, Amount, Amounts},
    object::Fields,
};
use serde_json::Value;

/// What a quota for the devices of one class ends with.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// A claim never gets more, so that is what `All` may come to.
const MOST: usize = 32;

/// Whether a quota by this name counts devices.
pub(super) fn has(name: &str) -> bool {
    name.ends_with(OF_CLASS)
}

/// Of alternatives each class counts with the most that it may come to.
pub(super) fn usage(claim: &Value) -> Amounts {
    let mut usage = Amounts::new();
    for request in claim.list_at("spec.devices.requests") {
        let mut most = Amounts::new();
        let alternatives = request.list_at("firstAvailable").iter();
        let exactly = Some(request.at("exactly")).filter(|exactly| exactly.is_object());
        for wish in alternatives.chain(exactly) {
            let known = most.entry(format!("{}{OF_CLASS}", wish.str_at("deviceClassName"))).or_default();
            *known = known.at_least(devices(wish));
        }
        quantity::add(&mut usage, &most);
    }
    usage
}

fn devices(wish: &Value) -> Amount {
    match wish.str_at("allocationMode") {
        "ExactCount" => {
            Amount::count(wish.int_at("count").and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
        }
        "All" => Amount::count(MOST),
        _ => Amount::default(),
    }
}
