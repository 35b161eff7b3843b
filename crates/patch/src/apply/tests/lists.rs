//! Lists and maps that managers share: by key, by value, or not at all.

use super::*;

#[test]
fn an_item_is_told_by_its_keys_even_those_left_out() {
    let mut service = Object::new(SERVICE, "Service");
    service.apply("m1", Force::No, json!({"spec": {"ports": [{"port": 53, "name": "a"}]}})).unwrap();
    service.apply("m2", Force::No, json!({"spec": {"ports": [{"port": 53, "protocol": "UDP", "name": "b"}]}})).unwrap();
    let (tcp, udp) = (".spec.ports[port=53,protocol=\"TCP\"]", ".spec.ports[port=53,protocol=\"UDP\"]");
    assert_eq!(
        service.owners(),
        [
            format!("m1 Apply 01: {tcp} {tcp}.name {tcp}.port"),
            format!("m2 Apply 02: {udp} {udp}.name {udp}.port {udp}.protocol")
        ]
    );

    let error =
        service.apply("m2", Force::No, json!({"spec": {"ports": [{"port": 53, "protocol": "TCP", "name": "b"}]}}));
    let error = error.unwrap_err();
    assert_eq!(error.message, format!("Apply failed with 1 conflict: conflict with \"m1\": {tcp}.name"));

    service.apply("m1", Force::No, json!({})).unwrap();
    assert_eq!(service.at("spec.ports"), &json!([{"port": 53, "protocol": "UDP", "name": "b", "targetPort": 0}]));
    assert_eq!(service.owners().len(), 1);
}

#[test]
fn addresses_of_both_families_are_keys_of_one_list() {
    for (mine, theirs) in
        [("10.0.0.1", "fd00::1"), ("fd00::1", "10.0.0.1"), ("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")]
    {
        let alias = |ip: &str| json!({"spec": {"hostAliases": [{"ip": ip, "hostnames": ["h"]}]}});
        let ips = |pod: &Object| -> Vec<String> {
            pod.live
                .as_ref()
                .unwrap()
                .list_at("spec.hostAliases")
                .iter()
                .map(|item| item.str_at("ip").to_owned())
                .collect()
        };
        let mut pod = Object::new(POD, "Pod");
        pod.apply("m1", Force::No, alias(mine)).unwrap();
        pod.apply("m2", Force::No, alias(theirs)).unwrap();
        assert_eq!(ips(&pod), [mine, theirs]);
        pod.apply("m1", Force::No, json!({})).unwrap();
        assert_eq!(ips(&pod), [theirs]);
    }
}

#[test]
fn a_set_is_shared_value_by_value() {
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.apply("m1", Force::No, finalizers(&["x.io/a", "x.io/b"])).unwrap();
    map.apply("m2", Force::No, finalizers(&["x.io/c", "x.io/b"])).unwrap();
    assert_eq!(map.at("metadata.finalizers"), &json!(["x.io/a", "x.io/c", "x.io/b"]));
    map.apply("m1", Force::No, finalizers(&["x.io/a"])).unwrap();
    assert_eq!(map.at("metadata.finalizers"), &json!(["x.io/a", "x.io/c", "x.io/b"]), "m2 still wants b");
    map.apply("m2", Force::No, json!({})).unwrap();
    assert_eq!(map.at("metadata.finalizers"), &json!(["x.io/a"]));
    let owners = ["m1 Apply 01: .metadata.finalizers[=\"x.io/a\"]"];
    assert_eq!(map.owners(), owners, "letting go changed nothing in the object, so the time stays");
}

#[test]
fn an_atomic_list_or_map_has_one_value_and_is_owned_as_a_whole() {
    let args = |args: Value| json!({"spec": {"containers": [{"name": "c", "args": args}]}});
    let mut pod = Object::new(POD, "Pod");
    pod.apply("m1", Force::No, args(json!(["a", "b"]))).unwrap();
    let error = pod.apply("m2", Force::No, args(json!(["a"]))).unwrap_err();
    assert_eq!(error.details["causes"][0]["field"], json!(".spec.containers[name=\"c\"].args"));
    pod.apply("m2", Force::Yes, args(json!(["a"]))).unwrap();
    pod.apply("m1", Force::No, json!({"spec": {"containers": [{"name": "c"}]}})).unwrap();
    assert_eq!(pod.at("spec.containers")[0]["args"], json!(["a"]), "it is m2's now");

    let selector = |selector: Value| json!({"spec": {"selector": selector}});
    let mut service = Object::new(SERVICE, "Service");
    service.apply("m1", Force::No, selector(json!({"a": "1"}))).unwrap();
    let error = service.apply("m2", Force::No, selector(json!({"b": "1"}))).unwrap_err();
    assert_eq!(error.details["causes"][0]["field"], json!(".spec.selector"));
    service.apply("m2", Force::No, selector(json!({"a": "1"}))).unwrap();
    service.apply("m1", Force::No, json!({})).unwrap();
    assert_eq!(service.at("spec.selector"), &json!({"a": "1"}), "m2 shares it");
    service.apply("m2", Force::No, json!({})).unwrap();
    assert_eq!(service.at("spec.selector"), &Value::Null);
}

#[test]
fn what_is_not_applied_again_goes_at_every_depth_unless_somebody_shares_it() {
    let env = |names: &str| -> Value { names.chars().map(|c| json!({"name": c.to_string(), "value": "1"})).collect() };
    let names =
        |list: &Value| -> String { list.as_array().into_iter().flatten().map(|item| item.str_at("name")).collect() };
    let mut pod = Object::new(POD, "Pod");
    pod.apply(
        "m1",
        Force::No,
        json!({"spec": {"containers": [{"name": "a", "env": env("xyz"), "tty": true}, {"name": "b"}]}}),
    )
    .unwrap();
    pod.apply("m2", Force::No, json!({"spec": {"containers": [{"name": "a", "env": env("y")}]}})).unwrap();
    pod.apply("m1", Force::No, json!({"spec": {"containers": [{"name": "a", "env": env("x")}]}})).unwrap();
    let containers = pod.at("spec.containers");
    assert_eq!((names(containers), names(&containers[0]["env"])), ("a".to_owned(), "xy".to_owned()));
    assert_eq!(containers[0]["tty"], Value::Null);
    pod.apply("m1", Force::No, json!({})).unwrap();
    assert_eq!(names(&pod.at("spec.containers")[0]["env"]), "y");
    pod.apply("m2", Force::No, json!({})).unwrap();
    assert_eq!(names(pod.at("spec.containers")), "");
}

#[test]
fn null_is_owned_and_sets_nothing() {
    let mut map = Object::new(CONFIG_MAP, "ConfigMap");
    map.apply("m", Force::No, json!({"data": null, "immutable": null, "metadata": {"labels": null}})).unwrap();
    assert_eq!(map.owners(), ["m Apply 01: .data .immutable .metadata.labels"]);
    assert_eq!((map.data(), map.at("immutable")), (&Value::Null, &Value::Null));
    map.apply("m", Force::No, json!({"data": {"a": "1"}})).unwrap();
    assert_eq!(map.owners(), ["m Apply 02: .data.a"]);
    map.apply("m", Force::No, json!({"data": null})).unwrap();
    assert_eq!(map.data(), &Value::Null, "a was not applied again");
}
