//! CustomResourceDefinitions: kinds that a user brings along.
//!
//! A definition is read once (`definition`), its schemas are checked and its rules compiled (`structural`, `cel`), and it turns
//! into resources (`resource`) that the engine serves like built-in ones. Objects are pruned, defaulted and validated by
//! walking them along the schema (`walk`). All of it is pure; the engine stores, watches and routes.
//!
//! The way of a definition: `DefinitionRules` admit it, `definition::status::settle` gives it its names and conditions,
//! `Definition::read` and `resources` make its routes.

pub mod admission;
pub mod cel;
pub mod columns;
pub mod definition;
pub mod jsonpath;
mod packed;
pub mod policy;
pub mod resource;
pub mod shape;
pub mod structural;
pub mod walk;

#[cfg(test)]
mod tests;

pub use admission::WebhookRules;
pub use definition::{Definition, DefinitionRules};
pub use packed::Packed;
pub use policy::{MutatingPolicyRules, PolicyRules};
pub use resource::resources;
