//! Where in the schema a part of an expression comes from: `self`, `ports`, `@items`, `name`.
//!
//! Upstream keeps such paths in Go slices and appends to them without copying, so that two paths that continue the same
//! one may share memory, and the later step then stands in both: after `x.a` and `x.b`, the first may have become `x.b`.
//! The sizes that it then looks up decide which definitions it takes, so the sharing is part of the rules.

use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Steps, in memory that longer and shorter paths may share. The path of a value that comes from nowhere is empty.
#[derive(Clone, Default)]
pub(super) struct Path {
    steps: Rc<RefCell<Vec<Arc<str>>>>,
    length: usize,
    /// How many steps fit into the memory; a path that fills it is copied when it grows.
    room: usize,
}

impl Path {
    pub(super) fn of(variable: Arc<str>) -> Self {
        Self { steps: Rc::new(RefCell::new(vec![variable])), length: 1, room: 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn steps(&self) -> Vec<Arc<str>> {
        self.steps.borrow()[..self.length].to_vec()
    }

    /// One step further.
    pub(super) fn then(&self, step: Arc<str>) -> Self {
        let length = self.length + 1;
        if self.length < self.room {
            let mut steps = self.steps.borrow_mut();
            if steps.len() > self.length {
                steps[self.length] = step;
            } else {
                steps.push(step);
            }
            return Self { steps: self.steps.clone(), length, room: self.room };
        }
        let mut steps = self.steps();
        steps.push(step);
        Self { steps: Rc::new(RefCell::new(steps)), length, room: (self.room * 2).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn steps_after_a_full_path_are_its_own_and_others_are_shared() {
        let show = |path: &Path| path.steps().join(".");
        let list = Path::of("self".into()).then("l".into());
        let (a, b) = (list.then("a".into()), list.then("b".into()));
        assert_eq!((show(&a), show(&b)), ("self.l.a".to_owned(), "self.l.b".to_owned()));
        let (x, y) = (a.then("x".into()), a.then("y".into()));
        assert_eq!((show(&x), show(&y)), ("self.l.a.y".to_owned(), "self.l.a.y".to_owned()));
    }
}
