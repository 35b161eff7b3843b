//! Reads type declarations out of Go source: structs with their tags and markers, and named types.
//!
//! Called by `types::run`. It knows as much Go as the Kubernetes API packages use: one declaration per line, struct
//! fields of one line each, comments directly above what they speak of.

use std::{collections::BTreeMap, fs, path::Path};

/// One package: the declarations of all its files.
#[derive(Default)]
pub(super) struct Package {
    /// Declared types by name.
    pub(super) types: BTreeMap<String, Declared>,
    /// Text constants by name, quotes included.
    pub(super) constants: BTreeMap<String, String>,
}

/// A declared type with the imports of the file it stands in.
pub(super) struct Declared {
    /// Markers above the declaration: `structType` -> `atomic`.
    pub(super) markers: Vec<(String, String)>,
    /// Struct or other.
    pub(super) body: Body,
    /// Import path by the name that the file uses for it.
    pub(super) imports: BTreeMap<String, String>,
}

/// What a type is declared as.
pub(super) enum Body {
    Struct(Vec<Member>),
    /// Another type, as written: `string`, `[]string`, `map[ResourceName]resource.Quantity`.
    Other(String),
}

/// One field of a struct, or an embedded struct.
pub(super) struct Member {
    /// The type as written.
    pub(super) go_type: String,
    /// Whether the field has no name of its own.
    pub(super) embedded: bool,
    /// The raw tag string between backquotes.
    pub(super) tag: String,
    /// Markers above the field: `listType` -> `map`.
    pub(super) markers: Vec<(String, String)>,
}

impl Member {
    /// The value of one key of the tag (`json`, `protobuf`), or empty.
    pub(super) fn tag(&self, key: &str) -> &str {
        let opening = format!("{key}:\"");
        self.tag.split_once(&opening).and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
    }
}

/// The values of all markers of this name.
pub(super) fn marker<'a>(markers: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    markers.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Reads every source file of a package directory that people wrote.
pub(super) fn package(directory: &Path) -> Result<Package, String> {
    let mut package = Package::default();
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let written = name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !name.starts_with("generated.")
            && !name.starts_with("zz_generated.");
        if written {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            file(&text, &mut package);
        }
    }
    Ok(package)
}

fn file(text: &str, package: &mut Package) {
    let imports = imports(text);
    let mut markers = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(marker_of(comment));
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if let Some((before, value)) = line.split_once(" = \"")
            && let Some(name) = before.split_whitespace().find(|word| *word != "const")
        {
            package.constants.insert(name.to_owned(), format!("\"{}", without_comment(value)));
        }
        let own = std::mem::take(&mut markers);
        let Some(declaration) = line.strip_prefix("type ") else { continue };
        let Some((name, rest)) = declaration.split_once(' ') else { continue };
        let body = if rest.trim_start().starts_with("struct") {
            let inside = if rest.trim_end().ends_with('}') { Vec::new() } else { members(&mut lines) };
            Body::Struct(inside)
        } else {
            Body::Other(without_comment(rest.trim_start_matches(['=', ' '])).to_owned())
        };
        package.types.insert(name.to_owned(), Declared { markers: own, body, imports: imports.clone() });
    }
}

fn members<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Member> {
    let mut members = Vec::new();
    let mut markers = Vec::new();
    for line in lines {
        if line.starts_with('}') {
            break;
        }
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(marker_of(comment));
            continue;
        }
        let own = std::mem::take(&mut markers);
        let Some((before, rest)) = line.split_once('`') else { continue };
        let Some((tag, _)) = rest.split_once('`') else { continue };
        let (embedded, go_type) = match before.trim().split_once(char::is_whitespace) {
            Some((_, go_type)) => (false, go_type.trim()),
            None => (true, before.trim()),
        };
        members.push(Member { go_type: go_type.to_owned(), embedded, tag: tag.to_owned(), markers: own });
    }
    members
}

/// `// +listType=map` is a marker; any other comment is prose, which is not ours to keep.
fn marker_of(comment: &str) -> Option<(String, String)> {
    let marker = comment.trim().strip_prefix('+')?;
    let (name, value) = marker.split_once('=').unwrap_or((marker, ""));
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

fn imports(text: &str) -> BTreeMap<String, String> {
    let block = text.split_once("import (").and_then(|(_, rest)| rest.split_once("\n)")).map_or("", |(block, _)| block);
    let mut imports = BTreeMap::new();
    let alone = text.lines().filter_map(|line| line.strip_prefix("import "));
    for line in block.lines().chain(alone) {
        let Some((before, rest)) = line.split_once('"') else { continue };
        let Some((path, _)) = rest.split_once('"') else { continue };
        let last = path.rsplit('/').next().unwrap_or(path);
        let name = if before.trim().is_empty() { last } else { before.trim() };
        imports.insert(name.to_owned(), path.to_owned());
    }
    imports
}

fn without_comment(text: &str) -> &str {
    text.split_once("//").map_or(text, |(code, _)| code).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const ProtocolTCP Protocol = "TCP" // the usual one

// Protocol is prose, which is dropped.
type Protocol string

// +structType=atomic
type Port struct {
	metav1.TypeMeta `json:",inline"`
	// Prose again.
	// +optional
	// +default="TCP"
	Protocol Protocol `json:"protocol,omitempty" protobuf:"bytes,2,opt,name=protocol,casttype=Protocol"`
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Targets []intstr.IntOrString `json:"targets" patchStrategy:"merge" protobuf:"bytes,4,rep,name=targets"`
	hidden int
}

type Empty struct{}
type Names = []string
"#;

    fn read() -> Package {
        let mut package = Package::default();
        file(SOURCE, &mut package);
        package
    }

    #[test]
    fn structs_are_read_with_tags_and_markers_and_without_prose() {
        let package = read();
        let port = &package.types["Port"];
        assert_eq!(port.markers, [("structType".to_owned(), "atomic".to_owned())]);
        assert_eq!(port.imports["metav1"], "k8s.io/apimachinery/pkg/apis/meta/v1");
        assert_eq!(port.imports["intstr"], "k8s.io/apimachinery/pkg/util/intstr");
        let Body::Struct(members) = &port.body else { panic!("a struct") };
        let types: Vec<(&str, bool)> =
            members.iter().map(|member| (member.go_type.as_str(), member.embedded)).collect();
        assert_eq!(types, [("metav1.TypeMeta", true), ("Protocol", false), ("[]intstr.IntOrString", false)]);
        assert_eq!(members[1].tag("json"), "protocol,omitempty");
        assert_eq!(members[1].tag("protobuf").split(',').nth(1), Some("2"));
        assert_eq!(members[2].tag("patchMergeKey"), "");
        assert_eq!(marker(&members[1].markers, "default").collect::<Vec<_>>(), ["\"TCP\""]);
        assert_eq!(marker(&members[2].markers, "listMapKey").collect::<Vec<_>>(), ["port", "protocol"]);
    }

    #[test]
    fn other_types_and_constants_are_read() {
        let package = read();
        assert_eq!(package.constants["ProtocolTCP"], "\"TCP\"");
        let other = |name: &str| match &package.types[name].body {
            Body::Other(text) => text.clone(),
            Body::Struct(members) => format!("struct of {}", members.len()),
        };
        assert_eq!([other("Protocol"), other("Names"), other("Empty")], ["string", "[]string", "struct of 0"]);
    }

    #[test]
    fn source_that_is_cut_off_anywhere_is_no_panic() {
        for end in 0..SOURCE.len() {
            file(&SOURCE[..end], &mut Package::default());
        }
    }
}
