//! Selectors of lists and watches: labels and fields, from their text form.

pub mod fields;
pub mod labels;
