//! Types of built-in and custom kinds for expressions that are checked against them: what `object` and `params` are.

use super::{
    declared::Declared,
    types::{Object, Type},
    value,
};
use api::schema::{Shape, Struct};
use std::sync::Arc;

/// The type of values of this shape; `name` is what its objects are called. What has a form of its own (quantities, numbers that
/// may be texts) or none is not known before an expression runs.
pub(super) fn of_shape(shape: &Shape, name: &str) -> Type {
    Walk { within: Vec::new() }.of(shape, name)
}

struct Walk<'s> {
    /// Types that are being walked: some refer to themselves.
    within: Vec<&'s str>,
}

impl<'s> Walk<'s> {
    fn of(&mut self, shape: &'s Shape, name: &str) -> Type {
        match shape {
            Shape::Bool => Type::Bool,
            Shape::Int32 | Shape::Int64 => Type::Int,
            Shape::Number => Type::Double,
            Shape::String | Shape::Duration => Type::Text,
            Shape::Bytes => Type::Bytes,
            Shape::Time | Shape::MicroTime => Type::Time,
            Shape::Quantity | Shape::IntOrString | Shape::Any | Shape::Or(..) => Type::Dyn,
            Shape::List(item, _) => Type::list(self.of(item, &format!("{name}.@idx"))),
            Shape::Map(value, _) => Type::map(Type::Text, self.of(value, &format!("{name}.@elem"))),
            Shape::Named(_) | Shape::Struct(_) => match shape.as_struct() {
                Some(known) if !known.open => self.structure(known, name),
                _ => Type::Dyn,
            },
        }
    }

    fn structure(&mut self, known: &'s Struct, name: &str) -> Type {
        let named = !known.name.is_empty();
        if named && self.within.contains(&known.name.as_str()) {
            return Type::Dyn;
        }
        if named {
            self.within.push(&known.name);
        }
        let mut fields = std::collections::BTreeMap::new();
        for (field, of) in &known.fields {
            if let Some(escaped) = value::escape(field) {
                let of = self.of(&of.shape, &format!("{name}.{escaped}"));
                fields.insert(escaped, Arc::new(Declared::plain(of)));
            }
        }
        if named {
            self.within.pop();
        }
        Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
    }
}
