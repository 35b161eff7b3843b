//! Reading a request: what it asks for, its parameters, its body, and the form of answer it accepts.

pub mod accept;
pub mod bodies;
pub mod body;
pub mod info;
pub mod query;
pub mod route;
