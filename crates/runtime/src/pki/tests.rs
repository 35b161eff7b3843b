//! Authorities and identities on disk: made, loaded, refused, replaced. Handshakes are in `tests/tls.rs`.

use super::*;
use std::{
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 57 * YEAR
}

fn serving(addresses: &[&str]) -> Purpose {
    let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Purpose::Serving { names: vec!["kubernetes".to_owned(), "*.example.test".to_owned()], addresses }
}

fn client(groups: &[&str]) -> Purpose {
    Purpose::Client {
        user: "system:node:ä".to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

/// What a certificate is for, as read back from it.
fn read_back(identity: &Identity) -> Option<Purpose> {
    purpose::of(&x509_parser::parse_x509_certificate(identity.leaf()).unwrap().1)
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn message(result: Result<impl Sized, PkiError>) -> String {
    result.err().expect("must be refused").to_string()
}

#[test]
fn certificates_say_what_they_were_asked_to_for_every_shape() {
    let authority = Authority::create("test", now()).unwrap();
    let many: Vec<String> = (0..40).map(|number| format!("group-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for purpose in [
        serving(&["127.0.0.1"]),
        serving(&["::1"]),
        serving(&["127.0.0.1", "::1"]),
        serving(&["2001:db8::1", "192.0.2.1"]),
        client(&[]),
        client(&["system:masters"]),
        client(&["system:nodes", "b", "c"]),
        client(&many),
    ] {
        let identity = authority.issue(&purpose, now()).unwrap();
        assert_eq!(read_back(&identity).as_ref(), Some(&purpose));
        assert_eq!(identity.validity().not_after, now() + YEAR);
    }
}

#[test]
fn an_identity_does_not_outlive_its_authority() {
    let authority = Authority::create("test", now()).unwrap();
    let identity = authority.issue_for(&client(&[]), now(), 50 * YEAR).unwrap();
    assert_eq!(identity.validity().not_after, now() + 10 * YEAR);
}

#[test]
fn names_that_are_none_are_refused() {
    let authority = Authority::create("test", now()).unwrap();
    for name in ["", "192.0.2.1", "::1", "ünïcode"] {
        let purpose = Purpose::Serving { names: vec![name.to_owned()], addresses: vec![] };
        let expected = format!("{name:?} cannot be a name in a certificate; give a DNS name, or an address as such");
        assert_eq!(message(authority.issue(&purpose, now())), expected);
    }
}

#[test]
fn an_authority_is_made_once_with_private_files() {
    let directory = tempfile::tempdir().unwrap();
    let pki = directory.path().join("pki");
    let made = Authority::load_or_create(&pki, "twinstack", now()).unwrap();
    let loaded = Authority::load_or_create(&pki, "another name", now() + YEAR).unwrap();
    assert_eq!(made.certificate_pem(), loaded.certificate_pem());
    assert_eq!((mode(&pki), mode(&pki.join("ca.key")), mode(&pki.join("ca.crt"))), (0o700, 0o600, 0o644));
}

#[test]
fn processes_that_start_together_share_one_authority() {
    let directory = tempfile::tempdir().unwrap();
    let made: Vec<String> = std::thread::scope(|scope| {
        let load =
            || Authority::load_or_create(directory.path(), "twinstack", now()).unwrap().certificate_pem().to_owned();
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|pem| *pem == made[0]));
}

#[test]
fn an_authority_interrupted_after_its_key_goes_on_from_it() {
    let directory = tempfile::tempdir().unwrap();
    Authority::load_or_create(directory.path(), "twinstack", now()).unwrap();
    let key = std::fs::read(directory.path().join("ca.key")).unwrap();
    std::fs::remove_file(directory.path().join("ca.crt")).unwrap();
    Authority::load_or_create(directory.path(), "twinstack", now()).unwrap();
    assert_eq!(std::fs::read(directory.path().join("ca.key")).unwrap(), key);
}

#[test]
fn an_authority_that_does_not_fit_is_named_and_left_alone() {
    let other = Authority::create("other", now()).unwrap();
    let leaf = other.issue(&client(&[]), now()).unwrap();
    let two = format!("{0}{0}", other.certificate_pem());
    let cases: [(&str, Option<&str>, &str); 7] = [
        (
            "ca.crt",
            Some("nonsense"),
            "ca.crt: holds no certificate; expected one PEM certificate of an authority; restore",
        ),
        ("ca.crt", Some(&two), "ca.crt: holds several certificates; expected"),
        ("ca.crt", Some(leaf.chain_pem()), "ca.crt: the certificate is not an authority's; expected"),
        ("ca.crt", Some(other.certificate_pem()), "ca.crt: the certificate does not belong to the key in "),
        ("ca.key", Some(""), "ca.key: "),
        ("ca.key", Some("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "ca.key: "),
        ("ca.key", None, "ca.crt: there is a certificate but no key in "),
    ];
    for (file, content, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        Authority::load_or_create(directory.path(), "twinstack", now()).unwrap();
        let path = directory.path().join(file);
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let message = message(Authority::load_or_create(directory.path(), "twinstack", now()));
        assert!(message.contains(expected), "{message}");
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), content, "left as it was");
    }
}

#[test]
fn an_expired_authority_is_refused_with_its_date() {
    let directory = tempfile::tempdir().unwrap();
    Authority::load_or_create(directory.path(), "twinstack", now()).unwrap();
    let message = message(Authority::load_or_create(directory.path(), "twinstack", now() + 11 * YEAR));
    assert!(
        message.ends_with("the authority expired at 2036-12-15T00:00:00Z; replace it and everything it signed"),
        "{message}"
    );
}

#[test]
fn a_kept_identity_is_used_until_it_is_due_or_asked_for_other_names() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create("test", now()).unwrap();
    let path = directory.path().join("pki/apiserver.pem");
    let keep = |purpose: &Purpose, now| authority.keep(&path, purpose, now).unwrap();
    let first = keep(&serving(&["127.0.0.1"]), now());
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(keep(&serving(&["127.0.0.1"]), now() + YEAR / 2), first);
    let renewed = keep(&serving(&["127.0.0.1"]), now() + YEAR / 10 * 9);
    assert_ne!(renewed, first);
    let renamed = keep(&serving(&["127.0.0.1", "::1"]), now() + YEAR);
    assert_ne!(renamed, renewed);
    assert_eq!(Identity::load(&path).unwrap(), renamed);
}

#[test]
fn an_identity_that_is_damaged_or_foreign_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::create("test", now()).unwrap(), Authority::create("test", now()).unwrap());
    let path = directory.path().join("admin.pem");
    let (a, b) = (authority.issue(&client(&[]), now()).unwrap(), authority.issue(&client(&[]), now()).unwrap());
    let foreign = other.issue(&client(&[]), now()).unwrap();
    let mixed = format!("{}{}", a.chain_pem(), b.key_pem().expose());
    let foreign = format!("{}{}", foreign.chain_pem(), foreign.key_pem().expose());
    for (content, expected) in [
        ("", "holds no certificate; expected a PEM certificate and its private key"),
        (a.chain_pem(), "bad private key: "),
        (&mixed, "the certificate does not belong to the key"),
        (&foreign, "was not signed by the authority in use; remove it to have a new one made"),
    ] {
        std::fs::write(&path, content).unwrap();
        let message = message(authority.keep(&path, &client(&[]), now()));
        assert!(message.starts_with(&format!("{}: {expected}", path.display())), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_pair_of_files_that_do_not_fit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create("test", now()).unwrap();
    let (a, b) = (authority.issue(&client(&[]), now()).unwrap(), authority.issue(&client(&[]), now()).unwrap());
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    std::fs::write(&certificate, a.chain_pem()).unwrap();
    std::fs::write(&key, a.key_pem().expose()).unwrap();
    assert_eq!(Identity::load_pair(&certificate, &key).unwrap(), a);
    std::fs::write(&key, b.key_pem().expose()).unwrap();
    let expected =
        format!("{}: the certificate does not belong to the key in {}", certificate.display(), key.display());
    assert_eq!(message(Identity::load_pair(&certificate, &key)), expected);
    let gone = directory.path().join("gone");
    assert_eq!(
        message(Identity::load_pair(&gone, &key)),
        format!("{}: cannot be read: No such file or directory (os error 2)", gone.display())
    );
}

#[test]
fn rotation_happens_when_due_and_only_then() {
    let authority = Authority::create("test", now()).unwrap();
    let purpose = serving(&["127.0.0.1", "::1"]);
    let rotating = Rotating::new(&authority.issue(&purpose, now()).unwrap()).unwrap();
    let before = rotating.validity();
    let issue = |now| authority.issue(&purpose, now);
    assert!(!rotating.rotate_if_due(now() + YEAR / 2, issue).unwrap());
    assert_eq!(rotating.validity(), before);
    assert!(rotating.rotate_if_due(now() + YEAR / 10 * 9, issue).unwrap());
    assert!(rotating.validity().unwrap().not_after > before.unwrap().not_after);
    let refused = rotating.rotate_if_due(now() + 3 * YEAR, |_| Err(PkiError::Key("no luck".to_owned())));
    assert_eq!(message(refused), "key: no luck");
}
