//! What types and fields are for.

/// The description of a type.
pub(super) fn of_type(_name: &str) -> Option<String> {
    None
}

/// The description of a field.
pub(super) fn of_field(_structure: &str, _field: &str) -> Option<String> {
    None
}
