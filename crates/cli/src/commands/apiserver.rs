//! `twinstack apiserver`: a Kubernetes API server with its own store, or on etcd.

mod settings;

use super::Command;
use crate::{
    component,
    flag::{Flag, flag},
};
use runtime::config::Settings;

pub(crate) use settings::read;

pub(super) const COMMAND: Command = Command {
    name: "apiserver",
    about: "serve the Kubernetes API",
    more: "State is kept in the data folder, or in etcd when --etcd-servers is given; keys and values are those of Kubernetes. \
           Certificates, a signing key and an administrator's kubeconfig are made when there are none. Flags are those of \
           kube-apiserver where it has them; every one can also stand in the file of --config, or in the environment as \
           TWINSTACK_APISERVER_ and its name in capitals.",
    example: "twinstack apiserver --data-dir ./data --service-cluster-ip-range 10.96.0.0/16,fd00:10:96::/112\n\
              kubectl --kubeconfig ./data/admin.kubeconfig get namespaces",
    flags: &[FLAGS],
    positional: None,
    long_running: true,
    run,
};

/// Two ranges that no one routes; IPv4 first, as most clusters have it.
pub(crate) const SERVICE_RANGES: &str = "10.96.0.0/16,fd00:10:96::/112";

#[rustfmt::skip]
pub(crate) const FLAGS: &[Flag] = &[
    flag("data-dir", "FOLDER", "", "where state, certificates and admin.kubeconfig are kept"),
    flag("bind-address", "ADDRESS[,ADDRESS]", "::", "where to listen: one address, one of each family, or :: for both"),
    flag("secure-port", "PORT", "6443", "port for HTTPS; 0 takes a free one"),
    flag("advertise-address", "ADDRESS[,ADDRESS]", "", "where other machines reach this server; the first in the family of the first service range"),
    flag("service-cluster-ip-range", "CIDR[,CIDR]", SERVICE_RANGES, "addresses for Services, one range or one of each family; the first is the default family"),
    flag("service-node-port-range", "FIRST-LAST", "30000-32767", "ports for Services on every node, both families alike"),
    flag("service-family-rules", "RULES", "seed", "what a Service may leave out: seed (two families mean both, clusterIPs alone will do) or upstream (as kube-apiserver)"),
    flag("dual-stack-kubernetes-service", "BOOL", "false", "give the kubernetes Service an address of each family that Services have"),
    flag("etcd-servers", "URL,...", "", "keep state in etcd instead of the data folder"),
    flag("etcd-prefix", "PREFIX", "/registry", "where in etcd"),
    flag("etcd-cafile", "FILE", "", "who signs etcd's certificates"),
    flag("etcd-certfile", "FILE", "", "certificate to show to etcd"),
    flag("etcd-keyfile", "FILE", "", "its key"),
    flag("encryption-provider-config", "FILE", "", "EncryptionConfiguration: which values are encrypted at rest, by which keys"),
    flag("cert-dir", "FOLDER", "", "where certificates are kept; pki in the data folder when not given"),
    flag("tls-cert-file", "FILE", "", "certificate to show to clients; made when not given"),
    flag("tls-private-key-file", "FILE", "", "its key"),
    flag("client-ca-file", "FILE", "", "who signs clients' certificates, beside the server's own authority"),
    flag("token-auth-file", "FILE", "", "CSV of token,user,uid,\"group,...\""),
    flag("anonymous-auth", "BOOL", "", "whether requests without credentials are let in (as system:anonymous): true everywhere, false nowhere; only to health and version when not given"),
    flag("authorization-mode", "MODE,...", "Node,RBAC", "who decides, in this order: Node, RBAC, AlwaysAllow"),
    flag("enable-admission-plugins", "NAME,...", "", "plugins to switch on beside those that are: DenyServiceExternalIPs can be"),
    flag("disable-admission-plugins", "NAME,...", "", "plugins to switch off: ServiceAccount and PodSecurity can be"),
    flag("admission-control-config-file", "FILE", "", "AdmissionConfiguration: defaults and exemptions of PodSecurity"),
    flag("service-account-issuer", "URL,...", "https://kubernetes.default.svc.cluster.local", "issuer of service account tokens; the first signs, all are believed"),
    flag("service-account-signing-key-file", "FILE", "", "key that signs them; made when not given"),
    flag("service-account-key-file", "FILE,...", "", "further keys that are believed"),
    flag("service-account-max-token-expiration", "DURATION", "", "longest life of a token"),
    flag("service-account-extend-token-expiration", "BOOL", "true", "let the tokens of Pods live on for a year where the Pod asked for an hour, while clients learn to renew them"),
    flag("api-audiences", "NAME,...", "", "whom tokens for this API must be for; the issuer when not given"),
    flag("audit-log-path", "FILE", "", "write what was asked by whom as JSON lines; - is standard output"),
    flag("audit-policy-file", "FILE", "", "what to write; metadata of everything when not given"),
    flag("audit-log-maxsize", "MEGABYTES", "", "rotate the file before it grows past this"),
    flag("audit-log-maxbackup", "COUNT", "", "older files to keep"),
    flag("max-requests-inflight", "COUNT", "400", "reads served at a time; together with the next the seats that priority levels share; both 0 is no limit"),
    flag("max-mutating-requests-inflight", "COUNT", "200", "writes served at a time"),
    flag("enable-priority-and-fairness", "BOOL", "true", "obey FlowSchemas and PriorityLevelConfigurations; false leaves the two limits above"),
    flag("max-connections", "COUNT", "10000", "connections at a time; at the limit idle ones make room"),
    flag("max-connections-per-source", "COUNT", "5000", "of them from one IPv4 address or IPv6 /64"),
    flag("request-timeout", "DURATION", "1m0s", "time for a request that is no watch and no connection to a node"),
    flag("event-ttl", "DURATION", "1h0m0s", "how long Events are kept"),
    flag("kubelet-certificate-authority", "FILE", "", "who signs kubelets' serving certificates"),
    flag("kubelet-client-certificate", "FILE", "", "certificate to show to kubelets"),
    flag("kubelet-client-key", "FILE", "", "its key"),
    flag("kubelet-preferred-address-types", "TYPE,...", "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP", "which address of a node to use, in this order"),
];

fn run(settings: Settings) -> anyhow::Result<()> {
    let (log, options) = settings.read(|given| Some((component::log(given), read(given)?)))?;
    component::run(&log, async |admin, tasks| {
        let started = apiserver::launch::start(options, admin, &tasks).await?;
        for address in &started.addresses {
            tracing::info!(%address, "listening");
        }
        tracing::info!(kubeconfig = %started.kubeconfig.display(), "API server is ready");
        Ok(())
    })
}
