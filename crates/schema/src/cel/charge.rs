//! What one call costs beyond its arguments, and how large its result can get. The numbers are upstream's.

use super::{path::Path, size::Range, types::Type};

/// Going over a text once.
const TEXT: f64 = 0.1;
/// A regular expression has about one part per four characters.
const PATTERN: f64 = 0.25;
/// The longest pattern of a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: u64 = 64;
/// Bytes of an address: 4 or 16.
const ADDRESS: Range = Range { least: 4, most: 16 };
/// Allows for two authorization checks in one run.
const AUTHORIZATION: Range = Range::exactly(350_000);
const LIST: Range = Range::exactly(10);

/// An argument of a call, or its receiver.
pub(super) struct Argument {
    pub(super) of: Type,
    pub(super) path: Path,
    pub(super) size: Option<Range>,
    /// The number, if the rule spells it out.
    pub(super) literal: Option<i64>,
}

impl Argument {
    pub(super) fn size_or_unknown(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }

    fn literal_or(&self, otherwise: u64) -> u64 {
        self.literal.map_or(otherwise, |n| u64::try_from(n).unwrap_or(0))
    }

    /// The type of what is inside, and its size as far as the schema tells it.
    fn item(&self, at: &dyn Fn(&Path) -> Option<Range>) -> Option<(&Type, Range)> {
        let of = self.of.parts().into_iter().next()?;
        let known = if self.path.is_empty() { None } else { at(&copied(&self.path).then("@items".into())) };
        Some((of, known.unwrap_or(Range::UNKNOWN)))
    }
}

/// A path of its own: what is looked up must not change the paths of others.
fn copied(path: &Path) -> Path {
    let steps = path.steps();
    steps.into_iter().fold(Path::default(), |path, step| path.then(step))
}

/// A cost, and the size of the result where it is known.
pub(super) struct Charge {
    pub(super) cost: Range,
    pub(super) made: Option<Range>,
}

impl Charge {
    pub(super) fn of(cost: Range) -> Self {
        Self { cost, made: None }
    }

    fn making(self, made: Range) -> Self {
        Self { made: Some(made), ..self }
    }

    pub(super) fn and(self, cost: Range) -> Self {
        Self { cost: self.cost.plus(cost), ..self }
    }
}

/// Functions of Kubernetes' libraries and of lists and sets; nothing for others.
pub(super) fn library(
    name: &str,
    overload: &str,
    receiver: Option<&Argument>,
    args: &[Argument],
    at: &dyn Fn(&Path) -> Option<Range>,
) -> Option<Charge> {
    if let Some(charged) = lists_and_sets(overload, receiver, args) {
        return Some(charged);
    }
    let arg = |n: usize| args.get(n).map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let this = receiver.map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let once = |size: Range| Charge::of(size.scaled(TEXT));
    Some(match name {
        "check" => Charge::of(AUTHORIZATION),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => Charge::of(Range::ONE),
        // A list of requirements, each a structure with a list; the shortest has two characters.
        "fieldSelector" | "labelSelector" => {
            let requirements = arg(0).scaled(0.5).scaled(50.0);
            Charge::of(LIST.plus(arg(0).scaled(TEXT)).plus(requirements))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match receiver?.item(at) {
            Some((of, size)) => {
                let text = matches!(of, Type::Text | Type::Bytes);
                let each = if text { Range::ONE.plus(size.scaled(TEXT)) } else { Range::ONE };
                Charge::of(this.times(each))
            }
            None => once(this),
        },
        "url" | "jsonpatch.escapeKey" => once(arg(0)).making(arg(0)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => once(this).making(this),
        "replace" => Charge::of(this.scaled(2.0 * TEXT)).making(replaced(this, arg(0), arg(1))),
        "split" => {
            let most = args.get(1).and_then(|most| most.literal).map_or(this.most, |most| most as u64);
            Charge::of(this.scaled(2.0 * TEXT)).making(Range::up_to(most))
        }
        "join" => {
            let mut size = receiver?.item(at).map_or(Range::NOTHING, |(_, item)| this.times(item));
            if !args.is_empty() {
                let between = Range { least: this.least.saturating_sub(1), most: this.most.saturating_sub(1) };
                size = size.plus(arg(0).times(between));
            }
            once(size).making(size)
        }
        "find" | "findAll" => {
            let cost = this.plus(Range::ONE).scaled(TEXT).times(arg(0).scaled(PATTERN));
            Charge::of(cost).making(Range::up_to(this.most))
        }
        "ip" if overload == "cidr_ip" => Charge::of(Range::ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => once(arg(0)),
        "ip.isCanonical" => Charge::of(arg(0).scaled(2.0 * TEXT)),
        "containsIP" => {
            let compared = ADDRESS.plus(ADDRESS).scaled(TEXT);
            let parsed = if overload == "cidr_contains_ip_string" { arg(0).scaled(TEXT) } else { Range::NOTHING };
            Charge::of(compared.plus(parsed))
        }
        "containsCIDR" => {
            let compared = ADDRESS.plus(ADDRESS).scaled(TEXT).plus(ADDRESS.scaled(TEXT)).plus(Range::ONE);
            let parsed = if overload == "cidr_contains_cidr_string" { arg(0).scaled(TEXT) } else { Range::NOTHING };
            Charge::of(compared.plus(parsed))
        }
        "validate" => Charge::of(arg(0).scaled(TEXT).scaled(FORMAT_PATTERN * PATTERN)),
        "_==_" => return equality(&args[0], &args[1]),
        _ => return None,
    })
}

/// Values of the libraries' own types are compared in one step, with two exceptions.
fn equality(left: &Argument, right: &Argument) -> Option<Charge> {
    if left.of != right.of {
        return None;
    }
    Some(Charge::of(match &left.of {
        Type::Opaque(_) => Range::ONE,
        Type::Struct("kubernetes.NamedFormat") => Range { least: 1, most: FORMAT_NAME }.scaled(TEXT),
        Type::Struct("kubernetes.URL") => {
            let most = right.size.map_or(1, |size| size.most);
            Range { least: 1, most }.scaled(TEXT)
        }
        Type::Struct(_) => Range::ONE,
        _ => return None,
    }))
}

/// How long a text gets when parts of it are replaced.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let count = |size: u64, by: u64| (size as f64 / by as f64).ceil() as u64;
    let (most_times, most_kept) = match old.least {
        // An empty text is found around every character.
        0 => (text.most.saturating_add(1), text.most),
        least if new.most <= least => (0, text.most),
        least => (count(text.most, least), 0),
    };
    let (least_times, least_kept) = match old.most {
        0 => (text.least.saturating_add(1), text.least),
        most if most <= new.least => (0, text.least),
        most => (count(text.least, most), 0),
    };
    let times = Range { least: least_times, most: most_times };
    times.times(new).plus(Range { least: least_kept, most: most_kept })
}

fn lists_and_sets(overload: &str, receiver: Option<&Argument>, args: &[Argument]) -> Option<Charge> {
    let this = receiver.map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let arg = |n: usize| args.get(n).map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let listed = |factor: f64, size: Range| Charge::of(size.scaled(factor).plus(Range::ONE).plus(LIST)).making(size);
    let squared = |size: Range| size.times(size);
    Some(match overload {
        "list_slice" => {
            let (start, end) = (args[0].literal_or(0), args[1].literal_or(this.most));
            listed(1.0, Range::exactly(end.wrapping_sub(start)))
        }
        "lists_range" => listed(1.0, Range::exactly(args[0].literal_or(u64::MAX))),
        "list_reverse" => listed(1.0, this),
        "list_flatten" => listed(1.0, this),
        "list_flatten_int" => listed(args[0].literal_or(u64::MAX) as f64, this),
        "list_distinct" | "list_sort" => listed(2.0, squared(this)),
        "list_text_sort" => listed(2.0 + TEXT, squared(this)),
        "list_sort_by" => listed(2.0, squared(arg(0))),
        "list_text_sort_by" => listed(2.0 + TEXT, squared(arg(0))),
        "list_sets_contains_list" | "list_sets_intersects_list" => Charge::of(arg(0).times(arg(1)).plus(Range::ONE)),
        "list_sets_equivalent_list" => Charge::of(arg(0).times(arg(1)).scaled(2.0).plus(Range::ONE)),
        _ => return None,
    })
}

/// CEL's own functions and operators.
pub(super) fn standard(overload: &str, receiver: Option<&Argument>, args: &[Argument]) -> Charge {
    let arg = |n: usize| args.get(n).map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let this = receiver.map_or(Range::UNKNOWN, Argument::size_or_unknown);
    let pattern =
        |text: Range, pattern: Range| Charge::of(text.plus(Range::ONE).scaled(TEXT).times(pattern.scaled(PATTERN)));
    match overload {
        "string_format" => Charge::of(this.scaled(TEXT)),
        // A character may become four bytes, and four bytes one character.
        "string_to_bytes" => {
            let made = Range { least: arg(0).least, most: arg(0).most.wrapping_mul(4) };
            Charge::of(arg(0).scaled(TEXT)).making(made)
        }
        "bytes_to_string" => {
            Charge::of(arg(0).scaled(TEXT)).making(Range { least: arg(0).least / 4, most: arg(0).most })
        }
        "strings_quote" => {
            let most = arg(0).most.wrapping_mul(2).wrapping_add(2);
            Charge::of(arg(0).scaled(TEXT)).making(Range { least: arg(0).least.wrapping_add(2), most })
        }
        "starts_with_string" | "ends_with_string" => Charge::of(arg(0).scaled(TEXT)),
        "in_list" => Charge::of(arg(1)),
        "matches" => pattern(arg(0), arg(1)),
        "matches_string" => pattern(this, arg(0)),
        "contains_string" => Charge::of(this.scaled(TEXT).times(arg(0).scaled(TEXT))),
        "add_list" => Charge::of(Range::ONE).making(arg(0).plus(arg(1))),
        "add_string" | "add_bytes" => {
            let made = arg(0).plus(arg(1));
            Charge::of(made.scaled(TEXT)).making(made)
        }
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => {
            let most = arg(0).most.min(arg(1).most);
            Charge::of(Range { least: most.min(1), most }.scaled(TEXT))
        }
        _ => Charge::of(Range::ONE),
    }
}
