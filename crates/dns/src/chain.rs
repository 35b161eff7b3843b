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
    /// In the order of `plugin::ORDER`.
    pub plugins: Vec<Box<dyn Plugin>>,
    /// Metrics and logs.
    pub observers: Observers,
    /// The server's name for clients that ask for it.
    pub nsid: Option<Vec<u8>>,
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
                Step::Done => {
                    self.up(at, query, reply);
                    Ok(())
                }
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
                Step::Done => {
                    self.up(at, query, reply);
                    return Ok(());
                }
            }
        }
        nobody(reply);
        self.up(self.plugins.len(), query, reply);
        Ok(())
    }

    /// `at` is the plugin that answered; those above it see the answer.
    fn up(&self, at: usize, query: &mut Query, reply: &mut Reply) {
        if reply.by.is_empty() {
            reply.by = self.plugins.get(at).map_or("", |plugin| plugin.name());
        }
        self.plugins[..at].iter().rev().for_each(|plugin| plugin.after(query, reply));
    }
}

fn nobody(reply: &mut Reply) {
    reply.fail(rcode::SERVFAIL, Some("no plugin answers for this name".to_owned()));
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
        let chain = Arc::clone(self.routes.chain(&query.lower)?);
        Box::pin(chain.run(self.routes, &mut query, &mut reply)).await;
        if query.refresh == Refresh::Wanted {
            Box::pin(chain.refresh(self.routes, query)).await;
        }
        reply.message()
    }

    /// What the plugins below this one make of the query.
    pub async fn below(&self, query: &mut Query, reply: &mut Reply) {
        Box::pin(self.chain.run_below(self.at, self.routes, query, reply)).await;
    }
}
