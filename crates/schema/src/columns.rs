//! Table columns of custom resources: the name, then `additionalPrinterColumns`, or the age when there are none.

use super::jsonpath::JsonPath;
use api::{object::Fields, resource::Column};
use jiff::Timestamp;
use serde_json::Value;

/// A column and where its cells come from.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    /// Header.
    pub column: Column,
    /// Where the value stands.
    pub path: JsonPath,
}

impl PrinterColumn {
    /// The column that is shown when a definition has none.
    pub fn age() -> Self {
        let column = Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: "Time since the object was created.".to_owned(),
            priority: 0,
        };
        let path = JsonPath::parse(".metadata.creationTimestamp").expect("a path of plain names parses");
        Self { column, path }
    }

    /// The cell of one object: the first thing found, in the column's type; null when there is none or it does not fit.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.find(object).first().copied().filter(|value| !value.is_null()) else {
            return Value::Null;
        };
        match self.column.kind.as_str() {
            "string" => value.as_str().map_or_else(|| value.to_string(), str::to_owned).into(),
            "integer" => value.as_i64().or_else(|| value.as_f64().map(|n| n as i64)).into(),
            "number" => value.as_f64().into(),
            "boolean" => value.as_bool().into(),
            "date" => value.as_str().map(|text| age(text, now)).into(),
            _ => Value::Null,
        }
    }
}

/// All columns, the name first.
pub fn headers(columns: &[PrinterColumn]) -> Vec<Column> {
    let name = Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name of the object, unique within its namespace.".to_owned(),
        priority: 0,
    };
    std::iter::once(name).chain(columns.iter().map(|column| column.column.clone())).collect()
}

/// The cells of one object, the name first.
pub fn cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object.at("metadata.name").clone();
    std::iter::once(name).chain(columns.iter().map(|column| column.cell(object, now))).collect()
}

/// Time since a moment, in the two largest units as long as the second says something: `5m3s`, `3h`, `2d4h`, `400d`.
fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "<invalid>".to_owned() };
    let seconds = now.as_second() - since.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days, years) = (seconds / 60, seconds / 3600, seconds / 86_400, seconds / (86_400 * 365));
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::{PrinterColumn, age, cells, headers};
    use crate::jsonpath::JsonPath;
    use api::resource::Column;
    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};

    fn column(kind: &str, path: &str) -> PrinterColumn {
        let (name, kind) = (path.to_owned(), kind.to_owned());
        let column = Column { name, kind, format: String::new(), description: String::new(), priority: 0 };
        PrinterColumn { column, path: JsonPath::parse(path).unwrap() }
    }

    #[test]
    fn ages_have_the_units_that_kubectl_shows() {
        let now: Timestamp = "2024-06-01T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (190_000, "2d4h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (70_000_000, "2y80d"),
            (252_288_000, "8y"),
            (-1, "0s"),
            (-5, "<invalid>"),
        ] {
            let since = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap();
            assert_eq!(age(&since.to_string(), now), expected, "{seconds}");
        }
        assert_eq!(age("yesterday", now), "<invalid>");
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let now: Timestamp = "2024-06-01T00:05:00Z".parse().unwrap();
        let object = json!({"metadata": {"name": "n", "creationTimestamp": "2024-06-01T00:00:00Z"},
            "spec": {"n": 3, "f": 1.5, "b": true, "s": "x", "m": {"a": 1}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let ready = ".status.conditions[?(@.type==\"Ready\")].status";
        for (kind, path, expected) in [
            ("integer", ".spec.n", json!(3)),
            ("integer", ".spec.f", json!(1)),
            ("integer", ".spec.s", Value::Null),
            ("number", ".spec.n", json!(3.0)),
            ("boolean", ".spec.b", json!(true)),
            ("boolean", ".spec.s", Value::Null),
            ("string", ".spec.s", json!("x")),
            ("string", ".spec.n", json!("3")),
            ("string", ".spec.m", json!("{\"a\":1}")),
            ("string", ready, json!("True")),
            ("string", ".spec.missing", Value::Null),
            ("date", ".metadata.creationTimestamp", json!("5m")),
            ("date", ".spec.s", json!("<invalid>")),
        ] {
            assert_eq!(column(kind, path).cell(&object, now), expected, "{kind} {path}");
        }
        let columns = [column("string", ready), PrinterColumn::age()];
        assert_eq!(cells(&columns, &object, now), [json!("n"), json!("True"), json!("5m")]);
        assert_eq!(headers(&columns).iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["Name", ready, "Age"]);
    }
}
