//! EC2: the calls that are needed, on the query client.

mod groups;
mod instances;
mod network;
#[cfg(test)]
mod tests;
mod trial;

use super::{
    actions,
    query::{Form, Query},
    xml::Element,
};
use crate::account::{AwsError, Tags};
use net::{Cidr, parse_ip};
use std::collections::BTreeSet;

/// Values that one filter takes.
const FILTER_VALUES: usize = 200;
/// Members of a page.
const PAGE: &str = "1000";

/// EC2 of one region.
#[derive(Clone, Debug)]
pub(super) struct Ec2 {
    pub(super) query: Query,
}

impl Ec2 {
    pub(super) async fn set_source_dest_check(&self, instance: &str, check: bool) -> Result<(), AwsError> {
        self.query.ask(actions::MODIFY_INSTANCE_ATTRIBUTE, &check_form(instance, check)).await.map(drop)
    }

    pub(super) async fn create_tags(&self, ids: &[String], tags: &Tags) -> Result<(), AwsError> {
        if ids.is_empty() || tags.is_empty() {
            return Ok(());
        }
        self.query.ask(actions::CREATE_TAGS, &tags_form(ids, tags)).await.map(drop)
    }
}

fn check_form(instance: &str, check: bool) -> Form {
    let mut form = Form::default();
    form.set("InstanceId", instance);
    form.set("SourceDestCheck.Value", check.to_string());
    form
}

fn tags_form(ids: &[String], tags: &Tags) -> Form {
    let mut form = Form::default();
    form.list("ResourceId", ids);
    form.tags("Tag", tags);
    form
}

/// Filters of a call: all must be met, each by one of its values. One without values is left out.
#[derive(Clone, Debug, Default)]
struct Filters {
    form: Form,
    count: usize,
}

impl Filters {
    fn add(&mut self, name: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.count += 1;
        let place = format!("Filter.{}", self.count);
        self.form.set(format!("{place}.Name"), name);
        self.form.list(&format!("{place}.Value"), values);
    }

    fn paged(mut self) -> Form {
        self.form.set("MaxResults", PAGE);
        self.form
    }
}

/// Groups that a filter takes; no values at all are one group.
fn batches(values: &BTreeSet<String>) -> Vec<Vec<String>> {
    let all: Vec<String> = values.iter().cloned().collect();
    if all.is_empty() { vec![Vec::new()] } else { all.chunks(FILTER_VALUES).map(<[String]>::to_vec).collect() }
}

fn one(value: Option<&String>) -> Vec<String> {
    value.cloned().into_iter().collect()
}

fn tags(element: &Element) -> Tags {
    let pairs = element.items("tagSet").map(|item| (item.text(&["key"]).to_owned(), item.text(&["value"]).to_owned()));
    pairs.collect()
}

/// A block as AWS tells it. Bits below the prefix are tolerated: others may have written them.
fn cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    Cidr::containing(parse_ip(address).ok()?, prefix.parse().ok()?)
}
