//! The Pods that this node should run, by uid, with what was last seen of each: from the API, and from files of this machine.
//!
//! A Pod of a file has a mirror in the API, which is shown and not run.

use super::{
    config::uid,
    observe::{Observed, State},
};
use crate::server::{ContainerRef, NodePods};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::ResourceExt;
use parking_lot::RwLock;
use runtime::controller::Key;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

/// Upstream's annotations of Pods from files and of their mirrors.
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
pub(crate) const HASH: &str = "kubernetes.io/config.hash";
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// All Pods of this node; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Index {
    inner: Arc<RwLock<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// From the API, by uid.
    api: HashMap<String, Arc<Pod>>,
    /// From files, by uid.
    files: HashMap<String, Arc<Pod>>,
    /// What the API has of those, by key.
    mirrors: BTreeMap<Key, Arc<Pod>>,
    /// What was last seen and told, by uid.
    seen: HashMap<String, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    observed: Observed,
    status: Option<PodStatus>,
}

/// Versions of Kubernetes' own servers are numbers.
fn version(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

pub(crate) fn is_mirror(pod: &Pod) -> bool {
    pod.annotations().contains_key(MIRROR)
}

/// Whether a Pod comes from a file of this machine.
pub(crate) fn is_static(pod: &Pod) -> bool {
    pod.annotations().get(SOURCE).is_some_and(|source| source == "file") && !is_mirror(pod)
}

impl Index {
    /// The API has this Pod; the uid of the one that is to be looked at.
    pub(crate) fn put(&self, pod: &Arc<Pod>) -> String {
        let mut inner = self.inner.write();
        if is_mirror(pod) {
            let key = Key::of(&**pod);
            inner.mirrors.insert(key.clone(), Arc::clone(pod));
            let of = inner.files.values().find(|one| Key::of(&***one) == key).map(|one| uid(one));
            return of.unwrap_or_default();
        }
        let uid = uid(pod);
        // The answer to a write of ours may be newer than what the watch brings.
        if inner.api.get(&uid).is_none_or(|known| version(known) <= version(pod)) {
            inner.api.insert(uid.clone(), Arc::clone(pod));
        }
        uid
    }

    /// The API has those of these uids and no others; the uids of those that are gone.
    pub(crate) fn keep(&self, listed: &[String]) -> Vec<String> {
        let mut inner = self.inner.write();
        let mut gone: Vec<String> = inner.api.keys().filter(|uid| !listed.contains(uid)).cloned().collect();
        inner.api.retain(|uid, _| listed.contains(uid));
        inner.mirrors.retain(|_, pod| pod.uid().is_some_and(|uid| listed.contains(&uid)));
        gone.extend(inner.files.keys().cloned());
        gone
    }

    /// The API has it no more; the uid of the one that is to be looked at.
    pub(crate) fn take(&self, pod: &Pod) -> String {
        let mut inner = self.inner.write();
        if is_mirror(pod) {
            let key = Key::of(pod);
            if inner.mirrors.get(&key).is_some_and(|known| known.uid() == pod.uid()) {
                inner.mirrors.remove(&key);
            }
            let of = inner.files.values().find(|one| Key::of(&***one) == key).map(|one| uid(one));
            return of.unwrap_or_default();
        }
        let uid = uid(pod);
        inner.api.remove(&uid);
        uid
    }

    /// These are the Pods of files; the uids of those that came or went.
    pub(crate) fn set_files(&self, pods: Vec<Pod>) -> Vec<String> {
        let mut inner = self.inner.write();
        let new: HashMap<String, Arc<Pod>> = pods.into_iter().map(|pod| (uid(&pod), Arc::new(pod))).collect();
        let came = new.keys().filter(|uid| !inner.files.contains_key(*uid));
        let went = inner.files.keys().filter(|uid| !new.contains_key(*uid));
        let changed = came.chain(went).cloned().collect();
        inner.files = new;
        changed
    }

    /// The Pod of this uid, with the status that the API has.
    pub(crate) fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        let inner = self.inner.read();
        if let Some(pod) = inner.api.get(uid) {
            return Some(Arc::clone(pod));
        }
        let pod = inner.files.get(uid)?;
        // Its mirror has its status.
        let mirror = inner
            .mirrors
            .get(&Key::of(&**pod))
            .filter(|mirror| mirror.annotations().get(MIRROR) == pod.annotations().get(HASH));
        let mut pod = (**pod).clone();
        pod.status = mirror.and_then(|mirror| mirror.status.clone()).or(pod.status);
        Some(Arc::new(pod))
    }

    pub(crate) fn mirror(&self, key: &Key) -> Option<Arc<Pod>> {
        self.inner.read().mirrors.get(key).cloned()
    }

    /// Mirrors of files that are not there.
    pub(crate) fn stray_mirrors(&self) -> Vec<Arc<Pod>> {
        let inner = self.inner.read();
        let known: Vec<Key> = inner.files.values().map(|pod| Key::of(&**pod)).collect();
        inner.mirrors.iter().filter(|(key, _)| !known.contains(key)).map(|(_, pod)| Arc::clone(pod)).collect()
    }

    /// The uids of all Pods that should be here.
    pub(crate) fn uids(&self) -> Vec<String> {
        let inner = self.inner.read();
        inner.api.keys().chain(inner.files.keys()).cloned().collect()
    }

    pub(crate) fn note(&self, uid: &str, observed: &Observed, status: Option<&PodStatus>) {
        let mut inner = self.inner.write();
        let seen = inner.seen.entry(uid.to_owned()).or_default();
        seen.observed = observed.clone();
        if let Some(status) = status {
            seen.status = Some(status.clone());
        }
    }

    /// Ids and logs of the containers in such a state.
    pub(crate) fn logs(&self, wanted: impl Fn(State) -> bool) -> Vec<(String, PathBuf)> {
        let inner = self.inner.read();
        let all = inner.seen.values().flat_map(|seen| &seen.observed.containers);
        all.filter(|one| wanted(one.state)).map(|one| (one.id.clone(), one.log.clone())).collect()
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.inner.write().seen.remove(uid);
    }

    fn seen<T>(
        &self,
        namespace: &str,
        name: &str,
        wanted: Option<&str>,
        read: impl FnOnce(&Observed) -> Option<T>,
    ) -> Option<T> {
        let inner = self.inner.read();
        let all = inner.api.values().chain(inner.files.values());
        // A mirror's uid is asked for where the file's Pod is meant.
        let is_wanted = |pod: &Pod| {
            let mirror = inner.mirrors.get(&Key::of(pod)).map(|mirror| uid(mirror));
            wanted.is_none_or(|wanted| uid(pod) == wanted || mirror.as_deref() == Some(wanted))
        };
        let mut found =
            all.filter(|pod| pod.name_any() == name && pod.namespace().as_deref() == Some(namespace) && is_wanted(pod));
        let pod = found.next()?;
        read(&inner.seen.get(&uid(pod))?.observed)
    }
}

impl NodePods for Index {
    fn pods(&self) -> Vec<Arc<Pod>> {
        let inner = self.inner.read();
        let all = inner.api.values().chain(inner.files.values());
        let shown = |pod: &Arc<Pod>| match inner.seen.get(&uid(pod)).and_then(|seen| seen.status.clone()) {
            Some(status) => Arc::new(Pod { status: Some(status), ..(**pod).clone() }),
            None => Arc::clone(pod),
        };
        all.map(shown).collect()
    }

    fn container(&self, namespace: &str, pod: &str, uid: Option<&str>, container: &str) -> Option<ContainerRef> {
        self.seen(namespace, pod, uid, |observed| {
            let one = observed.latest(container)?;
            Some(ContainerRef {
                id: one.id.clone(),
                sandbox: one.sandbox.clone(),
                log: one.log.clone(),
                running: one.state == State::Running,
            })
        })
    }

    fn log_file(&self, namespace: &str, pod: &str, container: &str, previous: bool) -> Option<PathBuf> {
        self.seen(namespace, pod, None, |observed| {
            let mut all = observed.containers.iter().filter(|one| one.name == container);
            let first = all.next()?;
            if !previous {
                return Some(first.log.clone());
            }
            // What ended last, when nothing has been started since.
            let last = if first.state == State::Exited { Some(first) } else { all.next() };
            last.map(|one| one.log.clone())
        })
    }

    fn sandbox(&self, namespace: &str, pod: &str, uid: Option<&str>) -> Option<String> {
        self.seen(namespace, pod, uid, |observed| observed.ready_sandbox().map(|sandbox| sandbox.id.clone()))
    }
}
