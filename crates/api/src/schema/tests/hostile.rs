//! Bodies that nobody should send: too deep, too big, exploding, with fields twice or a hundred mistakes. Each is refused with
//! a reason or read within bounds.

use super::super::{NESTING_LIMIT, Shape, decode, named, parse_json, parse_yaml};
use crate::protobuf;
use proptest::prelude::*;
use serde_json::{Value, json};

const SERVICE: Shape = Shape::Named("io.k8s.api.core.v1.Service");
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

type Reader = fn(&[u8]) -> Result<(Value, Vec<String>), super::super::TextError>;
const READERS: [(&str, Reader); 2] = [("JSON", parse_json), ("YAML", parse_yaml)];

#[test]
fn what_nests_too_deep_is_refused_in_every_form() {
    for (name, read) in READERS {
        for depth in [NESTING_LIMIT + 1, 1_000, 100_000] {
            let lists = "[".repeat(depth) + &"]".repeat(depth);
            let objects = "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
            for text in [lists, objects] {
                let error = read(text.as_bytes()).unwrap_err();
                assert!(error.message == "nested deeper than 100 levels", "{name} {depth}: {error}");
            }
        }
        let text = "[".repeat(NESTING_LIMIT) + &"]".repeat(NESTING_LIMIT);
        assert!(read(text.as_bytes()).is_ok(), "{name}: {NESTING_LIMIT} levels are allowed");
    }
    let indented: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(parse_yaml(indented.as_bytes()).is_err());
}

#[test]
fn what_was_read_can_be_decoded_and_written_however_deep_it_is() {
    // A schema inside itself as deep as the reader lets it be.
    let mut text = "{}".to_owned();
    for _ in 0..NESTING_LIMIT - 1 {
        text = format!("{{\"not\":{text}}}");
    }
    let (mut value, _) = parse_json(text.as_bytes()).unwrap();
    assert_eq!(decode(&Shape::Named(SCHEMA), &mut value).errors, []);
    assert_eq!(value.to_string(), text);
}

#[test]
fn yaml_that_explodes_is_refused_whatever_it_explodes_with() {
    let bomb = |seed: &str, wrap: fn(&str) -> String| {
        let mut text = format!("a0: &a0 {seed}\n");
        for level in 1..30 {
            text += &format!("a{level}: &a{level} {}\n", wrap(&format!("*a{}", level - 1)));
        }
        text
    };
    let bombs = [
        ("lists", bomb("[x, x]", |alias| format!("[{}]", [alias; 8].join(", ")))),
        ("objects", bomb("{x: y}", |alias| format!("{{b: {alias}, c: {alias}, d: {alias}, e: {alias}}}"))),
        ("merged objects", bomb("{x: y}", |alias| format!("{{<<: [{alias}, {alias}], b: {alias}, c: {alias}}}"))),
        (
            "many times some text",
            format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 12), vec!["*a"; 50_000].join(", ")),
        ),
        ("few times much text", format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90].join(", "))),
    ];
    for (name, text) in bombs {
        let error = parse_yaml(text.as_bytes()).expect_err(name);
        assert!(error.to_string().len() < 500, "{name}: {error}");
    }
    for text in ["a: &a [*a]", "a: &a {b: *a}", "a: *nowhere"] {
        assert!(parse_yaml(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn aliases_within_reason_are_read() {
    let families = "four: &four {family: IPv4}\nsix: &six {family: IPv6}\nboth: [*four, *six]\nagain: [*six, *four]";
    let (value, _) = parse_yaml(families.as_bytes()).unwrap();
    assert_eq!(value["both"], json!([{"family": "IPv4"}, {"family": "IPv6"}]));
    assert_eq!(value["again"], json!([{"family": "IPv6"}, {"family": "IPv4"}]));
}

#[test]
fn numbers_beyond_all_bounds_are_refused_where_a_number_is_meant() {
    let huge = "9".repeat(400);
    for number in ["9223372036854775808", "-9223372036854775809", "1e30", "2147483648", "1.5", &huge, "1e999"] {
        for (name, read) in READERS {
            let text = format!("{{\"spec\": {{\"healthCheckNodePort\": {number}}}}}");
            // A number that no double can hold is refused by the reader, the others by their field.
            if let Ok((mut value, _)) = read(text.as_bytes()) {
                let errors = decode(&SERVICE, &mut value).errors;
                assert_eq!(errors.len(), 1, "{name} {number}");
                assert_eq!(errors[0].path, "spec.healthCheckNodePort", "{name} {number}");
                assert!(errors[0].to_string().len() < 200, "{name}: {}", errors[0]);
            }
        }
    }
    for text in ["a: .inf", "a: -.inf", "a: .nan"] {
        assert!(parse_yaml(text.as_bytes()).is_err(), "{text}");
    }
    for quantity in
        [format!("1e{huge}"), format!("1e-{huge}"), format!("{huge}Ei"), format!("0.{huge}"), "1e2147483647".into()]
    {
        let mut value = Value::from(quantity.as_str());
        decode(&Shape::Quantity, &mut value);
        assert!(value.as_str().is_some_and(|text| text.len() <= 2 * quantity.len()), "{quantity}");
    }
}

#[test]
fn every_duplicate_is_named_once_with_its_path_and_not_more_than_a_hundred() {
    let body = r#"{"spec": {"type": "A", "ports": [{"port": 1}, {"port": 2, "port": 3, "port": 4}], "type": "B"}, "spec": {"type": "C"}}"#;
    for (name, read) in READERS {
        let (value, twice) = read(body.as_bytes()).unwrap();
        assert_eq!(value, json!({"spec": {"type": "C"}}), "{name}: the last one wins");
        let told = match name {
            "JSON" => ["spec.ports[1].port", "spec.type", "spec"].map(str::to_owned),
            _ => ["port", "type", "spec"].map(|key| format!("line 1: key {key:?} already set in map")),
        };
        assert_eq!(twice, told, "{name}");
        let many: Vec<String> = (0..500).flat_map(|number| vec![format!("\"k{number}\": 1"); 2]).collect();
        let (_, twice) = read(format!("{{{}}}", many.join(", ")).as_bytes()).unwrap();
        assert_eq!(twice.len(), 100, "{name}");
    }
}

#[test]
fn every_unknown_field_is_named_with_its_path_and_not_more_than_a_hundred() {
    let mut definition = json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"labels": {"any": "thing"}, "owner": 1, "ownerReferences": [{"x": {"y": 1}}]},
        "spec": {
            "names": {"plural": "a", "alias": []},
            "versions": [{"name": "v1"}, {"name": "v2", "schema": {"openAPIV3Schema": {
                "properties": {"spec": {"typo": 1, "properties": {"port": {"tipo": "string"}}}},
            }}}],
        },
        "extra": null,
    });
    let shape = Shape::Named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition");
    let decoded = decode(&shape, &mut definition);
    assert_eq!(decoded.errors, []);
    assert_eq!(
        decoded.unknown,
        [
            "extra",
            "metadata.owner",
            "metadata.ownerReferences[0].x",
            "spec.names.alias",
            "spec.versions[1].schema.openAPIV3Schema.properties.spec.properties.port.tipo",
            "spec.versions[1].schema.openAPIV3Schema.properties.spec.typo",
        ]
    );
    let again = decode(&shape, &mut definition);
    assert!(again.unknown.is_empty(), "what was named is gone");

    let many: serde_json::Map<String, Value> = (0..500).map(|number| (format!("k{number}"), json!(1))).collect();
    let mut value = Value::from(many);
    assert_eq!(decode(&SERVICE, &mut value).unknown.len(), 100);
    assert!(value.as_object().is_some_and(|map| map.keys().all(|key| !key.starts_with('k'))), "all are dropped");
}

#[test]
fn a_thousand_mistakes_are_all_found_and_each_is_short() {
    let port = json!({"port": "x".repeat(1_000)});
    let mut value = json!({"spec": {"ports": vec![port; 1_000]}});
    let errors = decode(&SERVICE, &mut value).errors;
    assert_eq!(errors.len(), 1_000);
    assert!(errors.iter().all(|error| error.to_string().len() < 200));
}

#[test]
fn a_protobuf_length_that_lies_allocates_nothing() {
    // v1 Service whose message claims 2^62 bytes, then 2^32.
    for length in [b"\xff\xff\xff\xff\xff\xff\xff\xff\x3f".as_slice(), b"\x80\x80\x80\x80\x10"] {
        let body = [b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12".as_slice(), length, b"x"].concat();
        assert_eq!(protobuf::decode(&body, None).unwrap_err().to_string(), "ends before its length");
    }
}

proptest! {
    #[test]
    fn whatever_was_read_decodes_as_every_kind_without_panic(text in r#"[\[\]{}:,"a-c0-9eE.+\-\n &*<|>~]{0,120}"#) {
        for (_, read) in READERS {
            if let Ok((value, _)) = read(text.as_bytes()) {
                for (_, _, _, name) in super::super::kinds() {
                    decode(&Shape::Named(&named(name).unwrap().name), &mut value.clone());
                }
            }
        }
    }

    #[test]
    fn bytes_of_every_kind_of_message_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut body = protobuf::MAGIC.to_vec();
        protobuf::put_bytes(&mut body, 2, &bytes);
        for (_, _, _, name) in super::super::kinds() {
            let _ = protobuf::decode(&body, named(name));
        }
    }
}
