//! The typed round trip and the readers of text, as tables.

mod hostile;
mod swagger;

use super::{Shape, decode, named, parse_json, parse_yaml};
use proptest::prelude::*;
use serde_json::{Value, json};

const SERVICE: Shape = Shape::Named("io.k8s.api.core.v1.Service");
const POD: Shape = Shape::Named("io.k8s.api.core.v1.Pod");

fn round_trip(shape: &Shape, mut value: Value) -> Value {
    let decoded = decode(shape, &mut value);
    assert_eq!(decoded.errors, [], "{value}");
    value
}

#[test]
fn zero_values_appear_or_go_as_in_go() {
    let cases = [
        // Structs are always written, empty optional fields never.
        (json!({}), json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}})),
        (
            json!({"metadata": null, "spec": {"ports": [], "selector": {}, "clusterIP": "", "ipFamilyPolicy": null}}),
            json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ),
        // A pointer keeps its zero value; a port and its target are always written.
        (
            json!({"spec": {"allocateLoadBalancerNodePorts": false, "ports": [{"nodePort": 0, "name": ""}, null]}}),
            json!({
                "metadata": {},
                "spec": {
                    "allocateLoadBalancerNodePorts": false,
                    "ports": [{"port": 0, "targetPort": 0}, {"port": 0, "targetPort": 0}],
                },
                "status": {"loadBalancer": {}},
            }),
        ),
        (
            json!({"metadata": {"creationTimestamp": null, "deletionTimestamp": null, "labels": {"a": null}}}),
            json!({"metadata": {"labels": {"a": ""}}, "spec": {}, "status": {"loadBalancer": {}}}),
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(round_trip(&SERVICE, given), expected);
    }
}

#[test]
fn a_list_without_omitempty_is_null_when_empty() {
    for given in [json!({"spec": {}}), json!({"spec": {"containers": []}}), json!({"spec": {"containers": null}})] {
        assert_eq!(round_trip(&POD, given)["spec"], json!({"containers": null}));
    }
}

#[test]
fn both_families_survive_in_either_order() {
    for ips in [json!(["10.0.0.1"]), json!(["fd00::1"]), json!(["10.0.0.1", "fd00::1"]), json!(["fd00::1", "10.0.0.1"])]
    {
        let value = round_trip(&SERVICE, json!({"spec": {"clusterIPs": ips}}));
        assert_eq!(value["spec"]["clusterIPs"], ips);
    }
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let mut value = json!({
        "metadata": {"Name": "a", "name": "a"},
        "spec": {"foo": {"deep": 1}, "ports": [{"port": 80}, {"port": 81, "bar": null}], "selector": {"any": "thing"}},
    });
    let decoded = decode(&SERVICE, &mut value);
    assert_eq!(decoded.unknown, ["metadata.Name", "spec.foo", "spec.ports[1].bar"]);
    assert_eq!(value["spec"]["ports"][1], json!({"port": 81, "targetPort": 0}));
    assert_eq!(value["spec"]["selector"], json!({"any": "thing"}));
}

#[test]
fn every_wrong_type_is_named_with_what_is_accepted() {
    let mut value = json!({
        "metadata": {"labels": ["a"], "creationTimestamp": "yesterday", "generation": 1.5},
        "spec": {
            "clusterIPs": "fd00::1",
            "ports": [{"port": "80", "targetPort": true, "nodePort": 2_147_483_648_u64}],
            "publishNotReadyAddresses": 1,
            "type": 7,
        },
        "status": [],
    });
    let errors: Vec<String> = decode(&SERVICE, &mut value).errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"metadata.creationTimestamp: found the text "yesterday", accepted is a time like 2006-01-02T15:04:05Z"#,
            "metadata.generation: found the number 1.5, accepted is a whole number of 64 bits",
            "metadata.labels: found a list, accepted is an object",
            r#"spec.clusterIPs: found the text "fd00::1", accepted is a list"#,
            "spec.ports[0].nodePort: found the number 2147483648, accepted is a whole number of 32 bits",
            r#"spec.ports[0].port: found the text "80", accepted is a whole number of 32 bits"#,
            "spec.ports[0].targetPort: found true, accepted is a whole number of 32 bits, or text",
            "spec.publishNotReadyAddresses: found the number 1, accepted is true or false",
            "spec.type: found the number 7, accepted is text",
            "status: found a list, accepted is an object",
        ]
    );
}

#[test]
fn a_body_that_is_no_object_is_a_mistake_too() {
    let decoded = decode(&SERVICE, &mut json!([1]));
    assert_eq!(decoded.errors[0].to_string(), "the body: found a list, accepted is an object");
}

#[test]
fn scalars_are_written_in_their_canonical_form() {
    let cases = [
        (Shape::Quantity, json!("0.5"), json!("500m")),
        (Shape::Quantity, json!("1024Mi"), json!("1Gi")),
        (Shape::Quantity, json!("1.5Gi"), json!("1536Mi")),
        (Shape::Quantity, json!("100Ki"), json!("100Ki")),
        (Shape::Quantity, json!("1000Ki"), json!("1000Ki")),
        (Shape::Quantity, json!("1000m"), json!("1")),
        (Shape::Quantity, json!("0.0000000001"), json!("1n")),
        (Shape::Quantity, json!("-2000"), json!("-2k")),
        (Shape::Quantity, json!("1e3"), json!("1e3")),
        (Shape::Quantity, json!("9Ei"), json!("9223372036854775807")),
        (Shape::Quantity, json!("1000E"), json!("1000E")),
        (Shape::Quantity, json!(" 1 "), json!("1")),
        (Shape::Quantity, json!(0.25), json!("250m")),
        (Shape::Quantity, json!(4), json!("4")),
        (Shape::Time, json!("2024-02-29T12:34:56.789+02:00"), json!("2024-02-29T10:34:56Z")),
        (Shape::Time, json!("0001-01-01T00:00:00Z"), json!(null)),
        (Shape::MicroTime, json!("2024-02-29T12:34:56.123456-01:00"), json!("2024-02-29T13:34:56.123456Z")),
        (Shape::Duration, json!("90m"), json!("1h30m0s")),
        (Shape::Duration, json!("1.5ms"), json!("1.5ms")),
        (Shape::Duration, json!("-0.5h"), json!("-30m0s")),
        (Shape::Duration, json!("0"), json!("0s")),
        (Shape::Bytes, json!("YR=="), json!("YQ==")),
        (Shape::Bytes, json!("aGVs\nbG8="), json!("aGVsbG8=")),
        (Shape::IntOrString, json!("80"), json!("80")),
        (Shape::Number, json!(3.0), json!(3)),
    ];
    for (shape, given, expected) in cases {
        assert_eq!(round_trip(&shape, given.clone()), expected, "{given}");
    }
}

#[test]
fn scalars_that_go_cannot_read_are_refused() {
    let cases = [
        (Shape::Quantity, json!("1GB")),
        (Shape::Quantity, json!("")),
        (Shape::Quantity, json!("1e")),
        (Shape::Quantity, json!(true)),
        (Shape::Time, json!("2024-02-30T00:00:00Z")),
        (Shape::Time, json!("2024-02-29t00:00:00z")),
        (Shape::Time, json!("2024-02-29T00:00:00+25:00")),
        (Shape::Time, json!("2024-02-29T00:00:60Z")),
        (Shape::MicroTime, json!("2024-02-29T00:00:00Z")),
        (Shape::Duration, json!("5")),
        (Shape::Duration, json!("")),
        (Shape::Duration, json!("1d")),
        (Shape::Bytes, json!("a b")),
        (Shape::Int64, json!(9_223_372_036_854_775_808_u64)),
        (Shape::Int32, json!(1.0)),
        (Shape::IntOrString, json!(4_294_967_296_i64)),
    ];
    for (shape, mut given) in cases {
        let before = given.clone();
        assert_eq!(decode(&shape, &mut given).errors.len(), 1, "{before}");
        assert_eq!(given, before, "a refused value stays as it is");
    }
}

#[test]
fn schemas_of_custom_resources_keep_their_unions() {
    let shape = Shape::Named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let schema = json!({
        "additionalProperties": false,
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "dependencies": {"a": ["b"], "c": {"type": "string"}},
        "enum": [1, null, "x"],
        "default": {"any": ["thing"]},
    });
    assert_eq!(round_trip(&shape, schema.clone()), schema);
}

#[test]
fn the_table_knows_what_the_reference_says_of_well_known_fields() {
    let field = |of: &str, name: &str| format!("{:?}", named(of).unwrap().fields[name]);
    let ports = field("io.k8s.api.core.v1.ServiceSpec", "ports");
    assert!(ports.contains(r#"Map(["port", "protocol"])"#) && ports.contains(r#"merge_key: Some("port")"#), "{ports}");
    let protocol = field("io.k8s.api.core.v1.ServicePort", "protocol");
    assert!(protocol.contains(r#"default: Some(String("TCP"))"#) && protocol.contains("number: 2"), "{protocol}");
    let selector = field("io.k8s.api.core.v1.ServiceSpec", "selector");
    assert!(selector.contains("Map(String, Atomic)"), "{selector}");
    let volumes = field("io.k8s.api.core.v1.PodSpec", "volumes");
    assert!(volumes.contains("merge: true, retain_keys: true"), "{volumes}");
    assert!(named("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").unwrap().atomic);
    assert_eq!(named("io.k8s.api.core.v1.Service").unwrap(), super::of_kind("", "v1", "Service").unwrap());
    assert!(super::kinds().count() > 50);
}

#[test]
fn every_struct_that_a_field_refers_to_is_in_the_table() {
    fn check(shape: &Shape) {
        match shape {
            Shape::Named(name) => assert!(named(name).is_some(), "{name}"),
            Shape::List(item, _) | Shape::Map(item, _) => check(item),
            Shape::Or(first, second) => {
                check(first);
                check(second);
            }
            _ => {}
        }
    }
    for (_, _, _, name) in super::kinds() {
        named(name).unwrap().fields.values().for_each(|field| check(&field.shape));
    }
}

#[test]
fn json_with_fields_standing_twice_is_read_and_they_are_named() {
    let (value, twice) = parse_json(br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": {"d": null}, "a": 3}"#).unwrap();
    assert_eq!(value, json!({"a": 3, "b": [{"c": 2}]}));
    assert_eq!(twice, ["b[0].c", "a"]);
}

#[test]
fn json_mistakes_are_told_with_their_place() {
    let error = parse_json(b"{\n  \"a\": 1,\n  b\n}").unwrap_err();
    assert_eq!(error.to_string(), "key must be a string at line 3, column 3 (offset 14)");
    let deep = [vec![b'['; 101], vec![b']'; 101]].concat();
    assert_eq!(parse_json(&deep).unwrap_err().message, "nested deeper than 100 levels");
    assert!(parse_json(&deep[1..201]).is_ok());
    assert!(parse_json(&[b'['; 100_000]).is_err());
    for body in ["", "{", "{}x", "nul", "[1,]", "\"\\x\""] {
        assert!(parse_json(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    let cases = [
        ("a: yes\nb: off\nc: 'yes'\nd: TRUE", json!({"a": true, "b": false, "c": "yes", "d": true})),
        ("a: 010\nb: 0x1f\nc: 1e3\nd: 3.0\ne: 1.5", json!({"a": 8, "b": 31, "c": 1000, "d": 3, "e": 1.5})),
        ("a: ~\nb: null\nc:", json!({"a": null, "b": null, "c": null})),
        ("a: 2001-01-01\nb: 12:30:45\nc: fd00::1", json!({"a": "2001-01-01", "b": "12:30:45", "c": "fd00::1"})),
        ("1: a\ntrue: b", json!({"1": "a", "true": "b"})),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2", json!({"a": {"b": 1}, "c": {"b": 1, "d": 2}})),
        ("{\"a\": [1, {\"b\": null}]}", json!({"a": [1, {"b": null}]})),
        ("", json!(null)),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_yaml(text.as_bytes()), Ok((expected, vec![])), "{text}");
    }
    let (value, twice) = parse_yaml(b"a: 1\nb:\n- c: 1\n  c: 2\na: 3").unwrap();
    let told =
        ["line 4: key \"c\" already set in map", "line 5: key \"a\" already set in map"].map(str::to_owned).to_vec();
    assert_eq!((value, twice), (json!({"a": 3, "b": [{"c": 2}]}), told));
    let error = parse_yaml(b"a: 1\nb: [").unwrap_err();
    assert_eq!(error.line, 2, "{error}");
}

#[test]
fn yaml_that_explodes_is_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let previous = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{previous}]\n");
    }
    assert!(parse_yaml(text.as_bytes()).is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        Just(json!("2024-02-29T12:34:56Z")),
        "[0-9]{1,4}([.][0-9]{1,3})?(m|k|Mi|Gi|e3)?".prop_map(Value::from),
    ];
    let names = prop_oneof![
        "spec",
        "metadata",
        "status",
        "ports",
        "port",
        "containers",
        "resources",
        "limits",
        "data",
        "[a-z]{1,3}"
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn decoding_twice_changes_nothing_more(mut given in value()) {
        for shape in [&SERVICE, &POD, &Shape::Named("io.k8s.api.core.v1.ConfigMap")] {
            if decode(shape, &mut given).errors.is_empty() {
                let once = given.clone();
                let again = decode(shape, &mut given);
                prop_assert_eq!(&again.unknown, &Vec::<String>::new());
                prop_assert_eq!(&given, &once);
            }
        }
    }

    #[test]
    fn a_quantity_is_read_or_refused_and_its_canonical_form_stays(text in "[-+]?[0-9]{0,25}([.][0-9]{0,15})?[a-zA-Z]{0,2}[-+]?[0-9]{0,3}") {
        let mut value = Value::from(text);
        if decode(&Shape::Quantity, &mut value).errors.is_empty() {
            let once = value.clone();
            prop_assert!(decode(&Shape::Quantity, &mut value).errors.is_empty());
            prop_assert_eq!(value, once);
        }
    }

    #[test]
    fn times_and_durations_are_read_or_refused_without_panic(text in "[-+0-9TZtz:., hmsµn]{0,40}") {
        for shape in [Shape::Time, Shape::MicroTime, Shape::Duration, Shape::Bytes] {
            decode(&shape, &mut Value::from(text.clone()));
        }
    }

    #[test]
    fn json_is_read_as_serde_json_reads_it(given in value()) {
        prop_assert_eq!(parse_json(given.to_string().as_bytes()).unwrap().0, serde_json::from_str::<Value>(&given.to_string()).unwrap());
    }

    #[test]
    fn arbitrary_text_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[ -~\n]{0,200}") {
        let _ = (parse_json(&bytes), parse_yaml(&bytes), parse_yaml(text.as_bytes()));
    }
}
