//! Routes without a host get one when they are created, as in OpenShift: a policy of the API server, so nobody has to run for it.

use serde_json::{Value, json};

/// The policy and its binding.
pub fn wanted() -> [Value; 2] {
    let name = api::rights::GENERATED_HOSTS;
    let version = "admissionregistration.k8s.io/v1";
    let unset = "object.spec.?host.orValue('') == '' && object.spec.?subdomain.orValue('') == ''";
    let domain = "params.spec.?appsDomain.orValue('') != '' ? params.spec.appsDomain : params.spec.?domain.orValue('')";
    let host = "Object{metadata: Object.metadata{annotations: {'openshift.io/host.generated': 'true'}}, \
                spec: Object.spec{host: object.metadata.name + '-' + object.metadata.namespace + '.' + variables.domain}}";
    let policy = json!({"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "paramKind": {"apiVersion": "config.openshift.io/v1", "kind": "Ingress"},
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["route.openshift.io"], "apiVersions": ["v1"], "resources": ["routes"], "operations": ["CREATE"]},
        ]},
        "matchConditions": [
            {"name": "no-host", "expression": unset},
            {"name": "domain", "expression": format!("({domain}) != ''")},
        ],
        "variables": [{"name": "domain", "expression": domain}],
        // A Route without a host is served all the same, so nothing is refused for want of one.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": host}}],
    }});
    let binding = json!({"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {
        "policyName": name,
        "paramRef": {"name": "cluster", "parameterNotFoundAction": "Allow"},
    }});
    [policy, binding]
}
