//! Answers packed for clients that can unpack them, as kube-apiserver does: with gzip, fast, and only where it is worth it.

use crate::Body;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, header};
use std::io::Write;

/// Below this packing costs more than it saves.
const WORTH_IT: usize = 128 * 1024;

/// A body that is there as a whole, put into the extensions of its response.
#[derive(Clone)]
pub(crate) struct Whole(pub(crate) Bytes);

/// Whether a client can unpack.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| {
            word.split(';').next().unwrap_or_default().trim() == "gzip" && !word.replace(' ', "").ends_with(";q=0")
        })
}

/// Packs an answer that is whole and large.
pub(crate) fn pack(mut response: Response<Body>) -> Response<Body> {
    let Some(Whole(body)) = response.extensions_mut().remove::<Whole>() else { return response };
    if body.len() < WORTH_IT || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let mut packer = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    let Ok(packed) = packer.write_all(&body).and_then(|()| packer.finish()) else { return response };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(header::CONTENT_LENGTH);
    // What the answer holds is given back with the old body: the packed one needs nothing of it.
    response.map(|_| runtime::http::full(packed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use std::io::Read;

    fn headers(text: &str) -> HeaderMap {
        [(header::ACCEPT_ENCODING, HeaderValue::from_str(text).unwrap())].into_iter().collect()
    }

    #[test]
    fn gzip_has_to_be_asked_for() {
        for (text, want) in
            [("gzip", true), ("br, gzip;q=0.5", true), ("identity", false), ("gzip;q=0", false), ("", false)]
        {
            assert_eq!(is_accepted(&headers(text)), want, "{text}");
        }
    }

    #[tokio::test]
    async fn only_large_answers_are_packed() {
        for (size, packed) in [(WORTH_IT - 1, false), (WORTH_IT, true)] {
            let body = Bytes::from(vec![b'a'; size]);
            let mut response = Response::new(runtime::http::full(body.clone()));
            response.extensions_mut().insert(Whole(body.clone()));
            let response = pack(response);
            assert_eq!(response.headers().contains_key(header::CONTENT_ENCODING), packed);
            let sent = response.into_body().collect().await.unwrap().to_bytes();
            let mut text = Vec::new();
            match packed {
                true => drop(GzDecoder::new(&sent[..]).read_to_end(&mut text).unwrap()),
                false => text.extend_from_slice(&sent),
            }
            assert_eq!(text, body);
        }
    }
}
