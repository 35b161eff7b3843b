//! `twinstack apiserver` with kubectl, kube-rs, etcd and kube-apiserver.

mod admission;
mod aggregation;
mod at_rest;
mod conversion;
mod crash;
mod crd;
mod delegated;
mod etcd;
mod families;
mod kube_apiserver;
mod kube_rs;
mod kubectl;
