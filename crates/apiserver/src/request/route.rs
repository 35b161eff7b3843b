//! Which paths of a resource are served, and by which methods: everything else is 404 or 405 before anything is read.
//!
//! `info` tells what authorization is asked about; this is the other half of the grammar, asked once the answer was yes.
//! Built-in kinds are served by their routes, custom ones by the verb of the request alone, as upstream has it.

use super::info::ResourceRequest;
use api::{
    error::ApiError,
    kinds::names,
    resource::{Resource, Scope, Subresource, Verbs},
};
use http::Method;

/// What is at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Level<'a> {
    /// Objects of one namespace, or of the cluster.
    Collection,
    /// Objects of all namespaces.
    Everywhere,
    /// One object.
    Item,
    /// Below an object.
    Below(&'a Subresource),
}

/// Refuses what is not served, and names that no object can have.
pub fn check(resource: &Resource, asked: &ResourceRequest, method: &Method) -> Result<(), ApiError> {
    let level = level(resource, asked).ok_or_else(ApiError::no_such_path)?;
    let served = if resource.custom { custom(level, asked) } else { built_in(resource, level, asked, method) };
    match served {
        Served::Yes => {}
        Served::NoSuchPath => return Err(ApiError::no_such_path()),
        Served::NotAllowed => return Err(ApiError::method_not_allowed(asked.verb, &resource.plural, &resource.group)),
    }
    for (what, segment) in [("Namespace", &asked.namespace), ("Name", &asked.name)] {
        if let Some(mistake) = names::path_segment(segment).first() {
            return Err(ApiError::bad_request(format!("{what} parameter invalid: {segment:?}: {mistake}")));
        }
    }
    Ok(())
}

fn level<'a>(resource: &'a Resource, asked: &ResourceRequest) -> Option<Level<'a>> {
    // `namespaces` is the one resource whose own path names a namespace.
    let its_own = resource.group.is_empty() && resource.plural == "namespaces" && asked.namespace == asked.name;
    let inside = match resource.scope {
        Scope::Namespaced => asked.nested && !asked.namespace.is_empty(),
        Scope::Cluster => !asked.nested && (asked.namespace.is_empty() || its_own),
    };
    let everywhere = resource.scope == Scope::Namespaced && !asked.nested && asked.namespace.is_empty();
    let level = match (asked.name.as_str(), asked.subresource.as_str()) {
        ("", "") if inside => Level::Collection,
        ("", "") if everywhere => Level::Everywhere,
        ("", _) => return None,
        (_, "") if inside => Level::Item,
        (_, name) if inside => Level::Below(resource.subresource(name)?),
        _ => return None,
    };
    let goes_on = matches!(level, Level::Below(Subresource::Named("proxy")));
    (asked.rest.is_empty() || goes_on).then_some(level)
}

/// Whether a request is served.
enum Served {
    Yes,
    NoSuchPath,
    NotAllowed,
}

fn when(allowed: bool) -> Served {
    if allowed { Served::Yes } else { Served::NotAllowed }
}

fn built_in(resource: &Resource, level: Level<'_>, asked: &ResourceRequest, method: &Method) -> Served {
    let stored = resource.verbs != Verbs::CreateOnly;
    if asked.verb_in_path {
        let watched = asked.verb == "watch" && stored && !matches!(level, Level::Below(_));
        return if watched { when(*method == Method::GET) } else { Served::NoSuchPath };
    }
    match level {
        Level::Collection => {
            let deletes = *method == Method::DELETE && resource.verbs == Verbs::All;
            when(*method == Method::POST || (stored && *method == Method::GET) || deletes)
        }
        Level::Everywhere | Level::Item if !stored => Served::NoSuchPath,
        Level::Everywhere => when(*method == Method::GET),
        Level::Item => when([Method::GET, Method::PUT, Method::PATCH, Method::DELETE].contains(method)),
        Level::Below(Subresource::Named("proxy")) => when(crate::kubelet::proxy::METHODS.contains(method)),
        Level::Below(subresource) => {
            let shown = resource.shown_subresource(subresource);
            when(*method != Method::HEAD && shown.verbs.contains(&asked.verb))
        }
    }
}

fn custom(level: Level<'_>, asked: &ResourceRequest) -> Served {
    match level {
        Level::Everywhere if !matches!(asked.verb, "list" | "watch") => Served::NoSuchPath,
        Level::Collection | Level::Everywhere => {
            when(["list", "watch", "create", "deletecollection"].contains(&asked.verb))
        }
        Level::Item => when(["get", "watch", "update", "patch", "delete"].contains(&asked.verb)),
        Level::Below(_) => when(["get", "update", "patch"].contains(&asked.verb)),
    }
}
