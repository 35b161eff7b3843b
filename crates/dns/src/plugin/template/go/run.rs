//! Running a compiled template.

use super::{
    functions,
    parser::{Command, Node, Operand, Pipeline, Root, Template},
    value::Value,
};
use std::fmt::Write;

/// A template may call others, and itself.
const DEPTH: usize = 100;
/// Longest text, shown or kept in a variable: no record is longer.
const LONGEST: usize = 65_536;
/// Most parts that run for one text: loops in loops, and templates that call others twice, would go on for ever.
const MOST_STEPS: usize = 100_000;

impl Template {
    /// The text for this data.
    pub(crate) fn render(&self, data: &Value) -> Result<String, String> {
        let mut run = Run {
            template: self,
            text: String::new(),
            variables: vec![(String::new(), data.clone())],
            depth: 0,
            steps: 0,
        };
        run.nodes(&self.body, data)?;
        Ok(run.text)
    }
}

struct Run<'a> {
    template: &'a Template,
    text: String,
    variables: Vec<(String, Value)>,
    depth: usize,
    steps: usize,
}

/// How a list of nodes ended.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

impl Run<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, String> {
        let declared = self.variables.len();
        let mut flow = Flow::On;
        for node in nodes {
            flow = self.node(node, dot)?;
            if flow != Flow::On {
                break;
            }
        }
        self.variables.truncate(declared);
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, String> {
        self.step()?;
        match node {
            Node::Text(text) => self.text.push_str(text),
            Node::Show(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variable.is_none() {
                    // Writing to a string does not fail.
                    let _ = write!(self.text, "{value}");
                }
            }
            Node::If { condition, then, otherwise } => {
                let declared = self.variables.len();
                let chosen = if self.pipeline(condition, dot)?.is_true() { then } else { otherwise };
                let flow = self.nodes(chosen, dot);
                self.variables.truncate(declared);
                return flow;
            }
            Node::With { value, then, otherwise } => {
                let declared = self.variables.len();
                let value = self.pipeline(value, dot)?;
                let flow = if value.is_true() { self.nodes(then, &value) } else { self.nodes(otherwise, dot) };
                self.variables.truncate(declared);
                return flow;
            }
            Node::Range { names, values, body, otherwise } => {
                let values = self.pipeline(values, dot)?;
                return self.range(names, values, body, otherwise, dot);
            }
            Node::Call { name, argument } => {
                let argument = argument.as_ref().map(|argument| self.pipeline(argument, dot)).transpose()?;
                self.call(name, &argument.unwrap_or(Value::Nil))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        if self.text.len() > LONGEST {
            return Err(format!("the text grew beyond {LONGEST} bytes"));
        }
        Ok(Flow::On)
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MOST_STEPS { Err(format!("does not end within {MOST_STEPS} steps")) } else { Ok(()) }
    }

    fn range(
        &mut self,
        names: &[String],
        values: Value,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let items: Vec<(Value, Value)> = match values {
            Value::List(list) => {
                list.into_iter().enumerate().map(|(index, item)| (Value::Int(index as i128), item)).collect()
            }
            Value::Map(map) => map.into_iter().map(|(key, item)| (Value::Text(key), item)).collect(),
            Value::Int(count) if count <= LONGEST as i128 => {
                (0..count).map(|n| (Value::Int(n), Value::Int(n))).collect()
            }
            Value::Nil => Vec::new(),
            other => return Err(format!("range can't iterate over {other}")),
        };
        if items.is_empty() {
            return self.nodes(otherwise, dot);
        }
        for (key, item) in items {
            self.step()?;
            let declared = self.variables.len();
            match names {
                [value] => self.variables.push((value.clone(), item.clone())),
                [first, second, ..] => {
                    self.variables.push((first.clone(), key));
                    self.variables.push((second.clone(), item.clone()));
                }
                [] => {}
            }
            let flow = self.nodes(body, &item)?;
            self.variables.truncate(declared);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::On)
    }

    fn call(&mut self, name: &str, argument: &Value) -> Result<(), String> {
        let Some(body) = self.template.named.get(name).cloned() else {
            return Err(format!("template {name:?} not defined"));
        };
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("exceeded maximum template depth".to_owned());
        }
        let outer = std::mem::replace(&mut self.variables, vec![(String::new(), argument.clone())]);
        let result = self.nodes(&body, argument);
        self.variables = outer;
        self.depth -= 1;
        result.map(|_| ())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let value = last.unwrap_or(Value::Nil);
        match &pipeline.variable {
            Some((name, true)) => self.variables.push((name.clone(), value.clone())),
            Some((name, false)) => {
                let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
                known.ok_or_else(|| format!("undefined variable \"${name}\""))?.1 = value.clone();
            }
            None => {}
        }
        Ok(value)
    }

    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Result<Value, String> {
        let [first, rest @ ..] = command.words.as_slice() else { return Ok(Value::Nil) };
        match first {
            Operand::Function(name) if name == "and" || name == "or" => self.choose(name == "or", rest, dot, last),
            Operand::Function(name) => {
                let mut arguments = rest.iter().map(|word| self.operand(word, dot)).collect::<Result<Vec<_>, _>>()?;
                arguments.extend(last);
                bounded(functions::call(name, &arguments)?)
            }
            Operand::Chain { of, fields } => {
                let mut arguments = rest.iter().map(|word| self.operand(word, dot)).collect::<Result<Vec<_>, _>>()?;
                arguments.extend(last);
                self.chain(of, fields, &arguments, dot)
            }
            literal if rest.is_empty() && last.is_none() => self.operand(literal, dot),
            _ => Err("can't give argument to non-function".to_owned()),
        }
    }

    /// `and` and `or` look no further than they need.
    fn choose(&mut self, stops_at: bool, words: &[Operand], dot: &Value, last: Option<Value>) -> Result<Value, String> {
        let mut value = Value::Nil;
        for word in words {
            value = self.operand(word, dot)?;
            if value.is_true() == stops_at {
                return Ok(value);
            }
        }
        match last {
            Some(last) => Ok(last),
            None if words.is_empty() => Err("missing argument for and/or".to_owned()),
            None => Ok(value),
        }
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Nil => Ok(Value::Nil),
            Operand::Bool(truth) => Ok(Value::Bool(*truth)),
            Operand::Number(number) => Ok(Value::Int(*number)),
            Operand::Text(text) => Ok(Value::Text(text.clone())),
            Operand::Function(name) => functions::call(name, &[]),
            Operand::Chain { of, fields } => self.chain(of, fields, &[], dot),
        }
    }

    fn chain(&mut self, of: &Root, fields: &[String], arguments: &[Value], dot: &Value) -> Result<Value, String> {
        let mut value = match of {
            Root::Dot => dot.clone(),
            Root::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.ok_or_else(|| format!("undefined variable \"${name}\""))?.1.clone()
            }
            Root::Group(pipeline) => self.pipeline(pipeline, dot)?,
        };
        for (index, name) in fields.iter().enumerate() {
            let arguments = if index + 1 == fields.len() { arguments } else { &[] };
            value = match value {
                Value::Struct(fields) => match fields.field(name, arguments) {
                    Some(result) => result?,
                    None => return Err(format!("can't evaluate field {name}")),
                },
                Value::Map(map) => map.get(name).cloned().unwrap_or(Value::Nil),
                Value::Nil => return Err(format!("nil value has no field {name}")),
                other => return Err(format!("can't evaluate field {name} in {other}")),
            };
        }
        if fields.is_empty() && !arguments.is_empty() {
            return Err("can't give argument to non-function".to_owned());
        }
        Ok(value)
    }
}

/// What is printed of a text twice is twice as long, and so on.
fn bounded(value: Value) -> Result<Value, String> {
    match &value {
        Value::Text(text) if text.len() > LONGEST => Err(format!("a text grew beyond {LONGEST} bytes")),
        _ => Ok(value),
    }
}
