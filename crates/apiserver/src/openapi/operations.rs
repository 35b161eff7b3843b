//! What can be asked of each resource: paths and operations, in words that both versions of a document are made from.

use super::{
    custom,
    parameters::{self, Parameter},
};
use api::{
    resource::{Resource, Scope, Subresource, Verbs},
    schema::of_kind,
};

/// One method on one path.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) path: String,
    /// `get`, `put`, `post`, `patch`, `delete`.
    pub(super) method: &'static str,
    pub(super) id: String,
    /// `list`, `post`, `patch`, `connect`, ...
    pub(super) action: &'static str,
    pub(super) description: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) tag: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Body,
    /// Type of the answer; plain text when there is none.
    pub(super) answer: Option<String>,
}

/// What a request carries.
#[derive(Debug)]
pub(super) enum Body {
    None,
    /// An object of this type.
    Object(String),
    /// Delete options, if any.
    Options(String),
    /// A patch; strategic ones only for built-in kinds.
    Patch {
        strategic: bool,
    },
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

/// Every operation on a resource and its subresources.
pub(super) fn of(resource: &Resource) -> Vec<Operation> {
    let namer = Namer { resource, namespaced: resource.scope == Scope::Namespaced };
    let mut all = Vec::new();
    let object = resource_type(resource, &resource.kind);
    let collection = namer.collection();
    let one = format!("{collection}/{{name}}");
    let push = |all: &mut Vec<Operation>, path: &str, verb: Verb| all.push(namer.operation(path, verb, &object, None));
    push(&mut all, &collection, Verb::Create);
    if resource.verbs != Verbs::CreateOnly {
        push(&mut all, &collection, Verb::List);
        if resource.verbs == Verbs::All {
            push(&mut all, &collection, Verb::DeleteCollection);
        }
        for verb in [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete] {
            push(&mut all, &one, verb);
        }
        if namer.namespaced {
            push(&mut all, &format!("{}/{}", namer.base(), resource.plural), Verb::ListEverywhere);
        }
    }
    for sub in &resource.subresources {
        let shown = resource.shown_subresource(sub);
        let (group, version) = shown.group_version.unwrap_or((&resource.group, &resource.version));
        let sent = if shown.kind == resource.kind {
            Some(object.clone())
        } else {
            of_kind(group, version, &shown.kind).map(|structure| structure.name.clone())
        };
        for verb in shown.verbs.iter().filter_map(|verb| Verb::of(verb)) {
            let path = format!("{one}/{}", sub.name());
            let target = Target { sub, group, version, kind: &shown.kind, sent: sent.as_deref() };
            all.push(namer.operation(&path, verb, &object, Some(target)));
        }
    }
    all
}

/// The type of a kind, built-in or custom.
pub(super) fn resource_type(resource: &Resource, kind: &str) -> String {
    match of_kind(&resource.group, &resource.version, kind) {
        Some(structure) if !resource.custom => structure.name.clone(),
        _ => custom::type_name(&resource.group, &resource.version, kind),
    }
}

/// The kind that a subresource speaks of. `sent` has no type for streams such as exec and log.
struct Target<'a> {
    sub: &'a Subresource,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    sent: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Create,
    List,
    ListEverywhere,
    DeleteCollection,
    Get,
    Update,
    Patch,
    Delete,
}

impl Verb {
    /// The verb of a subresource by its name in discovery.
    fn of(name: &str) -> Option<Self> {
        match name {
            "create" => Some(Self::Create),
            "get" => Some(Self::Get),
            "update" => Some(Self::Update),
            "patch" => Some(Self::Patch),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }

    /// Method, `x-kubernetes-action`, first word of the operation id, first words of the description.
    fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Create => ("post", "post", "create", "create"),
            Self::List | Self::ListEverywhere => ("get", "list", "list", "list or watch objects of kind"),
            Self::DeleteCollection => ("delete", "deletecollection", "delete", "delete all"),
            Self::Get => ("get", "get", "read", "read"),
            Self::Update => ("put", "put", "replace", "replace"),
            Self::Patch => ("patch", "patch", "patch", "change parts of"),
            Self::Delete => ("delete", "delete", "delete", "delete"),
        }
    }
}

struct Namer<'a> {
    resource: &'a Resource,
    namespaced: bool,
}

impl Namer<'_> {
    fn base(&self) -> String {
        let Resource { group, version, .. } = self.resource;
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
    }

    fn collection(&self) -> String {
        let scope = if self.namespaced { "/namespaces/{namespace}" } else { "" };
        format!("{}{scope}/{}", self.base(), self.resource.plural)
    }

    fn operation(&self, path: &str, verb: Verb, object: &str, target: Option<Target<'_>>) -> Operation {
        let resource = self.resource;
        let (method, action, first, described) = verb.words();
        let connect = target.as_ref().is_some_and(|target| target.sent.is_none());
        let sent = target.as_ref().map_or(Some(object), |target| target.sent).map(str::to_owned);
        let sub = target.as_ref().map_or("", |target| target.sub.name());
        let mut parameters: Vec<Parameter> = match verb {
            _ if connect => parameters::of_stream(sub),
            Verb::Create | Verb::Update => parameters::WRITE.to_vec(),
            Verb::Patch => parameters::PATCH.to_vec(),
            Verb::List | Verb::ListEverywhere => [parameters::SELECT, parameters::WATCH].concat(),
            Verb::Delete => parameters::DELETE.to_vec(),
            Verb::DeleteCollection => [parameters::SELECT, parameters::DELETE].concat(),
            Verb::Get => parameters::of_stream(sub),
        };
        if !connect {
            parameters.push(parameters::PRETTY);
        }
        if path.contains("{name}") {
            parameters.push(parameters::NAME);
        }
        if path.contains("{namespace}") {
            parameters.push(parameters::NAMESPACE);
        }
        let body = match (verb, &sent) {
            (Verb::Create | Verb::Update, Some(name)) => Body::Object(name.clone()),
            (Verb::Patch, Some(_)) => Body::Patch { strategic: !resource.custom },
            (Verb::Delete | Verb::DeleteCollection, Some(_)) => Body::Options(DELETE_OPTIONS.to_owned()),
            _ => Body::None,
        };
        let answer = match verb {
            Verb::List | Verb::ListEverywhere => Some(resource_type(resource, &resource.list_kind)),
            Verb::Delete | Verb::DeleteCollection => Some(STATUS.to_owned()),
            _ => sent,
        };
        let tag = format!("{}_{}", lower_first(&camel_group(&resource.group)), resource.version);
        let (group, version, kind) = match &target {
            Some(target) => (target.group, target.version, target.kind),
            None => (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str()),
        };
        Operation {
            path: path.to_owned(),
            method,
            id: self.id(verb, if connect { "connect" } else { first }, sub),
            action: if connect { "connect" } else { action },
            description: [described, &resource.kind, sub].join(" ").trim_end().to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            tag,
            parameters,
            body,
            // A log is text.
            answer: answer.filter(|_| !connect && sub != "log"),
        }
    }

    /// `listCoreV1NamespacedService`.
    fn id(&self, verb: Verb, first: &str, sub: &str) -> String {
        let collection = if verb == Verb::DeleteCollection { "Collection" } else { "" };
        let (scope, end) = match verb {
            Verb::ListEverywhere => ("", "ForAllNamespaces"),
            _ if self.namespaced => ("Namespaced", ""),
            _ => ("", ""),
        };
        let method = if first == "connect" { upper_first(verb.words().0) } else { String::new() };
        let Resource { group, version, kind, .. } = self.resource;
        let (group, version, sub) = (camel_group(group), upper_first(version), upper_first(sub));
        format!("{first}{group}{version}{collection}{method}{scope}{kind}{sub}{end}")
    }
}

/// `rbac.authorization.k8s.io` -> `RbacAuthorization`.
fn camel_group(group: &str) -> String {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "Core".to_owned(),
        group => group.split(['.', '-']).map(upper_first).collect(),
    }
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + chars.as_str())
}
