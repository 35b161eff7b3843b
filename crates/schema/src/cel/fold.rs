//! Macros that go through a list or a map: all, exists, map, filter and the forms with two variables.

use super::{
    eval::{Budget, Evaluated, Evaluation, Stop, error, no_overload},
    expr::{Fold, What},
};
use kube_cel::cel::{
    Value,
    objects::{Key, Map},
};
use std::{cmp::Ordering, collections::HashMap, sync::Arc};

/// Evaluates a fold. Every round costs one step besides its body.
pub(super) fn fold(evaluation: &mut Evaluation<'_>, fold: &Fold) -> Evaluated {
    let range = evaluation.node(&fold.range)?;
    let rounds = rounds(range, evaluation.budget)?;
    match &fold.what {
        What::All(holds) => {
            quantify(evaluation, fold, rounds, false, |evaluation| evaluation.boolean(holds)).map(Value::Bool)
        }
        What::Exists(holds) => {
            quantify(evaluation, fold, rounds, true, |evaluation| evaluation.boolean(holds)).map(Value::Bool)
        }
        What::ExistsOne(holds) => {
            let mut count = 0;
            for round in rounds {
                count += u32::from(round.run(evaluation, fold, |evaluation| evaluation.boolean(holds))?);
            }
            Ok(Value::Bool(count == 1))
        }
        What::List { filter, item } => {
            let mut list = Vec::new();
            for round in rounds {
                list.extend(round.run(evaluation, fold, |evaluation| {
                    let wanted = filter.as_ref().map_or(Ok(true), |filter| evaluation.boolean(filter))?;
                    wanted.then(|| evaluation.node(item)).transpose()
                })?);
            }
            Ok(Value::List(Arc::new(list)))
        }
        What::Map { filter, value } => {
            let mut map = HashMap::new();
            for round in rounds {
                let key = super::eval::key_of(&round.key)?;
                let made = round.run(evaluation, fold, |evaluation| {
                    let wanted = filter.as_ref().map_or(Ok(true), |filter| evaluation.boolean(filter))?;
                    wanted.then(|| evaluation.node(value)).transpose()
                })?;
                map.extend(made.map(|made| (key, made)));
            }
            Ok(Value::Map(Map { map: Arc::new(map) }))
        }
        What::MapEntry { filter, entry } => {
            let mut map = HashMap::new();
            for round in rounds {
                let made = round.run(evaluation, fold, |evaluation| {
                    let wanted = filter.as_ref().map_or(Ok(true), |filter| evaluation.boolean(filter))?;
                    wanted.then(|| evaluation.node(entry)).transpose()
                })?;
                let Some(made) = made else { continue };
                let Value::Map(made) = made else { return Err(no_overload("transformMapEntry")) };
                for (key, value) in made.map.iter() {
                    evaluation.budget.spend(1)?;
                    if map.insert(key.clone(), value.clone()).is_some() {
                        return Err(error("insert failed: key already exists"));
                    }
                }
            }
            Ok(Value::Map(Map { map: Arc::new(map) }))
        }
        What::SortBy(key) => {
            let mut keyed = Vec::new();
            for round in rounds {
                let item = round.value.clone();
                keyed.push((round.run(evaluation, fold, |evaluation| evaluation.node(key))?, item));
            }
            if keyed.windows(2).any(|pair| order(&pair[0].0, &pair[1].0).is_none()) {
                return Err(no_overload("sortBy"));
            }
            keyed.sort_by(|a, b| order(&a.0, &b.0).unwrap_or(Ordering::Equal));
            Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, item)| item).collect())))
        }
    }
}

/// The order of two keys of one type, as upstream wants them. Numbers of different types are compared after rounding, which is nothing
/// to sort by: two different integers may both equal one double.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        _ if std::mem::discriminant(a) == std::mem::discriminant(b) => a.partial_cmp(b),
        _ => None,
    }
}

/// `all` is decided by a false, `exists` by a true; an error only counts when no other round decides.
fn quantify(
    evaluation: &mut Evaluation<'_>,
    fold: &Fold,
    rounds: Rounds,
    by: bool,
    holds: impl Fn(&mut Evaluation<'_>) -> Result<bool, Stop>,
) -> Result<bool, Stop> {
    let mut failed = None;
    for round in rounds {
        match round.run(evaluation, fold, &holds) {
            Ok(value) if value == by => return Ok(by),
            Ok(_) => {}
            Err(Stop::Budget) => return Err(Stop::Budget),
            Err(why) => failed = Some(why),
        }
    }
    failed.map_or(Ok(!by), Err)
}

/// One item of a list with its index, or one entry of a map.
struct Round {
    key: Value,
    value: Value,
    of_map: bool,
}

impl Round {
    fn run<T>(
        self,
        evaluation: &mut Evaluation<'_>,
        fold: &Fold,
        work: impl FnOnce(&mut Evaluation<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        evaluation.budget.spend(1)?;
        match &fold.second {
            Some(second) => evaluation.inside(&[(&fold.first, self.key), (second, self.value)], work),
            None => {
                let item = if self.of_map { self.key } else { self.value };
                evaluation.inside(&[(&fold.first, item)], work)
            }
        }
    }
}

/// The rounds of a fold. A list is not gone through before its turn: `exists` may stop at the first item.
enum Rounds {
    List {
        list: Arc<Vec<Value>>,
        next: usize,
    },
    /// In the order of keys, so that an answer does not change from run to run.
    Map(std::vec::IntoIter<(Key, Value)>),
}

fn rounds(range: Value, budget: &mut Budget) -> Result<Rounds, Stop> {
    match range {
        Value::List(list) => Ok(Rounds::List { list, next: 0 }),
        Value::Map(map) => {
            budget.spend(map.map.len() as u64)?;
            let mut entries: Vec<_> = map.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(Rounds::Map(entries.into_iter()))
        }
        _ => Err(error("no such overload: only lists and maps can be iterated over")),
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        match self {
            Self::List { list, next } => {
                let value = list.get(*next)?.clone();
                *next += 1;
                Some(Round { key: Value::Int(*next as i64 - 1), value, of_map: false })
            }
            Self::Map(entries) => entries.next().map(|(key, value)| Round { key: key.into(), value, of_map: true }),
        }
    }
}
