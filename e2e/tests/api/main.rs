//! `twinstack apiserver` with kubectl, kube-rs, etcd and kube-apiserver.

mod at_rest;
mod crash;
mod crd;
mod etcd;
mod families;
mod kube_apiserver;
mod kube_rs;
mod kubectl;
