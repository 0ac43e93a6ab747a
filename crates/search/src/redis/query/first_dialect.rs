//! The first dialect of queries: adjacent words bind most strongly, and alternatives bind more
//! strongly than juxtaposition.
//!
//! ```text
//! sequence = { part { "|" part } }
//! part     = sign sequence | @field { "|" name } ":" operand | words | other
//! words    = word { word } { "|" word { word } } , attributes
//! operand  = ( sign sequence | words | other ) { "|" part }
//! ```
//!
//! So `-` reaches to the next sign or phrase, `~` to the next `~`, or both to the end of the
//! enclosing part, and a field to the end of its words. Alternatives of TAG values are more values.
//! There are no parameters, comparisons, quoted patterns or `ismissing`; absent fields are empty.

use crate::index::schema::{FieldKind, FieldMask};
use crate::redis::query::lexer::Kind;
use crate::redis::query::parser::{Parsed, Parser, joined_any, joined_every, phrase};
use crate::redis::query::tree::{Node, NodeKind};
use crate::text::analysis::folded;

impl Parser<'_> {
    pub(super) fn first_sequence(&mut self) -> Parsed<Option<Node>> {
        self.sequence_to(|_| false)
    }

    fn sequence_to(&mut self, ends: fn(Kind) -> bool) -> Parsed<Option<Node>> {
        self.deeper()?;
        let mut node = self.first_alternatives()?;
        while !ends(self.peek())
            && !matches!(
                self.peek(),
                Kind::End | Kind::Arrow | Kind::Mark(b')' | b'|' | b'}' | b']' | b':' | b';' | b'*')
            )
        {
            let other = self.first_alternatives()?;
            node = joined_every(node, other);
        }
        self.shallower();
        Ok(node)
    }

    fn first_alternatives(&mut self) -> Parsed<Option<Node>> {
        let first = self.first_part()?;
        self.other_alternatives(first)
    }

    fn other_alternatives(&mut self, mut node: Option<Node>) -> Parsed<Option<Node>> {
        while self.take(b'|') {
            let other = self.first_part()?;
            node = joined_any(node, other);
        }
        Ok(node)
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
        let child = match negates {
            true => self.sequence_to(|kind| matches!(kind, Kind::Exact | Kind::Mark(b'-' | b'~')))?,
            false => self.sequence_to(|kind| kind == Kind::Mark(b'~'))?,
        };
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
        let mut words_node = self.run();
        let word_follows = |parser: &Self| matches!(parser.peek_behind(), Kind::Word | Kind::Number);
        while self.peek() == Kind::Mark(b'|') && word_follows(self) {
            self.advance();
            let other = self.run();
            words_node = joined_any(words_node, other);
        }
        self.attributes_of(&mut words_node)?;
        Ok(words_node)
    }

    fn run(&mut self) -> Option<Node> {
        let mut node = None;
        while matches!(self.peek(), Kind::Word | Kind::Number) {
            let token = self.advance();
            let term = folded(&token.text);
            if !self.schema.stop_words.contains(&term) {
                node = joined_every(node, Some(Node::word(term)));
            }
        }
        node
    }

    fn first_other(&mut self) -> Parsed<Option<Node>> {
        if self.take(b'(') {
            let mut inner = self.first_sequence()?;
            self.expect_mark(b')')?;
            self.attributes_of(&mut inner)?;
            return Ok(inner);
        }
        match self.peek() {
            Kind::Exact if self.is_at_stop_word() => Err(self.unexpected()),
            Kind::Exact | Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Mark(b'%') => self.with_attributes(),
            _ => Err(self.unexpected()),
        }
    }

    /// Returns true if the next phrase has a stop word as its first or second word. Later stop
    /// words are skipped.
    fn is_at_stop_word(&self) -> bool {
        match phrase(&self.next_token().text).kind {
            NodeKind::Every { children, .. } => children.iter().take(2).any(|word| self.is_stop_word(word)),
            _ => false,
        }
    }

    fn is_stop_word(&self, word: &Node) -> bool {
        match &word.kind {
            NodeKind::Word { term, .. } => self.schema.stop_words.contains(term),
            _ => false,
        }
    }

    /// A phrase of this dialect; one word in quotes is that word itself.
    pub(super) fn first_phrase(&self, text: &[u8]) -> Node {
        let mut node = phrase(text);
        if let NodeKind::Every { children, .. } = &mut node.kind
            && children.len() == 1
            && let Some(mut word) = children.pop()
        {
            word.options.verbatim = true;
            return word;
        }
        if let NodeKind::Every { children, .. } = &mut node.kind {
            children.retain(|word| !self.is_stop_word(word));
        }
        node
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
                let field_kind = self
                    .schema
                    .find(&token.text)
                    .is_some_and(|(_, field)| match field.kind {
                        FieldKind::Tag { .. } => is_tag,
                        FieldKind::Numeric | FieldKind::Geo | FieldKind::Vector(_) => !is_tag,
                        _ => false,
                    });
                if !field_kind {
                    let end = if is_tag { b'}' } else { b']' };
                    while !self.take(end) {
                        if self.advance().kind == Kind::End {
                            return Err(self.unexpected());
                        }
                    }
                    return Ok(Some(Node::of(NodeKind::Empty)));
                }
                let mut node = if is_tag { self.tag(&token)? } else { self.range(&token)? };
                if let NodeKind::Tag { values, .. } = &mut node.kind {
                    while self.take(b'|') {
                        values.push(self.tag_value()?);
                    }
                }
                let mut operand = Some(node);
                self.attributes_of(&mut operand)?;
                Ok(operand)
            }
            _ => {
                let fields = names.iter().fold(0, |mask, name| mask | self.text_bit(&name.text));
                let operand = self.first_operand()?;
                Ok(operand.map(|mut node| {
                    node.restrict(fields);
                    node
                }))
            }
        }
    }

    fn text_bit(&self, name: &[u8]) -> FieldMask {
        let mut texts = self.schema.texts();
        let first = texts.find(|(_, field)| field.name.as_bytes() == name);
        first.map_or(0, |(bit, _)| bit)
    }

    fn first_operand(&mut self) -> Parsed<Option<Node>> {
        let first = match self.peek() {
            Kind::Mark(b'-' | b'~') => self.first_signed()?,
            Kind::Word | Kind::Number => self.words()?,
            _ => self.first_other()?,
        };
        self.other_alternatives(first)
    }
}
