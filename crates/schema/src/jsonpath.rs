//! JSONPath as printer columns use it: `.spec.x`, `['a.b']`, `[0]`, `[*]`, `[1:3]`, `[?(@.type=="Ready")]`, `..name`.
//!
//! `JsonPath::parse` refuses what it does not know; `find` never fails, what is missing is not found.

use serde_json::Value;
use std::cell::Cell;

/// Most values that a path looks at. `[*,*]` a few times over, `..` after `..` or filters in filters would come to more than
/// there is time and memory for; what is beyond is not found.
const MOST_VALUES: usize = 100_000;

/// Values that may still be looked at.
struct Budget(Cell<usize>);

impl Budget {
    fn spend(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Every field or item.
    Each,
    /// An item, from the end when negative.
    Item(i64),
    /// Items from, before, and how far apart.
    Slice(Option<i64>, Option<i64>, i64),
    /// Any of these.
    Union(Vec<Self>),
    /// Items for which this holds.
    Filter(Filter),
    /// Everything below, at any depth.
    Below,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Compare(Comparison, Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Path(JsonPath),
}

/// Why a text is no path. Not retryable: the path must change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no JSONPath at {rest:?}: {why}")]
pub struct PathError {
    rest: String,
    why: &'static str,
}

fn refuse<T>(rest: &str, why: &'static str) -> Result<T, PathError> {
    Err(PathError { rest: rest.chars().take(40).collect(), why })
}

impl JsonPath {
    /// Reads a path; it starts with a dot or a bracket, or is `.`, the object itself.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        match text {
            "." => Ok(Self { steps: Vec::new() }),
            "" => refuse(text, "it is empty; a path looks like .spec.x"),
            _ => {
                let (steps, rest) = steps(text, 0)?;
                if rest.is_empty() { Ok(Self { steps }) } else { refuse(rest, "a step starts with . or [") }
            }
        }
    }

    /// What the path leads to, in order.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.within(value, &Budget(Cell::new(MOST_VALUES)))
    }

    fn within<'v>(&self, value: &'v Value, budget: &Budget) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            found.into_iter().for_each(|value| step.take(value, &mut next, budget));
            found = next;
        }
        found
    }
}

/// How many filters may stand inside of each other.
const MAX_NESTING: usize = 8;

fn steps(text: &str, depth: usize) -> Result<(Vec<Step>, &str), PathError> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Below);
            rest = if after.starts_with('[') { after } else { name_step(after, &mut steps)? };
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = if after.starts_with('[') { after } else { name_step(after, &mut steps)? };
        } else if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = bracket(after, depth)?;
            steps.push(step);
            rest = after;
        } else {
            return Ok((steps, rest));
        }
    }
}

/// A name ends at a dot, a bracket, or at what follows a path inside of a filter; a backslash takes that meaning away.
fn name_step<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, PathError> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' | ']' | '(' | ')' | '=' | '!' | '<' | '>' | ' ' | ',' | '{' | '}' => {
                end = i;
                break;
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => return refuse(text, "a name is expected"),
        "*" => steps.push(Step::Each),
        _ => steps.push(Step::Field(name)),
    }
    Ok(&text[end..])
}

fn bracket(text: &str, depth: usize) -> Result<(Step, &str), PathError> {
    if let Some(after) = text.strip_prefix("?(") {
        if depth >= MAX_NESTING {
            return refuse(text, "filters are nested too deep");
        }
        return filter(after, depth + 1);
    }
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (step, after) = part(rest.trim_start())?;
        parts.push(step);
        rest = after.trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
        } else if let Some(after) = rest.strip_prefix(']') {
            let one = parts.len() == 1;
            let step = if one { parts.swap_remove(0) } else { Step::Union(parts) };
            return Ok((step, after));
        } else {
            return refuse(rest, "] is expected");
        }
    }
}

fn part(text: &str) -> Result<(Step, &str), PathError> {
    if let Some(after) = text.strip_prefix('*') {
        return Ok((Step::Each, after));
    }
    if text.starts_with(['\'', '"']) {
        let (name, rest) = quoted(text)?;
        return Ok((Step::Field(name), rest));
    }
    let end = text.find([']', ',']).unwrap_or(text.len());
    let (inside, rest) = text.split_at(end);
    let number = |text: &str| match text.trim() {
        "" => Ok(None),
        digits => digits.parse().map(Some).or_else(|_| refuse(inside, "a number is expected")),
    };
    let mut numbers = inside.split(':');
    let first = number(numbers.next().unwrap_or_default())?;
    match (numbers.next(), numbers.next(), numbers.next()) {
        (None, _, _) => match first {
            Some(index) => Ok((Step::Item(index), rest)),
            None => refuse(text, "a number, a name in quotes or * is expected"),
        },
        (Some(end), step, None) => {
            let step = number(step.unwrap_or_default())?.unwrap_or(1);
            if step < 1 {
                return refuse(inside, "the step of a slice must be positive");
            }
            Ok((Step::Slice(first, number(end)?, step), rest))
        }
        _ => refuse(inside, "a slice has at most three numbers"),
    }
}

fn quoted(text: &str) -> Result<(String, &str), PathError> {
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, c)| c);
    let mut name = String::new();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c if Some(c) == quote => return Ok((name, &text[i + c.len_utf8()..])),
            c => name.push(c),
        }
    }
    refuse(text, "the closing quote is missing")
}

fn filter(text: &str, depth: usize) -> Result<(Step, &str), PathError> {
    let (left, rest) = current(text.trim_start(), depth)?;
    let rest = rest.trim_start();
    let signs = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessEqual),
        (">=", Comparison::GreaterEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let sign = signs.into_iter().find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)));
    let (test, rest) = match sign {
        None => (Test::Exists, rest),
        Some((comparison, after)) => {
            let (operand, rest) = operand(after.trim_start(), depth)?;
            (Test::Compare(comparison, operand), rest.trim_start())
        }
    };
    match rest.strip_prefix(")]") {
        Some(rest) => Ok((Step::Filter(Filter { left, test }), rest)),
        None => refuse(rest, ")] is expected"),
    }
}

fn current(text: &str, depth: usize) -> Result<(JsonPath, &str), PathError> {
    let Some(after) = text.strip_prefix('@') else { return refuse(text, "@ is expected") };
    let (steps, rest) = steps(after, depth)?;
    Ok((JsonPath { steps }, rest))
}

fn operand(text: &str, depth: usize) -> Result<(Operand, &str), PathError> {
    if text.starts_with('@') {
        return current(text, depth).map(|(path, rest)| (Operand::Path(path), rest));
    }
    if text.starts_with(['\'', '"']) {
        return quoted(text).map(|(literal, rest)| (Operand::Literal(literal.into()), rest));
    }
    let end = text.find([')', ' ']).unwrap_or(text.len());
    match serde_json::from_str(&text[..end]) {
        Ok(literal) => Ok((Operand::Literal(literal), &text[end..])),
        Err(_) => refuse(text, "a text in quotes, a number, true, false or @ is expected"),
    }
}

impl Step {
    fn take<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>, budget: &Budget) {
        let afford = |_: &&'v Value| budget.spend();
        match (self, value) {
            (Self::Field(name), _) => found.extend(value.get(name).filter(afford)),
            (Self::Each, Value::Array(list)) => found.extend(list.iter().take_while(afford)),
            (Self::Each, Value::Object(map)) => found.extend(map.values().take_while(afford)),
            (Self::Item(index), Value::Array(list)) => found.extend(at(list, *index).filter(afford)),
            (Self::Slice(from, to, step), Value::Array(list)) => {
                let index = |n: i64| usize::try_from(if n < 0 { n + list.len() as i64 } else { n }).unwrap_or(0);
                let to = to.map_or(list.len(), index).min(list.len());
                let from = from.map_or(0, index).min(to);
                let step = usize::try_from(*step).unwrap_or(1);
                found.extend(list[from..to].iter().step_by(step).take_while(afford));
            }
            (Self::Union(steps), _) => steps.iter().for_each(|step| step.take(value, found, budget)),
            (Self::Filter(filter), Value::Array(list)) => {
                found.extend(list.iter().take_while(afford).filter(|item| filter.holds(item, budget)));
            }
            (Self::Below, _) => below(value, found, budget),
            _ => {}
        }
    }
}

fn at(list: &[Value], index: i64) -> Option<&Value> {
    let index = if index < 0 { index + list.len() as i64 } else { index };
    list.get(usize::try_from(index).ok()?)
}

fn below<'v>(value: &'v Value, found: &mut Vec<&'v Value>, budget: &Budget) {
    if !budget.spend() {
        return;
    }
    found.push(value);
    match value {
        Value::Array(list) => list.iter().for_each(|item| below(item, found, budget)),
        Value::Object(map) => map.values().for_each(|item| below(item, found, budget)),
        _ => {}
    }
}

impl Filter {
    fn holds(&self, item: &Value, budget: &Budget) -> bool {
        let left = self.left.within(item, budget);
        let Test::Compare(comparison, operand) = &self.test else { return !left.is_empty() };
        let right = match operand {
            Operand::Literal(literal) => Some(literal),
            Operand::Path(path) => path.within(item, budget).first().copied(),
        };
        left.first().is_some_and(|left| right.is_some_and(|right| comparison.holds(left, right)))
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use crate::walk::number;
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => Some(number::compare(a, b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Self::Equal => number::equal(left, right),
            Self::NotEqual => !number::equal(left, right),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JsonPath;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn paths_find_what_they_name() {
        let object = json!({
            "metadata": {"name": "n", "annotations": {"a.b/c": "x"}},
            "spec": {"list": [1, 2, 3, 4], "items": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Stuck", "status": "False"}]}
        });
        for (path, expected) in [
            (".metadata.name", json!(["n"])),
            (".metadata.annotations.a\\.b/c", json!(["x"])),
            (".metadata.annotations['a.b/c']", json!(["x"])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([4])),
            (".spec.list[9]", json!([])),
            (".spec.list[*]", json!([1, 2, 3, 4])),
            (".spec.list[1:3]", json!([2, 3])),
            (".spec.list[::2]", json!([1, 3])),
            (".spec.list[-2:]", json!([3, 4])),
            (".spec.list[0,2]", json!([1, 3])),
            (".spec['list','none'][0]", json!([1])),
            (".spec.items[*].n", json!(["a", "b"])),
            (".spec.items[?(@.v>1)].n", json!(["b"])),
            (".spec.items[?(@.v >= 1)].n", json!(["a", "b"])),
            (".spec.items[?(@.n!='a')].v", json!([2])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
            (".status.conditions[?(@.reason)].status", json!([])),
            (".status..status", json!(["True", "False"])),
            (".missing.x", json!([])),
            (".", json!([object.clone()])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|why| panic!("{path}: {why}"));
            let found: Vec<Value> = parsed.find(&object).into_iter().cloned().collect();
            assert_eq!(Value::from(found), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "",
            "spec",
            ".spec[",
            ".spec[]",
            ".spec['a]",
            ".a[?(@.b==)]",
            ".a[?(b)]",
            ".a[1:2:0]",
            "..",
            ".a b",
            ".a[x]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_that_multiplies_ends() {
        let deep = (0..90).fold(json!([1, 2]), |inside, _| json!([inside]));
        let wide = json!({"a": vec![json!({"b": [1, 2, 3]}); 300]});
        let filter = |inside: &str| format!("..[?(@{inside})]");
        for (path, object) in [
            ("[*,*]".repeat(90), &deep),
            ("..*".repeat(60), &deep),
            ((0..7).fold(String::new(), |inside, _| filter(&inside)), &wide),
        ] {
            let parsed = JsonPath::parse(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
            assert!(parsed.find(object).len() <= super::MOST_VALUES, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in "[.\\[\\]a-c'\"?()@=<>*0-9:, \\\\-]{0,40}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&json!({"a": [{"b": 1}], "b": {"c": [1, 2]}}));
            }
        }
    }
}
