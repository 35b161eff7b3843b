//! Servers of a running backend: added, changed, sent away and told whom to trust, through the socket.

use super::{Live, Need, Socket, SocketError, backend};
use crate::router::model::{Backend, Claim, Server, Termination};
use std::{collections::BTreeMap, net::SocketAddr};

/// A server as HAProxy has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    address: SocketAddr,
    weight: u16,
    h2c: bool,
}

impl Known {
    pub(super) fn of(server: &Server) -> Self {
        let Server { address, weight, h2c, .. } = *server;
        Self { address, weight, h2c }
    }
}

/// A server that gets no new connections.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) backend: String,
    pub(super) server: String,
    pub(super) known: Known,
}

impl Live {
    /// Makes the servers of a backend those of the model.
    pub(super) fn servers(
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
            let wanted = Known::of(server);
            let at = format!("{name}/{}", server.name);
            match known.get(&server.name) {
                Some(old) if old.h2c == wanted.h2c => {
                    if old.address != wanted.address {
                        let (ip, port) = (wanted.address.ip(), wanted.address.port());
                        socket.execute(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
                    }
                    if old.weight != wanted.weight {
                        socket.execute(&format!("set server {at} weight {}", wanted.weight), str::is_empty)?;
                    }
                    // A server that was made without checks gets them with the next generation, which nothing waits for.
                    known.insert(server.name.clone(), wanted);
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
            socket.execute(&format!("set server {name}/{server} state maint"), str::is_empty)?;
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
            socket.execute(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
            socket.execute(&format!("set server {at} weight {}", server.weight), str::is_empty)?;
            socket.execute(&format!("set server {at} state ready"), str::is_empty)?;
            self.leaving.remove(index);
            return Ok(());
        }
        let check = backend::check_interval(backend, &self.settings).filter(|_| self.checks);
        let words = backend::server_words(backend, server, check, &self.settings, &self.layout);
        // HAProxy computes the cookie of an address when the address changes, not when a server is added.
        let first = if port == 9 { 10 } else { 9 };
        let begin = SocketAddr::new(ip, first);
        socket.execute(&format!("add server {at} {begin} {words}"), |answer| answer.contains("registered"))?;
        socket.execute(&format!("set server {at} addr {ip} port {port}"), is_address_answer)?;
        if check.is_some() {
            socket.execute(&format!("enable health {at}"), str::is_empty)?;
        }
        socket.execute(&format!("set server {at} state ready"), str::is_empty)
    }

    /// Makes sure that HAProxy has what the pods of a claim are checked against. It reads no such file while it runs, but takes
    /// the content from the socket. False when that cannot be.
    pub(super) fn knows_authority(&mut self, claim: &Claim, socket: &mut Socket) -> bool {
        if claim.termination != Termination::Reencrypt {
            return true;
        }
        let own = claim.destination_ca.as_ref().map(|pem| (self.layout.authority(pem), pem.clone()));
        let service_ca = self.settings.tls.destination_ca.as_ref();
        let service_ca = service_ca.map(|_| (self.layout.service_ca(), self.service_ca.clone()));
        own.or(service_ca).is_none_or(|(file, pem)| self.load_authority(&file, &pem, socket))
    }
}

fn is_address_answer(answer: &str) -> bool {
    answer.contains("changed from") || answer.contains("no need to change")
}
