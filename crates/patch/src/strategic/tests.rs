//! Strategic merge patch on built-in kinds: directives, order, mistakes, and laws on arbitrary patches.

use super::*;
use crate::json::tests::document;
use proptest::prelude::*;
use serde_json::json;

const POD: Shape = Shape::Named("io.k8s.api.core.v1.Pod");
const SERVICE: Shape = Shape::Named("io.k8s.api.core.v1.Service");

/// A pod whose spec is patched.
fn spec(live: Value, patch: Value) -> Result<Value, ApiError> {
    Ok(apply(&POD, json!({ "spec": live }), json!({ "spec": patch }))?["spec"].take())
}

#[test]
fn lists_merge_by_key_and_directives_are_obeyed() {
    let containers = |names: &str| -> Value { names.chars().map(|c| json!({"name": c.to_string()})).collect() };
    for (what, live, patch, expected) in [
        (
            "an item merges with its namesake",
            json!({"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b"}]}),
            json!({"containers": [{"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "2", "tty": true}, {"name": "b"}]}),
        ),
        (
            "new items come first unless the live order says otherwise",
            json!({"containers": containers("ab")}),
            json!({"containers": containers("cb")}),
            json!({"containers": containers("cab")}),
        ),
        (
            "an item is deleted",
            json!({"containers": containers("abc")}),
            json!({"containers": [{"name": "b", "$patch": "delete"}, {"name": "d"}]}),
            json!({"containers": containers("dac")}),
        ),
        (
            "a list is replaced by the items beside the directive",
            json!({"containers": containers("ab")}),
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}]}),
            json!({"containers": containers("c")}),
        ),
        (
            "an order is set",
            json!({"containers": containers("abc")}),
            json!({"$setElementOrder/containers": containers("cb")}),
            json!({"containers": containers("acb")}),
        ),
        (
            "an order is set while an item is added",
            json!({"containers": containers("ab")}),
            json!({"$setElementOrder/containers": containers("bca"), "containers": containers("c")}),
            json!({"containers": containers("bca")}),
        ),
        (
            "an item takes the place of a deleted one",
            json!({"containers": containers("ab")}),
            json!({"$setElementOrder/containers": containers("c"), "containers": [{"name": "b", "$patch": "delete"}, {"name": "c"}]}),
            json!({"containers": containers("ac")}),
        ),
        (
            "keys are retained",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
        ),
        (
            "an atomic list is replaced",
            json!({"tolerations": [{"key": "a"}], "containers": [{"name": "a", "args": ["p"]}]}),
            json!({"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["q"]}]}),
            json!({"tolerations": [{"key": "b"}], "containers": [{"name": "a", "args": ["q"]}]}),
        ),
        (
            "a map merges, and null takes a key away",
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"nodeSelector": {"a": null, "c": "3"}}),
            json!({"nodeSelector": {"b": "2", "c": "3"}}),
        ),
        (
            "a map is replaced",
            json!({"nodeSelector": {"a": "1"}}),
            json!({"nodeSelector": {"$patch": "replace", "c": "3"}}),
            json!({"nodeSelector": {"c": "3"}}),
        ),
        (
            "an object is emptied",
            json!({"securityContext": {"runAsUser": 1}}),
            json!({"securityContext": {"$patch": "delete"}}),
            json!({"securityContext": {}}),
        ),
        (
            "what is new carries neither nulls nor directives",
            json!({}),
            json!({"nodeSelector": {"a": null, "b": "1"}, "containers": [{"name": "x", "$patch": "delete"}], "affinity": {"$patch": "replace"}}),
            json!({"nodeSelector": {"b": "1"}, "containers": []}),
        ),
        (
            "an absent list is ordered by the patch",
            json!({}),
            json!({"$setElementOrder/containers": containers("ab"), "containers": containers("ab")}),
            json!({"containers": containers("ab")}),
        ),
    ] {
        assert_eq!(spec(live, patch), Ok(expected), "{what}");
    }
}

#[test]
fn scalars_merge_as_a_set_and_are_deleted_by_name() {
    let finalizers = |live: Value, patch: Value| {
        let patched = apply(&POD, json!({"metadata": {"finalizers": live}}), json!({ "metadata": patch })).unwrap();
        patched["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers(json!(["a", "b"]), json!({"finalizers": ["c", "b"]})), json!(["c", "a", "b"]));
    assert_eq!(finalizers(json!(["a", "b"]), json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]})), json!(["b"]));
    let order = json!({"$setElementOrder/finalizers": ["b", "a"], "$deleteFromPrimitiveList/finalizers": ["c"]});
    assert_eq!(finalizers(json!(["a", "b", "c"]), order), json!(["b", "a"]));
}

#[test]
fn addresses_of_every_family_merge_by_address_or_are_replaced() {
    for (primary, secondary) in
        [("10.0.0.1", None), ("fd00::1", None), ("10.0.0.1", Some("fd00::1")), ("fd00::1", Some("10.0.0.1"))]
    {
        let all: Vec<&str> = [primary].into_iter().chain(secondary).collect();
        let ips = |list: &[&str]| -> Value { list.iter().map(|ip| json!({ "ip": ip })).collect() };
        let live = json!({"status": {"podIPs": ips(&all)}});
        let patched = apply(&POD, live.clone(), json!({"status": {"podIPs": ips(&[primary])}})).unwrap();
        assert_eq!(patched, live, "merging what is there changes nothing");
        let gone = json!({"status": {"podIPs": [{"ip": primary, "$patch": "delete"}]}});
        let rest: Vec<&str> = secondary.into_iter().collect();
        assert_eq!(apply(&POD, live, gone).unwrap()["status"]["podIPs"], ips(&rest));
        let service = json!({"spec": {"clusterIPs": all}});
        let patched = apply(&SERVICE, service, json!({"spec": {"clusterIPs": [primary]}})).unwrap();
        assert_eq!(patched["spec"]["clusterIPs"], json!([primary]));
    }
}

#[test]
fn mistakes_are_bad_requests() {
    let live = json!({"containers": [{"name": "a"}], "nodeSelector": {"a": "1"}, "restartPolicy": "Always"});
    for (patch, part) in [
        (json!({"$patch": "bogus"}), "replace or delete"),
        (json!({"$patch": "merge"}), "replace or delete"),
        (json!({"containers": [{"image": "nameless"}]}), "\"name\""),
        (json!({"containers": [{"$patch": "delete"}]}), "\"name\""),
        (json!({"containers": [{"name": "a", "$patch": "merge"}]}), "replace or delete"),
        (json!({"containers": ["a"]}), "one type"),
        (json!({"containers": [null]}), "one type"),
        (json!({"$retainKeys": "containers"}), "$retainKeys"),
        (json!({"$retainKeys": ["containers"], "hostname": "h"}), "$retainKeys"),
        (json!({"$deleteFromPrimitiveList": ["a"]}), "$deleteFromPrimitiveList/"),
        (json!({"$setElementOrder": ["a"]}), "$setElementOrder/"),
        (json!({"$setElementOrder/containers": "a"}), "$setElementOrder/containers"),
        (json!({"$setElementOrder/restartPolicy": ["a"]}), "must be a list"),
        (json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}), "same order"),
    ] {
        let error = spec(live.clone(), patch.clone()).unwrap_err();
        assert_eq!((error.code, error.reason), (400, "BadRequest"), "{patch}");
        assert!(error.message.contains(part), "{patch}: {}", error.message);
    }
    for patch in [json!([1]), json!("nonsense"), json!(null)] {
        assert_eq!(apply(&POD, json!({}), patch).unwrap_err().code, 400);
    }
}

/// Arbitrary patches and live objects of a pod's spec: few names, so that they meet.
fn pod_spec(directives: bool) -> impl Strategy<Value = Value> {
    let env = prop::collection::vec(("[XYZ]", 0..3u8), 0..3).prop_map(|list| {
        list.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>()
    });
    let container = ("[a-d]", env, 0..9u8, prop::option::of("[a-c]")).prop_map(move |(name, env, dice, image)| {
        let mut container = json!({"name": name});
        if let Some(image) = image {
            container["image"] = json!(image);
        }
        if dice < 5 {
            container["env"] = env;
        }
        if directives && dice == 7 {
            container["$patch"] = json!("delete");
        }
        container
    });
    let containers = prop::collection::vec(container, 0..4);
    (containers, prop::option::of(prop::collection::btree_map("[a-c]", "[x-z]", 0..3)), 0..9u8, "[a-d]{0,4}").prop_map(
        move |(containers, selector, dice, order)| {
            let mut spec = json!({"containers": containers});
            if let Some(selector) = selector {
                spec["nodeSelector"] = json!(selector);
            }
            if directives && dice == 0 {
                spec["containers"].as_array_mut().unwrap().push(json!({"$patch": "replace"}));
            }
            if directives && dice == 1 {
                spec["$setElementOrder/containers"] = order.chars().map(|c| json!({"name": c.to_string()})).collect();
            }
            spec
        },
    )
}

proptest! {
    #[test]
    fn the_empty_patch_changes_nothing(live in pod_spec(false)) {
        prop_assert_eq!(spec(live.clone(), json!({})).unwrap(), live);
    }

    #[test]
    fn a_patch_of_the_whole_replaces_it(live in pod_spec(false), new in pod_spec(false)) {
        let mut patch = new.clone();
        patch["$patch"] = json!("replace");
        prop_assert_eq!(spec(live, patch).unwrap(), new);
    }

    #[test]
    fn nothing_that_the_patch_sets_is_missing_and_nothing_else_is_lost(live in pod_spec(false), patch in pod_spec(false)) {
        let patched = spec(live.clone(), patch.clone()).unwrap();
        let names = |spec: &Value| -> BTreeSet<String> {
            spec["containers"].as_array().unwrap().iter().map(|item| item["name"].to_string()).collect()
        };
        prop_assert_eq!(names(&patched), names(&live).union(&names(&patch)).cloned().collect::<BTreeSet<_>>());
    }

    #[test]
    fn no_patch_makes_it_panic(live in pod_spec(false), patch in pod_spec(true), wild in document()) {
        let _ = spec(live.clone(), patch);
        let _ = apply(&POD, live, wild.clone());
        let _ = spec(json!({"containers": [wild.clone()]}), json!({"containers": [wild.clone()], "$setElementOrder/containers": [wild]}));
    }
}
