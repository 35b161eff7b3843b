//! The bearer of a bootstrap token (`--enable-bootstrap-token-auth`): a machine that joins, known by a Secret in `kube-system`.

use super::{
    bearer::Token,
    service_account::{ObjectKind, Objects},
    user::User,
};
use api::{
    bootstrap_token::{BootstrapToken, NAME_PREFIX, NAMESPACE, SECRET_TYPE, USER_PREFIX, parse},
    object::Fields,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;

/// The user of a token, if a Secret says so.
pub(super) fn user(token: &Token, objects: &dyn Objects, now: Timestamp) -> Option<User> {
    let (id, secret) = parse(token.expose())?;
    let name = format!("{NAME_PREFIX}{id}");
    let object = objects.get(ObjectKind::Secret, NAMESPACE, &name)?;
    if object.str_at("type") != SECRET_TYPE || !object.at("metadata.deletionTimestamp").is_null() {
        return None;
    }
    let known = BootstrapToken::read(&name, |key| {
        let bytes = BASE64_STANDARD.decode(object.at("data").get(key)?.as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    })?;
    verify_slices_are_equal(known.secret.as_bytes(), secret.as_bytes()).ok()?;
    let refused = match &known.groups {
        _ if known.has_expired(now) => "it has expired",
        _ if !known.authenticates => "it is not for authentication",
        Err(_) => "one of its groups is not accepted",
        Ok(groups) => return Some(User::new(format!("{USER_PREFIX}{id}"), groups)),
    };
    tracing::info!(secret = name, "bootstrap token is refused: {refused}");
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;

    struct One(Value);

    impl Objects for One {
        fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<Arc<Value>> {
            let asked = kind == ObjectKind::Secret && namespace == "kube-system" && name == "bootstrap-token-abcdef";
            asked.then(|| Arc::new(self.0.clone()))
        }
    }

    fn secret(changes: &[(&str, &str)]) -> One {
        let mut data = json!({});
        let base = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"),
        ];
        for (key, text) in base.iter().chain(changes) {
            data[*key] = BASE64_STANDARD.encode(text).into();
        }
        One(json!({"type": "bootstrap.kubernetes.io/token", "data": data, "metadata": {}}))
    }

    #[test]
    fn a_machine_is_known_by_its_secret_until_it_ends() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let ask =
            |token: &str, objects: &One| user(&Token::new(token), objects, now).map(|user| (user.name, user.groups));
        let good = "abcdef.0123456789abcdef";
        assert_eq!(
            ask(good, &secret(&[])),
            Some((
                "system:bootstrap:abcdef".to_owned(),
                vec!["system:bootstrappers".to_owned(), "system:bootstrappers:kubeadm:default-node-token".to_owned()]
            ))
        );
        for (token, changes, why) in [
            ("abcdef.0123456789abcdeX", &[][..], "not the form of a token"),
            ("abcdef.1123456789abcdef", &[][..], "another secret"),
            ("abcdee.0123456789abcdef", &[][..], "another id"),
            (good, &[("expiration", "2025-12-31T00:00:00Z")][..], "over"),
            (good, &[("usage-bootstrap-authentication", "false")][..], "not for this"),
            (good, &[("auth-extra-groups", "system:masters")][..], "a group that nobody gives away"),
        ] {
            assert_eq!(ask(token, &secret(changes)), None, "{why}");
        }
        let mut other = secret(&[]);
        other.0["type"] = "Opaque".into();
        assert_eq!(ask(good, &other), None, "another type");
    }
}
