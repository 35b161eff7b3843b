//! What the running HAProxy holds, and how a change is brought to it without replacing it.
//!
//! Order matters: servers are there before an entry leads to them, and entries are gone before their servers leave. A cut
//! between two commands leaves entries that lead to servers, old or new; the next generation is written from the model and
//! so heals whatever a lost command left behind.

use super::{
    Generation, Layout, Socket, SocketError, backend,
    certificates::Listed,
    servers::{Known, Leaving},
    spare::{self, Pool, Tuning},
    stat::show_backend,
    write::value,
};
use crate::router::{
    model::{Backend, Claim, Delta, Entries, Host, Id, Leads, Map, Model, Source},
    settings::Settings,
};
use runtime::controller::Key;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

/// Why only a new generation will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing runs yet, or what runs is not known.
    Start,
    /// No spare is left, or none can do what a claim asks for.
    Backend,
    /// A certificate that HAProxy takes only from a file: it is too long for a command, or was refused.
    Certificate,
    /// A file of the environment's is another one now.
    File,
    /// HAProxy refused a command or did not answer.
    Failure,
}

impl Need {
    /// For metrics and logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Backend => "backend",
            Self::Certificate => "certificate",
            Self::File => "file",
            Self::Failure => "failure",
        }
    }
}

/// The state of the running HAProxy.
#[derive(Debug)]
pub struct Live {
    pub(super) settings: Arc<Settings>,
    pub(super) layout: Layout,
    number: u64,
    names: HashMap<Id, String>,
    pub(super) running: HashMap<String, Running>,
    spares: HashMap<Pool, Vec<String>>,
    /// The row of each spare that has served a claim before.
    spent: HashMap<String, String>,
    entries: HashMap<Host, BTreeMap<(Map, String), String>>,
    /// Servers in maintenance that wait for their last connection to end.
    pub(super) leaving: Vec<Leaving>,
    /// Files with certificates of authorities that HAProxy has read.
    pub(super) authorities: HashSet<PathBuf>,
    /// Whether there is room to check servers.
    pub(super) checks: bool,
    pub(super) listed: Listed,
    /// What certificates of Services are checked against.
    pub(super) service_ca: String,
}

/// A backend that serves a claim.
#[derive(Debug)]
pub(super) struct Running {
    sort: Sort,
    /// What its servers were made with.
    server_shape: String,
    pub(super) servers: BTreeMap<String, Known>,
}

/// What a backend can do.
#[derive(Debug)]
enum Sort {
    /// Written for one claim, with this text.
    Written(String),
    /// A spare, with what is set on it.
    Spare(Pool, Tuning),
}

/// What a claim asks of a backend.
struct Wanted {
    core: String,
    server_shape: String,
    pools: Vec<Pool>,
    tuning: Tuning,
}

impl Wanted {
    fn of(claim: &Claim, settings: &Settings) -> Self {
        let (pools, tuning) = spare::fitting(claim, settings);
        Self { core: backend::core(claim, settings), server_shape: backend::server_shape(claim), pools, tuning }
    }

    /// Whether a backend can go on serving the claim.
    fn fits(&self, running: &Running) -> bool {
        let sort = match &running.sort {
            Sort::Written(core) => *core == self.core,
            Sort::Spare(pool, _) => self.pools.contains(pool),
        };
        sort && running.server_shape == self.server_shape
    }
}

impl Live {
    /// What a generation holds right after its start.
    pub fn new(
        settings: Arc<Settings>,
        layout: Layout,
        generation: Generation,
        service_ca: String,
        model: &Model,
    ) -> Self {
        let Generation { number, names, spares, authorities, lines, default, checks } = generation;
        let listed = Listed::new(lines, default);
        let running = model.backends().filter_map(|(id, backend)| {
            let servers = backend.servers.iter().map(|server| (server.name.clone(), Known::of(server)));
            let running = Running {
                sort: Sort::Written(backend::core(&backend.claim, &settings)),
                server_shape: backend::server_shape(&backend.claim),
                servers: servers.collect(),
            };
            Some((names.get(id)?.clone(), running))
        });
        let running = running.collect();
        let entries = model.hosts().map(|(host, entries)| (host.clone(), resolved(entries, &names))).collect();
        let (spent, leaving) = (HashMap::new(), Vec::new());
        Self {
            settings,
            layout,
            number,
            names,
            running,
            spares,
            spent,
            entries,
            leaving,
            authorities,
            checks,
            listed,
            service_ca,
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many spares are left of all sorts.
    pub fn spares(&self) -> usize {
        self.spares.values().map(Vec::len).sum()
    }

    /// Whether anything of an object is served.
    pub fn serves(&self, source: Source, key: &Key) -> bool {
        self.names.keys().any(|id| id.source == source && id.key == *key)
    }

    /// The backend that serves a claim.
    pub fn backend(&self, id: &Id) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    /// What a backend had counted when it last became a spare, as HAProxy told it.
    pub fn spent(&self, backend: &str) -> Option<&str> {
        self.spent.get(backend).map(String::as_str)
    }

    /// Brings what changed to HAProxy. What it could not bring is why a new generation is needed.
    pub fn apply(&mut self, model: &Model, delta: &Delta, socket: &mut Socket) -> Option<Need> {
        let mut need = None;
        let outcome = self.try_apply(model, delta, socket, &mut need);
        if let Err(error) = outcome {
            tracing::warn!(%error, "a change was not taken by HAProxy; it will be replaced");
            need = Some(Need::Failure);
        }
        need
    }

    fn try_apply(
        &mut self,
        model: &Model,
        delta: &Delta,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<(), SocketError> {
        let outdated = if delta.certificates { self.certify(model, socket, need)? } else { Vec::new() };
        let mut retired = Vec::new();
        let mut hosts = delta.hosts.clone();
        for id in &delta.backends {
            match model.backend(id) {
                Some(backend) => {
                    let moved = self.serve(id, backend, socket, need)?;
                    if let Some(old) = moved {
                        hosts.insert(backend.claim.host.clone());
                        retired.extend(old);
                    }
                }
                None => retired.extend(self.names.remove(id)),
            }
        }
        for host in &hosts {
            self.lead(host, model.entries(host), socket)?;
        }
        for name in retired {
            self.retire(&name, socket)?;
        }
        self.forget_certificates(&outdated, socket)
    }

    /// Makes a claim's servers those of the model. The inner answer is the backend it left, when it took a spare.
    fn serve(
        &mut self,
        id: &Id,
        backend: &Arc<Backend>,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<Option<Option<String>>, SocketError> {
        let wanted = Wanted::of(&backend.claim, &self.settings);
        let current = self.names.get(id).cloned();
        let fits = |name: &String| self.running.get(name).is_some_and(|running| wanted.fits(running));
        if let Some(name) = current.as_ref().filter(|name| fits(name)) {
            self.tune(name, &wanted.tuning, socket)?;
            self.servers(name, backend, socket, need)?;
            return Ok(None);
        }
        let left = |pool: &&Pool| self.spares.get(pool).is_some_and(|left| !left.is_empty());
        let pool = wanted.pools.iter().find(left).copied();
        let spare = pool.and_then(|pool| Some((pool, self.spares.get_mut(&pool)?.pop()?)));
        let Some((pool, spare)) = spare.filter(|_| self.knows_authority(&backend.claim, socket)) else {
            *need = need.or(Some(Need::Backend));
            // Until then as well as it goes: with the pods of now, if not with the wishes of now.
            if let Some(name) = &current {
                self.servers(name, backend, socket, need)?;
            }
            return Ok(None);
        };
        let Wanted { server_shape, tuning, .. } = wanted;
        let running = Running { sort: Sort::Spare(pool, Tuning::default()), server_shape, servers: BTreeMap::new() };
        self.running.insert(spare.clone(), running);
        self.tune(&spare, &tuning, socket)?;
        self.servers(&spare, backend, socket, need)?;
        self.names.insert(id.clone(), spare);
        Ok(Some(current))
    }

    /// Sets on a spare what its claim asks for.
    fn tune(&mut self, name: &str, wanted: &Tuning, socket: &mut Socket) -> Result<(), SocketError> {
        let Some(Running { sort: Sort::Spare(_, tuning), .. }) = self.running.get_mut(name) else { return Ok(()) };
        for command in spare::commands(&self.layout, self.number, name, tuning, wanted) {
            socket.execute(&command, str::is_empty)?;
        }
        tuning.clone_from(wanted);
        Ok(())
    }

    /// Makes the maps of one host those of the model.
    fn lead(&mut self, host: &Host, wanted: Option<&Entries>, socket: &mut Socket) -> Result<(), SocketError> {
        let wanted = wanted.map(|entries| resolved(entries, &self.names)).unwrap_or_default();
        let known = self.entries.remove(host).unwrap_or_default();
        let mut new: BTreeMap<Map, Vec<String>> = BTreeMap::new();
        for ((map, key), value) in &wanted {
            let path = self.layout.map(self.number, *map);
            match known.get(&(*map, key.clone())) {
                Some(old) if old == value => {}
                Some(_) => {
                    socket.execute(&format!("set map {} {} {value}", path.display(), escaped(key)), str::is_empty)?;
                }
                None => new.entry(*map).or_default().push(format!("{key} {value}\n")),
            }
        }
        for (map, lines) in new {
            let path = self.layout.map(self.number, map);
            // A command must fit into one of HAProxy's buffers, which hold 16 KB at least; a line is at most half of that.
            let mut command = String::new();
            for (at, line) in lines.iter().enumerate() {
                command += line;
                let next = lines.get(at + 1).map_or(usize::MAX, String::len);
                if command.len().saturating_add(next) > 12_000 {
                    let command = std::mem::take(&mut command);
                    socket.execute(&format!("add map {} <<\n{command}", path.display()), str::is_empty)?;
                }
            }
        }
        for (map, key) in known.keys().filter(|at| !wanted.contains_key(*at)) {
            let path = self.layout.map(self.number, *map);
            socket.execute(&format!("del map {} {}", path.display(), escaped(key)), str::is_empty)?;
        }
        if !wanted.is_empty() {
            self.entries.insert(host.clone(), wanted);
        }
        Ok(())
    }

    /// Nothing leads to this backend any more: its servers may go.
    fn retire(&mut self, name: &str, socket: &mut Socket) -> Result<(), SocketError> {
        let Some(running) = self.running.get_mut(name) else { return Ok(()) };
        for (server, known) in std::mem::take(&mut running.servers) {
            socket.execute(&format!("set server {name}/{server} state maint"), str::is_empty)?;
            self.leaving.push(Leaving { backend: name.to_owned(), server, known });
        }
        match self.leaving.iter().any(|old| old.backend == name) {
            true => Ok(()),
            false => self.recycle(name, socket),
        }
    }

    /// Deletes servers whose last connection has ended; a backend without any becomes a spare again if it can.
    pub fn sweep(&mut self, socket: &mut Socket) {
        let mut emptied = BTreeSet::new();
        for old in std::mem::take(&mut self.leaving) {
            let command = format!("del server {}/{}", old.backend, old.server);
            match socket.execute(&command, |answer| answer.contains("deleted")) {
                Ok(()) => emptied.extend([old.backend]),
                Err(_) => self.leaving.push(old),
            }
        }
        for name in emptied {
            if !self.leaving.iter().any(|old| old.backend == name)
                && self.is_retired(&name)
                && let Err(error) = self.recycle(&name, socket)
            {
                // It is no spare again until the next generation.
                tracing::warn!(%error, backend = name, "a backend cannot be used again");
            }
        }
    }

    /// How many servers wait for their last connection.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    fn is_retired(&self, name: &str) -> bool {
        self.running.get(name).is_some_and(|running| running.servers.is_empty())
            && !self.names.values().any(|used| used == name)
    }

    /// A spare that serves nobody forgets its claim and is one again.
    fn recycle(&mut self, name: &str, socket: &mut Socket) -> Result<(), SocketError> {
        self.tune(name, &Tuning::default(), socket)?;
        if let Some(Running { sort: Sort::Spare(pool, _), .. }) = self.running.remove(name) {
            self.spent.insert(name.to_owned(), socket.ask(&show_backend(name))?);
            self.spares.entry(pool).or_default().push(name.to_owned());
        }
        Ok(())
    }
}

/// Entries with the names of backends; those whose backend is still to come are left out.
fn resolved(entries: &Entries, names: &HashMap<Id, String>) -> BTreeMap<(Map, String), String> {
    let resolve = |(at, leads): (&(Map, String), &Leads)| Some((at.clone(), value(leads, names)?.to_owned()));
    entries.iter().filter_map(resolve).collect()
}

/// On the socket a semicolon ends a command and a backslash escapes it; paths have no other sign that means anything there.
fn escaped(key: &str) -> String {
    key.replace(';', "\\;")
}
