//! Update expressions: SET, REMOVE, ADD and DELETE, each once and in any order.
//!
//! All right sides see the item as it was; the order of actions does not matter.

use super::condition::{Operand, check_count, check_type, misused, need_path, take_name, unsuited};
use super::lexer::Kind;
use super::parser::{Fault, Parser};
use super::path::{Path, Step, clash_text};
use crate::wire::failure::Failure;
use crate::wire::number::NumberError;
use crate::wire::value::{ITEM_BYTES_MAX, Item, Value, number_failure};

#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    Path(Path),
    Value(Value),
    Plus(Box<Term>, Box<Term>),
    Minus(Box<Term>, Box<Term>),
    IfNotExists(Path, Box<Term>),
    ListAppend(Box<Term>, Box<Term>),
    /// Whether two terms are equal; one that is not there equals nothing. Only PartiQL can say it.
    Equal(Box<Term>, Box<Term>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    pub set: Vec<(Path, Term)>,
    pub remove: Vec<Path>,
    pub add: Vec<(Path, Value)>,
    pub delete: Vec<(Path, Value)>,
    /// It was AttributeUpdates, whose mismatches have a text of their own.
    pub legacy: bool,
}

impl Update {
    /// Every path that is written.
    pub fn written(&self) -> Vec<&Path> {
        let set = self.set.iter().map(|(path, _)| path);
        let add = self.add.iter().chain(&self.delete).map(|(path, _)| path);
        set.chain(&self.remove).chain(add).collect()
    }

    /// Every path in it, written or read.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = self.written();
        self.set.iter().for_each(|(_, term)| term.paths(&mut paths));
        paths
    }

    /// The type that an attribute will have, if that does not depend on the item.
    pub fn known_type(&self, attribute: &str) -> Option<&'static str> {
        let is_meant = |path: &Path| path.steps.is_empty() && path.root == attribute;
        let set = self.set.iter().find(|(path, _)| is_meant(path));
        let added = self.add.iter().chain(&self.delete).find(|(path, _)| is_meant(path));
        match (set, added) {
            (Some((_, term)), _) => term.known_type(),
            (None, added) => added.map(|(_, value)| value.type_name()),
        }
    }

    /// The paths that one section writes, in its order.
    fn written_by(&self, section: &str) -> Vec<&Path> {
        match section {
            "SET" => self.set.iter().map(|(path, _)| path).collect(),
            "REMOVE" => self.remove.iter().collect(),
            "ADD" => self.add.iter().map(|(path, _)| path).collect(),
            _ => self.delete.iter().map(|(path, _)| path).collect(),
        }
    }

    /// Returns true if the update only removes attributes: on an absent item it creates nothing.
    pub fn only_removes(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && !(self.remove.is_empty() && self.delete.is_empty())
    }

    /// Changes `item`. After an error the item is of no use.
    pub fn apply(&self, item: &mut Item) -> Result<(), Failure> {
        let mut values = Vec::with_capacity(self.set.len());
        // All that is put into the item is in it afterwards, so what is too much together need not
        // be copied to be refused.
        let mut room = Room(ITEM_BYTES_MAX);
        for (path, term) in &self.set {
            values.push((path, term.evaluate(item, &mut room)?));
        }
        let mismatch = || match self.legacy {
            true => Failure::validation("Type mismatch for attribute to update"),
            false => wrong_data_type(),
        };
        let sums = self.add.iter().map(|(path, value)| {
            room.take(value)?;
            let sum = added(path.resolve(item), value).ok_or_else(mismatch)?;
            Ok((path, sum.map_err(arithmetic_failure)?))
        });
        values.extend(sums.collect::<Result<Vec<_>, Failure>>()?);
        let differences = self
            .delete
            .iter()
            .map(|(path, value)| Ok((path, deleted(path.resolve(item), value).ok_or_else(mismatch)?)));
        let differences = differences.collect::<Result<Vec<_>, Failure>>()?;
        // Elements beyond a list's end are appended in the order of their indexes.
        values.sort_by_key(|(path, _)| last_index(path));
        for (path, value) in values {
            path.set(item, value)?;
        }
        let mut removed: Vec<&Path> = self.remove.iter().collect();
        for (path, difference) in differences {
            match difference {
                Difference::Left(value) => path.set(item, value)?,
                Difference::Empty => removed.push(path),
            }
        }
        // From the last, so that the positions of the others stay what they were.
        removed.sort_by_key(|path| std::cmp::Reverse(last_index(path)));
        removed.into_iter().try_for_each(|path| path.remove(item))
    }
}

/// The remaining bytes that an update may copy.
struct Room(usize);

impl Room {
    fn take(&mut self, value: &Value) -> Result<(), Failure> {
        match self.0.checked_sub(value.size()) {
            Some(left) => self.0 = left,
            None => return Err(too_large_to_update()),
        }
        Ok(())
    }

    fn copy(&mut self, value: &Value) -> Result<Value, Failure> {
        self.take(value).map(|()| value.clone())
    }
}

/// The item would be too large after the update.
pub fn too_large_to_update() -> Failure {
    Failure::validation("Item size to update has exceeded the maximum allowed size")
}

fn last_index(path: &Path) -> usize {
    match path.steps.last() {
        Some(Step::Index(index)) => *index,
        _ => 0,
    }
}

fn wrong_data_type() -> Failure {
    Failure::validation("An operand in the update expression has an incorrect data type")
}

impl Term {
    fn paths<'t>(&'t self, paths: &mut Vec<&'t Path>) {
        match self {
            Term::Path(path) => paths.push(path),
            Term::Value(_) => {}
            Term::Plus(left, right)
            | Term::Minus(left, right)
            | Term::ListAppend(left, right)
            | Term::Equal(left, right) => {
                left.paths(paths);
                right.paths(paths);
            }
            Term::IfNotExists(path, otherwise) => {
                paths.push(path);
                otherwise.paths(paths);
            }
        }
    }

    /// Its type, if that does not depend on the item.
    pub fn known_type(&self) -> Option<&'static str> {
        match self {
            Term::Path(_) | Term::IfNotExists(..) => None,
            Term::Value(value) => Some(value.type_name()),
            Term::Plus(..) | Term::Minus(..) => Some("N"),
            Term::ListAppend(..) => Some("L"),
            Term::Equal(..) => Some("BOOL"),
        }
    }

    fn evaluate(&self, item: &Item, room: &mut Room) -> Result<Value, Failure> {
        match self {
            Term::Path(path) => room.copy(path.resolve(item).ok_or_else(|| {
                Failure::validation("The provided expression refers to an attribute that does not exist in the item")
            })?),
            Term::Value(value) => room.copy(value),
            Term::Plus(left, right) => match (left.evaluate(item, room)?, right.evaluate(item, room)?) {
                (Value::N(left), Value::N(right)) => left.plus(right).map(Value::N).map_err(arithmetic_failure),
                _ => Err(wrong_data_type()),
            },
            Term::Minus(left, right) => match (left.evaluate(item, room)?, right.evaluate(item, room)?) {
                (Value::N(left), Value::N(right)) => left.minus(right).map(Value::N).map_err(arithmetic_failure),
                _ => Err(wrong_data_type()),
            },
            Term::IfNotExists(path, otherwise) => match path.resolve(item) {
                Some(value) => room.copy(value),
                None => otherwise.evaluate(item, room),
            },
            Term::ListAppend(left, right) => match (left.evaluate(item, room)?, right.evaluate(item, room)?) {
                (Value::L(mut left), Value::L(right)) => {
                    left.extend(right);
                    Ok(Value::L(left))
                }
                _ => Err(wrong_data_type()),
            },
            Term::Equal(left, right) => {
                let (left, right) = (left.find(item, room)?, right.find(item, room)?);
                Ok(Value::Bool(left.is_some() && left == right))
            }
        }
    }
}

impl Term {
    /// Its value, or `None` for an attribute that is not there.
    fn find(&self, item: &Item, room: &mut Room) -> Result<Option<Value>, Failure> {
        match self {
            Term::Path(path) if path.resolve(item).is_none() => Ok(None),
            other => other.evaluate(item, room).map(Some),
        }
    }
}

/// A result with too many digits is reported as an overflow.
fn arithmetic_failure(error: NumberError) -> Failure {
    number_failure(match error {
        NumberError::TooManyDigits => NumberError::Overflow,
        other => other,
    })
}

/// ADD: a sum, or a union of sets. In AttributeUpdates lists are appended. `None` if the types do
/// not match.
fn added(old: Option<&Value>, value: &Value) -> Option<Result<Value, NumberError>> {
    Some(Ok(match (old, value) {
        (None, value) => value.clone(),
        (Some(Value::N(old)), Value::N(value)) => return Some(old.plus(*value).map(Value::N)),
        (Some(Value::SS(old)), Value::SS(value)) => Value::SS(old | value),
        (Some(Value::NS(old)), Value::NS(value)) => Value::NS(old | value),
        (Some(Value::BS(old)), Value::BS(value)) => Value::BS(old | value),
        (Some(Value::L(old)), Value::L(value)) => Value::L([old.as_slice(), value].concat()),
        _ => return None,
    }))
}

/// The rest of a set after DELETE.
enum Difference {
    Left(Value),
    /// Nothing, or there was nothing to take from.
    Empty,
}

/// `None` if the types do not match.
fn deleted(old: Option<&Value>, value: &Value) -> Option<Difference> {
    let remaining = match (old, value) {
        (None, _) => return Some(Difference::Empty),
        (Some(Value::SS(old)), Value::SS(value)) => Value::SS(old - value),
        (Some(Value::NS(old)), Value::NS(value)) => Value::NS(old - value),
        (Some(Value::BS(old)), Value::BS(value)) => Value::BS(old - value),
        _ => return None,
    };
    let is_empty = match &remaining {
        Value::SS(set) => set.is_empty(),
        Value::NS(set) => set.is_empty(),
        Value::BS(set) => set.is_empty(),
        _ => false,
    };
    Some(if is_empty {
        Difference::Empty
    } else {
        Difference::Left(remaining)
    })
}

pub fn parse(parser: &mut Parser<'_, '_>) -> Result<Update, Failure> {
    let mut update = Update::default();
    let mut seen: Vec<&str> = Vec::new();
    while parser.peek().kind != Kind::End {
        let Some(section) = SECTIONS.into_iter().find(|section| parser.peek().is_keyword(section)) else {
            return Err(parser.syntax_error());
        };
        if seen.contains(&section) {
            let text = format!("The \"{section}\" section can only be used once in an update expression;");
            parser.fault(Fault::Section, text);
        }
        seen.push(section);
        parser.next();
        loop {
            action(parser, section, &mut update)?;
            if !parser.take_symbol(",") {
                break;
            }
        }
    }
    let written: Vec<&Path> = seen.iter().flat_map(|section| update.written_by(section)).collect();
    if let Some(text) = clash_text(&written) {
        parser.fault(Fault::Clash, text);
    }
    parser.expect_end(FAULTS)?;
    Ok(update)
}

const SECTIONS: [&str; 4] = ["SET", "REMOVE", "ADD", "DELETE"];

/// The order in which faults are reported.
const FAULTS: &[&[Fault]] = &[
    &[Fault::Reserved],
    &[Fault::UnknownFunction],
    &[Fault::Misuse],
    &[Fault::Section],
    &[Fault::UndefinedName],
    &[Fault::UndefinedValue],
    &[Fault::Clash],
    &[Fault::SectionOperand],
    &[Fault::OperandCount, Fault::OperandType],
];

fn action(parser: &mut Parser<'_, '_>, section: &str, update: &mut Update) -> Result<(), Failure> {
    let path = parser.path()?;
    match section {
        "SET" => {
            parser.expect_symbol("=")?;
            let term = right_side(parser)?;
            update.set.push((path, term));
        }
        "REMOVE" => update.remove.push(path),
        "ADD" => {
            let value = section_value(parser, section, &["N", "SS", "NS", "BS"])?;
            update.add.push((path, value));
        }
        _ => {
            let value = section_value(parser, section, &["SS", "NS", "BS"])?;
            update.delete.push((path, value));
        }
    }
    Ok(())
}

fn section_value(parser: &mut Parser<'_, '_>, section: &str, types: &[&str]) -> Result<Value, Failure> {
    if parser.peek().kind != Kind::Value {
        return Err(parser.syntax_error());
    }
    let value = parser.value();
    if !types.contains(&value.type_name()) {
        let kind = match value.type_name() {
            "S" => "STRING",
            "N" => "NUMBER",
            "B" => "BINARY",
            "BOOL" => "BOOLEAN",
            "L" => "LIST",
            "M" => "MAP",
            other => other,
        };
        let text = "Incorrect operand type for operator or function; operator: ";
        parser.fault(
            Fault::SectionOperand,
            format_args!("{text}{section}, operand type: {kind}, typeSet: ALLOWED_FOR_{section}_OPERAND"),
        );
    }
    Ok(value)
}

fn right_side(parser: &mut Parser<'_, '_>) -> Result<Term, Failure> {
    let left = term(parser)?;
    for (symbol, make) in [
        ("+", Term::Plus as fn(Box<Term>, Box<Term>) -> Term),
        ("-", Term::Minus),
    ] {
        if parser.take_symbol(symbol) {
            parser.count_operator()?;
            check_literal(parser, &left, symbol, "N");
            let right = term(parser)?;
            refuse_list(parser, &left);
            refuse_list(parser, &right);
            check_literal(parser, &right, symbol, "N");
            return Ok(make(Box::new(left), Box::new(right)));
        }
    }
    Ok(left)
}

fn term(parser: &mut Parser<'_, '_>) -> Result<Term, Failure> {
    if parser.take_symbol("(") {
        let inner = parser.deeper(right_side)?;
        parser.expect_symbol(")")?;
        return Ok(inner);
    }
    if parser.peek().kind == Kind::Value {
        return Ok(Term::Value(parser.value()));
    }
    if parser.at_call() {
        return function(parser);
    }
    parser.path().map(Term::Path)
}

fn function(parser: &mut Parser<'_, '_>) -> Result<Term, Failure> {
    let name = take_name(parser);
    let arguments = parser.deeper(arguments)?;
    if !matches!(name, "if_not_exists" | "list_append") {
        unsuited(parser, "an update", name);
        return Ok(Term::Value(Value::Null));
    }
    check_count(parser, name, &arguments, 2);
    let mut arguments = arguments.into_iter();
    let first = arguments.next().expect("a term");
    let second = arguments.next().unwrap_or(Term::Value(Value::Null));
    match (name, first) {
        ("list_append", first) => Ok(list_append(parser, first, second)),
        (_, Term::Path(path)) => {
            refuse_list(parser, &second);
            Ok(Term::IfNotExists(path, Box::new(second)))
        }
        _ => {
            need_path(parser, name);
            Ok(second)
        }
    }
}

/// `list_append` is never an operand.
fn refuse_list(parser: &mut Parser<'_, '_>, term: &Term) {
    if matches!(term, Term::ListAppend(..)) {
        misused(parser, "list_append");
    }
}

fn list_append(parser: &mut Parser<'_, '_>, first: Term, second: Term) -> Term {
    for term in [&first, &second] {
        refuse_list(parser, term);
        check_literal(parser, term, "list_append", "L");
    }
    Term::ListAppend(Box::new(first), Box::new(second))
}

fn arguments(parser: &mut Parser<'_, '_>) -> Result<Vec<Term>, Failure> {
    let mut list = vec![term(parser)?];
    while parser.take_symbol(",") {
        list.push(term(parser)?);
    }
    parser.expect_symbol(")")?;
    Ok(list)
}

fn check_literal(parser: &mut Parser<'_, '_>, term: &Term, operator: &str, expected: &str) {
    if let Term::Value(value) = term {
        check_type(parser, &Operand::Value(value.clone()), operator, &[expected]);
    }
}
