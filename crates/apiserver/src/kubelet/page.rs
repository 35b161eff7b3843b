//! Links of a proxied page, in the client's view: attributes that hold URLs lead below the place where the client sees the target's root.
//!
//! Called by `proxy` for `text/html`. Mirrors what kube-apiserver rewrites. Nothing else of a page is touched, not even within
//! comments, scripts and styles, and a page that cannot be read as one stays as it is.

use super::location;
use crate::Body;
use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, Response, header};
use http_body_util::BodyExt;
use std::io::{Read, Write};

/// Longer pages are passed on as they are, or not at all where that shows too late.
const LONGEST: usize = 16 << 20;

/// Which attributes of which elements hold URLs, by HTML 4 and the living standard.
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text until they end.
const TEXT: [&str; 8] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// Whether a response is a page whose links can be found.
fn is_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let length = text(header::CONTENT_LENGTH).parse::<usize>().unwrap_or_default();
    kind.eq_ignore_ascii_case("text/html")
        && matches!(text(header::CONTENT_ENCODING), "" | "gzip")
        && !headers.contains_key(header::LOCATION)
        && length <= LONGEST
}

/// The response with its links as the client sees them. `own` are the hosts that stand for the proxied one.
pub(super) async fn seen_by_client(
    response: Response<Body>,
    own: Vec<String>,
    prefix: String,
) -> Result<Response<Body>, String> {
    // What is written between quotes must not end them.
    if !is_page(response.headers()) || prefix.contains(['"', '\'', '<', '>', '&']) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let body = whole(body).await?;
    let packed = parts.headers.contains_key(header::CONTENT_ENCODING);
    let page = of_client(body, packed, &own, &prefix);
    parts.headers.insert(header::CONTENT_LENGTH, page.len().into());
    Ok(Response::from_parts(parts, runtime::http::full(page)))
}

async fn whole(mut body: Body) -> Result<Bytes, String> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        read.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
        if read.len() > LONGEST {
            return Err(format!("a page of more than {LONGEST} bytes"));
        }
    }
    Ok(read.into())
}

fn of_client(page: Bytes, packed: bool, own: &[String], prefix: &str) -> Bytes {
    let link = |value: &str| location::seen_by_client(value, own, prefix);
    match packed {
        true => repacked(&page, link).map_or(page, Bytes::from),
        false => rewritten(&page, link).into(),
    }
}

fn repacked(packed: &[u8], link: impl Fn(&str) -> String) -> Option<Vec<u8>> {
    let mut page = Vec::new();
    GzDecoder::new(packed).take(LONGEST as u64 + 1).read_to_end(&mut page).ok().filter(|read| *read <= LONGEST)?;
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(&rewritten(&page, link)).ok()?;
    packer.finish().ok()
}

/// The page with `link` applied to everything that is a URL.
fn rewritten(page: &[u8], link: impl Fn(&str) -> String) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len() + page.len() / 8);
    let mut rest = page;
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with(b"<!--") {
            find(rest, b"-->").unwrap_or(rest.len())
        } else if let Some((tag, end)) = start_tag(rest, &link) {
            out.extend_from_slice(&tag);
            rest = &rest[end..];
            continue;
        } else {
            1
        };
        out.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    out
}

/// The tag at the beginning of `page`, with the text within it if it is an element of text, and where it ends there.
fn start_tag(page: &[u8], link: &impl Fn(&str) -> String) -> Option<(Vec<u8>, usize)> {
    page.get(1).filter(|byte| byte.is_ascii_alphabetic())?;
    let name_end = 1 + page[1..].iter().position(|byte| ends_name(*byte))?;
    let name = page[1..name_end].to_ascii_lowercase();
    let links = LINKS.iter().find(|(element, _)| element.as_bytes() == name).map_or(&[][..], |(_, links)| links);
    let (mut out, mut copied, mut at) = (Vec::new(), 0, name_end);
    loop {
        at += page[at..].iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b'/')?;
        if page[at] == b'>' {
            break;
        }
        let Attribute { key, value, end } = attribute(page, at)?;
        if links.iter().any(|link| link.as_bytes().eq_ignore_ascii_case(key))
            && let Ok(url) = std::str::from_utf8(&page[value.clone()])
        {
            out.extend_from_slice(&page[copied..value.start]);
            out.extend_from_slice(link(url).as_bytes());
            copied = value.end;
        }
        at = end;
    }
    let mut end = at + 1;
    if let Some(element) = TEXT.iter().find(|element| element.as_bytes() == name) {
        let close = format!("</{element}");
        end += find(&page[end..].to_ascii_lowercase(), close.as_bytes()).unwrap_or(page.len() - end);
    }
    out.extend_from_slice(&page[copied..end]);
    Some((out, end))
}

struct Attribute<'a> {
    key: &'a [u8],
    /// Where the value stands, without its quotes.
    value: std::ops::Range<usize>,
    end: usize,
}

/// The attribute that begins at `start`.
fn attribute(page: &[u8], start: usize) -> Option<Attribute<'_>> {
    let until =
        |from: usize, ends: &dyn Fn(u8) -> bool| page[from..].iter().position(|byte| ends(*byte)).map(|at| from + at);
    // A name may begin with an equals sign.
    let key_end = until(start + 1, &|byte| ends_name(byte) || byte == b'=')?;
    let key = &page[start..key_end];
    let next = until(key_end, &|byte| !byte.is_ascii_whitespace())?;
    if page[next] != b'=' {
        return Some(Attribute { key, value: key_end..key_end, end: key_end });
    }
    let open = until(next + 1, &|byte| !byte.is_ascii_whitespace())?;
    match page[open] {
        quote @ (b'"' | b'\'') => {
            let close = until(open + 1, &|byte| byte == quote)?;
            Some(Attribute { key, value: open + 1..close, end: close + 1 })
        }
        _ => {
            let end = until(open, &|byte| byte.is_ascii_whitespace() || byte == b'>')?;
            Some(Attribute { key, value: open..end, end })
        }
    }
}

fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        let link = |value: &str| location::seen_by_client(value, &["192.0.2.1:80".to_owned()], "/x/proxy");
        String::from_utf8(rewritten(text.as_bytes(), link)).unwrap()
    }

    #[test]
    fn links_lead_below_the_prefix_and_nothing_else_changes() {
        for (text, want) in [
            (r#"<a href="/rewriteme">test</a>"#, r#"<a href="/x/proxy/rewriteme">test</a>"#),
            ("<A class=b HREF='/a'>", "<A class=b HREF='/x/proxy/a'>"),
            ("<img src=/a.png alt=/b>", "<img src=/x/proxy/a.png alt=/b>"),
            ("<img alt src = /a.png/>", "<img alt src = /x/proxy/a.png/>"),
            (r#"<link href="http://192.0.2.1:80/s.css"/>"#, r#"<link href="/x/proxy/s.css"/>"#),
            (r#"<a href="http://elsewhere.test/a">"#, r#"<a href="http://elsewhere.test/a">"#),
            (r#"<a href="a?b=1&amp;c">"#, r#"<a href="a?b=1&amp;c">"#),
            (r#"<a href="/a?b=1&amp;c">"#, r#"<a href="/x/proxy/a?b=1&amp;c">"#),
            (r#"<p href="/a">"#, r#"<p href="/a">"#),
            (r#"<!-- <a href="/a"> --><a href="/b">"#, r#"<!-- <a href="/a"> --><a href="/x/proxy/b">"#),
            (
                r#"<script src="/s.js">'<a href="/a">'</script><a href="/b">"#,
                r#"<script src="/x/proxy/s.js">'<a href="/a">'</script><a href="/x/proxy/b">"#,
            ),
            (r#"<form action="/f"><input src="/i">"#, r#"<form action="/x/proxy/f"><input src="/x/proxy/i">"#),
            ("1 < 2 <a href=\"/a\">ü</a> <", "1 < 2 <a href=\"/x/proxy/a\">ü</a> <"),
            ("<a href=\"/a", "<a href=\"/a"),
            ("<!-- /a", "<!-- /a"),
            ("<!DOCTYPE html><html><title><a href='/a'></title>", "<!DOCTYPE html><html><title><a href='/a'></title>"),
            ("", ""),
        ] {
            assert_eq!(page(text), want);
        }
    }

    #[tokio::test]
    async fn only_pages_are_looked_into() {
        let text = r#"<a href="/a">"#;
        let far = r#"<a href="/x/proxy/a">"#;
        for (kind, prefix, want) in [
            ("text/html; charset=utf-8", "/x/proxy", far),
            ("Text/HTML", "/x/proxy", far),
            ("text/plain", "/x/proxy", text),
            ("text/html", "/x\"/proxy", text),
        ] {
            let response = Response::builder().header("content-type", kind).header("content-length", text.len());
            let response = response.body(runtime::http::full(text)).unwrap();
            let (parts, body) = seen_by_client(response, vec![], prefix.to_owned()).await.unwrap().into_parts();
            assert_eq!(body.collect().await.unwrap().to_bytes(), want, "{kind}");
            assert_eq!(parts.headers["content-length"], want.len().to_string(), "{kind}");
        }
    }

    #[test]
    fn packed_pages_are_packed_again() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(b"<a href=/a>").unwrap();
        let packed = repacked(&packer.finish().unwrap(), |link| format!("/x{link}")).unwrap();
        let mut text = String::new();
        GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "<a href=/x/a>");
        assert!(repacked(b"no gzip", str::to_owned).is_none());
    }
}
