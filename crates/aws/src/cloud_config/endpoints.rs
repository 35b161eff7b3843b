//! Where each AWS API is reached, when that is not AWS's own choice: `ServiceOverride` sections and `AWS_ENDPOINT_URL*`.

use std::collections::BTreeMap;

/// A section `ServiceOverride`: an API of one region at another address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceOverride {
    /// The SDK's id of the service: `EC2`, `Elastic Load Balancing v2`, ...
    pub service: String,
    pub region: String,
    /// Where the API is.
    pub url: String,
    /// Region that requests are signed for.
    pub signing_region: String,
    /// How they are signed.
    pub signing_method: String,
    /// Name that they are signed for.
    pub signing_name: String,
}

/// What requests are signed for, where it is not the SDK's id: so OpenShift's installer and older SDKs name services, and one name may be two APIs.
const SIGNING_NAMES: &[(&str, &str)] = &[
    ("Elastic Load Balancing", "elasticloadbalancing"),
    ("Elastic Load Balancing v2", "elasticloadbalancing"),
    ("Route 53", "route53"),
];

/// Reads the sections, in the order of their names.
pub(super) fn read(
    given: &BTreeMap<&str, BTreeMap<&'static str, String>>,
    mistakes: &mut Vec<String>,
) -> Vec<ServiceOverride> {
    let mut overrides: Vec<ServiceOverride> = Vec::new();
    for (part, keys) in given {
        let text = |key: &str| keys.get(key).cloned().unwrap_or_default();
        let one = ServiceOverride {
            service: text("Service"),
            region: text("Region"),
            url: text("URL"),
            signing_region: text("SigningRegion"),
            signing_method: text("SigningMethod"),
            signing_name: text("SigningName"),
        };
        for (key, value) in [
            ("Service", &one.service),
            ("Region", &one.region),
            ("URL", &one.url),
            ("SigningRegion", &one.signing_region),
        ] {
            if value.is_empty() {
                mistakes.push(format!("[ServiceOverride {part:?}] {key} is missing"));
            }
        }
        if overrides.iter().any(|other| (&other.service, &other.region) == (&one.service, &one.region)) {
            mistakes.push(format!(
                "[ServiceOverride {part:?}] {} in {} is overridden already; once is enough",
                one.service, one.region
            ));
        }
        overrides.push(one);
    }
    overrides
}

/// An API at another address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// Region that requests are signed for, if not the usual one.
    pub signing_region: Option<String>,
    /// Name that they are signed for, if not the usual one.
    pub signing_name: Option<String>,
}

/// All APIs at other addresses. A section of the cloud-config wins over the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    overrides: Vec<ServiceOverride>,
    environment: BTreeMap<String, String>,
}

impl Endpoints {
    /// From the cloud-config and the environment's variables that begin with `AWS_ENDPOINT_URL`, unless the environment says to ignore them.
    pub fn new(overrides: Vec<ServiceOverride>, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let all: BTreeMap<String, String> = environment.into_iter().collect();
        let ignored = all.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|value| value == "true");
        let ours = all.into_iter().filter(|(name, url)| name.starts_with("AWS_ENDPOINT_URL") && !url.is_empty());
        Self { overrides, environment: ours.filter(|_| !ignored).collect() }
    }

    /// Where the API of this id is: `EC2`, `Elastic Load Balancing`, `Elastic Load Balancing v2`, `Route 53`, `STS`.
    pub fn of(&self, service: &str, region: &str) -> Option<Endpoint> {
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let named = |name: &str| {
            self.overrides.iter().find(|one| one.service.eq_ignore_ascii_case(name) && one.region == region)
        };
        let signing_name = SIGNING_NAMES.iter().find(|(id, _)| *id == service).map(|(_, name)| *name);
        if let Some(one) = named(service).or_else(|| signing_name.and_then(named)) {
            return Some(Endpoint {
                url: one.url.clone(),
                signing_region: some(&one.signing_region),
                signing_name: some(&one.signing_name),
            });
        }
        let variable = format!("AWS_ENDPOINT_URL_{}", service.to_uppercase().replace(' ', "_"));
        let url = self.environment.get(&variable).or_else(|| self.environment.get("AWS_ENDPOINT_URL"))?;
        Some(Endpoint { url: url.clone(), signing_region: None, signing_name: None })
    }
}
