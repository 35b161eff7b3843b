//! Files of `NAME='value'` lines that `fileKeyRef` reads: the part of a shell's syntax that leaves nothing to guess.
//!
//! Values stand in single quotes, may span lines, and are taken as they are. A blank after `=` means an empty value, as in a shell.

/// The value of `key`, nothing if no line has it before a mistake is met.
pub(super) fn value(text: &str, key: &str) -> Result<Option<String>, String> {
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let wrong = |at: usize, why: &str| Err(format!("line {}: {why}", at + 1));
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once('=') else { return wrong(at, "there is no '='") };
        if name.is_empty() || name.ends_with([' ', '\t']) {
            return wrong(at, "a name must stand right before '='");
        }
        if rest.starts_with([' ', '\t']) {
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else { return wrong(at, "a value must stand in single quotes") };
        let mut value = String::new();
        let after = loop {
            if let Some((last, after)) = rest.split_once('\'') {
                value.push_str(last);
                break after;
            }
            value.push_str(rest);
            value.push('\n');
            match lines.next() {
                Some((_, next)) => rest = next,
                None => return wrong(at, "the quote is not closed"),
            }
        };
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with('#') {
            return wrong(at, "only a comment may follow a value");
        }
        if name == key {
            return Ok(Some(value).filter(|value| !value.is_empty()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_quotes_and_mistakes_are_named() {
        let text = "# settings\n  A='one' # first\nB='two\nlines'\nEMPTY= 'x'\n\nC='$(A) \"as is\"'\n";
        for (key, want) in
            [("A", Some("one")), ("B", Some("two\nlines")), ("C", Some("$(A) \"as is\"")), ("EMPTY", None), ("D", None)]
        {
            assert_eq!(value(text, key), Ok(want.map(str::to_owned)), "{key}");
        }
        for (text, want) in [
            ("A", "line 1: there is no '='"),
            ("\nA ='x'", "line 2: a name must stand right before '='"),
            ("A=x", "line 1: a value must stand in single quotes"),
            ("A='x\ny", "line 1: the quote is not closed"),
            ("A='x'y", "line 1: only a comment may follow a value"),
        ] {
            assert_eq!(value(text, "Z"), Err(want.to_owned()));
        }
    }
}
