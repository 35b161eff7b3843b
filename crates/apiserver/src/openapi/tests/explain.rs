//! What `kubectl explain` makes of the documents: from a resource to its kind, then along the fields.

use super::*;

/// Fields of a type: name, type as explain prints it, whether it is required.
fn explain(key: &str, resource_path: &str, fields: &[&str]) -> Vec<(String, String, bool)> {
    let (_, document) = version_3().iter().find(|(found, _)| found == key).unwrap();
    let kind = document["paths"][resource_path]["get"]["x-kubernetes-group-version-kind"].clone();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let of_kind = |schema: &&Value| {
        schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&kind))
    };
    let mut schema = schemas.values().find(of_kind).unwrap_or_else(|| panic!("no type of {kind}"));
    for field in fields {
        schema = inner(document, &schema["properties"][field]);
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().unwrap();
    let row = |(name, of): (&String, &Value)| (name.clone(), type_of(of), required.contains(&name.as_str()));
    properties.iter().map(row).collect()
}

/// Through lists, maps and references.
fn inner<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    for step in ["/items", "/additionalProperties", "/allOf/0"] {
        if let Some(next) = schema.pointer(step) {
            return inner(document, next);
        }
    }
    match schema["$ref"].as_str() {
        Some(reference) => inner(document, document.pointer(reference.trim_start_matches('#')).unwrap()),
        None => schema,
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(items) = schema.get("items") {
        return format!("[]{}", type_of(items));
    }
    if let Some(values) = schema.get("additionalProperties") {
        return format!("map[string]{}", type_of(values));
    }
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    match reference {
        Some(reference) => reference.rsplit('.').next().unwrap_or_default().to_owned(),
        None => schema["type"].as_str().unwrap_or("Object").to_owned(),
    }
}

#[test]
fn fields_and_types_of_a_container_can_be_explained() {
    let fields = explain("api/v1", "/api/v1/namespaces/{namespace}/pods", &["spec", "containers"]);
    for (name, of, required) in [
        ("name", "string", true),
        ("image", "string", false),
        ("ports", "[]ContainerPort", false),
        ("resources", "ResourceRequirements", false),
        ("command", "[]string", false),
        ("tty", "boolean", false),
    ] {
        assert!(fields.contains(&(name.into(), of.into(), required)), "{name}: {fields:?}");
    }
}

#[test]
fn both_families_can_be_explained_from_every_kind_that_has_them() {
    let cases: [(&str, &str, &[&str], &str, &str); 6] = [
        ("api/v1", "/api/v1/namespaces/{namespace}/services", &["spec"], "ipFamilies", "[]string"),
        ("api/v1", "/api/v1/namespaces/{namespace}/services", &["spec"], "clusterIPs", "[]string"),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods", &["status"], "podIPs", "[]PodIP"),
        ("api/v1", "/api/v1/nodes", &["spec"], "podCIDRs", "[]string"),
        ("apis/networking.k8s.io/v1", "/apis/networking.k8s.io/v1/servicecidrs", &["spec"], "cidrs", "[]string"),
        (
            "apis/example.com/v1",
            "/apis/example.com/v1/namespaces/{namespace}/gateways",
            &["spec"],
            "addresses",
            "[]string",
        ),
    ];
    for (key, path, fields, name, of) in cases {
        let fields = explain(key, path, fields);
        assert!(fields.contains(&(name.into(), of.into(), false)), "{name}: {fields:?}");
    }
}

#[test]
fn every_field_of_pods_services_and_policies_says_what_it_is_for() {
    let (_, document) = version_3().iter().find(|(found, _)| found == "api/v1").unwrap();
    let (_, admission) = version_3().iter().find(|(key, _)| key == "apis/admissionregistration.k8s.io/v1").unwrap();
    let of = |document: &Value, name: &str| {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let (_, schema) = schemas.iter().find(|(full, _)| full.rsplit('.').next() == Some(name)).unwrap();
        let silent = |(_, field): &(&String, &Value)| field["description"].as_str().is_none_or(str::is_empty);
        let fields = schema["properties"].as_object().unwrap().iter().filter(silent);
        fields.map(|(field, _)| format!("{name}.{field}")).collect::<Vec<_>>()
    };
    let core = [
        "PodSpec",
        "Container",
        "Probe",
        "ServiceSpec",
        "ServicePort",
        "ConfigMap",
        "Secret",
        "ObjectMeta",
        "NodeSpec",
    ];
    let silent: Vec<String> = core.iter().flat_map(|name| of(document, name)).collect();
    assert!(silent.len() <= 4, "{silent:?}");
    let kinds =
        ["MutatingAdmissionPolicySpec", "ValidatingAdmissionPolicySpec", "MutatingWebhook", "Mutation", "Validation"];
    let silent: Vec<String> = kinds.iter().flat_map(|name| of(admission, name)).collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn every_line_of_the_descriptions_is_about_a_field_that_there_is() {
    let mut known = std::collections::BTreeSet::new();
    for (_, document) in version_3() {
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let fields = schema["properties"].as_object().into_iter().flatten();
            known.extend(fields.map(|(field, _)| (name.rsplit('.').next().unwrap().to_owned(), field.clone())));
        }
    }
    let types: std::collections::BTreeSet<&String> = known.iter().map(|(name, _)| name).collect();
    let mut of = String::new();
    for line in include_str!("../fields.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ").and_then(|line| line.split_once(' ')) {
            None => line.clone_into(&mut of),
            // Types of kinds that are not served yet are described already.
            Some((field, _)) => {
                assert!(!types.contains(&of) || known.contains(&(of.clone(), field.to_owned())), "{of}.{field}");
            }
        }
    }
}
