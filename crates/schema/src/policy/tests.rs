//! What policies make of requests.

use super::{MutatingPolicy, MutatingPolicyRules, Mutation};
use crate::cel::Bound;
use api::resource::Rules;
use serde_json::{Value, json};

fn policy(patch_type: &str, field: &str, expression: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}]},
        "variables": [{"name": "families", "expression": "object.spec.families"}],
        "mutations": [{"patchType": patch_type, field: {"expression": expression}}]}})
}

fn configuration(expression: &str) -> Value {
    policy("ApplyConfiguration", "applyConfiguration", expression)
}

fn operations(expression: &str) -> Value {
    policy("JSONPatch", "jsonPatch", expression)
}

fn change(policy: &Value) -> Result<Mutation, String> {
    assert_eq!(MutatingPolicyRules.validate(policy), []);
    let object = json!({"metadata": {"labels": {"a/b~c": "1"}}, "spec": {"families": ["IPv4", "IPv6"]}});
    MutatingPolicy::compile(policy).mutation(0, Bound::new().with("object", &object))
}

#[test]
fn configurations_and_operations_are_put_together() {
    let made = change(&configuration(
        "Object{metadata: Object.metadata{labels: {'x': string(size(variables.families))}}, spec: Object.spec{?none: optional.none(), \
         families: variables.families.map(f, Object.spec.families{name: f, on: true}), count: 2}}",
    ));
    let expected = json!({"metadata": {"labels": {"x": "2"}}, "spec": {"count": 2,
        "families": [{"name": "IPv4", "on": true}, {"name": "IPv6", "on": true}]}});
    assert_eq!(made, Ok(Mutation::Configuration(expected)));
    let made = change(&operations(
        "[JSONPatch{op: 'test', path: '/spec', value: object.spec}] + (size(variables.families) > 1 ? [JSONPatch{op: 'add', \
         path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'x'}, JSONPatch{op: 'move', from: '/a', path: '/b'}, \
         JSONPatch{op: 'add', path: '/spec/x', value: Object.spec.x{y: [1, 2]}}] : [])",
    ));
    let expected = json!([
        {"op": "test", "path": "/spec", "value": {"families": ["IPv4", "IPv6"]}},
        {"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "x"},
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/spec/x", "value": {"y": [1, 2]}},
    ]);
    assert_eq!(made, Ok(Mutation::Operations(expected)));
}

#[test]
fn a_part_that_is_named_after_another_place_is_a_mismatch() {
    let made = change(&configuration("Object{spec: Object.status{a: 1}}"));
    let why = "type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", \
               which matches field name path from root Object type";
    assert_eq!(made, Err(why.to_owned()));
    let made = change(&operations("[JSONPatch{op: 'add', path: '/x', value: Object.spec{a: Object.spec.b{}}}]"));
    assert!(made.unwrap_err().starts_with("type mismatch: unexpected type name \"Object.spec.b\""));
}

#[test]
fn mistakes_are_told_with_their_fields() {
    let said = |policy: &Value| -> Vec<String> {
        MutatingPolicyRules.validate(policy).iter().map(ToString::to_string).collect()
    };
    let at = "spec.mutations[0]";
    for (policy, why) in [
        (
            configuration("object"),
            format!(
                "{at}.applyConfiguration.expression: Invalid value: \"object\": must evaluate to Object but got dyn"
            ),
        ),
        (
            operations("[JSONPatch{op: 1}]"),
            format!(
                "{at}.jsonPatch.expression: Invalid value: \"[JSONPatch{{op: 1}}]\": compilation failed: \
                 ERROR: expected type of field 'op' is 'string' but provided type is 'int'"
            ),
        ),
        (
            operations("[JSONPatch{operation: ''}]"),
            format!(
                "{at}.jsonPatch.expression: Invalid value: \"[JSONPatch{{operation: ''}}]\": compilation failed: \
                 ERROR: undefined field 'operation'"
            ),
        ),
        (
            configuration("Thing{}"),
            format!(
                "{at}.applyConfiguration.expression: Invalid value: \"Thing{{}}\": compilation failed: \
                 ERROR: undeclared reference to 'Thing' (in container '')"
            ),
        ),
        (
            policy("JSONPatch", "applyConfiguration", "Object{}"),
            format!("{at}.jsonPatch: Required value: must be specified when patchType is JSONPatch"),
        ),
    ] {
        assert_eq!(said(&policy)[0], why);
    }
    let mut deletes = configuration("Object{}");
    deletes["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["DELETE"]);
    deletes["spec"]["reinvocationPolicy"] = Value::Null;
    assert_eq!(
        said(&deletes),
        [
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
            "spec.reinvocationPolicy: Required value: one of IfNeeded, Never",
        ]
    );
    let mut elsewhere = configuration("Object{}");
    elsewhere["spec"]["matchConditions"] = json!([{"name": "a", "expression": "jsonpatch.escapeKey('a') == 'a'"}]);
    assert!(said(&elsewhere)[0].contains("undeclared reference to 'jsonpatch.escapeKey'"));
}

#[test]
fn what_grows_without_end_is_not_written_out() {
    let mut policy = configuration("Object{spec: Object.spec{x: variables.e}}");
    policy["spec"]["variables"] = json!([
        {"name": "a", "expression": "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20].map(i, 'xxxxxxxxxxxxxxxxxxxx')"},
        {"name": "b", "expression": "variables.a.map(i, variables.a)"},
        {"name": "c", "expression": "variables.b.map(i, variables.b)"},
        {"name": "d", "expression": "variables.c.map(i, variables.c)"},
        {"name": "e", "expression": "variables.d.map(i, variables.d)"},
    ]);
    let object = json!({});
    let made = MutatingPolicy::compile(&policy).mutation(0, Bound::new().with("object", &object));
    assert!(matches!(made, Err(why) if why.contains("running out of cost budget")));
}

#[test]
fn expressions_are_checked_against_the_types_of_the_kinds_that_are_matched() {
    use super::types::{Kind, Warning, check};
    use api::schema::Shape;
    let deployment = Shape::Named("io.k8s.api.apps.v1.Deployment");
    let kinds = [Kind { name: "apps/v1, Kind=Deployment".to_owned(), shape: &deployment }];
    let policy =
        |validations: Value, variables: Value| json!({"spec": {"validations": validations, "variables": variables}});
    let confused = policy(
        json!([{"expression": "object.spec.replicas > '1'", "messageExpression": "'wants more than ' + object.spec.replicas"},
               {"expression": "object.spec.maxRetries < variables.most"}]),
        json!([{"name": "most", "expression": "object.spec.replicas * 2"}]),
    );
    let of = "apps/v1, Kind=Deployment: compilation failed: ERROR:";
    let warning = |field: &str, text: &str| Warning { field: field.to_owned(), text: format!("{of} {text}\n") };
    assert_eq!(
        check(&confused, &kinds, None),
        [
            warning(
                "spec.validations[0].expression",
                "found no matching overload for '_>_' applied to '(int, string)'"
            ),
            warning(
                "spec.validations[0].messageExpression",
                "found no matching overload for '_+_' applied to '(string, int)'"
            ),
            warning("spec.validations[1].expression", "undefined field 'maxRetries'"),
        ]
    );
    let fine = policy(
        json!([{"expression": "object.spec.template.spec.containers.all(c, !has(c.securityContext) || c.image.startsWith('a/')) && \
                               has(object.metadata.labels) && object.metadata.labels['a'] == 'b' && (oldObject == null || \
                               oldObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')) && \
                               object.spec.template.spec.containers.exists(c, c.resources.?limits['cpu'].hasValue())"}]),
        json!([]),
    );
    assert_eq!(check(&fine, &kinds, None), []);
}
