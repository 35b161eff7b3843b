//! Plugins one after another: down until one answers, and back up through those that were passed.

use crate::{
    observe::Observers,
    plugin::{Plugin, Step},
    query::{Query, Refresh},
    routes::Routes,
    wire::{Message, Name, Reply, code::rcode},
};
use std::sync::Arc;

/// What a server block does with a query.
pub struct Chain {
    /// In the order of `plugin::ORDER`; all zones of a block share them.
    pub plugins: Arc<[Box<dyn Plugin>]>,
    /// Metrics and logs.
    pub observers: Observers,
    /// The server's name for clients that ask for it.
    pub nsid: Option<Vec<u8>>,
    /// Whether a plugin looks at clients' EDNS options on the way down.
    pub reads_options: bool,
}

impl Chain {
    /// Goes as far as it can without waiting. `Err` names the plugin that must wait; [`Chain::resume`] goes on there.
    pub fn run_now(&self, query: &mut Query, reply: &mut Reply) -> Result<(), usize> {
        self.down(0, query, reply)
    }

    /// Goes on with the plugin that must wait.
    pub async fn resume(&self, routes: &Arc<Routes>, mut at: usize, query: &mut Query, reply: &mut Reply) {
        loop {
            let step = match self.plugins.get(at) {
                None => Step::Next,
                Some(plugin) => plugin.later(query, reply, Rest { routes, chain: self, at }).await,
            };
            let outcome = match step {
                Step::Done => self.up(at, query, reply),
                Step::Next | Step::Later => self.down(at + 1, query, reply),
            };
            match outcome {
                Ok(()) => return,
                Err(next) => at = next,
            }
        }
    }

    /// From the first plugin to the answer.
    pub async fn run(&self, routes: &Arc<Routes>, query: &mut Query, reply: &mut Reply) {
        if let Err(at) = self.run_now(query, reply) {
            Box::pin(self.resume(routes, at, query, reply)).await;
        }
    }

    /// Asks everything below the cache again, for the cache.
    pub async fn refresh(&self, routes: &Arc<Routes>, mut query: Query) {
        let Some(cache) = self.plugins.iter().position(|plugin| plugin.name() == "cache") else { return };
        let mut reply = Reply::new();
        query.refresh = Refresh::Now;
        self.run_below(cache, routes, &mut query, &mut reply).await;
        self.plugins[cache].after(&mut query, &mut reply);
    }

    /// What the plugins below `at` make of it; those above are not told.
    async fn run_below(&self, at: usize, routes: &Arc<Routes>, query: &mut Query, reply: &mut Reply) {
        reply.reset(&query.request.name, query.request.rtype, query.request.class);
        let mut next = at + 1;
        loop {
            let step = match self.plugins.get(next) {
                None => {
                    nobody(reply);
                    Step::Done
                }
                Some(plugin) => match plugin.before(query, reply) {
                    Step::Later => plugin.later(query, reply, Rest { routes, chain: self, at: next }).await,
                    step => step,
                },
            };
            if step == Step::Done {
                self.plugins[at + 1..next.min(self.plugins.len())].iter().rev().for_each(|p| p.after(query, reply));
                return;
            }
            next += 1;
        }
    }

    fn down(&self, from: usize, query: &mut Query, reply: &mut Reply) -> Result<(), usize> {
        for (at, plugin) in self.plugins.iter().enumerate().skip(from) {
            match plugin.before(query, reply) {
                Step::Next => {}
                Step::Later => return Err(at),
                Step::Done => return self.up(at, query, reply),
            }
        }
        nobody(reply);
        self.up(self.plugins.len(), query, reply)
    }

    /// `at` is the plugin that answered; those above it see the answer. `Err` names one that must wait before it goes on.
    fn up(&self, at: usize, query: &mut Query, reply: &mut Reply) -> Result<(), usize> {
        if reply.by.is_empty() {
            reply.by = self.plugins.get(at).map_or("", |plugin| plugin.name());
        }
        for (index, plugin) in self.plugins[..at].iter().enumerate().rev() {
            plugin.after(query, reply);
            if std::mem::take(&mut reply.waits) {
                return Err(index);
            }
        }
        Ok(())
    }
}

fn nobody(reply: &mut Reply) {
    reply.fail(rcode::SERVFAIL, Some("no plugin answers for this name".to_owned()));
}

/// A question whose answer is to be fetched anew, beside whoever was given the old one.
pub(crate) type Stale = (Arc<Routes>, Arc<Chain>, Query);

/// Has an answer fetched anew by the job of the Corefile. There is at most one such question for each answer that is kept.
pub(crate) fn refresh_beside(routes: &Arc<Routes>, chain: Arc<Chain>, query: Query) {
    if let Some(refreshes) = &routes.refreshes {
        // Who has stopped meanwhile needs no fresh answers.
        let _ = refreshes.send((Arc::clone(routes), chain, query));
    }
}

/// What a waiting plugin may ask of the others.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    routes: &'a Arc<Routes>,
    chain: &'a Chain,
    at: usize,
}

impl Rest<'_> {
    /// What this server answers to another question of the same client.
    pub async fn lookup(&self, query: &Query, name: Name, rtype: u16) -> Option<Message> {
        let mut query = query.derived(name, rtype)?;
        let mut reply = Reply::new();
        reply.reset(&query.request.name, rtype, query.request.class);
        let chain = Arc::clone(self.routes.chain(&query)?);
        Box::pin(chain.run(self.routes, &mut query, &mut reply)).await;
        if query.refresh == Refresh::Wanted {
            refresh_beside(self.routes, chain, query);
        }
        reply.message()
    }

    /// What the plugins below this one make of the query.
    pub async fn below(&self, query: &mut Query, reply: &mut Reply) {
        Box::pin(self.chain.run_below(self.at, self.routes, query, reply)).await;
    }
}
