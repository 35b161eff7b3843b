//! Pieces to a tree.

use super::{
    functions,
    lexer::{self, Piece, Word},
};
use std::{collections::HashMap, sync::Arc};

/// A compiled template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(super) body: Vec<Node>,
    pub(super) named: HashMap<String, Arc<Vec<Node>>>,
    source: String,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Text(String),
    Show(Pipeline),
    If { condition: Pipeline, then: Vec<Self>, otherwise: Vec<Self> },
    With { value: Pipeline, then: Vec<Self>, otherwise: Vec<Self> },
    Range { names: Vec<String>, values: Pipeline, body: Vec<Self>, otherwise: Vec<Self> },
    Call { name: String, argument: Option<Pipeline> },
    Break,
    Continue,
}

/// `$x := a | b`.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    /// The variable that gets the value, and whether it is a new one.
    pub(super) variable: Option<(String, bool)>,
    pub(super) commands: Vec<Command>,
}

/// A function or value with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) words: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Function(String),
    Nil,
    Bool(bool),
    Number(i128),
    Text(String),
    /// Fields of the dot, a variable or a pipeline in parentheses.
    Chain {
        of: Root,
        fields: Vec<String>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Root {
    Dot,
    Variable(String),
    Group(Box<Pipeline>),
}

/// How deep blocks and parentheses may be.
const DEPTH: usize = 100;

impl Template {
    /// Compiles a template, or says what is wrong with it.
    pub(crate) fn compile(source: &str) -> Result<Self, String> {
        let pieces = lexer::pieces(source)?;
        let mut parser = Parser {
            pieces: pieces.into_iter(),
            named: HashMap::new(),
            variables: vec![String::new()],
            depth: 0,
            loops: 0,
        };
        let (body, end) = parser.nodes()?;
        if let End::Word(word) = end {
            return Err(format!("unexpected {{{{{word}}}}}"));
        }
        let named = parser.named.into_iter().map(|(name, nodes)| (name, Arc::new(nodes))).collect();
        Ok(Self { body, named, source: source.to_owned() })
    }

    /// The text it was compiled from.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// What follows, if the template is one field such as `{{ .Name }}` and then plain text.
    pub(crate) fn text_after(&self, field: &str) -> Option<&str> {
        let [Node::Show(pipeline), Node::Text(text)] = self.body.as_slice() else { return None };
        let ([Command { words }], None) = (pipeline.commands.as_slice(), &pipeline.variable) else { return None };
        match words.as_slice() {
            [Operand::Chain { of: Root::Dot, fields }] if *fields == [field] => Some(text),
            _ => None,
        }
    }

    /// The text, if there is nothing to fill in.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self.body.as_slice() {
            [] => Some(""),
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    named: HashMap<String, Vec<Node>>,
    /// Names that are declared here.
    variables: Vec<String>,
    depth: usize,
    loops: usize,
}

/// What ended a list of nodes.
enum End {
    OfText,
    /// `end`, or `else` with the words after it.
    Word(String),
    Else(Vec<Word>),
}

impl Parser {
    fn nodes(&mut self) -> Result<(Vec<Node>, End), String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("nested too deeply".to_owned());
        }
        let mut nodes = Vec::new();
        let declared = self.variables.len();
        let end = loop {
            let words = match self.pieces.next() {
                None => break End::OfText,
                Some(Piece::Text(text)) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Some(Piece::Action(words)) => words,
            };
            let Some(first) = words.first() else { return Err("missing value for command".to_owned()) };
            let keyword = if let Word::Name(name) = first { name.as_str() } else { "" };
            match keyword {
                "end" if words.len() == 1 => break End::Word("end".to_owned()),
                "else" => break End::Else(words[1..].to_vec()),
                "if" | "with" | "range" => nodes.push(self.block(keyword, &words[1..])?),
                "define" => self.define(&words[1..])?,
                "block" => nodes.push(self.named_block(&words[1..])?),
                "template" => nodes.push(self.call(&words[1..])?),
                "break" | "continue" if words.len() == 1 => {
                    if self.loops == 0 {
                        return Err(format!("{{{{{keyword}}}}} outside {{{{range}}}}"));
                    }
                    nodes.push(if keyword == "break" { Node::Break } else { Node::Continue });
                }
                _ => nodes.push(Node::Show(self.whole_pipeline(&words)?)),
            }
        };
        self.variables.truncate(declared);
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn block(&mut self, keyword: &str, words: &[Word]) -> Result<Node, String> {
        let declared = self.variables.len();
        let (mut names, mut words) = (Vec::new(), words.to_vec());
        if keyword == "range"
            && let Some(declare) = words.iter().position(|word| *word == Word::Declare)
        {
            for word in words.drain(..=declare) {
                match word {
                    Word::Variable(name) if names.len() < 2 => names.push(name),
                    Word::Comma | Word::Declare => {}
                    _ => return Err("range can only declare variables".to_owned()),
                }
            }
        }
        let value = self.whole_pipeline(&words)?;
        self.variables.extend(names.iter().cloned());
        self.loops += usize::from(keyword == "range");
        let (then, end) = self.nodes()?;
        self.loops -= usize::from(keyword == "range");
        let otherwise = match end {
            End::OfText => return Err(format!("unexpected end of text in {{{{{keyword}}}}}")),
            End::Word(_) => Vec::new(),
            End::Else(words) => match words.split_first() {
                None => match self.nodes()? {
                    (nodes, End::Word(_)) => nodes,
                    _ => return Err("{{else}} without {{end}}".to_owned()),
                },
                // `else if` shares the end of the first one.
                Some((Word::Name(again), rest)) if again == keyword && keyword != "range" => {
                    vec![self.block(keyword, rest)?]
                }
                Some(_) => return Err("unexpected words after {{else}}".to_owned()),
            },
        };
        self.variables.truncate(declared);
        Ok(match keyword {
            "if" => Node::If { condition: value, then, otherwise },
            "with" => Node::With { value, then, otherwise },
            _ => Node::Range { names, values: value, body: then, otherwise },
        })
    }

    fn define(&mut self, words: &[Word]) -> Result<(), String> {
        let [Word::Text(name)] = words else { return Err("define needs a name in quotes".to_owned()) };
        let body = self.closed("define")?;
        self.named.insert(name.clone(), body);
        Ok(())
    }

    fn named_block(&mut self, words: &[Word]) -> Result<Node, String> {
        let [Word::Text(name), argument @ ..] = words else { return Err("block needs a name in quotes".to_owned()) };
        let argument = self.whole_pipeline(argument)?;
        let body = self.closed("block")?;
        self.named.insert(name.clone(), body);
        Ok(Node::Call { name: name.clone(), argument: Some(argument) })
    }

    /// The nodes of a template of its own, which sees no variables but `$`.
    fn closed(&mut self, keyword: &str) -> Result<Vec<Node>, String> {
        let variables = std::mem::replace(&mut self.variables, vec![String::new()]);
        let (body, End::Word(_)) = self.nodes()? else {
            return Err(format!("{{{{{keyword}}}}} without {{{{end}}}}"));
        };
        self.variables = variables;
        Ok(body)
    }

    fn call(&mut self, words: &[Word]) -> Result<Node, String> {
        let [Word::Text(name), argument @ ..] = words else { return Err("template needs a name in quotes".to_owned()) };
        let argument = if argument.is_empty() { None } else { Some(self.whole_pipeline(argument)?) };
        Ok(Node::Call { name: name.clone(), argument })
    }

    fn whole_pipeline(&mut self, words: &[Word]) -> Result<Pipeline, String> {
        let mut words = Words { words, at: 0 };
        let pipeline = self.pipeline(&mut words)?;
        match words.next() {
            None => Ok(pipeline),
            Some(word) => Err(format!("unexpected {word:?} in pipeline")),
        }
    }

    fn pipeline(&mut self, words: &mut Words<'_>) -> Result<Pipeline, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("nested too deeply".to_owned());
        }
        let mut variable = None;
        if let (Some(Word::Variable(name)), Some(second @ (Word::Declare | Word::Assign))) =
            (words.peek(0), words.peek(1))
        {
            variable = Some((name.clone(), *second == Word::Declare));
            words.at += 2;
        }
        let mut commands = vec![self.command(words)?];
        while words.peek(0) == Some(&Word::Pipe) {
            words.at += 1;
            commands.push(self.command(words)?);
        }
        for command in &commands[1..] {
            let callable = match &command.words[0] {
                Operand::Function(_) => true,
                Operand::Chain { fields, .. } => !fields.is_empty(),
                _ => false,
            };
            if !callable {
                return Err("non executable command in pipeline".to_owned());
            }
        }
        match &variable {
            Some((name, true)) => self.variables.push(name.clone()),
            Some((name, false)) => self.known(name)?,
            None => {}
        }
        self.depth -= 1;
        Ok(Pipeline { variable, commands })
    }

    fn command(&mut self, words: &mut Words<'_>) -> Result<Command, String> {
        let mut operands = Vec::new();
        while let Some(word) = words.peek(0).cloned() {
            if matches!(word, Word::Pipe | Word::Close) {
                break;
            }
            words.at += 1;
            let mut fields = Vec::new();
            let operand = match word {
                Word::Name(name) => match name.as_str() {
                    "true" => Operand::Bool(true),
                    "false" => Operand::Bool(false),
                    "nil" => Operand::Nil,
                    name if functions::exists(name) => Operand::Function(name.to_owned()),
                    name => return Err(format!("function {name:?} not defined")),
                },
                Word::Text(text) => Operand::Text(text),
                Word::Number(number) => Operand::Number(number),
                Word::Field { name, .. } => {
                    if !name.is_empty() {
                        fields.push(name);
                    }
                    words.glued_fields(&mut fields);
                    Operand::Chain { of: Root::Dot, fields }
                }
                Word::Variable(name) => {
                    self.known(&name)?;
                    words.glued_fields(&mut fields);
                    Operand::Chain { of: Root::Variable(name), fields }
                }
                Word::Open => {
                    let inner = self.pipeline(words)?;
                    if words.next() != Some(Word::Close) {
                        return Err("unclosed left paren".to_owned());
                    }
                    words.glued_fields(&mut fields);
                    Operand::Chain { of: Root::Group(Box::new(inner)), fields }
                }
                other => return Err(format!("unexpected {other:?} in command")),
            };
            operands.push(operand);
        }
        if operands.is_empty() {
            return Err("missing value for command".to_owned());
        }
        Ok(Command { words: operands })
    }

    fn known(&self, name: &str) -> Result<(), String> {
        match self.variables.iter().any(|known| known == name) {
            true => Ok(()),
            false => Err(format!("undefined variable \"${name}\"")),
        }
    }
}

struct Words<'a> {
    words: &'a [Word],
    at: usize,
}

impl Words<'_> {
    fn peek(&self, ahead: usize) -> Option<&Word> {
        self.words.get(self.at + ahead)
    }

    fn next(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    /// `.B.C` right after `.A`.
    fn glued_fields(&mut self, fields: &mut Vec<String>) {
        while let Some(Word::Field { name, glued: true }) = self.peek(0) {
            if name.is_empty() {
                break;
            }
            fields.push(name.clone());
            self.at += 1;
        }
    }
}
