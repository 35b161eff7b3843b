//! Subnets, instances and addresses.

use super::{Api, Call, Outcome, World};
use crate::aws_strict::{moto::understood, refusal::Answer, xml::Element};

/// moto writes a Python dictionary where AWS writes a word.
pub(super) fn mend_subnets(element: &mut Element) {
    for path in ["subnetSet/item", "subnet"] {
        let path = format!("{path}/ipv6CidrBlockAssociationSet/item/ipv6CidrBlockState/state");
        element.change(&path, &mut |state| {
            if let Some(word) = state.text.split('\'').nth(3) {
                state.text = word.to_owned();
            }
        });
    }
}

const INTERFACES: &str = "networkInterfaceSet/item";

impl World {
    pub(super) async fn instances(&self) -> Outcome<Vec<Element>> {
        let found = self.ask(Api::Ec2, "DescribeInstances", &[]).await?;
        Ok(found.all("reservationSet/item/instancesSet/item").into_iter().cloned().collect())
    }

    /// `EnablePrimaryIpv6` makes the first IPv6 address of each interface a primary one.
    pub(super) async fn run_instances(&mut self, call: &Call) -> Outcome {
        let element = understood(self.forward(call).await)?;
        if call.params.get("EnablePrimaryIpv6") == "true" {
            let made = element.texts("instancesSet/item/networkInterfaceSet/item/networkInterfaceId");
            self.kept.primary_ipv6.extend(made);
        }
        Ok(Answer::xml(200, element.write()))
    }

    pub(super) async fn change_interface(&mut self, call: &Call) -> Outcome {
        if call.params.get("EnablePrimaryIpv6") != "true" {
            return Ok(self.forward(call).await);
        }
        self.kept.primary_ipv6.insert(call.params.get("NetworkInterfaceId").to_owned());
        let done = Element::leaf("return", "true");
        Ok(Answer::xml(200, Element::branch("ModifyNetworkInterfaceAttributeResponse", vec![done]).write()))
    }

    pub(super) async fn describe_instances(&mut self, call: &Call) -> Outcome {
        self.mended(call, |element| {
            element.change(&format!("reservationSet/item/instancesSet/item/{INTERFACES}"), &mut |interface| {
                let primary = self.kept.primary_ipv6.contains(interface.text("networkInterfaceId"));
                let mut first = true;
                interface.change("ipv6AddressesSet/item", &mut |address| {
                    address.set("isPrimaryIpv6", if primary && first { "true" } else { "false" });
                    first = false;
                });
            });
        })
        .await
    }

    /// Addresses that a load balancer has are in use.
    pub(super) async fn describe_addresses(&mut self, call: &Call) -> Outcome {
        self.mended(call, |element| {
            element.change("addressesSet/item", &mut |address| {
                let id = address.text("allocationId").to_owned();
                if self.kept.addresses.values().any(|(used, _)| *used == id) {
                    address.set("associationId", &id.replace("eipalloc-", "eipassoc-"));
                }
            });
        })
        .await
    }
}
