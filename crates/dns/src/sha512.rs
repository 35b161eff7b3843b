//! The digest by which a configuration is known: that of a server's metrics, of its health page and of the operator's conditions.

/// SHA-512 in hexadecimal digits.
pub(crate) fn sha512(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
