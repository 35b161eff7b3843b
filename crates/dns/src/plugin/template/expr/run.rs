//! What an expression gives for a question.

use super::{Expression, Node, Operator, functions::Function};
use crate::{
    plugin::template::go::Value,
    query::{Query, Transport},
    wire::code::{class, rtype},
};
use net::Cidr;
use std::{cmp::Ordering, net::IpAddr};

/// A question with what the pattern found in its name, and the variables so far.
pub(in crate::plugin::template) struct Asked<'a> {
    pub(in crate::plugin::template) query: &'a Query,
    /// The whole and the groups.
    pub(in crate::plugin::template) groups: &'a [String],
    pub(in crate::plugin::template) names: &'a [(String, String)],
    pub(in crate::plugin::template) variables: Vec<Value>,
}

impl Expression {
    /// Its value, or what was wrong with one on the way.
    pub(in crate::plugin::template) fn run(&self, asked: &Asked<'_>) -> Result<Value, String> {
        asked.value(&self.node)
    }
}

impl Asked<'_> {
    fn value(&self, node: &Node) -> Result<Value, String> {
        let values = |nodes: &[Node]| nodes.iter().map(|node| self.value(node)).collect::<Result<Vec<_>, _>>();
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Variable(index) => self.variables.get(*index).cloned().ok_or("a variable has no value")?,
            Node::Call(function, arguments) => self.call(*function, &values(arguments)?)?,
            Node::List(nodes) => Value::List(values(nodes)?),
            Node::Not(inner) => Value::Bool(!self.holds(inner)?),
            Node::Negative(inner) => match self.value(inner)? {
                Value::Int(number) => whole(whole_of(number).wrapping_neg()),
                other => Value::Float(-float(&other)),
            },
            Node::And(left, right) => Value::Bool(self.holds(left)? && self.holds(right)?),
            Node::Or(left, right) => Value::Bool(self.holds(left)? || self.holds(right)?),
            Node::Choice(parts) => self.value(if self.holds(&parts[0])? { &parts[1] } else { &parts[2] })?,
            Node::Binary(operator, left, right) => binary(*operator, &self.value(left)?, &self.value(right)?)?,
            Node::Matches(inner, regex) => Value::Bool(regex.is_match(text(&self.value(inner)?))),
            Node::Within(parts) => {
                let [value, first, last] = [self.whole(&parts[0])?, self.whole(&parts[1])?, self.whole(&parts[2])?];
                Value::Bool((first..=last).contains(&value))
            }
            Node::Index(of, index) => {
                let (of, index) = (self.value(of)?, self.whole(index)?);
                let list = if let Value::List(list) = &of { list.as_slice() } else { &[] };
                // From the end when it is negative.
                let at = if index < 0 { index.checked_add_unsigned(list.len() as u64) } else { Some(index) };
                let found = at.and_then(|at| list.get(usize::try_from(at).ok()?));
                found.cloned().ok_or_else(|| format!("index out of range: {index} of {}", list.len()))?
            }
            Node::Slice(of, from, to) => {
                let of = self.value(of)?;
                let bound = |node: &Option<Box<Node>>| node.as_ref().map(|node| self.whole(node)).transpose();
                slice(&of, bound(from)?, bound(to)?)
            }
        })
    }

    fn holds(&self, node: &Node) -> Result<bool, String> {
        Ok(matches!(self.value(node)?, Value::Bool(true)))
    }

    fn whole(&self, node: &Node) -> Result<i64, String> {
        match self.value(node)? {
            Value::Int(number) => Ok(whole_of(number)),
            other => Err(format!("{other} is no whole number")),
        }
    }

    fn call(&self, function: Function, arguments: &[Value]) -> Result<Value, String> {
        let request = &self.query.request;
        let edns = request.edns.as_ref();
        let [first, second, third] = [0, 1, 2].map(|index| arguments.get(index).map_or("", text));
        let owned = |text: &str| Value::Text(text.to_owned());
        Ok(match function {
            Function::Bufsize => whole(self.query.limit() as i64),
            Function::Class => Value::Text(class::text(request.class)),
            Function::ClientIp => Value::Text(self.query.source.ip().to_canonical().to_string()),
            Function::Do => Value::Bool(edns.is_some_and(|edns| edns.dnssec_ok)),
            Function::Id => whole(request.id.into()),
            Function::Name => Value::Text(self.query.lower.to_string()),
            // Nothing but queries comes this far.
            Function::Opcode => whole(0),
            Function::Port => Value::Text(self.query.source.port().to_string()),
            Function::Proto => owned(if self.query.transport == Transport::Tcp { "tcp" } else { "udp" }),
            Function::Size => whole(self.query.size as i64),
            Function::Type => Value::Text(rtype::text(request.rtype)),
            Function::Metadata => owned(""),
            Function::Group => Value::Text(self.group(arguments.first())),
            Function::Incidr => Value::Bool(in_cidr(first, second)?),
            Function::Float => match arguments.first() {
                Some(Value::Text(text)) => Value::Float(text.parse().map_err(|_| format!("{text:?} is no number"))?),
                other => Value::Float(other.map_or(0.0, float)),
            },
            Function::Int => match arguments.first() {
                Some(Value::Text(text)) => whole(text.parse().map_err(|_| format!("{text:?} is no whole number"))?),
                Some(Value::Float(number)) => whole(*number as i64),
                other => other.cloned().unwrap_or(Value::Nil),
            },
            Function::String => Value::Text(arguments.first().map(ToString::to_string).unwrap_or_default()),
            Function::Len => match arguments.first() {
                Some(Value::List(list)) => whole(list.len() as i64),
                _ => whole(first.chars().count() as i64),
            },
            Function::HasPrefix => Value::Bool(first.starts_with(second)),
            Function::HasSuffix => Value::Bool(first.ends_with(second)),
            Function::IndexOf => whole(first.find(second).map_or(-1, |at| at as i64)),
            Function::Lower => Value::Text(first.to_lowercase()),
            Function::Upper => Value::Text(first.to_uppercase()),
            Function::Trim => owned(first.trim()),
            Function::TrimPrefix => owned(first.strip_prefix(second).unwrap_or(first)),
            Function::TrimSuffix => owned(first.strip_suffix(second).unwrap_or(first)),
            Function::Replace => Value::Text(first.replace(second, third)),
            Function::Split if second.is_empty() => Value::List(first.chars().map(|c| owned(&c.to_string())).collect()),
            Function::Split => Value::List(first.split(second).map(owned).collect()),
            Function::Join => match arguments.first() {
                Some(Value::List(list)) => Value::Text(list.iter().map(text).collect::<Vec<_>>().join(second)),
                _ => owned(""),
            },
        })
    }

    /// A group by number or name; one that is not there is empty.
    fn group(&self, key: Option<&Value>) -> String {
        let found = match key {
            // Without a pattern the whole name is what was found.
            Some(Value::Int(0)) if self.groups.is_empty() => return self.query.lower.to_string(),
            Some(Value::Int(at)) => usize::try_from(*at).ok().and_then(|at| self.groups.get(at)),
            Some(Value::Text(name)) => match name.parse::<usize>() {
                Ok(at) => return self.group(Some(&Value::Int(at as i128))),
                Err(_) => self.names.iter().find(|(known, _)| known == name).map(|(_, found)| found),
            },
            _ => None,
        };
        found.cloned().unwrap_or_default()
    }
}

fn in_cidr(address: &str, cidr: &str) -> Result<bool, String> {
    let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is no address"))?;
    let parts = cidr.split_once('/');
    let range = parts.and_then(|(first, prefix)| Cidr::containing(first.parse().ok()?, prefix.parse().ok()?));
    let range = range.ok_or_else(|| format!("{cidr:?} is no range of addresses such as 10.0.0.0/8 or fd00::/8"))?;
    Ok(range.contains(address))
}

fn binary(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    use Operator::{Add, Divide, Multiply, Power, Remainder, Subtract};
    Ok(match (operator, left, right) {
        (Add, Value::Text(left), Value::Text(right)) => Value::Text(format!("{left}{right}")),
        (Add | Subtract | Multiply | Remainder, Value::Int(left), Value::Int(right)) => {
            let (left, right) = (whole_of(*left), whole_of(*right));
            whole(match operator {
                Add => left.wrapping_add(right),
                Subtract => left.wrapping_sub(right),
                Multiply => left.wrapping_mul(right),
                _ if right == 0 => return Err("a remainder of a division by zero".to_owned()),
                _ => left.wrapping_rem(right),
            })
        }
        (Add, ..) => Value::Float(float(left) + float(right)),
        (Subtract, ..) => Value::Float(float(left) - float(right)),
        (Multiply, ..) => Value::Float(float(left) * float(right)),
        (Divide | Remainder, ..) => Value::Float(float(left) / float(right)),
        (Power, ..) => Value::Float(float(left).powf(float(right))),
        (Operator::Contains, ..) => Value::Bool(text(left).contains(text(right))),
        (Operator::StartsWith, ..) => Value::Bool(text(left).starts_with(text(right))),
        (Operator::EndsWith, ..) => Value::Bool(text(left).ends_with(text(right))),
        (Operator::In, _, Value::List(list)) => Value::Bool(list.iter().any(|one| order(left, one) == EQUAL)),
        (Operator::Equal, ..) => Value::Bool(order(left, right) == EQUAL),
        (Operator::Unequal, ..) => Value::Bool(order(left, right) != EQUAL),
        (Operator::Less, ..) => Value::Bool(order(left, right) == Some(Ordering::Less)),
        (Operator::More, ..) => Value::Bool(order(left, right) == Some(Ordering::Greater)),
        (Operator::AtMost, ..) => Value::Bool(order(left, right).is_some_and(Ordering::is_le)),
        (Operator::AtLeast, ..) => Value::Bool(order(left, right).is_some_and(Ordering::is_ge)),
        (Operator::In, ..) => Value::Bool(false),
    })
}

const EQUAL: Option<Ordering> = Some(Ordering::Equal);

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::List(left), Value::List(right)) if left.len() == right.len() => {
            left.iter().zip(right).all(|(left, right)| order(left, right) == EQUAL).then_some(Ordering::Equal)
        }
        (Value::List(_), _) => None,
        (left, right) => float(left).partial_cmp(&float(right)),
    }
}

/// Bounds beyond the ends are the ends; negative ones count from the last.
fn slice(of: &Value, from: Option<i64>, to: Option<i64>) -> Value {
    let range = |length: usize| {
        let bound = |at: i64| {
            let at = if at < 0 { at.saturating_add(length as i64) } else { at };
            usize::try_from(at).unwrap_or(0).min(length)
        };
        let to = to.map_or(length, bound);
        from.map_or(0, bound).min(to)..to
    };
    match of {
        Value::List(list) => Value::List(list[range(list.len())].to_vec()),
        other => {
            let bytes = text(other).as_bytes();
            Value::Text(String::from_utf8_lossy(&bytes[range(bytes.len())]).into_owned())
        }
    }
}

fn whole(number: i64) -> Value {
    Value::Int(number.into())
}

/// Expressions count with 64 bits, as the language does.
fn whole_of(number: i128) -> i64 {
    number as i64
}

fn float(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    }
}

fn text(value: &Value) -> &str {
    if let Value::Text(text) = value { text } else { "" }
}
