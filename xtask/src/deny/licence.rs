//! SPDX expressions: `MIT OR (Apache-2.0 AND BSD-3-Clause)`, `Apache-2.0 WITH LLVM-exception`, and the old `MIT/Apache-2.0`.

/// Whether an expression can be met with licences of a list. What cannot be read cannot be met.
pub(super) fn allows(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    reader.any().filter(|_| reader.words.is_empty()).unwrap_or(false)
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let taken = self.words.first() == Some(&word);
        if taken {
            self.words = &self.words[1..];
        }
        taken
    }

    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.any()?;
            return self.take(")").then_some(met);
        }
        let (name, rest) = self.words.split_first()?;
        self.words = rest;
        let mut name = (*name).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            // Exceptions only ever permit more.
            let _ = exception;
        }
        if let Some(plain) = name.strip_suffix('+') {
            name = plain.to_owned();
        }
        let is_word = !["OR", "AND", "WITH", ")"].contains(&name.as_str());
        is_word.then(|| self.allowed.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_what_is_allowed() {
        let allowed = ["MIT", "Apache-2.0", "Zlib"].map(str::to_owned);
        for (text, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("MIT/Apache-2.0", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR GPL-3.0-only) AND Zlib", true),
            ("MIT OR GPL-3.0-only AND Zlib", true),
            ("(GPL-3.0-only OR LGPL-3.0-only) AND MIT", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT MIT", false),
            ("OR MIT", false),
        ] {
            assert_eq!(allows(text, &allowed), expected, "{text}");
        }
    }
}
