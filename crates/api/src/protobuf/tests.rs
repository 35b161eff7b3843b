//! Bodies written by Go's own encoder (`testdata/protobuf`, JSON of the same object beside), and bodies that nobody should send.

use super::{Error, MAGIC, decode, encode};
use crate::schema::named;
use proptest::prelude::*;
use serde_json::{Value, json};

macro_rules! vectors {
    ($($name:literal),* $(,)?) => {
        [$((
            $name,
            include_bytes!(concat!("../../testdata/protobuf/", $name, ".bin")).as_slice(),
            include_str!(concat!("../../testdata/protobuf/", $name, ".json")),
        )),*]
    };
}

fn all() -> Vec<(&'static str, &'static [u8], Value)> {
    let vectors = vectors![
        "controllerrevision",
        "customresourcedefinition",
        "deleteoptions",
        "deployment",
        "endpointslice",
        "event",
        "eviction",
        "lease",
        "pod",
        "secret",
        "selfsubjectaccessreview",
        "service",
        "subjectaccessreview",
        "tokenrequest",
    ];
    vectors.into_iter().map(|(name, bytes, json)| (name, bytes, serde_json::from_str(json).unwrap())).collect()
}

#[test]
fn bodies_written_by_go_decode_to_the_json_that_go_writes() {
    for (name, bytes, json) in all() {
        assert_eq!(decode(bytes, None).unwrap(), json, "{name}");
    }
}

#[test]
fn encoding_gives_the_bytes_that_go_writes() {
    for (name, bytes, json) in all() {
        assert_eq!(encode(&json).unwrap(), bytes, "{name}");
    }
}

#[test]
fn a_body_cut_off_anywhere_is_an_error_or_a_shorter_object_but_never_a_panic() {
    for (_, bytes, _) in all() {
        for end in 0..bytes.len() {
            let _ = decode(&bytes[..end], None);
        }
    }
}

#[test]
fn what_is_no_protobuf_is_told_so() {
    for body in [b"".as_slice(), b"{}", b"k8s", b"k8t\0"] {
        assert_eq!(decode(body, None), Err(Error::NotProtobuf));
    }
}

#[test]
fn an_unknown_kind_is_named() {
    let mut body = MAGIC.to_vec();
    body.extend(b"\x0a\x0f\x0a\x06foo/v1\x12\x05Thing");
    let error = decode(&body, None).unwrap_err();
    assert_eq!(error.to_string(), r#"no kind "Thing" in version "foo/v1" is known in protobuf form"#);
}

#[test]
fn an_envelope_without_kind_takes_the_expected_type() {
    let mut body = MAGIC.to_vec();
    body.extend(b"\x12\x02\x08\x1e"); // raw { gracePeriodSeconds = 30 }
    let options = named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    assert_eq!(decode(&body, options), Ok(json!({"gracePeriodSeconds": 30})));
    assert!(matches!(decode(&body, None), Err(Error::UnknownKind { .. })));
}

#[test]
fn a_mistake_inside_names_the_field() {
    let mut body = MAGIC.to_vec();
    // v1 Service whose spec.ports[].port (2.1.3) is text.
    body.extend(b"\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x07\x12\x05\x0a\x03\x1a\x01x");
    assert_eq!(decode(&body, None).unwrap_err().to_string(), "spec.ports.port: expected a varint");
}

#[test]
fn packed_and_single_numbers_make_the_same_list() {
    // v1 Pod, spec.securityContext.supplementalGroups (2.14.4) as 1, 2: once packed, once one by one.
    for groups in [b"\x22\x02\x01\x02".as_slice(), b"\x20\x01\x20\x02"] {
        let context = [&[0x72, 4], groups].concat();
        let spec = [&[0x12, context.len() as u8], context.as_slice()].concat();
        let raw = [&[0x12, spec.len() as u8], spec.as_slice()].concat();
        let body = [MAGIC.as_slice(), b"\x0a\x09\x0a\x02v1\x12\x03Pod", &raw].concat();
        let pod = decode(&body, None).unwrap();
        assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([1, 2]));
    }
}

#[test]
fn a_message_nested_too_deep_is_refused() {
    // JSONSchemaProps.not (28) inside itself.
    let mut schema = Vec::new();
    for _ in 0..200 {
        let mut outer = vec![0xe2, 0x01];
        super::wire::put_varint(&mut outer, schema.len() as u64);
        outer.extend(&schema);
        schema = outer;
    }
    let structure = named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let mut body = MAGIC.to_vec();
    super::wire::put_bytes(&mut body, 2, &schema);
    let error = decode(&body, structure).unwrap_err().to_string();
    assert!(error.ends_with("nested too deep"), "{error}");
}

#[test]
fn what_nests_deeper_than_json_may_is_refused_though_its_messages_do_not() {
    let nested = |levels: usize| {
        let schema = (0..levels).fold(json!({"type": "object"}), |inside, _| json!({"properties": {"x": inside}}));
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": [version]}})
    };
    let read = |levels: usize| decode(&encode(&nested(levels)).unwrap(), None);
    assert!(read(40).is_ok());
    assert_eq!(read(62).unwrap_err().to_string(), "nested too deep");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes, None);
        let _ = decode(&[MAGIC.as_slice(), &bytes].concat(), None);
    }

    #[test]
    fn a_body_with_changed_bytes_never_panics_and_what_it_decodes_to_is_stable(
        which in 0..14_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (_, bytes, _) = all().swap_remove(which);
        let mut bytes = bytes.to_vec();
        for (offset, value) in changes {
            let offset = offset.index(bytes.len());
            bytes[offset] = value;
        }
        if let Ok(value) = decode(&bytes, None) && let Ok(again) = encode(&value) {
            prop_assert_eq!(decode(&again, None), Ok(value));
        }
    }
}
