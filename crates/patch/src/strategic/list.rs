//! How strategic merge patch merges and orders lists.
//!
//! Called by the parent module for lists that merge, and for `$setElementOrder`. The order of the result: items of the
//! patch in the order of the patch, the others in the order of the document, the two interleaved as the document has them.

use super::{DIRECTIVE, ORDER, Object, Refused, field, item, merge_objects, without_directives};
use api::schema::Shape;
use serde_json::Value;

/// The list after merging `patch` into it.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    shape: &Shape,
    key: Option<&str>,
) -> Result<Vec<Value>, Refused> {
    match element(&[&original, &patch])? {
        Element::None => Ok(original),
        Element::Scalar if key.is_none() => {
            let mut both = original.clone();
            both.extend(patch.iter().cloned());
            Ok(arrange(distinct(both), &patch, &original, None))
        }
        Element::Scalar => {
            let item = original.into_iter().chain(patch).next().unwrap_or_default();
            Err(Refused::NoMergeKey { key: key.unwrap_or_default().to_owned(), item })
        }
        Element::Object => {
            let key = key.ok_or(Refused::NoKeyInType)?;
            let (original, patch) = obey_directives(original, patch, key)?;
            let order: Vec<Value> = original.iter().map(|item| key_only(item, key)).collect();
            let wanted: Vec<Value> = patch.iter().map(|item| key_only(item, key)).collect();
            let merged = merge_by_key(original, patch, shape, key)?;
            if let Some(item) = merged.iter().find(|item| item.get(key).is_none()) {
                return Err(Refused::NoMergeKey { key: key.to_owned(), item: item.clone() });
            }
            Ok(arrange(merged, &wanted, &order, Some(key)))
        }
    }
}

/// The list without the scalars in `gone`.
pub(super) fn delete(
    original: Vec<Value>,
    gone: Vec<Value>,
    shape: &Shape,
    key: Option<&str>,
) -> Result<Vec<Value>, Refused> {
    match element(&[&original, &gone])? {
        Element::Object => merge(original, gone, shape, key),
        _ => Ok(original.into_iter().filter(|item| !gone.contains(item)).collect()),
    }
}

/// Carries out every `$setElementOrder/<list>` of a patch, together with the patch of that list.
pub(super) fn merge_ordered(original: &mut Object, patch: &mut Object, shape: &Shape) -> Result<(), Refused> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let name = directive[ORDER.len()..].strip_prefix('/').ok_or_else(|| Refused::OrderName(directive.clone()))?;
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(Refused::Order(name.to_owned()));
        };
        let take = |object: &mut Object| match object.remove(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(Refused::NotAList(name.to_owned())),
        };
        let (live, change) = (take(original)?, take(patch)?);
        let (below, rule) = field(shape, name);
        check_order(change.as_deref().unwrap_or_default(), &order, rule.merge_key, name)?;
        let server = match (&live, &change, rule.merge_key) {
            (Some(live), Some(change), Some(key)) if rule.merge => passed_over(live, change, key),
            _ => live.clone().unwrap_or_default(),
        };
        let merged = match (live, change) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(live), Some(change)) if rule.merge => merge(live, change, item(below), rule.merge_key)?,
            (Some(_), Some(change)) => change,
        };
        if let Some(key) = rule.merge_key
            && let Some(item) = merged.iter().chain(&order).find(|item| item.get(key).is_none())
        {
            return Err(Refused::NoMergeKey { key: key.to_owned(), item: item.clone() });
        }
        original.insert(name.to_owned(), Value::Array(arrange(merged, &order, &server, rule.merge_key)));
    }
    Ok(())
}

/// The live order as upstream sees it once the list is merged: there the merge works in the live list itself, so items
/// close up on deleted ones and new items take the places that became free. Only the keys matter.
fn passed_over(live: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let mut order: Vec<Value> = live.iter().map(|item| key_only(item, key)).collect();
    let mut used = order.len();
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    for gone in patch.iter().filter(|item| directive(item).as_deref() == Some("delete")) {
        while let Some(at) = order[..used].iter().position(|item| same(item, gone, Some(key))) {
            used -= 1;
            for next in at..used {
                order[next] = order[next + 1].clone();
            }
        }
    }
    if patch.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        return order;
    }
    for item in patch.iter().filter(|item| directive(item).is_none()) {
        if used < order.len() && !order[..used].iter().any(|other| same(item, other, Some(key))) {
            order[used] = key_only(item, key);
            used += 1;
        }
    }
    order
}

/// The items that a patch sets must stand in `order`, in that order; deletions and directives do not count.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>, name: &str) -> Result<(), Refused> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if !rest.any(|ordered| same(item, ordered, key)) {
            return Err(Refused::Order(name.to_owned()));
        }
    }
    Ok(())
}

/// Carries out `$patch` items: returns the list to merge into and the items to merge.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Refused> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE).map(|directive| directive.as_str()) {
            None => rest.push(item),
            Some(Some("replace")) => replace = true,
            Some(Some("delete")) => {
                let Some(gone) = item.get(key) else {
                    return Err(Refused::NoMergeKey { key: key.to_owned(), item });
                };
                original.retain(|item| item.get(key) != Some(gone));
            }
            Some(_) => return Err(Refused::Directive(item[DIRECTIVE].clone())),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_by_key(mut original: Vec<Value>, patch: Vec<Value>, shape: &Shape, key: &str) -> Result<Vec<Value>, Refused> {
    for item in patch {
        let Some(wanted) = item.get(key) else {
            return Err(Refused::NoMergeKey { key: key.to_owned(), item });
        };
        match original.iter().position(|item| item.get(key) == Some(wanted)) {
            None => original.push(item),
            Some(index) => {
                let (Value::Object(live), Value::Object(patch)) = (original[index].take(), item) else {
                    unreachable!("only objects have a key");
                };
                original[index] = Value::Object(merge_objects(live, patch, shape)?);
            }
        }
    }
    Ok(original)
}

/// Orders `items`: those in `wanted` by it, the others by `server`, interleaved as `server` has them.
fn arrange(items: Vec<Value>, wanted: &[Value], server: &[Value], key: Option<&str>) -> Vec<Value> {
    let position = |list: &[Value], item: &Value| list.iter().position(|other| same(item, other, key));
    let (patched, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| position(wanted, item).is_some());
    let patched = sorted(patched, |item| position(wanted, item));
    let others = sorted(others, |item| position(server, item));

    let mut result = Vec::with_capacity(patched.len() + others.len());
    let mut patched = patched.into_iter().peekable();
    for other in others {
        let place = position(server, &other);
        while let Some(next) = patched.peek() {
            let before = matches!((place, position(server, next)), (Some(place), Some(next)) if place < next);
            if before {
                break;
            }
            result.extend(patched.next());
        }
        result.push(other);
    }
    result.extend(patched);
    result
}

/// Sorts by position. An item without one comes before those it follows: upstream's order, kept so that answers agree.
fn sorted(mut items: Vec<Value>, position: impl Fn(&Value) -> Option<usize>) -> Vec<Value> {
    let mut places: Vec<Option<usize>> = items.iter().map(&position).collect();
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && places[at].zip(places[at - 1]).is_none_or(|(this, before)| this < before) {
            items.swap(at, at - 1);
            places.swap(at, at - 1);
            at -= 1;
        }
    }
    items
}

fn same(one: &Value, other: &Value, key: Option<&str>) -> bool {
    match key {
        None => one == other,
        Some(key) => one.get(key).is_some_and(|value| other.get(key) == Some(value)),
    }
}

fn key_only(item: &Value, key: &str) -> Value {
    let pairs = item.get(key).map(|value| (key.to_owned(), value.clone()));
    Value::Object(pairs.into_iter().collect())
}

fn distinct(items: Vec<Value>) -> Vec<Value> {
    let mut result: Vec<Value> = Vec::with_capacity(items.len());
    for item in items {
        if !result.contains(&item) {
            result.push(item);
        }
    }
    result
}

enum Element {
    None,
    Scalar,
    Object,
}

/// What the lists hold; all items must be of one type.
fn element(lists: &[&[Value]]) -> Result<Element, Refused> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else { return Ok(Element::None) };
    let kind = std::mem::discriminant(first);
    if let Some(other) = items.find(|item| std::mem::discriminant(*item) != kind) {
        return Err(Refused::Mixed(other.clone()));
    }
    match first {
        Value::Array(_) => Err(Refused::ListOfLists),
        Value::Null => Err(Refused::Mixed(Value::Null)),
        Value::Object(_) => Ok(Element::Object),
        _ => Ok(Element::Scalar),
    }
}
