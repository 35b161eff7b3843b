//! Arbitrary tokens and keys.

use super::*;

proptest! {
    #[test]
    fn arbitrary_tokens_never_panic_and_never_pass(text in "\\PC{0,200}") {
        prop_assert_eq!(verify(&text), Ok(None));
    }

    #[test]
    fn arbitrary_parts_never_pass(
        header in proptest::collection::vec(any::<u8>(), 0..40),
        body in proptest::collection::vec(any::<u8>(), 0..40),
        signature in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let token = format!("{}.{}.{}", encode(&header), encode(&body), encode(&signature));
        prop_assert!(!matches!(verify(&token), Ok(Some(_))));
    }

    #[test]
    fn any_changed_character_breaks_a_token(at in 0_usize..10_000, to in "[A-Za-z0-9_-]") {
        let good = signed(&header(&EC), &claims(), &EC);
        let at = at % good.len();
        prop_assume!(good.as_bytes()[at] != b'.' && &good[at..=at] != to.as_str());
        let bad = format!("{}{to}{}", &good[..at], &good[at + 1..]);
        prop_assert!(!matches!(verify(&bad), Ok(Some(_))), "{}", bad);
    }

    #[test]
    fn arbitrary_pem_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        for label in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "PUBLIC KEY"] {
            prop_assert!(PublicKey::from_pem(&pem(label, &bytes)).is_err());
        }
    }
}
