//! The list of plugins as the runtime reads it. Pure.

use super::Plugin;
use net::{Cidr, DualStack};
use serde_json::json;
use std::path::Path;

/// `host-local` gives addresses away in the order of the ranges: the primary family comes first.
pub(super) fn text(plugin: Plugin, ranges: &DualStack<Cidr>, data: &Path, mtu: Option<u32>) -> String {
    let routes: Vec<_> =
        ranges.entries().map(|(family, _)| json!({"dst": format!("{}/0", family.unspecified())})).collect();
    let ranges: Vec<_> = ranges.iter().map(|range| json!([{"subnet": range.to_string()}])).collect();
    let ipam = json!({"type": "host-local", "dataDir": data, "ranges": ranges, "routes": routes});
    // Both masquerade through iptables where asked; rules of ours do it for both families.
    let mut first = match plugin {
        Plugin::Bridge => json!({
            "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false, "ipam": ipam}),
        Plugin::Ptp | Plugin::None => json!({"type": "ptp", "ipMasq": false, "ipam": ipam}),
    };
    if let Some(mtu) = mtu {
        first["mtu"] = json!(mtu);
    }
    let list = json!({"cniVersion": "0.4.0", "name": "twinstack", "plugins": [first]});
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_a_range_and_a_route() {
        let range = |text: &str| text.parse::<Cidr>().unwrap();
        let dual = DualStack::pair(range("fd00:0:0:1::/64"), range("10.244.1.0/24")).unwrap();
        let list: serde_json::Value =
            serde_json::from_str(&text(Plugin::Bridge, &dual, Path::new("/d"), Some(1400))).unwrap();
        let plugin = &list["plugins"][0];
        assert_eq!(plugin["ipam"]["ranges"], json!([[{"subnet": "fd00:0:0:1::/64"}], [{"subnet": "10.244.1.0/24"}]]));
        assert_eq!(plugin["ipam"]["routes"], json!([{"dst": "::/0"}, {"dst": "0.0.0.0/0"}]));
        assert_eq!((&plugin["type"], &plugin["mtu"]), (&json!("bridge"), &json!(1400)));
        let one = text(Plugin::Ptp, &DualStack::one(range("10.244.1.0/24")), Path::new("/d"), None);
        assert!(one.contains("\"ptp\"") && !one.contains("::/0"), "{one}");
    }
}
