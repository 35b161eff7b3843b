//! The events of a watch as they come in, line by line.

use super::erased::{Decoder, Erased};
use crate::client::endpoint::Lines;
use futures::AsyncBufReadExt;
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{error::Error, io, iter};

pub(super) enum Line {
    /// Made or changed.
    Applied(Erased),
    Deleted(Erased),
    /// Nothing, up to this version.
    Bookmark(String),
    /// The server ends the watch.
    Ended(Box<Status>),
}

/// A watch that is under way.
pub(super) struct Changes {
    lines: Lines,
    /// What has come of the next line; kept here, so that nothing is lost when nobody waits any more.
    line: Vec<u8>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

impl Changes {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, line: Vec::new() }
    }

    /// The next event; `None` at the end, or where the connection was cut between or within events: whether something was
    /// missed shows when the watch is asked for again.
    pub(super) async fn next(&mut self, decode: Decoder) -> Option<kube::Result<Line>> {
        loop {
            match self.lines.read_until(b'\n', &mut self.line).await {
                Ok(_) => {}
                Err(error) if is_cut_off(&error) => {
                    tracing::debug!(%error, "the connection of a watch was closed");
                    return None;
                }
                Err(error) => return Some(Err(kube::Error::ReadEvents(error))),
            }
            let complete = self.line.last() == Some(&b'\n');
            if self.line.is_empty() {
                return None;
            }
            let line = read(&self.line, decode);
            self.line.clear();
            match line {
                // Half a line, or an empty one.
                Err(kube::Error::SerdeError(error)) if error.is_eof() && !complete => return None,
                Err(kube::Error::SerdeError(error)) if error.is_eof() => {}
                line => return Some(line),
            }
        }
    }
}

fn read(line: &[u8], decode: Decoder) -> kube::Result<Line> {
    let wrong = kube::Error::SerdeError;
    let Raw { kind, object } = match serde_json::from_slice(line) {
        Ok(raw) => raw,
        // A general answer in place of an event.
        Err(error) => match serde_json::from_slice::<Status>(line) {
            Ok(status) if !error.is_eof() => return Err(kube::Error::Api(status.boxed())),
            _ => return Err(wrong(error)),
        },
    };
    match kind {
        "ADDED" | "MODIFIED" => decode(object.get()).map(Line::Applied).map_err(wrong),
        "DELETED" => decode(object.get()).map(Line::Deleted).map_err(wrong),
        "BOOKMARK" => {
            let Bookmark { metadata } = serde_json::from_str(object.get()).map_err(wrong)?;
            Ok(Line::Bookmark(metadata.resource_version))
        }
        "ERROR" => Ok(Line::Ended(serde_json::from_str(object.get()).map_err(wrong)?)),
        other => {
            Err(wrong(serde::de::Error::unknown_variant(other, &["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])))
        }
    }
}

/// Whether the connection ended within an answer, which is how watches of a server that stops end.
fn is_cut_off(error: &io::Error) -> bool {
    // A chain that leads back to itself must not stall a watch.
    let mut chain = iter::successors(Some(error as &(dyn Error + 'static)), |error| cause(*error)).take(16);
    chain.any(|error| match error.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
        Some(error) if error.get_ref().is_some() => false,
        _ => error.to_string().contains("unexpected EOF during chunk"),
    })
}

/// What is behind an error. That of an `io::Error` is not what it holds but what is behind that.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|held| held as &(dyn Error + 'static)),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::erased::decode, *};
    use futures::{FutureExt, io::Cursor};
    use k8s_openapi::api::core::v1::ConfigMap;

    fn told(text: &str) -> Vec<String> {
        let mut changes = Changes::new(Box::pin(Cursor::new(text.as_bytes().to_vec())));
        let mut words = Vec::new();
        while let Some(line) = changes.next(decode::<ConfigMap>).now_or_never().unwrap() {
            words.push(match line {
                Ok(Line::Applied(object)) => format!("+{}", object.version),
                Ok(Line::Deleted(object)) => format!("-{}", object.version),
                Ok(Line::Bookmark(version)) => format!("={version}"),
                Ok(Line::Ended(status)) => format!("!{}", status.code),
                Err(kube::Error::Api(status)) => format!("status {}", status.code),
                Err(_) => "unreadable".to_owned(),
            });
        }
        words
    }

    #[test]
    fn every_line_is_an_event_and_half_a_line_is_none() {
        let event = |kind: &str, version: u32| {
            format!(r#"{{"object": {{"metadata": {{"resourceVersion": "{version}"}}}}, "type": "{kind}"}}"#)
        };
        let all = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"].map(|kind| event(kind, 7)).join("\n");
        assert_eq!(told(&all), ["+7", "+7", "-7", "=7"], "the last line need not end");
        assert_eq!(told(&format!("\n{}\n\n{}", event("ADDED", 1), &event("ADDED", 2)[..30])), ["+1"]);
        let ended = r#"{"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410}}"#;
        assert_eq!(told(ended), ["!410"]);
        assert_eq!(told(r#"{"kind": "Status", "status": "Failure", "code": 500}"#), ["status 500"]);
        assert_eq!(told(&format!("{}\nnonsense\n", event("OTHER", 1))), ["unreadable", "unreadable"]);
    }

    #[test]
    fn a_connection_that_is_cut_is_an_end() {
        let eof = || io::Error::from(io::ErrorKind::UnexpectedEof);
        for (error, cut) in [
            (eof(), true),
            (io::Error::other(eof()), true),
            (io::Error::other(io::Error::other(eof())), true),
            (io::Error::other("unexpected EOF during chunk size line"), true),
            (io::Error::other("refused"), false),
            (io::ErrorKind::ConnectionReset.into(), false),
        ] {
            assert_eq!(is_cut_off(&error), cut, "{error:?}");
        }
    }
}
