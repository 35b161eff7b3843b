//! `twinstack controller-manager`, and every component while the API server goes away and comes back.

mod controllers;
mod kube_controller_manager;
mod restarts;
mod workloads;
