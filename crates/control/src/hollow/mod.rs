//! The hollow controllers.

use crate::framework::Controller;

/// The controllers of this room.
pub const CONTROLLERS: &[Controller] = &[];

/// What flags decide here.
#[derive(Clone, Debug, Default)]
pub struct Options {}
