//! One entry of `x-kubernetes-validations` and the checks that need no CEL.

use super::keywords::Keywords;
use api::error::{FieldError, Reason};

/// A validation rule as written, trimmed where upstream trims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// What a failure says.
    pub message: String,
    /// CEL expression that makes the message.
    pub message_expression: String,
    /// Class of the failure.
    pub reason: RuleReason,
    /// Field below the schema that a failure points at, in JSONPath.
    pub field_path: String,
    /// `oldSelf` is an optional, so that the rule also runs on create.
    pub optional_old_self: Option<bool>,
}

/// The classes of failure that a rule may choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleReason {
    /// FieldValueInvalid.
    #[default]
    Invalid,
    /// FieldValueForbidden.
    Forbidden,
    /// FieldValueRequired.
    Required,
    /// FieldValueDuplicate.
    Duplicate,
}

impl RuleReason {
    const ACCEPTED: [&'static str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

    /// The class of a field error.
    pub fn reason(self) -> Reason {
        match self {
            Self::Invalid => Reason::Invalid,
            Self::Forbidden => Reason::Forbidden,
            Self::Required => Reason::Required,
            Self::Duplicate => Reason::Duplicate,
        }
    }

    /// As a rule writes it, unless it is what a rule without one has.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Invalid => None,
            Self::Forbidden => Some("FieldValueForbidden"),
            Self::Required => Some("FieldValueRequired"),
            Self::Duplicate => Some("FieldValueDuplicate"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "FieldValueInvalid" => Some(Self::Invalid),
            "FieldValueForbidden" => Some(Self::Forbidden),
            "FieldValueRequired" => Some(Self::Required),
            "FieldValueDuplicate" => Some(Self::Duplicate),
            _ => None,
        }
    }
}

impl Rule {
    /// What a failure without a message is called by: the message if there is one, else the rule.
    pub fn title(&self) -> &str {
        if self.message.is_empty() { &self.rule } else { &self.message }
    }
}

/// The rules of one node.
pub(super) fn parse(node: &Keywords<'_>, errors: &mut Vec<FieldError>) -> Vec<Rule> {
    let list = node.list("x-kubernetes-validations", errors);
    let path = node.at("x-kubernetes-validations");
    let read = |(i, raw)| Keywords::of(raw, &path.index(i), errors).map(|entry| one(&entry, errors));
    list.iter().enumerate().filter_map(read).collect()
}

fn one(entry: &Keywords<'_>, errors: &mut Vec<FieldError>) -> Rule {
    let written = |key: &str, errors: &mut Vec<FieldError>| entry.text(key, errors).unwrap_or_default().to_owned();
    let (rule, message) = (written("rule", errors), written("message", errors));
    let message_expression = written("messageExpression", errors);
    let field_path = written("fieldPath", errors);
    let broken = |text: &str| text.contains(['\n', '\r']);

    if rule.trim().is_empty() {
        errors.push(FieldError::required(&entry.at("rule"), "a rule is a CEL expression"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&entry.at("message"), message.clone(), "must not be blank"));
    } else if broken(message.trim()) {
        errors.push(FieldError::invalid(&entry.at("message"), message.clone(), "must not contain line breaks"));
    } else if broken(rule.trim()) && message.trim().is_empty() {
        errors.push(FieldError::required(&entry.at("message"), "a rule with line breaks needs a message"));
    }
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        errors.push(FieldError::required(&entry.at("messageExpression"), "must not be blank"));
    }
    if !field_path.is_empty() && field_path.trim().is_empty() {
        errors.push(FieldError::invalid(&entry.at("fieldPath"), field_path.clone(), "must not be blank"));
    } else if broken(&field_path) {
        errors.push(FieldError::invalid(&entry.at("fieldPath"), field_path.clone(), "must not contain line breaks"));
    }
    let reason = match entry.text("reason", errors) {
        None => RuleReason::Invalid,
        Some(text) => RuleReason::parse(text).unwrap_or_else(|| {
            errors.push(FieldError::not_supported(&entry.at("reason"), text, &RuleReason::ACCEPTED));
            RuleReason::Invalid
        }),
    };
    let optional_old_self = entry.get("optionalOldSelf").map(|_| entry.flag("optionalOldSelf", errors));
    Rule {
        rule: rule.trim().to_owned(),
        message: message.trim().to_owned(),
        message_expression: message_expression.trim().to_owned(),
        reason,
        field_path,
        optional_old_self,
    }
}
