//! From protobuf bytes to JSON, by the table of types.

use super::{
    Error, MAGIC,
    wire::{Fields, Raw, packed},
};
use crate::schema::{NESTING_LIMIT, Shape, Struct, scalar, table};
use serde_json::{Map, Value, json};

/// An opened body.
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

/// Opens a body: magic, then `Unknown { typeMeta = 1, raw = 2, contentEncoding = 3, contentType = 4 }`.
pub(super) fn envelope(body: &[u8]) -> Result<Envelope<'_>, Error> {
    let rest = body.strip_prefix(MAGIC.as_slice()).ok_or(Error::NotProtobuf)?;
    let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    for field in Fields(rest) {
        match field? {
            (1, raw) => {
                for field in Fields(raw.bytes()?) {
                    match field? {
                        (1, raw) => envelope.api_version = text(raw)?,
                        (2, raw) => envelope.kind = text(raw)?,
                        _ => {}
                    }
                }
            }
            (2, raw) => envelope.raw = raw.bytes()?,
            (3, raw) => match text(raw)? {
                none if none.is_empty() => {}
                encoding => return Err(Error::Encoding(encoding)),
            },
            _ => {}
        }
    }
    Ok(envelope)
}

/// A message of a built-in type as a JSON object, with every field that the bytes hold.
pub(super) fn message(structure: &Struct, bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let mut map = Map::new();
    Reader { depth: 0 }.fields(structure, &[], bytes, &mut map)?;
    Ok(map)
}

/// Knows how deep it is; a message that nests deeper than JSON may is refused.
#[derive(Clone, Copy)]
struct Reader {
    depth: usize,
}

impl Reader {
    fn deeper(self) -> Result<Self, Error> {
        match self.depth {
            NESTING_LIMIT => Err(Error::malformed("nested too deep")),
            depth => Ok(Self { depth: depth + 1 }),
        }
    }

    /// Reads the fields of a message, or of an embedded message (`within`), into the same JSON object.
    fn fields(
        self,
        structure: &Struct,
        within: &[u32],
        bytes: &[u8],
        map: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let wires = table::wire(&structure.name).unwrap_or_default();
        let deeper = self.deeper()?;
        for field in Fields(bytes) {
            let (number, raw) = field?;
            let of_number = &wires[wires.partition_point(|wire| wire.number < number)..];
            let mut of_number = of_number.iter().take_while(|wire| wire.number == number);
            match of_number.find(|wire| wire.within() == within) {
                Some(wire) => {
                    let Some(field) = structure.fields.get(wire.name) else { continue };
                    let target = map.entry(wire.name).or_insert(Value::Null);
                    let read = if wire.wrapped {
                        deeper.wrapped(&field.shape, raw, target)
                    } else {
                        deeper.value(&field.shape, raw, target)
                    };
                    read.map_err(|error| error.within(wire.name))?;
                }
                None if wires.iter().any(|wire| wire.below(within) == Some(number)) => {
                    self.fields(structure, &[within, &[number]].concat(), raw.bytes()?, map)?;
                }
                // A field of a newer client.
                None => {}
            }
        }
        Ok(())
    }

    /// Reads one occurrence of a field: lists and maps grow by it, messages merge, the last scalar wins.
    fn value(self, shape: &Shape, raw: Raw<'_>, target: &mut Value) -> Result<(), Error> {
        match shape {
            Shape::List(item, _) => {
                if !target.is_array() {
                    *target = json!([]);
                }
                let Value::Array(list) = target else { return Ok(()) };
                match (&**item, raw) {
                    (Shape::Int32 | Shape::Int64 | Shape::Bool, Raw::Bytes(bytes)) => {
                        list.extend(packed(bytes)?.into_iter().map(|value| number(item, value)));
                    }
                    _ => {
                        let mut value = Value::Null;
                        self.element(item, raw, &mut value)?;
                        list.push(value);
                    }
                }
            }
            Shape::Map(item, _) => {
                if !target.is_object() {
                    *target = json!({});
                }
                let (key, value) = self.entry(item, raw.bytes()?)?;
                target[key] = value;
            }
            Shape::Named(_) | Shape::Struct(_) => {
                if !target.is_object() {
                    *target = json!({});
                }
                if let (Value::Object(map), Some(structure)) = (target, shape.as_struct()) {
                    self.fields(structure, &[], raw.bytes()?, map)?;
                }
            }
            _ => *target = self.scalar(shape, raw)?,
        }
        Ok(())
    }

    /// An item of a list or the value of a map; a list there is a message of its own.
    fn element(self, shape: &Shape, raw: Raw<'_>, target: &mut Value) -> Result<(), Error> {
        match shape {
            Shape::List(..) => self.wrapped(shape, raw, target),
            _ => self.value(shape, raw, target),
        }
    }

    /// `{ items = 1 }`.
    fn wrapped(self, shape: &Shape, raw: Raw<'_>, target: &mut Value) -> Result<(), Error> {
        if !target.is_array() {
            *target = json!([]);
        }
        let deeper = self.deeper()?;
        for field in Fields(raw.bytes()?) {
            if let (1, raw) = field? {
                deeper.value(shape, raw, target)?;
            }
        }
        Ok(())
    }

    /// `{ key = 1, value = 2 }`; an absent value is an empty one.
    fn entry(self, shape: &Shape, bytes: &[u8]) -> Result<(String, Value), Error> {
        let (mut key, mut value) = (String::new(), Value::Null);
        for field in Fields(bytes) {
            match field? {
                (1, raw) => key = text(raw)?,
                (2, raw) => self.element(shape, raw, &mut value).map_err(|error| error.within(&key))?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn scalar(self, shape: &Shape, raw: Raw<'_>) -> Result<Value, Error> {
        match shape {
            Shape::Bool | Shape::Int32 | Shape::Int64 => Ok(number(shape, raw.varint()?)),
            Shape::Number => match raw {
                Raw::Fixed64(bits) => Ok(f64::from_bits(bits).into()),
                _ => Err(Error::malformed("expected a double")),
            },
            Shape::String => text(raw).map(Value::from),
            Shape::Bytes => Ok(scalar::encode_base64(raw.bytes()?).into()),
            Shape::Time | Shape::MicroTime => time(shape, raw.bytes()?),
            Shape::Duration => {
                let nanos = last(raw.bytes()?, 1)?.map_or(Ok(0), Raw::varint)?;
                Ok(crate::go_duration::print(nanos.cast_signed()).into())
            }
            Shape::Quantity => last(raw.bytes()?, 1)?.map_or_else(|| Ok(json!("0")), |raw| text(raw).map(Value::from)),
            Shape::IntOrString => int_or_string(raw.bytes()?),
            Shape::Any => self.json(raw.bytes()?),
            Shape::Or(object, other) => self.either(object, other, raw.bytes()?),
            Shape::List(..) | Shape::Map(..) | Shape::Named(_) | Shape::Struct(_) => Ok(Value::Null),
        }
    }

    /// `{ raw = 1 }` with JSON inside.
    fn json(self, bytes: &[u8]) -> Result<Value, Error> {
        let Some(raw) = last(bytes, 1)? else { return Ok(Value::Null) };
        match raw.bytes()? {
            [] => Ok(Value::Null),
            json => match crate::schema::parse_json(json) {
                Ok((value, _)) => Ok(value),
                Err(_) => Err(Error::malformed("holds bytes that are no JSON")),
            },
        }
    }

    /// The unions of JSON schemas: `{ schema = 1, items = 2 }`, or `{ allows = 1, schema = 2 }` for the boolean one.
    fn either(self, object: &Shape, other: &Shape, bytes: &[u8]) -> Result<Value, Error> {
        let schema_number = if matches!(other, Shape::Bool) { 2 } else { 1 };
        let deeper = self.deeper()?;
        let (mut schema, mut rest) = (Value::Null, Value::Null);
        for field in Fields(bytes) {
            match field? {
                (number @ (1 | 2), raw) if number == schema_number => deeper.value(object, raw, &mut schema)?,
                (1 | 2, raw) => deeper.value(other, raw, &mut rest)?,
                _ => {}
            }
        }
        Ok(if schema.is_null() { rest } else { schema })
    }
}

/// The last occurrence of a field; the last one counts.
fn last(bytes: &[u8], number: u32) -> Result<Option<Raw<'_>>, Error> {
    let mut found = None;
    for field in Fields(bytes) {
        let (this, raw) = field?;
        if this == number {
            found = Some(raw);
        }
    }
    Ok(found)
}

#[expect(clippy::cast_possible_truncation, reason = "an int32 is sign-extended to 64 bits on the wire")]
fn number(shape: &Shape, value: u64) -> Value {
    match shape {
        Shape::Bool => Value::Bool(value != 0),
        Shape::Int32 => Value::from(value as i32),
        _ => Value::from(value.cast_signed()),
    }
}

fn text(raw: Raw<'_>) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(raw.bytes()?).into_owned())
}

/// `{ seconds = 1, nanos = 2 }`; no bytes are the zero time.
fn time(shape: &Shape, bytes: &[u8]) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = last(bytes, 1)?.map_or(Ok(0), Raw::varint)?.cast_signed();
    let nanos = last(bytes, 2)?.map_or(Ok(0), Raw::varint)?;
    let nanos = if *shape == Shape::MicroTime { i32::try_from(nanos).unwrap_or(0) / 1_000 * 1_000 } else { 0 };
    let at = jiff::Timestamp::new(seconds, nanos).map_err(|_| Error::malformed("a time is out of range"))?;
    let text = match shape {
        Shape::MicroTime => crate::object::micro_timestamp(at),
        _ => crate::object::timestamp(at),
    };
    Ok(text.into())
}

/// `{ type = 1, intVal = 2, strVal = 3 }`; type 1 is text.
fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let kind = last(bytes, 1)?.map_or(Ok(0), Raw::varint)?;
    match kind {
        0 => Ok(number(&Shape::Int32, last(bytes, 2)?.map_or(Ok(0), Raw::varint)?)),
        1 => last(bytes, 3)?.map_or_else(|| Ok(json!("")), |raw| text(raw).map(Value::from)),
        _ => Err(Error::malformed("is neither a number nor text")),
    }
}
