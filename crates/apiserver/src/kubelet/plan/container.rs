//! Which container of a Pod is meant. Called by `log` and `stream`.

use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// The container named, or the only one; 400 in upstream's words otherwise.
pub fn choose<'a>(pod: &'a Value, named: Option<&'a str>) -> Result<&'a str, ApiError> {
    let name = pod.str_at("metadata.name");
    let containers = pod.list_at("spec.containers");
    match (named, containers) {
        (Some(named), _) if names(pod).any(|known| known == named) => Ok(named),
        (Some(named), _) => Err(ApiError::bad_request(format!("container {named} is not valid for pod {name}"))),
        (None, [only]) => Ok(only.str_at("name")),
        (None, []) => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        (None, _) => {
            let all = names(pod).collect::<Vec<_>>().join(" ");
            Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{all}]"
            )))
        }
    }
}

fn names(pod: &Value) -> impl Iterator<Item = &str> {
    let lists = ["spec.initContainers", "spec.containers", "spec.ephemeralContainers"];
    lists.into_iter().flat_map(|list| pod.list_at(list)).map(|container| container.str_at("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_container_needs_no_name_and_several_do() {
        let pod = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
        let one = pod(json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}));
        let two = pod(
            json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]}),
        );
        let none = pod(json!({}));
        for (pod, named, want) in [
            (&one, None, Ok("a")),
            (&one, Some("i"), Ok("i")),
            (&two, Some("e"), Ok("e")),
            (&two, Some("b"), Ok("b")),
            (&two, None, Err("a container name must be specified for pod p, choose one of: [i a b e]")),
            (&two, Some("x"), Err("container x is not valid for pod p")),
            (&none, None, Err("a container name must be specified for pod p")),
        ] {
            let got = choose(pod, named).map_err(|error| (error.code, error.message));
            assert_eq!(got, want.map_err(|text| (400, text.to_owned())));
        }
    }
}
