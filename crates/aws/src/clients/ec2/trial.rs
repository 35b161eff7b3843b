//! Changes that are only tried: with `DryRun` EC2 answers whether they would be permitted, and does nothing.

use super::{check_form, groups, network, tags_form};
use crate::{
    account::{AwsError, Trial},
    clients::{
        actions::{self, Action},
        query::Form,
    },
};
use std::collections::BTreeSet;

/// EC2's word for "it would be permitted", which it says as an error.
pub(super) const PERMITTED: &str = "DryRunOperation";

pub(super) fn call(trial: Trial<'_>) -> Result<(Action, Form), AwsError> {
    let (action, mut form) = match trial {
        Trial::CreateGroup(new) => (actions::CREATE_SECURITY_GROUP, groups::new_form(new)),
        Trial::DeleteGroup(id) => (actions::DELETE_SECURITY_GROUP, groups::rules_form(id, &BTreeSet::new())),
        Trial::Authorize(id, direction, rules) => (groups::authorize_action(direction), groups::rules_form(id, rules)),
        Trial::Revoke(id, direction, rules) => (groups::revoke_action(direction), groups::rules_form(id, rules)),
        Trial::Tag(id, tags) => (actions::CREATE_TAGS, tags_form(&[id.to_owned()], tags)),
        Trial::CreateRoute(table, to, via) => (actions::CREATE_ROUTE, network::new_route_form(table, to, via)?),
        Trial::DeleteRoute(table, to) => (actions::DELETE_ROUTE, network::route_form(table, to)),
        Trial::SourceDestCheck(instance) => (actions::MODIFY_INSTANCE_ATTRIBUTE, check_form(instance, false)),
    };
    form.set("DryRun", "true");
    Ok((action, form))
}
