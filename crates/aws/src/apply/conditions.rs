//! What a Service's conditions say of its load balancer: that it was made without a security group and so can have none.
//!
//! Set during the work on a Service and written by a controller of its own, so that nobody waits for the API. False while it is so; true
//! once it was so and is no more. A Service that was never concerned has no such condition.

use crate::model::request::{NO_GROUP, Note};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Service,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{
    Client, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use runtime::{
    backoff::Backoff,
    client::Api,
    controller::{Key, Next, Queue, Reconcile, Result, work},
};
use serde_json::json;
use std::{collections::HashMap, time::Duration};

/// The condition's type.
pub const CONDITION: &str = "twinstack.dev/SecurityGroups";

const RETRY: Backoff = Backoff { first: Duration::from_millis(50), cap: Duration::from_secs(60) };

/// What the conditions of Services should say.
pub(super) struct Conditions {
    queue: Queue<Key>,
    wanted: Mutex<HashMap<Key, Wanted>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    uid: Option<String>,
    problem: Option<String>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { queue: Queue::new(RETRY), wanted: Mutex::default() }
    }
}

impl Conditions {
    /// What is known of a Service now.
    pub(super) fn set(&self, service: &Service, notes: &[Note]) {
        let problem = notes.iter().find(|note| note.reason == NO_GROUP).map(|note| note.message.clone());
        let key = Key::of(service);
        if changed(service, problem.as_deref(), Timestamp::UNIX_EPOCH).is_none() {
            self.wanted.lock().remove(&key);
            return;
        }
        self.wanted.lock().insert(key.clone(), Wanted { uid: service.uid(), problem });
        self.queue.add(key);
    }

    /// A Service has no load balancer any more. One that stays has no problem with it either.
    pub(super) fn forget(&self, service: &Service) {
        if service.metadata.deletion_timestamp.is_none() {
            return self.set(service, &[]);
        }
        self.wanted.lock().remove(&Key::of(service));
    }

    /// Writes conditions as they come.
    pub(super) async fn run(&self, client: Client) -> Result<()> {
        work(&self.queue, 1, &Writer { client, conditions: self }).await
    }
}

/// The conditions of a Service with what should be said, if they do not say it already.
fn changed(service: &Service, problem: Option<&str>, now: Timestamp) -> Option<Vec<Condition>> {
    let has = service.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let old = has.iter().find(|condition| condition.type_ == CONDITION);
    let (status, reason, message) = match (problem, old) {
        (Some(problem), _) => ("False", "CreatedWithoutSecurityGroup", problem),
        (None, Some(_)) => ("True", "AsAsked", "the load balancer has what it can be given"),
        (None, None) => return None,
    };
    if old.is_some_and(|old| {
        (old.status.as_str(), old.reason.as_str(), old.message.as_str()) == (status, reason, message)
    }) {
        return None;
    }
    let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let new = Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: service.metadata.generation,
        last_transition_time: since.unwrap_or(Time(now)),
    };
    let mut all: Vec<Condition> = has.into_iter().filter(|condition| condition.type_ != CONDITION).collect();
    all.push(new);
    Some(all)
}

struct Writer<'a> {
    client: Client,
    conditions: &'a Conditions,
}

impl Reconcile for Writer<'_> {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<Next> {
        let Some(wanted) = self.conditions.wanted.lock().get(key).cloned() else { return Ok(Next::Done) };
        let api: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let service = api.get_opt(&key.name).await?.filter(|service| service.uid() == wanted.uid);
        if let Some(service) = service
            && let Some(conditions) = changed(&service, wanted.problem.as_deref(), Timestamp::now())
        {
            // Replaces the whole list, and so must meet the list it was made from.
            let patch = json!({
                "metadata": {"resourceVersion": service.metadata.resource_version},
                "status": {"conditions": conditions},
            });
            match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut all = self.conditions.wanted.lock();
        if all.get(key) == Some(&wanted) {
            all.remove(key);
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(conditions: &serde_json::Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 3},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn a_condition_comes_with_a_problem_and_stays_when_it_is_solved() {
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let other =
            json!({"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": Time(then)});
        let bare = service(&json!([other]));
        assert_eq!(changed(&bare, None, now), None);
        let with = changed(&bare, Some("no group"), now).unwrap();
        assert_eq!(with.len(), 2, "what others say stays");
        assert_eq!((with[1].status.as_str(), with[1].observed_generation), ("False", Some(3)));
        let reported = service(&json!(with));
        assert_eq!(changed(&reported, Some("no group"), then), None);
        let reworded = changed(&reported, Some("still no group"), then).unwrap();
        assert_eq!(reworded[1].last_transition_time, Time(now), "since when it is so stays");
        let solved = changed(&reported, None, then).unwrap();
        assert_eq!((solved[1].status.as_str(), &solved[1].last_transition_time), ("True", &Time(then)));
        assert_eq!(changed(&service(&json!(solved)), None, now), None);
    }

    #[test]
    fn nothing_waits_to_be_written_for_a_service_that_says_it_already() {
        let conditions = Conditions::default();
        let bare = service(&json!([]));
        conditions.set(&bare, &[]);
        assert!(conditions.queue.is_idle());
        let note = Note { reason: NO_GROUP, message: "no group".to_owned() };
        conditions.set(&bare, &[note]);
        assert!(!conditions.queue.is_idle());
        let mut deleted = bare.clone();
        deleted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        conditions.forget(&deleted);
        assert!(conditions.wanted.lock().is_empty());
    }

    #[test]
    fn a_service_that_is_no_load_balancer_any_more_has_no_problem_with_one() {
        let conditions = Conditions::default();
        let reported = service(&json!(changed(&service(&json!([])), Some("no group"), Timestamp::UNIX_EPOCH)));
        conditions.forget(&reported);
        let wanted = conditions.wanted.lock().get(&Key::of(&reported)).cloned();
        assert_eq!(wanted, Some(Wanted { uid: Some("u".into()), problem: None }));
    }
}
