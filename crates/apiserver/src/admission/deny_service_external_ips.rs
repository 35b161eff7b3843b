//! DenyServiceExternalIPs: nobody adds external IPs to Services, because whoever may could take any address for their own.

use crate::call::Call;
use api::{error::ApiError, object::Fields};
use serde_json::Value;

/// Refuses external IPs that were not there before; removing some is always possible.
pub(crate) fn check(call: &Call, service: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let denied = call.server.config.admission.deny_service_external_ips;
    if !denied || !call.request.subresource.is_empty() || !adds(service, old) {
        return Ok(());
    }
    let why = "spec.externalIPs: Use of external IPs is denied by admission control (DenyServiceExternalIPs)";
    Err(ApiError::forbidden("services", "", service.str_at("metadata.name"), why))
}

fn adds(service: &Value, old: Option<&Value>) -> bool {
    let before = old.map(|old| old.list_at("spec.externalIPs")).unwrap_or_default();
    service.list_at("spec.externalIPs").iter().any(|ip| !before.contains(ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn external_ips_may_stay_and_go_but_not_come() {
        let with = |ips: &[&str]| json!({"spec": {"externalIPs": ips}});
        let (one, both) = (with(&["192.0.2.1"]), with(&["192.0.2.1", "2001:db8::1"]));
        for (new, old, expected) in [
            (&json!({"spec": {}}), None, false),
            (&one, None, true),
            (&one, Some(&both), false),
            (&both, Some(&both), false),
            (&both, Some(&one), true),
            (&with(&["2001:db8::1"]), Some(&one), true),
        ] {
            assert_eq!(adds(new, old), expected, "{new} after {old:?}");
        }
    }
}
