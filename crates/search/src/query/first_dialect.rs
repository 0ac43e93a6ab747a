//! The first dialect of queries: words bind to each other before anything else does.
//!
//! ```text
//! either   = sequence { "|" sequence }
//! sequence = { sign either | @field { "|" name } ":" operand | words | other }
//! words    = word { word } { "|" word { word } } , attributes
//! operand  = sign either | words | other [ "|" words ]
//! ```
//!
//! So a sign reaches to the end of what it stands in, and a field to the end of its words. There
//! are no parameters, comparisons, patterns in quotes or `ismissing`; fields that do not exist hold
//! nothing.

use crate::analysis::folded;
use crate::query::lexer::Kind;
use crate::query::parser::{Parsed, Parser, joined_any, joined_every};
use crate::query::tree::{Node, NodeKind};
use crate::schema::{FieldKind, FieldMask};

impl Parser<'_> {
    pub(super) fn first_either(&mut self) -> Parsed<Option<Node>> {
        self.deeper()?;
        let mut found = self.first_sequence()?;
        while self.take(b'|') {
            let other = self.first_sequence()?;
            found = joined_any(found, other);
        }
        self.shallower();
        Ok(found)
    }

    fn first_sequence(&mut self) -> Parsed<Option<Node>> {
        let mut found = self.first_part()?;
        while !matches!(
            self.peek(),
            Kind::End | Kind::Arrow | Kind::Mark(b')' | b'|' | b'}' | b']' | b':' | b';' | b'*')
        ) {
            let other = self.first_part()?;
            found = joined_every(found, other);
        }
        Ok(found)
    }

    fn first_part(&mut self) -> Parsed<Option<Node>> {
        match self.peek() {
            Kind::Mark(b'-' | b'~') => self.first_signed(),
            Kind::Word | Kind::Number => self.words(),
            Kind::Field => self.of_first_field(),
            _ => self.first_other(),
        }
    }

    fn first_signed(&mut self) -> Parsed<Option<Node>> {
        let negates = self.take(b'-');
        if !negates {
            self.expect_mark(b'~')?;
        }
        let child = self.first_either()?;
        Ok(child.map(|child| {
            let child = Box::new(child);
            Node::of(match negates {
                true => NodeKind::Not(child),
                false => NodeKind::Optional(child),
            })
        }))
    }

    /// Words, and alternatives of words.
    fn words(&mut self) -> Parsed<Option<Node>> {
        let mut found = self.run();
        let word_follows = |parser: &Self| matches!(parser.peek_behind(), Kind::Word | Kind::Number);
        while self.peek() == Kind::Mark(b'|') && word_follows(self) {
            self.advance();
            let other = self.run();
            found = joined_any(found, other);
        }
        self.attributes_of(&mut found)?;
        Ok(found)
    }

    fn run(&mut self) -> Option<Node> {
        let mut found = None;
        while matches!(self.peek(), Kind::Word | Kind::Number) {
            let token = self.advance();
            let term = folded(&token.text);
            if !self.schema.stop_words.contains(&term) {
                found = joined_every(found, Some(Node::word(term)));
            }
        }
        found
    }

    fn first_other(&mut self) -> Parsed<Option<Node>> {
        if self.take(b'(') {
            let mut inner = self.first_either()?;
            self.expect_mark(b')')?;
            self.attributes_of(&mut inner)?;
            return Ok(inner);
        }
        match self.peek() {
            Kind::Exact | Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Mark(b'%') => self.with_attributes(),
            _ => Err(self.unexpected()),
        }
    }

    /// At `@name`.
    fn of_first_field(&mut self) -> Parsed<Option<Node>> {
        let token = self.advance();
        let mut names = vec![token.clone()];
        while self.take(b'|') {
            names.push(self.expect(Kind::Word)?);
        }
        self.expect_mark(b':')?;
        match self.peek() {
            Kind::Mark(mark @ (b'{' | b'[')) if names.len() == 1 => {
                let is_tag = mark == b'{';
                let known = self
                    .schema
                    .find(&token.text)
                    .is_some_and(|(_, field)| match field.kind {
                        FieldKind::Tag { .. } => is_tag,
                        FieldKind::Numeric | FieldKind::Geo | FieldKind::Vector(_) => !is_tag,
                        _ => false,
                    });
                if !known {
                    let end = if is_tag { b'}' } else { b']' };
                    while !self.take(end) {
                        if self.advance().kind == Kind::End {
                            return Err(self.unexpected());
                        }
                    }
                    return Ok(Some(Node::of(NodeKind::Empty)));
                }
                let mut found = Some(if is_tag { self.tag(&token)? } else { self.range(&token)? });
                self.attributes_of(&mut found)?;
                Ok(found)
            }
            _ => {
                let fields = names.iter().fold(0, |mask, name| mask | self.text_bit(&name.text));
                let found = self.first_operand()?;
                Ok(found.map(|mut node| {
                    node.restrict(fields);
                    node
                }))
            }
        }
    }

    fn text_bit(&self, name: &[u8]) -> FieldMask {
        let mut texts = self.schema.texts();
        let found = texts.find(|(_, field)| field.name.as_bytes() == name);
        found.map_or(0, |(bit, _)| bit)
    }

    fn first_operand(&mut self) -> Parsed<Option<Node>> {
        match self.peek() {
            Kind::Mark(b'-' | b'~') => self.first_signed(),
            Kind::Word | Kind::Number => self.words(),
            _ => {
                let mut found = self.first_other()?;
                while self.take(b'|') {
                    let other = match self.peek() {
                        Kind::Word | Kind::Number => self.words()?,
                        _ => self.first_other()?,
                    };
                    found = joined_any(found, other);
                }
                Ok(found)
            }
        }
    }
}
