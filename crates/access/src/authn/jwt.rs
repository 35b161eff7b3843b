//! JSON Web Tokens of other issuers: taken apart, and checked against the keys that an issuer publishes. What a token says is
//! nothing before `Jwks::verifies`.

use super::bearer::Token;
use aws_lc_rs::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longer text is no token; headers end at 16 kB or so anyway.
const LONGEST: usize = 64 * 1024;
/// Algorithms that are checked. None of them has a secret in common, so that a public key never signs.
pub const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"];

/// A token, its signature not yet checked.
pub struct Jwt {
    algorithm: String,
    key_id: String,
    claims: Map<String, Value>,
    signed: String,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    crit: Option<Value>,
}

impl Jwt {
    /// Takes a token apart; none if it is none.
    pub fn parse(token: &Token) -> Option<Self> {
        let text = token.expose();
        if text.len() > LONGEST {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        if header.crit.is_some() {
            return None;
        }
        Some(Self {
            algorithm: header.alg,
            key_id: header.kid,
            claims: serde_json::from_slice(&decode(payload)?).ok()?,
            signed: signed.to_owned(),
            signature: decode(signature)?,
        })
    }

    /// Who says to have issued it.
    pub fn issuer(&self) -> &str {
        self.text("iss")
    }

    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// A claim that is text, or nothing.
    pub fn text(&self, claim: &str) -> &str {
        self.claims.get(claim).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whom it is for.
    pub fn audiences(&self) -> Vec<String> {
        match self.claims.get("aud") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// A time in whole seconds.
    pub fn seconds(&self, claim: &str) -> Option<i64> {
        let number = self.claims.get(claim)?.as_number()?;
        Some(super::service_account::seconds(number))
    }
}

/// The keys of an issuer.
#[derive(Debug, Default)]
pub struct Jwks(Vec<Jwk>);

#[derive(Debug)]
struct Jwk {
    id: String,
    /// The one algorithm that it is for, where it says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The curve, and the uncompressed point: 4, x, y.
    Ec {
        curve: String,
        point: Vec<u8>,
    },
}

impl Jwks {
    /// Reads a document; keys of other sorts, and those that are not for signatures, are passed over.
    pub fn parse(document: &Value) -> Result<Self, String> {
        let keys = document.get("keys").and_then(Value::as_array).ok_or("has no list of keys")?;
        Ok(Self(keys.iter().filter_map(Jwk::parse).collect()))
    }

    /// Whether one of the keys signed the token, by one of the accepted algorithms.
    pub fn verifies(&self, jwt: &Jwt, accepted: &[String]) -> bool {
        accepted.contains(&jwt.algorithm)
            && self.0.iter().any(|key| (jwt.key_id.is_empty() || key.id == jwt.key_id) && key.verifies(jwt))
    }
}

impl Jwk {
    fn parse(key: &Value) -> Option<Self> {
        let text = |field: &str| key.get(field).and_then(Value::as_str);
        let bytes = |field: &str| BASE64_URL_SAFE_NO_PAD.decode(text(field)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match text("kty")? {
            "RSA" => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            "EC" => {
                let point = [vec![4], bytes("x")?, bytes("y")?].concat();
                Material::Ec { curve: text("crv")?.to_owned(), point }
            }
            _ => return None,
        };
        Some(Self {
            id: text("kid").unwrap_or_default().to_owned(),
            algorithm: text("alg").map(str::to_owned),
            material,
        })
    }

    fn verifies(&self, jwt: &Jwt) -> bool {
        if self.algorithm.as_ref().is_some_and(|algorithm| *algorithm != jwt.algorithm) {
            return false;
        }
        let (message, signature) = (jwt.signed.as_bytes(), &jwt.signature);
        match &self.material {
            Material::Rsa { n, e } => {
                let by = match jwt.algorithm.as_str() {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n, e }.verify(by, message, signature).is_ok()
            }
            Material::Ec { curve, point } => {
                let by = match (jwt.algorithm.as_str(), curve.as_str()) {
                    ("ES256", "P-256") => &signature::ECDSA_P256_SHA256_FIXED,
                    ("ES384", "P-384") => &signature::ECDSA_P384_SHA384_FIXED,
                    ("ES512", "P-521") => &signature::ECDSA_P521_SHA512_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(by, point).verify(message, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };
    use proptest::prelude::*;
    use serde_json::json;

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn a_token_counts_only_with_the_key_and_the_algorithm_that_signed_it() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "a", "x": encode(x), "y": encode(y)});
        let token = |alg: &str, kid: &str| {
            let signed = format!(
                "{}.{}",
                encode(json!({"alg": alg, "kid": kid}).to_string()),
                encode(json!({"iss": "https://i", "aud": "k", "exp": 5}).to_string())
            );
            let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            Jwt::parse(&Token::new(format!("{signed}.{}", encode(signature)))).unwrap()
        };
        let keys = Jwks::parse(&json!({"keys": [jwk, {"kty": "oct", "k": "AA"}]})).unwrap();
        let accepted = ["RS256".to_owned(), "ES256".to_owned()];
        let good = token("ES256", "a");
        assert_eq!(
            (good.issuer(), good.audiences(), good.seconds("exp")),
            ("https://i", vec!["k".to_owned()], Some(5))
        );
        assert!(keys.verifies(&good, &accepted) && keys.verifies(&token("ES256", ""), &accepted));
        for (wrong, why) in [
            (token("ES256", "b"), "another key"),
            (token("RS256", "a"), "another algorithm"),
            (token("none", "a"), "no algorithm"),
            (token("HS256", "a"), "a secret"),
        ] {
            assert!(!keys.verifies(&wrong, &accepted), "{why}");
        }
        assert!(!keys.verifies(&good, &["RS256".to_owned()]), "not accepted");
        assert!(Jwks::parse(&json!({})).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_no_token(text in "[ -~]{0,80}") {
            let _ = Jwt::parse(&Token::new(text));
        }
    }
}
