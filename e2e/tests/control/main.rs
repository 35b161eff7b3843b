//! `twinstack controller-manager`, and every component while the API server goes away and comes back.

mod batch;
mod certificates;
mod controllers;
mod helm;
mod kube_controller_manager;
mod limits;
mod restarts;
mod stateful;
mod storage;
mod workloads;
