//! The files of one generation: configuration, maps, list of certificates.
//!
//! A generation is a folder of its own, complete before anything refers to it; being cut off leaves a folder that nobody
//! reads. Certificates are shared, named by their content.

use super::{
    Layout, backend,
    capacity::Capacity,
    certificates::{self, Line},
    jail::Jail,
    request, senders,
    spare::{self, Pool, TuneMap},
};
use crate::router::{
    log_format,
    model::{Backend, Certificate, Id, Leads, Map, Model, Termination},
    settings::{AccessLog, LogTo, ProxyProtocol, Settings},
    text,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The path that HAProxy itself answers while it works.
pub(crate) const MONITOR: &str = "/_______internal_router_healthz";

/// What a generation holds, beside its files.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    pub number: u64,
    /// The backend of each claim.
    pub names: HashMap<Id, String>,
    /// Backends that are free, by sort.
    pub(crate) spares: HashMap<Pool, Vec<String>>,
    /// Files of authorities that pods are checked against.
    pub(crate) authorities: HashSet<PathBuf>,
    /// The list of certificates.
    pub(crate) lines: Vec<Line>,
    /// The file of the certificate for other names.
    pub(crate) default: PathBuf,
    /// Whether there is room to check servers.
    pub(crate) checks: bool,
}

/// What a generation is made from.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The environment.
    pub settings: &'a Settings,
    /// Where to.
    pub layout: &'a Layout,
    /// For names without one of their own.
    pub default_certificate: &'a Certificate,
    /// What certificates of Services are checked against, where the environment names a file for it.
    pub service_ca: &'a str,
}

impl Files<'_> {
    fn map_path(&self, number: u64, map: Map) -> String {
        self.layout.map(number, map).display().to_string()
    }
}

/// Writes a generation for everything the model serves.
pub fn write(files: Files<'_>, number: u64, model: &Model) -> io::Result<Generation> {
    let layout = files.layout;
    let folder = layout.generation(number);
    fs::create_dir_all(layout.key_folder())?;
    layout.make_sockets()?;
    if folder.exists() {
        // Left by a process that was cut off.
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let backends: BTreeMap<&Id, &Arc<Backend>> = model.backends().collect();
    let names: HashMap<Id, String> =
        backends.iter().map(|(id, backend)| ((*id).clone(), backend::name(&backend.claim))).collect();
    write_maps(files, number, model, &names)?;
    let default = layout.default_certificate(files.default_certificate.fingerprint());
    put(&default, files.default_certificate.pem())?;
    let lines = certificates::lines(model, files.settings);
    write_certificates(layout, number, &default, &lines)?;
    if files.settings.tls.destination_ca.is_some() {
        replace(&layout.service_ca(), files.service_ca)?;
    }
    if let ProxyProtocol::From(blocks) = &files.settings.listen.proxy_protocol {
        let lines: String = blocks.iter().map(|block| format!("{block}\n")).collect();
        fs::write(folder.join("proxy-senders.list"), lines)?;
    }
    if senders::waits(files.settings) {
        fs::write(senders::script(layout, number), senders::SCRIPT)?;
    }
    let capacity = Capacity::of(files.settings, model);
    let mut config = fixed(files, capacity.connections, number);
    let mut authorities = HashSet::new();
    for backend in backends.values() {
        authorities.extend(authority(backend, files)?);
        config += &backend_text(backend, files, capacity);
    }
    let spares = write_spares(files, number, &mut config)?;
    fs::write(layout.config(number), config)?;
    Ok(Generation { number, names, spares, authorities, lines, default, checks: capacity.checks })
}

/// The file that the pods of a backend are checked against, if HAProxy reads it: only servers make it do so.
fn authority(backend: &Backend, files: Files<'_>) -> io::Result<Option<PathBuf>> {
    let own = backend.claim.destination_ca.as_ref().map(|pem| (files.layout.authority(pem), pem));
    if let Some((path, pem)) = &own {
        put(path, pem)?;
    }
    let checks = backend.claim.termination == Termination::Reencrypt && !backend.servers.is_empty();
    let service_ca = files.settings.tls.destination_ca.as_ref().map(|_| files.layout.service_ca());
    let file = own.map(|(path, _)| path).or(service_ca);
    Ok(file.filter(|_| checks))
}

fn write_spares(files: Files<'_>, number: u64, config: &mut String) -> io::Result<HashMap<Pool, Vec<String>>> {
    let Files { settings, layout, .. } = files;
    for map in TuneMap::ALL {
        fs::write(map.path(layout, number), "")?;
    }
    let mut spares = HashMap::new();
    for pool in Pool::ALL {
        let names = pool.names(settings);
        for name in &names {
            *config += &spare::section(pool, name, settings, layout, number);
            if pool.is_tuned() {
                fs::write(spare::allow_file(layout, number, name), "")?;
            }
        }
        spares.insert(pool, names);
    }
    Ok(spares)
}

fn write_maps(files: Files<'_>, number: u64, model: &Model, names: &HashMap<Id, String>) -> io::Result<()> {
    let mut texts: BTreeMap<Map, String> = Map::ALL.into_iter().map(|map| (map, String::new())).collect();
    for ((map, key), leads) in model.hosts().flat_map(|(_, entries)| entries) {
        let Some(value) = value(leads, names) else { continue };
        let _ = texts.get_mut(map).map(|text| writeln!(text, "{key} {value}"));
    }
    for (map, text) in texts {
        fs::write(files.layout.map(number, map), text)?;
    }
    Ok(())
}

/// Where an entry leads, in HAProxy's words.
pub(super) fn value<'a>(leads: &Leads, names: &'a HashMap<Id, String>) -> Option<&'a str> {
    match leads {
        Leads::To(id) => names.get(id).map(String::as_str),
        Leads::ToHttps => Some("to_https"),
        Leads::Nowhere => Some("openshift_default"),
    }
}

/// The list of certificates and what it names.
fn write_certificates(layout: &Layout, number: u64, default: &Path, lines: &[Line]) -> io::Result<()> {
    let mut list = certificates::default_line(default) + "\n";
    for line in lines {
        put(&layout.certificate(line.certificate.fingerprint()), line.certificate.pem())?;
        list += &line.text(layout);
        list.push('\n');
    }
    fs::write(layout.certificates(number), list)
}

/// Removes the files of certificates and authorities that a generation does not have. One that runs has what it needs in memory.
pub fn forget_keys(layout: &Layout, generation: &Generation, model: &Model) {
    let own = |backend: &Backend| backend.claim.destination_ca.as_ref().map(|pem| layout.authority(pem));
    let kept: HashSet<PathBuf> = generation
        .lines
        .iter()
        .map(|line| layout.certificate(line.certificate.fingerprint()))
        .chain(model.backends().filter_map(|(_, backend)| own(backend)))
        .chain([generation.default.clone(), layout.service_ca()])
        .collect();
    for entry in fs::read_dir(layout.key_folder()).into_iter().flatten().flatten() {
        if !kept.contains(&entry.path()) {
            // What cannot be removed now is tried again after the next replacement.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a file for the owner alone; one that is there is the same.
fn put(path: &Path, content: &str) -> io::Result<()> {
    if path.exists() { Ok(()) } else { replace(path, content) }
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(content.as_bytes())?;
    fs::rename(draft, path)
}

fn backend_text(backend: &Backend, files: Files<'_>, capacity: Capacity) -> String {
    let (claim, settings) = (&backend.claim, files.settings);
    let name = backend::name(claim);
    let mut text =
        format!("backend {name} from {}\n{}", backend::defaults(claim, settings), backend::body(claim, settings));
    let check = backend::check_interval(backend, settings).filter(|_| capacity.checks);
    for server in &backend.servers {
        let words = backend::server_words(backend, server, check, settings, files.layout);
        let _ = writeln!(text, "  server {} {} {words}", server.name, server.address);
    }
    text
}

/// Everything that does not come from Routes.
fn fixed(files: Files<'_>, connections: Option<u32>, number: u64) -> String {
    let Files { settings, layout, .. } = files;
    let (tls, times, resources) = (&settings.tls, &settings.timeouts, &settings.resources);
    let mut text = "# Written by the router; changes are lost.\nglobal\n".to_owned();
    if let Some(Jail { uid, gid }) = layout.jail() {
        let _ = writeln!(text, "  chroot {}\n  uid {uid}\n  gid {gid}", layout.sockets().display());
    }
    // A connection that waits for its header is two.
    let each = if senders::waits(settings) { 2 } else { 1 };
    let _ = connections.map(|limit| writeln!(text, "  maxconn {}", limit.saturating_mul(each)));
    if senders::waits(settings) {
        let _ = writeln!(text, "  lua-load-per-thread {}", senders::script(layout, number).display());
    }
    let _ = write!(
        text,
        "  nbthread {}\n  stats socket {} mode 600 level admin expose-fd listeners\n  stats timeout 1h\n  \
         tune.bufsize {}\n  tune.maxrewrite {}\n  ssl-default-bind-ciphers {}\n  \
         ssl-default-bind-ciphersuites {}\n  ssl-default-bind-options ssl-min-ver {}{}\n  tune.ssl.default-dh-param 2048\n",
        resources.threads,
        layout.admin().display(),
        resources.buffer,
        resources.rewrite,
        tls.ciphers,
        tls.ciphersuites,
        tls.min_version,
        if tls.max_version.is_empty() { String::new() } else { format!(" ssl-max-ver {}", tls.max_version) },
    );
    for name in &settings.http.case_adjust {
        let _ = writeln!(text, "  h1-case-adjust {} {name}", name.to_ascii_lowercase());
    }
    let _ = times.hard_stop.as_ref().map(|time| writeln!(text, "  hard-stop-after {time}"));
    text += &log_lines(settings.log.as_ref(), layout);
    text += &defaults_sections(settings, connections);
    text += &public(files, number);
    text += &public_tls(files, number);
    text += &ending_tls(files, number);
    text += &to_https(settings.listen.http, settings.listen.https);
    text += "backend openshift_default from http\n";
    let page = |file: &Option<PathBuf>| file.clone().filter(|file| file.exists());
    let missing = page(&settings.http.error_404).or_else(|| page(&settings.http.error_503));
    let _ = missing.map(|file| writeln!(text, "  errorfile 503 {}", file.display()));
    text
}

/// Sends a request to the same place over TLS. Whoever named the router's own port in the Host has no load balancer in between, and is
/// led to its other port; to all others https is where it usually is.
fn to_https(http: u16, https: u16) -> String {
    let redirect =
        |port: &str| format!("  http-request redirect code 302 location https://%[var(txn.host)]{port}%[pathq]");
    let mut text = "backend to_https from http\n".to_owned();
    if http != 80 && https != 443 {
        let _ = writeln!(text, "{} if {{ req.fhdr(Host) -m end :{http} }}", redirect(&format!(":{https}")));
    }
    text + &redirect("") + "\n"
}

fn log_lines(log: Option<&AccessLog>, layout: &Layout) -> String {
    let Some(log) = log else { return String::new() };
    let to = match &log.to {
        LogTo::Syslog(address) if !log.goes_through_router(layout.jail().is_some()) => address.clone(),
        LogTo::Stdout | LogTo::Syslog(_) => layout.as_seen(&layout.log()).display().to_string(),
    };
    format!("  log {to} len {} format rfc3164 {} {}\n", log.max_length, log.facility, log.level)
}

/// What sections have in common: `base` for all, `http` and `tcp`, and one for each way to tell pods who asks.
fn defaults_sections(settings: &Settings, connections: Option<u32>) -> String {
    let (times, http) = (&settings.timeouts, &settings.http);
    let mut text = format!(
        "defaults base\n  maxconn {}\n  timeout connect {}\n  timeout client {}\n  timeout client-fin {}\n  timeout server {}\n  \
         timeout server-fin {}\n  timeout http-request {}\n  timeout http-keep-alive {}\n  timeout tunnel {}\n  option redispatch\n  \
         retries 3\n",
        connections.unwrap_or(1_000_000),
        times.connect,
        times.client,
        times.client_fin,
        times.server,
        times.server_fin,
        times.request,
        times.keep_alive,
        times.tunnel,
    );
    let log = settings.log.as_ref();
    text += if log.is_some() { "  log global\n" } else { "" };
    text += if log.is_some_and(|log| log.not_empty) { "  option dontlognull\n" } else { "" };
    text += if http.abort_on_close { "  option abortonclose\n" } else { "" };
    text += "defaults http from base\n  mode http\n";
    text += if http.idle_close_on_response { "  option idle-close-on-response\n" } else { "" };
    text += if log.is_some() { "  option httplog\n" } else { "" };
    text += if http.ignore_probes { "  option http-ignore-probes\n" } else { "" };
    let page = http.error_503.as_ref().filter(|file| file.exists());
    let _ = page.map(|file| writeln!(text, "  errorfile 503 {}", file.display()));
    if let Some(types) = &http.compression {
        let _ = writeln!(text, "  compression algo gzip\n  compression type {}", types.join(" "));
    }
    text += "defaults tcp from base\n  mode tcp\n";
    text += if log.is_some() { "  option tcplog\n" } else { "" };
    for (name, rule, if_none) in
        [("append", "add-header", false), ("replace", "set-header", false), ("if-none", "set-header", true)]
    {
        let _ = writeln!(text, "defaults web-{name} from http");
        text += &forwarded(rule, if_none);
    }
    text += "defaults web-never from http\n";
    text
}

/// Who asks, for which name and how: an IPv6 address in Forwarded stands in brackets and quotes (RFC 7239).
fn forwarded(rule: &str, if_none: bool) -> String {
    let guard = |header: &str| if if_none { format!(" !{{ req.hdr({header}) -m found }}") } else { String::new() };
    let line = |header: &str, value: &str, when: &str| {
        let guard = guard(header);
        let condition = if when.is_empty() && guard.is_empty() { String::new() } else { format!(" if{when}{guard}") };
        format!("  http-request {rule} {header} {value}{condition}\n")
    };
    // Decided before any of them is set, as the rules are read in order.
    let mut text = line(
        "Forwarded",
        "'for=\"[%[src]]\";host=%[req.hdr(host)];proto=%[var(txn.proto)]'",
        " { var(txn.from_v6) -m found }",
    );
    let plain = line(
        "Forwarded",
        "'for=%[src];host=%[req.hdr(host)];proto=%[var(txn.proto)]'",
        " !{ var(txn.from_v6) -m found }",
    );
    text += &plain;
    text += &line("X-Forwarded-Host", "%[req.hdr(host)]", "");
    text += &line("X-Forwarded-Port", "%[dst_port]", "");
    text += &line("X-Forwarded-Proto", "%[var(txn.proto)]", "");
    match (rule, if_none) {
        ("add-header", _) => text += "  option forwardfor\n",
        (_, true) => text += "  option forwardfor if-none\n",
        _ => text += "  http-request set-header X-Forwarded-For %[src]\n",
    }
    text
}

fn public(files: Files<'_>, number: u64) -> String {
    let (before, binds) = senders::binds(files, "public", files.settings.listen.http, number);
    let rules = request::rules(files, number, Map::HttpExact, Map::HttpPrefix, "http");
    format!(
        "{before}frontend public from http\n{binds}  monitor-uri {MONITOR}\n  http-request del-header X-SSL -m beg\n{rules}"
    )
}

/// Reads the name that the client asks for, and passes TLS through or ends it.
fn public_tls(files: Files<'_>, number: u64) -> String {
    let (before, binds) = senders::binds(files, "public_ssl", files.settings.listen.https, number);
    let map = files.map_path(number, Map::Sni);
    let hello = "{ req.ssl_hello_type 1 }";
    let rule = "tcp-request content";
    let log = files.settings.log.as_ref().map(|_| request::log_lines(log_format::TCP, rule, "sess"));
    let log_name = request::log_name(files, number, rule, "sess", "ending_tls");
    format!(
        "{before}frontend public_ssl from tcp\n{binds}{}  tcp-request inspect-delay {}\n  \
         tcp-request content set-var(sess.backend) req.ssl_sni,lower,map_str({map}) if {hello}\n  \
         tcp-request content set-var(sess.backend) req.ssl_sni,lower,regsub(^[^.]*,),map_str({map}) if {hello} !{{ var(sess.backend) -m found }}\n{log_name}  \
         tcp-request content accept if {hello}\n  \
         use_backend %[var(sess.backend)] if {{ var(sess.backend) -m found }}\n  default_backend ending_tls\n\
         backend ending_tls from tcp\n{}  server fe_tls unix@{} send-proxy-v2\n",
        log.unwrap_or_default(),
        files.settings.timeouts.inspect,
        senders::TIMELESS,
        files.layout.as_seen(&files.layout.tls()).display(),
    )
}

fn ending_tls(files: Files<'_>, number: u64) -> String {
    let (settings, layout) = (files.settings, files.layout);
    let mut bind = format!(
        "  bind unix@{} {} accept-proxy ssl crt-list {}",
        layout.tls().display(),
        layout.own_socket_words(),
        layout.certificates(number).display()
    );
    bind += if settings.tls.strict_sni { " strict-sni" } else { "" };
    if !settings.tls.curves.is_empty() {
        let _ = write!(bind, " curves {}", settings.tls.curves);
    }
    let verify = Some(settings.tls.client_auth.as_str()).filter(|auth| matches!(*auth, "required" | "optional"));
    let mutual = verify.zip(settings.tls.client_ca.as_ref());
    let _ = mutual.map(|(verify, ca)| write!(bind, " verify {verify} ca-file {}", ca.display()));
    let revoked = settings.tls.client_crl.as_ref().filter(|_| mutual.is_some());
    let _ = revoked.map(|file| write!(bind, " crl-file {}", file.display()));
    let mut text = format!("frontend fe_tls from http\n{bind}\n  http-request del-header X-SSL -m beg\n");
    if mutual.is_some() {
        for (header, value) in [
            ("X-SSL", "%[ssl_fc]"),
            ("X-SSL-Client-Verify", "%[ssl_c_verify]"),
            ("X-SSL-Client-SHA1", "%{+Q}[ssl_c_sha1,hex]"),
            ("X-SSL-Client-DN", "%{+Q}[ssl_c_s_dn]"),
            ("X-SSL-Client-CN", "%{+Q}[ssl_c_s_dn(cn)]"),
            ("X-SSL-Issuer", "%{+Q}[ssl_c_i_dn]"),
            ("X-SSL-Client-DER", "%[ssl_c_der,base64]"),
        ] {
            let _ = writeln!(text, "  http-request set-header {header} {value}");
        }
        if let Some(subjects) = &settings.tls.client_subjects {
            let subjects = text::quoted(subjects);
            let _ = writeln!(text, "  acl subject_allowed ssl_c_s_dn -m reg {subjects}");
            text += "  http-request deny deny_status 403 unless subject_allowed\n";
        }
    }
    text + &request::rules(files, number, Map::TlsExact, Map::TlsPrefix, "https")
}
