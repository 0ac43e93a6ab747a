//! PartiQL statements as trees. Conditions and updates are those of the expression language.

use std::collections::BTreeMap;

use super::lexer::{Token, tokens};
use super::malformed;
use crate::expression::condition::{Comparison, Operand};
use crate::expression::path::{Step, times_shown};
use crate::expression::update::Term;
use crate::expression::{Condition, Path, Update};
use crate::failure::Failure;
use crate::items::Returned;
use crate::value::{Item, TYPE_NAMES, Value, parse_number};

pub enum Statement {
    Select(Select),
    Insert {
        table: String,
        item: Item,
    },
    Update {
        table: String,
        update: Update,
        condition: Option<Condition>,
        returned: Returned,
    },
    Delete {
        table: String,
        condition: Option<Condition>,
        returned: Returned,
    },
    /// Only the condition of a transaction.
    Exists(Select),
}

pub struct Select {
    pub table: String,
    pub index: Option<String>,
    /// `None`: everything.
    pub projection: Option<Vec<Path>>,
    /// How often a part of an item is shown at most.
    pub times_shown: usize,
    pub condition: Option<Condition>,
    /// The attributes to sort by, and whether ascending.
    pub order: Vec<(String, bool)>,
}

impl Statement {
    pub fn is_read(&self) -> bool {
        matches!(self, Statement::Select(_))
    }

    pub fn table(&self) -> &str {
        match self {
            Statement::Select(select) | Statement::Exists(select) => &select.table,
            Statement::Insert { table, .. } | Statement::Update { table, .. } | Statement::Delete { table, .. } => {
                table
            }
        }
    }
}

/// Levels of parentheses and of values.
const DEPTH_MAX: usize = 64;

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    parameters: std::vec::IntoIter<Value>,
    depth: usize,
}

/// Parses a statement whose question marks stand for `parameters`, one by one.
pub fn parse(text: &str, parameters: Vec<Value>) -> Result<Statement, Failure> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        parameters: parameters.into_iter(),
        depth: 0,
    };
    let statement = parser.statement()?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected());
    }
    if parser.parameters.next().is_some() {
        return Err(wrong_parameter_count());
    }
    Ok(statement)
}

fn wrong_parameter_count() -> Failure {
    Failure::validation("Number of parameters in request and statement don't match.")
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn unexpected(&self) -> Failure {
        let shown = match self.peek() {
            Token::End => "end of statement".to_owned(),
            Token::Word(text) | Token::Name(text) | Token::Text(text) | Token::Number(text) => text.clone(),
            Token::Symbol(symbol) => (*symbol).to_owned(),
        };
        malformed(&format!("Unexpected token: {shown}"))
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if found {
            self.next();
        }
        found
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Failure> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn expect_word(&mut self, keyword: &str) -> Result<(), Failure> {
        if self.take_word(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Result<T, Failure>) -> Result<T, Failure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(malformed("The statement is nested too deeply"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn statement(&mut self) -> Result<Statement, Failure> {
        if self.take_word("SELECT") {
            return self.select().map(Statement::Select);
        }
        if self.take_word("EXISTS") {
            self.expect("(")?;
            self.expect_word("SELECT")?;
            let select = self.select()?;
            self.expect(")")?;
            return Ok(Statement::Exists(select));
        }
        if self.take_word("INSERT") {
            self.expect_word("INTO")?;
            let table = self.name()?;
            self.expect_word("VALUE")?;
            return match self.value()? {
                Value::M(item) => Ok(Statement::Insert { table, item }),
                _ => Err(malformed("The value to insert must be a tuple")),
            };
        }
        if self.take_word("UPDATE") {
            return self.update();
        }
        if self.take_word("DELETE") {
            self.expect_word("FROM")?;
            let table = self.name()?;
            return Ok(Statement::Delete {
                table,
                condition: self.condition()?,
                returned: self.returning()?,
            });
        }
        Err(self.unexpected())
    }

    fn select(&mut self) -> Result<Select, Failure> {
        let projection = match self.take("*") {
            true => None,
            false => Some(last_of_each_name(self.paths()?)),
        };
        self.expect_word("FROM")?;
        let table = self.name()?;
        let index = if self.take(".") { Some(self.name()?) } else { None };
        let condition = self.condition()?;
        let order = match self.take_word("ORDER") {
            true => self.order()?,
            false => Vec::new(),
        };
        Ok(Select {
            table,
            index,
            times_shown: projection.as_deref().map_or(1, times_shown),
            projection,
            condition,
            order,
        })
    }

    fn order(&mut self) -> Result<Vec<(String, bool)>, Failure> {
        self.expect_word("BY")?;
        let mut order = Vec::new();
        loop {
            let name = self.name()?;
            let descending = self.take_word("DESC");
            if !descending {
                self.take_word("ASC");
            }
            order.push((name, !descending));
            if !self.take(",") {
                return Ok(order);
            }
        }
    }

    fn update(&mut self) -> Result<Statement, Failure> {
        let table = self.name()?;
        let mut update = Update::default();
        loop {
            if self.take_word("SET") {
                self.assignment(&mut update)?;
                while self.take(",") {
                    self.assignment(&mut update)?;
                }
            } else if self.take_word("REMOVE") {
                update.remove.extend(self.paths()?);
            } else {
                break;
            }
        }
        if update == Update::default() {
            return Err(self.unexpected());
        }
        Ok(Statement::Update {
            table,
            update,
            condition: self.condition()?,
            returned: self.returning()?,
        })
    }

    fn assignment(&mut self, update: &mut Update) -> Result<(), Failure> {
        let path = self.path()?;
        self.expect("=")?;
        for (function, values) in [("set_add", &mut update.add), ("set_delete", &mut update.delete)] {
            if self.take_word(function) {
                self.expect("(")?;
                let _same = self.path()?;
                self.expect(",")?;
                let value = self.value()?;
                self.expect(")")?;
                values.push((path, value));
                return Ok(());
            }
        }
        let term = self.term()?;
        update.set.push((path, term));
        Ok(())
    }

    fn term(&mut self) -> Result<Term, Failure> {
        let left = self.simple_term()?;
        if self.take("+") {
            return Ok(Term::Plus(Box::new(left), Box::new(self.simple_term()?)));
        }
        if self.take("-") {
            return Ok(Term::Minus(Box::new(left), Box::new(self.simple_term()?)));
        }
        Ok(left)
    }

    fn simple_term(&mut self) -> Result<Term, Failure> {
        self.deeper(|parser| {
            if parser.take_word("list_append") {
                let (left, right) = parser.two_terms()?;
                return Ok(Term::ListAppend(Box::new(left), Box::new(right)));
            }
            if parser.take_word("if_not_exists") {
                return match parser.two_terms()? {
                    (Term::Path(path), otherwise) => Ok(Term::IfNotExists(path, Box::new(otherwise))),
                    _ => Err(malformed("if_not_exists needs a path")),
                };
            }
            Ok(match parser.operand()? {
                Operand::Path(path) => Term::Path(path),
                Operand::Value(value) => Term::Value(value),
                Operand::Size(_) => return Err(malformed("size cannot be used here")),
            })
        })
    }

    fn two_terms(&mut self) -> Result<(Term, Term), Failure> {
        self.expect("(")?;
        let left = self.term()?;
        self.expect(",")?;
        let right = self.term()?;
        self.expect(")")?;
        Ok((left, right))
    }

    fn returning(&mut self) -> Result<Returned, Failure> {
        if !self.take_word("RETURNING") {
            return Ok(Returned::Nothing);
        }
        let all = self.take_word("ALL");
        if !all {
            self.expect_word("MODIFIED")?;
        }
        let old = self.take_word("OLD");
        if !old {
            self.expect_word("NEW")?;
        }
        self.expect("*")?;
        Ok(match (all, old) {
            (true, true) => Returned::AllOld,
            (true, false) => Returned::AllNew,
            (false, true) => Returned::UpdatedOld,
            (false, false) => Returned::UpdatedNew,
        })
    }

    fn condition(&mut self) -> Result<Option<Condition>, Failure> {
        if self.take_word("WHERE") {
            self.disjunction().map(Some)
        } else {
            Ok(None)
        }
    }

    fn disjunction(&mut self) -> Result<Condition, Failure> {
        let first = self.conjunction()?;
        let mut alternatives = vec![first];
        while self.take_word("OR") {
            alternatives.push(self.conjunction()?);
        }
        Ok(single_or(alternatives, Condition::Or))
    }

    fn conjunction(&mut self) -> Result<Condition, Failure> {
        let mut terms = vec![self.negation()?];
        while self.take_word("AND") {
            terms.push(self.negation()?);
        }
        Ok(single_or(terms, Condition::And))
    }

    fn negation(&mut self) -> Result<Condition, Failure> {
        if self.take_word("NOT") {
            let negated = self.deeper(Parser::negation)?;
            return Ok(Condition::Not(Box::new(negated)));
        }
        if self.take("(") {
            let inner = self.deeper(Parser::disjunction)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.test()
    }

    fn test(&mut self) -> Result<Condition, Failure> {
        for function in ["begins_with", "contains", "attribute_type"] {
            if self.take_word(function) {
                return self.function(function);
            }
        }
        let left = self.operand()?;
        if self.take_word("IS") {
            return self.is(left);
        }
        if self.take_word("BETWEEN") {
            let low = self.operand()?;
            self.expect_word("AND")?;
            return Ok(Condition::Between(left, low, self.operand()?));
        }
        if self.take_word("IN") {
            let close = if self.take("(") { ")" } else { "]" };
            if close == "]" {
                self.expect("[")?;
            }
            let mut list = vec![self.operand()?];
            while self.take(",") {
                list.push(self.operand()?);
            }
            self.expect(close)?;
            return Ok(Condition::In(left, list));
        }
        let comparison = match self.peek() {
            Token::Symbol("!=") => Some(Comparison::NotEqual),
            Token::Symbol(symbol) => Comparison::of_symbol(symbol),
            _ => None,
        };
        let Some(comparison) = comparison else {
            return Err(self.unexpected());
        };
        self.next();
        Ok(Condition::Compare(comparison, left, self.operand()?))
    }

    fn function(&mut self, function: &str) -> Result<Condition, Failure> {
        self.expect("(")?;
        let first = self.operand()?;
        self.expect(",")?;
        let second = self.operand()?;
        self.expect(")")?;
        match (function, first, second) {
            ("begins_with", first, second) => Ok(Condition::BeginsWith(first, second)),
            ("contains", first, second) => Ok(Condition::Contains(first, second)),
            (_, operand, Operand::Value(Value::S(name))) if TYPE_NAMES.contains(&name.as_str()) => {
                Ok(Condition::HasType(operand, name))
            }
            _ => Err(malformed("attribute_type needs a path and the name of a type")),
        }
    }

    fn is(&mut self, operand: Operand) -> Result<Condition, Failure> {
        let Operand::Path(path) = operand else {
            return Err(self.unexpected());
        };
        let negated = self.take_word("NOT");
        let condition = if self.take_word("MISSING") {
            Condition::NotExists(path)
        } else {
            self.expect_word("NULL")?;
            Condition::HasType(Operand::Path(path), "NULL".into())
        };
        Ok(if negated {
            Condition::Not(Box::new(condition))
        } else {
            condition
        })
    }

    fn operand(&mut self) -> Result<Operand, Failure> {
        if self.take_word("size") {
            self.expect("(")?;
            let path = self.path()?;
            self.expect(")")?;
            return Ok(Operand::Size(Box::new(Operand::Path(path))));
        }
        let is_literal = match self.peek() {
            Token::Word(word) => ["true", "false", "null"]
                .iter()
                .any(|literal| word.eq_ignore_ascii_case(literal)),
            Token::Name(_) => false,
            _ => true,
        };
        if is_literal {
            self.value().map(Operand::Value)
        } else {
            self.path().map(Operand::Path)
        }
    }

    fn name(&mut self) -> Result<String, Failure> {
        match self.peek() {
            Token::Word(_) | Token::Name(_) => match self.next() {
                Token::Word(name) | Token::Name(name) => Ok(name),
                _ => unreachable!("the token was looked at"),
            },
            _ => Err(self.unexpected()),
        }
    }

    fn paths(&mut self) -> Result<Vec<Path>, Failure> {
        let mut paths = vec![self.path()?];
        while self.take(",") {
            paths.push(self.path()?);
        }
        Ok(paths)
    }

    fn path(&mut self) -> Result<Path, Failure> {
        let mut path = Path::top(self.name()?);
        loop {
            if self.take(".") {
                path.steps.push(Step::Member(self.name()?));
            } else if self.take("[") {
                let Token::Number(digits) = self.next() else {
                    return Err(malformed("An index must be a number"));
                };
                let index = digits
                    .parse::<u32>()
                    .map_err(|_| malformed("An index must be a number"))?;
                path.steps.push(Step::Index(index as usize));
                self.expect("]")?;
            } else {
                return Ok(path);
            }
        }
    }

    fn value(&mut self) -> Result<Value, Failure> {
        self.deeper(Parser::literal)
    }

    fn literal(&mut self) -> Result<Value, Failure> {
        match self.next() {
            Token::Text(text) => Ok(Value::S(text)),
            Token::Number(digits) => parse_number(&digits).map(Value::N),
            Token::Symbol("-") => match self.next() {
                Token::Number(digits) => parse_number(&format!("-{digits}")).map(Value::N),
                _ => Err(malformed("A number must follow the sign")),
            },
            Token::Symbol("?") => self.parameters.next().ok_or_else(wrong_parameter_count),
            Token::Symbol("[") => Ok(Value::L(self.values("]")?)),
            Token::Symbol("<<") => self.values(">>").and_then(set),
            Token::Symbol("{") => self.members().map(Value::M),
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                "null" => Ok(Value::Null),
                _ => Err(malformed(&format!("Unexpected token: {word}"))),
            },
            _ => Err(malformed("A value was expected")),
        }
    }

    fn values(&mut self, close: &str) -> Result<Vec<Value>, Failure> {
        let mut values = Vec::new();
        while !self.take(close) {
            if !values.is_empty() {
                self.expect(",")?;
            }
            values.push(self.value()?);
        }
        Ok(values)
    }

    fn members(&mut self) -> Result<Item, Failure> {
        let mut members = Item::new();
        while !self.take("}") {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let (Token::Text(name) | Token::Name(name)) = self.next() else {
                return Err(malformed("A name must be a text"));
            };
            self.expect(":")?;
            let value = self.value()?;
            members.insert(name, value);
        }
        Ok(members)
    }
}

/// Of several values with one name, the last is shown.
fn last_of_each_name(paths: Vec<Path>) -> Vec<Path> {
    let named: BTreeMap<String, Path> = paths.into_iter().map(|path| (path.leaf_name(), path)).collect();
    named.into_values().collect()
}

fn single_or(mut conditions: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => join(conditions),
    }
}

fn set(values: Vec<Value>) -> Result<Value, Failure> {
    let wrong = || malformed("A set holds texts, numbers or binaries of one type, and at least one");
    Ok(match values.first() {
        Some(Value::S(_)) => Value::SS(
            collect(
                values,
                |value| if let Value::S(text) = value { Some(text) } else { None },
            )
            .ok_or_else(wrong)?,
        ),
        Some(Value::N(_)) => Value::NS(
            collect(values, |value| {
                if let Value::N(number) = value {
                    Some(number)
                } else {
                    None
                }
            })
            .ok_or_else(wrong)?,
        ),
        Some(Value::B(_)) => Value::BS(
            collect(
                values,
                |value| if let Value::B(bytes) = value { Some(bytes) } else { None },
            )
            .ok_or_else(wrong)?,
        ),
        _ => return Err(wrong()),
    })
}

fn collect<T: Ord>(values: Vec<Value>, element: fn(Value) -> Option<T>) -> Option<std::collections::BTreeSet<T>> {
    values.into_iter().map(element).collect()
}
