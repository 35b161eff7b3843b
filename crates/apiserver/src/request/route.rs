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
enum Place<'a> {
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
    let place = place(resource, asked).ok_or_else(ApiError::no_such_path)?;
    let served = if resource.custom { custom(place, asked) } else { built_in(resource, place, asked, method) };
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

fn place<'a>(resource: &'a Resource, asked: &ResourceRequest) -> Option<Place<'a>> {
    // `namespaces` is the one resource whose own path names a namespace.
    let its_own = resource.group.is_empty() && resource.plural == "namespaces" && asked.namespace == asked.name;
    let inside = match resource.scope {
        Scope::Namespaced => asked.nested && !asked.namespace.is_empty(),
        Scope::Cluster => !asked.nested && (asked.namespace.is_empty() || its_own),
    };
    let everywhere = resource.scope == Scope::Namespaced && !asked.nested && asked.namespace.is_empty();
    let place = match (asked.name.as_str(), asked.subresource.as_str()) {
        ("", "") if inside => Place::Collection,
        ("", "") if everywhere => Place::Everywhere,
        ("", _) => return None,
        (_, "") if inside => Place::Item,
        (_, name) if inside => Place::Below(resource.subresource(name)?),
        _ => return None,
    };
    let goes_on = matches!(place, Place::Below(Subresource::Named("proxy")));
    (asked.rest.is_empty() || goes_on).then_some(place)
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

fn built_in(resource: &Resource, place: Place<'_>, asked: &ResourceRequest, method: &Method) -> Served {
    let stored = resource.verbs != Verbs::CreateOnly;
    if asked.verb_in_path {
        let watched = asked.verb == "watch" && stored && !matches!(place, Place::Below(_));
        return if watched { when(*method == Method::GET) } else { Served::NoSuchPath };
    }
    match place {
        Place::Collection => {
            let deletes = *method == Method::DELETE && resource.verbs == Verbs::All;
            when(*method == Method::POST || (stored && *method == Method::GET) || deletes)
        }
        Place::Everywhere | Place::Item if !stored => Served::NoSuchPath,
        Place::Everywhere => when(*method == Method::GET),
        Place::Item => when([Method::GET, Method::PUT, Method::PATCH, Method::DELETE].contains(method)),
        Place::Below(Subresource::Named("proxy")) => when(crate::kubelet::proxy::METHODS.contains(method)),
        Place::Below(subresource) => {
            let shown = resource.shown_subresource(subresource);
            when(*method != Method::HEAD && shown.verbs.contains(&asked.verb))
        }
    }
}

fn custom(place: Place<'_>, asked: &ResourceRequest) -> Served {
    match place {
        Place::Everywhere if !matches!(asked.verb, "list" | "watch") => Served::NoSuchPath,
        Place::Collection | Place::Everywhere => {
            when(["list", "watch", "create", "deletecollection"].contains(&asked.verb))
        }
        Place::Item => when(["get", "watch", "update", "patch", "delete"].contains(&asked.verb)),
        Place::Below(_) => when(["get", "update", "patch"].contains(&asked.verb)),
    }
}
