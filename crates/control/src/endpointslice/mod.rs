//! The endpointslice controllers.

use crate::framework::Controller;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[];
