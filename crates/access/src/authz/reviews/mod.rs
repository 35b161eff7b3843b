//! Answers to the review kinds: may somebody do something, what may I do, who am I, whose token is this. Pure; the engine
//! routes `create` of these kinds here instead of to the store.

mod access;
mod identity;
#[cfg(test)]
mod tests;

pub use access::{
    local_subject_access_review, self_subject_access_review, self_subject_rules_review, subject_access_review,
};
pub use identity::{self_subject_review, token_review};
