//! Expressions that stand by themselves: conditions, validations and messages of admission.
//!
//! They see a request (`object`, `oldObject`, `request`, ...) instead of a value of a schema. Types are checked as far as they
//! are known; costs are counted when an expression runs, from one budget for all of a request.

use super::{
    COST_PER_RULE,
    authorizer::{self, AUTHORIZER, Authorizer, Question},
    declared::Declared,
    eval::{self, Stop},
    expand,
    expr::Expression,
    infer, literal, message, parse, shaped,
    types::{Object, Type},
    value,
};
use api::schema::Shape;
use kube_cel::cel::{Value, objects::Opaque};
use serde_json::Value as Json;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The names that an expression may use, and their types.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    names: Vec<(&'static str, Type)>,
    /// Fields of `variables`, none when there is no such name.
    variables: Option<BTreeMap<String, Arc<Declared>>>,
    /// Whether there are `Object{..}` and `JSONPatch{..}`.
    patches: bool,
}

impl Scope {
    /// A request on its way through admission.
    pub fn request() -> Self {
        let names = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("request", request_type()),
            ("namespaceObject", namespace_type()),
        ];
        Self { names, variables: None, patches: false }
    }

    /// One name whose value may be anything: claims of a token, a user, a question of who may what.
    pub fn anything(name: &'static str) -> Self {
        Self { names: vec![(name, Type::Dyn)], variables: None, patches: false }
    }

    /// With `params`.
    #[must_use]
    pub fn with_params(mut self) -> Self {
        self.names.push(("params", Type::Dyn));
        self
    }

    /// With `object` and `oldObject` of this type.
    #[must_use]
    pub fn with_object(mut self, shape: &Shape) -> Self {
        let of = shaped::of_shape(shape, "object");
        for (_, found) in self.names.iter_mut().filter(|(name, _)| ["object", "oldObject"].contains(name)) {
            *found = of.clone();
        }
        self
    }

    /// With `params` of this type.
    #[must_use]
    pub fn with_params_of(mut self, shape: &Shape) -> Self {
        self.names.push(("params", shaped::of_shape(shape, "params")));
        self
    }

    /// With `authorizer`.
    #[must_use]
    pub fn with_authorizer(mut self) -> Self {
        self.names.push(("authorizer", Type::Struct(AUTHORIZER)));
        self
    }

    /// With `Object{..}`, `JSONPatch{..}` and `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// With `variables`, none of them known yet.
    #[must_use]
    pub fn with_variables(mut self) -> Self {
        self.variables = Some(BTreeMap::new());
        self
    }

    /// Adds `variables.name`, which has the value of this program.
    pub fn add_variable(&mut self, name: &str, program: &Program) {
        let declared = Declared::plain(program.of.clone());
        self.variables.get_or_insert_default().insert(name.to_owned(), Arc::new(declared));
    }

    /// Adds `variables.name`, of which nothing is known.
    pub fn add_unknown_variable(&mut self, name: &str) {
        self.variables.get_or_insert_default().insert(name.to_owned(), Arc::new(Declared::plain(Type::Dyn)));
    }

    fn types(&self) -> Vec<(&str, Type)> {
        let mut types = self.names.clone();
        if let Some(fields) = &self.variables {
            let object = Object { name: "kubernetes.variables".to_owned(), fields: fields.clone() };
            types.push(("variables", Type::Object(Arc::new(object))));
        }
        types
    }
}

/// What an expression has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    Bool,
    /// A string.
    Text,
    /// A string, or null.
    TextOrNull,
    /// An `Object{..}`.
    Configuration,
    /// A list of `JSONPatch{..}`.
    Operations,
    /// Whatever it makes.
    Anything,
}

impl Makes {
    fn accepts(self, of: &Type) -> Result<(), String> {
        let is = |of: &Type, name: &str| matches!(of, Type::Message(found) if **found == *name);
        let (accepted, wanted) = match self {
            Self::Bool => (*of == Type::Bool, "bool"),
            Self::Text => (*of == Type::Text, "string"),
            Self::TextOrNull => (matches!(of, Type::Text | Type::Null), "one of [string null_type]"),
            Self::Configuration => (is(of, message::OBJECT), message::OBJECT),
            Self::Operations => (matches!(of, Type::List(item) if is(item, message::JSON_PATCH)), "list(JSONPatch)"),
            Self::Anything => return Ok(()),
        };
        if accepted { Ok(()) } else { Err(format!("must evaluate to {wanted} but got {of}")) }
    }
}

/// An expression that was understood.
#[derive(Debug)]
pub struct Program {
    text: String,
    expression: Expression,
    of: Type,
    makes: Makes,
    /// The variables that it names.
    variables: Vec<String>,
}

impl Program {
    /// Reads an expression, or says what is wrong with it.
    pub fn compile(text: &str, scope: &Scope, makes: Makes) -> Result<Self, String> {
        parse::with_stack(|| {
            let expression = parse::expression(text)?;
            let failed = |mistakes: &[String]| format!("compilation failed: ERROR: {}", mistakes.join("\nERROR: "));
            let tree = expand::expand(&expression.root).map_err(|why| failed(&[why]))?;
            let mut inferred = infer::infer(&tree, &scope.types(), scope.patches);
            if inferred.mistakes.is_empty() {
                inferred.mistakes = literal::mistakes(&tree, &inferred);
            }
            if !inferred.mistakes.is_empty() {
                return Err(failed(&inferred.mistakes));
            }
            if let Some(why) = literal::failing_conversion(&tree) {
                return Err(format!("program instantiation failed: {why}"));
            }
            let of = inferred.types[tree.root].clone();
            makes.accepts(&of)?;
            let variables = tree.fields_of("variables");
            Ok(Self { text: text.to_owned(), expression, of, makes, variables })
        })?
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value that the expression has, within what is left to spend.
    pub fn run(&self, bound: &Bound<'_>, budget: &mut Budget) -> Result<Outcome, Failure> {
        let made = self.value(bound, budget)?;
        match self.makes {
            Makes::Configuration => {
                budget.pay_for(&made)?;
                message::configuration(&made).map(Outcome::Configuration).map_err(Failure::Misshapen)
            }
            Makes::Operations => {
                budget.pay_for(&made)?;
                message::operations(&made).map(Outcome::Operations).map_err(Failure::Misshapen)
            }
            _ => Ok(Outcome::of(&made)),
        }
    }

    fn value(&self, bound: &Bound<'_>, budget: &mut Budget) -> Result<Value, Failure> {
        let mut names = bound.names.clone();
        if !self.variables.is_empty() {
            let variables = self.variables.iter().map(|name| Ok((name.clone(), bound.variable(name, budget)?)));
            let variables = variables.collect::<Result<_, Failure>>()?;
            names.push((Arc::from("variables"), Value::Opaque(Arc::new(Variables(variables)))));
        }
        let mut own = eval::Budget::new(budget.left.min(COST_PER_RULE));
        let given = own.left();
        let made = eval::evaluate(&self.expression, names, &mut own);
        budget.left -= given - own.left();
        made.map_err(|stop| match stop {
            Stop::Error(why) => Failure::Error(why),
            Stop::Budget if budget.left == 0 => Failure::Spent,
            Stop::Budget => Failure::Error("operation cancelled: actual cost limit exceeded".to_owned()),
        })
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What it says cannot be done with these values, or costs more than one expression may.
    Error(String),
    /// What it makes is no change of an object.
    Misshapen(String),
    /// All expressions together cost more than they may.
    Spent,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Bool(bool),
    Null,
    Text(String),
    /// What an `Object{..}` says.
    Configuration(Json),
    /// Operations of a JSON patch.
    Operations(Vec<Json>),
    /// Something else, as JSON where there is such a form.
    Other(Option<Json>),
}

impl Outcome {
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Null => Self::Null,
            Value::String(text) => Self::Text(text.to_string()),
            other => Self::Other(value::to_json(other)),
        }
    }
}

/// What is left to spend for all expressions of one request.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// Upstream's measure for the validations of one policy.
    pub fn for_policy() -> Self {
        Self { left: 10_000_000 }
    }

    /// Pays for a value that becomes JSON: its parts may be shared, and are written out each time.
    fn pay_for(&mut self, made: &Value) -> Result<(), Failure> {
        let mut own = eval::Budget::new(self.left.min(COST_PER_RULE));
        let given = own.left();
        own.spend_for(made).map_err(|_| Failure::Spent)?;
        self.left -= given - own.left();
        Ok(())
    }

    /// Upstream's measure for the conditions of one webhook or policy.
    pub fn for_conditions() -> Self {
        Self { left: 2_500_000 }
    }
}

/// Values of the names of a scope.
pub struct Bound<'p> {
    names: Vec<(Arc<str>, Value)>,
    /// Programs of the variables, in the order in which they may use each other, and what came of those that were asked for.
    variables: &'p [(String, Program)],
    known: RefCell<HashMap<String, Result<Value, String>>>,
}

impl<'p> Bound<'p> {
    /// No names.
    pub fn new() -> Self {
        Self { names: Vec::new(), variables: &[], known: RefCell::default() }
    }

    /// Gives a name a value.
    #[must_use]
    pub fn with(mut self, name: &str, json: &Json) -> Self {
        self.names.push((Arc::from(name), value::plain(json)));
        self
    }

    /// Gives `authorizer` its value; `request` is what the request itself asks.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: Arc<dyn Authorizer>, request: Question) -> Self {
        self.names.push((Arc::from("authorizer"), authorizer::value(authorizer, request)));
        self
    }

    /// Gives `variables` its fields; each has its value when it is asked for, once.
    #[must_use]
    pub fn with_variables(mut self, variables: &'p [(String, Program)]) -> Self {
        self.variables = variables;
        self
    }

    fn variable(&self, name: &str, budget: &mut Budget) -> Result<Result<Value, String>, Failure> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        let Some((_, program)) = self.variables.iter().find(|(known, _)| known == name) else {
            return Ok(Err(format!("no such key: {name}")));
        };
        let made = match program.value(self, budget) {
            Ok(value) => Ok(value),
            Err(Failure::Error(why) | Failure::Misshapen(why)) => {
                Err(format!("composited variable {name:?} fails to evaluate: {why}"))
            }
            Err(Failure::Spent) => return Err(Failure::Spent),
        };
        self.known.borrow_mut().insert(name.to_owned(), made.clone());
        Ok(made)
    }
}

impl Default for Bound<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// The value of `variables`: those that the expression names.
#[derive(Debug)]
struct Variables(HashMap<String, Result<Value, String>>);

/// `variables` as a whole has no value to compare.
impl PartialEq for Variables {
    fn eq(&self, _other: &Self) -> bool {
        false
    }
}

impl Eq for Variables {}

impl Opaque for Variables {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.variables"
    }
}

/// A field of what is no map: of `variables` or `authorizer`.
pub(super) fn field(of: &Value, field: &str) -> Option<Result<Value, Stop>> {
    let Value::Opaque(opaque) = of else { return None };
    if let Some(Variables(variables)) = opaque.downcast_ref() {
        return Some(match variables.get(field) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(why)) => Err(eval::error(why.clone())),
            None => Err(eval::error(format!("no such key: {field}"))),
        });
    }
    (field == "requestResource").then(|| authorizer::request_resource(of))?.map(Ok)
}

fn object(name: &str, fields: Vec<(&str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(field, of)| (field.to_owned(), Arc::new(Declared::plain(of)))).collect();
    Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
}

fn request_type() -> Type {
    let texts =
        |name: &str, fields: &[&'static str]| object(name, fields.iter().map(|field| (*field, Type::Text)).collect());
    let kind = || texts("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = || texts("kubernetes.GroupVersionResource", &["group", "version", "resource"]);
    let user = object(
        "kubernetes.UserInfo",
        vec![
            ("username", Type::Text),
            ("uid", Type::Text),
            ("groups", Type::list(Type::Text)),
            ("extra", Type::map(Type::Text, Type::list(Type::Text))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        vec![
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", Type::Text),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", Type::Text),
            ("name", Type::Text),
            ("namespace", Type::Text),
            ("operation", Type::Text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace_type() -> Type {
    let texts = || Type::map(Type::Text, Type::Text);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        vec![
            ("name", Type::Text),
            ("generateName", Type::Text),
            ("namespace", Type::Text),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Type::Text),
            ("creationTimestamp", Type::Time),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Time),
            ("generation", Type::Int),
            ("resourceVersion", Type::Text),
            ("finalizers", Type::list(Type::Text)),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        vec![
            ("status", Type::Text),
            ("type", Type::Text),
            ("lastTransitionTime", Type::Time),
            ("message", Type::Text),
            ("reason", Type::Text),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", vec![("finalizers", Type::list(Type::Text))]);
    let status =
        object("kubernetes.NamespaceStatus", vec![("conditions", Type::list(condition)), ("phase", Type::Text)]);
    object("kubernetes.Namespace", vec![("metadata", metadata), ("spec", spec), ("status", status)])
}
