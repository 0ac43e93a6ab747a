//! Literals as attribute values, and paths.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::syntax::{Kind, Node, Step as Written};
use crate::wire::expression::Path;
use crate::wire::expression::path::Step;
use crate::wire::failure::Failure;
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, duplicated_numbers, duplicated_texts, number_failure};

/// Values of the question marks of a statement.
#[derive(Clone, Copy)]
pub struct Parameters<'p>(pub &'p [Value]);

impl Parameters<'_> {
    /// The value of a question mark. Surplus values are no error.
    fn value(self, position: usize) -> Result<Value, Failure> {
        let text = "Number of parameters in request and statement don't match.";
        self.0.get(position).cloned().ok_or_else(|| Failure::validation(text))
    }

    /// A single operand: a literal or a question mark.
    pub fn operand_value(self, node: &Node) -> Result<Value, Failure> {
        match node.kind {
            Kind::Parameter(position) => self.value(position),
            _ => literal(node, &Place::Root),
        }
    }

    /// The item of an INSERT, whose values may be question marks.
    pub fn item(self, node: &Node) -> Result<Item, Failure> {
        let Kind::Tuple(pairs) = &node.kind else {
            return Err(Failure::validation(format!(
                "Unsupported format in item expression. Please use struct format {{...}} to express item values for insert \
                 statement. {}",
                node.at
            )));
        };
        members(pairs, &Place::Root, |node, _| match &node.kind {
            Kind::Parameter(position) => self.value(*position),
            Kind::Name(_) | Kind::Missing => Err(unsupported(node, node.token_text(), &Place::Root)),
            _ if node.is_operation() => Err(unsupported(node, node.token_text(), &Place::Root)),
            _ => literal(node, &Place::Root),
        })
    }
}

/// The way to a value within a literal.
enum Place<'p> {
    Root,
    Member(&'p Place<'p>, &'p str),
    Element(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// `root.x[1]`, with `open` before a position and `close` after it.
    fn shown(&self, open: &str, close: &str) -> String {
        match self {
            Place::Root => "root".to_owned(),
            Place::Member(above, name) => above.shown(open, close) + "." + name,
            Place::Element(above, index) => above.shown(open, close) + &format!("{open}{index}{close}"),
        }
    }
}

fn unsupported(node: &Node, kind: &str, place: &Place<'_>) -> Failure {
    let place = place.shown(".", "");
    Failure::validation(format!("Unsupported data type: {kind} under key {place} {}", node.at))
}

fn literal(node: &Node, place: &Place<'_>) -> Result<Value, Failure> {
    match &node.kind {
        Kind::Null => Ok(Value::Null),
        Kind::Bool(value) => Ok(Value::Bool(*value)),
        Kind::Text(text) => Ok(Value::S(text.clone())),
        Kind::Number(digits) => number(digits, place).map(Value::N),
        Kind::List(elements) => {
            let elements = elements.iter().enumerate();
            let values = elements.map(|(index, node)| literal(node, &Place::Element(place, index)));
            values.collect::<Result<_, _>>().map(Value::L)
        }
        Kind::Tuple(pairs) => members(pairs, place, literal).map(Value::M),
        Kind::Bag(elements) => set(elements, place),
        Kind::Ion => {
            let place = place.shown(".", "");
            let text = format!("Ion Literals are not supported: under key {place} {}", node.at);
            Err(Failure::validation(text))
        }
        _ => Err(unsupported(node, node.kind_name(), place)),
    }
}

fn number(digits: &str, place: &Place<'_>) -> Result<Number, Failure> {
    Number::parse(digits).map_err(|error| {
        let mut failure = number_failure(error);
        let _ = write!(failure.message, " under {}", place.shown("[", "]"));
        failure
    })
}

fn members(
    pairs: &[(Node, Node)],
    place: &Place<'_>,
    value: impl Fn(&Node, &Place<'_>) -> Result<Value, Failure>,
) -> Result<Item, Failure> {
    let mut members = Item::new();
    for (name, node) in pairs {
        let refused = |text: String| {
            let place = place.shown(".", "");
            Err(Failure::validation(format!("{text} under {place} {}", name.at)))
        };
        let name = match &name.kind {
            Kind::Text(name) if name.is_empty() => {
                return Err(Failure::validation("Path component cannot be an empty string"));
            }
            Kind::Text(name) if members.contains_key(name) => {
                return refused(format!("Duplicate keys in tuple. Key: {name}"));
            }
            Kind::Text(name) => name,
            _ => {
                return refused(format!(
                    "Tuple keys must be of type String. Actual type: {}",
                    literal_type(name)
                ));
            }
        };
        members.insert(name.clone(), value(node, &Place::Member(place, name))?);
    }
    Ok(members)
}

/// The type of a literal in Ion, by which the service names it; or else the kind of node.
fn literal_type(node: &Node) -> &'static str {
    match &node.kind {
        Kind::Null => "NULL",
        Kind::Bool(_) => "BOOL",
        Kind::Number(digits) if digits.contains(['.', 'e', 'E']) => "DECIMAL",
        Kind::Number(_) => "INT",
        _ => node.kind_name(),
    }
}

/// A bag is a set of texts or of numbers.
fn set(elements: &[Node], place: &Place<'_>) -> Result<Value, Failure> {
    if elements.is_empty() {
        return Err(Failure::validation("Empty bags are not supported"));
    }
    let mut texts = Vec::new();
    let mut numbers = Vec::new();
    for node in elements {
        match &node.kind {
            Kind::Text(text) if numbers.is_empty() => texts.push(text.clone()),
            Kind::Number(digits) if texts.is_empty() => numbers.push(number(digits, place)?),
            _ => {
                let text = "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags";
                return Err(Failure::validation(format!("{text} {}", node.at)));
            }
        }
    }
    if numbers.is_empty() {
        let set: BTreeSet<String> = texts.iter().cloned().collect();
        return match set.len() == texts.len() {
            true => Ok(Value::SS(set)),
            false => Err(duplicated_texts(&texts)),
        };
    }
    let set: BTreeSet<Number> = numbers.iter().copied().collect();
    match set.len() == numbers.len() {
        true => Ok(Value::NS(set)),
        false => Err(duplicated_numbers()),
    }
}

/// The document path that a node names, if it is one.
pub fn path(node: &Node) -> Result<Path, Failure> {
    let (root, steps) = match &node.kind {
        Kind::Name(_) => (node, &[][..]),
        Kind::Path(root, steps) => (&**root, steps.as_slice()),
        _ => return Err(no_component(node)),
    };
    let Kind::Name(name) = &root.kind else {
        return Err(no_component(root));
    };
    let mut path = Path::top(name.clone());
    for step in steps {
        path.steps.push(match step {
            Written::Member(name) => Step::Member(name.clone()),
            Written::Element(node) => element(node)?,
            Written::All => {
                let text = "Changing item's hierarchy while reading isn't supported";
                return Err(Failure::validation(text));
            }
        });
    }
    Ok(path)
}

fn element(node: &Node) -> Result<Step, Failure> {
    match &node.kind {
        Kind::Text(name) | Kind::Name(name) => Ok(Step::Member(name.clone())),
        Kind::Number(digits) if digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => {
            let index = digits.parse::<u32>().map_err(|_| {
                Failure::validation(format!(
                    "List index is not within the allowable range; index: [{digits}] {}",
                    node.at
                ))
            })?;
            Ok(Step::Index(index as usize))
        }
        _ => Err(no_component(node)),
    }
}

fn no_component(node: &Node) -> Failure {
    Failure::validation(format!("Unexpected path component {}", node.at))
}
