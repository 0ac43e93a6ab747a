//! SET and REMOVE as an update, with all that can be said against them before the item is read.

use super::conditions::{missing, unknown_function};
use super::syntax::{Change, Kind, Node};
use super::values::{Parameters, path};
use crate::wire::expression::condition::{Operand, count_fault, distinct_fault, path_fault, type_fault};
use crate::wire::expression::path::clash_text;
use crate::wire::expression::update::Term;
use crate::wire::expression::{Path, Update};
use crate::wire::failure::Failure;
use crate::wire::value::Value;

fn refuse(fault: Option<String>) -> Result<(), Failure> {
    fault.map_or(Ok(()), |text| Err(Failure::validation(text)))
}

impl Parameters<'_> {
    pub fn update(self, changes: &[Change]) -> Result<Update, Failure> {
        let mut update = Update::default();
        let mut written = Vec::new();
        for change in changes {
            match change {
                Change::Insert => return Err(Failure::validation("Unsupported operation: InsertOp")),
                Change::Remove(target) => {
                    update.remove.push(path(target)?);
                    written.extend(update.remove.last().cloned());
                }
                Change::Set(target, value) => {
                    let target = path(target)?;
                    written.push(target.clone());
                    self.set(&mut update, target, value)?;
                }
            }
        }
        refuse(clash_text(&written.iter().collect::<Vec<_>>()))?;
        Ok(update)
    }

    fn set(self, update: &mut Update, target: Path, node: &Node) -> Result<(), Failure> {
        let (values, name, arguments) = match &node.kind {
            Kind::Call(name, arguments) if name == "set_add" => (&mut update.add, name, arguments),
            Kind::Call(name, arguments) if name == "set_delete" => (&mut update.delete, name, arguments),
            _ => {
                let term = self.term(node)?;
                update.set.push((target, term));
                return Ok(());
            }
        };
        let title = name.to_uppercase();
        let refused = |text: &str, node: &Node| Err(Failure::validation(format!("{text} {}", node.at)));
        let [first, second] = &arguments[..] else {
            return refused(&format!("{title} must have exactly two arguments"), node);
        };
        if path(first).ok().as_ref() != Some(&target) {
            return refused(
                &format!("The first argument to {title} must equal the assignment value"),
                node,
            );
        }
        let text = format!("The second argument to {title} must be a value with type SET");
        let is_value = matches!(second.kind, Kind::Parameter(_) | Kind::Bag(_));
        match is_value.then(|| self.operand_value(second)).transpose()? {
            Some(set @ (Value::SS(_) | Value::NS(_) | Value::BS(_))) => values.push((target, set)),
            _ => return refused(&text, first),
        }
        Ok(())
    }

    fn term(self, node: &Node) -> Result<Term, Failure> {
        match &node.kind {
            Kind::Name(_) | Kind::Path(..) => path(node).map(Term::Path),
            Kind::Missing => Err(missing()),
            Kind::Binary("+", left, right) => self.sum("+", left, right, Term::Plus),
            Kind::Binary("-", left, right) => self.sum("-", left, right, Term::Minus),
            Kind::Binary("=", left, right) => self.equality(left, right),
            Kind::Sign(operator, _) => Err(Failure::validation(count_fault(operator, 1, 2).unwrap_or_default())),
            Kind::Is(..) => Err(Failure::validation(
                "IS operator is not supported in update expressions",
            )),
            Kind::Call(name, arguments) => self.call(node, name, arguments),
            _ if node.is_operation() => Err(Failure::validation(format!(
                "Unsupported operator in Update Expression. Operator: {}",
                node.token_text()
            ))),
            _ => self.operand_value(node).map(Term::Value),
        }
    }

    fn sum(
        self,
        operator: &str,
        left: &Node,
        right: &Node,
        make: fn(Box<Term>, Box<Term>) -> Term,
    ) -> Result<Term, Failure> {
        let (left, right) = (self.term(left)?, self.term(right)?);
        for term in [&left, &right] {
            refuse(term_fault(operator, term, "N"))?;
        }
        Ok(make(Box::new(left), Box::new(right)))
    }

    fn equality(self, left: &Node, right: &Node) -> Result<Term, Failure> {
        let (left, right) = (self.term(left)?, self.term(right)?);
        refuse_same("=", &left, &right)?;
        Ok(Term::Equal(Box::new(left), Box::new(right)))
    }

    fn call(self, node: &Node, name: &str, arguments: &[Node]) -> Result<Term, Failure> {
        match name {
            "if_not_exists" | "list_append" => {}
            "size" | "contains" | "begins_with" | "attribute_exists" | "attribute_not_exists" | "attribute_type" => {
                return Err(Failure::validation(format!(
                    "The function is not allowed in an update expression; function: {name}"
                )));
            }
            _ => return Err(unknown_function(node, name)),
        }
        refuse(count_fault(name, arguments.len(), 2))?;
        let (first, second) = (self.term(&arguments[0])?, self.term(&arguments[1])?);
        if name == "list_append" {
            for term in [&first, &second] {
                refuse(term_fault(name, term, "L"))?;
            }
            return Ok(Term::ListAppend(Box::new(first), Box::new(second)));
        }
        refuse_same(name, &first, &second)?;
        let Term::Path(path) = first else {
            return Err(Failure::validation(path_fault(name)));
        };
        Ok(Term::IfNotExists(path, Box::new(second)))
    }
}

/// Refuses a term that can never have the type that an operator wants.
fn term_fault(operator: &str, term: &Term, expected: &str) -> Option<String> {
    term.known_type()
        .and_then(|kind| type_fault(operator, kind, &[expected]))
}

/// Refuses a path beside itself.
fn refuse_same(operator: &str, first: &Term, second: &Term) -> Result<(), Failure> {
    match (first, second) {
        (Term::Path(first), Term::Path(second)) => {
            let [first, second] = [first, second].map(|path| Operand::Path(path.clone()));
            refuse(distinct_fault(operator, &first, &[&second]))
        }
        _ => Ok(()),
    }
}
