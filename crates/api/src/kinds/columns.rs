//! What table columns of many kinds share: definitions, ages, labels and lists as text.
//!
//! Each kind lists its columns as `Def`s and gives cells in the same order; upstream's printers decide which and how.

use crate::{object::Fields, resource::Column};
use serde_json::Value;

/// One column: header, type, priority (1 is shown only with `-o wide`), description.
pub type Def = (&'static str, &'static str, i32, &'static str);

/// The name, first in nearly every table.
pub const NAME: Def = ("Name", "string", 0, "Name of the object");
/// The time since creation.
pub const AGE: Def = ("Age", "string", 0, "Time since the object was created");
/// Names of the containers in a pod template.
pub const CONTAINERS: Def = ("Containers", "string", 1, "Names of the containers of the template");
/// Images of the containers in a pod template.
pub const IMAGES: Def = ("Images", "string", 1, "Images of the containers of the template");
/// Label selector of a workload.
pub const SELECTOR: Def = ("Selector", "string", 1, "Labels of the pods that belong to it");

/// The columns of a table.
pub fn columns(defs: &[Def]) -> Vec<Column> {
    defs.iter()
        .map(|(name, kind, priority, description)| Column {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            format: if *name == "Name" { "name".to_owned() } else { String::new() },
            description: (*description).to_owned(),
            priority: *priority,
        })
        .collect()
}

/// Columns of a kind without columns of its own.
pub fn name_and_age() -> Vec<Column> {
    columns(&[NAME, AGE])
}

/// Cells of a kind without columns of its own.
pub fn name_and_age_cells(object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// Columns of the kinds that upstream has no printer for.
pub fn name_and_creation() -> Vec<Column> {
    columns(&[NAME, ("Created At", "date", 0, "When the object was created")])
}

/// Cells of the kinds that upstream has no printer for.
pub fn name_and_creation_cells(object: &Value) -> Vec<Value> {
    vec![name(object), object.at("metadata.creationTimestamp").clone()]
}

/// `metadata.name`.
pub fn name(object: &Value) -> Value {
    object.at("metadata.name").clone()
}

/// Time since creation.
pub fn age(object: &Value, now: jiff::Timestamp) -> Value {
    since(object.str_at("metadata.creationTimestamp"), now).into()
}

/// Time since `timestamp`, in two or three significant figures.
pub fn since(timestamp: &str, now: jiff::Timestamp) -> String {
    match timestamp.parse::<jiff::Timestamp>() {
        Ok(then) => human_duration(now.as_second() - then.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Seconds as `95s`, `3m20s`, `5h10m`, `3d4h`, `400d`, `3y`.
pub fn human_duration(seconds: i64) -> String {
    let two = |big: i64, unit: &str, small: i64, part: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{part}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// `k=v,k2=v2`, or `<none>`.
pub fn labels(labels: &Value) -> String {
    let parts: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or(parts.join(","), "<none>")
}

/// The text, or `instead` when it is empty.
pub fn or(text: impl Into<String>, instead: &str) -> String {
    let text = text.into();
    if text.is_empty() { instead.to_owned() } else { text }
}

/// The first three of a list, then `+ N more...`; `nothing` for an empty one.
pub fn first_three(list: &[String], nothing: &str) -> String {
    match list {
        [] => nothing.to_owned(),
        [first @ .., _] if first.len() >= 3 => format!("{} + {} more...", list[..3].join(","), list.len() - 3),
        all => all.join(","),
    }
}

/// Names and images of the containers of a pod template.
pub fn containers(template: &Value) -> [Value; 2] {
    let list = template.list_at("spec.containers");
    ["name", "image"].map(|field| list.iter().map(|c| c.str_at(field)).collect::<Vec<_>>().join(",").into())
}

/// The number at a path, 0 when there is none.
pub fn number(object: &Value, path: &str) -> Value {
    object.int_at(path).unwrap_or_default().into()
}

/// Addresses and host names of a load balancer, sorted, each once.
pub fn load_balancer(object: &Value) -> String {
    let mut list: Vec<&str> = object
        .list_at("status.loadBalancer.ingress")
        .iter()
        .map(|point| {
            [point.str_at("ip"), point.str_at("hostname")].into_iter().find(|t| !t.is_empty()).unwrap_or_default()
        })
        .filter(|text| !text.is_empty())
        .collect();
    list.sort_unstable();
    list.dedup();
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_kubectl_shows_them() {
        const M: i64 = 60;
        const H: i64 = 3600;
        const D: i64 = 24 * H;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (10 * M, "10m"),
            (179 * M, "179m"),
            (3 * H, "3h"),
            (5 * H + 10 * M, "5h10m"),
            (8 * H + 10 * M, "8h"),
            (47 * H, "47h"),
            (2 * D, "2d"),
            (3 * D + 4 * H, "3d4h"),
            (8 * D, "8d"),
            (729 * D, "729d"),
            (730 * D, "2y"),
            (800 * D, "2y70d"),
            (365 * 8 * D, "8y"),
        ] {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn lists_are_cut_after_three() {
        let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        for (n, text) in [(0, "-"), (1, "0"), (3, "0,1,2"), (4, "0,1,2 + 1 more..."), (5, "0,1,2 + 2 more...")] {
            assert_eq!(first_three(&list(n), "-"), text);
        }
    }
}
