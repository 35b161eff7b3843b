//! Reading a request body whole: within a size, and at a pace.

use super::{Pace, body::BoxError};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use std::pin::pin;
use tokio::time::{Instant, timeout_at};

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// It is larger than it may be.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It came too slowly or not at all.
    #[error("the body did not arrive in time ({received} bytes did)")]
    TooSlow {
        /// What did arrive.
        received: usize,
    },
    /// The connection broke, or its framing.
    #[error("the body could not be read: {0}")]
    Broken(BoxError),
}

/// Reads a body of at most `most` bytes that comes at least at `pace`.
///
/// `keep` is told of every piece before it is kept and may refuse it, so that many bodies together stay within what there
/// is memory for.
pub async fn collect<B, E>(
    body: B,
    most: usize,
    pace: Pace,
    mut keep: impl FnMut(usize) -> Result<(), E>,
) -> Result<Bytes, E>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    E: From<CollectError>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > most as u64 {
        return Err(CollectError::TooLarge(most).into());
    }
    let mut body = pin!(body);
    let began = Instant::now();
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        let received = first.len() + all.len();
        let now = Instant::now();
        let deadline = now + pace.left(received as u64, now - began);
        let data = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(CollectError::TooSlow { received }.into()),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(CollectError::Broken(error.into()).into()),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        if received + data.len() > most {
            return Err(CollectError::TooLarge(most).into());
        }
        keep(data.len())?;
        if received == 0 {
            // Most bodies come in one piece, which need not be copied.
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
