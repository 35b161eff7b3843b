//! What the running HAProxy holds, and how a change is brought to it without replacing it.
//!
//! Order matters: servers are there before an entry leads to them, and entries are gone before their servers leave. A cut
//! between two commands leaves entries that lead to servers, old or new; the next generation is written from the model and
//! so heals whatever a lost command left behind.

use super::{
    Generation, Places, Socket, SocketError,
    backend::{self, Pool},
    write::value,
};
use crate::router::{
    model::{Backend, Delta, Entries, Host, Id, Leads, Map, Model, Server},
    settings::Settings,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::SocketAddr,
    sync::Arc,
};

/// Why only a new generation will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing runs yet, or what runs is not known.
    Start,
    /// No spare is left, or none can do what a claim asks for.
    Backend,
    /// A certificate came, changed or went.
    Certificate,
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
            Self::Failure => "failure",
        }
    }
}

/// The state of the running HAProxy.
#[derive(Debug)]
pub struct Live {
    settings: Arc<Settings>,
    places: Places,
    number: u64,
    names: HashMap<Id, String>,
    running: HashMap<String, Running>,
    spares: HashMap<Pool, Vec<String>>,
    spare_shapes: Vec<(String, Pool)>,
    entries: HashMap<Host, BTreeMap<(Map, String), String>>,
    /// Servers in maintenance that wait for their last connection to end.
    leaving: Vec<Leaving>,
}

/// A server that gets no new connections.
#[derive(Debug)]
struct Leaving {
    backend: String,
    server: String,
    known: Known,
}

/// A backend that serves a claim.
#[derive(Debug, Default)]
struct Running {
    shape: String,
    servers: BTreeMap<String, Known>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    address: SocketAddr,
    weight: u16,
    h2c: bool,
    checked: bool,
}

impl Known {
    fn of(server: &Server, backend: &Backend) -> Self {
        let Server { address, weight, h2c, .. } = *server;
        Self { address, weight, h2c, checked: backend.servers.len() > 1 }
    }
}

impl Live {
    /// What a generation holds right after its start.
    pub fn new(settings: Arc<Settings>, places: Places, generation: Generation, model: &Model) -> Self {
        let Generation { number, names, spares } = generation;
        let running = model.backends().filter_map(|(id, backend)| {
            let servers = backend.servers.iter().map(|server| (server.name.clone(), Known::of(server, backend)));
            let running = Running { shape: backend::shape(&backend.claim, &settings), servers: servers.collect() };
            Some((names.get(id)?.clone(), running))
        });
        let running = running.collect();
        let entries = model.hosts().map(|(host, entries)| (host.clone(), resolved(entries, &names))).collect();
        let spare_shapes = Pool::ALL.into_iter().map(|pool| (backend::spare_shape(pool, &settings), pool)).collect();
        Self { settings, places, number, names, running, spares, spare_shapes, entries, leaving: Vec::new() }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many spares are left of all sorts.
    pub fn spares(&self) -> usize {
        self.spares.values().map(Vec::len).sum()
    }

    /// Whose backend this is.
    pub fn claim_of(&self) -> HashMap<&str, &Id> {
        self.names.iter().map(|(id, name)| (name.as_str(), id)).collect()
    }

    /// Brings what changed to HAProxy. What it could not bring is why a new generation is needed.
    pub fn apply(&mut self, model: &Model, delta: &Delta, socket: &mut Socket) -> Option<Need> {
        let mut need = delta.certificates.then_some(Need::Certificate);
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
        Ok(())
    }

    /// Makes a claim's servers those of the model. The inner answer is the backend it left, when it took a spare.
    fn serve(
        &mut self,
        id: &Id,
        backend: &Arc<Backend>,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<Option<Option<String>>, SocketError> {
        let shape = backend::shape(&backend.claim, &self.settings);
        let current = self.names.get(id).cloned();
        if let Some(name) = &current {
            let fits = self.running.get(name).is_some_and(|running| running.shape == shape);
            if fits || self.spare_for(&shape).is_none() {
                if !fits {
                    *need = need.or(Some(Need::Backend));
                }
                self.servers(name, backend, socket, need)?;
                return Ok(None);
            }
        }
        let Some(spare) = self.spare_for(&shape).and_then(|pool| self.spares.get_mut(&pool)?.pop()) else {
            *need = need.or(Some(Need::Backend));
            return Ok(None);
        };
        self.running.insert(spare.clone(), Running { shape, servers: BTreeMap::new() });
        self.servers(&spare, backend, socket, need)?;
        self.names.insert(id.clone(), spare);
        Ok(Some(current))
    }

    /// The sort of spare that does exactly this, if one is left.
    fn spare_for(&self, shape: &str) -> Option<Pool> {
        let (_, pool) = self.spare_shapes.iter().find(|(known, _)| known == shape)?;
        self.spares.get(pool).is_some_and(|left| !left.is_empty()).then_some(*pool)
    }

    fn servers(
        &mut self,
        name: &str,
        backend: &Backend,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<(), SocketError> {
        let mut known =
            self.running.get_mut(name).map(|running| std::mem::take(&mut running.servers)).unwrap_or_default();
        let outcome = self.change_servers(name, backend, &mut known, socket, need);
        if let Some(running) = self.running.get_mut(name) {
            running.servers = known;
        }
        outcome
    }

    fn change_servers(
        &mut self,
        name: &str,
        backend: &Backend,
        known: &mut BTreeMap<String, Known>,
        socket: &mut Socket,
        need: &mut Option<Need>,
    ) -> Result<(), SocketError> {
        for server in &backend.servers {
            let wanted = Known::of(server, backend);
            let at = format!("{name}/{}", server.name);
            match known.get(&server.name) {
                Some(old) if old.h2c == wanted.h2c => {
                    if old.address != wanted.address {
                        let (ip, port) = (wanted.address.ip(), wanted.address.port());
                        socket.tell(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
                    }
                    if old.weight != wanted.weight {
                        socket.tell(&format!("set server {at} weight {}", wanted.weight), str::is_empty)?;
                    }
                    // A server that was made without checks gets them with the next generation, which nothing waits for.
                    let checked = old.checked;
                    known.insert(server.name.clone(), Known { checked, ..wanted });
                }
                // Another protocol needs another server, whose name is taken until this one has left.
                Some(_) => *need = need.or(Some(Need::Backend)),
                None => {
                    self.add_server(&at, server, backend, socket)?;
                    known.insert(server.name.clone(), wanted);
                }
            }
        }
        let gone: Vec<String> =
            known.keys().filter(|name| !backend.servers.iter().any(|server| server.name == **name)).cloned().collect();
        for server in gone {
            let Some(old) = known.remove(&server) else { continue };
            socket.tell(&format!("set server {name}/{server} state maint"), str::is_empty)?;
            self.leaving.push(Leaving { backend: name.to_owned(), server, known: old });
        }
        Ok(())
    }

    fn add_server(
        &mut self,
        at: &str,
        server: &Server,
        backend: &Backend,
        socket: &mut Socket,
    ) -> Result<(), SocketError> {
        let (ip, port) = (server.address.ip(), server.address.port());
        let is_same = |old: &Leaving| format!("{}/{}", old.backend, old.server) == at && old.known.h2c == server.h2c;
        if let Some(index) = self.leaving.iter().position(is_same) {
            // A pod that was not ready for a while comes back as it was.
            socket.tell(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
            socket.tell(&format!("set server {at} weight {}", server.weight), str::is_empty)?;
            socket.tell(&format!("set server {at} state ready"), str::is_empty)?;
            self.leaving.remove(index);
            return Ok(());
        }
        let words = backend::server_words(backend, server, &self.settings, &self.places);
        // HAProxy computes the cookie of an address when the address changes, not when a server is added.
        let first = if port == 9 { 10 } else { 9 };
        let begin = SocketAddr::new(ip, first);
        socket.tell(&format!("add server {at} {begin} {words}"), |answer| answer.contains("registered"))?;
        socket.tell(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
        if backend.servers.len() > 1 {
            socket.tell(&format!("enable health {at}"), str::is_empty)?;
        }
        socket.tell(&format!("set server {at} state ready"), str::is_empty)
    }

    /// Makes the maps of one host those of the model.
    fn lead(&mut self, host: &Host, wanted: Option<&Entries>, socket: &mut Socket) -> Result<(), SocketError> {
        let wanted = wanted.map(|entries| resolved(entries, &self.names)).unwrap_or_default();
        let known = self.entries.remove(host).unwrap_or_default();
        let mut new: BTreeMap<Map, Vec<String>> = BTreeMap::new();
        for ((map, key), value) in &wanted {
            let path = self.places.map(self.number, *map);
            match known.get(&(*map, key.clone())) {
                Some(old) if old == value => {}
                Some(_) => {
                    socket.tell(&format!("set map {} {} {value}", path.display(), escaped(key)), str::is_empty)?;
                }
                None => new.entry(*map).or_default().push(format!("{key} {value}\n")),
            }
        }
        for (map, lines) in new {
            let path = self.places.map(self.number, map);
            // A command must fit into one of HAProxy's buffers, which hold 16 KB at least; a line is at most half of that.
            let mut command = String::new();
            for (at, line) in lines.iter().enumerate() {
                command += line;
                let next = lines.get(at + 1).map_or(usize::MAX, String::len);
                if command.len().saturating_add(next) > 12_000 {
                    let command = std::mem::take(&mut command);
                    socket.tell(&format!("add map {} <<\n{command}", path.display()), str::is_empty)?;
                }
            }
        }
        for (map, key) in known.keys().filter(|at| !wanted.contains_key(*at)) {
            let path = self.places.map(self.number, *map);
            socket.tell(&format!("del map {} {}", path.display(), escaped(key)), str::is_empty)?;
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
            socket.tell(&format!("set server {name}/{server} state maint"), str::is_empty)?;
            self.leaving.push(Leaving { backend: name.to_owned(), server, known });
        }
        if !self.leaving.iter().any(|old| old.backend == name) {
            self.recycle(name);
        }
        Ok(())
    }

    /// Deletes servers whose last connection has ended; a backend without any becomes a spare again if it can.
    pub fn sweep(&mut self, socket: &mut Socket) {
        let mut emptied = BTreeSet::new();
        for old in std::mem::take(&mut self.leaving) {
            let command = format!("del server {}/{}", old.backend, old.server);
            match socket.tell(&command, |answer| answer.contains("deleted")) {
                Ok(()) => emptied.extend([old.backend]),
                Err(_) => self.leaving.push(old),
            }
        }
        for name in emptied {
            if !self.leaving.iter().any(|old| old.backend == name) && self.is_retired(&name) {
                self.recycle(&name);
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

    fn recycle(&mut self, name: &str) {
        let Some(running) = self.running.remove(name) else { return };
        if let Some((_, pool)) = self.spare_shapes.iter().find(|(shape, _)| *shape == running.shape) {
            self.spares.entry(*pool).or_default().push(name.to_owned());
        }
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

fn is_address_answer(answer: &str) -> bool {
    answer.contains("changed from") || answer.contains("no need to change")
}
