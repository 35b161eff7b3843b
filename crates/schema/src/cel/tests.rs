//! Rules on objects: what holds, what fails and how it is said, and what it may cost.

use super::{compile, validate};
use crate::structural::Structural;
use api::{error::FieldError, path::Path};
use proptest::prelude::*;
use serde_json::{Value, json};

fn mistakes(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Mistakes that compiling a schema reports.
fn refused(schema: &Value) -> Vec<String> {
    match Structural::parse(schema, &Path::root(), false) {
        Ok(schema) => compile(&schema, &Path::root()).map_or_else(|errors| mistakes(&errors), |_| Vec::new()),
        Err(errors) => mistakes(&errors),
    }
}

/// Failures of the rules of `schema` on an update from `old` to `new`.
fn failures(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Structural::parse(schema, &Path::root(), false).unwrap_or_else(|errors| panic!("{errors:?}"));
    let tree = compile(&schema, &Path::root()).unwrap_or_else(|errors| panic!("{:?}", mistakes(&errors)));
    mistakes(&validate(&tree, schema.root(), new, old, &Path::root()))
}

/// A schema with one rule at the root and these fields.
fn with(rule: &str, properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]})
}

fn many() -> Value {
    json!({
        "replicas": {"type": "integer"}, "min": {"type": "integer"}, "max": {"type": "integer"},
        "ratio": {"type": "number"}, "name": {"type": "string", "maxLength": 64}, "on": {"type": "boolean"},
        "tags": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 64}},
        "ports": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 64}, "port": {"type": "integer"}}}},
        "labels": {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "string", "maxLength": 64}},
        "size": {"x-kubernetes-int-or-string": true},
        "since": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte", "maxLength": 64},
        "a-b": {"type": "string", "maxLength": 9}, "if": {"type": "string", "maxLength": 9},
        "maybe": {"type": "string", "nullable": true, "maxLength": 9},
        "spec": {"type": "object", "properties": {"deep": {"type": "string", "maxLength": 9}}}
    })
}

fn sample() -> Value {
    json!({
        "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "labels": {}},
        "replicas": 3, "min": 1, "max": 5, "ratio": 2, "name": "web-1", "on": true, "tags": ["a", "b", "c"],
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "labels": {"app": "web", "tier": "front"}, "size": "50%", "since": "2024-01-02T03:04:05Z", "day": "2024-01-02",
        "wait": "90s", "data": "aGVsbG8=", "a-b": "x", "if": "y", "maybe": null, "spec": {"deep": "z"}
    })
}

#[test]
fn rules_that_hold() {
    for rule in [
        "self.min <= self.replicas && self.replicas <= self.max",
        "self.ratio == 2.0 && self.ratio / 2.0 == 1.0",
        "self.metadata.name == 'n' && self.kind == 'K' && self.apiVersion == 'g/v1'",
        "self.tags.all(t, t.size() == 1) && self.tags.exists(t, t == 'b') && self.tags.exists_one(t, t > 'b')",
        "self.tags.map(t, t + t) == ['aa', 'bb', 'cc'] && self.tags.filter(t, t != 'a') == ['b', 'c']",
        "self.tags.map(t, t != 'b', t + '!') == ['a!', 'c!']",
        "self.ports.map(p, p.port).sum() == 523 && self.ports.map(p, p.port).isSorted()",
        "self.ports.all(p, self.ports.exists_one(q, q.name == p.name))",
        "self.labels.all(k, self.labels[k].size() > 2) && 'app' in self.labels && !('x' in self.labels)",
        "self.labels.exists(k, v, k == 'app' && v == 'web') && self.tags.all(i, t, t == self.tags[i])",
        "self.tags.transformList(i, t, i) == [0, 1, 2] && self.labels.transformMap(k, v, v.size()).app == 3",
        "has(self.spec.deep)",
        "type(self.size) == string && self.size.endsWith('%') && type(self.replicas) == int",
        "self.since > timestamp('2023-01-01T00:00:00Z') && self.since.getFullYear() == 2024",
        "self.day < timestamp('2024-01-03T00:00:00Z')",
        "self.wait == duration('1m30s') && self.wait > duration('1s')",
        "string(self.data) == 'hello' && self.data == b'hello'",
        "self.a__dash__b == 'x' && self.__if__ == 'y'",
        "self.name.matches('^[a-z]+-\\\\d$') && self.name.find('[0-9]') == '1' && self.name.findAll('[a-z]').size() == 3",
        "self.name.split('-') == ['web', '1'] && self.name.replace('web', 'x') == 'x-1' && self.name.upperAscii() == 'WEB-1'",
        "isIP('192.168.0.1') && ip('::1').family() == 6 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "ip('10.0.0.1').family() == 4 && cidr('fd00::/8').containsIP(ip('fd00::1')) && !isIP('10.0.0.256')",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && url('https://a.b/c').getHost() == 'a.b'",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && sets.contains(self.tags, ['a'])",
        "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A_').hasValue()",
        "self.spec.?deep.orValue('q') == 'z' && self.?maybe.hasValue() && optional.none().orValue(1) == 1",
        "dyn(self.maybe) == null && self.tags[?7].orValue('no') == 'no' && self.labels[?'app'].value() == 'web'",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1] && sign(quantity('-1')) == -1 && string(ip('::1')) == '::1'",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && [optional.of(1), optional.none()].unwrapOpt() == [1]",
        "string(true) == 'true' && string(duration('1h0.5s')) == '3600.5s' && int(duration('1s')) == 1000000000",
        "timestamp(0) == timestamp('1970-01-01T00:00:00Z') && string(timestamp(1)) == '1970-01-01T00:00:01Z' && int(timestamp(7)) == 7",
        "string(1.5) == '1.5' && string(b'x') == 'x' && uint(3) == 3u && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "type(self.wait) == google.protobuf.Duration && type(ip('::1')) == net.IP && type(self.since) != int",
        "optional.of(2).optMap(x, x * 2).value() == 4 && '%s is %d'.format(['x', 1]) == 'x is 1'",
        "(self.on ? 1 : 2) == 1 && -self.min == -1 && 7 % 4 == 3 && !(1 > 2) && 1u + 2u == 3u",
        "false && 1 / 0 > 0 || true || 1 / 0 > 0",
        "[1, 0].exists(x, 1 / x > 0) && ![1, 0].all(x, 1 / x < 0)",
        "{'a': 1}.a == 1 && {1: 'x'}[1] == 'x' && [1, 2] + [3] == [1, 2, 3] && size({}) == 0",
        "dyn(1) == 1.0 && 2 > 1.5 && double(1) == 1.0 && int('7') == 7 && string(7) == '7' && bool('true')",
    ] {
        assert_eq!(failures(&with(rule, many()), &sample(), None), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn a_failure_says_the_message_the_reason_and_the_field() {
    let schema = |rule: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [rule],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}}}}}})
    };
    let object = json!({"spec": {"min": 3, "max": 1}});
    for (rule, expected) in [
        (json!({"rule": "self.min <= self.max"}), "spec: Invalid value: failed rule: self.min <= self.max"),
        (json!({"rule": "self.min <= self.max", "message": " min over max "}), "spec: Invalid value: min over max"),
        (
            json!({"rule": "self.min <= self.max", "messageExpression": "'min %d over max %d'.format([self.min, self.max])"}),
            "spec: Invalid value: min 3 over max 1",
        ),
        (
            json!({"rule": "self.min <= self.max", "message": "static", "messageExpression": "['a'][self.min]"}),
            "spec: Invalid value: static",
        ),
        (
            json!({"rule": "self.min <= self.max", "reason": "FieldValueForbidden", "fieldPath": ".max", "message": "no"}),
            "spec.max: Forbidden: no",
        ),
        (
            json!({"rule": "self.min <= self.max", "reason": "FieldValueRequired", "fieldPath": ".map['a.b']", "message": "no"}),
            "spec.map[a.b]: Required value: no",
        ),
        (
            json!({"rule": "self.min / 0 == 1"}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: self.min / 0 == 1",
        ),
        (
            json!({"rule": "self.map['x'] == 1", "message": "m"}),
            "spec: Invalid value: \"object\": no such key: map evaluating rule: m",
        ),
    ] {
        let found = failures(&schema(rule.clone()), &object, None);
        assert_eq!(found, [expected], "{rule}");
    }
}

/// Different integers that equal one double after rounding: whoever sorts by that is in no order, which Rust's sort may answer with a panic.
#[test]
fn sort_keys_are_of_one_type() {
    let keys: Vec<String> = (0..90_u64)
        .map(|at| match at % 3 {
            0 => format!("dyn({})", 9_007_199_254_740_992 + at * 7 % 13),
            1 => format!("dyn({}.0)", 9_007_199_254_740_992 + at * 5 % 11),
            _ => format!("dyn({}u)", 9_007_199_254_740_992 + at * 3 % 17),
        })
        .collect();
    for keys in
        [keys.join(", "), "dyn(1), dyn(1.0)".to_owned(), "dyn(1), dyn('a')".to_owned(), "1.0, 0.0 / 0.0".to_owned()]
    {
        let found = failures(&with(&format!("[{keys}].sortBy(x, x).size() > 0"), many()), &sample(), None);
        assert!(found.len() == 1 && found[0].contains("no such overload: sortBy"), "{keys}: {found:?}");
    }
    let bytes = "[b'b', b'a'].sortBy(x, x) == [b'a', b'b']";
    assert_eq!(failures(&with(bytes, many()), &sample(), None), Vec::<String>::new());
}

#[test]
fn scalars_are_shown_and_items_are_found() {
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9,
            "x-kubernetes-validations": [{"rule": "self != 'b'"}]}},
        "map": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]}}}});
    let found = failures(&schema, &json!({"list": ["a", "b"], "map": {"x": 0, "y": 1}}), None);
    assert_eq!(
        found,
        ["list[1]: Invalid value: \"b\": failed rule: self != 'b'", "map[x]: Invalid value: 0: positive"]
    );
}

#[test]
fn rules_that_cannot_be_are_refused_when_the_definition_comes() {
    for (rule, expected) in [
        ("self.z == 100", "undefined field 'z'"),
        ("self = 42", "Syntax error"),
        ("self.replicas +", "Syntax error"),
        ("self.replicas", "cel expression must evaluate to a bool"),
        ("self.replicas == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.name + 1 == ''", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.name.foo() == 1", "undeclared reference to 'foo'"),
        ("nobody == 1", "undeclared reference to 'nobody'"),
        ("self.tags.all(t, t.x)", "type 'string' does not support field selection"),
        ("self.tags.all(t, t)", "expected type 'bool' but found 'string'"),
        (
            "self.name.all(t, true)",
            "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.name.matches('(')", "regular expression"),
        ("self.metadata.labels.size() == 0", "undefined field 'labels'"),
        ("self.spec.other == 1", "undefined field 'other'"),
        ("Foo{a: 1} == 1", "undeclared reference to 'Foo'"),
        ("!self.replicas", "found no matching overload for '!_' applied to '(int)'"),
        ("self.tags['a'] == 'b'", "found no matching overload for '_[_]' applied to '(list(string), string)'"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("duration('x') > self.wait", "invalid duration argument"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        (
            "self.spec == self.labels",
            "found no matching overload for '_==_' applied to '(object.spec, map(string, string))'",
        ),
        // What Kubernetes does not give to rules.
        ("cel.bind(n, 1, n == 1)", "undeclared reference to 'bind'"),
        ("math.greatest(1, 2) == 2", "undeclared reference to 'greatest'"),
        ("self.tags.includes('a')", "undeclared reference to 'includes'"),
        ("quantity('1').sign() == 1", "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"),
    ] {
        let found = refused(&with(rule, many()));
        assert!(found.iter().any(|text| text.contains(expected)), "{rule}: {found:?}");
        assert!(found.iter().all(|text| text.starts_with("x-kubernetes-validations[0].rule: ")), "{rule}: {found:?}");
    }
}

#[test]
fn rules_are_checked_beside_their_cel() {
    let rule = |rule: Value| {
        json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}},
        "x-kubernetes-validations": [rule]})
    };
    for (given, expected) in [
        (json!({"rule": " "}), "x-kubernetes-validations[0].rule: Required value"),
        (json!({"rule": "true", "message": " "}), "x-kubernetes-validations[0].message: Invalid value"),
        (json!({"rule": "true", "message": "a\nb"}), "x-kubernetes-validations[0].message: Invalid value"),
        (json!({"rule": "true\n"}), ""),
        (json!({"rule": "true\n && true"}), "x-kubernetes-validations[0].message: Required value"),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            "x-kubernetes-validations[0].messageExpression: Invalid value",
        ),
        (json!({"rule": "true", "reason": "X"}), "x-kubernetes-validations[0].reason: Unsupported value: \"X\""),
        (json!({"rule": "true", "fieldPath": ".b"}), "x-kubernetes-validations[0].fieldPath: Invalid value: \".b\""),
        (json!({"rule": "true", "fieldPath": "a"}), "x-kubernetes-validations[0].fieldPath: Invalid value: \"a\""),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "x-kubernetes-validations[0].optionalOldSelf: Invalid value: true",
        ),
    ] {
        let found = refused(&rule(given.clone()));
        match expected {
            "" => assert_eq!(found, Vec::<String>::new(), "{given}"),
            expected => assert!(found.len() == 1 && found[0].starts_with(expected), "{given}: {found:?}"),
        }
    }
}

#[test]
fn transition_rules_compare_with_what_was() {
    let schema = json!({"type": "object", "properties": {
        "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows only"}]},
        "mode": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
            {"rule": "oldSelf.hasValue() ? self == oldSelf.value() : self != 'bad'", "optionalOldSelf": true, "message": "fixed"}]},
        "ports": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 9},
                "port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "same port"}]}}}}}});
    let port = |name: &str, port: u32| json!({"name": name, "port": port});
    for (new, old, expected) in [
        (json!({"size": 1}), None, vec![]),
        (json!({"size": 1}), Some(json!({"size": 2})), vec!["size: Invalid value: 1: grows only"]),
        (json!({"size": 3}), Some(json!({"size": 2})), vec![]),
        (json!({"size": 3}), Some(json!({})), vec![]),
        (json!({"mode": "bad"}), None, vec!["mode: Invalid value: \"bad\": fixed"]),
        (json!({"mode": "ok"}), None, vec![]),
        (json!({"mode": "b"}), Some(json!({"mode": "a"})), vec!["mode: Invalid value: \"b\": fixed"]),
        // Items are matched by key, not by place; a new one has no past.
        (
            json!({"ports": [port("b", 2), port("c", 3), port("a", 9)]}),
            Some(json!({"ports": [port("a", 1), port("b", 2)]})),
            vec!["ports[2].port: Invalid value: 9: same port"],
        ),
    ] {
        assert_eq!(failures(&schema, &new, old.as_ref()), expected, "{new} from {old:?}");
    }
}

#[test]
fn old_self_needs_items_that_can_be_told_apart() {
    let list = |kind: Value| {
        let mut list = json!({"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9,
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
        list["x-kubernetes-list-type"] = kind;
        json!({"type": "object", "properties": {"l": list}})
    };
    for kind in [Value::Null, json!("atomic"), json!("set")] {
        let found = refused(&list(kind.clone()));
        assert!(
            found.len() == 1 && found[0].ends_with("on the uncorrelatable portion of the schema within properties[l]"),
            "{kind}: {found:?}"
        );
    }
}

#[test]
fn what_did_not_change_is_not_asked_again() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == 'x'"}]},
        "b": {"type": "integer"}, "l": {"type": "array", "maxItems": 9, "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 0"}]}}}});
    for (new, old, expected) in [
        (json!({"a": "y", "b": 2}), json!({"a": "y", "b": 1}), vec![]),
        (
            json!({"a": "z", "b": 1}),
            json!({"a": "y", "b": 1}),
            vec!["a: Invalid value: \"z\": failed rule: self == 'x'"],
        ),
        (json!({"l": [0], "b": 2}), json!({"l": [0], "b": 1}), vec![]),
        // An atomic list is one value: once it changes, all of it is asked.
        (json!({"l": [0, 1]}), json!({"l": [0]}), vec!["l[0]: Invalid value: 0: failed rule: self > 0"]),
    ] {
        assert_eq!(failures(&schema, &new, Some(&old)), expected, "{new} from {old}");
    }
}

#[test]
fn defaults_must_satisfy_rules() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 0,
        "x-kubernetes-validations": [{"rule": "self > 0"}]}}});
    assert_eq!(refused(&schema), ["properties[a].default: Invalid value: 0: failed rule: self > 0"]);
}

#[test]
fn an_expensive_rule_is_refused_by_its_estimate() {
    let nested = json!({"type": "object", "properties": {"x": {"type": "array", "items": {"type": "array",
        "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": "self.all(s, s == 'string constant')"}]}}}});
    let found = refused(&nested);
    assert!(found[0].contains("exceeds budget by factor of more than 100x"), "{found:?}");
    assert!(found[0].starts_with("properties[x].items.x-kubernetes-validations[0].rule: Forbidden"), "{found:?}");

    let square = |most: u32| {
        with(
            "self.l.all(x, self.l.all(y, y == x))",
            json!({"l": {"type": "array", "maxItems": most, "items": {"type": "integer"}}}),
        )
    };
    assert_eq!(refused(&square(725)), Vec::<String>::new());
    assert!(refused(&square(5000))[0].contains("exceeds budget"));
}

#[test]
fn an_expensive_run_is_stopped_and_refused() {
    let schema = with(
        "self.l.all(x, self.l.all(y, y == x))",
        json!({"l": {"type": "array", "maxItems": 725, "items": {"type": "integer"}}}),
    );
    let found = failures(&schema, &json!({"l": vec![20; 725]}), None);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("call cost exceeds limit for rule"), "{found:?}");
    assert_eq!(failures(&schema, &json!({"l": vec![20; 400]}), None), Vec::<String>::new());
}

#[test]
fn nothing_that_a_rule_builds_outgrows_the_budget() {
    // Each of these doubles something many times, or makes it from a number.
    let doubled = |grow: &str| {
        (0..40).fold("x".to_owned(), |inner, i| {
            if i == 0 { format!("[self.name].map(x, {grow})") } else { format!("{inner}.map(x, {grow})") }
        })
    };
    for rule in [
        format!("{} == ['']", doubled("x + x")),
        "lists.range(1000000000).size() > 0".to_owned(),
        "lists.range(self.replicas).size() > 0".to_owned(),
        format!("{}.size() == 0", (0..30).fold("self.tags".to_owned(), |of, _| format!("cel.bind(l, {of}, l + l)"))),
        format!(
            "cel.bind(l, {}, l == l)",
            (0..60).fold("self.tags".to_owned(), |of, _| format!("cel.bind(l, {of}, [l, l])"))
        ),
        "lists.range(3000).all(a, lists.range(3000).all(b, lists.range(3000).all(c, a + b + c >= 0)))".to_owned(),
        "lists.range(400000).map(x, self.name).join(self.name).size() > 0".to_owned(),
        "lists.range(900).all(x, self.name.matches(self.name + string(x)) || true)".to_owned(),
    ] {
        let mut object = sample();
        object["replicas"] = json!(2_000_000_000);
        object["name"] = json!("n".repeat(60));
        let schema = with(&rule, many());
        let Ok(parsed) = Structural::parse(&schema, &Path::root(), false) else { panic!("{rule}") };
        // The estimate may refuse it already; what it lets through is stopped when it runs.
        let Ok(tree) = compile(&parsed, &Path::root()) else { continue };
        let found = mistakes(&validate(&tree, parsed.root(), &object, None, &Path::root()));
        assert!(found.len() == 1 && found[0].contains("cost exceeds limit"), "{rule}: {found:?}");
    }
}

#[test]
fn the_budget_is_one_for_all_rules_of_an_object() {
    let rule = json!({"rule": "self.l.all(x, self.l.all(y, y == x))"});
    let schema = json!({"type": "object", "x-kubernetes-validations": vec![rule; 20],
        "properties": {"l": {"type": "array", "maxItems": 480, "items": {"type": "integer"}}}});
    let found = failures(&schema, &json!({"l": vec![1; 480]}), None);
    assert!(found.len() == 1 && found[0].contains("cost exceeds limit"), "{found:?}");
}

#[test]
fn deep_and_long_rules_are_refused_not_crashed_on() {
    for rule in [
        format!("{}true{}", "(".repeat(900), ")".repeat(900)),
        format!("{}true", "! ".repeat(1900)),
        vec!["1"; 1900].join("+") + " == 1900",
        vec!["true"; 900].join(" ? true : ") + " ? true : false",
        format!("self{} == 1", ".spec".repeat(1900)),
        format!("{}1{} == 1", "[".repeat(900), "]".repeat(900)),
        "x".repeat(20_000),
        "(".repeat(5000),
    ] {
        let found = refused(&with(&rule, many()));
        assert!(found.len() == 1 || rule.starts_with('!'), "{}: {found:?}", &rule[..40]);
    }
    // Long and flat is fine.
    let flat = vec!["self.replicas > 0"; 300].join(" && ");
    assert_eq!(refused(&with(&flat, many())), Vec::<String>::new());
}

#[test]
fn the_deepest_accepted_rule_runs_on_an_ordinary_stack() {
    let sum = vec!["self.replicas"; 195].join(" + ");
    assert_eq!(failures(&with(&format!("{sum} == 585"), many()), &sample(), None), Vec::<String>::new());
    let lists = format!("{}self.replicas{} != []", "[".repeat(20), "]".repeat(20));
    assert_eq!(failures(&with(&lists, many()), &sample(), None), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_text_is_a_rule_or_a_mistake(rule in "[a-z0-9.()\\[\\]{}!&|+*/<>=?:,'\" -]{0,60}") {
        let _ = refused(&with(&rule, many()));
    }
}
