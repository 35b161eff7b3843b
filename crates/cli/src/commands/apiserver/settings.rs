//! The flags of the API server as `apiserver::launch::ApiServerOptions`; every mistake in them is noted before anything happens.

use super::SERVICE_RANGES;
use crate::read;
use access::{Mode, authn::Anonymous};
use apiserver::{
    admission::{AdmissionConfiguration, Plugins},
    audit::Target,
    kubelet::settings::{AddressTypes, Settings as Kubelets},
    launch::{ApiServerOptions, Audit, Tokens},
    services::{KubernetesService, RuleSet},
};
use net::flags;
use runtime::{
    config::Settings,
    http::Limits,
    listen::Hosts,
    pki::{Bundle, Identity},
};
use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};
use store::{AsItIs, EtcdConfig, EtcdTls, Retention};

/// What the number of connections may be: without any, nobody could be served.
const AT_LEAST_ONE: &str = "a number from 1 on";
const DURATION: &str = "a length of time such as 90s or 1h30m";

/// Reads them all.
pub(crate) fn read(given: &mut Settings) -> Option<ApiServerOptions> {
    let data_dir = given.required("data-dir", "a folder", read::path);
    let hosts = given.or("bind-address", Hosts::Everywhere, "one address, or one of each family", Hosts::from_str);
    let port = given.or("secure-port", 6443, "a port from 0 to 65535", str::parse::<u16>);
    let ranges = given.or("service-cluster-ip-range", SERVICE_RANGES.to_owned(), "", |text| {
        flags::service_ranges(text).map(|_| text.to_owned())
    });
    let service_ranges = flags::service_ranges(&ranges).ok();
    let primary = service_ranges.map(|ranges| net::HasFamily::family(ranges.primary()));
    let advertise = given.optional("advertise-address", "addresses that other machines reach", |text| {
        flags::advertise_address(text, primary.unwrap_or(net::Family::V4))
    });
    let node_ports = given.or(
        "service-node-port-range",
        flags::node_port_range("30000-32767").ok().flatten(),
        "",
        flags::node_port_range,
    );
    let etcd = etcd(given);
    let serving = pair(given, "tls-cert-file", "tls-private-key-file");
    let options = ApiServerOptions {
        etcd,
        hosts,
        port,
        advertise,
        cert_dir: given.optional("cert-dir", "a folder", read::path),
        serving,
        client_ca: given.optional("client-ca-file", "a file", read::path),
        token_file: given.optional("token-auth-file", "a file", read::path),
        anonymous: Anonymous::from_flag(given.optional("anonymous-auth", "true, false", str::parse::<bool>)),
        authorization: given.or("authorization-mode", vec![Mode::Node, Mode::Rbac], "Node, RBAC, AlwaysAllow", modes),
        tokens: tokens(given),
        admission: admission(given),
        node_ports,
        service_family_rules: given.or("service-family-rules", RuleSet::default(), "seed, upstream", str::parse),
        kubernetes_service: match given.or("dual-stack-kubernetes-service", false, "true, false", str::parse::<bool>) {
            true => KubernetesService::Both,
            false => KubernetesService::Primary,
        },
        audit: audit(given),
        limits: limits(given),
        priority_and_fairness: given.or("enable-priority-and-fairness", true, "true, false", str::parse::<bool>),
        max_requests: given.or("max-requests-inflight", 400, "a number", str::parse::<usize>),
        max_mutating_requests: given.or("max-mutating-requests-inflight", 200, "a number", str::parse::<usize>),
        request_timeout: given.or("request-timeout", Duration::from_secs(60), DURATION, read::duration),
        event_ttl: given.or("event-ttl", Duration::from_secs(3600), DURATION, read::duration),
        kubelets: kubelets(given),
        encryption: given.optional("encryption-provider-config", "a file", read::path),
        data_dir: data_dir?,
        service_ranges: service_ranges?,
    };
    Some(options)
}

fn modes(text: &str) -> Result<Vec<Mode>, String> {
    let modes = text.split(',').map(|word| match word.trim() {
        "Node" => Ok(Mode::Node),
        "RBAC" => Ok(Mode::Rbac),
        "AlwaysAllow" => Ok(Mode::AlwaysAllow),
        other => Err(format!("there is no mode {other:?} here")),
    });
    modes.collect()
}

/// Two files that only make sense together.
fn pair(given: &mut Settings, first: &'static str, second: &'static str) -> Option<(PathBuf, PathBuf)> {
    let files = (given.optional(first, "a file", read::path), given.optional(second, "a file", read::path));
    match files {
        (Some(one), Some(other)) => Some((one, other)),
        (Some(_), None) => {
            given.reject(first, format!("needs --{second} beside it"));
            None
        }
        (None, Some(_)) => {
            given.reject(second, format!("needs --{first} beside it"));
            None
        }
        (None, None) => None,
    }
}

fn limits(given: &mut Settings) -> Limits {
    let usual = Limits::default();
    let positive = |text: &str| text.parse::<std::num::NonZeroUsize>().map(usize::from);
    Limits {
        connections: given.or("max-connections", usual.connections, AT_LEAST_ONE, positive),
        connections_per_source: given.or(
            "max-connections-per-source",
            usual.connections_per_source,
            AT_LEAST_ONE,
            positive,
        ),
        ..usual
    }
}

fn etcd(given: &mut Settings) -> Option<EtcdConfig> {
    let endpoints = given.optional("etcd-servers", "URLs such as https://[::1]:2379", read::words);
    let prefix = given.or("etcd-prefix", "/registry".to_owned(), "a prefix", |text| Ok::<_, String>(text.to_owned()));
    let ca = given.optional("etcd-cafile", "a readable file", |text| std::fs::read(text));
    let certificate = given.optional("etcd-certfile", "a readable file", |text| std::fs::read(text));
    let key = given.optional("etcd-keyfile", "a readable file", |text| std::fs::read(text));
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => {
            given.reject("etcd-certfile", "needs --etcd-keyfile beside it");
            None
        }
        (None, Some(_)) => {
            given.reject("etcd-keyfile", "needs --etcd-certfile beside it");
            None
        }
        (None, None) => None,
    };
    let tls = ca.map(|ca| EtcdTls { ca, identity });
    endpoints.map(|endpoints| EtcdConfig {
        endpoints,
        prefix,
        tls,
        retention: Retention::default(),
        // Replaced by the server, which reads the file of --encryption-provider-config.
        transform: Arc::new(AsItIs),
        form: apiserver::stored::laid_out,
    })
}

fn tokens(given: &mut Settings) -> Tokens {
    Tokens {
        issuers: given.or("service-account-issuer", Vec::new(), "URLs", read::words),
        signing_key: given.optional("service-account-signing-key-file", "a file", read::path),
        key_files: given.or("service-account-key-file", Vec::new(), "files", read::paths),
        audiences: given.or("api-audiences", Vec::new(), "names", read::words),
        max_expiration: given.optional("service-account-max-token-expiration", DURATION, read::duration),
        extend_expiration: given.optional("service-account-extend-token-expiration", "true, false", str::parse::<bool>),
    }
}

/// Which plugins run, and the configuration of those that have one.
fn admission(given: &mut Settings) -> Plugins {
    let enable = given.or("enable-admission-plugins", Vec::new(), "names of plugins", read::words);
    let disable = given.or("disable-admission-plugins", Vec::new(), "names of plugins", read::words);
    let mut plugins = Plugins::choose(&enable, &disable).unwrap_or_else(|mistakes| {
        for (flag, mistake) in mistakes {
            given.reject(flag, mistake.to_string());
        }
        Plugins::default()
    });
    let file = "a file with an AdmissionConfiguration";
    let configuration =
        given.optional("admission-control-config-file", file, |text| AdmissionConfiguration::load(text.as_ref()));
    if let Some(config) = configuration.and_then(|configuration| configuration.pod_security) {
        plugins.configure(config);
    }
    plugins
}

fn audit(given: &mut Settings) -> Option<Audit> {
    let policy = given.optional("audit-policy-file", "a file", read::path);
    let megabytes = given.optional("audit-log-maxsize", "a number", str::parse::<u64>);
    let kept = given.optional("audit-log-maxbackup", "a number", str::parse::<usize>);
    let target = given.optional("audit-log-path", "a file, or -", |text| Ok::<_, String>(Target::from_flag(text)));
    if policy.is_some() && target.is_none() {
        given.reject("audit-policy-file", "needs --audit-log-path beside it");
    }
    let target = match target? {
        Target::File { path, .. } => Target::File {
            path,
            max_bytes: megabytes.map(|size| size.saturating_mul(1 << 20)),
            backups: kept.unwrap_or(0),
        },
        stdout => stdout,
    };
    Some(Audit { policy, target })
}

fn kubelets(given: &mut Settings) -> Kubelets {
    let authorities =
        given.optional("kubelet-certificate-authority", "a file with certificates", |text| Bundle::load(text.as_ref()));
    let shown = pair(given, "kubelet-client-certificate", "kubelet-client-key");
    let identity = shown.and_then(|(certificate, key)| match Identity::load_pair(&certificate, &key) {
        Ok(identity) => Some(identity),
        Err(error) => {
            given.reject("kubelet-client-certificate", error.to_string());
            None
        }
    });
    let types = "Hostname, InternalDNS, InternalIP, ExternalDNS, ExternalIP";
    let address_types =
        given.or("kubelet-preferred-address-types", AddressTypes::default(), types, AddressTypes::from_str);
    Kubelets { authorities, identity, address_types, ..Kubelets::default() }
}
