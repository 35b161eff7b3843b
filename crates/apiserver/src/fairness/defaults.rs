//! What is done about the objects that every cluster has: missing ones are made, and specs that are the server's are kept.

use api::{
    kinds::flowcontrol::defaults::{AUTOUPDATE, Need},
    object::Fields,
};
use serde_json::Value;

/// What to do with one of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Keep {
    /// Nothing.
    AsItIs,
    /// It does not exist.
    Create,
    /// Write this in its place.
    Update(Value),
}

/// Compares what is stored with what should be. A suggested object is the server's as long as its annotation says so, or,
/// without one, as long as nobody has changed it.
pub fn decide(need: Need, wanted: &Value, stored: Option<&Value>) -> Keep {
    let Some(stored) = stored else { return Keep::Create };
    let annotation = stored.at("metadata.annotations").get(AUTOUPDATE).and_then(Value::as_str);
    let ours = match (need, annotation) {
        (Need::Mandatory, _) => true,
        (Need::Suggested, Some("true")) => true,
        (Need::Suggested, Some("false")) => false,
        (Need::Suggested, _) => stored.int_at("metadata.generation") == Some(1),
    };
    let mut spec = wanted.at("spec").clone();
    if annotation == Some("false") && !spec.at("exempt").is_null() {
        // Of the level without a limit, an administrator may say what it lends.
        spec.set("exempt", stored.at("spec.exempt").clone());
    }
    let mut new = stored.clone();
    if ours {
        new.set("spec", spec);
    }
    if need == Need::Suggested || annotation.is_none() {
        new.at_mut("metadata.annotations")[AUTOUPDATE] = if ours { "true" } else { "false" }.into();
    }
    if new == *stored { Keep::AsItIs } else { Keep::Update(new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::flowcontrol::defaults;
    use serde_json::json;

    fn named(name: &str, objects: Vec<(Need, Value)>) -> (Need, Value) {
        objects.into_iter().find(|(_, object)| object["metadata"]["name"] == name).unwrap()
    }

    #[test]
    fn what_is_the_servers_comes_back_and_what_was_taken_over_stays() {
        let (need, wanted) = named("workload-low", defaults::levels());
        let stored = |annotation: Value, generation: i64, shares: i64| {
            let mut stored = wanted.clone();
            stored["metadata"]["annotations"][AUTOUPDATE] = annotation;
            stored["metadata"]["generation"] = generation.into();
            stored["spec"]["limited"]["nominalConcurrencyShares"] = shares.into();
            stored
        };
        assert_eq!(decide(need, &wanted, None), Keep::Create);
        for (annotation, generation, shares, want) in [
            (json!("true"), 3, 100, None),
            (json!("true"), 3, 7, Some((100, "true"))),
            (json!("false"), 3, 7, None),
            (json!(null), 1, 7, Some((100, "true"))),
            (json!(null), 2, 7, Some((7, "false"))),
        ] {
            let given = stored(annotation, generation, shares);
            let want = want.map_or(Keep::AsItIs, |(shares, annotation)| {
                Keep::Update(stored(annotation.into(), generation, shares))
            });
            assert_eq!(decide(need, &wanted, Some(&given)), want, "{given}");
        }
    }

    #[test]
    fn what_nobody_can_do_without_comes_back_whatever_it_says() {
        let (need, wanted) = named("catch-all", defaults::schemas());
        let mut stored = wanted.clone();
        stored["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(decide(need, &wanted, Some(&stored)), Keep::AsItIs);
        stored["spec"]["rules"] = json!([]);
        let Keep::Update(new) = decide(need, &wanted, Some(&stored)) else { panic!("it was changed") };
        assert_eq!(new["spec"], wanted["spec"]);
        let (need, wanted) = named("exempt", defaults::levels());
        let mut lends = wanted.clone();
        lends["spec"]["exempt"]["nominalConcurrencyShares"] = 9.into();
        assert!(matches!(decide(need, &wanted, Some(&lends)), Keep::Update(_)));
        lends["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(decide(need, &wanted, Some(&lends)), Keep::AsItIs);
    }
}
