//! kube-proxy in the place of ours: whether a test expects what upstream does, and how fast upstream is.

use super::{Lab, PATIENCE};
use crate::{Process, wait_for};
use std::path::PathBuf;

/// Without what it would write for the whole machine: a namespace may not, and the tests need none of it.
const NO_MACHINE_SETTINGS: [&str; 4] = [
    "--conntrack-max-per-core=0",
    "--conntrack-min=0",
    "--conntrack-tcp-timeout-established=0s",
    "--conntrack-tcp-timeout-close-wait=0s",
];

/// The program that `KUBE_PROXY` names.
pub fn kube_proxy() -> Option<PathBuf> {
    std::env::var_os("KUBE_PROXY").filter(|path| !path.is_empty()).map(PathBuf::from)
}

impl Lab {
    /// Starts the kube-proxy that `KUBE_PROXY` names, if it does, with the flags that ours gets; waits until it serves.
    #[track_caller]
    pub fn kube_proxy(&self, mode: &str, more: &[&str]) -> Option<Process> {
        let program = kube_proxy()?.display().to_string();
        let (mode, flags) = (format!("--proxy-mode={mode}"), self.flags());
        let mut words = vec![program.as_str(), &mode, "--v=2"];
        words.extend(NO_MACHINE_SETTINGS);
        words.extend(flags.iter().map(String::as_str));
        words.extend(more);
        let peer = self.start(&words, "kube-proxy.log");
        // Once for each family.
        let done = wait_for(PATIENCE, || (peer.output().matches("SyncProxyRules complete").count() >= 2).then_some(()));
        assert!(done.is_some(), "{}", peer.output());
        Some(peer)
    }
}
