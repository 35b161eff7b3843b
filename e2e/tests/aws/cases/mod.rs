//! What Services get from AWS, case by case: the files of `crates/aws/tests/cases`, with moto behind the proxy instead of an account in memory,
//! and the real clients in front.

mod calls;
mod emulated;

#[path = "../../../../crates/aws/tests/cases/drift.rs"]
mod drift;
#[path = "../../../../crates/aws/tests/cases/leftovers.rs"]
mod leftovers;
#[path = "../../../../crates/aws/tests/cases/load_balancers.rs"]
mod load_balancers;
#[path = "../../../../crates/aws/tests/cases/neighbours.rs"]
mod neighbours;
mod policy;
#[path = "../../../../crates/aws/tests/cases/refusals.rs"]
mod refusals;
#[path = "../../../../crates/aws/tests/cases/tables.rs"]
mod tables;
#[path = "../../../../crates/aws/tests/cases/targets.rs"]
mod targets;
#[path = "../../../../crates/aws/tests/cases/transitions.rs"]
mod transitions;
#[path = "../../../../crates/aws/tests/cases/world.rs"]
mod world;
