//! AWS: the cloud-config, annotations of Services, and answers of its APIs.

use crate::{Target, input};
use aws::{
    cloud_config::{CloudConfig, Gate, transform},
    model::request::Request,
};
use k8s_openapi::api::core::v1::Service;

pub(crate) const TARGETS: &[Target] = &[
    Target::new("cloud-config", cloud_config),
    Target::new("aws-service", service).up_to(8 << 10),
    Target::new("aws-answer", answer).up_to(8 << 10),
];

/// What is written is read, and a second time nothing is left to change.
fn cloud_config(data: &[u8]) {
    let text = input::text(data);
    if let Ok((config, _)) = CloudConfig::parse(&text) {
        let _ = (config.region(), config.cluster_id().is_some(), config.node_families());
    }
    for gate in [Gate::On, Gate::Off] {
        let Ok((once, _)) = transform(&text, gate) else { continue };
        let twice = transform(&once, gate).map(|(text, _)| text);
        assert_eq!(twice.as_deref().ok(), Some(once.as_str()), "transformed twice");
    }
}

/// A Service with annotations of anybody who may write Services.
fn service(data: &[u8]) {
    let Ok(mut service) = serde_json::from_slice::<Service>(data) else { return };
    service.metadata.namespace.get_or_insert_with(|| "a".to_owned());
    service.metadata.name.get_or_insert_with(|| "s".to_owned());
    let Ok(Some(request)) = Request::read(&service) else { return };
    let _ = aws::model::rules::ingress(&request);
    let _ = aws::model::health::network(&request, None);
    let _ = aws::model::health::classic(&request, None);
}

fn answer(data: &[u8]) {
    let text = input::text(data);
    let _ = aws::clients::is_answer(&text);
}
