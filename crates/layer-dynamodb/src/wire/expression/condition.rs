//! Conditions: of writes, of filters and of keys. Parsed to a tree whose faults are all found
//! before any item is read.
//!
//! From tightest to loosest: comparisons, IN, BETWEEN and functions; parentheses; NOT; AND; OR.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::lexer::Kind;
use super::parser::{Fault, Parser};
use super::path::Path;
use crate::wire::failure::Failure;
use crate::wire::number::Number;
use crate::wire::value::{Item, TYPE_NAMES, Value};

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Path(Path),
    Value(Value),
    Size(Box<Operand>),
    /// Whether a condition holds. Only PartiQL can say it.
    Test(Box<Condition>),
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

    /// Returns true if it holds. Values of different types are unequal and have no order; nor have
    /// values that are not scalar.
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
        (Value::B(bytes), Value::B(part)) => memchr::memmem::find(bytes, part).is_some(),
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
            Operand::Test(condition) => Some(Cow::Owned(Value::Bool(condition.holds(item)))),
        }
    }

    fn paths<'o>(&'o self, paths: &mut Vec<&'o Path>) {
        match self {
            Operand::Path(path) => paths.push(path),
            Operand::Size(operand) => operand.paths(paths),
            Operand::Value(_) => {}
            Operand::Test(condition) => condition.paths(paths),
        }
    }

    /// Its type, if that does not depend on the item.
    pub fn known_type(&self) -> Option<&'static str> {
        match self {
            Operand::Value(value) => Some(value.type_name()),
            Operand::Size(_) => Some("N"),
            Operand::Test(_) => Some("BOOL"),
            Operand::Path(_) => None,
        }
    }
}

impl Condition {
    /// Returns true if it holds for `item`; for an item that is not there, pass an empty one.
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

    /// The most values that it compares.
    pub fn tests_count(&self) -> usize {
        match self {
            Condition::In(_, list) => list.len(),
            Condition::And(conditions) | Condition::Or(conditions) => {
                conditions.iter().map(Condition::tests_count).sum()
            }
            Condition::Not(condition) => condition.tests_count(),
            _ => 1,
        }
    }

    /// Every path in it.
    pub fn paths<'c>(&'c self, paths: &mut Vec<&'c Path>) {
        match self {
            Condition::Compare(_, left, right)
            | Condition::BeginsWith(left, right)
            | Condition::Contains(left, right) => {
                [left, right].into_iter().for_each(|operand| operand.paths(paths));
            }
            Condition::Between(operand, low, high) => {
                [operand, low, high]
                    .into_iter()
                    .for_each(|operand| operand.paths(paths));
            }
            Condition::In(operand, list) => {
                operand.paths(paths);
                list.iter().for_each(|operand| operand.paths(paths));
            }
            Condition::Exists(path) | Condition::NotExists(path) => paths.push(path),
            Condition::HasType(operand, _) => operand.paths(paths),
            Condition::And(conditions) | Condition::Or(conditions) => {
                conditions.iter().for_each(|condition| condition.paths(paths));
            }
            Condition::Not(condition) => condition.paths(paths),
        }
    }
}

/// A condition, and whether it was in parentheses of its own.
struct Parsed {
    condition: Condition,
    enclosed: bool,
}

/// Parses the whole of an expression as a condition.
pub fn parse(parser: &mut Parser<'_, '_>) -> Result<Condition, Failure> {
    let parsed = disjunction(parser)?;
    parser.expect_end(&[
        &[Fault::Parentheses],
        &[Fault::UnknownFunction],
        &[Fault::Misuse],
        &[Fault::Reserved],
        &[Fault::Comparison],
    ])?;
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

const REDUNDANT: &str = "The expression has redundant parentheses;";

fn term(parser: &mut Parser<'_, '_>) -> Result<Parsed, Failure> {
    if parser.peek().is_symbol("(") && !parser.encloses_operand() {
        parser.next();
        let inner = parser.deeper(disjunction)?;
        parser.expect_symbol(")")?;
        if inner.enclosed {
            parser.fault(Fault::Parentheses, REDUNDANT);
        }
        return Ok(Parsed {
            condition: inner.condition,
            enclosed: true,
        });
    }
    let condition = comparison(parser)?;
    parser.end_comparison();
    Ok(bare(condition))
}

/// Parses a comparison, or a function in its place.
fn comparison(parser: &mut Parser<'_, '_>) -> Result<Condition, Failure> {
    let name = parser.peek().text;
    if !parser.at_call() || name == "size" {
        let left = operand(parser)?;
        return compared(parser, left);
    }
    let condition = function(parser)?;
    if !parser.peek().is_comparator() {
        return Ok(condition);
    }
    misused(parser, name);
    compared(parser, Operand::Value(Value::Null))
}

/// The rest of a comparison after its left operand.
fn compared(parser: &mut Parser<'_, '_>, left: Operand) -> Result<Condition, Failure> {
    if parser.take_keyword("BETWEEN") {
        return between(parser, left);
    }
    if parser.take_keyword("IN") {
        return one_of(parser, left);
    }
    let token = parser.peek();
    let Some(comparison) = Comparison::of_symbol(token.text).filter(|_| token.kind == Kind::Symbol) else {
        if let Operand::Size(_) = left {
            misused(parser, "size");
            return Ok(Condition::And(Vec::new()));
        }
        return Err(parser.syntax_error());
    };
    parser.next();
    parser.count_operator()?;
    let right = operand(parser)?;
    check_distinct(parser, comparison.symbol(), &left, &[&right]);
    if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
        for operand in [&left, &right] {
            check_type(parser, operand, comparison.symbol(), &["S", "N", "B"]);
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
    check_distinct(parser, "BETWEEN", &operand_between, &[&low, &high]);
    for operand in [&operand_between, &low, &high] {
        check_type(parser, operand, "BETWEEN", &["S", "N", "B"]);
    }
    if let Err(text) = check_bounds(&low, &high) {
        parser.fault(Fault::OperandType, text);
    }
    Ok(Condition::Between(operand_between, low, high))
}

/// Refuses bounds of BETWEEN that no value can be within.
pub fn check_bounds(low: &Operand, high: &Operand) -> Result<(), String> {
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
    check_distinct(parser, "IN", &operand_of, &list.iter().collect::<Vec<_>>());
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
    Ok(grouped_operand(parser)?.0)
}

/// Parses an operand, and whether it was in parentheses of its own.
fn grouped_operand(parser: &mut Parser<'_, '_>) -> Result<(Operand, bool), Failure> {
    if !parser.take_symbol("(") {
        return Ok((plain_operand(parser)?, false));
    }
    let (inner, enclosed) = parser.deeper(grouped_operand)?;
    parser.expect_symbol(")")?;
    if enclosed {
        parser.fault(Fault::Parentheses, REDUNDANT);
    }
    match inner {
        Operand::Path(mut path) if parser.peek().is_symbol(".") || parser.peek().is_symbol("[") => {
            parser.steps(&mut path)?;
            Ok((Operand::Path(path), false))
        }
        inner => Ok((inner, true)),
    }
}

fn plain_operand(parser: &mut Parser<'_, '_>) -> Result<Operand, Failure> {
    if parser.peek().kind == Kind::Value {
        return Ok(Operand::Value(parser.value()));
    }
    let name = parser.peek().text;
    match (parser.at_call(), name) {
        (false, _) => parser.path().map(Operand::Path),
        (true, "size") => size_operand(parser),
        (true, _) => {
            function(parser)?;
            misused(parser, name);
            Ok(Operand::Value(Value::Null))
        }
    }
}

fn size_operand(parser: &mut Parser<'_, '_>) -> Result<Operand, Failure> {
    let (name, arguments) = call(parser)?;
    check_count(parser, name, &arguments, 1);
    let first = arguments.into_iter().next().expect("an operand");
    check_type(parser, &first, name, &["S", "B", "SS", "NS", "BS", "L", "M"]);
    Ok(Operand::Size(Box::new(first)))
}

/// A function's name and its operands, at least one.
fn call<'s>(parser: &mut Parser<'s, '_>) -> Result<(&'s str, Vec<Operand>), Failure> {
    let name = take_name(parser);
    Ok((name, parser.deeper(operands)?))
}

fn function(parser: &mut Parser<'_, '_>) -> Result<Condition, Failure> {
    let (name, arguments) = call(parser)?;
    let expected = match name {
        "attribute_exists" | "attribute_not_exists" => 1,
        "attribute_type" | "begins_with" | "contains" => 2,
        _ => {
            unsuited(parser, "a condition", name);
            return Ok(Condition::And(Vec::new()));
        }
    };
    check_count(parser, name, &arguments, expected);
    let mut arguments = arguments.into_iter();
    let first = arguments.next().expect("an operand");
    let second = arguments.next().unwrap_or(Operand::Value(Value::Null));
    check_distinct(parser, name, &first, &[&second]);
    Ok(match name {
        "attribute_exists" => Condition::Exists(document_path(parser, name, first)),
        "attribute_not_exists" => Condition::NotExists(document_path(parser, name, first)),
        "attribute_type" => Condition::HasType(first, type_name(parser, second)),
        "contains" => Condition::Contains(first, second),
        _ => {
            check_type(parser, &first, name, &["S", "B"]);
            check_type(parser, &second, name, &["S", "B"]);
            Condition::BeginsWith(first, second)
        }
    })
}

fn check_distinct(parser: &mut Parser<'_, '_>, operator: &str, first: &Operand, remaining: &[&Operand]) {
    if let Some(text) = distinct_fault(operator, first, remaining) {
        parser.fault(Fault::SameOperands, text);
    }
}

/// Refuses a path that is compared with itself.
pub fn distinct_fault(operator: &str, first: &Operand, remaining: &[&Operand]) -> Option<String> {
    let (Operand::Path(path), true) = (first, remaining.contains(&first)) else {
        return None;
    };
    let text = "The first operand must be distinct from the remaining operands for this operator or function";
    Some(format!("{text}; operator: {operator}, first operand: {path}"))
}

/// Takes a function's name and its opening parenthesis.
pub fn take_name<'s>(parser: &mut Parser<'s, '_>) -> &'s str {
    let name = parser.next().text;
    parser.next();
    name
}

/// Records a function of another language, or an unknown one. `language` is this one, with its
/// article.
pub fn unsuited(parser: &mut Parser<'_, '_>, language: &str, name: &str) {
    match FUNCTIONS.contains(&name) {
        true => parser.fault(
            Fault::Misuse,
            format_args!("The function is not allowed in {language} expression; function: {name}"),
        ),
        false => parser.fault(
            Fault::UnknownFunction,
            format_args!("Invalid function name; function: {name}"),
        ),
    }
}

pub fn misused(parser: &mut Parser<'_, '_>, function: &str) {
    let text = "The function is not allowed to be used this way in an expression; function: ";
    parser.fault(Fault::Misuse, format_args!("{text}{function}"));
}

pub fn check_count<T>(parser: &mut Parser<'_, '_>, function: &str, arguments: &[T], expected: usize) {
    if let Some(text) = count_fault(function, arguments.len(), expected) {
        parser.fault(Fault::OperandCount, text);
    }
}

/// Refuses another number of operands than `expected`.
pub fn count_fault(function: &str, count: usize, expected: usize) -> Option<String> {
    let text = "Incorrect number of operands for operator or function; operator or function: ";
    (count != expected).then(|| format!("{text}{function}, number of operands: {count}"))
}

fn document_path(parser: &mut Parser<'_, '_>, function: &str, operand: Operand) -> Path {
    match operand {
        Operand::Path(path) => path,
        _ => {
            need_path(parser, function);
            Path::top("")
        }
    }
}

pub fn need_path(parser: &mut Parser<'_, '_>, function: &str) {
    parser.fault(Fault::OperandType, path_fault(function));
}

/// Refuses an operand that is not a path.
pub fn path_fault(function: &str) -> String {
    format!("Operator or function requires a document path; operator or function: {function}")
}

fn type_name(parser: &mut Parser<'_, '_>, operand: Operand) -> String {
    type_name_fault(&operand).unwrap_or_else(|text| {
        parser.fault(Fault::OperandType, text);
        String::new()
    })
}

/// The name of a type that an operand of `attribute_type` is, or why it is none.
pub fn type_name_fault(operand: &Operand) -> Result<String, String> {
    match operand {
        Operand::Value(Value::S(name)) if TYPE_NAMES.contains(&name.as_str()) => Ok(name.clone()),
        Operand::Value(Value::S(name)) => Err(format!(
            "Invalid attribute type name found; type: {name}, valid types: {{B,NULL,SS,BOOL,L,BS,N,NS,S,M}}"
        )),
        other => {
            let kind = other.known_type().unwrap_or("{NS,SS,L,BS,N,M,B,BOOL,NULL,S}");
            Err(wrong_type("attribute_type", kind))
        }
    }
}

/// Notes an operand of a type that the operator can never take.
pub fn check_type(parser: &mut Parser<'_, '_>, operand: &Operand, operator: &str, types: &[&str]) {
    if let Some(text) = operand.known_type().and_then(|kind| type_fault(operator, kind, types)) {
        parser.fault(Fault::OperandType, text);
    }
}

/// Refuses a type that is none of `types`.
pub fn type_fault(operator: &str, kind: &str, types: &[&str]) -> Option<String> {
    (!types.contains(&kind)).then(|| wrong_type(operator, kind))
}

fn wrong_type(operator: &str, kind: &str) -> String {
    format!("Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}")
}
