//! From JSON to protobuf bytes, by the table of types. Writes what upstream writes, byte for byte: fields by number, scalars
//! that are no pointers even when zero, maps sorted by key.

use super::{
    Error, MAGIC,
    wire::{put_bytes, put_double, put_number},
};
use crate::schema::{Field, Shape, Struct, scalar, table};
use serde_json::Value;

/// Wraps a message in magic and `Unknown`.
pub(super) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, api_version.as_bytes());
    put_bytes(&mut meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &meta);
    put_bytes(&mut out, 2, message);
    put_bytes(&mut out, 3, &[]);
    put_bytes(&mut out, 4, &[]);
    out
}

/// The message of a built-in type.
pub(super) fn message(structure: &Struct, value: &Value) -> Result<Vec<u8>, Error> {
    embedded(structure, value, &[])
}

/// The fields of a message, or of one that is embedded in it (`within`), by number.
fn embedded(structure: &Struct, value: &Value, within: &[u32]) -> Result<Vec<u8>, Error> {
    let wires = table::wire(&structure.name).unwrap_or_default();
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    for wire in wires {
        if let Some(number) = wire.below(within) {
            if parts.iter().all(|(written, _)| *written != number) {
                let mut out = Vec::new();
                put_bytes(&mut out, number, &embedded(structure, value, &[within, &[number]].concat())?);
                parts.push((number, out));
            }
            continue;
        }
        let Some(field) = structure.fields.get(wire.name).filter(|_| wire.within() == within) else { continue };
        let mut out = Vec::new();
        let given = &value[wire.name];
        let written = if wire.wrapped {
            wrapped(&mut out, wire.number, &field.shape, given)
        } else {
            one(&mut out, wire.number, field, given)
        };
        written.map_err(|error| error.within(wire.name))?;
        parts.push((wire.number, out));
    }
    parts.sort_by_key(|(number, _)| *number);
    Ok(parts.into_iter().flat_map(|(_, bytes)| bytes).collect())
}

fn one(out: &mut Vec<u8>, number: u32, field: &Field, value: &Value) -> Result<(), Error> {
    // A list and a map have nothing to write when absent, a pointer neither; anything else is written as zero.
    if value.is_null() && (field.pointer || matches!(field.shape, Shape::List(..) | Shape::Map(..) | Shape::Bytes)) {
        return Ok(());
    }
    put(out, number, &field.shape, value)
}

fn put(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) -> Result<(), Error> {
    match shape {
        Shape::List(item, _) => {
            for entry in value.as_array().map_or(&[][..], Vec::as_slice) {
                element(out, number, item, entry)?;
            }
        }
        Shape::Map(item, _) => {
            for (key, entry) in value.as_object().into_iter().flatten() {
                let mut pair = Vec::new();
                put_bytes(&mut pair, 1, key.as_bytes());
                element(&mut pair, 2, item, entry).map_err(|error| error.within(key))?;
                put_bytes(out, number, &pair);
            }
        }
        Shape::Named(_) | Shape::Struct(_) => {
            let structure = shape.as_struct().ok_or_else(|| Error::malformed("has no type in the table"))?;
            put_bytes(out, number, &message(structure, value)?);
        }
        _ => scalar(out, number, shape, value)?,
    }
    Ok(())
}

/// An item of a list or the value of a map; a list there is a message of its own.
fn element(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) -> Result<(), Error> {
    match shape {
        Shape::List(..) => wrapped(out, number, shape, value),
        _ => put(out, number, shape, value),
    }
}

fn wrapped(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) -> Result<(), Error> {
    let mut items = Vec::new();
    put(&mut items, 1, shape, value)?;
    put_bytes(out, number, &items);
    Ok(())
}

fn scalar(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) -> Result<(), Error> {
    let text = || value.as_str().unwrap_or_default();
    match shape {
        Shape::Bool => put_number(out, number, value.as_bool().unwrap_or_default().into()),
        Shape::Int32 | Shape::Int64 => put_number(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Shape::Number => put_double(out, number, value.as_f64().unwrap_or_default()),
        Shape::String => put_bytes(out, number, text().as_bytes()),
        Shape::Bytes => {
            let bytes = scalar::decode_base64(text()).ok_or_else(|| Error::malformed("is no base64"))?;
            put_bytes(out, number, &bytes);
        }
        Shape::Time | Shape::MicroTime => put_bytes(out, number, &time(value)?),
        Shape::Duration => {
            let nanos = if value.is_null() { Some(0) } else { crate::go_duration::nanoseconds(text()) };
            let mut inner = Vec::new();
            put_number(&mut inner, 1, nanos.ok_or_else(|| Error::malformed("is no duration"))?.cast_unsigned());
            put_bytes(out, number, &inner);
        }
        Shape::Quantity => {
            let mut inner = Vec::new();
            put_bytes(&mut inner, 1, if value.is_null() { "0" } else { text() }.as_bytes());
            put_bytes(out, number, &inner);
        }
        Shape::IntOrString => {
            let mut inner = Vec::new();
            put_number(&mut inner, 1, value.is_string().into());
            put_number(&mut inner, 2, value.as_i64().unwrap_or_default().cast_unsigned());
            put_bytes(&mut inner, 3, text().as_bytes());
            put_bytes(out, number, &inner);
        }
        Shape::Any => {
            let mut inner = Vec::new();
            if !value.is_null() {
                put_bytes(&mut inner, 1, value.to_string().as_bytes());
            }
            put_bytes(out, number, &inner);
        }
        Shape::Or(object, other) => put_bytes(out, number, &either(object, other, value)?),
        Shape::List(..) | Shape::Map(..) | Shape::Named(_) | Shape::Struct(_) => {}
    }
    Ok(())
}

/// The unions of JSON schemas, as `decode` describes them.
fn either(object: &Shape, other: &Shape, value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    match (other, value) {
        (Shape::Bool, Value::Bool(allows)) => put_number(&mut out, 1, (*allows).into()),
        (Shape::Bool, _) => {
            put_number(&mut out, 1, 1);
            put(&mut out, 2, object, value)?;
        }
        (_, Value::Object(_)) => put(&mut out, 1, object, value)?,
        _ => put(&mut out, 2, other, value)?,
    }
    Ok(out)
}

fn time(value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    if let Some(text) = value.as_str() {
        let at: jiff::Timestamp = text.parse().map_err(|_| Error::malformed("is no time"))?;
        let nanos = at.subsec_nanosecond();
        // Nanoseconds count forward, also before 1970.
        let (seconds, nanos) =
            if nanos < 0 { (at.as_second() - 1, nanos + 1_000_000_000) } else { (at.as_second(), nanos) };
        put_number(&mut out, 1, seconds.cast_unsigned());
        put_number(&mut out, 2, u64::from(nanos.unsigned_abs()));
    }
    Ok(out)
}
