//! What a request asks for: which API, which action, with what.

use bytes::Bytes;
use http::{HeaderMap, Method};

/// An API that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// Network load balancers.
    Elbv2,
    /// Classic load balancers.
    Elb,
    /// Security groups, subnets, instances.
    Ec2,
    /// Hosted zones and their records.
    Route53,
    /// Anything else: passed on as it is.
    Other,
}

impl Api {
    /// The version that a query names, and the scope that it is signed for.
    pub(super) fn version_and_scope(self) -> (&'static str, &'static str) {
        match self {
            Self::Elbv2 => ("2015-12-01", "elasticloadbalancing"),
            Self::Elb => ("2012-06-01", "elasticloadbalancing"),
            Self::Ec2 => ("2016-11-15", "ec2"),
            Self::Route53 => ("2013-04-01", "route53"),
            Self::Other => ("", "acm"),
        }
    }
}

/// The access key of calls that are no part of what is tried.
pub const ASIDE: &str = "aside";

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) api: Api,
    /// `CreateListener`; of Route 53 the same names, found by path.
    pub(super) action: String,
    pub(super) region: String,
    pub(super) params: Params,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn read(method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Self {
        let (scope, region) = scope(&headers);
        let form = std::str::from_utf8(&body).map(Params::read).unwrap_or_default();
        let version = form.get("Version").to_owned();
        let api = match (scope.as_str(), version.as_str()) {
            ("elasticloadbalancing", "2012-06-01") => Api::Elb,
            ("elasticloadbalancing", _) => Api::Elbv2,
            ("ec2", _) => Api::Ec2,
            ("route53", _) => Api::Route53,
            _ => Api::Other,
        };
        let action = match api {
            Api::Route53 => route53_action(&method, path),
            Api::Other => {
                headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
            }
            _ => form.get("Action").to_owned(),
        };
        let params = if api == Api::Route53 || api == Api::Other { Params::default() } else { form };
        Self { api, action, region, params, method, path: path.to_owned(), headers, body }
    }

    /// Whether it can change something.
    pub(super) fn is_write(&self) -> bool {
        !["Describe", "List", "Get"].iter().any(|prefix| self.action.starts_with(prefix))
    }

    /// Whether it is no part of what is tried: neither counted nor disturbed.
    pub(super) fn is_aside(&self) -> bool {
        let signed = self.headers.get("authorization").and_then(|value| value.to_str().ok());
        signed.is_some_and(|text| text.contains(&format!("Credential={ASIDE}/")))
    }

    /// The same question has the same one.
    pub(super) fn question(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        format!("{:?} {} {} {:?} {body}", self.api, self.action, self.path, self.params.0)
    }
}

/// Service and region of `Authorization: AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, ...`.
fn scope(headers: &HeaderMap) -> (String, String) {
    let text = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let credential = text.split("Credential=").nth(1).unwrap_or_default();
    let mut parts = credential.split(',').next().unwrap_or_default().split('/').skip(2);
    let region = parts.next().unwrap_or("us-east-1").to_owned();
    (parts.next().unwrap_or_default().to_owned(), region)
}

fn route53_action(method: &Method, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let name = match (method.as_str(), parts.as_slice()) {
        ("POST", ["hostedzone"]) => "CreateHostedZone",
        ("GET", ["hostedzone"]) => "ListHostedZones",
        ("GET", ["hostedzone", _]) => "GetHostedZone",
        ("DELETE", ["hostedzone", _]) => "DeleteHostedZone",
        ("POST", ["hostedzone", _, "rrset"]) => "ChangeResourceRecordSets",
        ("GET", ["hostedzone", _, "rrset"]) => "ListResourceRecordSets",
        ("GET", ["hostedzonesbyname"]) => "ListHostedZonesByName",
        ("GET", ["tags", ..]) => "ListTagsForResource",
        ("POST", ["tags", _]) => "ListTagsForResources",
        ("POST", ["tags", ..]) => "ChangeTagsForResource",
        ("GET", ["change", _]) => "GetChange",
        _ => "Unknown",
    };
    name.to_owned()
}

/// The pairs of a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Params(pub(super) Vec<(String, String)>);

impl Params {
    fn read(form: &str) -> Self {
        let pairs = form.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        };
        Self(pairs.map(pair).collect())
    }

    pub(super) fn new(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    /// The value of a key; empty when it is not given.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.0.retain(|(name, _)| name != key);
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// The values of `prefix.1`, `prefix.2` and so on.
    pub(super) fn list(&self, prefix: &str) -> Vec<String> {
        self.items(prefix).iter().map(|item| item.get("").to_owned()).collect()
    }

    /// What stands under `prefix.1`, `prefix.2` and so on.
    pub(super) fn items(&self, prefix: &str) -> Vec<Self> {
        let mut items: std::collections::BTreeMap<usize, Self> = std::collections::BTreeMap::new();
        for (key, value) in &self.0 {
            let Some(rest) = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) else { continue };
            let (index, rest) = rest.split_once('.').unwrap_or((rest, ""));
            if let Ok(index) = index.parse() {
                items.entry(index).or_default().0.push((rest.to_owned(), value.clone()));
            }
        }
        items.into_values().collect()
    }

    /// Keys and values under `Tags.member` and the like.
    pub(super) fn tags(&self, prefix: &str) -> std::collections::BTreeMap<String, String> {
        self.items(prefix).iter().map(|tag| (tag.get("Key").to_owned(), tag.get("Value").to_owned())).collect()
    }

    pub(super) fn write(&self) -> String {
        let pair = |(key, value): &(String, String)| format!("{}={}", encoded(key), encoded(value));
        self.0.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |range: &[u8]| u8::from_str_radix(std::str::from_utf8(range).ok()?, 16).ok();
        match (first, after.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(first),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(scope: &str, method: Method, path: &str, body: &'static str) -> Call {
        let mut headers = HeaderMap::new();
        let text = format!("AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/{scope}/aws4_request, SignedHeaders=host");
        headers.insert("authorization", text.parse().unwrap());
        Call::read(method, path, headers, Bytes::from_static(body.as_bytes()))
    }

    #[test]
    fn calls_are_told_apart() {
        for (scope, method, path, body, api, action) in [
            ("elasticloadbalancing", "POST", "/", "Action=DescribeTags&Version=2015-12-01", Api::Elbv2, "DescribeTags"),
            ("elasticloadbalancing", "POST", "/", "Action=DescribeTags&Version=2012-06-01", Api::Elb, "DescribeTags"),
            ("ec2", "POST", "/", "Action=CreateSecurityGroup&GroupName=a%20b%2Bc+d", Api::Ec2, "CreateSecurityGroup"),
            ("route53", "POST", "/2013-04-01/hostedzone/Z1/rrset/", "<x/>", Api::Route53, "ChangeResourceRecordSets"),
            ("route53", "GET", "/2013-04-01/hostedzone/Z1/rrset?name=a", "", Api::Route53, "ListResourceRecordSets"),
            ("sts", "POST", "/", "Action=AssumeRole", Api::Other, ""),
        ] {
            let call = call(scope, method.parse().unwrap(), path, body);
            assert_eq!((call.api, call.action.as_str(), call.region.as_str()), (api, action, "eu-west-1"), "{body}");
        }
        let call = call("ec2", Method::POST, "/", "Action=X&A.2.B=2&A.10.B=10&A.1.B=1&C.1=a%20b%2Bc+d");
        assert_eq!(call.params.items("A").iter().map(|item| item.get("B")).collect::<Vec<_>>(), ["1", "2", "10"]);
        assert_eq!(call.params.list("C"), ["a b+c d"]);
        assert_eq!(Params::read(&call.params.write()), call.params);
    }
}
