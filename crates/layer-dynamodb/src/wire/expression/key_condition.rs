//! Key conditions: which partition, and which part of its order.

use super::condition::{Comparison, Condition, Operand, begins_with};
use crate::wire::failure::Failure;
use crate::wire::value::Value;

/// The test that one key attribute must pass.
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

    /// Returns true if a value fulfils it.
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

/// Splits a parsed condition into terms. The caller checks which attributes are keys.
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
    let (operands, test) = match condition {
        Condition::Compare(Comparison::NotEqual, ..) => return Err(invalid_operator("<>")),
        Condition::Compare(comparison, left, right) => (vec![left, right], Test::Compare(comparison)),
        Condition::Between(operand, low, high) => {
            need_key_first(&operand, "BETWEEN")?;
            (vec![operand, low, high], Test::Between)
        }
        Condition::BeginsWith(operand, start) => {
            need_key_first(&operand, "begins_with")?;
            (vec![operand, start], Test::BeginsWith)
        }
        Condition::In(..) => return Err(invalid_operator("IN")),
        Condition::Exists(_) => return Err(invalid_operator("attribute_exists")),
        Condition::NotExists(_) => return Err(invalid_operator("attribute_not_exists")),
        Condition::HasType(..) => return Err(invalid_operator("attribute_type")),
        Condition::Contains(..) => return Err(invalid_operator("contains")),
        Condition::Or(_) => return Err(invalid_operator("OR")),
        Condition::Not(_) => return Err(invalid_operator("NOT")),
        Condition::And(_) => return Err(invalid_operator("AND")),
    };
    let (attribute, position, values) = key_and_values(operands)?;
    let mut values = values.into_iter();
    let mut value = || values.next().expect("all operands but the key are values");
    let test = match test {
        Test::Compare(comparison) if position > 0 => KeyTest::Compare(comparison.mirrored(), value()),
        Test::Compare(comparison) => KeyTest::Compare(comparison, value()),
        Test::Between => KeyTest::Between(value(), value()),
        Test::BeginsWith => KeyTest::BeginsWith(value()),
    };
    Ok(KeyTerm { attribute, test })
}

/// A test without its values.
enum Test {
    Compare(Comparison),
    Between,
    BeginsWith,
}

fn need_key_first(operand: &Operand, operator: &str) -> Result<(), Failure> {
    match operand {
        Operand::Path(_) => Ok(()),
        _ => Err(invalid(&format!(
            "{operator} operator must have the key attribute as its first operand"
        ))),
    }
}

/// The single attribute among the operands, its position, and the other values.
fn key_and_values(operands: Vec<Operand>) -> Result<(String, usize, Vec<Value>), Failure> {
    let mut key = None;
    let mut values = Vec::new();
    for (position, operand) in operands.into_iter().enumerate() {
        match operand {
            Operand::Path(_) if key.is_some() => {
                return Err(invalid("Multiple attribute names used in one condition"));
            }
            Operand::Path(path) if path.steps.is_empty() => key = Some((path.root, position)),
            Operand::Path(_) => {
                return Err(Failure::validation(
                    "KeyConditionExpressions cannot have conditions on nested attributes",
                ));
            }
            Operand::Size(_) | Operand::Test(_) => {
                return Err(Failure::validation(
                    "KeyConditionExpressions cannot contain nested operations",
                ));
            }
            Operand::Value(value) => values.push(value),
        }
    }
    let (attribute, position) = key.ok_or_else(|| invalid("No key attribute specified"))?;
    Ok((attribute, position, values))
}

fn invalid_operator(operator: &str) -> Failure {
    Failure::validation(format!("Invalid operator used in KeyConditionExpression: {operator}"))
}

fn invalid(reason: &str) -> Failure {
    Failure::validation(format!("Invalid condition in KeyConditionExpression: {reason}"))
}
