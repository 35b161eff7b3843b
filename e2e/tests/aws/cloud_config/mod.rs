//! `twinstack cloud-config sync` as a program: ConfigMaps come, change, break and go, the process dies in between, and the
//! target is what `cloud-config transform` prints. The program has the rights that its manifests give, and no others. What is written and watched is
//! also tried on a real kube-apiserver when `KUBE_APISERVER` names it.

mod cluster;
mod infrastructure;
mod life;
mod sources;
mod target;
mod texts;
