//! Security groups: managed, brought, managed again; and what their rules are.

use super::cloud::{Cloud, RANGES, families, service};
use e2e::aws_strict::Element;

/// `tcp 80-80 0.0.0.0/0` and so on, sorted.
pub(super) fn rules(group: &Element) -> Vec<String> {
    let mut all = Vec::new();
    for one in group.all("ipPermissions/item") {
        let peers = ["ipRanges/item/cidrIp", "ipv6Ranges/item/cidrIpv6"].into_iter().flat_map(|path| one.texts(path));
        all.extend(
            peers.map(|peer| {
                format!("{} {}-{} {peer}", one.text("ipProtocol"), one.text("fromPort"), one.text("toPort"))
            }),
        );
    }
    all.sort();
    all
}

#[test]
fn groups_are_managed_brought_and_managed_again() {
    let Some(cloud) = Cloud::start(RANGES[0], 2) else { return };
    let dual = || families("RequireDualStack", &["IPv4", "IPv6"]);
    let brought = [("security-groups", cloud.example.brought_group.as_str())];
    cloud.create(&service("web", &[], dual()));
    let host = cloud.host("web");
    let held = || cloud.balancer(&host).texts("SecurityGroups/member");
    let managed = held();
    assert_eq!(managed.len(), 2, "its own, and the one that load balancers share");
    cloud.apply(&service("web", &brought, dual()));
    cloud.until("the brought group alone", || (held() == [cloud.example.brought_group.as_str()]).then_some(()));
    cloud.until("the managed ones are gone", || managed.iter().all(|id| cloud.group(id).is_none()).then_some(()));
    assert_eq!(rules(&cloud.group(&cloud.example.brought_group).unwrap()), Vec::<String>::new(), "never touched");
    cloud.apply(&service("web", &[], dual()));
    let again = cloud
        .until("a managed one again", || Some(held()).filter(|held| *held != [cloud.example.brought_group.as_str()]));
    assert_eq!(again.len(), 2);
    assert!(cloud.group(&cloud.example.brought_group).is_some());
    cloud.create(&service("other", &brought, families("SingleStack", &["IPv4"])));
    let other = cloud.host("other");
    assert_eq!(cloud.balancer(&other).texts("SecurityGroups/member"), [cloud.example.brought_group.as_str()]);
    cloud.delete("web");
    cloud.delete("other");
    cloud.is_empty();
}
