//! `up --demo`: a small application of both families, from the image that nodes have of this program, and whether it answers.

use super::Part;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use runtime::{client::Api, http::ask};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

const NAMESPACE: &str = "demo";
const NAME: &str = "hello";
/// Where the server of the application answers, and what it is asked: who asks whom.
const PORT: u16 = 8080;
const QUESTION: &str = "/who";

/// Two Pods behind a load balancer, and where there is a router a Route to them.
pub(super) fn objects(image: &str, domain: Option<&str>) -> Vec<Value> {
    let here = json!({"name": NAME, "namespace": NAMESPACE});
    let labels = json!({"app": NAME});
    let words =
        ["netexec".to_owned(), format!("--http-port={PORT}"), "--tcp-port=0".to_owned(), "--udp-port=0".to_owned()];
    let container = json!({
        "name": NAME, "image": image, "imagePullPolicy": "IfNotPresent", "args": words,
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
    });
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": here, "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        }}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": here, "spec": {
            "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "selector": labels,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        }}),
    ];
    objects.extend(domain.map(|domain| {
        json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": here, "spec": {
            "host": host(domain), "to": {"kind": "Service", "name": NAME}, "port": {"targetPort": "http"},
        }})
    }));
    objects
}

fn host(domain: &str) -> String {
    format!("{NAME}.{domain}")
}

/// How far the application has come.
pub(super) struct Serving {
    pub(super) client: kube::Client,
    /// Domain, addresses and port of the router, where there is one.
    pub(super) router: Option<(String, Vec<IpAddr>, u16)>,
}

impl Serving {
    /// Serves when it answers at every address: those of the load balancer, and those of the router.
    pub(super) async fn look(&self) -> Part {
        match self.answers().await {
            Ok(urls) => Part::Serves(urls.join(", ")),
            Err(why) => Part::Missing(why),
        }
    }

    async fn answers(&self) -> Result<Vec<String>, String> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
        let services: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        let service = services.get(NAME).await.map_err(|error| error.to_string())?.data;
        let mut urls = Vec::new();
        for ip in balancers(&service)? {
            let place = SocketAddr::new(ip, 80);
            let url = format!("http://{}", if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
            is_answered(place, NAME, &url).await?;
            urls.push(url);
        }
        if let Some((domain, addresses, port)) = &self.router {
            let url = format!("http://{}:{port}", host(domain));
            for ip in addresses {
                is_answered(SocketAddr::new(*ip, *port), &host(domain), &format!("{url} by {ip}")).await?;
            }
            urls.push(url);
        }
        Ok(urls)
    }
}

async fn is_answered(place: SocketAddr, host: &str, what: &str) -> Result<(), String> {
    match ask(place, host, QUESTION).await {
        Ok((200, _)) => Ok(()),
        Ok((status, _)) => Err(format!("{what} answers {status}")),
        Err(error) => Err(format!("{what} does not answer: {error}")),
    }
}

/// An address of each family that the Service has; what is missing otherwise.
fn balancers(service: &Value) -> Result<Vec<IpAddr>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ingress = list(&service["status"]["loadBalancer"]["ingress"]);
    let found: Vec<IpAddr> = ingress.iter().filter_map(|one| one["ip"].as_str()?.parse().ok()).collect();
    let families = list(&service["spec"]["ipFamilies"]);
    let has = |family: &Value| found.iter().any(|ip| ip.is_ipv6() == (family == "IPv6"));
    match families.iter().find(|family| !has(family)) {
        Some(family) => Err(format!("its Service has no {} address yet", family.as_str().unwrap_or_default())),
        None if families.is_empty() => Err("its Service has no families".to_owned()),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_of_the_service_has_an_address_before_anything_is_asked() {
        let (v4, v6) = ("192.0.2.1", "2001:db8::1");
        for (families, ips, expected) in [
            (vec!["IPv4"], vec![v4], Ok(1)),
            (vec!["IPv6"], vec![v6], Ok(1)),
            (vec!["IPv4", "IPv6"], vec![v4, v6], Ok(2)),
            (vec!["IPv6", "IPv4"], vec![v6, v4], Ok(2)),
            (vec!["IPv4", "IPv6"], vec![v4], Err("its Service has no IPv6 address yet".to_owned())),
            (vec!["IPv6", "IPv4"], vec![v6], Err("its Service has no IPv4 address yet".to_owned())),
            (vec!["IPv4"], vec![], Err("its Service has no IPv4 address yet".to_owned())),
            (vec![], vec![], Err("its Service has no families".to_owned())),
        ] {
            let ingress: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            let service = json!({"spec": {"ipFamilies": families}, "status": {"loadBalancer": {"ingress": ingress}}});
            assert_eq!(balancers(&service).map(|found| found.len()), expected, "{families:?} {ips:?}");
        }
    }

    #[test]
    fn a_route_is_made_where_there_is_a_router() {
        let kinds = |domain| -> Vec<String> {
            let made = objects("localhost/twinstack:1", domain);
            made.iter().filter_map(|object| object["kind"].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(kinds(None), ["Namespace", "Deployment", "Service"]);
        assert_eq!(kinds(Some("apps.lab.test")), ["Namespace", "Deployment", "Service", "Route"]);
        assert_eq!(objects("i", Some("apps.lab.test"))[3]["spec"]["host"], "hello.apps.lab.test");
    }
}
