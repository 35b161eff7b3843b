//! Flags of kube-apiserver that change nothing here, each with why. They are taken so that command lines made for it work.

use crate::flag::{BOOL, Flag, Flags};
use crate::read;

const fn idle(name: &'static str, why: &'static str) -> Flag<String> {
    Flag::new(name, "VALUE", "", read::text, why)
}

const fn idle_switch(name: &'static str, why: &'static str) -> Flag<String> {
    Flag::new(name, BOOL, "", read::text, why)
}

const ALL_IN_MEMORY: &str = "changes nothing: reads and watches come from memory, always";
const OWN_METRICS: &str = "changes nothing: all metrics of this server are shown";
const OWN_LOG: &str = "changes nothing: see --log-format and --log-level";
const RUSTLS: &str = "changes nothing: TLS 1.2 and 1.3 with the library's suites, which have no weak ones";
const NO_AUDIT_WEBHOOK: &str = "changes nothing: the audit log goes to --audit-log-path";
const AUDIT_AT_ONCE: &str = "changes nothing: the audit log is written at once";
const NO_PEERS: &str = "changes nothing: servers on one etcd serve the same kinds and need not ask each other";
const NO_ELECTION: &str = "changes nothing: servers on one etcd need no leader";
const NO_PROFILES: &str = "changes nothing: there are no profiles to serve";
const NO_EGRESS: &str = "changes nothing: nodes and webhooks are reached straight";
const SAME_VERSION: &str = "changes nothing: the API is that of 1.37";
const ETCD_OWN: &str = "changes nothing: the store looks after its own connections to etcd";
const AT_ONCE: &str = "changes nothing: the server stops when its requests have ended";

pub(crate) const FLAGS: Flags = &[
    &idle(
        "aggregator-reject-forwarding-redirect",
        "changes nothing: redirects of aggregated API servers are never passed on",
    ),
    &idle("allow-metric-labels", OWN_METRICS),
    &idle("allow-metric-labels-manifest", OWN_METRICS),
    &idle("apiserver-count", "changes nothing: servers hold leases, and those that do are counted"),
    &idle_switch("audit-log-batch-throttle-enable", AUDIT_AT_ONCE),
    &idle("audit-log-batch-buffer-size", AUDIT_AT_ONCE),
    &idle("audit-log-batch-max-size", AUDIT_AT_ONCE),
    &idle("audit-log-batch-max-wait", AUDIT_AT_ONCE),
    &idle("audit-log-batch-throttle-burst", AUDIT_AT_ONCE),
    &idle("audit-log-batch-throttle-qps", AUDIT_AT_ONCE),
    &idle_switch("audit-log-compress", "changes nothing: older files stay as they are"),
    &idle("audit-log-format", "changes nothing: lines are JSON"),
    &idle("audit-log-maxage", "changes nothing: older files go by number, see --audit-log-maxbackup"),
    &idle("audit-log-mode", AUDIT_AT_ONCE),
    &idle("audit-log-version", "changes nothing: events are audit.k8s.io/v1"),
    &idle_switch("audit-log-truncate-enabled", "changes nothing: events are never cut"),
    &idle("audit-log-truncate-max-batch-size", "changes nothing: events are never cut"),
    &idle("audit-log-truncate-max-event-size", "changes nothing: events are never cut"),
    &idle("audit-webhook-config-file", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-mode", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-version", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-initial-backoff", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-batch-buffer-size", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-batch-max-size", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-batch-max-wait", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-batch-throttle-burst", NO_AUDIT_WEBHOOK),
    &idle_switch("audit-webhook-batch-throttle-enable", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-batch-throttle-qps", NO_AUDIT_WEBHOOK),
    &idle_switch("audit-webhook-truncate-enabled", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-truncate-max-batch-size", NO_AUDIT_WEBHOOK),
    &idle("audit-webhook-truncate-max-event-size", NO_AUDIT_WEBHOOK),
    &idle("authorization-policy-file", "changes nothing: ABAC is not built here; RBAC says the same"),
    &idle_switch("contention-profiling", NO_PROFILES),
    &idle("coordinated-leadership-lease-duration", NO_ELECTION),
    &idle("coordinated-leadership-renew-deadline", NO_ELECTION),
    &idle("coordinated-leadership-retry-period", NO_ELECTION),
    &idle("cors-allowed-origins", "changes nothing: pages of other sites are not let in"),
    &idle("debug-socket-path", NO_PROFILES),
    &idle("default-watch-cache-size", ALL_IN_MEMORY),
    &idle("delete-collection-workers", "changes nothing: collections are deleted in one go"),
    &idle_switch("disable-http2-serving", "changes nothing: clients choose between HTTP/1.1 and HTTP/2"),
    &idle("disabled-metrics", OWN_METRICS),
    &idle("egress-selector-config-file", NO_EGRESS),
    &idle("emulated-version", SAME_VERSION),
    &idle_switch("emulation-forward-compatible", SAME_VERSION),
    &idle_switch(
        "enable-aggregator-routing",
        "changes nothing: aggregated API servers are reached at their endpoints, always",
    ),
    &idle_switch("enable-garbage-collector", "changes nothing: the controller manager collects garbage"),
    &idle_switch("enable-logs-handler", "changes nothing: there is no /logs"),
    &idle_switch("encryption-provider-config-automatic-reload", "changes nothing: the file is read at start"),
    &idle("etcd-compaction-interval", ETCD_OWN),
    &idle("etcd-count-metric-poll-period", ETCD_OWN),
    &idle("etcd-db-metric-poll-interval", ETCD_OWN),
    &idle("etcd-healthcheck-timeout", ETCD_OWN),
    &idle("etcd-readycheck-timeout", ETCD_OWN),
    &idle("etcd-servers-overrides", "changes nothing: all kinds are in one etcd"),
    &idle("external-hostname", "changes nothing: see --advertise-address"),
    &idle("goaway-chance", "changes nothing: connections stay where they are"),
    &idle("http2-max-streams-per-connection", "changes nothing: see --max-connections"),
    &idle("kubelet-port", "changes nothing: nodes say their own port"),
    &idle("kubelet-read-only-port", "changes nothing: kubelets are asked over TLS"),
    &idle("kubelet-timeout", "changes nothing: a node has five seconds to answer"),
    &idle("kubernetes-service-node-port", "changes nothing: the kubernetes Service has cluster IPs alone"),
    &idle("lease-reuse-duration-seconds", ETCD_OWN),
    &idle(
        "livez-grace-period",
        "changes nothing: /livez is true as soon as the server listens, which is when it is ready",
    ),
    &idle("log-flush-frequency", OWN_LOG),
    &idle("log-json-info-buffer-size", OWN_LOG),
    &idle_switch("log-json-split-stream", OWN_LOG),
    &idle("log-text-info-buffer-size", OWN_LOG),
    &idle_switch("log-text-split-stream", OWN_LOG),
    &idle("logging-format", OWN_LOG),
    &idle("max-connection-bytes-per-sec", "changes nothing: see --max-connections-per-source"),
    &idle("min-compatibility-version", SAME_VERSION),
    &idle("min-request-timeout", "changes nothing: watches last as long as their clients want, or timeoutSeconds says"),
    &idle("peer-advertise-ip", NO_PEERS),
    &idle("peer-advertise-port", NO_PEERS),
    &idle("peer-ca-file", NO_PEERS),
    &idle_switch("permit-address-sharing", "changes nothing: addresses are shared as the system allows"),
    &idle_switch("permit-port-sharing", "changes nothing: a port is this server's own"),
    &idle_switch("profiling", NO_PROFILES),
    &idle("runtime-config", "changes nothing: every version that is built is served"),
    &idle_switch("runtime-config-emulation-forward-compatible", SAME_VERSION),
    &idle("service-account-jwks-uri", "changes nothing: keys are at /openid/v1/jwks of this server"),
    &idle_switch("service-account-lookup", "changes nothing: tokens of accounts that are gone are always refused"),
    &idle(
        "service-account-signing-endpoint",
        "changes nothing: tokens are signed by --service-account-signing-key-file",
    ),
    &idle("show-hidden-metrics-for-version", OWN_METRICS),
    &idle("shutdown-delay-duration", AT_ONCE),
    &idle_switch("shutdown-send-retry-after", AT_ONCE),
    &idle("shutdown-watch-termination-grace-period", AT_ONCE),
    &idle("storage-backend", "changes nothing: etcd where --etcd-servers is given, a file otherwise"),
    &idle(
        "storage-initialization-timeout",
        "changes nothing: the server is ready when all is loaded, however long that takes",
    ),
    &idle("storage-media-type", "changes nothing: objects are stored as JSON, which kube-apiserver reads as well"),
    &idle("strict-transport-security-directives", "changes nothing: there is no plain HTTP to be kept from"),
    &idle("target-ram-mb", ALL_IN_MEMORY),
    &idle("tls-cipher-suites", RUSTLS),
    &idle("tls-curve-preferences", RUSTLS),
    &idle("tls-min-version", RUSTLS),
    &idle("tls-sni-cert-key", "changes nothing: one certificate is shown, see --tls-cert-file"),
    &idle("tracing-config-file", "changes nothing: there are no traces"),
    &idle("vmodule", OWN_LOG),
    &idle_switch("watch-cache", ALL_IN_MEMORY),
    &idle("watch-cache-sizes", ALL_IN_MEMORY),
];
