//! Pods as tables: defaults, preparation, what is refused and where.

use super::*;

#[test]
fn placeholder() {}
