//! Answers, and what AWS says when it refuses: each API in its own shape.

use super::{call::Api, xml::escaped};
use bytes::Bytes;

/// What goes back to whoever called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn xml(status: u16, text: String) -> Self {
        Self { status, kind: "text/xml".to_owned(), body: text.into() }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why a call is not done.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// AWS would refuse it.
    Ours { status: u16, code: String, message: String },
    /// moto refuses it.
    Theirs(Answer),
}

/// A refusal as most are: the caller's mistake.
pub(super) fn refused(code: &str, message: impl Into<String>) -> Refusal {
    Refusal::Ours { status: 400, code: code.to_owned(), message: message.into() }
}

impl Refusal {
    pub(super) fn with_status(status: u16, code: &str, message: &str) -> Self {
        Self::Ours { status, code: code.to_owned(), message: message.to_owned() }
    }

    /// Whether what was asked about is not there.
    pub(super) fn is_not_found(&self) -> bool {
        match self {
            Self::Ours { code, .. } => code.contains("NotFound"),
            Self::Theirs(answer) => answer.text().contains("NotFound"),
        }
    }

    pub(super) fn answer(self, api: Api) -> Answer {
        let (status, code, message) = match self {
            Self::Theirs(answer) => return answer,
            Self::Ours { status, code, message } => (status, code, escaped(&message)),
        };
        let text = match api {
            Api::Ec2 => format!(
                "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>\
                 <RequestID>strict</RequestID></Response>"
            ),
            _ => format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>\
                 <RequestId>strict</RequestId></ErrorResponse>"
            ),
        };
        Answer::xml(status, text)
    }
}
