//! Definitions that come, clash and go.

use super::*;

#[tokio::test]
async fn a_deletion_takes_the_objects_then_the_routes_and_ends_watches() {
    let server = with_widgets().await;
    let mut watch = Events::open(&server, &format!("{WIDGETS}?watch=1")).await;
    for name in ["a", "b"] {
        send(&server, "POST", WIDGETS, &widget(name, json!({"size": 1}))).await;
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let deleted = send(&server, "DELETE", &path, &Value::Null).await;
    assert_eq!(deleted.status, 200);
    assert_eq!(deleted.json()["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "DELETED", "{event}");
        seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(ask(&server, "GET", &path, &[], "").await.status, 404);
    until(&server, WIDGETS, |reply| reply.status == 404).await;
    assert_eq!(ask(&server, "GET", "/apis/example.com", &[], "").await.status, 404);

    // Made anew, it starts empty.
    define(&server, &definition()).await;
    assert_eq!(names(&get(&server, WIDGETS).await), Vec::<&str>::new());
}

#[tokio::test]
async fn objects_with_finalizers_keep_the_definition_and_nothing_new_is_made() {
    let server = with_widgets().await;
    let mut held = widget("a", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    send(&server, "POST", WIDGETS, &held).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    send(&server, "DELETE", &path, &Value::Null).await;
    let waiting =
        until(&server, &format!("{WIDGETS}/a"), |reply| !reply.json()["metadata"]["deletionTimestamp"].is_null()).await;
    let reported = get(&server, &path).await;
    assert_eq!(condition(&reported, "Terminating"), ("True".into(), "InstanceDeletionInProgress".into()));
    let refused = send(&server, "POST", WIDGETS, &widget("b", json!({"size": 1}))).await;
    assert_eq!(refused.status, 403, "{}", refused.json());
    let reported = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(reported.ends_with("create not allowed while custom resource definition is terminating"), "{reported}");

    let mut freed = waiting;
    freed["metadata"].as_object_mut().unwrap().remove("finalizers");
    assert_eq!(send(&server, "PUT", &format!("{WIDGETS}/a"), &freed).await.status, 200);
    until(&server, &path, |reply| reply.status == 404).await;
    until(&server, WIDGETS, |reply| reply.status == 404).await;
}

#[tokio::test]
async fn of_two_definitions_with_one_name_the_first_has_it_until_it_goes() {
    let server = with_widgets().await;
    let mut second = definition();
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] = json!({"plural": "gadgets", "kind": "Widget", "shortNames": ["wd", "gd"]});
    assert_eq!(send(&server, "POST", DEFINITIONS, &second).await.status, 201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let refused = until(&server, &path, |reply| condition(&reply.json(), "NamesAccepted").0 == "False").await;
    assert_eq!(condition(&refused, "NamesAccepted").1, "ListKindConflict");
    assert_eq!(condition(&refused, "Established"), ("False".into(), "NotAccepted".into()));
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    assert_eq!(ask(&server, "GET", &gadgets, &[], "").await.status, 404);
    send(&server, "DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &Value::Null).await;
    let accepted = until(&server, &path, |reply| condition(&reply.json(), "Established").0 == "True").await;
    assert_eq!(accepted["status"]["acceptedNames"]["shortNames"], json!(["wd", "gd"]));
    assert_eq!(names(&get(&server, &gadgets).await), Vec::<&str>::new());
}

#[tokio::test]
async fn groups_of_the_community_need_a_word_about_their_approval() {
    let server = testing::server().await;
    let mut given = definition();
    given["metadata"]["name"] = json!("widgets.example.k8s.io");
    given["spec"]["group"] = json!("example.k8s.io");
    let refused = send(&server, "POST", DEFINITIONS, &given).await;
    let field = &refused.json()["details"]["causes"][0]["field"];
    assert_eq!((refused.status, field), (422, &json!("metadata.annotations[api-approved.kubernetes.io]")));
    given["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    let accepted = define(&server, &given).await;
    let reported = condition(&accepted, "KubernetesAPIApprovalPolicyConformant");
    assert_eq!(reported, ("False".into(), "UnapprovedAnnotation".into()));
}

#[tokio::test]
async fn built_in_resources_cannot_be_defined_away() {
    let server = testing::server().await;
    let mut given = definition();
    given["metadata"] = json!({"name": "customresourcedefinitions.apiextensions.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"}});
    given["spec"]["group"] = json!("apiextensions.k8s.io");
    given["spec"]["names"] = json!({"plural": "customresourcedefinitions", "kind": "CustomResourceDefinition"});
    define(&server, &definition()).await;
    send(&server, "POST", DEFINITIONS, &given).await;
    let path = format!("{DEFINITIONS}/customresourcedefinitions.apiextensions.k8s.io");
    until(&server, &path, |reply| condition(&reply.json(), "Established").0 == "True").await;
    send(&server, "DELETE", &path, &Value::Null).await;
    until(&server, &path, |reply| reply.status == 404).await;
    assert_eq!(names(&get(&server, DEFINITIONS).await), ["widgets.example.com"]);
}

#[tokio::test]
async fn what_is_stored_is_served_from_the_start() {
    let store = store::Store::memory(store::Retention::default());
    let first = testing::Lab::on(store.clone()).start().await;
    define(&first, &definition()).await;
    send(&first, "POST", WIDGETS, &widget("a", json!({"size": 1}))).await;
    let second = testing::Lab::on(store).start().await;
    assert_eq!(names(&get(&second, WIDGETS).await), ["a"]);

    // Both are at work on what comes next, and end in the same state.
    send(&second, "DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &Value::Null).await;
    for server in [&first, &second] {
        until(server, WIDGETS, |reply| reply.status == 404).await;
        assert_eq!(names(&get(server, DEFINITIONS).await), Vec::<&str>::new());
    }
}
