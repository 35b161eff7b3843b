//! A definition whose versions a webhook converts: kubectl in both versions, on both families, through a crash of the server and
//! one of the webhook.

use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    Server, wait_for,
    webhook::{self, Webhook},
};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// Version 2 has the two halves of version 1.
fn convert(request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.into();
        let spec = object["spec"].clone();
        object["spec"] = if wanted.ends_with("/v2") {
            let (host, port) = spec["address"].as_str().unwrap_or_default().rsplit_once(':').unwrap_or_default();
            json!({"host": host, "port": port})
        } else {
            let half = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
            json!({"address": format!("{}:{}", half("host"), half("port"))})
        };
        object
    };
    let converted: Vec<Value> = request["objects"].as_array().into_iter().flatten().map(convert).collect();
    json!({"result": {"status": "Success"}, "convertedObjects": converted})
}

fn definition(at: SocketAddr, bundle: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: routes.example.com}}\nspec:\n  \
         group: example.com\n  scope: Namespaced\n  names: {{plural: routes, kind: Route, singular: route}}\n  \
         conversion: {{strategy: Webhook, webhook: {{conversionReviewVersions: [v1], clientConfig: {{url: 'https://{at}/convert', caBundle: {bundle}}}}}}}\n  \
         versions:\n  \
         - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, properties: {{address: {{type: string}}}}}}}}}}}}}}\n  \
         - {{name: v2, served: true, storage: false, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, properties: {{host: {{type: string}}, port: {{type: string}}}}}}}}}}}}}}\n"
    )
}

#[test]
fn both_versions_are_served_by_a_webhook_that_may_come_and_go() {
    for address in ["127.0.0.1", "::1"] {
        let address: IpAddr = address.parse().expect("an address");
        let (authority, identity) = webhook::identity(address);
        let Webhook { address: at, stop: webhook } = Webhook::start((address, 0).into(), &identity, convert);
        let mut server = Server::start(&[]);
        let kubectl = server.kubectls().remove(0);
        let bundle = STANDARD.encode(authority.certificate_pem());
        kubectl.ok_with(&["apply", "-f", "-"], &definition(at, &bundle));
        kubectl.ok(&["wait", "--for=condition=Established", "crd/routes.example.com", "--timeout=60s"]);
        let route =
            "apiVersion: example.com/v2\nkind: Route\nmetadata: {name: a}\nspec: {host: '2001:db8::1', port: '80'}\n";
        let made =
            wait_for(Duration::from_secs(60), || kubectl.run_with(&["apply", "-f", "-"], route).success.then_some(()));
        assert!(made.is_some(), "{}", server.log());
        let get = |server: &Server, version: &str, path: &str| {
            let shown = format!("jsonpath={path}");
            server.kubectls().remove(0).ok(&["get", &format!("routes.{version}.example.com"), "a", "-o", &shown])
        };
        for round in ["at first", "after a crash"] {
            assert_eq!(get(&server, "v1", "{.spec.address}"), "2001:db8::1:80", "{round}");
            assert_eq!(get(&server, "v2", "{.spec.host} {.spec.port}"), "2001:db8::1 80", "{round}");
            server.crash_and_restart();
        }
        // Without the webhook the stored version can be had, the other one says why not; with a new one all is well.
        webhook.cancel();
        let kubectl = server.kubectls().remove(0);
        let gone = wait_for(Duration::from_secs(60), || {
            let asked = kubectl.run(&["get", "routes.v2.example.com", "a"]);
            (!asked.success).then_some(asked.stderr)
        });
        let told = gone.expect("the webhook is gone");
        assert!(told.contains("conversion webhook for example.com/v1, Kind=Route failed: Post"), "{told}");
        assert_eq!(get(&server, "v1", "{.spec.address}"), "2001:db8::1:80");
        let Webhook { stop: again, .. } = Webhook::start(at, &identity, convert);
        assert_eq!(get(&server, "v2", "{.spec.port}"), "80");
        again.cancel();
    }
}
