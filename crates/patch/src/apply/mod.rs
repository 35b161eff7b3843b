//! Who owns which field: server-side apply, and the account kept of all other writes in `metadata.managedFields`.
//!
//! Called by the engine: [`apply`] for apply requests, [`track_update`] for every other write, [`settle_times`] before
//! storing. Pure: objects are JSON values, types are [`api::schema::Shape`]. Mirrors the behaviour of structured-merge-diff
//! and of apimachinery's managedfields.
//!
//! `path` and `set` name fields; `typed` walks objects by their type; `ownership` has the rules; `managed` reads and writes
//! the entries; `request`, `update`, `scale` and `last_applied` are what requests ask for.

mod last_applied;
mod lay_over;
mod managed;
mod ownership;
mod path;
#[cfg(test)]
mod replay;
mod request;
mod scale;
mod set;
mod steady;
#[cfg(test)]
mod tests;
mod typed;
mod update;

pub use lay_over::lay_over;
pub use managed::check_entries;
pub use ownership::Force;
pub use path::{BadStep, Scalar, Step};
pub use request::{Apply, apply, check_config};
pub use scale::Scale;
pub use set::{FieldPath, FieldSet};
pub use update::{Claim, Update, settle_times, track_update};

/// The most bytes of a manager's name.
pub const MOST_MANAGER_BYTES: usize = 128;

/// The manager that a user agent stands for when the request names none: its first word, up to the slash.
pub fn manager_of(user_agent: &str) -> String {
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MOST_MANAGER_BYTES {
            break;
        }
        name.push(c);
    }
    name
}
