//! Route53: the four calls that are needed, of the API of 2013-04-01. Changes are XML, questions are paths.

use super::{
    actions,
    api::{Api, Asked},
    paging::Marker,
    query::escape,
    xml::Element,
};
use crate::account::{AwsError, HostedZone, Leads, RecordChange, RecordPosition, RecordSet, Tags};
use http::Method;

const VERSION: &str = "/2013-04-01";
const NAMESPACE: &str = "https://route53.amazonaws.com/doc/2013-04-01/";

/// A client of the account's hosted zones.
#[derive(Clone, Debug)]
pub(crate) struct Route53Client {
    pub(super) api: Api,
}

/// As addresses are written.
fn uri_escape(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out.replace('+', "%20")
}

fn asked<'a>(method: Method, path: &'a str, body: &'a str) -> Asked<'a> {
    Asked { method, path, content_type: (!body.is_empty()).then_some("application/xml"), headers: &[], body }
}

fn xml_escape(text: &str) -> std::borrow::Cow<'_, str> {
    quick_xml::escape::escape(text)
}

/// Without what Route53 puts in front of it in some answers.
pub(crate) fn bare(id: &str) -> String {
    id.trim_start_matches("/hostedzone/").to_owned()
}

impl Route53Client {
    /// `ListHostedZones`.
    pub(crate) async fn list_hosted_zones(&self) -> Result<Vec<HostedZone>, AwsError> {
        let (mut all, mut marker) = (Vec::new(), Marker::default());
        loop {
            let mut path = format!("{VERSION}/hostedzone");
            marker.current().iter().for_each(|marker| path += &format!("?marker={}", uri_escape(marker)));
            let page = self.api.call(actions::LIST_HOSTED_ZONES, &asked(Method::GET, &path, "")).await?;
            let zones = page.child("HostedZones").into_iter().flat_map(|list| list.all("HostedZone"));
            all.extend(
                zones.map(|zone| HostedZone { id: bare(zone.text(&["Id"])), name: zone.text(&["Name"]).to_owned() }),
            );
            if !marker.advance(page.some("NextMarker").filter(|_| page.text(&["IsTruncated"]) == "true"))? {
                return Ok(all);
            }
        }
    }

    /// `ListTagsForResources` of zones, by their ids; up to ten at a time.
    pub(crate) async fn list_tags(&self, ids: &[String]) -> Result<Vec<(String, Tags)>, AwsError> {
        let ids: String = ids.iter().map(|id| format!("<ResourceId>{}</ResourceId>", xml_escape(id))).collect();
        let body = format!(
            "<ListTagsForResourcesRequest xmlns=\"{NAMESPACE}\"><ResourceIds>{ids}</ResourceIds></ListTagsForResourcesRequest>"
        );
        let path = format!("{VERSION}/tags/hostedzone");
        let answer = self.api.call(actions::LIST_TAGS_FOR_RESOURCES, &asked(Method::POST, &path, &body)).await?;
        let sets = answer.child("ResourceTagSets").into_iter().flat_map(|list| list.all("ResourceTagSet"));
        let tags = |set: &Element| -> Tags {
            let all = set.child("Tags").into_iter().flat_map(|list| list.all("Tag"));
            all.filter_map(|tag| Some((tag.some("Key")?, tag.text(&["Value"]).to_owned()))).collect()
        };
        Ok(sets.map(|set| (bare(set.text(&["ResourceId"])), tags(set))).collect())
    }

    /// `ListResourceRecordSets`: a page of a zone's records, and where the next one begins.
    pub(crate) async fn list_record_sets(
        &self,
        zone: &str,
        from: &RecordPosition,
    ) -> Result<(Vec<RecordSet>, Option<RecordPosition>), AwsError> {
        let RecordPosition { name, kind, identifier } = from;
        let mut path = format!(
            "{VERSION}/hostedzone/{}/rrset?name={}&type={}",
            uri_escape(zone),
            uri_escape(name),
            uri_escape(kind)
        );
        identifier.iter().for_each(|identifier| path += &format!("&identifier={}", uri_escape(identifier)));
        let page = self.api.call(actions::LIST_RECORD_SETS, &asked(Method::GET, &path, "")).await?;
        let sets = page.child("ResourceRecordSets").into_iter().flat_map(|list| list.all("ResourceRecordSet"));
        let sets = sets.map(read_set).collect();
        let next = page.some("NextRecordName").filter(|_| page.text(&["IsTruncated"]) == "true");
        let next = next.map(|name| RecordPosition {
            name,
            kind: page.text(&["NextRecordType"]).to_owned(),
            identifier: page.some("NextRecordIdentifier"),
        });
        Ok((sets, next))
    }

    /// `ChangeResourceRecordSets`: all of the changes or none.
    pub(crate) async fn change_record_sets(&self, zone: &str, changes: &[RecordChange]) -> Result<(), AwsError> {
        let changes: String = changes.iter().map(write_change).collect();
        let body = format!(
            "<ChangeResourceRecordSetsRequest xmlns=\"{NAMESPACE}\"><ChangeBatch><Changes>{changes}</Changes></ChangeBatch>\
             </ChangeResourceRecordSetsRequest>"
        );
        let path = format!("{VERSION}/hostedzone/{}/rrset", uri_escape(zone));
        self.api.call(actions::CHANGE_RECORD_SETS, &asked(Method::POST, &path, &body)).await.map(drop)
    }
}

fn read_set(set: &Element) -> RecordSet {
    let kind = set.text(&["Type"]).to_owned();
    let shared = set.child("SetIdentifier").is_some();
    let mut values = set.child("ResourceRecords").into_iter().flat_map(|list| list.all("ResourceRecord"));
    let leads = match (set.child("AliasTarget"), values.next(), values.next()) {
        (Some(alias), _, _) if !shared => {
            Leads::Alias { target: alias.text(&["DNSName"]).to_owned(), zone: alias.text(&["HostedZoneId"]).to_owned() }
        }
        (None, Some(value), None) if !shared && kind == "CNAME" => {
            Leads::Name { target: value.text(&["Value"]).to_owned(), ttl: set.parsed("TTL").unwrap_or(0) }
        }
        _ => Leads::Elsewhere,
    };
    // An alias has no time to live; some answers say 0, which a request may not.
    let without = if set.child("AliasTarget").is_some() { "TTL" } else { "" };
    RecordSet { name: set.text(&["Name"]).to_owned(), kind, leads, as_read: Some(set.clone().without(without).write()) }
}

fn write_change(change: &RecordChange) -> String {
    let (action, set) = match change {
        RecordChange::Write(set) => ("UPSERT", set),
        RecordChange::Delete(set) => ("DELETE", set),
    };
    let set = set.as_read.clone().unwrap_or_else(|| write_set(set));
    format!("<Change><Action>{action}</Action>{set}</Change>")
}

fn write_set(set: &RecordSet) -> String {
    let leads = match &set.leads {
        Leads::Alias { target, zone } => format!(
            "<AliasTarget><HostedZoneId>{}</HostedZoneId><DNSName>{}</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>",
            xml_escape(zone),
            xml_escape(target)
        ),
        Leads::Name { target, ttl } => format!(
            "<TTL>{ttl}</TTL><ResourceRecords><ResourceRecord><Value>{}</Value></ResourceRecord></ResourceRecords>",
            xml_escape(target)
        ),
        Leads::Elsewhere => String::new(),
    };
    let (name, kind) = (xml_escape(&set.name), &set.kind);
    format!("<ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type>{leads}</ResourceRecordSet>")
}
