//! Records of Route 53: a change is done whole or not at all, and what is deleted has to be there as it is named.

use super::{Api, Call, Outcome, World};
use crate::aws_strict::{
    moto::{plain, understood},
    refusal::{Answer, Refusal, refused},
    rules::hosted,
    xml::Element,
};
use http::header::AUTHORIZATION;

/// The records of one name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::aws_strict) struct Set {
    /// In lower case, with its last dot; a wildcard is `*`.
    pub(in crate::aws_strict) name: String,
    pub(in crate::aws_strict) kind: String,
    /// Zone and name of an alias.
    pub(in crate::aws_strict) alias: Option<(String, String)>,
    pub(in crate::aws_strict) values: Vec<String>,
    ttl: String,
}

fn absolute(name: &str) -> String {
    let name = name.to_lowercase().replace("\\052", "*");
    if name.ends_with('.') { name } else { format!("{name}.") }
}

impl Set {
    fn read(element: &Element) -> Self {
        let alias = element.one("AliasTarget").map(|alias| {
            // Route 53 keeps `dualstack.` in an alias's name; it says the same as without.
            let name = absolute(alias.text("DNSName"));
            (alias.text("HostedZoneId").to_owned(), name)
        });
        let mut values = element.texts("ResourceRecords/ResourceRecord/Value");
        values.sort();
        let ttl = if alias.is_some() { String::new() } else { element.text("TTL").to_owned() };
        Self { name: absolute(element.text("Name")), kind: element.text("Type").to_owned(), alias, values, ttl }
    }

    fn is(&self, other: &Self) -> bool {
        (&self.name, &self.kind) == (&other.name, &other.kind)
    }
}

/// A question of our own.
fn ours(world: &World, path: &str) -> Call {
    plain(Api::Route53, &world.region, "", path, Default::default())
}

/// A question in the name of somebody who called, who may be of another account.
fn theirs(world: &World, call: &Call, path: &str) -> Call {
    let mut made = ours(world, path);
    if let Some(signed) = call.headers.get(AUTHORIZATION) {
        made.headers.insert(AUTHORIZATION, signed.clone());
    }
    made
}

const ZONES: &str = "/2013-04-01/hostedzone";

/// Ids and names of the hosted zones, names as in [`Set`].
pub(in crate::aws_strict) async fn zones(world: &World) -> Outcome<Vec<(String, String)>> {
    zones_by(world, ours(world, ZONES)).await
}

async fn zones_by(world: &World, call: Call) -> Outcome<Vec<(String, String)>> {
    let found = understood(world.forward(&call).await)?;
    let zone =
        |one: &&Element| (one.text("Id").trim_start_matches("/hostedzone/").to_owned(), absolute(one.text("Name")));
    Ok(found.all("HostedZones/HostedZone").iter().map(zone).collect())
}

/// All sets of a zone.
pub(in crate::aws_strict) async fn sets_of(world: &World, zone: &str) -> Outcome<Vec<Set>> {
    sets_by(world, ours(world, &format!("{ZONES}/{zone}/rrset"))).await
}

async fn sets_by(world: &World, call: Call) -> Outcome<Vec<Set>> {
    let found = understood(world.forward(&call).await)?;
    Ok(found.all("ResourceRecordSets/ResourceRecordSet").into_iter().map(Set::read).collect())
}

fn invalid(message: String) -> Refusal {
    refused("InvalidChangeBatch", format!("[{message}]"))
}

impl World {
    pub(super) async fn route53(&mut self, call: &Call) -> Outcome {
        match call.action.as_str() {
            "ChangeResourceRecordSets" => self.change_records(call).await,
            "ListResourceRecordSets" => {
                self.mended(call, |element| {
                    element.change("ResourceRecordSets/ResourceRecordSet", &mut |set| {
                        set.change("Name", &mut |name| name.text = name.text.replace('*', "\\052"));
                        if set.one("AliasTarget").is_some() {
                            set.remove("TTL");
                        }
                    });
                })
                .await
            }
            _ => Ok(self.forward(call).await),
        }
    }

    async fn change_records(&mut self, call: &Call) -> Outcome {
        let zone = call.path.split('/').nth(3).unwrap_or_default().to_owned();
        let Some(batch) = Element::parse(&String::from_utf8_lossy(&call.body)) else {
            return Err(refused("MalformedInput", "Unexpected content"));
        };
        let Some((_, domain)) =
            zones_by(self, theirs(self, call, ZONES)).await?.into_iter().find(|(id, _)| *id == zone)
        else {
            return Err(Refusal::with_status(
                404,
                "NoSuchHostedZone",
                &format!("No hosted zone found with ID: {zone}"),
            ));
        };
        let mut sets = sets_by(self, theirs(self, call, &format!("{ZONES}/{zone}/rrset"))).await?;
        let balancers = hosted(self).await?;
        for change in batch.all("ChangeBatch/Changes/Change") {
            let Some(wanted) = change.one("ResourceRecordSet").map(Set::read) else {
                return Err(refused("MalformedInput", "A change without a record set"));
            };
            let record = format!("[name='{}', type='{}']", wanted.name, wanted.kind);
            if wanted.name != domain && !wanted.name.ends_with(&format!(".{domain}")) {
                return Err(invalid(format!("RRSet with DNS name {} is not permitted in zone {domain}", wanted.name)));
            }
            let at = sets.iter().position(|one| one.is(&wanted));
            match (change.text("Action"), at) {
                ("DELETE", None) => {
                    return Err(invalid(format!("Tried to delete resource record set {record} but it was not found")));
                }
                ("DELETE", Some(at)) if sets[at] != wanted => {
                    let message = format!(
                        "Tried to delete resource record set {record} but the values provided do not match the current values"
                    );
                    return Err(invalid(message));
                }
                ("DELETE", Some(at)) => {
                    sets.remove(at);
                    continue;
                }
                ("CREATE", Some(_)) => {
                    return Err(invalid(format!("Tried to create resource record set {record} but it already exists")));
                }
                (_, Some(at)) => sets[at] = wanted.clone(),
                (_, None) => sets.push(wanted.clone()),
            }
            let alone = |one: &Set| one.name == wanted.name && one.kind != wanted.kind;
            if sets.iter().any(|one| alone(one) && (one.kind == "CNAME" || wanted.kind == "CNAME")) {
                let message = format!(
                    "RRSet of type {} with DNS name {} is not permitted as it conflicts with other records",
                    wanted.kind, wanted.name
                );
                return Err(invalid(message));
            }
            if let Some((zone, name)) = &wanted.alias {
                let bare = name.trim_end_matches('.').trim_start_matches("dualstack.");
                let known = balancers.iter().find(|one| one.dns_name.eq_ignore_ascii_case(bare));
                if name.ends_with(".amazonaws.com.") && known.is_none_or(|one| one.zone != *zone) {
                    let kind = &wanted.kind;
                    return Err(invalid(format!(
                        "Tried to create an alias that targets {name}, type {kind} in zone {zone}, but the alias target name does not lie within the target zone"
                    )));
                }
            }
        }
        // moto knows a wildcard only as it was written.
        let body = String::from_utf8_lossy(&call.body).replace("\\052", "*");
        let call = Call { body: body.into(), ..call.clone() };
        Ok(Answer::xml(200, understood(self.forward(&call).await)?.write()))
    }
}
