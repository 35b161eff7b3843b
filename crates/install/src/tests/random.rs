//! No input is too strange.

use super::KNOWN;
use crate::{plan, read};
use proptest::prelude::*;
use std::path::Path;

fn try_read(text: &str) {
    if let Ok(read) = read(Path::new("f.yaml"), text, KNOWN) {
        plan(&read.cluster, "1.2.3");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        try_read(&text);
    }

    #[test]
    fn arbitrary_values_of_known_fields_never_panic(
        pods in "[0-9a-f:./,]{0,40}", services in "[0-9a-f:./,]{0,40}", address in "[0-9a-f:.,]{0,30}", mask in "-?[0-9]{0,4}",
    ) {
        try_read(&format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking: {{podSubnet: '{pods}', serviceSubnet: '{services}'}}\n\
             controllerManager: {{extraArgs: [{{name: node-cidr-mask-size-ipv6, value: '{mask}'}}]}}\n---\n\
             apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {{advertiseAddress: '{address}'}}\n"
        ));
    }

    #[test]
    fn any_sort_of_value_in_any_place_never_panics(
        field in prop::sample::select(vec!["metadata", "baseDomain", "networking", "platform", "compute", "controlPlane", "featureSet", "featureGates", "publish"]),
        value in prop::sample::select(vec!["1", "x", "[]", "{}", "[1, {a: b}, [c]]", "{name: 3, aws: [1]}", "null", "true", "{aws: {region: 1, ipFamily: [], userTags: 5, serviceEndpoints: [1]}}", "{clusterNetwork: [1, {cidr: 5}], serviceNetwork: 7, machineNetwork: {}}"]),
    ) {
        try_read(&format!("apiVersion: v1\nplatform: {{none: {{}}}}\n{field}: {value}\n"));
        try_read(&format!("apiVersion: v1\nbaseDomain: a.test\n{field}: {value}\n"));
    }
}
