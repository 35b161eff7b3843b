//! All mistakes of one input, so that its author mends them in one go.

use std::fmt;

/// One or more mistakes; there is no empty list of them. Prints one per line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes<E>(Vec<E>);

impl<E> Mistakes<E> {
    /// `Ok` when nothing was found, else everything that was.
    pub fn check(found: Vec<E>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }

    /// The mistakes in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, E> {
        self.0.iter()
    }
}

impl<E> From<E> for Mistakes<E> {
    fn from(only: E) -> Self {
        Self(vec![only])
    }
}

impl<E> IntoIterator for Mistakes<E> {
    type Item = E;
    type IntoIter = std::vec::IntoIter<E>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<E: fmt::Display> fmt::Display for Mistakes<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}
