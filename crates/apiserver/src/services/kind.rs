//! What Services ask of the server: addresses and ports, and no external IPs where an administrator denies them.

use super::Reserved;
use crate::{
    ApiServer, admission,
    call::Call,
    kinds::{Aside, Later, ServerRules, done},
};
use api::families::RuleSet;
use futures::future::FutureExt;
use serde_json::Value;

/// Older than `ipFamilyPolicy`. No shape has it, so it goes around the typed round trip; `families::resolve` reads it and
/// takes it out for good.
const PREFER_DUAL_STACK: &str = "spec.preferDualStack";

/// Services.
pub struct ServiceKind;

impl ServerRules for ServiceKind {
    /// By upstream's rules it is an unknown field and stays.
    fn set_aside(&self, server: &ApiServer, request: &mut Value) -> Aside {
        match server.services.settings.rules {
            RuleSet::Seed => Aside::take(request, PREFER_DUAL_STACK),
            RuleSet::Upstream => Aside::default(),
        }
    }

    fn reserve<'a>(&self, call: &'a Call, object: &'a mut Value, old: Option<&'a Value>) -> Later<'a, Reserved> {
        call.server.services.reserve(call, object, old).boxed()
    }

    fn give_back(&self, call: &Call, old: &Value) -> Reserved {
        call.server.services.give_back(call, old)
    }

    fn check<'a>(&self, call: &'a Call, object: &'a Value, old: Option<&'a Value>) -> Later<'a, ()> {
        done(admission::deny_external_ips(call, object, old))
    }
}
