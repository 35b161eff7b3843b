//! Words to a tree whose kinds fit together.

use super::{
    Expression, Kind, Mistake, Node, Operator, functions,
    lexer::{Token, Word, words},
};
use crate::plugin::template::go::Value;

/// Most steps of an expression, so that running it never goes deep.
const MOST: usize = 250;
/// Deepest nesting of brackets and signs.
const DEEPEST: usize = 40;
const VALUES: &str = "accepted: a number, a text in quotes, true, false, a variable, a function call, [a, b] or an expression in brackets";

pub(super) fn parse(text: &str, variables: &[(String, Kind)]) -> Result<Expression, Mistake> {
    let mut parser = Parser { tokens: words(text)?, at: 0, variables, steps: 0, depth: 0 };
    let (node, kind) = parser.choice()?;
    match &parser.now().word {
        Word::End => Ok(Expression { node, kind }),
        word => parser.refuse(format!("{} does not belong here; accepted: an operator or the end", shown(word))),
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    variables: &'a [(String, Kind)],
    steps: usize,
    depth: usize,
}

type Part = (Node, Kind);

/// How tightly an operator binds; two of the same go from the left, but for powers.
fn strength(mark: &str) -> Option<u8> {
    Some(match mark {
        "or" | "||" => 10,
        "and" | "&&" => 15,
        "==" | "!=" | "<" | ">" | "<=" | ">=" | "in" | "matches" | "contains" | "startsWith" | "endsWith" => 20,
        "+" | "-" => 30,
        "*" | "/" | "%" => 60,
        "**" | "^" => 100,
        _ => return None,
    })
}

impl Parser<'_> {
    fn now(&self) -> &Token {
        // The last one is the end, and nobody goes past it.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn refuse<T>(&self, problem: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake { column: self.now().column, problem: problem.into() })
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.now().word, Word::Mark(own) if own == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), Mistake> {
        match self.take(mark) {
            true => Ok(()),
            false => self.refuse(format!("{} stands where {mark} is expected", shown(&self.now().word))),
        }
    }

    fn made(&mut self, node: Node, kind: Kind) -> Result<Part, Mistake> {
        self.steps += 1;
        match self.steps > MOST {
            true => self.refuse(format!("the expression has more than {MOST} parts")),
            false => Ok((node, kind)),
        }
    }

    /// Goes one deeper for as long as `inner` runs.
    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Result<Part, Mistake>) -> Result<Part, Mistake> {
        if self.depth == DEEPEST {
            return self.refuse(format!("the expression is nested more than {DEEPEST} deep"));
        }
        self.depth += 1;
        let part = inner(self);
        self.depth -= 1;
        part
    }

    /// `a ? b : c`, or something that binds more tightly.
    fn choice(&mut self) -> Result<Part, Mistake> {
        self.deeper(|parser| {
            let column = parser.now().column;
            let (condition, kind) = parser.binary(0)?;
            if !parser.take("?") {
                return Ok((condition, kind));
            }
            if kind != Kind::Bool {
                return Err(Mistake { column, problem: format!("a condition is true or false, and not {kind}") });
            }
            let (then, kind) = parser.choice()?;
            parser.expect(":")?;
            let column = parser.now().column;
            let (other, second) = parser.choice()?;
            if kind != second {
                let problem = format!("both values of a choice have one kind, and not {kind} and {second}");
                return Err(Mistake { column, problem });
            }
            parser.made(Node::Choice(Box::new([condition, then, other])), kind)
        })
    }

    fn binary(&mut self, least: u8) -> Result<Part, Mistake> {
        let mut left = self.unary()?;
        loop {
            let Word::Mark(mut mark) = self.now().word else { return Ok(left) };
            let column = self.now().column;
            // `a not in b` is `not (a in b)`.
            let negated = mark == "not";
            if negated {
                mark = match self.tokens.get(self.at + 1).map(|next| &next.word) {
                    Some(Word::Mark(next @ ("in" | "matches" | "contains" | "startsWith" | "endsWith"))) => next,
                    _ => return self.refuse("not is followed by in, matches, contains, startsWith or endsWith here"),
                };
            }
            let Some(strength) = strength(mark).filter(|strength| *strength >= least) else { return Ok(left) };
            self.at += 1 + usize::from(negated);
            left = self.joined(left, mark, strength, column)?;
            if negated {
                left = self.made(Node::Not(Box::new(left.0)), Kind::Bool)?;
            }
        }
    }

    /// The left side with what follows the operator.
    fn joined(&mut self, (left, kind): Part, mark: &str, strength: u8, column: usize) -> Result<Part, Mistake> {
        if mark == "matches" {
            return self.pattern(left, &kind, column);
        }
        // A power takes what follows first.
        let next = if strength == 100 { strength } else { strength + 1 };
        let (right, second) = self.binary(next)?;
        if mark == "in" && self.take("..") {
            let (last, third) = self.binary(next)?;
            return match (&kind, &second, &third) {
                (Kind::Int, Kind::Int, Kind::Int) => self.made(Node::Within(Box::new([left, right, last])), Kind::Bool),
                _ => Err(Mistake { column, problem: "in a..b is for whole numbers".to_owned() }),
            };
        }
        let (left, right) = (Box::new(left), Box::new(right));
        let numbers = is_number(&kind) && is_number(&second);
        let texts = kind == Kind::Text && second == Kind::Text;
        let sum = if kind == Kind::Int && second == Kind::Int { Kind::Int } else { Kind::Float };
        let (operator, fits, gives) = match mark {
            "or" | "||" | "and" | "&&" => {
                if kind != Kind::Bool || second != Kind::Bool {
                    return Err(mismatch(column, mark, &kind, &second));
                }
                let node = if mark.starts_with(['o', '|']) { Node::Or(left, right) } else { Node::And(left, right) };
                return self.made(node, Kind::Bool);
            }
            "+" if texts => (Operator::Add, true, Kind::Text),
            "+" => (Operator::Add, numbers, sum),
            "-" => (Operator::Subtract, numbers, sum),
            "*" => (Operator::Multiply, numbers, sum),
            "/" => (Operator::Divide, numbers, Kind::Float),
            "%" => (Operator::Remainder, kind == Kind::Int && second == Kind::Int, Kind::Int),
            "**" | "^" => (Operator::Power, numbers, Kind::Float),
            "==" => (Operator::Equal, numbers || kind == second, Kind::Bool),
            "!=" => (Operator::Unequal, numbers || kind == second, Kind::Bool),
            "<" => (Operator::Less, numbers || texts, Kind::Bool),
            "<=" => (Operator::AtMost, numbers || texts, Kind::Bool),
            ">" => (Operator::More, numbers || texts, Kind::Bool),
            ">=" => (Operator::AtLeast, numbers || texts, Kind::Bool),
            "contains" => (Operator::Contains, texts, Kind::Bool),
            "startsWith" => (Operator::StartsWith, texts, Kind::Bool),
            "endsWith" => (Operator::EndsWith, texts, Kind::Bool),
            _ => (Operator::In, second == Kind::List(Box::new(kind.clone())), Kind::Bool),
        };
        match fits {
            true => self.made(Node::Binary(operator, left, right), gives),
            false => Err(mismatch(column, mark, &kind, &second)),
        }
    }

    /// `text matches 'pattern'`.
    fn pattern(&mut self, text: Node, kind: &Kind, column: usize) -> Result<Part, Mistake> {
        if *kind != Kind::Text {
            return Err(mismatch(column, "matches", kind, &Kind::Text));
        }
        let Word::Text(pattern) = self.now().word.clone() else {
            return self.refuse("matches takes a pattern in quotes");
        };
        match api::go_regex::compile(&pattern) {
            Ok(regex) => {
                self.at += 1;
                self.made(Node::Matches(Box::new(text), regex), Kind::Bool)
            }
            Err(error) => self.refuse(error.to_string()),
        }
    }

    fn unary(&mut self) -> Result<Part, Mistake> {
        let column = self.now().column;
        if self.take("not") || self.take("!") {
            let (node, kind) = self.deeper(|parser| parser.binary(50))?;
            return match kind {
                Kind::Bool => self.made(Node::Not(Box::new(node)), Kind::Bool),
                _ => Err(Mistake { column, problem: format!("not is for true and false, and not for {kind}") }),
            };
        }
        let minus = self.is("-");
        if self.take("-") || self.take("+") {
            let (node, kind) = self.deeper(|parser| parser.binary(90))?;
            return match (is_number(&kind), minus) {
                (true, true) => self.made(Node::Negative(Box::new(node)), kind),
                (true, false) => Ok((node, kind)),
                (false, _) => Err(Mistake { column, problem: format!("a sign is for numbers, and not for {kind}") }),
            };
        }
        let mut part = self.primary()?;
        while self.is("[") {
            part = self.element(part)?;
        }
        Ok(part)
    }

    /// `list[0]`, `list[1:]`, `text[:3]`.
    fn element(&mut self, (of, kind): Part) -> Result<Part, Mistake> {
        let column = self.now().column;
        self.expect("[")?;
        let bound = |parser: &mut Self, end: &str| {
            if parser.is(end) {
                return Ok(None);
            }
            let column = parser.now().column;
            match parser.choice()? {
                (node, Kind::Int) => Ok(Some(node)),
                (_, other) => Err(Mistake { column, problem: format!("an index is a whole number, and not {other}") }),
            }
        };
        let from = bound(self, ":")?;
        if self.take(":") {
            let to = bound(self, "]")?;
            self.expect("]")?;
            if !matches!(kind, Kind::Text | Kind::List(_)) {
                return Err(Mistake { column, problem: format!("[:] is for texts and lists, and not for {kind}") });
            }
            return self.made(Node::Slice(Box::new(of), from.map(Box::new), to.map(Box::new)), kind);
        }
        self.expect("]")?;
        match (kind, from) {
            (Kind::List(inner), Some(index)) => self.made(Node::Index(Box::new(of), Box::new(index)), *inner),
            (kind, _) => Err(Mistake { column, problem: format!("an index is for lists, and not for {kind}") }),
        }
    }

    fn primary(&mut self) -> Result<Part, Mistake> {
        let Token { column, word } = self.now().clone();
        match word {
            Word::Int(number) => self.constant(Value::Int(number.into()), Kind::Int),
            Word::Float(number) => self.constant(Value::Float(number), Kind::Float),
            Word::Text(text) => self.constant(Value::Text(text), Kind::Text),
            Word::Name(name) if name == "true" || name == "false" => {
                self.constant(Value::Bool(name == "true"), Kind::Bool)
            }
            Word::Name(name) if ["nil", "let", "if", "else"].contains(&name.as_str()) => {
                self.refuse(format!("{name} is not built; {VALUES}"))
            }
            Word::Name(name) => {
                self.at += 1;
                if self.take("(") {
                    return self.call(&name, column);
                }
                match self.variables.iter().position(|(known, _)| *known == name) {
                    Some(index) => {
                        let kind = self.variables[index].1.clone();
                        self.made(Node::Variable(index), kind)
                    }
                    None => Err(Mistake { column, problem: self.unknown(&name) }),
                }
            }
            Word::Mark("(") => {
                self.at += 1;
                let part = self.choice()?;
                self.expect(")")?;
                Ok(part)
            }
            Word::Mark("[") => {
                self.at += 1;
                self.list(column)
            }
            Word::Mark(mark @ ("#" | "{" | "|" | "??" | "?." | ";" | "=")) => {
                self.refuse(format!("{mark} is not built; {VALUES}"))
            }
            Word::Mark(_) | Word::End => self.refuse(format!("a value is missing; {VALUES}")),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.variables.iter().map(|(known, _)| known.as_str()).collect();
        let declared = if known.is_empty() { "none was declared before".to_owned() } else { known.join(", ") };
        match functions::is_reserved(name) {
            true => format!("{name} is a function: write {name}(...)"),
            false => format!("{name} is no variable; known: {declared}"),
        }
    }

    fn constant(&mut self, value: Value, kind: Kind) -> Result<Part, Mistake> {
        self.at += 1;
        self.made(Node::Constant(value), kind)
    }

    /// What stands between brackets, up to the closing one.
    fn several(&mut self, end: &str) -> Result<Vec<Part>, Mistake> {
        let mut parts = Vec::new();
        while !self.take(end) {
            if !parts.is_empty() {
                self.expect(",")?;
            }
            parts.push(self.choice()?);
        }
        Ok(parts)
    }

    fn call(&mut self, name: &str, column: usize) -> Result<Part, Mistake> {
        let (nodes, kinds): (Vec<Node>, Vec<Kind>) = self.several(")")?.into_iter().unzip();
        match functions::find(name, &kinds) {
            Ok((function, kind)) => self.made(Node::Call(function, nodes), kind),
            Err(problem) => Err(Mistake { column, problem }),
        }
    }

    fn list(&mut self, column: usize) -> Result<Part, Mistake> {
        let (nodes, kinds): (Vec<Node>, Vec<Kind>) = self.several("]")?.into_iter().unzip();
        match kinds.first() {
            None => Err(Mistake { column, problem: "a list has at least one value".to_owned() }),
            Some(first) if kinds.iter().all(|kind| kind == first) => {
                self.made(Node::List(nodes), Kind::List(Box::new(first.clone())))
            }
            Some(_) => Err(Mistake { column, problem: "the values of a list have one kind".to_owned() }),
        }
    }
}

fn is_number(kind: &Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Float)
}

fn mismatch(column: usize, mark: &str, left: &Kind, right: &Kind) -> Mistake {
    Mistake { column, problem: format!("{mark} is not for {left} and {right}") }
}

fn shown(word: &Word) -> String {
    match word {
        Word::Name(name) => name.clone(),
        Word::Int(number) => number.to_string(),
        Word::Float(number) => number.to_string(),
        Word::Text(text) => format!("{text:?}"),
        Word::Mark(mark) => (*mark).to_owned(),
        Word::End => "the end".to_owned(),
    }
}
