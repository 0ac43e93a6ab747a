//! Conditions: of writes, of filters and of keys. Parsed to a tree whose faults are all found before any item is read.
//!
//! From tightest to loosest: comparisons, IN, BETWEEN and functions; parentheses; NOT; AND; OR.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::lexer::Kind;
use super::parser::Parser;
use super::path::Path;
use crate::failure::Failure;
use crate::number::Number;
use crate::value::{Item, TYPE_NAMES, Value};

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Path(Path),
    Value(Value),
    Size(Box<Operand>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Compare(Comparison, Operand, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
    Exists(Path),
    NotExists(Path),
    HasType(Operand, String),
    BeginsWith(Operand, Operand),
    Contains(Operand, Operand),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
}

const IN_OPERANDS_MAX: usize = 100;
/// Functions of conditions, then those of updates, which are known but out of place here.
const FUNCTIONS: [&str; 8] = [
    "attribute_exists",
    "attribute_not_exists",
    "attribute_type",
    "begins_with",
    "contains",
    "size",
    "if_not_exists",
    "list_append",
];

impl Comparison {
    pub fn of_symbol(symbol: &str) -> Option<Comparison> {
        Some(match symbol {
            "=" => Comparison::Equal,
            "<>" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The comparison that says the same with its operands exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    /// Whether it holds. Values of different types are unequal and have no order; nor have values that are not scalar.
    pub fn holds(self, left: &Value, right: &Value) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => order(left, right) == Some(Ordering::Less),
            Comparison::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
            Comparison::Greater => order(left, right) == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
        }
    }
}

/// The order of two values of one scalar type.
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::S(left), Value::S(right)) => Some(left.cmp(right)),
        (Value::N(left), Value::N(right)) => Some(left.cmp(right)),
        (Value::B(left), Value::B(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// `contains` of conditions: part of a text or of bytes, member of a set or a list.
pub fn contains(container: &Value, element: &Value) -> bool {
    match (container, element) {
        (Value::S(text), Value::S(part)) => text.contains(part.as_str()),
        (Value::B(bytes), Value::B(part)) => {
            part.is_empty() || bytes.windows(part.len()).any(|window| window == part.as_slice())
        }
        (Value::SS(set), Value::S(member)) => set.contains(member),
        (Value::NS(set), Value::N(member)) => set.contains(member),
        (Value::BS(set), Value::B(member)) => set.contains(member),
        (Value::L(elements), element) => elements.contains(element),
        _ => false,
    }
}

pub fn begins_with(value: &Value, start: &Value) -> bool {
    match (value, start) {
        (Value::S(text), Value::S(start)) => text.starts_with(start.as_str()),
        (Value::B(bytes), Value::B(start)) => bytes.starts_with(start),
        _ => false,
    }
}

/// `size` of conditions; `None` for what has none.
fn size(value: &Value) -> Option<usize> {
    Some(match value {
        Value::S(text) => text.encode_utf16().count(),
        Value::B(bytes) => bytes.len(),
        Value::SS(set) => set.len(),
        Value::NS(set) => set.len(),
        Value::BS(set) => set.len(),
        Value::L(elements) => elements.len(),
        Value::M(members) => members.len(),
        Value::N(_) | Value::Bool(_) | Value::Null => return None,
    })
}

impl Operand {
    fn evaluate<'i>(&'i self, item: &'i Item) -> Option<Cow<'i, Value>> {
        match self {
            Operand::Path(path) => path.resolve(item).map(Cow::Borrowed),
            Operand::Value(value) => Some(Cow::Borrowed(value)),
            Operand::Size(operand) => {
                let size = size(operand.evaluate(item)?.as_ref())?;
                Some(Cow::Owned(Value::N(Number::from_integer(size as i64))))
            }
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Operand::Path(path) => Some(path),
            Operand::Size(operand) => operand.path(),
            Operand::Value(_) => None,
        }
    }

    fn literal_type(&self) -> Option<&'static str> {
        match self {
            Operand::Value(value) => Some(value.type_name()),
            _ => None,
        }
    }
}

impl Condition {
    /// Whether it holds for `item`; for an item that is not there, pass an empty one.
    pub fn holds(&self, item: &Item) -> bool {
        match self {
            Condition::Compare(comparison, left, right) => match (left.evaluate(item), right.evaluate(item)) {
                (Some(left), Some(right)) => comparison.holds(&left, &right),
                _ => *comparison == Comparison::NotEqual,
            },
            Condition::Between(operand, low, high) => {
                match (operand.evaluate(item), low.evaluate(item), high.evaluate(item)) {
                    (Some(value), Some(low), Some(high)) => {
                        Comparison::GreaterOrEqual.holds(&value, &low) && Comparison::LessOrEqual.holds(&value, &high)
                    }
                    _ => false,
                }
            }
            Condition::In(operand, list) => operand.evaluate(item).is_some_and(|value| {
                list.iter()
                    .any(|other| other.evaluate(item).is_some_and(|other| other == value))
            }),
            Condition::Exists(path) => path.resolve(item).is_some(),
            Condition::NotExists(path) => path.resolve(item).is_none(),
            Condition::HasType(operand, name) => operand.evaluate(item).is_some_and(|value| value.type_name() == name),
            Condition::BeginsWith(operand, start) => match (operand.evaluate(item), start.evaluate(item)) {
                (Some(value), Some(start)) => begins_with(&value, &start),
                _ => false,
            },
            Condition::Contains(container, element) => match (container.evaluate(item), element.evaluate(item)) {
                (Some(container), Some(element)) => contains(&container, &element),
                _ => false,
            },
            Condition::And(conditions) => conditions.iter().all(|condition| condition.holds(item)),
            Condition::Or(conditions) => conditions.iter().any(|condition| condition.holds(item)),
            Condition::Not(condition) => !condition.holds(item),
        }
    }

    /// Every path in it.
    pub fn paths<'c>(&'c self, found: &mut Vec<&'c Path>) {
        match self {
            Condition::Compare(_, left, right)
            | Condition::BeginsWith(left, right)
            | Condition::Contains(left, right) => {
                found.extend([left, right].into_iter().filter_map(Operand::path));
            }
            Condition::Between(operand, low, high) => {
                found.extend([operand, low, high].into_iter().filter_map(Operand::path));
            }
            Condition::In(operand, list) => {
                found.extend(std::iter::once(operand).chain(list).filter_map(Operand::path));
            }
            Condition::Exists(path) | Condition::NotExists(path) => found.push(path),
            Condition::HasType(operand, _) => found.extend(operand.path()),
            Condition::And(conditions) | Condition::Or(conditions) => {
                conditions.iter().for_each(|condition| condition.paths(found));
            }
            Condition::Not(condition) => condition.paths(found),
        }
    }
}

/// A condition, and whether it stood in parentheses of its own.
struct Parsed {
    condition: Condition,
    enclosed: bool,
}

/// Parses the whole of an expression as a condition.
pub fn parse(parser: &mut Parser<'_, '_>) -> Result<Condition, Failure> {
    let parsed = disjunction(parser)?;
    parser.expect_end()?;
    Ok(parsed.condition)
}

fn disjunction(parser: &mut Parser<'_, '_>) -> Result<Parsed, Failure> {
    let first = conjunction(parser)?;
    if !parser.peek().is_keyword("OR") {
        return Ok(first);
    }
    let mut alternatives = vec![first.condition];
    while parser.take_keyword("OR") {
        parser.count_operator()?;
        alternatives.push(conjunction(parser)?.condition);
    }
    Ok(bare(Condition::Or(alternatives)))
}

fn conjunction(parser: &mut Parser<'_, '_>) -> Result<Parsed, Failure> {
    let first = negation(parser)?;
    if !parser.peek().is_keyword("AND") {
        return Ok(first);
    }
    let mut terms = vec![first.condition];
    while parser.take_keyword("AND") {
        parser.count_operator()?;
        terms.push(negation(parser)?.condition);
    }
    Ok(bare(Condition::And(terms)))
}

fn negation(parser: &mut Parser<'_, '_>) -> Result<Parsed, Failure> {
    if !parser.take_keyword("NOT") {
        return term(parser);
    }
    parser.count_operator()?;
    let negated = parser.deeper(negation)?;
    Ok(bare(Condition::Not(Box::new(negated.condition))))
}

fn bare(condition: Condition) -> Parsed {
    Parsed {
        condition,
        enclosed: false,
    }
}

fn term(parser: &mut Parser<'_, '_>) -> Result<Parsed, Failure> {
    if parser.take_symbol("(") {
        let inner = parser.deeper(disjunction)?;
        parser.expect_symbol(")")?;
        if inner.enclosed {
            return Err(parser.failure("The expression has redundant parentheses;"));
        }
        return Ok(Parsed {
            condition: inner.condition,
            enclosed: true,
        });
    }
    let is_function = parser.peek().kind == Kind::Word && parser.peek_second().is_symbol("(");
    if is_function && parser.peek().text != "size" {
        return Ok(bare(function(parser)?));
    }
    let left = operand(parser)?;
    comparison(parser, left).map(bare)
}

fn comparison(parser: &mut Parser<'_, '_>, left: Operand) -> Result<Condition, Failure> {
    if parser.take_keyword("BETWEEN") {
        return between(parser, left);
    }
    if parser.take_keyword("IN") {
        return one_of(parser, left);
    }
    let token = parser.peek();
    let Some(comparison) = Comparison::of_symbol(token.text).filter(|_| token.kind == Kind::Symbol) else {
        if let Operand::Size(_) = left {
            return Err(misused(parser, "size"));
        }
        return Err(parser.syntax_error());
    };
    parser.next();
    parser.count_operator()?;
    let right = operand(parser)?;
    if let (Operand::Path(path), true) = (&left, left == right) {
        return Err(parser.failure(format_args!(
            "The first operand must be distinct from the remaining operands for this operator or function; \
             operator: {}, first operand: {path}",
            comparison.symbol()
        )));
    }
    if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
        for operand in [&left, &right] {
            check_type(parser, operand, comparison.symbol(), &["S", "N", "B"])?;
        }
    }
    Ok(Condition::Compare(comparison, left, right))
}

fn between(parser: &mut Parser<'_, '_>, operand_between: Operand) -> Result<Condition, Failure> {
    parser.count_operator()?;
    let low = operand(parser)?;
    if !parser.take_keyword("AND") {
        return Err(parser.syntax_error());
    }
    let high = operand(parser)?;
    for operand in [&operand_between, &low, &high] {
        check_type(parser, operand, "BETWEEN", &["S", "N", "B"])?;
    }
    check_bounds(&low, &high).map_err(|text| parser.failure(text))?;
    Ok(Condition::Between(operand_between, low, high))
}

fn check_bounds(low: &Operand, high: &Operand) -> Result<(), String> {
    let (Operand::Value(low), Operand::Value(high)) = (low, high) else {
        return Ok(());
    };
    let bounds = || {
        let show = |value: &Value| format!("AttributeValue: {}", shown(value));
        format!(
            "lower bound operand: {}, upper bound operand: {}",
            show(low),
            show(high)
        )
    };
    match order(low, high) {
        None => Err(format!(
            "The BETWEEN operator requires same data type for lower and upper bounds; {}",
            bounds()
        )),
        Some(Ordering::Greater) => Err(format!(
            "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; {}",
            bounds()
        )),
        Some(_) => Ok(()),
    }
}

/// As messages show a value: `{N:1}`.
pub fn shown(value: &Value) -> String {
    value.to_json().replace('"', "")
}

fn one_of(parser: &mut Parser<'_, '_>, operand_of: Operand) -> Result<Condition, Failure> {
    parser.count_operator()?;
    parser.expect_symbol("(")?;
    let list = operands(parser)?;
    if list.len() > IN_OPERANDS_MAX {
        return Err(parser.failure(format_args!(
            "The IN operator is provided with too many operands; number of operands: {}",
            list.len()
        )));
    }
    Ok(Condition::In(operand_of, list))
}

/// The rest of a list after its opening parenthesis.
fn operands(parser: &mut Parser<'_, '_>) -> Result<Vec<Operand>, Failure> {
    let mut list = vec![operand(parser)?];
    while parser.take_symbol(",") {
        list.push(operand(parser)?);
    }
    parser.expect_symbol(")")?;
    Ok(list)
}

fn operand(parser: &mut Parser<'_, '_>) -> Result<Operand, Failure> {
    if parser.peek().kind == Kind::Value {
        return parser.value().map(Operand::Value);
    }
    if parser.peek().kind == Kind::Word && parser.peek_second().is_symbol("(") {
        return size_operand(parser);
    }
    parser.path().map(Operand::Path)
}

fn size_operand(parser: &mut Parser<'_, '_>) -> Result<Operand, Failure> {
    let name = function_name(parser)?;
    if name != "size" {
        return Err(misused(parser, name));
    }
    let arguments = parser.deeper(operands)?;
    let [operand] = <[Operand; 1]>::try_from(arguments).map_err(|list| wrong_count(parser, name, list.len()))?;
    if let Operand::Size(_) = operand {
        return Err(misused(parser, name));
    }
    check_type(parser, &operand, name, &["S", "B", "SS", "NS", "BS", "L", "M"])?;
    Ok(Operand::Size(Box::new(operand)))
}

fn function(parser: &mut Parser<'_, '_>) -> Result<Condition, Failure> {
    let name = function_name(parser)?;
    if matches!(name, "if_not_exists" | "list_append") {
        return Err(misused(parser, name));
    }
    let arguments = parser.deeper(operands)?;
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let wanted = if name.ends_with("_exists") { 1 } else { 2 };
    if count != wanted {
        return Err(wrong_count(parser, name, count));
    }
    let first = arguments.next().expect("an operand");
    match (name, arguments.next()) {
        ("attribute_exists", _) => document_path(parser, name, first).map(Condition::Exists),
        ("attribute_not_exists", _) => document_path(parser, name, first).map(Condition::NotExists),
        ("attribute_type", Some(kind)) => Ok(Condition::HasType(first, type_name(parser, kind)?)),
        ("begins_with", Some(start)) => {
            check_type(parser, &first, name, &["S", "B"])?;
            check_type(parser, &start, name, &["S", "B"])?;
            refuse_same(parser, name, &first, &start)?;
            Ok(Condition::BeginsWith(first, start))
        }
        (_, Some(element)) => {
            refuse_same(parser, name, &first, &element)?;
            Ok(Condition::Contains(first, element))
        }
        (_, None) => unreachable!("the number of operands was checked"),
    }
}

fn refuse_same(parser: &Parser<'_, '_>, name: &str, first: &Operand, second: &Operand) -> Result<(), Failure> {
    match first {
        Operand::Path(path) if first == second => Err(parser.failure(format_args!(
            "The first operand must be distinct from the remaining operands for this operator or function; \
             operator: {name}, first operand: {path}"
        ))),
        _ => Ok(()),
    }
}

/// Takes a function's name and its opening parenthesis.
pub fn function_name(parser: &mut Parser<'_, '_>) -> Result<&'static str, Failure> {
    let text = parser.peek().text;
    let Some(name) = FUNCTIONS.into_iter().find(|name| *name == text) else {
        return Err(parser.failure(format_args!("Invalid function name; function: {text}")));
    };
    parser.next();
    parser.next();
    Ok(name)
}

pub fn misused(parser: &Parser<'_, '_>, function: &str) -> Failure {
    parser.failure(format_args!(
        "The function is not allowed to be used this way in an expression; function: {function}"
    ))
}

pub fn wrong_count(parser: &Parser<'_, '_>, function: &str, count: usize) -> Failure {
    parser.failure(format_args!(
        "Incorrect number of operands for operator or function; operator or function: {function}, number of operands: {count}"
    ))
}

fn document_path(parser: &Parser<'_, '_>, function: &str, operand: Operand) -> Result<Path, Failure> {
    match operand {
        Operand::Path(path) => Ok(path),
        _ => Err(parser.failure(format_args!(
            "Operator or function requires a document path; operator or function: {function}"
        ))),
    }
}

fn type_name(parser: &Parser<'_, '_>, operand: Operand) -> Result<String, Failure> {
    check_type(parser, &operand, "attribute_type", &["S"])?;
    match operand {
        Operand::Value(Value::S(name)) if TYPE_NAMES.contains(&name.as_str()) => Ok(name),
        Operand::Value(Value::S(name)) => Err(parser.failure(format_args!(
            "Invalid attribute type name found; type: {name}, valid types: {{B,NULL,SS,BOOL,L,BS,N,NS,S,M}}"
        ))),
        _ => Err(parser.failure(
            "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {PATH}",
        )),
    }
}

/// Refuses a literal of a type that the operator can never take.
pub fn check_type(parser: &Parser<'_, '_>, operand: &Operand, operator: &str, types: &[&str]) -> Result<(), Failure> {
    match operand.literal_type() {
        Some(literal) if !types.contains(&literal) => Err(parser.failure(format_args!(
            "Incorrect operand type for operator or function; operator or function: {operator}, operand type: {literal}"
        ))),
        _ => Ok(()),
    }
}
