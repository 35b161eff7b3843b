//! Signing keys: their formats, ids and what is published of them.

use super::*;

#[test]
fn the_key_set_carries_public_halves_only() {
    let keys: Vec<PublicKey> = [&*EC, &*RSA].iter().flat_map(|key| PublicKey::from_pem(key).unwrap()).collect();
    let document = jwks(&keys);
    let fields = |index: usize| document["keys"][index].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(0), ["alg", "crv", "kid", "kty", "use", "x", "y"]);
    assert_eq!(fields(1), ["alg", "e", "kid", "kty", "n", "use"]);
    assert_eq!(document["keys"][1]["e"], "AQAB");
    assert_eq!(
        openid_configuration(&Settings::new(ISSUER), "https://[::1]:6443/openid/v1/jwks", &keys),
        json!({
            "issuer": ISSUER, "jwks_uri": "https://[::1]:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "RS256"],
        })
    );
}

#[test]
fn the_key_id_is_the_hash_of_the_public_key() {
    // Made with openssl: `ec -pubout -outform DER | dgst -sha256 -binary | basenc --base64url`.
    let public = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEpHo37RsYe4lf0vQU+TQqoKoI099e\n\
        bOvoZ9GC0ru1SmDxSeDgy9kURMDD52+BPhmi5UTTScab9XDOhCpD1DNLhw==\n\
        -----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::from_pem(public).unwrap()[0].id(), "rhU51CXwNM4CQ5LKM95dhQF-N88IPSu8FG2DUSi2EWw");
}

#[test]
fn the_older_private_key_formats_name_the_same_key() {
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der(&EC)).unwrap();
    let sec1: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().unwrap();
    let older = SigningKey::from_pem(&pem("EC PRIVATE KEY", sec1.as_ref())).unwrap();
    assert_eq!(older.public(), SigningKey::from_pem(&EC).unwrap().public());
}

#[test]
fn keys_of_other_kinds_are_refused_without_being_shown() {
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    for (text, want) in [
        ("nothing", KeyError::NoPem),
        ("-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----\n", KeyError::BadPem(0)),
        (&pem("CERTIFICATE", b"x"), KeyError::Label("CERTIFICATE".into())),
        (&pem("PRIVATE KEY", b"x"), KeyError::Kind),
        (&p384.serialize_pem(), KeyError::Kind),
        (&p384.public_key_pem(), KeyError::NotPrivate),
    ] {
        assert_eq!(SigningKey::from_pem(text).unwrap_err(), want, "{text}");
    }
    assert_eq!(PublicKey::from_pem(&p384.public_key_pem()), Err(KeyError::Kind));
    // A curve with points of the same length: the last number of P-256's identifier changed.
    let mut other = der(&rcgen::KeyPair::from_pem(&EC).unwrap().public_key_pem());
    let (p256, at) = ([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 15);
    assert_eq!(other[at..at + 8], p256);
    other[at + 7] = 0x06;
    assert_eq!(PublicKey::from_pem(&pem("PUBLIC KEY", &other)), Err(KeyError::Kind));
}

#[test]
fn debug_hides_keys_and_tokens() {
    let issuer = issuer(&EC);
    let id = issuer.key().public().id().to_owned();
    let shown = format!("{issuer:?}");
    assert!(shown.contains(&format!("SigningKey(ES256 {id}, ***)")), "{shown}");
    assert_eq!(format!("{:?}", issue(&EC, json!({})).unwrap()), "Issued(JTI=id-1, ***)");
}
