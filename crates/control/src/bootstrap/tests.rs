//! Signatures come and go with their tokens.

use super::plan::{left, next_end, signatures};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use std::time::Duration;

fn token(id: &str, expiration: &str, signing: &str) -> Secret {
    let pairs = [
        ("token-id", id),
        ("token-secret", "0123456789abcdef"),
        ("expiration", expiration),
        ("usage-bootstrap-signing", signing),
    ];
    let data = pairs.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
    secret.metadata.name = Some(format!("bootstrap-token-{id}"));
    secret
}

fn info(data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ConfigMap { data: Some(data.collect()), ..ConfigMap::default() }
}

#[test]
fn each_token_that_signs_has_its_signature_and_no_other_has_one() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let (good, over, silent) = (
        token("abcdef", "2026-01-02T00:00:00Z", "true"),
        token("ghijkl", "2025-01-02T00:00:00Z", "true"),
        token("mnopqr", "", "false"),
    );
    let map = info(&[("kubeconfig", "text"), ("jws-kubeconfig-ghijkl", "old"), ("other", "stays")]);
    let changes = signatures(&map, &[&good, &over, &silent], now);
    let keys: Vec<(&str, bool)> = changes.iter().map(|(key, value)| (key.as_str(), value.is_some())).collect();
    assert_eq!(keys, [("jws-kubeconfig-abcdef", true), ("jws-kubeconfig-ghijkl", false)]);
    let signature = changes["jws-kubeconfig-abcdef"].clone().unwrap();
    let signed = info(&[("kubeconfig", "text"), ("jws-kubeconfig-abcdef", &signature)]);
    assert!(signatures(&signed, &[&good], now).is_empty(), "once is enough");
    assert!(signatures(&info(&[]), &[&good], now).is_empty(), "there is nothing to sign");
}

#[test]
fn the_time_that_is_left_says_when_to_look_again() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let at = |time: &str| token("abcdef", time, "true");
    assert_eq!(left(&at(""), now), None);
    assert_eq!(left(&at("2026-01-01T00:00:30Z"), now), Some(Duration::from_secs(30)));
    assert_eq!(left(&at("2025-01-01T00:00:30Z"), now), Some(Duration::ZERO));
    assert_eq!(left(&at("whenever"), now), Some(Duration::ZERO));
    let tokens = [&at(""), &at("2026-01-01T00:01:00Z"), &at("2026-01-01T00:00:30Z"), &at("2025-01-01T00:00:00Z")];
    assert_eq!(next_end(&tokens, now), Some(Duration::from_secs(30)));
}
