//! The protobuf of both versions, read back with the numbers of gnostic's `OpenAPIv2.proto` and `OpenAPIv3.proto`: nothing is lost on the way.

use super::{
    super::{gnostic, gnostic_v3},
    *,
};
use serde_json::Map;

/// How a field is read. An empty name means that the message is this value.
#[derive(Clone, Copy)]
enum Read {
    Text,
    Texts,
    Flag,
    Whole,
    Double,
    /// JSON in a text.
    Json,
    One(&'static str),
    Many(&'static str),
    /// The fields of the inner message belong to the outer one.
    Inline(&'static str),
    /// `{ name = 1, value = 2 }`, a field of the outer one each.
    Entries(&'static str),
}

/// The fields of a message by their numbers.
type Table = fn(&str, u64) -> Option<(&'static str, Read)>;

fn version_2_fields(message: &str, number: u64) -> Option<(&'static str, Read)> {
    use Read::{Double, Entries, Flag, Inline, Json, Many, One, Text, Texts, Whole};
    Some(match (message, number) {
        ("Document", 1) => ("swagger", Text),
        ("Document", 2) => ("info", One("Info")),
        ("Document", 8) => ("paths", One("Paths")),
        ("Document", 9) => ("definitions", One("Schemas")),
        ("Info", 1) => ("title", Text),
        ("Info", 2) => ("version", Text),
        ("Paths", 2) => ("", Entries("PathItem")),
        ("Schemas", 1) => ("", Entries("Schema")),
        ("PathItem", 2) => ("get", One("Operation")),
        ("PathItem", 3) => ("put", One("Operation")),
        ("PathItem", 4) => ("post", One("Operation")),
        ("PathItem", 5) => ("delete", One("Operation")),
        ("PathItem", 8) => ("patch", One("Operation")),
        ("Operation", 1) => ("tags", Texts),
        ("Operation", 3) => ("description", Text),
        ("Operation", 5) => ("operationId", Text),
        ("Operation", 6) => ("produces", Texts),
        ("Operation", 7) => ("consumes", Texts),
        ("Operation", 8) => ("parameters", Many("ParametersItem")),
        ("Operation", 9) => ("responses", One("Responses")),
        ("Operation", 10) => ("schemes", Texts),
        ("Operation", 13) | ("Schema", 31) => ("", Entries("Any")),
        ("Any", 2) => ("", Json),
        ("Responses", 1) => ("", Entries("ResponseValue")),
        ("ResponseValue", 1) => ("", Inline("Response")),
        ("Response", 1) => ("description", Text),
        ("Response", 2) => ("schema", One("SchemaItem")),
        ("SchemaItem" | "ItemsItem" | "AdditionalPropertiesItem", 1) => ("", Inline("Schema")),
        ("AdditionalPropertiesItem", 2) => ("", Flag),
        ("ParametersItem", 1) => ("", Inline("Parameter")),
        ("Parameter", 1) => ("", Inline("Body")),
        ("Parameter", 2) => ("", Inline("NotBody")),
        ("NotBody", 3) => ("", Inline("Query")),
        ("NotBody", 4) => ("", Inline("Path")),
        ("Body", 2) | ("Query" | "Path", 4) => ("name", Text),
        ("Body", 3) | ("Query" | "Path", 2) => ("in", Text),
        ("Body", 4) | ("Query" | "Path", 1) => ("required", Flag),
        ("Body", 5) => ("schema", One("Schema")),
        ("Query" | "Path", 3) => ("description", Text),
        ("Query", 6) | ("Path", 5) => ("type", Text),
        ("Query", 20) | ("Path", 19) => ("uniqueItems", Flag),
        ("Schema", 1) => ("$ref", Text),
        ("Schema", 2) => ("format", Text),
        ("Schema", 4) => ("description", Text),
        ("Schema", 7) => ("maximum", Double),
        ("Schema", 8) => ("exclusiveMaximum", Flag),
        ("Schema", 9) => ("minimum", Double),
        ("Schema", 11) => ("maxLength", Whole),
        ("Schema", 13) => ("pattern", Text),
        ("Schema", 14) => ("maxItems", Whole),
        ("Schema", 19) => ("required", Texts),
        ("Schema", 20) => ("enum", Many("Any")),
        ("Schema", 21) => ("additionalProperties", One("AdditionalPropertiesItem")),
        ("Schema", 22) => ("type", One("TypeItem")),
        ("TypeItem", 1) => ("", Text),
        ("Schema", 23) => ("items", One("ItemsItem")),
        ("Schema", 25) => ("properties", One("Schemas")),
        _ => return None,
    })
}

fn version_3_fields(message: &str, number: u64) -> Option<(&'static str, Read)> {
    use Read::{Double, Entries, Flag, Inline, Json, Many, One, Text, Texts, Whole};
    Some(match (message, number) {
        ("Document", 1) => ("openapi", Text),
        ("Document", 2) => ("info", One("Info")),
        ("Document", 4) => ("paths", One("Paths")),
        ("Document", 5) => ("components", One("Components")),
        ("Info", 1) => ("title", Text),
        ("Info", 6) => ("version", Text),
        ("Paths", 1) => ("", Entries("PathItem")),
        ("Components", 1) => ("schemas", One("Schemas")),
        ("Components", 7) => ("securitySchemes", One("SecuritySchemes")),
        ("SecuritySchemes", 1) => ("", Entries("SecuritySchemeOrReference")),
        ("SecuritySchemeOrReference", 1) => ("", Inline("SecurityScheme")),
        ("SecurityScheme", 1) => ("type", Text),
        ("SecurityScheme", 2) => ("description", Text),
        ("SecurityScheme", 3) => ("name", Text),
        ("SecurityScheme", 4) => ("in", Text),
        ("Schemas" | "Properties", 1) => ("", Entries("SchemaOrReference")),
        ("SchemaOrReference", 1) => ("", Inline("Schema")),
        ("SchemaOrReference", 2) => ("", Inline("Reference")),
        ("Reference", 1) => ("$ref", Text),
        ("PathItem", 4) => ("get", One("Operation")),
        ("PathItem", 5) => ("put", One("Operation")),
        ("PathItem", 6) => ("post", One("Operation")),
        ("PathItem", 7) => ("delete", One("Operation")),
        ("PathItem", 8) => ("options", One("Operation")),
        ("PathItem", 9) => ("head", One("Operation")),
        ("PathItem", 10) => ("patch", One("Operation")),
        ("PathItem", 13) | ("Operation", 6) => ("parameters", Many("ParameterOrReference")),
        ("Operation", 1) => ("tags", Texts),
        ("Operation", 3) => ("description", Text),
        ("Operation", 5) => ("operationId", Text),
        ("Operation", 7) => ("requestBody", One("RequestBodyOrReference")),
        ("Operation", 8) => ("responses", One("Responses")),
        ("Operation", 13) | ("Schema", 36) => ("", Entries("Any")),
        ("Any", 2) => ("", Json),
        ("ParameterOrReference", 1) => ("", Inline("Parameter")),
        ("Parameter", 1) => ("name", Text),
        ("Parameter", 2) => ("in", Text),
        ("Parameter", 3) => ("description", Text),
        ("Parameter", 4) | ("RequestBody", 3) => ("required", Flag),
        ("Parameter", 10) | ("MediaType", 1) => ("schema", One("SchemaOrReference")),
        ("RequestBodyOrReference", 1) => ("", Inline("RequestBody")),
        ("RequestBody", 2) | ("Response", 3) => ("content", One("MediaTypes")),
        ("MediaTypes", 1) => ("", Entries("MediaType")),
        ("Responses", 2) => ("", Entries("ResponseOrReference")),
        ("ResponseOrReference", 1) => ("", Inline("Response")),
        ("Response", 1) => ("description", Text),
        ("Schema", 1) => ("nullable", Flag),
        ("Schema", 9) => ("title", Text),
        ("Schema", 11) => ("maximum", Double),
        ("Schema", 12) => ("exclusiveMaximum", Flag),
        ("Schema", 13) => ("minimum", Double),
        ("Schema", 14) => ("exclusiveMinimum", Flag),
        ("Schema", 15) => ("maxLength", Whole),
        ("Schema", 16) => ("minLength", Whole),
        ("Schema", 17) => ("pattern", Text),
        ("Schema", 18) => ("maxItems", Whole),
        ("Schema", 19) => ("minItems", Whole),
        ("Schema", 20) => ("uniqueItems", Flag),
        ("Schema", 21) => ("maxProperties", Whole),
        ("Schema", 22) => ("minProperties", Whole),
        ("Schema", 23) => ("required", Texts),
        ("Schema", 24) => ("enum", Many("Any")),
        ("Schema", 25) => ("type", Text),
        ("Schema", 26) => ("allOf", Many("SchemaOrReference")),
        ("Schema", 27) => ("oneOf", Many("SchemaOrReference")),
        ("Schema", 28) => ("anyOf", Many("SchemaOrReference")),
        ("Schema", 29) => ("not", One("Schema")),
        ("Schema", 30) => ("items", One("ItemsItem")),
        ("ItemsItem" | "AdditionalPropertiesItem", 1) => ("", Inline("SchemaOrReference")),
        ("AdditionalPropertiesItem", 2) => ("", Flag),
        ("Schema", 31) => ("properties", One("Properties")),
        ("Schema", 32) => ("additionalProperties", One("AdditionalPropertiesItem")),
        ("Schema", 33) => ("default", One("DefaultType")),
        ("DefaultType", 1) => ("", Double),
        ("DefaultType", 2) => ("", Flag),
        ("DefaultType", 3) => ("", Text),
        ("Schema", 34) => ("description", Text),
        ("Schema", 35) => ("format", Text),
        _ => return None,
    })
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn message(known: Table, name: &str, bytes: &[u8]) -> Value {
    let mut map = Map::new();
    let whole = fields(known, name, bytes, &mut map);
    whole.unwrap_or(Value::Object(map))
}

/// Reads the fields into `map`; returns what the message is when it is no object.
fn fields(known: Table, name: &str, mut bytes: &[u8], map: &mut Map<String, Value>) -> Option<Value> {
    let mut whole = None;
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let number = if tag & 7 == 0 { varint(&mut bytes) } else { 0 };
        let inner = match tag & 7 {
            0 => &[],
            1 => take(&mut bytes, 8),
            2 => {
                let length = varint(&mut bytes);
                take(&mut bytes, usize::try_from(length).unwrap())
            }
            other => panic!("wire type {other}"),
        };
        let (field, read) = known(name, tag >> 3).unwrap_or_else(|| panic!("{name} has no field {}", tag >> 3));
        let value = match read {
            Read::Text | Read::Texts => text(inner).into(),
            Read::Flag => (number == 1).into(),
            Read::Whole => number.into(),
            Read::Double => f64::from_le_bytes(inner.try_into().unwrap()).into(),
            Read::Json => serde_json::from_slice(inner).unwrap(),
            Read::One(of) | Read::Many(of) => message(known, of, inner),
            Read::Inline(of) => {
                whole = fields(known, of, inner, map).or(whole);
                continue;
            }
            Read::Entries(of) => {
                let mut entry = inner;
                assert_eq!(varint(&mut entry), 0x0a, "the name comes first");
                let length = varint(&mut entry);
                let key = text(take(&mut entry, usize::try_from(length).unwrap()));
                assert_eq!(varint(&mut entry), 0x12, "then the value");
                assert_eq!(varint(&mut entry), entry.len() as u64);
                assert!(map.insert(key, message(known, of, entry)).is_none(), "a name stands twice");
                continue;
            }
        };
        match (field, read) {
            ("", _) => whole = Some(value),
            (field, Read::Texts | Read::Many(_)) => match map.entry(field).or_insert_with(|| json!([])) {
                Value::Array(list) => list.push(value),
                other => panic!("{field} is {other}"),
            },
            (field, _) => assert!(map.insert(field.into(), value).is_none(), "{field} stands twice"),
        }
    }
    whole
}

#[test]
fn everything_but_the_security_settings_comes_back() {
    let document = version_2();
    let back = message(version_2_fields, "Document", &gnostic::encode(document));
    let left_out = ["security", "securityDefinitions"];
    let parts: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    for part in parts.into_iter().filter(|part| !left_out.contains(part)) {
        assert!(back[part] == document[part], "{part}: {}", difference(&back[part], &document[part], part));
    }
}

/// What has no place in the messages: defaults that are lists or objects. Whole numbers come back as such. A property may
/// be called `default` too.
fn representable(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| *key != "default" || !(value.is_object() || value.is_array()))
            .map(|(key, value)| match (key.as_str(), value) {
                ("default" | "minimum" | "maximum", Value::Number(number)) => (key.clone(), json!(number.as_f64())),
                ("properties", Value::Object(fields)) => {
                    let fields = fields.iter().map(|(name, schema)| (name.clone(), representable(schema)));
                    (key.clone(), fields.collect::<Map<_, _>>().into())
                }
                _ => (key.clone(), representable(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(representable).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

#[test]
fn every_document_of_version_3_comes_back() {
    for (key, document) in version_3() {
        let back = message(version_3_fields, "Document", &gnostic_v3::encode(document));
        let wanted = representable(document);
        assert!(back == wanted, "{key}: {}", difference(&back, &wanted, ""));
    }
}

/// The first place where two values differ; the values themselves are too long to read.
fn difference(ours: &Value, theirs: &Value, at: &str) -> String {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys = ours.keys().chain(theirs.keys());
            let different = |key: &&String| ours.get(*key) != theirs.get(*key);
            keys.into_iter().find(different).map_or_else(String::new, |key| {
                difference(
                    ours.get(key).unwrap_or(&Value::Null),
                    theirs.get(key).unwrap_or(&Value::Null),
                    &format!("{at}/{key}"),
                )
            })
        }
        _ => format!("{at}: {ours}, not {theirs}"),
    }
}
