//! The common parts of the grammars: placeholders, tokens one by one, paths, and the errors every
//! expression can have.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Kind, Token, tokens};
use super::path::{Path, Step};
use super::reserved::is_reserved;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::Json;
use crate::wire::value::{Value, check_attribute_name, is_empty_set};

/// Longest text of one expression.
const EXPRESSION_BYTES_MAX: usize = 4096;
const OPERATORS_MAX: usize = 300;
/// Levels of parentheses, NOT and functions. The service counts operators only; the stack counts
/// these.
const DEPTH_MAX: usize = 160;
/// Upper bound on the values of a request's placeholders together, each use counted: a use is a
/// copy.
const EXPANDED_BYTES_MAX: usize = 2 << 20;
const PLACEHOLDER_BYTES_MAX: usize = 255;
/// Levels of a document path.
const PATH_STEPS_MAX: usize = 31;

/// The faults of a well-formed expression. Each language decides which of several is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Parentheses,
    UnknownFunction,
    /// A function where it is not allowed.
    Misuse,
    Reserved,
    Section,
    UndefinedName,
    UndefinedValue,
    Clash,
    SectionOperand,
    OperandCount,
    SameOperands,
    OperandType,
    /// The first comparison that has any of the faults of [`IN_COMPARISON`].
    Comparison,
}

/// The order in which a comparison reports its faults.
const IN_COMPARISON: &[&[Fault]] = &[
    &[Fault::UndefinedName, Fault::UndefinedValue],
    &[Fault::OperandCount],
    &[Fault::SameOperands],
    &[Fault::OperandType],
];

/// The place of a fault in an order; `None` if it has none.
fn rank(order: &[&[Fault]], fault: Fault) -> Option<usize> {
    order.iter().position(|faults| faults.contains(&fault))
}

/// The values of `#names` and `:values`, and which of them were used.
#[derive(Default)]
pub struct Placeholders {
    names: BTreeMap<String, String>,
    values: BTreeMap<String, Value>,
    used: BTreeSet<String>,
    /// Size of the values of all uses together.
    expanded_bytes: usize,
}

impl Placeholders {
    /// Reads ExpressionAttributeNames and ExpressionAttributeValues.
    pub fn read(request: &Json<'_>) -> Result<Placeholders, Failure> {
        let mut placeholders = Placeholders::default();
        if let Some(names) = request.get("ExpressionAttributeNames") {
            placeholders.read_names(names)?;
        }
        if let Some(values) = request.get("ExpressionAttributeValues") {
            placeholders.read_values(values)?;
        }
        Ok(placeholders)
    }

    /// Refuses placeholders that no expression of the request could use; `expressions` names those
    /// the operation knows.
    pub fn check_allowed(request: &Json<'_>, expressions: &[&str]) -> Result<(), Failure> {
        let has_any = |names: &[&str]| names.iter().any(|name| request.get(name).is_some());
        if request.get("ExpressionAttributeNames").is_some() && !has_any(expressions) {
            return Err(Failure::validation(
                "ExpressionAttributeNames can only be specified when using expressions",
            ));
        }
        if request.get("ExpressionAttributeValues").is_none() {
            return Ok(());
        }
        // Only a projection cannot use values.
        let takes_values: Vec<&str> = expressions
            .iter()
            .copied()
            .filter(|name| *name != "ProjectionExpression")
            .collect();
        if has_any(&takes_values) {
            return Ok(());
        }
        let absent = match takes_values.as_slice() {
            [name] => format!(": {name} is null"),
            [first, second] => format!(": {first} and {second} are null"),
            _ => String::new(),
        };
        Err(Failure::validation(format!(
            "ExpressionAttributeValues can only be specified when using expressions{absent}"
        )))
    }

    fn read_names(&mut self, names: &Json<'_>) -> Result<(), Failure> {
        for (name, attribute) in names.members() {
            if !is_placeholder(name, '#') {
                return Err(Failure::validation(format!(
                    "ExpressionAttributeNames contains invalid key: Syntax error; key: \"{name}\""
                )));
            }
            let attribute = attribute.text().unwrap_or_default();
            check_attribute_name(attribute).map_err(|failure| {
                let text = failure
                    .message
                    .replace("One or more parameter values were invalid: ", "");
                Failure::validation(format!(
                    "ExpressionAttributeNames contains invalid value: {text} for key {name}"
                ))
            })?;
            self.names.insert(name.to_owned(), attribute.to_owned());
        }
        if self.names.is_empty() {
            return Err(Failure::validation("ExpressionAttributeNames must not be empty"));
        }
        Ok(())
    }

    fn read_values(&mut self, values: &Json<'_>) -> Result<(), Failure> {
        if let Some((name, _)) = values.members().find(|(name, _)| !is_placeholder(name, ':')) {
            return Err(Failure::validation(format!(
                "ExpressionAttributeValues contains invalid key: Syntax error; key: \"{name}\""
            )));
        }
        for (name, json) in values.members() {
            let value = Value::parse(json).map_err(|failure| match failure.exception {
                // An empty set is reported without its place.
                Exception::Validation if !is_empty_set(json) => Failure::validation(format!(
                    "ExpressionAttributeValues contains invalid value: {} for key {name}",
                    failure.message
                )),
                _ => failure,
            })?;
            self.values.insert(name.to_owned(), value);
        }
        if self.values.is_empty() {
            return Err(Failure::validation("ExpressionAttributeValues must not be empty"));
        }
        Ok(())
    }

    fn is_expanded_too_far(&self) -> bool {
        self.expanded_bytes > EXPANDED_BYTES_MAX
    }

    /// Refuses placeholders that no expression used.
    pub fn check_all_used(&self) -> Result<(), Failure> {
        let unused = |kind: &str, keys: Vec<&str>| match keys.is_empty() {
            true => Ok(()),
            false => Err(Failure::validation(format!(
                "Value provided in {kind} unused in expressions: keys: {{{}}}",
                keys.join(", ")
            ))),
        };
        let is_unused = |name: &&str| !self.used.contains(*name);
        let names = self.names.keys().map(String::as_str).filter(is_unused);
        unused("ExpressionAttributeNames", names.collect())?;
        let values = self.values.keys().map(String::as_str).filter(is_unused);
        unused("ExpressionAttributeValues", values.collect())
    }
}

/// The words of a language that cannot be attribute names, in addition to the reserved words.
fn keywords(expression: &str) -> &'static [&'static str] {
    match expression {
        "UpdateExpression" => &["SET", "REMOVE", "ADD", "DELETE"],
        "ProjectionExpression" => &[],
        _ => &["AND", "OR", "NOT", "BETWEEN", "IN"],
    }
}

fn is_placeholder(name: &str, sign: char) -> bool {
    let word = name.strip_prefix(sign).unwrap_or_default();
    !word.is_empty()
        && name.len() <= PLACEHOLDER_BYTES_MAX
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// One expression, token by token.
pub struct Parser<'s, 'p> {
    source: &'s str,
    tokens: Vec<Token<'s>>,
    at: usize,
    /// Such as "ConditionExpression".
    expression: &'static str,
    placeholders: &'p mut Placeholders,
    depth: usize,
    operators: usize,
    /// In the order of the expression.
    faults: Vec<(Fault, Failure)>,
}

impl<'s, 'p> Parser<'s, 'p> {
    pub fn new(
        expression: &'static str,
        source: &'s str,
        placeholders: &'p mut Placeholders,
    ) -> Result<Parser<'s, 'p>, Failure> {
        let parser = Parser {
            source,
            tokens: if source.len() > EXPRESSION_BYTES_MAX {
                Vec::new()
            } else {
                tokens(source)
            },
            at: 0,
            expression,
            placeholders,
            depth: 0,
            operators: 0,
            faults: Vec::new(),
        };
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(parser.failure(format_args!(
                "Expression size has exceeded the maximum allowed size; expression size: {}",
                source.len()
            )));
        }
        if parser.peek().kind == Kind::End {
            return Err(parser.failure("The expression can not be empty;"));
        }
        Ok(parser)
    }

    /// A failure with the name of the expression before it.
    pub fn failure(&self, text: impl std::fmt::Display) -> Failure {
        Failure::validation(format!("Invalid {}: {text}", self.expression))
    }

    pub fn peek(&self) -> Token<'s> {
        self.tokens[self.at]
    }

    pub fn peek_second(&self) -> Token<'s> {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    pub fn next(&mut self) -> Token<'s> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub fn take_keyword(&mut self, keyword: &str) -> bool {
        let is_next = self.peek().is_keyword(keyword);
        if is_next {
            self.next();
        }
        is_next
    }

    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_next = self.peek().is_symbol(symbol);
        if is_next {
            self.next();
        }
        is_next
    }

    pub fn expect_symbol(&mut self, symbol: &str) -> Result<(), Failure> {
        if self.take_symbol(symbol) {
            Ok(())
        } else {
            Err(self.syntax_error())
        }
    }

    /// Expects the end. Then the faults of a well-formed expression are reported: the first in
    /// `order`, and the first one in the expression among several that have one place there.
    pub fn expect_end(&mut self, order: &[&[Fault]]) -> Result<(), Failure> {
        if self.peek().kind != Kind::End {
            return Err(self.syntax_error());
        }
        if self.placeholders.is_expanded_too_far() {
            return Err(self.failure(format_args!(
                "Expression size has exceeded the maximum allowed size; expression size: {}",
                self.placeholders.expanded_bytes
            )));
        }
        let faults = std::mem::take(&mut self.faults).into_iter();
        let first = faults.min_by_key(|(fault, _)| rank(order, *fault).unwrap_or(order.len()));
        first.map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// Notes a fault, to be reported if the rest is well formed.
    pub fn fault(&mut self, fault: Fault, text: impl std::fmt::Display) {
        let failure = self.failure(text);
        self.faults.push((fault, failure));
    }

    /// Ends a comparison: one of its faults will be reported, if any.
    pub fn end_comparison(&mut self) {
        let ranks = self.faults.iter().map(|(fault, _)| rank(IN_COMPARISON, *fault));
        let first = ranks
            .enumerate()
            .filter_map(|(position, rank)| Some((rank?, position)))
            .min();
        if let Some((_, position)) = first {
            self.faults[position].0 = Fault::Comparison;
            self.faults.retain(|(fault, _)| rank(IN_COMPARISON, *fault).is_none());
        }
    }

    /// Returns true if a function's name and its parenthesis are next.
    pub fn at_call(&self) -> bool {
        self.peek().kind == Kind::Word && self.peek_second().is_symbol("(")
    }

    /// Returns true if the next parenthesis encloses an operand and not a condition, which the
    /// token after its counterpart shows.
    pub fn encloses_operand(&self) -> bool {
        let mut depth = 0;
        for (position, token) in self.tokens.iter().enumerate().skip(self.at) {
            depth += i32::from(token.is_symbol("(")) - i32::from(token.is_symbol(")"));
            if depth == 0 {
                let after = self.tokens.get(position + 1);
                return after
                    .is_some_and(|after| after.is_comparator() || after.is_symbol(".") || after.is_symbol("["));
            }
        }
        false
    }

    /// The next token is not allowed at its position.
    pub fn syntax_error(&self) -> Failure {
        let first = self.tokens[self.at.saturating_sub(1)];
        let last = self.tokens[(self.at + 1).min(self.tokens.len() - 1)];
        let end = if last.kind == Kind::End {
            self.source.trim_end().len()
        } else {
            last.start + last.text.len()
        };
        let near = self.source.get(first.start..end.max(first.start)).unwrap_or_default();
        self.failure(format_args!(
            "Syntax error; token: \"{}\", near: \"{near}\"",
            self.peek().text
        ))
    }

    /// Goes one level deeper for the time of `parse`.
    pub fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.failure("The expression is nested too deeply"));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    pub fn count_operator(&mut self) -> Result<(), Failure> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let count = self.operators;
            return Err(self.failure(format_args!(
                "The expression contains too many operators; operator count: {count}"
            )));
        }
        Ok(())
    }

    /// Returns the value of the next `:value`, or any value if it is not defined.
    pub fn value(&mut self) -> Value {
        let name = self.next().text;
        let Some(value) = self.placeholders.values.get(name) else {
            let text = "An expression attribute value used in expression is not defined; attribute value: ";
            self.fault(Fault::UndefinedValue, format_args!("{text}{name}"));
            return Value::Null;
        };
        self.placeholders.used.insert(name.to_owned());
        if self.placeholders.is_expanded_too_far() {
            return Value::Null;
        }
        self.placeholders.expanded_bytes += value.size();
        value.clone()
    }

    pub fn path(&mut self) -> Result<Path, Failure> {
        let mut path = Path::top(self.attribute_name()?);
        self.steps(&mut path)?;
        Ok(path)
    }

    /// Takes the steps that follow a path.
    pub fn steps(&mut self, path: &mut Path) -> Result<(), Failure> {
        loop {
            if self.take_symbol(".") {
                path.steps.push(Step::Member(self.attribute_name()?));
            } else if self.take_symbol("[") {
                path.steps.push(Step::Index(self.index()?));
            } else {
                break;
            }
        }
        if path.steps.len() > PATH_STEPS_MAX {
            return Err(self.failure(
                "The document path has too many nesting levels; nesting levels: ".to_owned()
                    + &(path.steps.len() + 1).to_string(),
            ));
        }
        Ok(())
    }

    fn index(&mut self) -> Result<usize, Failure> {
        let token = self.peek();
        if token.kind != Kind::Digits {
            return Err(self.syntax_error());
        }
        let Ok(index) = token.text.parse::<u32>() else {
            return Err(self.failure(format_args!(
                "List index is not within the allowable range; index: [{}]",
                token.text
            )));
        };
        self.next();
        self.expect_symbol("]")?;
        Ok(index as usize)
    }

    fn attribute_name(&mut self) -> Result<String, Failure> {
        let token = self.peek();
        match token.kind {
            Kind::Word
                if keywords(self.expression)
                    .iter()
                    .any(|keyword| token.is_keyword(keyword)) =>
            {
                Err(self.syntax_error())
            }
            Kind::Word => {
                if is_reserved(token.text) {
                    let text = "Attribute name is a reserved keyword; reserved keyword: ";
                    self.fault(Fault::Reserved, format_args!("{text}{}", token.text));
                }
                Ok(self.next().text.to_owned())
            }
            Kind::Name => {
                self.next();
                Ok(self.named(token.text))
            }
            _ => Err(self.syntax_error()),
        }
    }

    /// Returns the name of a `#name`, or itself until the end of the expression.
    fn named(&mut self, placeholder: &str) -> String {
        if let Some(name) = self.placeholders.names.get(placeholder) {
            self.placeholders.used.insert(placeholder.to_owned());
            if self.placeholders.is_expanded_too_far() {
                return String::new();
            }
            self.placeholders.expanded_bytes += name.len();
            return name.clone();
        }
        let text = "An expression attribute name used in the document path is not defined; attribute name: ";
        self.fault(Fault::UndefinedName, format_args!("{text}{placeholder}"));
        placeholder.to_owned()
    }
}
