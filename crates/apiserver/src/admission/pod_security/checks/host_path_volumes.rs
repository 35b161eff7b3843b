//! Files of the node are not mounted.

use super::{super::pod::PodView, Violation, plural, quoted};
use api::object::Fields;

pub(super) fn check(pod: PodView<'_>) -> Option<Violation> {
    let volumes = pod.spec().list_at("volumes").iter().filter(|volume| !volume.at("hostPath").is_null());
    let names: Vec<&str> = volumes.map(|volume| volume.str_at("name")).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", plural(&names, "volume", "volumes"), quoted(&names)),
    })
}
