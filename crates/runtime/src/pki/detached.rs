//! Detached signatures of a text by a shared secret (JWS, RFC 7515, HS256), as `kubeadm join` checks those of `cluster-info`.

use aws_lc_rs::{digest, hmac};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

/// Header and signature with nothing between them: the text is known to whoever checks.
#[must_use]
pub fn detached_signature(text: &str, key_id: &str, secret: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{key_id}"}}"#));
    let signed = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(text));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

/// The SHA-256 of some bytes, in hexadecimal, as names are made of it.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another implementation of HMAC has it; kubeadm's own check takes the same form.
    #[test]
    fn the_signature_is_the_one_that_kubeadm_expects() {
        assert_eq!(
            detached_signature("apiVersion: v1\n", "abcdef", "0123456789abcdef"),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..K1chermAQEq0rdqy-ehj0VDfmA_ytv8Wzh9g26FldrE"
        );
    }
}
