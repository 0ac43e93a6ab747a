//! The part of a query that is about shapes.
//!
//! ```text
//! shape = "[" (WITHIN | CONTAINS | INTERSECTS | DISJOINT) $text "]"
//! ```

use crate::error::SearchError;
use crate::index::schema::FieldKind;
use crate::redis::query::lexer::{Kind, Token};
use crate::redis::query::parser::{Parsed, Parser, field_error};
use crate::redis::query::tree::{Node, NodeKind, ShapeCondition};
use crate::text::shapes::{Relation, Shape};

impl Parser<'_> {
    /// A word, followed by only a parameter.
    pub(super) fn is_shape(&self) -> bool {
        self.peek() == Kind::Word && self.peek_behind() == Kind::Parameter
    }

    pub(super) fn shape(&mut self, token: &Token) -> Parsed<Node> {
        let word = self.advance();
        let unknown = || SearchError::Syntax(field_error("Syntax error: Expecting a geoshape predicate", &word));
        let relation = Relation::of_name(&word.text).ok_or_else(unknown)?;
        let parameter = self.expect(Kind::Parameter)?;
        let text = self.parameter(&parameter.text)?.to_vec();
        self.expect_mark(b']')?;
        let (field, field_definition) = self.field_of(token, |kind| matches!(kind, FieldKind::Shape(_)), "GEOSHAPE")?;
        let FieldKind::Shape(system) = field_definition.kind else {
            unreachable!("the field's kind was asked for");
        };
        let refused = |reason| SearchError::Value(format!("Error querying geoshape index: {reason}"));
        let shape = Shape::parse(&text, system).map_err(refused)?;
        Ok(Node::of(NodeKind::Shape(Box::new(ShapeCondition {
            field,
            relation,
            shape,
            text: String::from_utf8_lossy(&text).into_owned(),
        }))))
    }
}
