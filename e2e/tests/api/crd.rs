//! A kind that a user brings along: defaults, CEL rules, columns, both by kubectl and at run time.

use e2e::{Server, wait_for};
use std::time::Duration;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.replicas}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [replicas]
            x-kubernetes-validations:
            - {rule: "self.replicas <= self.limit", message: "no more than the limit"}
            - {rule: "self.color == oldSelf.color", message: "the color stays"}
            properties:
              replicas: {type: integer, minimum: 0}
              limit: {type: integer, default: 5}
              color: {type: string, default: red, enum: [red, blue]}
          status:
            type: object
            properties:
              replicas: {type: integer}
"#;

fn widget(name: &str, spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

#[test]
fn a_kind_comes_works_and_goes() {
    let server = Server::start(&[]);
    for kubectl in server.kubectls() {
        let apply = |text: &str| kubectl.run_with(&["apply", "-f", "-"], text);
        let made = apply(DEFINITION);
        assert!(made.success, "{}", made.stderr);
        kubectl.ok(&["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=60s"]);
        let made = wait_for(Duration::from_secs(60), || {
            let made = apply(&widget("one", "{replicas: 2, unknown: x}"));
            let made = if made.success {
                made
            } else {
                kubectl.run_with(&["apply", "--validate=false", "-f", "-"], &widget("one", "{replicas: 2, unknown: x}"))
            };
            made.success.then_some(made)
        });
        assert!(made.is_some(), "{}", apply(&widget("one", "{replicas: 2}")).stderr);
        let spec = kubectl.ok(&["get", "wd", "one", "-o", "jsonpath={.spec}"]);
        assert_eq!(spec, r#"{"color":"red","limit":5,"replicas":2}"#, "pruned and defaulted");

        let shown = kubectl.ok(&["get", "widgets"]);
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [vec!["NAME", "SIZE"], vec!["one", "2"]], "{shown}");
        assert!(kubectl.ok(&["get", "widgets", "-o", "wide"]).contains("red"));
        assert!(kubectl.ok(&["get", "all"]).contains("widget.example.com/one"));

        let refused = apply(&widget("two", "{replicas: 9, color: green}")).stderr;
        assert!(refused.contains("spec.color") && refused.contains("green"), "{refused}");
        let refused = apply(&widget("two", "{replicas: 9}")).stderr;
        assert!(refused.contains("no more than the limit"), "{refused}");
        let refused = apply(&widget("one", "{replicas: 2, color: blue}")).stderr;
        assert!(refused.contains("the color stays"), "{refused}");

        assert!(kubectl.ok(&["scale", "widget", "one", "--replicas=4"]).contains("scaled"));
        let refused = kubectl.fails(&["scale", "widget", "one", "--replicas=6"], "");
        assert!(refused.contains("no more than the limit"), "{refused}");
        assert_eq!(kubectl.ok(&["get", "wd", "one", "-o", "jsonpath={.spec.replicas}"]), "4");
        assert!(kubectl.ok(&["explain", "widget.spec"]).contains("replicas"));

        kubectl.ok(&["delete", "crd", "widgets.example.com", "--timeout=60s"]);
        let list = ["get", "--raw", "/apis/example.com/v1/namespaces/default/widgets"];
        // Its routes are closed when the definition has gone, which may take a moment.
        let gone = wait_for(Duration::from_secs(60), || Some(kubectl.run(&list)).filter(|list| !list.success));
        let gone = gone.expect("what is no longer defined is no longer served").stderr;
        assert!(gone.contains("could not find the requested resource"), "{gone}");
    }
}
