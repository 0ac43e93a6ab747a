//! The parameters that came before expressions: Expected, AttributeUpdates, KeyConditions,
//! QueryFilter, ScanFilter and AttributesToGet. Each becomes the tree that an expression would have
//! become.

use std::collections::HashSet;

use crate::wire::expression::condition::{Comparison, Operand};
use crate::wire::expression::{Condition, KeyTerm, KeyTest, Path, Update, update};
use crate::wire::failure::Failure;
use crate::wire::json::Json;
use crate::wire::value::{Value, check_attribute_name};

/// Refuses a request that mixes both styles.
pub fn check_not_mixed(request: &Json<'_>, legacy: &[&str], expressions: &[&str]) -> Result<(), Failure> {
    let gives_any = |names: &[&str]| names.iter().any(|name| request.get(name).is_some());
    if !gives_any(legacy) || !gives_any(expressions) {
        return Ok(());
    }
    let present_names = |names: &[&str]| {
        let present: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| request.get(name).is_some())
            .collect();
        present.join(", ")
    };
    let (legacy, expressions) = (present_names(legacy), present_names(expressions));
    Err(Failure::validation(format!(
        "Can not use both expression and non-expression parameters in the same request: \
         Non-expression parameters: {{{legacy}}} Expression parameters: {{{expressions}}}"
    )))
}

/// AttributesToGet, as a projection.
pub fn attributes_to_get(request: &Json<'_>) -> Result<Option<Vec<Path>>, Failure> {
    let Some(names) = request.get("AttributesToGet") else {
        return Ok(None);
    };
    let mut paths: Vec<Path> = Vec::new();
    let mut seen = HashSet::new();
    for name in names.elements().iter().filter_map(Json::text) {
        check_attribute_name(name)?;
        if !seen.insert(name) {
            return Err(Failure::invalid(format!("Duplicate value in attribute name: {name}")));
        }
        paths.push(Path::top(name));
    }
    Ok(Some(paths))
}

/// Expected, joined by ConditionalOperator.
pub fn expected(request: &Json<'_>) -> Result<Option<Condition>, Failure> {
    let Some(expected) = request.get("Expected") else {
        refuse_operator(request, "Expected")?;
        return Ok(None);
    };
    let conditions = expected.members().map(|(name, test)| expectation(name, test));
    join(request, conditions.collect::<Result<_, _>>()?, "Expected")
}

fn refuse_operator(request: &Json<'_>, parameter: &str) -> Result<(), Failure> {
    match request.get("ConditionalOperator") {
        None => Ok(()),
        Some(_) => Err(Failure::validation(format!(
            "ConditionalOperator cannot be used without Filter or {parameter}"
        ))),
    }
}

fn join(request: &Json<'_>, mut conditions: Vec<Condition>, parameter: &str) -> Result<Option<Condition>, Failure> {
    let operator = request.get("ConditionalOperator").and_then(Json::text);
    if operator.is_some() && conditions.len() < 2 && conditions.is_empty() {
        return Err(Failure::validation(format!(
            "ConditionalOperator cannot be used without Filter or {parameter}"
        )));
    }
    Ok(match (conditions.len(), operator) {
        (0, _) => None,
        (1, _) => conditions.pop(),
        (_, Some("OR")) => Some(Condition::Or(conditions)),
        _ => Some(Condition::And(conditions)),
    })
}

fn expectation(name: &str, test: &Json<'_>) -> Result<Condition, Failure> {
    check_attribute_name(name)?;
    let value = test.get("Value");
    let exists = test.get("Exists").and_then(Json::boolean);
    if value.is_some() && test.get("AttributeValueList").is_some() {
        return Err(Failure::invalid(format!(
            "Value and AttributeValueList cannot be used together for Attribute: {name}"
        )));
    }
    if let Some(operator) = test.get("ComparisonOperator").and_then(Json::text) {
        if exists.is_some() {
            return Err(Failure::invalid(format!(
                "Exists and ComparisonOperator cannot be used together for Attribute: {name}"
            )));
        }
        let needs_value = !matches!(operator, "NULL" | "NOT_NULL");
        if needs_value && value.is_none() && test.get("AttributeValueList").is_none() {
            return Err(Failure::invalid(format!(
                "Value or AttributeValueList must be used with ComparisonOperator: {operator} for Attribute: {name}"
            )));
        }
        return operator_test(name, test);
    }
    if test.get("AttributeValueList").is_some() {
        return Err(Failure::invalid(format!(
            "AttributeValueList can only be used with a ComparisonOperator for Attribute: {name}"
        )));
    }
    match (exists, value) {
        (Some(false), None) => Ok(Condition::NotExists(Path::top(name))),
        (Some(false), Some(_)) => Err(Failure::invalid(format!(
            "Value cannot be used when Exists is false for Attribute: {name}"
        ))),
        (_, Some(value)) => Ok(Condition::Compare(
            Comparison::Equal,
            Operand::Path(Path::top(name)),
            Operand::Value(Value::parse(value)?),
        )),
        (exists, None) => Err(Failure::invalid(format!(
            "Value must be provided when Exists is {} for Attribute: {name}",
            exists.map_or("null".into(), |exists| exists.to_string())
        ))),
    }
}

/// QueryFilter or ScanFilter.
pub fn filter(request: &Json<'_>, parameter: &str) -> Result<Option<Condition>, Failure> {
    let Some(filter) = request.get(parameter) else {
        refuse_operator(request, "Expected")?;
        return Ok(None);
    };
    let conditions = filter.members().map(|(name, test)| {
        check_attribute_name(name)?;
        operator_test(name, test)
    });
    join(request, conditions.collect::<Result<_, _>>()?, "Expected")
}

/// ComparisonOperator with its values, checked.
struct Comparing<'j> {
    operator: &'j str,
    values: Vec<Value>,
}

impl<'j> Comparing<'j> {
    fn parse(test: &'j Json<'_>) -> Result<Comparing<'j>, Failure> {
        let Some(operator) = test.get("ComparisonOperator").and_then(Json::text) else {
            return Err(Failure::invalid("ComparisonOperator must be provided"));
        };
        let values = match (test.get("AttributeValueList"), test.get("Value")) {
            (Some(list), _) => list.elements().iter().map(Value::parse).collect::<Result<_, _>>()?,
            (None, Some(value)) => vec![Value::parse(value)?],
            (None, None) => Vec::new(),
        };
        let comparing = Comparing { operator, values };
        comparing.check_count()?;
        comparing.check_same_type()?;
        comparing
            .values
            .iter()
            .try_for_each(|value| comparing.check_type(value))?;
        Ok(comparing)
    }

    fn check_count(&self) -> Result<(), Failure> {
        let fits = match (self.operator, self.values.len()) {
            ("NULL" | "NOT_NULL", count) => count == 0,
            ("BETWEEN", count) => count == 2,
            ("IN", count) => count > 0,
            (_, count) => count == 1,
        };
        match fits {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "Invalid number of argument(s) for the {} ComparisonOperator",
                self.operator
            ))),
        }
    }

    fn check_same_type(&self) -> Result<(), Failure> {
        let mut types = self.values.iter().map(Value::type_name);
        let first = types.next();
        match types.all(|other| Some(other) == first) {
            true => Ok(()),
            false => Err(Failure::invalid(
                "AttributeValues inside AttributeValueList must be of same type",
            )),
        }
    }

    fn check_type(&self, value: &Value) -> Result<(), Failure> {
        let kind = value.type_name();
        let fits = match self.operator {
            "LT" | "LE" | "GT" | "GE" | "BETWEEN" | "IN" => matches!(kind, "S" | "N" | "B"),
            "BEGINS_WITH" => matches!(kind, "S" | "B"),
            "CONTAINS" | "NOT_CONTAINS" => !matches!(kind, "L" | "M" | "SS" | "NS" | "BS"),
            _ => true,
        };
        match fits {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "ComparisonOperator {} is not valid for {kind} AttributeValue type",
                self.operator
            ))),
        }
    }

    fn check_bounds(&self) -> Result<(), Failure> {
        let (low, high) = (&self.values[0], &self.values[1]);
        match Comparison::LessOrEqual.holds(low, high) {
            true => Ok(()),
            false => Err(Failure::validation(
                "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound",
            )),
        }
    }
}

fn comparison(operator: &str) -> Option<Comparison> {
    Some(match operator {
        "EQ" => Comparison::Equal,
        "NE" => Comparison::NotEqual,
        "LT" => Comparison::Less,
        "LE" => Comparison::LessOrEqual,
        "GT" => Comparison::Greater,
        "GE" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn operator_test(name: &str, test: &Json<'_>) -> Result<Condition, Failure> {
    let comparing = Comparing::parse(test)?;
    let path = || Path::top(name);
    let operand = || Operand::Path(path());
    let mut values = comparing.values.clone().into_iter().map(Operand::Value);
    let mut value = || values.next().expect("the number of values was checked");
    Ok(match comparing.operator {
        "NULL" => Condition::NotExists(path()),
        "NOT_NULL" => Condition::Exists(path()),
        "BEGINS_WITH" => Condition::BeginsWith(operand(), value()),
        "CONTAINS" => Condition::Contains(operand(), value()),
        "NOT_CONTAINS" => Condition::And(vec![
            Condition::Exists(path()),
            Condition::Not(Box::new(Condition::Contains(operand(), value()))),
        ]),
        "BETWEEN" => {
            comparing.check_bounds()?;
            Condition::Between(operand(), value(), value())
        }
        "IN" => Condition::In(operand(), values.collect()),
        operator => {
            let comparison = comparison(operator).expect("the shape allows the operators");
            Condition::Compare(comparison, operand(), value())
        }
    })
}

/// KeyConditions.
pub fn key_conditions(conditions: &Json<'_>) -> Result<Vec<KeyTerm>, Failure> {
    conditions.members().map(|(name, test)| key_term(name, test)).collect()
}

fn key_term(name: &str, test: &Json<'_>) -> Result<KeyTerm, Failure> {
    let mut comparing = Comparing::parse(test)?;
    let test = match comparing.operator {
        "BETWEEN" => {
            comparing.check_bounds()?;
            let high = comparing.values.pop().expect("two values");
            KeyTest::Between(comparing.values.remove(0), high)
        }
        "BEGINS_WITH" => KeyTest::BeginsWith(comparing.values.remove(0)),
        "EQ" | "LT" | "LE" | "GT" | "GE" => {
            let comparison = comparison(comparing.operator).expect("a comparison");
            KeyTest::Compare(comparison, comparing.values.remove(0))
        }
        _ => KeyTest::Unindexed,
    };
    Ok(KeyTerm {
        attribute: name.to_owned(),
        test,
    })
}

/// AttributeUpdates, as an update.
pub fn attribute_updates(updates: &Json<'_>) -> Result<Update, Failure> {
    let mut update = Update {
        legacy: true,
        ..Update::default()
    };
    for (name, action) in updates.members() {
        check_attribute_name(name)?;
        let path = Path::top(name);
        let value = action.get("Value").map(Value::parse).transpose()?;
        let kind = action.get("Action").and_then(Json::text).unwrap_or("PUT");
        match (kind, value) {
            ("PUT", Some(value)) => update.set.push((path, update::Term::Value(value))),
            ("DELETE", None) => update.remove.push(path),
            (_, None) => {
                return Err(Failure::invalid(
                    "Only DELETE action is allowed when no attribute value is specified",
                ));
            }
            ("ADD", Some(value @ (Value::N(_) | Value::SS(_) | Value::NS(_) | Value::BS(_) | Value::L(_)))) => {
                update.add.push((path, value));
            }
            ("DELETE", Some(value @ (Value::SS(_) | Value::NS(_) | Value::BS(_)))) => update.delete.push((path, value)),
            ("ADD", Some(value)) => {
                return Err(Failure::invalid(format!(
                    "ADD action is not supported for the type {}",
                    value.type_name()
                )));
            }
            (_, Some(value)) => {
                return Err(Failure::invalid(format!(
                    "DELETE action with value is not supported for the type {}",
                    value.type_name()
                )));
            }
        }
    }
    Ok(update)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::value::{item_json, parse_item};

    const ITEM: &str = r#"{"s":{"S":"hello"},"n":{"N":"5"},"l":{"L":[{"N":"1"}]},"ss":{"SS":["a"]}}"#;

    fn holds(request: &str) -> Result<bool, String> {
        let item = parse_item(&Json::parse(ITEM.as_bytes()).unwrap()).unwrap();
        let condition = expected(&Json::parse(request.as_bytes()).unwrap());
        condition
            .map(|condition| condition.unwrap().holds(&item))
            .map_err(|failure| failure.message)
    }

    fn test(operator: &str, values: &str) -> String {
        format!(r#"{{"Expected":{{"n":{{"ComparisonOperator":"{operator}","AttributeValueList":[{values}]}}}}}}"#)
    }

    #[test]
    fn expectations_hold() {
        for (operator, values, expected) in [
            ("EQ", r#"{"N":"5"}"#, true),
            ("NE", r#"{"N":"5"}"#, false),
            ("GT", r#"{"N":"4"}"#, true),
            ("BETWEEN", r#"{"N":"4"},{"N":"6"}"#, true),
            ("IN", r#"{"N":"4"},{"N":"5"}"#, true),
            ("NULL", "", false),
            ("NOT_NULL", "", true),
            ("CONTAINS", r#"{"N":"5"}"#, false),
        ] {
            assert_eq!(holds(&test(operator, values)), Ok(expected), "{operator}");
        }
        assert_eq!(holds(r#"{"Expected":{"x":{"Exists":false}}}"#), Ok(true));
        assert_eq!(
            holds(r#"{"Expected":{"s":{"Value":{"S":"x"}},"x":{"Exists":false}}}"#),
            Ok(false)
        );
        assert_eq!(
            holds(r#"{"Expected":{"s":{"Value":{"S":"x"}},"x":{"Exists":false}},"ConditionalOperator":"OR"}"#),
            Ok(true)
        );
    }

    #[test]
    fn faulty_expectations_have_their_texts() {
        for (request, text) in [
            (
                test("EQ", ""),
                "Invalid number of argument(s) for the EQ ComparisonOperator",
            ),
            (
                test("CONTAINS", r#"{"L":[]}"#),
                "ComparisonOperator CONTAINS is not valid for L AttributeValue type",
            ),
            (
                r#"{"Expected":{"a":{}}}"#.into(),
                "Value must be provided when Exists is null for Attribute: a",
            ),
            (
                r#"{"Expected":{"a":{"Exists":true,"ComparisonOperator":"NULL"}}}"#.into(),
                "Exists and ComparisonOperator cannot be used together for Attribute: a",
            ),
        ] {
            assert!(holds(&request).unwrap_err().contains(text), "{request}");
        }
    }

    #[test]
    fn updates_are_applied() {
        let mut item = parse_item(&Json::parse(ITEM.as_bytes()).unwrap()).unwrap();
        let updates = r#"{"s":{"Value":{"S":"x"}},"n":{"Action":"ADD","Value":{"N":"1"}},"ss":{"Action":"DELETE","Value":{"SS":["a"]}},
            "l":{"Action":"ADD","Value":{"L":[{"N":"2"}]}},"q":{"Action":"DELETE"}}"#;
        let update = attribute_updates(&Json::parse(updates.as_bytes()).unwrap()).unwrap();
        update.apply(&mut item).unwrap();
        assert_eq!(
            item_json(&item),
            r#"{"l":{"L":[{"N":"1"},{"N":"2"}]},"n":{"N":"6"},"s":{"S":"x"}}"#
        );
    }
}
