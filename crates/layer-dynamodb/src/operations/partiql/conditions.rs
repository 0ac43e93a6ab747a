//! WHERE as a condition, with all that can be said against it before any item is read.

use super::syntax::{Kind, Node};
use super::values::{Parameters, path};
use crate::wire::expression::Condition;
use crate::wire::expression::condition::{
    Comparison, Operand, check_bounds, count_fault, distinct_fault, path_fault, type_fault, type_name_fault,
};
use crate::wire::failure::Failure;

const IN_OPERANDS_MAX: usize = 100;
const ORDERED: [&str; 3] = ["S", "N", "B"];
const SIZED: [&str; 7] = ["S", "B", "SS", "NS", "BS", "L", "M"];

/// The types that IS distinguishes: their name in the grammar and in DynamoDB.
const TYPES: [(&str, &str); 8] = [
    ("null", "NULL"),
    ("boolean", "BOOL"),
    ("blob", "B"),
    ("string", "S"),
    ("numeric", "N"),
    ("struct", "M"),
    ("tuple", "M"),
    ("list", "L"),
];

fn refuse(fault: Option<String>) -> Result<(), Failure> {
    fault.map_or(Ok(()), |text| Err(Failure::validation(text)))
}

impl Parameters<'_> {
    /// The condition that a WHERE clause is.
    pub fn clause(self, node: &Node) -> Result<Condition, Failure> {
        match node.is_operation() && !is_size(node) {
            true => self.condition(node),
            false => Err(Failure::validation(
                "WHERE clause must contain an expression that resolves to a boolean",
            )),
        }
    }

    pub fn condition(self, node: &Node) -> Result<Condition, Failure> {
        match &node.kind {
            Kind::Binary("and", ..) => self.joined(node, "and").map(Condition::And),
            Kind::Binary("or", ..) => self.joined(node, "or").map(Condition::Or),
            Kind::Not(operand) => {
                let text = "The argument to NOT must be a Type or Expression";
                let negated = self.part(operand, "NOT", text)?;
                Ok(Condition::Not(Box::new(negated)))
            }
            Kind::Binary(operator, left, right) => match Comparison::of_symbol(operator) {
                Some(comparison) => self.comparison(comparison, left, right),
                None => Err(unsupported_operator(operator)),
            },
            Kind::Sign(operator, _) => Err(unsupported_operator(operator)),
            Kind::In(operand, list) => self.one_of(operand, list),
            Kind::Between(operand, low, high) => self.between(operand, low, high),
            Kind::Is(operand, name) => self.is(node, operand, name),
            Kind::Call(name, arguments) => self.function(node, name, arguments),
            _ => unreachable!("only operations are conditions"),
        }
    }

    /// The operands of a row of ANDs or ORs, which lean to the left.
    fn joined(self, node: &Node, operator: &str) -> Result<Vec<Condition>, Failure> {
        let mut current = node;
        let mut operands = Vec::new();
        while let Kind::Binary(symbol, left, right) = &current.kind
            && *symbol == operator
        {
            operands.push(&**right);
            current = left;
        }
        operands.push(current);
        let text = "The arguments to AND/OR must be Expressions";
        let title = operator.to_uppercase();
        let parts = operands.into_iter().rev().map(|node| self.part(node, &title, text));
        parts.collect()
    }

    /// An operand of AND, OR and NOT. `text` refuses what cannot be one.
    fn part(self, node: &Node, operator: &str, text: &str) -> Result<Condition, Failure> {
        if !node.is_operation() {
            return Err(Failure::validation(text));
        }
        if is_size(node) {
            let size = self.operand(node)?;
            refuse(operand_fault(operator, &size, &["BOOL"]))?;
        }
        self.condition(node)
    }

    fn comparison(self, comparison: Comparison, left: &Node, right: &Node) -> Result<Condition, Failure> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let operator = comparison.symbol();
        refuse(distinct_fault(operator, &left, &[&right]))?;
        if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            for operand in [&left, &right] {
                refuse(operand_fault(operator, operand, &ORDERED))?;
            }
        }
        Ok(Condition::Compare(comparison, left, right))
    }

    fn between(self, operand: &Node, low: &Node, high: &Node) -> Result<Condition, Failure> {
        let (operand, low, high) = (self.operand(operand)?, self.operand(low)?, self.operand(high)?);
        refuse(distinct_fault("BETWEEN", &operand, &[&low, &high]))?;
        for operand in [&operand, &low, &high] {
            refuse(operand_fault("BETWEEN", operand, &ORDERED))?;
        }
        check_bounds(&low, &high).map_err(Failure::validation)?;
        Ok(Condition::Between(operand, low, high))
    }

    fn one_of(self, operand: &Node, list: &Node) -> Result<Condition, Failure> {
        let members = match &list.kind {
            Kind::List(members) | Kind::Bag(members) if !members.is_empty() => members,
            _ => {
                return Err(Failure::validation(
                    "IN operator must have a left hand argument of type Variable Reference and right hand argument of type \
                     Seq with at least one member",
                ));
            }
        };
        if members.len() > IN_OPERANDS_MAX {
            return Err(Failure::validation(format!(
                "The IN operator is provided with too many operands; number of operands: {}",
                members.len()
            )));
        }
        let operand = self.operand(operand)?;
        let members = members.iter().map(|member| self.operand(member));
        let members: Vec<Operand> = members.collect::<Result<_, _>>()?;
        refuse(distinct_fault("IN", &operand, &members.iter().collect::<Vec<_>>()))?;
        Ok(Condition::In(operand, members))
    }

    fn is(self, node: &Node, operand: &Node, name: &str) -> Result<Condition, Failure> {
        let is_literal = matches!(
            operand.kind,
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_)
        );
        if !is_literal && !matches!(operand.kind, Kind::Name(_) | Kind::Path(..)) {
            let text = "The left hand side argument to IS must be a Variable Reference, Literal, or Path";
            return Err(Failure::validation(text));
        }
        let operand = self.operand(operand)?;
        if name == "missing" {
            return Ok(match operand {
                Operand::Path(path) => Condition::NotExists(path),
                _ => Condition::Or(Vec::new()),
            });
        }
        let row = TYPES.into_iter().find(|(word, _)| *word == name);
        let (_, kind) = row.ok_or_else(|| {
            Failure::validation(format!(
                "Unsupported data type for IS operator: {}. Supported data types are [MISSING, NULL, BOOLEAN, BLOB, STRING, \
                 NUMERIC, STRUCT, TUPLE, LIST] {}",
                name.to_uppercase(),
                node.at
            ))
        })?;
        Ok(Condition::HasType(operand, kind.to_owned()))
    }

    fn function(self, node: &Node, name: &str, arguments: &[Node]) -> Result<Condition, Failure> {
        let expected = match name {
            "attribute_exists" | "attribute_not_exists" => 1,
            "attribute_type" | "begins_with" | "contains" => 2,
            "if_not_exists" | "list_append" => {
                return Err(Failure::validation(format!(
                    "The function is not allowed in a condition expression; function: {name}"
                )));
            }
            _ => return Err(unknown_function(node, name)),
        };
        refuse(count_fault(name, arguments.len(), expected))?;
        let arguments = arguments.iter().map(|argument| self.operand(argument));
        let arguments: Vec<Operand> = arguments.collect::<Result<_, _>>()?;
        if let [first, second] = &arguments[..] {
            refuse(distinct_fault(name, first, &[second]))?;
        }
        let mut arguments = arguments.into_iter();
        Ok(match (name, arguments.next(), arguments.next()) {
            ("attribute_exists", Some(Operand::Path(path)), _) => Condition::Exists(path),
            ("attribute_not_exists", Some(Operand::Path(path)), _) => Condition::NotExists(path),
            ("contains", Some(container), Some(element)) => Condition::Contains(container, element),
            ("begins_with", Some(first), Some(second)) => {
                refuse(operand_fault(name, &first, &["S", "B"]))?;
                refuse(operand_fault(name, &second, &["S", "B"]))?;
                Condition::BeginsWith(first, second)
            }
            ("attribute_type", Some(operand), Some(kind)) => match type_name_fault(&kind) {
                Ok(kind) => Condition::HasType(operand, kind),
                Err(text) => return Err(Failure::validation(text)),
            },
            _ => return Err(Failure::validation(path_fault(name))),
        })
    }

    pub fn operand(self, node: &Node) -> Result<Operand, Failure> {
        match &node.kind {
            Kind::Name(_) | Kind::Path(..) => path(node).map(Operand::Path),
            Kind::Missing => Err(missing()),
            Kind::Call(name, arguments) if name == "size" => {
                refuse(count_fault("size", arguments.len(), 1))?;
                let operand = self.operand(&arguments[0])?;
                refuse(operand_fault("size", &operand, &SIZED))?;
                Ok(Operand::Size(Box::new(operand)))
            }
            _ if node.is_operation() => Ok(Operand::Test(Box::new(self.condition(node)?))),
            _ => self.operand_value(node).map(Operand::Value),
        }
    }
}

fn is_size(node: &Node) -> bool {
    matches!(&node.kind, Kind::Call(name, _) if name == "size")
}

pub fn missing() -> Failure {
    Failure::validation("MISSING must be compared using IS operator")
}

pub fn unknown_function(node: &Node, name: &str) -> Failure {
    Failure::validation(format!("Unrecognized function: {name} {}", node.at))
}

fn unsupported_operator(operator: &str) -> Failure {
    Failure::validation(format!(
        "Unsupported operator in Condition Expression. Operator: {operator}"
    ))
}

/// Refuses an operand of a type that the operator can never take.
fn operand_fault(operator: &str, operand: &Operand, types: &[&str]) -> Option<String> {
    operand.known_type().and_then(|kind| type_fault(operator, kind, types))
}
