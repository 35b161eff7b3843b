//! Paths inside volumes: relative, and never upwards.

use crate::{error::FieldError, kinds::check::Errors, path::Path};

/// A path below the volume.
pub(super) fn below(errors: &mut Errors, path: &Path, value: &str) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be relative: no '/' first"));
    }
    no_backsteps(errors, path, value);
}

/// A path below the volume for a file that the kubelet writes: names that begin with `..` are its own.
pub(super) fn file(errors: &mut Errors, path: &Path, value: &str) {
    below(errors, path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(FieldError::invalid(path, value, "'..' is not accepted at its start"));
    }
}

/// No part of the path leads upwards.
pub(in crate::kinds) fn no_backsteps(errors: &mut Errors, path: &Path, value: &str) {
    if value.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, value, "'..' is not accepted as a part of it"));
    }
}
