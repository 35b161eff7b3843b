//! `authorizer` in expressions of admission: questions to whoever decides what users may do.
//!
//! `authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()`. A question is put together step
//! by step and asked by `check`, which costs as much as upstream charges for it.

use super::eval::{Budget, Evaluated, error, no_overload};
use kube_cel::cel::{Value, objects::Opaque};
use std::{fmt::Debug, sync::Arc};

/// What one `check` costs.
const COST_OF_CHECK: u64 = 350_000;
/// The type of the variable `authorizer`, and of its field `requestResource`.
pub(super) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(super) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
/// The functions of this file.
pub(super) const FUNCTIONS: [&str; 14] = [
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "fieldSelector",
    "labelSelector",
    "check",
    "errored",
    "error",
    "allowed",
    "reason",
];

/// Decides what users may do.
pub trait Authorizer: Debug + Send + Sync {
    /// The answer to a question.
    fn decide(&self, question: &Question) -> Decision;
}

/// Who wants to do what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of a service account; none for the user who makes the request.
    pub account: Option<(String, String)>,
    /// A path that is no resource; then nothing below but the verb counts.
    pub path: Option<String>,
    pub group: String,
    /// Version, where it is known.
    pub version: String,
    /// Plural.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
    pub verb: String,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    pub reason: String,
    /// What went wrong when it was decided, or nothing.
    pub error: String,
}

/// A question on its way, and whom to ask.
#[derive(Debug)]
struct Asking {
    authorizer: Arc<dyn Authorizer>,
    step: Step,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step && self.question == other.question
    }
}

impl Eq for Asking {}

impl Opaque for Asking {
    fn runtime_type_name(&self) -> &str {
        match self.step {
            Step::Authorizer => AUTHORIZER,
            Step::Path => "kubernetes.authorization.PathCheck",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => RESOURCE_CHECK,
        }
    }
}

/// A decision as a value.
#[derive(Debug, PartialEq, Eq)]
struct Decided(Decision);

impl Opaque for Decided {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

/// The variable `authorizer`; `request` is the question that its `requestResource` begins with.
#[derive(Debug)]
struct Root {
    authorizer: Arc<dyn Authorizer>,
    request: Question,
}

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        self.request == other.request
    }
}

impl Eq for Root {}

impl Opaque for Root {
    fn runtime_type_name(&self) -> &str {
        AUTHORIZER
    }
}

/// The value of `authorizer`.
pub(super) fn value(authorizer: Arc<dyn Authorizer>, request: Question) -> Value {
    Value::Opaque(Arc::new(Root { authorizer, request }))
}

/// `authorizer.requestResource`.
pub(super) fn request_resource(of: &Value) -> Option<Value> {
    let Value::Opaque(opaque) = of else { return None };
    let root = opaque.downcast_ref::<Root>()?;
    Some(asking(&root.authorizer, Step::Resource, root.request.clone()))
}

fn asking(authorizer: &Arc<dyn Authorizer>, step: Step, question: Question) -> Value {
    Value::Opaque(Arc::new(Asking { authorizer: Arc::clone(authorizer), step, question }))
}

/// Carries out one of `FUNCTIONS`.
pub(super) fn call(name: &str, args: &[Value], budget: &mut Budget) -> Evaluated {
    let [Value::Opaque(receiver), rest @ ..] = args else { return Err(no_overload(name)) };
    if let Some(Decided(decision)) = receiver.downcast_ref::<Decided>() {
        return match name {
            "allowed" => Ok(Value::Bool(decision.allowed)),
            "errored" => Ok(Value::Bool(!decision.error.is_empty())),
            "error" => Ok(super::value::text(&decision.error)),
            "reason" => Ok(super::value::text(&decision.reason)),
            _ => Err(no_overload(name)),
        };
    }
    let texts: Option<Vec<&str>> =
        rest.iter().map(|arg| if let Value::String(text) = arg { Some(text.as_str()) } else { None }).collect();
    let texts = texts.ok_or_else(|| no_overload(name))?;
    if let Some(root) = receiver.downcast_ref::<Root>() {
        return from(&root.authorizer, Question::default(), name, &texts);
    }
    let Some(Asking { authorizer, step, question }) = receiver.downcast_ref() else { return Err(no_overload(name)) };
    let mut question = question.clone();
    match (step, name, texts.as_slice()) {
        (Step::Authorizer, ..) => from(authorizer, question, name, &texts),
        (Step::Group, "resource", [resource]) => {
            (*resource).clone_into(&mut question.resource);
            Ok(asking(authorizer, Step::Resource, question))
        }
        (Step::Path | Step::Resource, "check", [verb]) => {
            budget.spend(COST_OF_CHECK)?;
            (*verb).clone_into(&mut question.verb);
            Ok(Value::Opaque(Arc::new(Decided(authorizer.decide(&question)))))
        }
        (Step::Resource, _, [text]) => {
            let field = match name {
                "subresource" => &mut question.subresource,
                "namespace" => &mut question.namespace,
                "name" => &mut question.name,
                "fieldSelector" => &mut question.field_selector,
                "labelSelector" => &mut question.label_selector,
                _ => return Err(no_overload(name)),
            };
            (*text).clone_into(field);
            Ok(asking(authorizer, Step::Resource, question))
        }
        _ => Err(no_overload(name)),
    }
}

/// The first step of a question.
fn from(authorizer: &Arc<dyn Authorizer>, mut question: Question, name: &str, texts: &[&str]) -> Evaluated {
    let step = match (name, texts) {
        ("path", [""]) => return Err(error("path must not be empty")),
        ("path", [path]) => {
            question.path = Some((*path).to_owned());
            Step::Path
        }
        ("group", [group]) => {
            (*group).clone_into(&mut question.group);
            Step::Group
        }
        ("serviceAccount", [namespace, name]) => {
            let wrong =
                api::kinds::names::path_segment(name).into_iter().chain(api::kinds::names::dns_label(namespace, false));
            if let Some(why) = wrong.into_iter().next() {
                return Err(error(format!("invalid service account: {why}")));
            }
            question.account = Some(((*namespace).to_owned(), (*name).to_owned()));
            Step::Authorizer
        }
        _ => return Err(no_overload(name)),
    };
    Ok(asking(authorizer, step, question))
}
