//! Lines as container runtimes write them: `2026-01-02T03:04:05.000000006Z stdout F text`. Pure.

use super::options::LogOptions;
use jiff::Timestamp;

/// A line of the file, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    time: &'a str,
    stream: &'a str,
    /// The rest follows in the next line.
    partial: bool,
    text: &'a [u8],
}

/// Nothing for a line that is none: upstream skips those, too.
fn read(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(parts.next()?).ok();
    let (time, stream, tags) = (word()?, word()?, word()?);
    let text = parts.next().unwrap_or_default();
    let partial = tags.split(':').next() == Some("P");
    matches!(stream, "stdout" | "stderr").then_some(Line { time, stream, partial, text })
}

/// Turns lines of the file into what was asked for.
#[derive(Debug)]
pub(super) struct Shown {
    timestamps: bool,
    since: Option<Timestamp>,
    stream: Option<&'static str>,
    left: Option<u64>,
    /// The line before this one has not ended.
    within: bool,
}

impl Shown {
    pub(super) fn new(options: &LogOptions) -> Self {
        let LogOptions { timestamps, since, limit, stream, .. } = *options;
        Self { timestamps, since, stream, left: limit, within: false }
    }

    /// Adds a line, without its end, to what is shown. Says whether there is room for more.
    pub(super) fn add(&mut self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(Line { time, stream, partial, text }) = read(line) else { return self.left != Some(0) };
        if self.stream.is_some_and(|wanted| wanted != stream) || self.is_too_old(time) {
            return self.left != Some(0);
        }
        let before = out.len();
        if self.timestamps && !self.within {
            out.extend_from_slice(time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(text);
        if !partial {
            out.push(b'\n');
        }
        self.within = partial;
        if let Some(left) = &mut self.left {
            let added = (out.len() - before) as u64;
            if added >= *left {
                out.truncate(before + *left as usize);
                *left = 0;
                return false;
            }
            *left -= added;
        }
        true
    }

    fn is_too_old(&self, time: &str) -> bool {
        self.since.is_some_and(|since| time.parse::<Timestamp>().is_ok_and(|time| time < since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-02T03:04:05.1Z stdout F one\n2026-01-02T03:04:06.1Z stderr F two\nnonsense\n\
                       2026-01-02T03:04:07.1Z stdout P thr\n2026-01-02T03:04:07.2Z stdout F ee\n2026-01-02T03:04:08Z stdout F \n";

    fn shown(options: &LogOptions) -> String {
        let (mut shown, mut out) = (Shown::new(options), Vec::new());
        for line in LOG.lines() {
            if !shown.add(line.as_bytes(), &mut out) {
                break;
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_joined_cut_and_chosen() {
        let usual = LogOptions::default();
        for (options, want) in [
            (usual.clone(), "one\ntwo\nthree\n\n"),
            (LogOptions { stream: Some("stderr"), ..usual.clone() }, "two\n"),
            (LogOptions { limit: Some(6), ..usual.clone() }, "one\ntw"),
            (LogOptions { limit: Some(4), ..usual.clone() }, "one\n"),
            (LogOptions { since: "2026-01-02T03:04:07Z".parse().ok(), ..usual.clone() }, "three\n\n"),
            (
                LogOptions { timestamps: true, since: "2026-01-02T03:04:07Z".parse().ok(), ..usual },
                "2026-01-02T03:04:07.1Z three\n2026-01-02T03:04:08Z \n",
            ),
        ] {
            assert_eq!(shown(&options), want, "{options:?}");
        }
    }
}
