//! Tokens of service accounts that are bound to a Pod: asked for once, kept, and renewed when four fifths of their life are over.

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Client, api::PostParams};
use parking_lot::Mutex;
use runtime::client::{Api, error_line};
use std::collections::HashMap;

/// A day at most: one that lives longer is renewed as if it did not.
const LONGEST_KEPT: i64 = 24 * 3600;

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) namespace: String,
    pub(super) account: String,
    pub(super) audience: Option<String>,
    pub(super) seconds: i64,
    pub(super) pod: String,
    pub(super) uid: String,
}

impl Wanted {
    pub(super) fn new(pod: &Pod, audience: Option<&str>, seconds: Option<i64>) -> Self {
        let metadata = &pod.metadata;
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            account: account.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
            audience: audience.filter(|audience| !audience.is_empty()).map(str::to_owned),
            seconds: seconds.unwrap_or(3600),
            pod: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone)]
struct Kept {
    token: String,
    asked: Timestamp,
    expires: Timestamp,
}

impl Kept {
    fn is_due(&self, now: Timestamp) -> bool {
        let life = self.expires.as_second() - self.asked.as_second();
        let age = now.as_second() - self.asked.as_second();
        age >= LONGEST_KEPT || age * 5 >= life * 4
    }
}

/// The tokens of all Pods here.
pub(super) struct Tokens {
    client: Client,
    kept: Mutex<HashMap<Wanted, Kept>>,
}

impl Tokens {
    pub(super) fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default() }
    }

    /// The token and when it ends. An old one that cannot be renewed is given until it ends.
    pub(super) async fn get(&self, wanted: &Wanted) -> Result<(String, Timestamp), String> {
        let now = Timestamp::now();
        let kept = self.kept.lock().get(wanted).cloned();
        if let Some(kept) = &kept
            && !kept.is_due(now)
        {
            return Ok((kept.token.clone(), kept.expires));
        }
        match self.ask(wanted).await {
            Ok(fresh) => {
                let answer = (fresh.token.clone(), fresh.expires);
                self.kept.lock().insert(wanted.clone(), Kept { asked: now, ..fresh });
                Ok(answer)
            }
            Err(error) => match kept {
                Some(kept) if kept.expires > now => {
                    tracing::warn!(pod = wanted.pod, error, "a token cannot be renewed yet");
                    Ok((kept.token, kept.expires))
                }
                _ => Err(format!("failed to fetch token: {error}")),
            },
        }
    }

    async fn ask(&self, wanted: &Wanted) -> Result<Kept, String> {
        let spec = TokenRequestSpec {
            audiences: Some(wanted.audience.iter().cloned().collect()),
            attestations: None,
            expiration_seconds: Some(wanted.seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(wanted.pod.clone()),
                uid: Some(wanted.uid.clone()),
            }),
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), &wanted.namespace);
        let params = PostParams::default();
        let answer = api.create_subresource::<TokenRequest, _>("token", &wanted.account, &params, &request);
        let answer = answer.await.map_err(|error| error_line(&error))?;
        let status = answer.status.ok_or("the answer holds no token")?;
        let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp) else {
            return Err("the answer holds no token".to_owned());
        };
        Ok(Kept { token, asked: Timestamp::now(), expires: expires.0 })
    }

    /// Forgets those of a Pod that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.kept.lock().retain(|wanted, _| wanted.uid != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_when_four_fifths_of_its_life_are_over() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (life, age, due) in [
            (3600, 0, false),
            (3600, 2879, false),
            (3600, 2880, true),
            (3600, 4000, true),
            (30 * 24 * 3600, 24 * 3600 - 1, false),
            (30 * 24 * 3600, 24 * 3600, true),
        ] {
            let kept = Kept { token: String::new(), asked: at(1000), expires: at(1000 + life) };
            assert_eq!(kept.is_due(at(1000 + age)), due, "{age} of {life}");
        }
    }
}
