//! Key conditions: which partition, and which part of its order.

use super::condition::{Comparison, Condition, Operand, begins_with};
use crate::failure::Failure;
use crate::value::Value;

/// What one key attribute must fulfil.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyTest {
    Compare(Comparison, Value),
    Between(Value, Value),
    BeginsWith(Value),
    /// A test that no order of keys answers; only parameters before expressions can say it.
    Unindexed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyTerm {
    pub attribute: String,
    pub test: KeyTest,
}

impl KeyTest {
    /// The values it names.
    pub fn values(&self) -> Vec<&Value> {
        match self {
            KeyTest::Compare(_, value) | KeyTest::BeginsWith(value) => vec![value],
            KeyTest::Between(low, high) => vec![low, high],
            KeyTest::Unindexed => Vec::new(),
        }
    }

    /// Whether a value fulfils it.
    pub fn holds(&self, value: &Value) -> bool {
        match self {
            KeyTest::Compare(comparison, other) => comparison.holds(value, other),
            KeyTest::Between(low, high) => {
                Comparison::GreaterOrEqual.holds(value, low) && Comparison::LessOrEqual.holds(value, high)
            }
            KeyTest::BeginsWith(start) => begins_with(value, start),
            KeyTest::Unindexed => false,
        }
    }

    pub fn equal_to(&self) -> Option<&Value> {
        match self {
            KeyTest::Compare(Comparison::Equal, value) => Some(value),
            _ => None,
        }
    }
}

/// Takes a parsed condition apart. Which attributes are keys is judged by the caller.
pub fn terms(condition: Condition) -> Result<Vec<KeyTerm>, Failure> {
    let mut terms = Vec::new();
    collect_terms(condition, &mut terms)?;
    Ok(terms)
}

fn collect_terms(condition: Condition, terms: &mut Vec<KeyTerm>) -> Result<(), Failure> {
    if let Condition::And(conditions) = condition {
        return conditions.into_iter().try_for_each(|part| collect_terms(part, terms));
    }
    let term = term(condition)?;
    if terms.iter().any(|other| other.attribute == term.attribute) {
        return Err(Failure::validation(
            "KeyConditionExpressions must only contain one condition per key",
        ));
    }
    terms.push(term);
    Ok(())
}

fn term(condition: Condition) -> Result<KeyTerm, Failure> {
    match condition {
        Condition::Compare(Comparison::NotEqual, ..) => Err(invalid_operator("<>")),
        Condition::Compare(comparison, left, right) => {
            let (attribute, value, comparison) = match (left, right) {
                (left, Operand::Value(value)) => (attribute(left)?, value, comparison),
                (Operand::Value(value), right) => (attribute(right)?, value, comparison.mirrored()),
                _ => return Err(invalid("Multiple attribute names used in one condition")),
            };
            let test = KeyTest::Compare(comparison, value);
            Ok(KeyTerm { attribute, test })
        }
        Condition::Between(operand, Operand::Value(low), Operand::Value(high)) => Ok(KeyTerm {
            attribute: attribute(operand)?,
            test: KeyTest::Between(low, high),
        }),
        Condition::BeginsWith(Operand::Value(_), _) => Err(invalid(
            "begins_with operator must have the key attribute as its first operand",
        )),
        Condition::BeginsWith(operand, Operand::Value(start)) => Ok(KeyTerm {
            attribute: attribute(operand)?,
            test: KeyTest::BeginsWith(start),
        }),
        Condition::Between(..) | Condition::BeginsWith(..) => {
            Err(invalid("Multiple attribute names used in one condition"))
        }
        Condition::In(..) => Err(invalid_operator("IN")),
        Condition::Exists(_) => Err(invalid_operator("attribute_exists")),
        Condition::NotExists(_) => Err(invalid_operator("attribute_not_exists")),
        Condition::HasType(..) => Err(invalid_operator("attribute_type")),
        Condition::Contains(..) => Err(invalid_operator("contains")),
        Condition::Or(_) => Err(invalid_operator("OR")),
        Condition::Not(_) => Err(invalid_operator("NOT")),
        Condition::And(_) => Err(invalid_operator("AND")),
    }
}

fn attribute(operand: Operand) -> Result<String, Failure> {
    match operand {
        Operand::Path(path) if path.steps.is_empty() => Ok(path.root),
        Operand::Path(_) => Err(Failure::validation(
            "KeyConditionExpressions cannot have conditions on nested attributes",
        )),
        Operand::Size(_) => Err(invalid_operator("size")),
        Operand::Value(_) => Err(invalid("No key attribute specified")),
    }
}

fn invalid_operator(operator: &str) -> Failure {
    Failure::validation(format!("Invalid operator used in KeyConditionExpression: {operator}"))
}

fn invalid(what: &str) -> Failure {
    Failure::validation(format!("Invalid condition in KeyConditionExpression: {what}"))
}
