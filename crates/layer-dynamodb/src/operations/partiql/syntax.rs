//! Statements according to the published grammar, before DynamoDB's restrictions are applied.

use super::lexer::At;

/// An expression and the place of its first or, for an operator, of its own token.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub at: At,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Missing,
    Null,
    Bool(bool),
    /// A number with its sign.
    Number(String),
    Text(String),
    Ion,
    /// A question mark, by its position among them.
    Parameter(usize),
    Name(String),
    /// A way into what the first node names.
    Path(Box<Node>, Vec<Step>),
    List(Vec<Node>),
    Bag(Vec<Node>),
    /// Names and values.
    Tuple(Vec<(Node, Node)>),
    /// A function by its name in lower case, and its arguments.
    Call(String, Vec<Node>),
    Sign(&'static str, Box<Node>),
    Not(Box<Node>),
    /// `and`, `or`, a comparison or an operator of arithmetic.
    Binary(&'static str, Box<Node>, Box<Node>),
    In(Box<Node>, Box<Node>),
    /// The operand, the lower and the upper bound.
    Between(Box<Node>, Box<Node>, Box<Node>),
    /// An operand and the name of a type in lower case.
    Is(Box<Node>, String),
    Select(Box<Select>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `.name`, which is not an expression.
    Member(String),
    /// `[expression]`
    Element(Node),
    /// `.*`
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `None`: `*`.
    pub items: Option<Vec<Node>>,
    pub from: Node,
    pub condition: Option<Node>,
    /// Expressions to sort by, and whether ascending.
    pub order: Vec<(Node, bool)>,
    /// The first thing in it that DynamoDB does not have, in the service's words.
    pub unsupported: Option<String>,
}

/// One SET or REMOVE.
#[derive(Debug)]
pub enum Change {
    Set(Node, Node),
    Remove(Node),
    Insert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    pub all: bool,
    pub old: bool,
}

#[derive(Debug)]
pub enum Statement {
    Select(Select),
    Insert {
        target: Node,
        value: Node,
        unsupported: Option<String>,
    },
    Update {
        target: Node,
        changes: Vec<Change>,
        condition: Option<Node>,
        returning: Option<Returning>,
        unsupported: Option<String>,
    },
    Delete {
        target: Node,
        condition: Option<Node>,
        returning: Option<Returning>,
        unsupported: Option<String>,
    },
    /// An expression by itself; EXISTS is one.
    Bare(Node),
    /// Something else, as refusals name it.
    Other(&'static str),
}

impl Node {
    /// True for what can hold or not: a test, a function or an operator over others.
    pub fn is_operation(&self) -> bool {
        matches!(
            self.kind,
            Kind::Call(..)
                | Kind::Sign(..)
                | Kind::Not(_)
                | Kind::Binary(..)
                | Kind::In(..)
                | Kind::Between(..)
                | Kind::Is(..)
        )
    }

    /// The kind of node, as refusals name it.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Missing => "LiteralMissing",
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Ion => "Literal",
            Kind::Parameter(_) => "Parameter",
            Kind::Name(_) => "VariableReference",
            Kind::Path(..) => "Path",
            Kind::List(_) | Kind::Bag(_) => "Seq",
            Kind::Tuple(_) => "Struct",
            Kind::Is(..) => "IsType",
            Kind::Select(_) => "Select",
            _ => "NAry",
        }
    }

    /// Returns the text of its token: an operator, a function or a name.
    pub fn token_text(&self) -> &str {
        match &self.kind {
            Kind::Missing => "MISSING",
            Kind::Name(name) | Kind::Call(name, _) => name,
            Kind::Sign(operator, _) | Kind::Binary(operator, ..) => operator,
            Kind::Not(_) => "not",
            Kind::In(..) => "in",
            Kind::Between(..) => "between",
            Kind::Is(..) => "is",
            _ => self.kind_name(),
        }
    }
}
