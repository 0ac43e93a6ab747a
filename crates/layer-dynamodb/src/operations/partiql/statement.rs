//! Statements as reads and writes of one table: what DynamoDB allows of the grammar, in the
//! service's words.

use std::collections::BTreeSet;

use super::parser;
use super::syntax::{self, Kind, Node, Returning, Step};
use super::values::{Parameters, path};
use crate::operations::items::Returned;
use crate::wire::expression::path::clash_text;
use crate::wire::expression::{Condition, Path, Update};
use crate::wire::failure::Failure;
use crate::wire::value::{Item, Value};

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
    /// `None`: everything. No part of an item is shown twice.
    pub projection: Option<Vec<Path>>,
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

/// Parses a statement, with its question marks replaced by `parameters`, in order.
pub fn parse(text: &str, parameters: &[Value]) -> Result<Statement, Failure> {
    let parameters = Parameters(parameters);
    match parser::parse(text)? {
        syntax::Statement::Select(select) => parameters.select(&select).map(Statement::Select),
        syntax::Statement::Insert {
            target,
            value,
            unsupported,
        } => {
            refuse(unsupported)?;
            let text = "FROM clause may only contain a single table name in data manipulation statements";
            Ok(Statement::Insert {
                table: table(&target, text)?,
                item: parameters.item(&value)?,
            })
        }
        syntax::Statement::Update {
            target,
            changes,
            condition,
            returning,
            unsupported,
        } => {
            refuse(unsupported)?;
            Ok(Statement::Update {
                table: table(&target, NO_INDEX)?,
                update: parameters.update(&changes)?,
                condition: parameters.optional_clause(condition.as_ref())?,
                returned: returning.map_or(Returned::Nothing, returned),
            })
        }
        syntax::Statement::Delete {
            target,
            condition,
            returning,
            unsupported,
        } => {
            refuse(unsupported)?;
            Ok(Statement::Delete {
                table: table(&target, NO_INDEX)?,
                condition: parameters.optional_clause(condition.as_ref())?,
                returned: returned_by_delete(returning)?,
            })
        }
        syntax::Statement::Bare(node) => parameters.bare(&node),
        syntax::Statement::Other(operation) => Err(unsupported_operation(operation)),
    }
}

const NO_INDEX: &str = "This operation is not supported on an index";

fn refuse(unsupported: Option<String>) -> Result<(), Failure> {
    unsupported.map_or(Ok(()), |text| Err(Failure::validation(text)))
}

fn unsupported_operation(operation: &str) -> Failure {
    Failure::validation(format!("Unsupported operation: {operation}"))
}

/// The name of a target that must be a table. `text` refuses an index.
fn table(target: &Node, text: &str) -> Result<String, Failure> {
    match &target.kind {
        Kind::Name(name) => Ok(name.clone()),
        Kind::Path(..) => Err(Failure::validation(text)),
        _ => Err(Failure::validation("Unexpected from source")),
    }
}

/// The table and the index that a SELECT reads.
fn source(from: &Node) -> Result<(String, Option<String>), Failure> {
    let unexpected = || Failure::validation("Unexpected from source");
    let (root, steps) = match &from.kind {
        Kind::Name(name) => return Ok((name.clone(), None)),
        Kind::Path(root, steps) => (root, steps),
        _ => return Err(unexpected()),
    };
    let Kind::Name(table) = &root.kind else {
        return Err(unexpected());
    };
    let [step] = &steps[..] else {
        let text = "A path may contain at most 2 components in the FROM clause";
        return Err(Failure::validation(text));
    };
    let index = match step {
        Step::Member(name) => name,
        Step::Element(Node {
            kind: Kind::Text(name) | Kind::Name(name),
            ..
        }) => name,
        _ => return Err(unexpected()),
    };
    Ok((table.clone(), Some(index.clone())))
}

fn returned(returning: Returning) -> Returned {
    match (returning.all, returning.old) {
        (true, true) => Returned::AllOld,
        (true, false) => Returned::AllNew,
        (false, true) => Returned::UpdatedOld,
        (false, false) => Returned::UpdatedNew,
    }
}

fn returned_by_delete(returning: Option<Returning>) -> Result<Returned, Failure> {
    match returning {
        None => Ok(Returned::Nothing),
        Some(Returning { all: true, old: true }) => Ok(Returned::AllOld),
        Some(Returning { all, old }) => Err(Failure::validation(format!(
            "Invalid returning clause: RETURNING {} {} *. Only RETURNING ALL OLD * is allowed in DELETE statements.",
            if all { "ALL" } else { "MODIFIED" },
            if old { "OLD" } else { "NEW" }
        ))),
    }
}

impl Parameters<'_> {
    fn optional_clause(self, condition: Option<&Node>) -> Result<Option<Condition>, Failure> {
        condition.map(|node| self.clause(node)).transpose()
    }

    fn bare(self, node: &Node) -> Result<Statement, Failure> {
        match &node.kind {
            Kind::Call(name, arguments) if name == "exists" => match &arguments[..] {
                [
                    Node {
                        kind: Kind::Select(select),
                        ..
                    },
                ] => self.select(select).map(Statement::Exists),
                _ => Err(Failure::validation(
                    "EXISTS() must contain a single item read with additional condition",
                )),
            },
            Kind::Is(..) => Err(unsupported_operation("IsType")),
            _ if node.is_operation() => Err(misplaced_exists()),
            _ => Err(unsupported_operation(node.kind_name())),
        }
    }

    fn select(self, select: &syntax::Select) -> Result<Select, Failure> {
        refuse(select.unsupported.clone())?;
        let (table, index) = source(&select.from)?;
        Ok(Select {
            table,
            index,
            projection: select.items.as_deref().map(projection).transpose()?,
            condition: self.optional_clause(select.condition.as_ref())?,
            order: order(select)?,
        })
    }
}

pub fn misplaced_exists() -> Failure {
    Failure::validation("EXISTS can only be used in ExecuteTransaction write requests.")
}

/// The paths that are shown side by side, each under a name of its own.
fn projection(items: &[Node]) -> Result<Vec<Path>, Failure> {
    let paths = items.iter().map(path).collect::<Result<Vec<Path>, _>>()?;
    let mut names = BTreeSet::new();
    for path in &paths {
        let name = path.leaf_name();
        if names.contains(&name) {
            return Err(Failure::validation(format!(
                "Duplicate identifiers in select clause: {name}"
            )));
        }
        names.insert(name);
    }
    match clash_text(&paths.iter().collect::<Vec<_>>()) {
        Some(text) => Err(Failure::validation(text)),
        None => Ok(paths),
    }
}

fn order(select: &syntax::Select) -> Result<Vec<(String, bool)>, Failure> {
    if !select.order.is_empty() && select.condition.is_none() {
        return Err(Failure::validation(
            "Must have WHERE clause in the statement when using ORDER BY clause.",
        ));
    }
    let attributes = select.order.iter().map(|(node, ascending)| match &node.kind {
        Kind::Name(name) => Ok((name.clone(), *ascending)),
        _ => Err(Failure::validation(format!(
            "Argument to ORDER BY must be of type VariableReference. Type: {}",
            node.token_text()
        ))),
    });
    attributes.collect()
}
