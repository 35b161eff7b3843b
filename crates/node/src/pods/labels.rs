//! Labels and annotations of sandboxes and containers in the runtime: upstream's names, so that other tools find them and a
//! kubelet that comes later knows what is whose.

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const UID: &str = "io.kubernetes.pod.uid";
pub(crate) const NAME: &str = "io.kubernetes.container.name";
pub(crate) const RESTARTS: &str = "io.kubernetes.container.restartCount";
pub(crate) const TERMINATION_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub(crate) const TERMINATION_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
pub(crate) const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// The image as the Pod names it: another one is another container.
pub(crate) const IMAGE: &str = "twinstack.dev/container-image";
