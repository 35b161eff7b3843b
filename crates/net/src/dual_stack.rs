//! One value for each of one or two families, in order of preference.

use crate::family::{Families, Family};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// What belongs to one IP family by itself: an address, a CIDR, a pool.
pub trait HasFamily {
    /// The family it belongs to.
    fn family(&self) -> Family;
}

impl HasFamily for Family {
    fn family(&self) -> Family {
        *self
    }
}

impl HasFamily for IpAddr {
    fn family(&self) -> Family {
        match self {
            Self::V4(_) => Family::V4,
            Self::V6(_) => Family::V6,
        }
    }
}

impl HasFamily for SocketAddr {
    fn family(&self) -> Family {
        self.ip().family()
    }
}

/// A primary value and perhaps one of the other family; never two of one family.
///
/// Values that know their family come in through [`one`](Self::one), [`pair`](Self::pair) and `try_from(Vec)`, which
/// look at it. [`map`](Self::map) and [`build`](Self::build) give each family's slot any value, such as its table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DualStack<T> {
    family: Family,
    primary: T,
    secondary: Option<T>,
}

impl<T: HasFamily> DualStack<T> {
    /// A single-stack value.
    pub fn one(value: T) -> Self {
        Self { family: value.family(), primary: value, secondary: None }
    }

    /// Two values, the preferred one first.
    pub fn pair(primary: T, secondary: T) -> Result<Self, SameFamily<T>> {
        match primary.family() {
            family if family == secondary.family() => Err(SameFamily { first: primary, second: secondary, family }),
            family => Ok(Self { family, primary, secondary: Some(secondary) }),
        }
    }
}

impl<T> DualStack<T> {
    /// The value that `make` gives for each family.
    pub fn build(families: Families, mut make: impl FnMut(Family) -> T) -> Self {
        let primary = make(families.primary());
        Self { family: families.primary(), primary, secondary: families.secondary().map(make) }
    }

    /// The preferred value.
    pub fn primary(&self) -> &T {
        &self.primary
    }

    /// The value of the other family, if there is one.
    pub fn secondary(&self) -> Option<&T> {
        self.secondary.as_ref()
    }

    /// The value of this family, if there is one.
    pub fn get(&self, family: Family) -> Option<&T> {
        if family == self.family { Some(&self.primary) } else { self.secondary.as_ref() }
    }

    /// Which families have a value, in order.
    pub fn families(&self) -> Families {
        if self.is_dual() { Families::both(self.family) } else { Families::one(self.family) }
    }

    /// Whether both families have a value.
    pub fn is_dual(&self) -> bool {
        self.secondary.is_some()
    }

    /// The values, preferred first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.primary).chain(&self.secondary)
    }

    /// The values with their families, preferred first.
    pub fn entries(&self) -> impl Iterator<Item = (Family, &T)> {
        self.families().iter().zip(self.iter())
    }

    /// Another value in the place of each; families and order stay.
    pub fn map<U>(self, mut f: impl FnMut(Family, T) -> U) -> DualStack<U> {
        let other = self.family.other();
        let primary = f(self.family, self.primary);
        DualStack { family: self.family, primary, secondary: self.secondary.map(|value| f(other, value)) }
    }

    /// As [`map`](Self::map), for what may fail: the first failure wins, and what the other family got is dropped.
    pub fn try_map<U, E>(self, mut f: impl FnMut(Family, T) -> Result<U, E>) -> Result<DualStack<U>, E> {
        let other = self.family.other();
        let primary = f(self.family, self.primary)?;
        let secondary = self.secondary.map(|value| f(other, value)).transpose()?;
        Ok(DualStack { family: self.family, primary, secondary })
    }

    /// The same with borrowed values.
    pub fn as_ref(&self) -> DualStack<&T> {
        DualStack { family: self.family, primary: &self.primary, secondary: self.secondary.as_ref() }
    }
}

impl<T> IntoIterator for DualStack<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::iter::Once<T>, std::option::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.primary).chain(self.secondary)
    }
}

/// Prints as flags and annotations take it: `10.0.0.1,fd00::1`.
impl<T: fmt::Display> fmt::Display for DualStack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.secondary {
            None => write!(f, "{}", self.primary),
            Some(secondary) => write!(f, "{},{secondary}", self.primary),
        }
    }
}

/// Two values of one family where one of each is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first} and {second} are both {family}; give one, or one of each family")]
pub struct SameFamily<T> {
    /// The first value.
    pub first: T,
    /// The second value.
    pub second: T,
    /// The family of both.
    pub family: Family,
}

/// A list that is not one value, or two of different families.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDualStack<T> {
    /// The list has nothing in it.
    #[error("the list is empty; give one, or one of each family")]
    Empty,
    /// The list has more than two.
    #[error("{0} values are too many; give one, or one of each family")]
    TooMany(usize),
    /// The list has two of one family.
    #[error(transparent)]
    SameFamily(#[from] SameFamily<T>),
}

impl<T: HasFamily> TryFrom<Vec<T>> for DualStack<T> {
    type Error = NotDualStack<T>;

    fn try_from(list: Vec<T>) -> Result<Self, NotDualStack<T>> {
        let count = list.len();
        let mut values = list.into_iter();
        match (values.next(), values.next(), values.next()) {
            (None, ..) => Err(NotDualStack::Empty),
            (Some(only), None, _) => Ok(Self::one(only)),
            (Some(first), Some(second), None) => Ok(Self::pair(first, second)?),
            _ => Err(NotDualStack::TooMany(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_keeps_its_order_and_finds_each_family() {
        for shape in Families::ALL {
            let list: Vec<IpAddr> = shape.iter().map(Family::loopback).collect();
            let dual = DualStack::try_from(list.clone()).unwrap();
            assert_eq!(dual.families(), shape);
            assert_eq!(dual.iter().copied().collect::<Vec<_>>(), list);
            assert_eq!(dual, DualStack::build(shape, Family::loopback));
            for family in Family::BOTH {
                assert_eq!(dual.get(family).copied(), shape.contains(family).then(|| family.loopback()));
            }
            let named = dual.map(|family, ip| format!("{family}={ip}"));
            assert_eq!(named.families(), shape);
            for (family, name) in named.entries() {
                assert_eq!(name, &format!("{family}={}", family.loopback()));
            }
        }
    }

    #[test]
    fn two_of_one_family_none_and_three_are_refused() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (list, message) in [
            (vec![], "the list is empty; give one, or one of each family"),
            (vec![ip("::1"), ip("::2")], "::1 and ::2 are both IPv6; give one, or one of each family"),
            (
                vec![ip("10.0.0.1"), ip("10.0.0.2")],
                "10.0.0.1 and 10.0.0.2 are both IPv4; give one, or one of each family",
            ),
            (vec![ip("::1"), ip("10.0.0.1"), ip("::2")], "3 values are too many; give one, or one of each family"),
        ] {
            assert_eq!(DualStack::try_from(list).unwrap_err().to_string(), message);
        }
    }
}
