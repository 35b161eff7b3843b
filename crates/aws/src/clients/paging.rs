//! Going from page to page until there are no more.

use crate::account::AwsError;

/// Where the next page begins.
#[derive(Debug, Default)]
pub(super) struct Marker(Option<String>);

impl Marker {
    /// What to send along; nothing for the first page.
    pub(super) fn current(&self) -> Option<String> {
        self.0.clone()
    }

    /// Takes note of where the next page begins; says whether there is one. An API that gives the same place twice would never end.
    pub(super) fn advance(&mut self, next: Option<String>) -> Result<bool, AwsError> {
        let next = next.filter(|next| !next.is_empty());
        if next.is_some() && next == self.0 {
            let message = "AWS gives the same page again and again".to_owned();
            return Err(AwsError::Other { code: "EndlessPages".to_owned(), message, request_id: String::new() });
        }
        self.0 = next;
        Ok(self.0.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_and_never_repeat() {
        let mut marker = Marker::default();
        assert_eq!(marker.current(), None);
        assert_eq!(marker.advance(Some("b".to_owned())), Ok(true));
        assert_eq!(marker.current(), Some("b".to_owned()));
        assert_eq!(marker.advance(Some("c".to_owned())), Ok(true));
        assert!(marker.advance(Some("c".to_owned())).is_err());
        assert_eq!(Marker::default().advance(None), Ok(false));
        assert_eq!(Marker::default().advance(Some(String::new())), Ok(false));
    }
}
