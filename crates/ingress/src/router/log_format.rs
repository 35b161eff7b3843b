//! Texts in HAProxy's log format that users bring: header values, unique ids, access logs.
//!
//! HAProxy refuses a whole configuration over one word that it does not know, and some words read files. So every text is read
//! here first, by the router and by the operator alike: what passes is known to HAProxy 2.6 and newer, and harmless.

/// What a text is for, which decides what there is to tell when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A header of a request.
    Request,
    /// A header of an answer.
    Response,
    /// The name of a request.
    UniqueId,
    /// A line of the access log.
    AccessLog,
}

/// Variables such as `%ci`, all of which may stand in unique ids and access logs.
const VARIABLES: &[&str] = &[
    "o", "B", "CC", "CS", "H", "HM", "HP", "HPO", "HQ", "HU", "HV", "ID", "ST", "T", "Ta", "Tc", "Td", "Th", "Ti",
    "Tl", "Tq", "TR", "Tr", "Ts", "Tt", "Tu", "Tw", "U", "ac", "b", "bc", "bi", "bp", "bq", "ci", "cp", "f", "fc",
    "fi", "fp", "ft", "hr", "hrl", "hs", "hsl", "lc", "ms", "pid", "r", "rc", "rt", "s", "sc", "si", "sp", "sq",
    "sslc", "sslv", "t", "tr", "trg", "trl", "ts", "tsc",
];

/// What is known of a connection at any time.
const CONNECTION: &[&str] = &[
    "src",
    "src_port",
    "dst",
    "dst_port",
    "fc_rcvd_proxy",
    "fc_http_major",
    "fc_rtt",
    "uuid",
    "rand",
    "hostname",
    "date",
    "method",
    "fe_name",
    "ssl_fc",
    "ssl_fc_sni",
    "ssl_fc_protocol",
    "ssl_fc_cipher",
    "ssl_fc_alpn",
    "ssl_c_s_dn",
    "ssl_c_i_dn",
    "ssl_c_serial",
    "ssl_c_verify",
    "ssl_c_used",
    "ssl_c_der",
];
/// What is known while the request is at hand.
const REQUEST: &[&str] = &["path", "pathq", "query", "url", "base", "req.ver"];
/// What is known when all is over.
const OVER: &[&str] = &["be_name", "srv_name", "status"];

impl Place {
    /// For messages.
    pub(crate) fn accepted(self) -> &'static str {
        match self {
            Self::Request => {
                "text without control characters; %% for a percent sign; %[req.hdr(NAME)] or %[ssl_c_der], with ,lower and ,base64"
            }
            Self::Response => {
                "text without control characters; %% for a percent sign; %[res.hdr(NAME)] or %[ssl_c_der], with ,lower and ,base64"
            }
            Self::UniqueId | Self::AccessLog => {
                "a log format of HAProxy 2.6 in one line: %% for a percent sign, its variables such as %ci, and the \
                 expressions that the router's guide lists"
            }
        }
    }

    fn has_variables(self) -> bool {
        matches!(self, Self::UniqueId | Self::AccessLog)
    }

    fn knows(self, fetch: &str) -> bool {
        match self {
            Self::Request | Self::Response => fetch == "ssl_c_der",
            Self::UniqueId => CONNECTION.contains(&fetch) || REQUEST.contains(&fetch),
            Self::AccessLog => CONNECTION.contains(&fetch) || OVER.contains(&fetch) || fetch == "unique-id",
        }
    }

    /// What is asked for by name.
    fn knows_named(self, fetch: &str) -> bool {
        match self {
            Self::Request => fetch == "req.hdr",
            Self::Response => fetch == "res.hdr",
            Self::UniqueId => ["req.hdr", "req.fhdr", "req.cook", "url_param"].contains(&fetch),
            Self::AccessLog => false,
        }
    }

    fn converts(self, converter: &str) -> bool {
        let more = self.has_variables() && ["upper", "hex", "length", "url_enc", "url_dec"].contains(&converter);
        more || converter == "lower" || converter == "base64"
    }
}

/// Whether a text can be used: one line, and everything in it that begins with a percent sign is known.
pub(crate) fn is_usable(text: &str, place: Place) -> bool {
    super::text::is_printable(text) && follow(text, place).is_some()
}

/// HAProxy's own lines for HTTP and for TCP.
pub(crate) const HTTP: &str =
    "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
pub(crate) const TCP: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// A text with an expression in place of the backend's name.
pub(crate) fn with_backend(text: &str, expression: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at + 1);
        replaced += before;
        if let Some(after) = after.strip_prefix('%') {
            replaced.push('%');
            rest = after;
            continue;
        }
        let flags = if after.starts_with('{') { after.find('}').map_or(0, |end| end + 1) } else { 0 };
        replaced += &after[..flags];
        rest = &after[flags..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if &rest[..end] == "b" {
            replaced += expression;
            rest = &rest[end..];
        }
    }
    replaced + rest
}

fn follow(text: &str, place: Place) -> Option<()> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if let Some(flags) = rest.strip_prefix('{') {
            let (flags, after) = flags.split_once('}')?;
            let is_flag = |flag: &str| ["Q", "X", "E"].contains(&flag.strip_prefix(['+', '-']).unwrap_or(flag));
            flags.split(',').all(is_flag).then_some(())?;
            rest = after;
        }
        match rest.strip_prefix('[') {
            Some(inner) => {
                let (expression, after) = inner.split_once(']')?;
                is_expression(expression, place).then_some(())?;
                rest = after;
            }
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                (place.has_variables() && VARIABLES.contains(&&rest[..end])).then_some(())?;
                rest = &rest[end..];
            }
        }
    }
    Some(())
}

fn is_expression(expression: &str, place: Place) -> bool {
    let mut parts = expression.split(',');
    let fetch = parts.next().unwrap_or_default();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let known = match fetch.strip_suffix(')').and_then(|fetch| fetch.split_once('(')) {
        Some((fetch, name)) => place.knows_named(fetch) && is_name(name),
        None => place.knows(fetch),
    };
    known && parts.all(|converter| place.converts(converter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backends_name_can_be_another() {
        for (text, expected) in [
            ("%b/%s", "%X/%s"),
            ("%{+Q}b %bq %%b %B", "%{+Q}X %bq %%b %B"),
            ("%[be_name] %b", "%[be_name] %X"),
            ("b %", "b %"),
        ] {
            assert_eq!(with_backend(text, "X"), expected);
        }
        assert!(is_usable(HTTP, Place::AccessLog) && is_usable(TCP, Place::AccessLog));
    }

    #[test]
    fn texts_hold_what_is_known_in_their_place() {
        use Place::{AccessLog, Request, Response, UniqueId};
        for (text, places) in [
            ("plain 'text' # \\ {x}", &[Request, Response, UniqueId, AccessLog][..]),
            ("100%%", &[Request, Response, UniqueId, AccessLog]),
            ("100%", &[]),
            ("%[req.hdr(host),lower]", &[Request, UniqueId]),
            ("%{+Q,-X}[req.hdr(X-A)]", &[Request, UniqueId]),
            ("%{+Z}[req.hdr(X-A)]", &[]),
            ("%[res.hdr(X-A),lower,base64]", &[Response]),
            ("a %[ssl_c_der,base64] b", &[Request, Response, UniqueId, AccessLog]),
            ("%[src]", &[UniqueId, AccessLog]),
            ("%[status]", &[AccessLog]),
            ("%[uuid,hex]", &[UniqueId, AccessLog]),
            ("%[env(HOME)]", &[]),
            ("%[req.hdr(a)", &[]),
            ("%[req.hdr()]", &[]),
            ("%[req.hdr(a),map(/etc/passwd)]", &[]),
            ("%ci:%cp [%t] %{+Q}r %%", &[UniqueId, AccessLog]),
            ("%{+X}o %ci:%cp_%fi:%fp_%Ts_%rt:%pid", &[UniqueId, AccessLog]),
            ("%ci5", &[]),
            ("%nonsense", &[]),
            ("a\nb", &[]),
        ] {
            for place in [Request, Response, UniqueId, AccessLog] {
                assert_eq!(is_usable(text, place), places.contains(&place), "{place:?} {text:?}");
            }
        }
    }
}
