//! Expressions as a tree: what a query is after parsing.
//!
//! Variables are resolved: a variable is its slot among the variables in scope, counted from the
//! outermost.

use std::sync::Arc;

use crate::language::api_version::ApiVersion;
use crate::language::error::Step;
use crate::language::json::Json;
use crate::language::value::{Ref, Value};

#[derive(Debug)]
pub enum Expression {
    Literal(Value),
    Array(Vec<Expression>),
    Object(Vec<(Arc<str>, Expression)>),
    Variable(usize),
    Let(Vec<Binding>, Box<Expression>),
    If(Box<[Expression; 3]>),
    Do(Vec<Expression>),
    At(Box<[Expression; 2]>),
    /// A lambda given where a function takes one, or wrapped in `query`.
    Lambda(Arc<Lambda>, ApiVersion),
    /// The caller's own member of a collection.
    OwnRef(Ref),
    Select(Box<Select>),
    /// `and` if true, else `or`.
    Junction(bool, Vec<Expression>),
    /// A function by its place in the table of signatures; absent optional arguments are `None`.
    Call(usize, Vec<Option<Expression>>),
}

#[derive(Debug)]
pub struct Binding {
    pub name: Arc<str>,
    pub value: Expression,
    /// Its place in the array form of `let`; `None` in the object form.
    pub index: Option<usize>,
}

#[derive(Debug)]
pub struct Select {
    pub path: Expression,
    pub from: Expression,
    pub default: Option<Expression>,
    pub all: Option<Expression>,
    /// The default is evaluated whether it is needed or not, as it was before version 3.
    pub is_eager: bool,
    /// `select_all` and its alias: maps over arrays on the way and flattens.
    pub key: &'static str,
}

#[derive(Debug)]
pub struct Lambda {
    pub parameters: Parameters,
    pub body: Expression,
    /// As it was written, for showing and storing.
    pub source: Json,
    /// The variables of outer scopes that it uses.
    pub free: Vec<(Arc<str>, usize)>,
    /// The most that its body may do.
    pub effect: Effect,
    /// Its position in the query, from the inside out.
    pub place: Box<[Step]>,
}

impl Lambda {
    /// Its one parameter is discarded.
    pub fn takes_anything(&self) -> bool {
        let parameters = self.source.field("lambda");
        matches!(parameters, Some(Json::String(name)) if &**name == "_")
    }
}

/// Every parameter takes a slot, including discarded ones (`_`).
#[derive(Debug)]
pub enum Parameters {
    One,
    /// Takes an array apart; this many elements.
    Many(usize),
}

/// The effects that evaluating may have, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Pure,
    Read,
    Write,
}

/// A parsed query.
#[derive(Debug)]
pub struct Query {
    pub root: Expression,
    /// It may write: it contains a write or calls a function.
    pub may_write: bool,
}
