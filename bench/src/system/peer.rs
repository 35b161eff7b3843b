//! kube-apiserver on an etcd of its own, in an empty folder. Its certificates are made beforehand and not counted.

use super::{SERVICE_RANGES, System, free_addresses};
use crate::{client::Target, credentials::Credentials, process::Process, settings::Peer};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::{path::Path, time::Instant};

/// Starts both at once; kube-apiserver waits for etcd by itself.
pub(crate) async fn start(peer: &Peer) -> anyhow::Result<System> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let credentials = certificates(folder.path())?;
    let [address, client, other] = free_addresses()?;
    let (client, other) = (format!("http://{client}"), format!("http://{other}"));
    let etcd = [
        format!("--data-dir={}", path("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={other}"),
        format!("--initial-advertise-peer-urls={other}"),
        format!("--initial-cluster=default={other}"),
    ];
    let apiserver = [
        format!("--etcd-servers={client}"),
        format!("--secure-port={}", address.port()),
        "--bind-address=127.0.0.1".into(),
        // There is nobody to be told of the address, and looking for one fails on a machine without a default route.
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        format!("--cert-dir={}", path("certificates")),
        format!("--tls-cert-file={}", path("server.crt")),
        format!("--tls-private-key-file={}", path("server.key")),
        format!("--client-ca-file={}", path("ca.crt")),
        format!("--service-account-key-file={}", path("accounts.pub")),
        format!("--service-account-signing-key-file={}", path("accounts.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-cluster-ip-range={SERVICE_RANGES}"),
        "--authorization-mode=Node,RBAC".into(),
    ];
    let started = Instant::now();
    let processes = vec![
        Process::start(&peer.etcd, etcd, folder.path())?,
        Process::start(&peer.kube_apiserver, apiserver, folder.path())?,
    ];
    let target = Target { address, tls: credentials.tls()? };
    Ok(System { name: "kube-apiserver and etcd", target, started, processes, folder })
}

/// Writes what kube-apiserver needs to `folder`; the client is an administrator.
fn certificates(folder: &Path) -> anyhow::Result<Credentials> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "bench");
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let server_key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_pem = server.signed_by(&server_key, &issuer)?.pem();

    let client_key = KeyPair::generate()?;
    let mut client = CertificateParams::new(Vec::new())?;
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    client.distinguished_name.push(DnType::CommonName, "bench");
    client.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let client_pem = client.signed_by(&client_key, &issuer)?.pem();

    let accounts = KeyPair::generate()?;
    for (name, text) in [
        ("ca.crt", &authority_pem),
        ("server.crt", &server_pem),
        ("server.key", &server_key.serialize_pem()),
        ("accounts.key", &accounts.serialize_pem()),
        ("accounts.pub", &accounts.public_key_pem()),
    ] {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(Credentials {
        authority: authority_pem.into_bytes(),
        certificate: client_pem.into_bytes(),
        key: client_key.serialize_pem().into_bytes(),
    })
}
