//! Fields laid over an object without any account of who owns them: what a mutating policy does.

use super::typed::{self, Duplicates};
use api::schema::Shape;
use serde_json::Value;

/// The object with `fields` laid over it, as server-side apply would. Refuses fields that the type does not know, and whatever is
/// replaced as a whole: who names a part of such a list or struct rarely means to drop the rest.
pub fn lay_over(shape: &Shape, object: &Value, fields: &Value) -> Result<Value, String> {
    let mistakes = typed::check(shape, fields, Duplicates::Refused);
    if !mistakes.is_empty() {
        return Err(format!("failed to convert patch object to typed object: {}", mistakes.join("; ")));
    }
    let atomics = typed::atomics(shape, fields);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"));
    }
    Ok(typed::merge(shape, object, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_laid_over_and_what_is_replaced_as_a_whole_is_refused() {
        let pod = Shape::Named("io.k8s.api.core.v1.Pod");
        let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let fields = json!({"metadata": {"labels": {"y": "2"}}, "spec": {"initContainers": [{"name": "d", "image": "j"}],
            "containers": [{"name": "c", "imagePullPolicy": "Always"}]}});
        let laid = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {
            "initContainers": [{"name": "d", "image": "j"}],
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always"}]}});
        assert_eq!(lay_over(&pod, &object, &fields), Ok(laid));
        let refused = [
            (
                json!({"spec": {"containers": [{"name": "c", "command": ["x"]}], "nodeSelector": {"a": "b"}}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command, .spec.nodeSelector",
            ),
            (
                json!({"spec": {"nonsense": 1}}),
                "failed to convert patch object to typed object: .spec.nonsense: field not declared in schema",
            ),
        ];
        for (fields, why) in refused {
            assert_eq!(lay_over(&pod, &object, &fields), Err(why.to_owned()));
        }
    }
}
