//! What can be told of constants in an expression before it runs: times that are none, and lists of mixed types.

use super::{
    convert, eval,
    expand::{Id, Part, Tree},
    infer::Inferred,
    types::Type,
};
use kube_cel::cel::Value;
use std::collections::HashMap;

/// Mistakes in constants.
pub(super) fn mistakes(tree: &Tree, inferred: &Inferred) -> Vec<String> {
    let mut found = Vec::new();
    visit(tree, tree.root, false, &mut |id, in_format| match &tree.parts[id] {
        Part::Call { name: name @ ("duration" | "timestamp"), target: None, args } => {
            if let Some(Part::Literal(value)) = args.first().map(|arg| &tree.parts[*arg])
                && convert::convert(name, value).is_err()
            {
                found.push(format!("invalid {name} argument"));
            }
        }
        Part::List(items) if !in_format => {
            let types = items.iter().map(|(item, optional)| inside(&inferred.types[*item], *optional));
            found.extend(mixed(types));
        }
        Part::Map(entries) if !in_format => {
            found.extend(mixed(entries.iter().map(|(key, ..)| &inferred.types[*key])));
            found.extend(mixed(entries.iter().map(|(_, value, optional)| inside(&inferred.types[*value], *optional))));
        }
        _ => {}
    });
    found
}

/// Why a conversion of a constant fails, as it would each time the rule runs.
pub(super) fn failing_conversion(tree: &Tree) -> Option<String> {
    let mut known: HashMap<Id, Value> = HashMap::new();
    // A part stands behind those that it is made of.
    for (id, part) in tree.parts.iter().enumerate() {
        match part {
            Part::Literal(value) => drop(known.insert(id, value.clone())),
            Part::Call { name, target: None, args } if convert::CONVERSIONS.contains(name) && args.len() == 1 => {
                let Some(value) = known.get(&args[0]) else { continue };
                match convert::convert(name, value) {
                    Ok(made) => drop(known.insert(id, made)),
                    Err(_) => {
                        return Some(format!("type conversion error from '{}' to '{name}'", eval::type_name(value)));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn inside(of: &Type, optional: bool) -> &Type {
    match of {
        Type::Optional(inner) if optional => inner,
        of => of,
    }
}

fn mixed<'t>(mut types: impl Iterator<Item = &'t Type>) -> Option<String> {
    let first = types.next()?;
    let other = types.find(|of| *of != first)?;
    Some(format!("expected type '{first}' but found '{other}'"))
}

/// Goes through an expression; what is inside of `format` may be mixed.
fn visit(tree: &Tree, id: Id, in_format: bool, work: &mut impl FnMut(Id, bool)) {
    work(id, in_format);
    let mut below: Vec<Id> = Vec::new();
    let mut inside = in_format;
    match &tree.parts[id] {
        Part::Literal(_) | Part::Name(_) => {}
        Part::Select { of, .. } => below.push(*of),
        Part::Call { name, target, args } => {
            inside |= *name == "format";
            below.extend(target.iter().chain(args));
        }
        Part::List(items) => below.extend(items.iter().map(|(item, _)| *item)),
        Part::Map(entries) => below.extend(entries.iter().flat_map(|(key, value, _)| [*key, *value])),
        Part::Message(_, fields) => below.extend(fields.iter().map(|(_, of, _)| *of)),
        Part::Loop(of) => below.extend([of.range, of.init, of.condition, of.step, of.result]),
    }
    below.into_iter().for_each(|id| visit(tree, id, inside, work));
}
