//! A value that must not reach a log or an error text: keys, tokens, passwords.

use std::fmt;

/// Holds a `T` and prints as `[secret]`. There is no `Deref`, so that every use is visible as [`Secret::expose`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that needs it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_display_shows_the_value() {
        #[derive(Debug)]
        struct Login {
            #[expect(dead_code, reason = "printed by Debug, which is the point")]
            token: Secret<String>,
        }
        let token = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{token} {token:?} {:#?}", token.expose().len()), "[secret] [secret] 7");
        assert_eq!(format!("{:?}", Login { token }), "Login { token: [secret] }");
    }
}
