//! Who somebody is and what they may do, answered by another process: an issuer of JSON Web Tokens with discovery and keys over TLS, a
//! webhook that knows tokens, one that authorizes. All three are a second API server, as clusters that trust each other have it. The files
//! that say so are read again when they change.

use e2e::{Kubectl, Server, free_port, wait_for};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);

/// The other API server, on one family, at a port that it keeps.
struct Other {
    server: Server,
    url: String,
    authority: String,
}

impl Other {
    fn start(address: &str) -> Self {
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let port = free_port();
        let url = format!("https://{host}:{port}");
        let server = Server::start(&[
            &format!("--bind-address={address}"),
            &format!("--secure-port={port}"),
            &format!("--service-account-issuer={url}"),
            "--anonymous-auth=true",
        ]);
        let authority = fs::read_to_string(server.folder().join("data/pki/ca.crt")).expect("an authority");
        let other = Self { server, url, authority };
        // Everybody may read who signs its tokens.
        let role = "--clusterrole=system:service-account-issuer-discovery";
        other.kubectl().ok(&["create", "clusterrolebinding", "issuer", role, "--group=system:unauthenticated"]);
        other.kubectl().ok(&["create", "serviceaccount", "jane"]);
        other
    }

    fn kubectl(&self) -> Kubectl {
        self.server.kubectls().pop().expect("a kubectl")
    }

    fn token(&self, audience: Option<&str>) -> String {
        let path = "/api/v1/namespaces/default/serviceaccounts/jane/token";
        let wanted = json!({"spec": {"audiences": audience.into_iter().collect::<Vec<_>>()}});
        let issued = self.kubectl().ok_with(&["create", "--raw", path, "-f", "-"], &wanted.to_string());
        let issued: Value = serde_json::from_str(&issued).expect("a token");
        issued["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// The administrator's kubeconfig with another path behind the address: that of a webhook.
    fn webhook(&self, path: &str) -> String {
        let text = fs::read_to_string(self.server.kubeconfig()).expect("a kubeconfig");
        text.replace(&self.url, &format!("{}{path}", self.url))
    }
}

/// Whoever has this token, at this server.
fn with_token<'a>(kubectl: &'a Kubectl, token: &'a str) -> impl Fn(&[&str], &str) -> Result<String, String> + 'a {
    // The administrator's certificate would be believed first.
    let view = kubectl.ok(&["config", "view", "--raw", "--minify", "-o", "json"]);
    let view: Value = serde_json::from_str(&view).expect("a kubeconfig");
    let cluster = view["clusters"][0]["cluster"].clone();
    move |words: &[&str], input: &str| {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), config.to_string()).expect("a file");
        let flag = format!("--kubeconfig={}", file.path().display());
        let output = kubectl.run_with(&[&[flag.as_str()], words].concat(), input);
        if output.success { Ok(output.stdout) } else { Err(output.stderr) }
    }
}

/// Who the server says that the sender of this token is.
fn whoami(kubectl: &Kubectl, token: &str) -> Result<String, String> {
    let review = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = with_token(kubectl, token)(&["create", "--raw", path, "-f", "-"], review)?;
    let answer: Value = serde_json::from_str(&answer).expect("a review");
    Ok(answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

/// A line of `/metrics` that begins so, without what stands before its value.
fn metric(kubectl: &Kubectl, name: &str, label: &str) -> Option<String> {
    let text = kubectl.ok(&["get", "--raw", "/metrics"]);
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
    Some(line.rsplit(' ').next().unwrap_or_default().to_owned())
}

fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).expect("a file");
    fs::rename(beside, file).expect("a file");
}

#[test]
fn tokens_of_an_issuer_are_believed_as_the_file_says_now() {
    for address in ["127.0.0.1", "::1"] {
        let mut issuer = Other::start(address);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("authentication.yaml");
        let configuration = |prefix: &str| {
            json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
                "jwt": [{
                    "issuer": {"url": issuer.url, "certificateAuthority": issuer.authority, "audiences": ["here"]},
                    "claimMappings": {"username": {"claim": "sub", "prefix": prefix}},
                    "claimValidationRules": [{"expression": "claims['kubernetes.io'].namespace == 'default'", "message": "not from there"}],
                }],
            })
        };
        fs::write(&file, configuration("their:").to_string()).expect("a file");
        let server = Server::start(&[&format!("--authentication-config={}", file.display())]);
        let kubectl = server.kubectls().pop().expect("a kubectl");
        let token = issuer.token(Some("here"));
        assert_eq!(whoami(&kubectl, &token).as_deref(), Ok("their:system:serviceaccount:default:jane"));
        let refused = whoami(&kubectl, &issuer.token(Some("elsewhere"))).expect_err("for another audience");
        assert!(refused.contains("Unauthorized") || refused.contains("logged in"), "{refused}");
        // What is signed by somebody else, in the issuer's name.
        let (head, _) = token.rsplit_once('.').expect("a signature");
        assert!(whoami(&kubectl, &format!("{head}.{}", "A".repeat(86))).is_err());
        // Keys are known; the issuer need not be there.
        issuer.server.process().kill();
        assert!(whoami(&kubectl, &token).is_ok());

        replace(&file, &configuration("other:").to_string());
        let reloads = "apiserver_authentication_config_controller_automatic_reloads_total";
        let count = |status: &str| metric(&kubectl, reloads, &format!("status=\"{status}\""));
        assert!(wait_for(PATIENCE, || count("success").filter(|count| count == "1")).is_some(), "{}", server.log());
        assert!(whoami(&kubectl, &token).is_err(), "its keys are asked for again, and it is away");
        issuer.server.crash_and_restart();
        let name = wait_for(PATIENCE, || whoami(&kubectl, &token).ok());
        assert_eq!(name.as_deref(), Some("other:system:serviceaccount:default:jane"), "{}", server.log());

        replace(&file, "kind: Nothing");
        assert!(wait_for(PATIENCE, || count("failure").filter(|count| count == "1")).is_some(), "{}", server.log());
        let mut anybody = configuration("third:");
        anybody["anonymous"] = json!({"enabled": true});
        replace(&file, &anybody.to_string());
        assert!(wait_for(PATIENCE, || count("failure").filter(|count| count == "2")).is_some(), "{}", server.log());
        assert!(server.log().contains("anonymous: changed from initial configuration file"), "{}", server.log());
        assert!(whoami(&kubectl, &token).is_ok_and(|name| name.starts_with("other:")), "what it said before counts");
        let info = "apiserver_authentication_config_controller_last_config_info{";
        assert_eq!(metric(&kubectl, info, "hash=\"sha256:").as_deref(), Some("1"));
        let checked = "apiserver_authentication_jwt_authenticator_latency_seconds_count{";
        assert!(metric(&kubectl, checked, "result=\"success\"").is_some());
    }
}

#[test]
fn webhooks_say_who_a_token_is_and_what_it_may_as_the_file_says_now() {
    for address in ["127.0.0.1", "::1"] {
        let mut other = Other::start(address);
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("tokens.kubeconfig"), other.webhook("/apis/authentication.k8s.io/v1/tokenreviews"))
            .expect("a file");
        let reviews = other.webhook("/apis/authorization.k8s.io/v1/subjectaccessreviews");
        fs::write(at("rights.kubeconfig"), reviews).expect("a file");
        let own = json!([{"type": "Node", "name": "node"}, {"type": "RBAC", "name": "rbac"}]);
        let configuration = |authorizers: &Value| {
            json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers,
            })
            .to_string()
        };
        let file = at("authorization.yaml");
        fs::write(&file, configuration(&own)).expect("a file");
        let server = Server::start(&[
            &format!("--authentication-token-webhook-config-file={}", at("tokens.kubeconfig").display()),
            "--authentication-token-webhook-version=v1",
            &format!("--authorization-config={}", file.display()),
            // The other one answers for the audience that both have.
            &format!("--api-audiences={}", other.url),
        ]);
        let kubectl = server.kubectls().pop().expect("a kubectl");
        let token = other.token(None);
        let name = "system:serviceaccount:default:jane";
        assert_eq!(whoami(&kubectl, &token).as_deref(), Ok(name), "{}", server.log());
        let lists = || with_token(&kubectl, &token)(&["get", "configmaps"], "");
        assert!(lists().expect_err("nobody allows it").contains("cannot list resource \"configmaps\""));

        // Asked about it, the other one says yes.
        let account = "--serviceaccount=default:jane";
        other.kubectl().ok(&["create", "clusterrolebinding", "jane", "--clusterrole=view", account]);
        let mut all = own.as_array().expect("a list").clone();
        all.push(json!({
            "type": "Webhook", "name": "other", "webhook": {
                "timeout": "3s", "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
                "failurePolicy": "NoOpinion", "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
                "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": at("rights.kubeconfig")},
                "matchConditions": [{"expression": "request.user.startsWith('system:serviceaccount:default:')"}],
            },
        }));
        replace(&file, &configuration(&all.into()));
        assert!(wait_for(PATIENCE, || lists().ok()).is_some(), "{:?}\n{}", lists(), server.log());
        let allowed = with_token(&kubectl, &token)(&["auth", "can-i", "delete", "configmaps"], "");
        assert!(allowed.is_err(), "not that: {allowed:?}");

        other.server.process().kill();
        assert!(lists().expect_err("nobody answers").contains("configmaps"));
        other.server.crash_and_restart();
        assert!(wait_for(PATIENCE, || lists().ok()).is_some(), "{:?}\n{}", lists(), server.log());

        let name = "apiserver_authorization_config_controller_automatic_reloads_total";
        let count = |status: &str| metric(&kubectl, name, &format!("status=\"{status}\""));
        assert_eq!(count("success").as_deref(), Some("1"));
        replace(&file, &configuration(&json!([{"type": "AlwaysAllow", "name": "all"}])));
        assert!(wait_for(PATIENCE, || count("failure").filter(|count| count == "1")).is_some(), "{}", server.log());
        assert!(server.log().contains("missing required types"), "{}", server.log());
        let delete = with_token(&kubectl, &token)(&["delete", "configmap", "kube-root-ca.crt"], "");
        assert!(delete.expect_err("what it said before counts").contains("cannot delete"));
        replace(&file, &configuration(&own));
        assert!(wait_for(PATIENCE, || lists().err()).is_some(), "{}", server.log());
        let asked = "apiserver_authorization_webhook_evaluations_total{";
        for result in ["success", "error"] {
            let label = format!("result=\"{result}\"");
            assert!(metric(&kubectl, asked, &label).is_some(), "{result}");
        }
        assert!(metric(&kubectl, "apiserver_authorization_webhook_evaluations_fail_open_total{", "other").is_some());
        let matched = "apiserver_authorization_match_condition_evaluation_seconds_count{";
        assert!(metric(&kubectl, matched, r#"type="Webhook",name="other""#).is_some());
    }
}
