//! Content negotiation: which form of answer a client can read, by its Accept header.
//!
//! JSON is always to be had, YAML and protobuf on request; `as=Table` and `as=PartialObjectMetadata` change what is said, not how.
//! There is no protobuf of a Table, nor of kinds that definitions bring.

use api::error::ApiError;

/// What an answer about objects contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Object,
    /// Rows for people; the version is echoed.
    Table(&'static str),
    /// Metadata alone; the version is echoed.
    Metadata(&'static str),
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// application/json.
    Json,
    /// application/yaml.
    Yaml,
    /// application/vnd.kubernetes.protobuf.
    Protobuf,
}

/// The outcome of negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    pub view: View,
    pub encoding: Encoding,
}

impl Accept {
    /// Plain JSON objects.
    pub const JSON: Self = Self { view: View::Object, encoding: Encoding::Json };

    /// Reads an Accept header; the first acceptable entry wins, whatever its q. `custom` kinds have no protobuf of their own.
    pub fn new(header: Option<&str>, custom: bool) -> Result<Self, ApiError> {
        let header = header.unwrap_or_default().trim();
        if header.is_empty() {
            return Ok(Self::JSON);
        }
        Self::first(header, custom, |_| true)
    }

    /// The same for what is answered and not kept: it has no metadata, and no row of a table.
    pub fn of_review(header: Option<&str>) -> Result<Self, ApiError> {
        match header.unwrap_or_default().trim() {
            "" => Ok(Self::JSON),
            header => Self::first(header, false, |accept| accept.view == View::Object),
        }
    }

    fn first(header: &str, custom: bool, served: impl Fn(&Self) -> bool) -> Result<Self, ApiError> {
        let is_there = |accept: &Self| match (accept.encoding, accept.view) {
            (Encoding::Protobuf, View::Table(_)) => false,
            (Encoding::Protobuf, View::Object) => !custom,
            _ => true,
        };
        header.split(',').filter_map(entry).find(|accept| is_there(accept) && served(accept)).ok_or_else(|| {
            ApiError::not_acceptable(match custom {
                false => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
                true => "application/json, application/yaml",
            })
        })
    }
}

/// The media type of protobuf, of whole answers.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn entry(text: &str) -> Option<Accept> {
    let mut parts = text.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "application/*" | "*/*" => Encoding::Json,
        "application/yaml" | "text/yaml" => Encoding::Yaml,
        PROTOBUF => Encoding::Protobuf,
        _ => return None,
    };
    let (mut shape, mut version, mut group) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => shape = value,
            Some(("v", value)) => version = value,
            Some(("g", value)) => group = value,
            // `stream=watch` is how older clients ask for a watch; q and charset change nothing here.
            _ => {}
        }
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => "",
    };
    let view = match (shape, group, version) {
        ("", _, _) => View::Object,
        ("Table", "meta.k8s.io", version) if !version.is_empty() => View::Table(version),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", version) if !version.is_empty() => {
            View::Metadata(version)
        }
        _ => return None,
    };
    Some(Accept { view, encoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_can_be_served_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let list = [
            ("", View::Object, Encoding::Json),
            ("*/*", View::Object, Encoding::Json),
            ("application/vnd.kubernetes.protobuf,application/json", View::Object, Encoding::Protobuf),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
                View::Object,
                Encoding::Json,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                View::Metadata("v1"),
                Encoding::Protobuf,
            ),
            (table, View::Table("v1"), Encoding::Json),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", View::Table("v1beta1"), Encoding::Json),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", View::Metadata("v1"), Encoding::Json),
            ("application/yaml", View::Object, Encoding::Yaml),
            ("application/json;as=Unknown;v=v1;g=x,application/json;q=0.8", View::Object, Encoding::Json),
        ];
        for (header, view, encoding) in list {
            assert_eq!(Accept::new(Some(header), false), Ok(Accept { view, encoding }), "{header}");
        }
        assert_eq!(Accept::of_review(Some(table)), Ok(Accept::JSON));
        let only = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(Accept::of_review(Some(only)).unwrap_err().code, 406);
        assert_eq!(Accept::new(Some("text/html"), false).unwrap_err().code, 406);
        assert_eq!(Accept::new(Some(PROTOBUF), true).unwrap_err().code, 406, "a custom kind has no protobuf");
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(Accept::new(Some(table), false).unwrap_err().code, 406);
    }
}
