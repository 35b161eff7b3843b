//! A server on the network: from what an administrator decided to sockets that answer.
//!
//! `ApiServerOptions` come from the command line; `start` opens everything that can fail for outside reasons first (files, sockets, the
//! store), then loads, then listens. What keeps running is in `Tasks`.

mod certificates;
mod delegated;
pub mod memory;
mod options;

pub use certificates::{Certificates, CertificatesError};
pub use options::{
    ApiServerOptions, Audit, AuthorizationMode, AuthorizationSource, EndpointReconciler, FrontProxyOptions,
    IssuerSource, Tokens,
};

use crate::{
    ApiServer, Config,
    admission::{Policies, QuotaTurns, Webhooks},
    aggregation::Aggregation,
    audit::{Auditor, Log, Policy, PolicyError},
    encryption::Encryption,
    fairness::Fairness,
    handle,
    inflight::Inflight,
    journal::RequestMetrics,
    kubelet::{self, Kubelets},
    openapi::Documents,
    server::BODY_PACE,
    services::{self, Services},
    warm::{self, StartError},
};
use access::{
    Access,
    authn::{
        Authenticator, TokenFile,
        service_account::{Issuer, KeyError, PublicKey, Settings, SigningKey, Verifier},
    },
};
use arc_swap::ArcSwap;
use delegated::Delegated;
use net::{DualStack, HasFamily as _};
use runtime::{
    admin::Admin,
    atomic_file,
    health::Scope,
    http::Server,
    kubeconfig::{Credential, Kubeconfig, Url},
    listen::{self, Hosts, ListenError, Machine},
    task::Tasks,
};
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{EtcdConfig, OpenError, Retention, Store};

/// Why a server did not come up. None of it passes by itself, unless the store says so.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file of the administrator's cannot be used.
    #[error("--{flag} {}: {problem}", path.display())]
    File {
        /// The flag that names it.
        flag: &'static str,
        path: PathBuf,
        problem: String,
    },
    /// Certificates cannot be read or made.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// A socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What is stored cannot be served.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Anything else of the machine.
    #[error("{what}: {source}")]
    Machine {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
}

/// A server that answers.
pub struct Started {
    /// The server, for clients in this process.
    pub server: Arc<ApiServer>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Where clients on this machine find it.
    pub reachable: Vec<SocketAddr>,
    /// What of `--bind-address` this machine does not have, in words.
    pub lacking: Option<String>,
    /// The administrator's kubeconfig, where one is written.
    pub kubeconfig: PathBuf,
    /// The folder of the server's own authority (`ca.crt`, `ca.key`).
    pub certificates: PathBuf,
}

/// Brings a server up. It is ready when this returns.
pub async fn start(mut options: ApiServerOptions, admin: Admin, tasks: &Tasks) -> Result<Started, ServeError> {
    let folder = options.data_dir.clone();
    atomic_file::close_directory(&folder).map_err(|error| refused("data-dir", &folder, error))?;
    let mut listeners = listen::tcp("bind-address", &options.hosts, options.port)?;
    let bound = |listeners: &[TcpListener]| -> Vec<SocketAddr> {
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    };
    let mut addresses = bound(&listeners);
    let machine = Machine::look();
    let reachable = listen::reachable(&options.hosts, &addresses, machine);
    let port = addresses.first().map_or(options.port, SocketAddr::port);
    for ip in options.also.into_iter().flatten() {
        if !is_covered(ip, &options.hosts, &addresses) {
            listeners.extend(listen::tcp("bind-address", &Hosts::Each(DualStack::one(ip)), port)?);
            addresses = bound(&listeners);
        }
    }
    if options.advertise.is_none() {
        let preferred = options.service_ranges.primary().family();
        options.advertise = listen::advertised(&options.hosts, &addresses, preferred, listen::outward);
    }
    let advertised = advertised(&options, &reachable);
    let certificates = Certificates::prepare(&options, &addresses)?;
    let store = open(&options).await?;
    watch_health(&admin, &store);
    let delegated = Delegated::new(&options, &admin.metrics, &advertised.to_string())?;
    let server = Arc::new(assemble(&options, store, admin, &certificates, &delegated, advertised)?);
    delegated.follow(&server, tasks);
    warm::run(&server, tasks).await?;
    let kubeconfig = options.data_dir.join("admin.kubeconfig");
    if options.writes_kubeconfig {
        write_kubeconfig(&kubeconfig, &reachable, &certificates)?;
    }
    let tls = certificates.server_config()?;
    let (requests, ended) = (Arc::clone(&server), Arc::clone(&server));
    let limits = options.limits;
    tasks.serve("api server", move |stop| async move {
        let serve = tower::service_fn(move |request| handle::handle(Arc::clone(&requests), request));
        let serving = Server { listeners, tls: Some(tls), limits }.run(serve, stop.clone());
        // Watches go on until they are told; they must end before the connections can.
        let telling = async {
            stop.cancelled().await;
            ended.stop.cancel();
        };
        let (served, ()) = tokio::join!(serving, telling);
        ended.writes.close();
        ended.writes.wait().await;
        served.map(drop)
    });
    certificates.keep_fresh(tasks);
    let lacking = options.hosts.lacking(machine);
    Ok(Started { server, addresses, reachable, lacking, kubeconfig, certificates: certificates.folder().to_owned() })
}

/// Whether a socket takes connections to this address already: that of a wildcard.
fn is_covered(ip: IpAddr, hosts: &Hosts, bound: &[SocketAddr]) -> bool {
    *hosts == Hosts::Everywhere
        || bound.iter().any(|one| one.ip() == ip || (one.ip().is_unspecified() && one.ip().family() == ip.family()))
}

async fn open(options: &ApiServerOptions) -> Result<Store, ServeError> {
    let transform = Arc::new(encryption(options.encryption.as_deref())?);
    match &options.etcd {
        Some(etcd) if memory::is_meant(&etcd.endpoints).await => Ok(Store::memory(Retention::default())),
        Some(etcd) => Ok(Store::etcd(EtcdConfig { transform, ..etcd.clone() }).await?),
        None => {
            let path = options.data_dir.join("state.redb");
            let open = move || Store::open_with(&path, Retention::default(), transform);
            let opened = tokio::task::spawn_blocking(open).await;
            Ok(opened.map_err(|error| machine("opening the store", io::Error::other(error)))??)
        }
    }
}

fn watch_health(admin: &Admin, store: &Store) {
    let store = store.clone();
    admin.health.add("store", Scope::Ready, move || match store.health() {
        store::Health::Ready => Ok(()),
        store::Health::Failing(why) => Err(why),
    });
}

fn assemble(
    options: &ApiServerOptions,
    store: Store,
    admin: Admin,
    certificates: &Certificates,
    delegated: &Delegated,
    advertised: SocketAddr,
) -> Result<ApiServer, ServeError> {
    let (settings, keys, signing) = tokens(&options.tokens, certificates)?;
    let port = advertised.port();
    Ok(ApiServer {
        store,
        registry: ArcSwap::from_pointee(warm::registry()),
        definitions: crate::definitions::Definitions::default(),
        services: Services::new(services::Settings {
            ranges: options.service_ranges,
            node_ports: options.node_ports,
            rules: options.service_family_rules,
            kubernetes_service: options.kubernetes_service,
            advertised: options
                .advertise
                .filter(|_| options.endpoint_reconciler == EndpointReconciler::Lease)
                .map(|addresses| services::Advertised { addresses, port }),
        }),
        aggregation: Aggregation::new(certificates.front_proxy(&options.front_proxy)?),
        authenticator: Authenticator {
            token_file: options.token_file.as_deref().map(token_file).transpose()?,
            bootstrap_tokens: options.bootstrap_tokens,
            service_accounts: Some(Verifier::new(&settings, keys)),
            audiences: settings.audiences.clone(),
            others: delegated.others.clone(),
            anonymous: delegated.anonymous.clone().unwrap_or_else(|| options.anonymous.clone()),
            request_header: options.front_proxy.headers.clone(),
        },
        access: Access::layered(delegated.layers.clone()),
        issuer: Some(Issuer::new(signing, settings)),
        policies: Policies::default(),
        quotas: QuotaTurns::default(),
        webhooks: Webhooks::new(&admin.metrics),
        kubelets: Kubelets::new(kubelet::Settings {
            own_port: Some(port),
            identity: match options.kubelets.identity.clone() {
                None => Some(certificates.kubelet_client()?),
                given => given,
            },
            ..options.kubelets.clone()
        })
        .map_err(CertificatesError::from)?,
        fairness: fairness(options, &admin),
        inflight: Inflight::new(options.max_requests, options.max_mutating_requests),
        bodies: Arc::default(),
        auditor: options.audit.as_ref().map(auditor).transpose()?.inspect(|auditor| auditor.register(&admin.metrics)),
        documents: Documents::default(),
        requests: RequestMetrics::new(&admin.metrics),
        admin,
        config: Config {
            event_ttl_seconds: options.event_ttl.as_secs(),
            admission: options.admission.clone(),
            allow_privileged: options.allow_privileged,
            jwks_uri: format!("https://{advertised}/openid/v1/jwks"),
            server_address: advertised.to_string(),
            request_timeout: options.request_timeout,
            body_pace: BODY_PACE,
        },
        stop: tokio_util::sync::CancellationToken::new(),
        writes: tokio_util::task::TaskTracker::new(),
    })
}

/// Where others are told to ask: the first advertised address, or where this machine itself finds the server.
fn advertised(options: &ApiServerOptions, reachable: &[SocketAddr]) -> SocketAddr {
    let here = reachable.first().copied().unwrap_or_else(|| (Machine::look().loopback(), options.port).into());
    options.advertise.map_or(here, |addresses| SocketAddr::new(*addresses.primary(), here.port()))
}

/// Without any limit there is nothing to share out.
fn fairness(options: &ApiServerOptions, admin: &Admin) -> Option<Fairness> {
    let seats = options.max_requests.saturating_add(options.max_mutating_requests);
    let wanted = options.priority_and_fairness && seats > 0;
    wanted.then(|| Fairness::new(seats, options.request_timeout, &admin.metrics))
}

fn machine(what: impl Into<String>, source: io::Error) -> ServeError {
    ServeError::Machine { what: what.into(), source }
}

fn refused(flag: &'static str, path: &Path, problem: impl ToString) -> ServeError {
    ServeError::File { flag, path: path.to_owned(), problem: problem.to_string() }
}

fn read(flag: &'static str, path: &Path) -> Result<String, ServeError> {
    std::fs::read_to_string(path).map_err(|error| refused(flag, path, error))
}

fn token_file(path: &Path) -> Result<TokenFile, ServeError> {
    let flag = "token-auth-file";
    TokenFile::parse(&read(flag, path)?).map_err(|mistakes| {
        refused(flag, path, mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

/// Who issues, which keys are believed, which one signs. Without flags one key is made and kept beside the certificates.
fn tokens(tokens: &Tokens, own: &Certificates) -> Result<(Settings, Vec<PublicKey>, SigningKey), ServeError> {
    let signing_path = tokens.signing_key.clone().unwrap_or_else(|| own.token_key());
    let broken = |path: &Path| {
        let path = path.to_owned();
        move |error: KeyError| refused("service-account-key-file", &path, error)
    };
    let text = read("service-account-signing-key-file", &signing_path)?;
    let signing = SigningKey::from_pem(&text).map_err(broken(&signing_path))?;
    let mut keys = vec![signing.public().clone()];
    for path in &tokens.key_files {
        for key in PublicKey::from_pem(&read("service-account-key-file", path)?).map_err(broken(path))? {
            if !keys.iter().any(|known| known.id() == key.id()) {
                keys.push(key);
            }
        }
    }
    Ok((tokens.settings(), keys, signing))
}

fn encryption(path: Option<&Path>) -> Result<Encryption, ServeError> {
    let flag = "encryption-provider-config";
    let Some(path) = path else { return Ok(Encryption::none()) };
    Encryption::parse(&read(flag, path)?).map_err(|error| refused(flag, path, error))
}

fn auditor(audit: &Audit) -> Result<Auditor, ServeError> {
    let policy = match &audit.policy {
        Some(path) => {
            let flag = "audit-policy-file";
            let broken = |error: PolicyError| refused(flag, path, error);
            Policy::parse(&read(flag, path)?).map_err(broken)?
        }
        None => Policy::default(),
    };
    let log = Log::open(audit.target.clone()).map_err(|error| machine("--audit-log-path", error))?;
    Ok(Auditor::new(policy, log))
}

/// One context per family that the server is reached by, so that either can be tried.
fn write_kubeconfig(path: &Path, addresses: &[SocketAddr], certificates: &Certificates) -> Result<(), ServeError> {
    let servers = addresses.iter().enumerate().map(|(index, address)| {
        let name = match (index, address) {
            (0, _) => "twinstack".to_owned(),
            (_, SocketAddr::V4(_)) => "twinstack-ipv4".to_owned(),
            (_, SocketAddr::V6(_)) => "twinstack-ipv6".to_owned(),
        };
        (name, Url::from(*address))
    });
    let kubeconfig = Kubeconfig {
        user: "admin".into(),
        servers: servers.collect(),
        authority_pem: certificates.authority_pem(),
        credential: Credential::Certificate(certificates.administrator()?),
    };
    kubeconfig.write(path).map_err(|error| machine(format!("cannot write {}", path.display()), error))
}
