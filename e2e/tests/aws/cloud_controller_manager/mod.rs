//! `twinstack cloud-controller-manager` as a program with the AWS of the tests: Services of every kind come, change and go, nodes are described and get
//! routes, and few calls are made for all of it.

mod cloud;
mod groups;
mod limits;
mod nodes;
mod refusals;
mod services;
