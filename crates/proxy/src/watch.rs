//! Events from the API: Services, EndpointSlices, this node, the ranges of cluster IPs, and where it matters all nodes, in one stream.

use crate::track::Tracker;
use futures::{
    StreamExt, TryStreamExt,
    stream::{BoxStream, SelectAll, select_all},
};
use k8s_openapi::api::{core::v1 as core, discovery::v1::EndpointSlice, networking::v1::ServiceCIDR};
use kube::Client;
use runtime::{
    client::Api,
    watch::{self, Config, Event, watch as follow},
};

pub(crate) enum WatchEvent {
    Service(Box<Event<core::Service>>),
    Slice(Box<Event<EndpointSlice>>),
    Node(Box<Event<core::Node>>),
    Range(Box<Event<ServiceCIDR>>),
    /// Any node, this one too.
    Peer(Box<Event<core::Node>>),
}

/// What cannot be followed, for now.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// ServiceCIDRs, which older clusters do not have.
    Ranges(watch::Error),
    /// What there is no proxy without.
    Rest(watch::Error),
}

/// Which lists are complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Complete {
    services: bool,
    slices: bool,
    node: bool,
    /// Or known not to be had.
    pub(crate) ranges: bool,
    /// All nodes, once they are followed.
    peers: Option<bool>,
}

impl Complete {
    pub(crate) fn all(self) -> bool {
        self.services && self.slices && self.node && self.ranges && self.peers != Some(false)
    }
}

pub(crate) type Events = SelectAll<BoxStream<'static, Result<WatchEvent, Trouble>>>;

/// Follows all of them for ever; an error is passed on, then tried again with growing pauses.
pub(crate) fn events(client: &Client, node_name: &str) -> Events {
    const MINE: &str = "!service.kubernetes.io/service-proxy-name";
    const WITH_ADDRESS: &str = "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless";
    let config = Config::default;
    let node = config().fields(&format!("metadata.name={node_name}"));
    let services = follow(Api::<core::Service>::all(client.clone()), config().labels(MINE));
    let slices = follow(Api::<EndpointSlice>::all(client.clone()), config().labels(WITH_ADDRESS));
    let nodes = follow(Api::<core::Node>::all(client.clone()), node);
    let ranges = follow(Api::<ServiceCIDR>::all(client.clone()), config());
    select_all([
        services.map_ok(|event| WatchEvent::Service(Box::new(event))).map_err(Trouble::Rest).boxed(),
        slices.map_ok(|event| WatchEvent::Slice(Box::new(event))).map_err(Trouble::Rest).boxed(),
        nodes.map_ok(|event| WatchEvent::Node(Box::new(event))).map_err(Trouble::Rest).boxed(),
        ranges.map_ok(|event| WatchEvent::Range(Box::new(event))).map_err(Trouble::Ranges).boxed(),
    ])
}

/// Follows all nodes too, from the first time that the index asks for them.
pub(crate) fn follow_peers(events: &mut Events, client: &Client, tracker: &Tracker, complete: &mut Complete) {
    if tracker.wants_peers() && complete.peers.is_none() {
        complete.peers = Some(false);
        let nodes = follow(Api::<core::Node>::all(client.clone()), Config::default());
        events.push(nodes.map_ok(|event| WatchEvent::Peer(Box::new(event))).map_err(Trouble::Rest).boxed());
    }
}

/// Puts an event into the index.
pub(crate) fn take(tracker: &mut Tracker, seen: &WatchEvent, complete: &mut Complete) {
    match seen {
        WatchEvent::Service(event) => match &**event {
            Event::Apply(object) | Event::InitApply(object) => tracker.service(object),
            Event::Delete(object) => tracker.no_service(object),
            Event::Init => tracker.services_begin(),
            Event::InitDone => {
                tracker.services_end();
                complete.services = true;
            }
        },
        WatchEvent::Slice(event) => match &**event {
            Event::Apply(object) | Event::InitApply(object) => tracker.slice(object),
            Event::Delete(object) => tracker.no_slice(object),
            Event::Init => tracker.slices_begin(),
            Event::InitDone => {
                tracker.slices_end();
                complete.slices = true;
            }
        },
        WatchEvent::Node(event) => match &**event {
            Event::Apply(object) | Event::InitApply(object) => tracker.set_node(Some(object)),
            Event::Delete(_) => tracker.set_node(None),
            Event::Init => {}
            Event::InitDone => complete.node = true,
        },
        WatchEvent::Peer(event) => match &**event {
            Event::Apply(object) | Event::InitApply(object) => tracker.peer(object),
            Event::Delete(object) => tracker.no_peer(object),
            Event::Init => tracker.peers_begin(),
            Event::InitDone => {
                tracker.peers_end();
                complete.peers = Some(true);
            }
        },
        WatchEvent::Range(event) => match &**event {
            Event::Apply(object) | Event::InitApply(object) => tracker.range(object),
            Event::Delete(object) => tracker.no_range(object),
            Event::Init => tracker.ranges_begin(),
            Event::InitDone => {
                tracker.ranges_end();
                complete.ranges = true;
            }
        },
    }
}
