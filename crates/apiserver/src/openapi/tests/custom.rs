//! The type of a custom resource in both versions.

use super::*;

fn gateway(dialect: Dialect) -> Value {
    let types = match dialect {
        Dialect::V2 => version_2()["definitions"].clone(),
        Dialect::V3 => {
            let (_, document) = version_3().iter().find(|(key, _)| key == "apis/example.com/v1").unwrap();
            document["components"]["schemas"].clone()
        }
    };
    types["com.example.v1.Gateway"].clone()
}

#[test]
fn version_3_says_what_the_author_wrote() {
    let shown = gateway(Dialect::V3);
    assert_eq!(shown["properties"]["spec"], gateway_schema()["properties"]["spec"]);
    assert_eq!(shown["required"], json!(["spec"]));
    assert_eq!(shown["description"], "Lets traffic of either family in.");
    assert_eq!(
        shown["properties"]["metadata"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
}

#[test]
fn version_2_leaves_out_what_it_cannot_say_so_that_nothing_valid_is_refused() {
    assert_eq!(
        gateway(Dialect::V2)["properties"]["spec"]["properties"],
        json!({
            "addresses": {
                "type": "array", "maxItems": 2, "x-kubernetes-list-type": "set",
                "items": {"type": "string", "maxLength": 45},
            },
            "family": {"type": "string", "enum": ["IPv4", "IPv6"]},
            "port": {"x-kubernetes-int-or-string": true},
            "weight": {"type": "number", "minimum": 0.5, "maximum": 99.5, "exclusiveMaximum": true},
            "note": {"pattern": "^[a-z]*$"},
            "options": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        })
    );
}

#[test]
fn a_custom_kind_without_schema_may_hold_anything() {
    let resources: Vec<_> = vec![custom("Gateway")];
    let document = v2::document(&resources, &Schemas::new());
    let shown = &document["definitions"]["com.example.v1.Gateway"];
    let kind = json!([{"group": "example.com", "version": "v1", "kind": "Gateway"}]);
    assert_eq!(*shown, json!({"type": "object", "x-kubernetes-group-version-kind": kind}), "as upstream has it");
}

#[test]
fn a_schema_that_is_no_schema_is_taken_for_none() {
    for odd in [json!(null), json!([]), json!("x"), json!({"properties": 7, "items": [1], "additionalProperties": "x"})]
    {
        let schemas: Schemas = [(key("Gateway"), Packed::new(&odd))].into();
        let resources = vec![custom("Gateway")];
        let document = v2::document(&resources, &schemas);
        assert_eq!(document["definitions"]["com.example.v1.Gateway"]["type"], "object", "{odd}");
        super::super::gnostic::encode(&document);
    }
}
