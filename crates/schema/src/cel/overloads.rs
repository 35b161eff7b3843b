//! Every operator and function that rules may use, with the types that it takes and makes. A table.
//!
//! `expr` refuses what is not here, `infer` chooses rows by the types of the arguments, `cost` charges them by their id.
//! These are the libraries that Kubernetes gives to rules of new definitions: CEL's own, optionals, two-variable macros,
//! sets, and texts, lists, regular expressions, URLs, quantities, addresses, formats and versions.

use super::types::Type;
use std::{collections::HashMap, sync::LazyLock};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    /// Called as `receiver.name(..)`; the receiver is the first of `takes`.
    pub(super) method: bool,
    pub(super) takes: Vec<Type>,
    pub(super) makes: Type,
    /// How many types are left open.
    pub(super) params: usize,
}

/// The ways to call `name`, or nothing if there is no such function.
pub(super) fn named(name: &str) -> Option<&'static [Overload]> {
    OVERLOADS.get(name).map(Vec::as_slice)
}

/// The name itself, where a name of the table is written somewhere else.
pub(super) fn interned(name: &str) -> Option<&'static str> {
    OVERLOADS.get_key_value(name).map(|(name, _)| *name)
}

static OVERLOADS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for (name, form, id, takes, makes) in TABLE.iter().copied() {
        let takes: Vec<Type> = takes.split_whitespace().map(typed).collect();
        let params = if takes.is_empty() || takes.iter().any(has_param) { 2 } else { 0 };
        all.entry(name).or_default().push(Overload { id, method: form == M, takes, makes: typed(makes), params });
    }
    for (name, ids) in COMPARISONS {
        all.entry(name).or_default().extend(COMPARED.iter().map(|(left, right)| Overload {
            id: match *left {
                "string" => ids.0,
                "bytes" => ids.1,
                _ => ids.2,
            },
            method: false,
            takes: vec![typed(left), typed(right)],
            makes: Type::Bool,
            params: 0,
        }));
    }
    for (name, id, of, makes) in ON_LISTS.iter().copied() {
        all.entry(name).or_default().extend(of.iter().map(|of| Overload {
            id: if matches!(*of, "string" | "bytes") && !id.1.is_empty() { id.1 } else { id.0 },
            method: true,
            takes: if name == SORT_BY {
                vec![typed("list(A)"), Type::list(typed(of))]
            } else {
                vec![Type::list(typed(of))]
            },
            makes: match makes {
                "item" => typed(of),
                "same" if name == SORT_BY => typed("list(A)"),
                "same" => Type::list(typed(of)),
                other => typed(other),
            },
            params: 2,
        }));
    }
    all
});

/// A type as the table writes it; `A` and `B` are left open.
fn typed(text: &str) -> Type {
    let inside = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(of) = inside("list(") {
        return Type::list(typed(of));
    }
    if let Some(of) = inside("optional(") {
        return Type::optional(typed(of));
    }
    if let Some((key, value)) = inside("map(").and_then(|of| of.split_once(',')) {
        return Type::map(typed(key), typed(value));
    }
    if let Some(of) = inside("type(") {
        return Type::Meta(typed(of).into());
    }
    match text {
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Time,
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "url" => Type::Struct("kubernetes.URL"),
        "quantity" => Type::Struct("kubernetes.Quantity"),
        "semver" => Type::Struct("kubernetes.Semver"),
        "format" => Type::Struct("kubernetes.NamedFormat"),
        "authorizer" => Type::Struct("kubernetes.authorization.Authorizer"),
        "pathCheck" => Type::Struct("kubernetes.authorization.PathCheck"),
        "groupCheck" => Type::Struct("kubernetes.authorization.GroupCheck"),
        "resourceCheck" => Type::Struct("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Struct("kubernetes.authorization.Decision"),
        _ => Type::Dyn,
    }
}

fn has_param(of: &Type) -> bool {
    matches!(of, Type::Param(_)) || of.parts().into_iter().any(has_param)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Global,
    Method,
}
use Form::{Global as G, Method as M};

/// What `<` and its like compare: texts and bytes have ids of their own, because their length counts.
const COMPARISONS: [(&str, (&str, &str, &str)); 4] = [
    ("_<_", ("less_string", "less_bytes", "less")),
    ("_<=_", ("less_equals_string", "less_equals_bytes", "less_equals")),
    ("_>_", ("greater_string", "greater_bytes", "greater")),
    ("_>=_", ("greater_equals_string", "greater_equals_bytes", "greater_equals")),
];
/// In this order: where a type is still open, the first that fits settles it.
const COMPARED: [(&str, &str); 14] = [
    ("bool", "bool"),
    ("int", "int"),
    ("int", "double"),
    ("int", "uint"),
    ("uint", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "double"),
    ("double", "int"),
    ("double", "uint"),
    ("string", "string"),
    ("bytes", "bytes"),
    ("timestamp", "timestamp"),
    ("duration", "duration"),
];

/// Sorts a list by a list of keys; what the macro `sortBy` turns into.
pub(super) const SORT_BY: &str = "@sortByAssociatedKeys";
const ORDERED: &[&str] = &["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
const SUMMABLE: &[&str] = &["int", "uint", "double", "duration"];

type ListRow = (&'static str, (&'static str, &'static str), &'static [&'static str], &'static str);

/// Functions of lists of what can be ordered: id of any, id for texts and bytes where it differs, items, result.
const ON_LISTS: &[ListRow] = &[
    ("isSorted", ("list_is_sorted", ""), ORDERED, "bool"),
    ("sum", ("list_sum", ""), SUMMABLE, "item"),
    ("max", ("list_max", ""), ORDERED, "item"),
    ("min", ("list_min", ""), ORDERED, "item"),
    ("sort", ("list_sort", "list_text_sort"), ORDERED, "same"),
    (SORT_BY, ("list_sort_by", "list_text_sort_by"), ORDERED, "same"),
];

type Row = (&'static str, Form, &'static str, &'static str, &'static str);

const TABLE: &[Row] = &[
    // Operators.
    ("_?_:_", G, "conditional", "bool A A", "A"),
    ("_&&_", G, "logical_and", "bool bool", "bool"),
    ("_||_", G, "logical_or", "bool bool", "bool"),
    ("!_", G, "logical_not", "bool", "bool"),
    ("@not_strictly_false", G, "not_strictly_false", "bool", "bool"),
    ("_==_", G, "equals", "A A", "bool"),
    ("_!=_", G, "not_equals", "A A", "bool"),
    ("_+_", G, "add_bytes", "bytes bytes", "bytes"),
    ("_+_", G, "add_double", "double double", "double"),
    ("_+_", G, "add_duration_duration", "duration duration", "duration"),
    ("_+_", G, "add_duration_timestamp", "duration timestamp", "timestamp"),
    ("_+_", G, "add_timestamp_duration", "timestamp duration", "timestamp"),
    ("_+_", G, "add_int64", "int int", "int"),
    ("_+_", G, "add_list", "list(A) list(A)", "list(A)"),
    ("_+_", G, "add_string", "string string", "string"),
    ("_+_", G, "add_uint64", "uint uint", "uint"),
    ("_/_", G, "divide_double", "double double", "double"),
    ("_/_", G, "divide_int64", "int int", "int"),
    ("_/_", G, "divide_uint64", "uint uint", "uint"),
    ("_%_", G, "modulo_int64", "int int", "int"),
    ("_%_", G, "modulo_uint64", "uint uint", "uint"),
    ("_*_", G, "multiply_double", "double double", "double"),
    ("_*_", G, "multiply_int64", "int int", "int"),
    ("_*_", G, "multiply_uint64", "uint uint", "uint"),
    ("-_", G, "negate_double", "double", "double"),
    ("-_", G, "negate_int64", "int", "int"),
    ("_-_", G, "subtract_double", "double double", "double"),
    ("_-_", G, "subtract_duration_duration", "duration duration", "duration"),
    ("_-_", G, "subtract_int64", "int int", "int"),
    ("_-_", G, "subtract_timestamp_duration", "timestamp duration", "timestamp"),
    ("_-_", G, "subtract_timestamp_timestamp", "timestamp timestamp", "duration"),
    ("_-_", G, "subtract_uint64", "uint uint", "uint"),
    ("_[_]", G, "index_list", "list(A) int", "A"),
    ("_[_]", G, "index_map", "map(A,B) A", "B"),
    ("_[_]", G, "optional_list_index_int", "optional(list(A)) int", "optional(A)"),
    ("_[_]", G, "optional_map_index_value", "optional(map(A,B)) A", "optional(B)"),
    ("_[?_]", G, "list_optindex_optional_int", "list(A) int", "optional(A)"),
    ("_[?_]", G, "optional_list_optindex_optional_int", "optional(list(A)) int", "optional(A)"),
    ("_[?_]", G, "map_optindex_optional_value", "map(A,B) A", "optional(B)"),
    ("_[?_]", G, "optional_map_optindex_optional_value", "optional(map(A,B)) A", "optional(B)"),
    ("_?._", G, "select_optional_field", "dyn string", "optional(A)"),
    ("@in", G, "in_list", "A list(A)", "bool"),
    ("@in", G, "in_map", "A map(A,B)", "bool"),
    ("cel.@mapInsert", G, "map_insert_key_value", "map(A,B) A B", "map(A,B)"),
    ("cel.@mapInsert", G, "map_insert_map", "map(A,B) map(A,B)", "map(A,B)"),
    // Conversions.
    ("type", G, "type", "A", "type(A)"),
    ("dyn", G, "to_dyn", "A", "dyn"),
    ("bool", G, "bool_to_bool", "bool", "bool"),
    ("bool", G, "string_to_bool", "string", "bool"),
    ("bytes", G, "bytes_to_bytes", "bytes", "bytes"),
    ("bytes", G, "string_to_bytes", "string", "bytes"),
    ("double", G, "double_to_double", "double", "double"),
    ("double", G, "int64_to_double", "int", "double"),
    ("double", G, "string_to_double", "string", "double"),
    ("double", G, "uint64_to_double", "uint", "double"),
    ("duration", G, "duration_to_duration", "duration", "duration"),
    ("duration", G, "string_to_duration", "string", "duration"),
    ("int", G, "int64_to_int64", "int", "int"),
    ("int", G, "double_to_int64", "double", "int"),
    ("int", G, "duration_to_int64", "duration", "int"),
    ("int", G, "string_to_int64", "string", "int"),
    ("int", G, "timestamp_to_int64", "timestamp", "int"),
    ("int", G, "uint64_to_int64", "uint", "int"),
    ("string", G, "string_to_string", "string", "string"),
    ("string", G, "bool_to_string", "bool", "string"),
    ("string", G, "bytes_to_string", "bytes", "string"),
    ("string", G, "double_to_string", "double", "string"),
    ("string", G, "duration_to_string", "duration", "string"),
    ("string", G, "int64_to_string", "int", "string"),
    ("string", G, "timestamp_to_string", "timestamp", "string"),
    ("string", G, "uint64_to_string", "uint", "string"),
    ("string", G, "ip_to_string", "ip", "string"),
    ("string", G, "cidr_to_string", "cidr", "string"),
    ("timestamp", G, "timestamp_to_timestamp", "timestamp", "timestamp"),
    ("timestamp", G, "int64_to_timestamp", "int", "timestamp"),
    ("timestamp", G, "string_to_timestamp", "string", "timestamp"),
    ("uint", G, "uint64_to_uint64", "uint", "uint"),
    ("uint", G, "double_to_uint64", "double", "uint"),
    ("uint", G, "int64_to_uint64", "int", "uint"),
    ("uint", G, "string_to_uint64", "string", "uint"),
    // Sizes and text.
    ("size", G, "size_bytes", "bytes", "int"),
    ("size", M, "bytes_size", "bytes", "int"),
    ("size", G, "size_list", "list(A)", "int"),
    ("size", M, "list_size", "list(A)", "int"),
    ("size", G, "size_map", "map(A,B)", "int"),
    ("size", M, "map_size", "map(A,B)", "int"),
    ("size", G, "size_string", "string", "int"),
    ("size", M, "string_size", "string", "int"),
    ("contains", M, "contains_string", "string string", "bool"),
    ("endsWith", M, "ends_with_string", "string string", "bool"),
    ("startsWith", M, "starts_with_string", "string string", "bool"),
    ("matches", G, "matches", "string string", "bool"),
    ("matches", M, "matches_string", "string string", "bool"),
    ("find", M, "string_find_string", "string string", "string"),
    ("findAll", M, "string_find_all_string", "string string", "list(string)"),
    ("findAll", M, "string_find_all_string_int", "string string int", "list(string)"),
    ("charAt", M, "string_char_at_int", "string int", "string"),
    ("indexOf", M, "list_a_index_of_int", "list(A) A", "int"),
    ("indexOf", M, "string_index_of_string", "string string", "int"),
    ("indexOf", M, "string_index_of_string_int", "string string int", "int"),
    ("lastIndexOf", M, "list_a_last_index_of_int", "list(A) A", "int"),
    ("lastIndexOf", M, "string_last_index_of_string", "string string", "int"),
    ("lastIndexOf", M, "string_last_index_of_string_int", "string string int", "int"),
    ("lowerAscii", M, "string_lower_ascii", "string", "string"),
    ("upperAscii", M, "string_upper_ascii", "string", "string"),
    ("replace", M, "string_replace_string_string", "string string string", "string"),
    ("replace", M, "string_replace_string_string_int", "string string string int", "string"),
    ("split", M, "string_split_string", "string string", "list(string)"),
    ("split", M, "string_split_string_int", "string string int", "list(string)"),
    ("substring", M, "string_substring_int", "string int", "string"),
    ("substring", M, "string_substring_int_int", "string int int", "string"),
    ("trim", M, "string_trim", "string", "string"),
    ("format", M, "string_format", "string list(dyn)", "string"),
    ("strings.quote", G, "strings_quote", "string", "string"),
    ("join", M, "list_join", "list(string)", "string"),
    ("join", M, "list_join_string", "list(string) string", "string"),
    // Lists and sets.
    ("slice", M, "list_slice", "list(A) int int", "list(A)"),
    ("flatten", M, "list_flatten", "list(list(A))", "list(A)"),
    ("flatten", M, "list_flatten_int", "list(dyn) int", "list(dyn)"),
    ("lists.range", G, "lists_range", "int", "list(int)"),
    ("reverse", M, "list_reverse", "list(A)", "list(A)"),
    ("distinct", M, "list_distinct", "list(A)", "list(A)"),
    ("first", M, "list_first", "list(A)", "optional(A)"),
    ("last", M, "list_last", "list(A)", "optional(A)"),
    ("sets.contains", G, "list_sets_contains_list", "list(A) list(A)", "bool"),
    ("sets.equivalent", G, "list_sets_equivalent_list", "list(A) list(A)", "bool"),
    ("sets.intersects", G, "list_sets_intersects_list", "list(A) list(A)", "bool"),
    // Time.
    ("getFullYear", M, "timestamp_to_year", "timestamp", "int"),
    ("getFullYear", M, "timestamp_to_year_with_tz", "timestamp string", "int"),
    ("getMonth", M, "timestamp_to_month", "timestamp", "int"),
    ("getMonth", M, "timestamp_to_month_with_tz", "timestamp string", "int"),
    ("getDayOfYear", M, "timestamp_to_day_of_year", "timestamp", "int"),
    ("getDayOfYear", M, "timestamp_to_day_of_year_with_tz", "timestamp string", "int"),
    ("getDayOfMonth", M, "timestamp_to_day_of_month", "timestamp", "int"),
    ("getDayOfMonth", M, "timestamp_to_day_of_month_with_tz", "timestamp string", "int"),
    ("getDate", M, "timestamp_to_date", "timestamp", "int"),
    ("getDate", M, "timestamp_to_date_with_tz", "timestamp string", "int"),
    ("getDayOfWeek", M, "timestamp_to_day_of_week", "timestamp", "int"),
    ("getDayOfWeek", M, "timestamp_to_day_of_week_with_tz", "timestamp string", "int"),
    ("getHours", M, "timestamp_to_hours", "timestamp", "int"),
    ("getHours", M, "timestamp_to_hours_with_tz", "timestamp string", "int"),
    ("getHours", M, "duration_to_hours", "duration", "int"),
    ("getMinutes", M, "timestamp_to_minutes", "timestamp", "int"),
    ("getMinutes", M, "timestamp_to_minutes_with_tz", "timestamp string", "int"),
    ("getMinutes", M, "duration_to_minutes", "duration", "int"),
    ("getSeconds", M, "timestamp_to_seconds", "timestamp", "int"),
    ("getSeconds", M, "timestamp_to_seconds_with_tz", "timestamp string", "int"),
    ("getSeconds", M, "duration_to_seconds", "duration", "int"),
    ("getMilliseconds", M, "timestamp_to_milliseconds", "timestamp", "int"),
    ("getMilliseconds", M, "timestamp_to_milliseconds_with_tz", "timestamp string", "int"),
    ("getMilliseconds", M, "duration_to_milliseconds", "duration", "int"),
    // Optionals.
    ("optional.none", G, "optional_none", "", "optional(A)"),
    ("optional.of", G, "optional_of", "A", "optional(A)"),
    ("optional.ofNonZeroValue", G, "optional_ofNonZeroValue", "A", "optional(A)"),
    ("optional.unwrap", G, "optional_unwrap", "list(optional(A))", "list(A)"),
    ("unwrapOpt", M, "optional_unwrapOpt", "list(optional(A))", "list(A)"),
    ("hasValue", M, "optional_hasValue", "optional(A)", "bool"),
    ("value", M, "optional_value", "optional(A)", "A"),
    ("or", M, "optional_or_optional", "optional(A) optional(A)", "optional(A)"),
    ("orValue", M, "optional_orValue_value", "optional(A) A", "A"),
    // URLs.
    ("url", G, "string_to_url", "string", "url"),
    ("isURL", G, "is_url_string", "string", "bool"),
    ("getScheme", M, "url_get_scheme", "url", "string"),
    ("getHost", M, "url_get_host", "url", "string"),
    ("getHostname", M, "url_get_hostname", "url", "string"),
    ("getPort", M, "url_get_port", "url", "string"),
    ("getEscapedPath", M, "url_get_escaped_path", "url", "string"),
    ("getQuery", M, "url_get_query", "url", "map(string,list(string))"),
    // Addresses.
    ("ip", G, "string_to_ip", "string", "ip"),
    ("ip", M, "cidr_ip", "cidr", "ip"),
    ("isIP", G, "is_ip", "string", "bool"),
    ("ip.isCanonical", G, "ip_is_canonical", "string", "bool"),
    ("family", M, "ip_family", "ip", "int"),
    ("isLoopback", M, "ip_is_loopback", "ip", "bool"),
    ("isUnspecified", M, "ip_is_unspecified", "ip", "bool"),
    ("isLinkLocalMulticast", M, "ip_is_link_local_multicast", "ip", "bool"),
    ("isLinkLocalUnicast", M, "ip_is_link_local_unicast", "ip", "bool"),
    ("isGlobalUnicast", M, "ip_is_global_unicast", "ip", "bool"),
    ("jsonpatch.escapeKey", G, "string_jsonpatch_escapeKey_string", "string", "string"),
    ("cidr", G, "string_to_cidr", "string", "cidr"),
    ("isCIDR", G, "is_cidr", "string", "bool"),
    ("containsIP", M, "cidr_contains_ip_string", "cidr string", "bool"),
    ("containsIP", M, "cidr_contains_ip_ip", "cidr ip", "bool"),
    ("containsCIDR", M, "cidr_contains_cidr_string", "cidr string", "bool"),
    ("containsCIDR", M, "cidr_contains_cidr", "cidr cidr", "bool"),
    ("prefixLength", M, "cidr_prefix_length", "cidr", "int"),
    ("masked", M, "cidr_masked", "cidr", "cidr"),
    // Quantities and versions.
    ("quantity", G, "string_to_quantity", "string", "quantity"),
    ("isQuantity", G, "is_quantity_string", "string", "bool"),
    // Upstream declares this one as a function, though it documents a method.
    ("sign", G, "quantity_sign", "quantity", "int"),
    ("isInteger", M, "quantity_is_integer", "quantity", "bool"),
    ("asInteger", M, "quantity_get_int", "quantity", "int"),
    ("asApproximateFloat", M, "quantity_get_float", "quantity", "double"),
    ("add", M, "quantity_add", "quantity quantity", "quantity"),
    ("add", M, "quantity_add_int", "quantity int", "quantity"),
    ("sub", M, "quantity_sub", "quantity quantity", "quantity"),
    ("sub", M, "quantity_sub_int", "quantity int", "quantity"),
    ("isGreaterThan", M, "quantity_is_greater_than", "quantity quantity", "bool"),
    ("isGreaterThan", M, "semver_is_greater_than", "semver semver", "bool"),
    ("isLessThan", M, "quantity_is_less_than", "quantity quantity", "bool"),
    ("isLessThan", M, "semver_is_less_than", "semver semver", "bool"),
    ("compareTo", M, "quantity_compare_to", "quantity quantity", "int"),
    ("compareTo", M, "semver_compare_to", "semver semver", "int"),
    ("semver", G, "string_to_semver", "string", "semver"),
    ("semver", G, "string_bool_to_semver", "string bool", "semver"),
    ("isSemver", G, "is_semver_string", "string", "bool"),
    ("isSemver", G, "is_semver_string_bool", "string bool", "bool"),
    ("major", M, "semver_major", "semver", "int"),
    ("minor", M, "semver_minor", "semver", "int"),
    ("patch", M, "semver_patch", "semver", "int"),
    // Formats.
    ("format.named", G, "format-named", "string", "optional(format)"),
    ("format.dns1123Label", G, "format.dns1123Label", "", "format"),
    ("format.dns1123Subdomain", G, "format.dns1123Subdomain", "", "format"),
    ("format.dns1035Label", G, "format.dns1035Label", "", "format"),
    ("format.dns1035LabelPrefix", G, "format.dns1035LabelPrefix", "", "format"),
    ("format.dns1123LabelPrefix", G, "format.dns1123LabelPrefix", "", "format"),
    ("format.dns1123SubdomainPrefix", G, "format.dns1123SubdomainPrefix", "", "format"),
    ("format.qualifiedName", G, "format.qualifiedName", "", "format"),
    ("format.labelValue", G, "format.labelValue", "", "format"),
    ("format.uri", G, "format.uri", "", "format"),
    ("format.uuid", G, "format.uuid", "", "format"),
    ("format.byte", G, "format.byte", "", "format"),
    ("format.date", G, "format.date", "", "format"),
    ("format.datetime", G, "format.datetime", "", "format"),
    ("validate", M, "format-validate", "format string", "optional(list(string))"),
    // Authorization. Rules of definitions have no authorizer, but values of unknown type may be asked.
    ("path", M, "authorizer_path", "authorizer string", "pathCheck"),
    ("group", M, "authorizer_group", "authorizer string", "groupCheck"),
    ("serviceAccount", M, "authorizer_serviceaccount", "authorizer string string", "authorizer"),
    ("resource", M, "groupcheck_resource", "groupCheck string", "resourceCheck"),
    ("subresource", M, "resourcecheck_subresource", "resourceCheck string", "resourceCheck"),
    ("namespace", M, "resourcecheck_namespace", "resourceCheck string", "resourceCheck"),
    ("name", M, "resourcecheck_name", "resourceCheck string", "resourceCheck"),
    ("fieldSelector", M, "authorizer_fieldselector", "resourceCheck string", "resourceCheck"),
    ("labelSelector", M, "authorizer_labelselector", "resourceCheck string", "resourceCheck"),
    ("check", M, "pathcheck_check", "pathCheck string", "decision"),
    ("check", M, "resourcecheck_check", "resourceCheck string", "decision"),
    ("errored", M, "decision_errored", "decision", "bool"),
    ("error", M, "decision_error", "decision", "string"),
    ("allowed", M, "decision_allowed", "decision", "bool"),
    ("reason", M, "decision_reason", "decision", "string"),
];
