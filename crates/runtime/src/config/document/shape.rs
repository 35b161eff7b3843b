//! What may stand in a field, and how it would be written after a flag.

use serde_json::{Map, Value, json};

/// What may stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    Whole,
    Number,
    Switch,
    /// A length of time as Go writes it; 0 means that nothing is given.
    Time,
    /// A length of time, of which 0 is one too.
    TimeOrZero,
    /// A whole number of seconds, for a flag that takes a length of time.
    Seconds,
    Texts,
    /// Names and texts, with this between them.
    Pairs(char),
    /// Taints of a Node.
    Taints,
    /// Anything; only for what has no effect.
    Any,
}

use Shape::{Any, Number, Pairs, Seconds, Switch, Taints, Text, Texts, Time, TimeOrZero, Whole};

impl Shape {
    /// The value as it would be written after a flag; `None` when it says nothing, or what is accepted.
    pub(super) fn text(self, value: &Value) -> Result<Option<String>, &'static str> {
        let some = |text: &str| Ok(Some(text.to_owned()).filter(|text| !text.is_empty()));
        match (self, value) {
            (_, Value::Null) => Ok(None),
            (Any, Value::Object(map)) if map.is_empty() => Ok(None),
            (Any, other) => Ok(Some(other.to_string())),
            (Text, Value::String(text)) => some(text),
            (Text, _) => Err("text"),
            (Whole, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(Some(number.to_string())),
            (Whole, _) => Err("a whole number"),
            (Number, Value::Number(number)) => Ok(Some(number.to_string())),
            (Number, _) => Err("a number"),
            (Switch, Value::Bool(switch)) => Ok(Some(switch.to_string())),
            (Switch, _) => Err("true, false"),
            (Time, Value::String(text)) => {
                Ok(Some(text.clone()).filter(|text| text.contains(|c: char| ('1'..='9').contains(&c))))
            }
            (Time, Value::Number(number)) if number.as_u64() == Some(0) => Ok(None),
            (TimeOrZero, Value::String(text)) => some(text),
            (Time | TimeOrZero, _) => Err("a length of time such as 30s"),
            (Texts, Value::Array(list)) => {
                let words: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                some(&words.ok_or("a list of texts")?.join(","))
            }
            (Texts, _) => Err("a list of texts"),
            (Seconds, Value::Number(number)) if number.as_u64() == Some(0) => Ok(None),
            (Seconds, Value::Number(number)) if number.is_u64() => Ok(Some(format!("{number}s"))),
            (Seconds, _) => Err("a whole number of seconds"),
            (Pairs(between), Value::Object(map)) => some(&pairs(map, between).ok_or("names with texts")?),
            (Pairs(_), _) => Err("names with texts"),
            (Taints, Value::Array(list)) => {
                let words: Option<Vec<String>> = list.iter().map(taint).collect();
                some(&words.ok_or("a list of taints, each with key and effect")?.join(","))
            }
            (Taints, _) => Err("a list of taints, each with key and effect"),
        }
    }

    /// The text of a flag as the field has it.
    pub(super) fn value(self, text: &str) -> Value {
        match self {
            Whole | Number => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
            Switch => json!(text == "true"),
            Texts => json!(text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>()),
            Seconds => text.trim_end_matches('s').parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
            Pairs(between) => {
                let pairs = text.split(',').filter_map(|pair| pair.split_once(between));
                pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
            }
            Text | Time | TimeOrZero | Taints | Any => json!(text),
        }
    }
}

fn pairs(map: &Map<String, Value>, between: char) -> Option<String> {
    let pairs: Option<Vec<String>> =
        map.iter().map(|(name, value)| Some(format!("{name}{between}{}", value.as_str()?))).collect();
    Some(pairs?.join(","))
}

fn taint(taint: &Value) -> Option<String> {
    let word = |name: &str| taint.get(name).map_or(Some(""), Value::as_str);
    let (key, value, effect) = (word("key")?, word("value")?, word("effect")?);
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    (!key.is_empty()).then(|| format!("{key}{value}:{effect}"))
}
