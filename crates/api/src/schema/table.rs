//! Reads `types.txt`, the facts of the built-in types, and finds a type by name or by kind.
//!
//! A block is a type; its first line is the OpenAPI name and, for a kind, `group/version/Kind`. Below, one field a line:
//! name, shape, protobuf number, flags. A line `atomic` says that apply owns the struct as a whole.
//!
//! - Shapes: the words of `scalar`, `[]X` a list, `{}X` a map, anything else a struct (`.X` is of the same package).
//! - Numbers: `4`; `2.4` when the field is number 4 of an embedded message with number 2, and so on inwards (`2.2.4`); none when
//!   protobuf has no such field.
//! - Flags: `pointer`, `omitempty`, `omitzero`, `required`, `atomic`, `set`, `keys=a,b`, `merge`, `retainKeys`, `replace`,
//!   `mergeKey=k`, `default=JSON`; `wrapped` is a list that protobuf keeps in a message of its own.

use super::{Field, ListKind, MapKind, Omit, Patch, Shape, Struct};
use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

const FACTS: &str = include_str!("types.txt");
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

static TABLE: LazyLock<Table> = LazyLock::new(|| read(FACTS));

/// The built-in struct with this OpenAPI name (`io.k8s.api.core.v1.ServicePort`).
pub fn named(name: &str) -> Option<&'static Struct> {
    TABLE.types.get(name).map(|entry| &entry.structure)
}

/// The built-in struct of a kind (`apps`, `v1`, `Deployment`); lists are kinds too.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Struct> {
    named(TABLE.kinds.get(&(group, version, kind))?)
}

/// Every built-in kind, lists included: group, version, kind and the name of its type.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    TABLE.kinds.iter().map(|((group, version, kind), name)| (*group, *version, *kind, *name))
}

/// Where the fields of a built-in struct stand in protobuf, by number.
pub(crate) fn wire(name: &str) -> Option<&'static [Wire]> {
    TABLE.types.get(name).map(|entry| entry.wire.as_slice())
}

/// Where one field stands in protobuf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    /// Numbers of the embedded messages around the field, from outside; 0 where there is none.
    within: [u32; 2],
    /// Number in that message.
    pub(crate) number: u32,
    /// JSON name.
    pub(crate) name: &'static str,
    /// A list that is the field 1 of a message of its own.
    pub(crate) wrapped: bool,
}

impl Wire {
    /// Numbers of the embedded messages around the field, from outside.
    pub(crate) fn within(&self) -> &[u32] {
        let depth = self.within.iter().take_while(|number| **number > 0).count();
        &self.within[..depth]
    }

    /// The number of the embedded message below `within` that leads to the field.
    pub(crate) fn below(&self, within: &[u32]) -> Option<u32> {
        self.within().strip_prefix(within)?.first().copied()
    }
}

#[derive(Default)]
struct Table {
    types: HashMap<&'static str, Entry>,
    kinds: BTreeMap<(&'static str, &'static str, &'static str), &'static str>,
}

#[derive(Default)]
struct Entry {
    structure: Struct,
    wire: Vec<Wire>,
}

/// Full names by package and short name, so that every shape can refer to the text of the facts itself.
type Names = HashMap<(&'static str, &'static str), &'static str>;

/// The full name of a type of the same package.
type Neighbour<'a> = dyn Fn(&'static str) -> Option<&'static str> + 'a;

fn read(facts: &'static str) -> Table {
    let headers = facts.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '#']));
    let names: Names = headers
        .filter_map(|line| line.split(' ').next())
        .filter_map(|name| Some((name.rsplit_once('.')?, name)))
        .collect();
    let mut table = Table::default();
    for block in facts.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        let Some(header) = lines.next() else { continue };
        let (name, kind) = header.split_once(' ').unwrap_or((header, ""));
        let mut kind = kind.splitn(3, '/');
        if let (Some(group), Some(version), Some(kind)) = (kind.next(), kind.next(), kind.next()) {
            table.kinds.insert((group, version, kind), name);
        }
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        let mut entry = Entry { structure: Struct { name: name.to_owned(), ..Struct::default() }, wire: Vec::new() };
        for line in lines {
            match line.trim() {
                "atomic" => entry.structure.atomic = true,
                line => field(line, &|short| names.get(&(package, short)).copied(), &mut entry),
            }
        }
        entry.wire.sort_by_key(|wire| wire.number);
        table.types.insert(name, entry);
    }
    table
}

fn field(line: &'static str, neighbour: &Neighbour<'_>, entry: &mut Entry) {
    let mut words = line.split(' ');
    let (Some(name), Some(shape)) = (words.next(), words.next()) else { return };
    let mut wire = Wire { within: [0; 2], number: 0, name, wrapped: false };
    let mut field = Field {
        shape: shape_of(shape, neighbour),
        omit: Omit::Never,
        pointer: false,
        required: false,
        number: 0,
        patch: Patch::default(),
        default: None,
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("pointer", _) => field.pointer = true,
            ("omitempty", _) => field.omit = Omit::Empty,
            ("omitzero", _) => field.omit = Omit::Zero,
            ("required", _) => field.required = true,
            ("wrapped", _) => wire.wrapped = true,
            ("merge", _) => field.patch.merge = true,
            ("retainKeys", _) => field.patch.retain_keys = true,
            ("mergeKey", key) => field.patch.merge_key = Some(key.to_owned()),
            ("set", _) => set_list_kind(&mut field.shape, ListKind::Set),
            ("keys", keys) => {
                set_list_kind(&mut field.shape, ListKind::Map(keys.split(',').map(str::to_owned).collect()));
            }
            ("atomic", _) => {
                if let Shape::Map(_, kind) = &mut field.shape {
                    *kind = MapKind::Atomic;
                }
            }
            ("default", value) => field.default = serde_json::from_str(value).ok(),
            ("replace", _) => {} // What a patch does anyway to a field that is not merged.
            (number, _) => {
                let (within, number) = number.rsplit_once('.').unwrap_or(("", number));
                for (place, outer) in wire.within.iter_mut().zip(within.split('.')) {
                    *place = outer.parse().unwrap_or(0);
                }
                wire.number = number.parse().unwrap_or(0);
            }
        }
    }
    field.number = wire.number;
    if wire.number > 0 {
        entry.wire.push(wire);
    }
    entry.structure.fields.insert(name.to_owned(), field);
}

fn set_list_kind(shape: &mut Shape, kind: ListKind) {
    if let Shape::List(_, known) = shape {
        *known = kind;
    }
}

fn shape_of(text: &'static str, neighbour: &Neighbour<'_>) -> Shape {
    if let Some(item) = text.strip_prefix("[]") {
        return Shape::List(Box::new(shape_of(item, neighbour)), ListKind::Atomic);
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Shape::Map(Box::new(shape_of(value, neighbour)), MapKind::Granular);
    }
    let schema = || Box::new(Shape::Named(SCHEMA));
    match text {
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "number" => Shape::Number,
        "string" => Shape::String,
        "bytes" => Shape::Bytes,
        "time" => Shape::Time,
        "microTime" => Shape::MicroTime,
        "duration" => Shape::Duration,
        "quantity" => Shape::Quantity,
        "intOrString" => Shape::IntOrString,
        "any" => Shape::Any,
        "schemaOrSchemas" => Shape::Or(schema(), Box::new(Shape::List(schema(), ListKind::Atomic))),
        "schemaOrBool" => Shape::Or(schema(), Box::new(Shape::Bool)),
        "schemaOrStrings" => Shape::Or(schema(), Box::new(Shape::List(Box::new(Shape::String), ListKind::Atomic))),
        name => Shape::Named(name.strip_prefix('.').and_then(neighbour).unwrap_or(name)),
    }
}
