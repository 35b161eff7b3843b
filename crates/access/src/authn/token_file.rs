//! The static token file (`--token-auth-file`): CSV lines `token,user,uid,"group1,group2"`. Read once at start.

use super::{bearer::Token, user::User};
use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    digest::{Digest, SHA256, digest},
};
use std::fmt;

/// A mistake in the token file, by line. Not retryable; shows no token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// Too few fields.
    #[error("token file line {line}: {found} fields, at least three are needed (token, user, uid)")]
    Fields {
        /// Counted from 1.
        line: usize,
        /// How many there are.
        found: usize,
    },
    /// A quote that does not open or close a field.
    #[error("token file line {line}: stray or unclosed quote")]
    Quote {
        /// Counted from 1.
        line: usize,
    },
    /// The same token twice: which user would it be?
    #[error("token file line {line}: the token of line {first} stands here again")]
    Duplicate {
        /// Counted from 1.
        line: usize,
        /// Where it stood first.
        first: usize,
    },
    /// An empty token would let anybody in.
    #[error("token file line {line}: the token is empty")]
    Empty {
        /// Counted from 1.
        line: usize,
    },
}

/// Tokens and their users. Holds digests, not tokens: comparing two digests of equal length takes the same time whatever
/// the guess, and a dump of memory shows nothing to log in with.
pub struct TokenFile {
    entries: Vec<(Digest, User)>,
}

impl TokenFile {
    /// Reads the text of a token file; all mistakes at once.
    pub fn parse(text: &str) -> Result<Self, Vec<TokenFileError>> {
        let mut entries: Vec<(Digest, User)> = Vec::new();
        let mut lines: Vec<usize> = Vec::new();
        let mut errors = Vec::new();
        for (line, content) in text.lines().enumerate().map(|(index, content)| (index + 1, content)) {
            if content.trim().is_empty() {
                continue;
            }
            let Some(fields) = fields(content) else {
                errors.push(TokenFileError::Quote { line });
                continue;
            };
            let [token, name, uid, groups @ ..] = fields.as_slice() else {
                errors.push(TokenFileError::Fields { line, found: fields.len() });
                continue;
            };
            if token.is_empty() {
                errors.push(TokenFileError::Empty { line });
                continue;
            }
            let digest = digest(&SHA256, token.as_bytes());
            if let Some(first) = entries.iter().position(|(known, _)| known.as_ref() == digest.as_ref()) {
                errors.push(TokenFileError::Duplicate { line, first: lines[first] });
                continue;
            }
            let groups = groups.first().map_or("", String::as_str).split(',').map(str::trim).filter(|g| !g.is_empty());
            entries.push((digest, User { uid: uid.clone(), ..User::new(name.as_str(), groups) }));
            lines.push(line);
        }
        if errors.is_empty() { Ok(Self { entries }) } else { Err(errors) }
    }

    /// The user of a token. Walks all entries, so that the time tells nothing about which one matched.
    pub fn user(&self, token: &Token) -> Option<&User> {
        let digest = digest(&SHA256, token.expose().as_bytes());
        let mut found = None;
        for (known, user) in &self.entries {
            if verify_slices_are_equal(known.as_ref(), digest.as_ref()).is_ok() {
                found = Some(user);
            }
        }
        found
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenFile({} tokens)", self.entries.len())
    }
}

/// The fields of a CSV line (RFC 4180 quoting); none when quotes do not match.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let unquoted = rest.trim_start_matches(' ');
        let (field, after) = match unquoted.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                if rest[..end].contains('"') {
                    return None;
                }
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.trim_end().is_empty() => return Some(fields),
            None => return None,
        }
    }
}

/// Text up to the closing quote, doubled quotes made single, and what follows.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_line_gives_a_token_its_user() {
        let file = TokenFile::parse(
            "t1,alice,1\n\nt2,bob,2,\"dev, ops\"\n\"t,3\",carol,3,\"a \"\"b\"\"\",ignored\nt4,dave,4,\nt5,eve,5,one\n",
        )
        .unwrap();
        for (token, name, uid, groups) in [
            ("t1", "alice", "1", &[][..]),
            ("t2", "bob", "2", &["dev", "ops"][..]),
            ("t,3", "carol", "3", &["a \"b\""][..]),
            ("t4", "dave", "4", &[][..]),
            ("t5", "eve", "5", &["one"][..]),
        ] {
            let user = file.user(&Token::new(token)).unwrap_or_else(|| panic!("no user for {token}"));
            assert_eq!((user.name.as_str(), user.uid.as_str()), (name, uid));
            assert_eq!(user.groups, groups, "{token}");
        }
        for wrong in ["", "t", "t11", "T1"] {
            assert_eq!(file.user(&Token::new(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn all_mistakes_are_told_by_line_and_without_the_token() {
        let errors = TokenFile::parse("hush,a\nhush,a,1\n,b,2\n\"hush,c,3\nhush,d,4\nx\"y,e,5").unwrap_err();
        assert_eq!(
            errors,
            [
                TokenFileError::Fields { line: 1, found: 2 },
                TokenFileError::Empty { line: 3 },
                TokenFileError::Quote { line: 4 },
                TokenFileError::Duplicate { line: 5, first: 2 },
                TokenFileError::Quote { line: 6 },
            ]
        );
        let shown = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn debug_hides_tokens() {
        assert_eq!(format!("{:?}", TokenFile::parse("hush,a,1").unwrap()), "TokenFile(1 tokens)");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,80}") {
            let _ = TokenFile::parse(&text);
        }

        #[test]
        fn every_plain_token_is_found_and_no_other(token in "[a-zA-Z0-9]{1,20}", other in "[a-zA-Z0-9]{1,20}") {
            let file = TokenFile::parse(&format!("{token},u,1")).unwrap();
            prop_assert!(file.user(&Token::new(token.as_str())).is_some());
            prop_assert_eq!(file.user(&Token::new(other.as_str())).is_some(), token == other);
        }
    }
}
