//! Stored forms beside literal bytes of other implementations, rotation, and files with mistakes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

const PLAIN: &[u8] = br#"{"apiVersion":"v1","kind":"Secret"}"#;
const K16: &str = "AAECAwQFBgcICQoLDA0ODw==";
const K24: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const K32: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "/v38+/r5+Pf29fTz8vHw7+7t7Ovq6ejn5uXk4+Lh4OA=";

/// What pyca/cryptography 46 (AES) and PyNaCl 1.6 (secretbox) made of PLAIN with a key of the bytes 0, 1, 2, ...
const KNOWN: [(&str, &str, &str); 7] = [
    (
        "aescbc",
        K16,
        "6465666768696a6b6c6d6e6f7071727306230f34d01066288c961e901a1b5e39904251441a1116618e078af5b70b2b2193c37394c82e4e34d927ecd47f9c01d7",
    ),
    (
        "aescbc",
        K24,
        "6465666768696a6b6c6d6e6f70717273461da4b446494c844c772ec79702de3087b3aaa263f1b4b1e96424869119bbb22954ec6506f5b3f74f8d25c459f921e6",
    ),
    (
        "aescbc",
        K32,
        "6465666768696a6b6c6d6e6f70717273d65649f4371f6dca264fec5633b346373c6ec70cde172f408f1f50dec2ec01f22f465c4db3749d56ab0c22aff177c41e",
    ),
    (
        "aesgcm",
        K16,
        "32333435363738393a3b3c3dca1c6ebad5a427185a65fe64ea3d3e0ef12192311f80bc9ae23efafdf1fa4490ee9a32d995ddcdd9fd430a4b85fcfab437d243",
    ),
    (
        "aesgcm",
        K24,
        "32333435363738393a3b3c3d1d2b865cb5b508e9a0f004caf0b5fcdfceaf6fdd803df1aac3004e4a9527e131cbb014a78015c1aa8c612331a0344150c4457c",
    ),
    (
        "aesgcm",
        K32,
        "32333435363738393a3b3c3dbd798eb0ac6ae4911e6e85e879d7dd8e579137a3e224c98ff32029cbd250e9175722b7a6df98a6e3b8ecb0cdc20c061d4230df",
    ),
    (
        "secretbox",
        K32,
        "c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedff919795453e772b79fa8c0cab3f7ca5881700e05296434b0fe81ecad8c079d79d431b2b768d44be5441dbfcdecd05093ebb4c8",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn file(rules: &[(&str, &[&str])]) -> String {
    let mut text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
    for (resources, providers) in rules {
        text.push_str(&format!("- resources: [{resources}]\n  providers: [{}]\n", providers.join(", ")));
    }
    text
}

fn provider(kind: &str, keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret:?}}}")).collect();
    format!("{{{kind}: {{keys: [{}]}}}}", keys.join(", "))
}

fn encryption(rules: &[(&str, &[&str])]) -> Encryption {
    Encryption::parse(&file(rules)).unwrap()
}

fn at(key: &str) -> StorageKey<'_> {
    StorageKey { prefix: "/registry/", key }
}

const SECRET: &str = "secrets/default/s";
const IDENTITY: &str = "{identity: {}}";

#[test]
fn what_others_encrypted_is_read() {
    for (kind, secret, hex) in KNOWN {
        let one = encryption(&[("secrets", &[&provider(kind, &[("key1", secret)])])]);
        let stored = [format!("k8s:enc:{kind}:v1:key1:").as_bytes(), &bytes(hex)].concat();
        let plain = Plain { value: PLAIN.into(), stale: false };
        assert_eq!(one.open(at(SECRET), &stored), Ok(plain), "{kind} {}", secret.len());
    }
}

#[test]
fn what_is_written_has_the_prefix_hides_the_value_and_reads_back() {
    for (kind, secret, hex) in KNOWN {
        let one = encryption(&[("secrets", &[&provider(kind, &[("key1", secret)])])]);
        let stored = one.seal(at(SECRET), PLAIN).unwrap();
        assert!(stored.starts_with(format!("k8s:enc:{kind}:v1:key1:").as_bytes()));
        assert_eq!(stored.len(), format!("k8s:enc:{kind}:v1:key1:").len() + hex.len() / 2, "the same parts");
        assert!(!stored.windows(10).any(|window| window == &PLAIN[..10]));
        assert_ne!(stored, one.seal(at(SECRET), PLAIN).unwrap(), "another nonce each time");
        assert_eq!(one.open(at(SECRET), &stored).unwrap().value, PLAIN);
        let moved = one.open(at("secrets/default/other"), &stored);
        assert_eq!(moved.is_err(), kind == "aesgcm", "only aesgcm binds a value to its place");
        for cut in 0..stored.len() {
            assert_ne!(
                one.open(at(SECRET), &stored[..cut]).ok().map(|plain| plain.value.into_owned()).as_deref(),
                Some(PLAIN)
            );
        }
    }
}

#[test]
fn the_first_key_writes_and_all_of_them_read() {
    let old = encryption(&[("secrets", &[&provider("aescbc", &[("old", K32)])])]);
    let stored = old.seal(at(SECRET), PLAIN).unwrap();
    for providers in [
        &[&provider("aescbc", &[("new", OTHER), ("old", K32)])[..]][..],
        &[&provider("aesgcm", &[("new", OTHER)]), &provider("aescbc", &[("old", K32)])],
        &[IDENTITY, &provider("aescbc", &[("old", K32)])],
    ] {
        let rotated = encryption(&[("secrets", providers)]);
        let read = rotated.open(at(SECRET), &stored).unwrap();
        assert_eq!((&*read.value, read.stale), (PLAIN, true), "{providers:?}");
        let again = rotated.seal(at(SECRET), PLAIN).unwrap();
        assert!(!rotated.open(at(SECRET), &again).unwrap().stale);
    }
    // Two keys of one name are told apart where a wrong one is noticed; aescbc takes one in 256 for the right one.
    for kind in ["aesgcm", "secretbox"] {
        let stored = encryption(&[("secrets", &[&provider(kind, &[("old", K32)])])]).seal(at(SECRET), PLAIN).unwrap();
        let rotated =
            encryption(&[("secrets", &[&provider(kind, &[("old", OTHER)]), &provider(kind, &[("old", K32)])])]);
        let read = rotated.open(at(SECRET), &stored).unwrap();
        assert_eq!((&*read.value, read.stale), (PLAIN, true), "{kind}");
    }
    let with_plain = encryption(&[("secrets", &[&provider("secretbox", &[("a", K32)]), IDENTITY])]);
    assert!(with_plain.open(at(SECRET), PLAIN).unwrap().stale, "plain values wait for encryption");
}

#[test]
fn a_value_that_nobody_can_read_says_what_is_missing() {
    let stored = encryption(&[("secrets", &[&provider("aescbc", &[("old", K32)])])]).seal(at(SECRET), PLAIN).unwrap();
    let key = provider("aescbc", &[("new", K32)]);
    let same_name = provider("aescbc", &[("old", OTHER)]);
    let missing = "it was encrypted by aescbc with key \"old\", which --encryption-provider-config does not give to this resource";
    let other = "it was encrypted by aescbc with key \"old\"; --encryption-provider-config has that key with another secret, or the value is damaged";
    assert_eq!(Encryption::none().open(at(SECRET), &stored), Err(missing.into()));
    assert_eq!(encryption(&[("secrets", &[&key])]).open(at(SECRET), &stored), Err(missing.into()));
    assert_eq!(encryption(&[("configmaps", &[IDENTITY])]).open(at(SECRET), &stored), Err(missing.into()));
    let wrong = encryption(&[("secrets", &[&same_name])]).open(at(SECRET), &stored);
    // CBC has no tag: another key gives nonsense that is seldom padded by chance.
    assert!(wrong == Err(other.into()) || wrong.is_ok_and(|plain| *plain.value != *PLAIN));
    let plain = encryption(&[("secrets", &[&key])]).open(at(SECRET), PLAIN).unwrap_err();
    assert_eq!(
        plain,
        "it is not encrypted, and --encryption-provider-config has no identity among the resource's providers"
    );
    let foreign = Encryption::none().open(at(SECRET), b"k8s:enc:kms:v2:vault:\x0a\x10").unwrap_err();
    assert!(foreign.starts_with("it was encrypted by kms with key \"vault\""), "{foreign}");
}

#[test]
fn resources_are_chosen_by_name_then_group_then_all() {
    let key = |name: &str| provider("aescbc", &[(name, K32)]);
    let chosen = encryption(&[
        ("secrets, deployments.apps", &[&key("named")]),
        ("'*.apps', '*.'", &[&key("group")]),
        ("'*.*'", &[&key("all")]),
        ("configmaps, widgets.example.com", &[&key("masked")]),
    ]);
    for (storage_key, expected) in [
        ("secrets/default/s", "named"),
        ("deployments/default/d", "named"),
        ("replicasets/default/s", "group"),
        ("configmaps/default/c", "group"),
        ("services/specs/default/s", "group"),
        ("minions/n", "group"),
        ("events/default/e", "group"),
        ("example.com/widgets/default/w", "all"),
        ("roles/default/r", "all"),
        ("ranges/serviceips", ""),
        ("masterleases/192.0.2.1", ""),
    ] {
        let stored = chosen.seal(at(storage_key), PLAIN).unwrap();
        let prefix = format!("k8s:enc:aescbc:v1:{expected}:");
        assert_eq!(stored.starts_with(prefix.as_bytes()), !expected.is_empty(), "{storage_key}");
        assert_eq!(chosen.open(at(storage_key), &stored).unwrap(), Plain { value: PLAIN.into(), stale: false });
    }
    let theirs = b"k8s:enc:aescbc:v1:theirs:of a kind that is not served here";
    let read = chosen.open(at("networkpolicies/default/s"), theirs).unwrap();
    assert_eq!((&*read.value, read.stale), (&theirs[..], false), "left alone");
}

#[test]
fn every_mistake_in_the_file_is_told_with_its_field_and_no_secret() {
    let error_text = |rules: &[(&str, &[&str])]| Encryption::parse(&file(rules)).unwrap_err().to_string();
    let good = provider("aescbc", &[("a", K32)]);
    for (resources, expected) in [
        ("", "resources[0].resources: Required value: at least one resource"),
        (
            "Secrets",
            "resources[0].resources[0]: Invalid value: \"Secrets\": names of resources have no capital letters",
        ),
        (
            "'*'",
            "resources[0].resources[0]: Invalid value: \"*\": write *. for all resources of the core group, or *.* for all",
        ),
        (
            "events.events.k8s.io",
            "resources[0].resources[0]: Invalid value: \"events.events.k8s.io\": events are stored in the core group; write events",
        ),
        (
            "'secrets.*'",
            "resources[0].resources[0]: Invalid value: \"secrets.*\": one resource of all groups cannot be named; write RESOURCE.GROUP or *.*",
        ),
        (
            "secrets, secrets",
            "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource stands here twice",
        ),
        (
            "secrets, '*.'",
            "resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: a resource and a wildcard that contains it cannot stand in one list, such as secrets and *.",
        ),
    ] {
        assert_eq!(error_text(&[(resources, &[&good])]), expected);
    }
    let short = provider("secretbox", &[("a", K16), ("", "!!")]);
    let both = format!("{{identity: {{}}, {}", &good[1..]);
    let text = error_text(&[("secrets", &["{kms: {name: x}}", &short, "{}", &both])]);
    let providers = "resources[0].providers";
    let expected = [
        format!(
            "{providers}[0].kms: Forbidden: key management services are not built here; aescbc, aesgcm and secretbox are"
        ),
        format!("{providers}[1].secretbox.keys[0].secret: Invalid value: \"REDACTED\": must be 32 bytes long, is 16"),
        format!("{providers}[1].secretbox.keys[1].name: Required value: it tells later which key encrypted a value"),
        format!("{providers}[1].secretbox.keys[1].secret: Invalid value: \"REDACTED\": must be base64"),
        format!("{providers}[2]: Required value: one of identity, aescbc, aesgcm, secretbox"),
        format!(
            "{providers}[3]: Forbidden: more than one provider in one entry; one of identity, aescbc, aesgcm, secretbox"
        ),
    ];
    assert_eq!(text, expected.join("; "));
    let strange = file(&[("secrets", &[&good.replace("secret:", "secrets:")])]);
    let text = Encryption::parse(&strange).unwrap_err().to_string();
    assert!(!text.contains(K32) && text.contains("secrets"), "{text}");
    let shown = format!("{:?}", encryption(&[("secrets", &[&good])]));
    assert!(!shown.contains(K32) && !shown.contains("[0, 1, 2"), "{shown}");
}
