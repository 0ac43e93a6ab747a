//! The grammar of queries, by recursive descent.
//!
//! ```text
//! query      = [ either ] | "*" , [ "=>" "[" nearest "]" [ attributes ] ]
//! either     = sequence { "|" sequence }
//! sequence   = unary { unary }
//! unary      = ( "-" | "~" ) unary | primary { attributes }
//! attributes = "=>" "{" [ "$" name ":" value { ";" … } ] "}"
//! primary    = "(" either ")" | word | "phrase" | affix | fuzzy | ismissing(@field)
//!            | @field { "|" name } ":" ( primary | "{" values "}" | "[" range | place | near "]" ) | @field comparison number
//! ```

use crate::error::SearchError;
use crate::index::schema::{ALL_FIELDS, Field, FieldKind, FieldMask, Schema};
use crate::redis::query::lexer::{Comparison, Kind, Token, first_tokens, tokens, unescaped};
use crate::redis::query::tree::{Affix, Expander, Expansion, Node, NodeKind, NumberRange, Parameters, Query};
use crate::redis::query::{DEPTH_MAX, LEAVES_MAX, QUERY_BYTES_MAX};
use crate::text::analysis::{Stemmer, folded};
use crate::text::geo::{Circle, Place};

/// Reads a query of dialect 2 or later over a schema. Words of what restricts the nearest to a
/// vector are never expanded.
pub fn parse(schema: &Schema, query: &[u8], parameters: &Parameters, expander: Expander) -> Result<Query, SearchError> {
    read(schema, query, false, parameters, expander)
}

/// Reads a query of dialect 1.
pub fn parse_first(
    schema: &Schema,
    query: &[u8],
    parameters: &Parameters,
    expander: Expander,
) -> Result<Query, SearchError> {
    read(schema, query, true, parameters, expander)
}

fn read(
    schema: &Schema,
    query: &[u8],
    is_first: bool,
    parameters: &Parameters,
    expander: Expander,
) -> Result<Query, SearchError> {
    if query.len() > QUERY_BYTES_MAX {
        let text = format!("Query has more than {QUERY_BYTES_MAX} bytes");
        return Err(SearchError::Limit(text));
    }
    let tokens = if is_first { first_tokens(query) } else { tokens(query) };
    let mut parser = Parser {
        is_first,
        schema,
        parameters,
        tokens,
        next: 0,
        depth: 0,
        is_in_text_fields: false,
    };
    let mut query = parser.query()?;
    if query.root.leaves() > LEAVES_MAX {
        let text = format!("Query has more than {LEAVES_MAX} words, values and ranges");
        return Err(SearchError::Limit(text));
    }
    parser.check_names(&query)?;
    if query.root.lacks_empty(schema) {
        let text = "Use `INDEXEMPTY` in field creation in order to index and query for empty strings";
        return Err(SearchError::Syntax(text.into()));
    }
    if expander != Expander::Nothing && query.nearest.is_none() {
        let stemmer = Stemmer::new(schema.language);
        query.root.expand(&Expansion {
            schema,
            stemmer,
            expander,
        })?;
    }
    Ok(query)
}

pub(super) type Parsed<T> = Result<T, SearchError>;

pub(super) struct Parser<'a> {
    pub schema: &'a Schema,
    parameters: &'a Parameters,
    tokens: Vec<Token>,
    pub next: usize,
    depth: usize,
    /// The query is of dialect 1.
    is_first: bool,
    /// The condition of TEXT fields is being read, in which no field may be named.
    is_in_text_fields: bool,
}

impl<'a> Parser<'a> {
    fn query(&mut self) -> Parsed<Query> {
        let root = match self.peek() {
            Kind::End => Some(Node::of(NodeKind::Empty)),
            _ if self.is_star() => Some(Node::of(NodeKind::All)),
            _ if self.is_first => self.first_sequence()?,
            _ => self.either()?,
        };
        // Before nearness, a condition of only stop words filters nothing.
        let nothing = match self.peek() {
            Kind::Arrow => NodeKind::All,
            _ => NodeKind::Empty,
        };
        let mut query = Query {
            root: root.unwrap_or(Node::of(nothing)),
            nearest: None,
        };
        if self.peek() == Kind::Arrow && !self.is_first {
            self.advance();
            let filters = query.root.kind != NodeKind::All;
            query.nearest = Some(self.nearest(filters)?);
        }
        match self.peek() {
            Kind::End => Ok(query),
            _ => Err(self.unexpected()),
        }
    }

    /// Takes a star that is all of a query, maybe in parentheses.
    fn is_star(&mut self) -> bool {
        let is_open = |token: &&Token| token.kind == Kind::Mark(b'(');
        let opened = self.tokens.iter().take_while(is_open).count();
        if opened > 0 && self.is_first {
            return false;
        }
        let closed = self.tokens.iter().skip(opened + 1).take(opened);
        let is_closed = closed.filter(|token| token.kind == Kind::Mark(b')')).count() == opened;
        let end = 2 * opened + 1;
        let is_whole = matches!(
            self.tokens.get(end).map(|token| token.kind),
            Some(Kind::End | Kind::Arrow)
        );
        let is_star = self
            .tokens
            .get(opened)
            .is_some_and(|token| token.kind == Kind::Mark(b'*'));
        if is_star && is_closed && is_whole {
            self.next = end;
            return true;
        }
        false
    }

    /// A condition that consists only of stop words is none.
    fn either(&mut self) -> Parsed<Option<Node>> {
        let mut node = self.sequence()?;
        while self.take(b'|') {
            let other = self.sequence()?;
            node = joined_any(node, other);
        }
        Ok(node)
    }

    fn sequence(&mut self) -> Parsed<Option<Node>> {
        let mut node = self.unary()?;
        while self.begins_unary() {
            let other = self.unary()?;
            node = joined_every(node, other);
        }
        Ok(node)
    }

    fn begins_unary(&self) -> bool {
        match self.peek() {
            Kind::Mark(mark) => matches!(mark, b'(' | b'-' | b'~' | b'%'),
            Kind::Arrow | Kind::Comparison(_) | Kind::End => false,
            _ => true,
        }
    }

    fn unary(&mut self) -> Parsed<Option<Node>> {
        self.deeper()?;
        let operand = if self.take(b'-') {
            self.unary()?.map(negated)
        } else if self.take(b'~') {
            self.unary()?.map(|child| Node::of(NodeKind::Optional(Box::new(child))))
        } else {
            self.tight()?
        };
        self.depth -= 1;
        Ok(operand)
    }

    /// A number, a pattern or a parameter binds to the part before it, more strongly than a sign or
    /// a field does. So `-foo ba*` is `-(foo ba*)`, as in the original.
    fn tight(&mut self) -> Parsed<Option<Node>> {
        let node = self.with_attributes()?;
        self.bound_tightly(node)
    }

    /// Joins `found` with all that binds to it.
    fn bound_tightly(&mut self, node: Option<Node>) -> Parsed<Option<Node>> {
        if !self.is_at_tight() {
            return Ok(node);
        }
        self.deeper()?;
        let behind = self.tight()?;
        self.depth -= 1;
        Ok(joined_every(node, behind))
    }

    fn is_at_tight(&self) -> bool {
        use Kind::{Infix, Mark, Number, Parameter, Prefix, Suffix, Wildcard};
        matches!(
            self.peek(),
            Number | Prefix | Suffix | Infix | Wildcard | Parameter | Mark(b'%')
        )
    }

    pub(super) fn shallower(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let text = "Parser stack overflow. Try moving nested parentheses more to the left";
            return Err(SearchError::Syntax(text.into()));
        }
        Ok(())
    }

    pub(super) fn with_attributes(&mut self) -> Parsed<Option<Node>> {
        let mut node = self.primary()?;
        self.attributes_of(&mut node)?;
        Ok(node)
    }

    /// Takes the attributes that follow a condition.
    pub(super) fn attributes_of(&mut self, operand: &mut Option<Node>) -> Parsed<()> {
        while self.peek() == Kind::Arrow && self.peek_behind() == Kind::Mark(b'{') {
            self.next += 2;
            for (name, value) in self.attributes()? {
                match operand {
                    Some(node) if self.is_of_vectors(node, &name) => self.set_vector_attribute(node, &name, &value)?,
                    Some(node) => set_attribute(node, &name, &value)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// `$name: value; …}`
    pub(super) fn attributes(&mut self) -> Parsed<Vec<(String, String)>> {
        let mut attributes = Vec::new();
        while !self.take(b'}') {
            if self.take(b';') && !attributes.is_empty() {
                continue;
            }
            let name = self.expect(Kind::Parameter)?;
            self.expect_mark(b':')?;
            let value = self.word_text()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            attributes.push((text(&name.text), text(&value)));
        }
        Ok(attributes)
    }

    fn primary(&mut self) -> Parsed<Option<Node>> {
        let token = self.advance();
        match token.kind {
            Kind::Mark(b'(') => {
                let inner = self.either()?;
                self.expect_mark(b')')?;
                Ok(inner)
            }
            Kind::Mark(b'%') => self.fuzzy().map(Some),
            Kind::Word if is_missing(&token) && self.peek() == Kind::Mark(b'(') => self.missing().map(Some),
            Kind::Word if self.schema.stop_words.contains(&folded(&token.text)) => Ok(None),
            Kind::Word => Ok(Some(Node::word(folded(&token.text)))),
            Kind::Number => Ok(Some(number_word(&token.text))),
            Kind::Parameter => Ok(Some(Node::word(folded(self.parameter(&token.text)?)))),
            Kind::Exact if self.is_first => Ok(Some(self.first_phrase(&token.text))),
            Kind::Exact => Ok(Some(phrase(&token.text))),
            Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Wildcard => {
                let affix = self.affix(&token, folded)?;
                Ok(Some(Node::of(NodeKind::Affix(affix))))
            }
            Kind::Field if !self.is_in_text_fields => self.of_field(&token),
            _ => {
                self.next -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn affix(&self, token: &Token, fold: fn(&[u8]) -> Vec<u8>) -> Parsed<Affix> {
        let text = match token.is_parameter {
            true => fold(self.parameter(&token.text)?),
            false => fold(&token.text),
        };
        Ok(match token.kind {
            Kind::Prefix => Affix::Prefix(text),
            Kind::Suffix => Affix::Suffix(text),
            Kind::Infix => Affix::Infix(text),
            _ => Affix::Wildcard(without_backslashes(&text)),
        })
    }

    /// After the first `%`.
    fn fuzzy(&mut self) -> Parsed<Node> {
        let mut distance = 1;
        while self.take(b'%') {
            distance += 1;
        }
        if distance > 3 {
            return Err(self.syntax_at(self.next - distance + 3));
        }
        let text = folded(&self.word_text()?);
        for _ in 0..distance {
            self.expect_mark(b'%')?;
        }
        Ok(Node::of(NodeKind::Affix(Affix::Fuzzy(text, distance))))
    }

    fn missing(&mut self) -> Parsed<Node> {
        self.expect_mark(b'(')?;
        if self.is_in_text_fields {
            return Err(self.unexpected());
        }
        let token = self.expect(Kind::Field)?;
        let (position, field) = self.field(&token)?;
        self.expect_mark(b')')?;
        if !field.index_missing {
            let reason = "'ismissing' requires defining the field with 'INDEXMISSING'";
            return Err(SearchError::MissingNotIndexed(field_error(reason, &token)));
        }
        Ok(Node::of(NodeKind::Missing(position)))
    }

    /// Behind `@name`.
    fn of_field(&mut self, token: &Token) -> Parsed<Option<Node>> {
        if let Kind::Comparison(comparison) = self.peek() {
            self.advance();
            return self.comparison(token, comparison).map(Some);
        }
        let mut names = vec![token.clone()];
        while self.take(b'|') {
            names.push(self.expect(Kind::Word)?);
        }
        self.expect_mark(b':')?;
        match self.peek() {
            Kind::Mark(b'{') if names.len() == 1 => self.tag(token).map(Some),
            Kind::Mark(b'[') if names.len() == 1 => self.range(token).map(Some),
            _ => self.of_text_fields(&names),
        }
    }

    fn of_text_fields(&mut self, names: &[Token]) -> Parsed<Option<Node>> {
        self.is_in_text_fields = true;
        let operand = self.text_operand()?;
        self.is_in_text_fields = false;
        // The original looks at a field when it has read all of its condition.
        let mut fields: FieldMask = 0;
        for name in names {
            let (position, _) = self.field_of(name, |kind| matches!(kind, FieldKind::Text { .. }), "TEXT")?;
            fields |= self.schema.bit(position);
        }
        Ok(operand.map(|mut node| {
            node.restrict(fields);
            node
        }))
    }

    /// A sign may precede the operand of a field.
    fn text_operand(&mut self) -> Parsed<Option<Node>> {
        match self.peek() {
            Kind::Mark(b'-' | b'~') => self.unary(),
            _ => self.tight_operand(),
        }
    }

    /// Attributes after it belong to the field's condition.
    fn tight_operand(&mut self) -> Parsed<Option<Node>> {
        let node = self.primary()?;
        self.bound_tightly(node)
    }

    pub(super) fn tag(&mut self, token: &Token) -> Parsed<Node> {
        let (field, _) = self.field_of(token, |kind| matches!(kind, FieldKind::Tag { .. }), "TAG")?;
        self.expect_mark(b'{')?;
        let mut values = vec![self.tag_value()?];
        while self.take(b'|') {
            values.push(self.tag_value()?);
        }
        self.expect_mark(b'}')?;
        Ok(Node::of(NodeKind::Tag { field, values }))
    }

    /// An affix, or words that are one value together.
    pub(super) fn tag_value(&mut self) -> Parsed<Node> {
        let token = self.advance();
        match token.kind {
            Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Wildcard => {
                let affix = self.affix(&token, <[u8]>::to_vec)?;
                return Ok(Node::of(NodeKind::Affix(affix)));
            }
            _ => self.next -= 1,
        }
        let mut words = vec![self.tag_word()?];
        while matches!(self.peek(), Kind::Word | Kind::Number | Kind::Parameter) || self.is_at_quoted_tag() {
            words.push(self.tag_word()?);
        }
        Ok(match words.len() {
            1 => words.remove(0),
            _ => Node::of(NodeKind::Every {
                children: words,
                exact: false,
            }),
        })
    }

    /// Parses a word, or words in quotes as a single value. Dialect 1 has no quotes here.
    fn tag_word(&mut self) -> Parsed<Node> {
        if !self.is_at_quoted_tag() {
            return Ok(Node::word(self.word_text()?));
        }
        let token = self.advance();
        Ok(Node::word(unescaped(&token.text)))
    }

    fn is_at_quoted_tag(&self) -> bool {
        self.peek() == Kind::Exact && !self.is_first
    }

    pub(super) fn range(&mut self, token: &Token) -> Parsed<Node> {
        self.expect_mark(b'[')?;
        if self.is_first && self.peek() == Kind::Word {
            return Err(self.unexpected());
        }
        if self.is_vector_range() {
            return self.vector_range(token);
        }
        if self.is_shape() {
            return self.shape(token);
        }
        if self.peek() == Kind::Word {
            // The original takes it for a predicate of shapes, and misses what follows.
            self.advance();
            if self.peek() == Kind::Number {
                self.advance();
            }
            return Err(self.unexpected());
        }
        let from_included = !self.take(b'(');
        let from = self.number()?;
        let (to_included, to) = match self.peek() {
            Kind::Mark(b']') if from_included && !self.is_first => (true, from),
            _ => (!self.take(b'('), self.number()?),
        };
        if from_included && to_included && self.is_at_number() {
            let (longitude, latitude) = (from, to);
            return self.circle(token, Place { longitude, latitude });
        }
        self.expect_mark(b']')?;
        let field = self.numeric_field(token)?;
        Ok(Node::of(NodeKind::Numeric(NumberRange {
            field,
            from,
            from_included,
            to,
            to_included,
        })))
    }

    /// After the center: radius, unit and the bracket.
    fn circle(&mut self, token: &Token, center: Place) -> Parsed<Node> {
        let radius = self.number()?;
        let unit = self.word_text()?;
        self.expect_mark(b']')?;
        let (field, _) = self.field_of(token, |kind| *kind == FieldKind::Geo, "GEO")?;
        let circle = Circle::new(center, radius, &String::from_utf8_lossy(&unit))?;
        Ok(Node::of(NodeKind::Geo { field, circle }))
    }

    fn comparison(&mut self, token: &Token, comparison: Comparison) -> Parsed<Node> {
        let field = self.numeric_field(token)?;
        let number = self.number()?;
        let (from, from_included, to, to_included) = match comparison {
            Comparison::Equal | Comparison::NotEqual => (number, true, number, true),
            Comparison::Less => (f64::NEG_INFINITY, true, number, false),
            Comparison::LessOrEqual => (f64::NEG_INFINITY, true, number, true),
            Comparison::Greater => (number, false, f64::INFINITY, true),
            Comparison::GreaterOrEqual => (number, true, f64::INFINITY, true),
        };
        let range = Node::of(NodeKind::Numeric(NumberRange {
            field,
            from,
            from_included,
            to,
            to_included,
        }));
        Ok(match comparison {
            Comparison::NotEqual => negated(range),
            _ => range,
        })
    }

    fn numeric_field(&self, token: &Token) -> Parsed<u16> {
        let (field, _) = self.field_of(token, |kind| matches!(kind, FieldKind::Numeric), "NUMERIC")?;
        Ok(field)
    }

    fn is_at_number(&self) -> bool {
        match self.peek() {
            Kind::Number | Kind::Parameter => true,
            Kind::Mark(b'-') => self.peek_behind() == Kind::Parameter,
            _ => false,
        }
    }

    /// The digits of a number, or the value of a parameter.
    fn number_text(&mut self) -> Parsed<Vec<u8>> {
        let token = self.advance();
        match token.kind {
            Kind::Number => Ok(token.text),
            Kind::Parameter => Ok(self.parameter(&token.text)?.to_vec()),
            _ => {
                self.next -= 1;
                Err(self.unexpected())
            }
        }
    }

    /// A number, or a parameter that holds one; a sign may precede the parameter.
    pub(super) fn number(&mut self) -> Parsed<f64> {
        let is_negative = self.peek() == Kind::Mark(b'-') && self.peek_behind() == Kind::Parameter;
        if is_negative {
            self.advance();
        }
        let text = self.number_text()?;
        let number = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse::<f64>().ok());
        let refused = || SearchError::Syntax(format!("Invalid numeric value ({})", String::from_utf8_lossy(&text)));
        let number = number.filter(|number| !number.is_nan()).ok_or_else(refused)?;
        Ok(if is_negative { -number } else { number })
    }

    pub(super) fn count(&mut self) -> Parsed<usize> {
        let text = self.number_text()?;
        let count = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
        count.ok_or_else(|| SearchError::Syntax(format!("Invalid value ({})", String::from_utf8_lossy(&text))))
    }

    fn field(&self, token: &Token) -> Parsed<(u16, &'a Field)> {
        let unknown = || SearchError::Syntax(field_error("Unknown field", token));
        self.schema.find(&token.text).ok_or_else(unknown)
    }

    pub(super) fn field_of(&self, token: &Token, is: fn(&FieldKind) -> bool, kind: &str) -> Parsed<(u16, &'a Field)> {
        let (position, field) = self.field(token)?;
        match is(&field.kind) {
            true => Ok((position, field)),
            false => Err(SearchError::Syntax(field_error(
                &format!("Expected a {kind} field"),
                token,
            ))),
        }
    }

    pub(super) fn parameter(&self, name: &[u8]) -> Parsed<&[u8]> {
        let name = String::from_utf8_lossy(name);
        let value = self.parameters.get(&*name);
        value
            .map(Vec::as_slice)
            .ok_or_else(|| SearchError::NoParameter(name.into_owned()))
    }

    /// A word verbatim, or the value of a parameter.
    pub(super) fn word_text(&mut self) -> Parsed<Vec<u8>> {
        let token = self.advance();
        match token.kind {
            Kind::Word | Kind::Number => Ok(token.text),
            Kind::Parameter => Ok(self.parameter(&token.text)?.to_vec()),
            _ => {
                self.next -= 1;
                Err(self.unexpected())
            }
        }
    }

    pub(super) fn peek(&self) -> Kind {
        self.tokens[self.next].kind
    }

    pub(super) fn next_token(&self) -> &Token {
        &self.tokens[self.next]
    }

    pub(super) fn peek_behind(&self) -> Kind {
        self.tokens.get(self.next + 1).map_or(Kind::End, |token| token.kind)
    }

    /// The next token. The end is not passed, but counts as taken.
    pub(super) fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        self.next += 1;
        if token.kind == Kind::End {
            self.tokens.push(token.clone());
        }
        token
    }

    /// Returns true if the next token is this word, in any case.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.peek() == Kind::Word && self.tokens[self.next].text.eq_ignore_ascii_case(word.as_bytes())
    }

    pub(super) fn take(&mut self, mark: u8) -> bool {
        let is_next = self.peek() == Kind::Mark(mark);
        self.next += usize::from(is_next);
        is_next
    }

    pub(super) fn expect_mark(&mut self, mark: u8) -> Parsed<()> {
        match self.take(mark) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    pub(super) fn expect(&mut self, kind: Kind) -> Parsed<Token> {
        match self.peek() == kind {
            true => Ok(self.advance()),
            false => Err(self.unexpected()),
        }
    }

    pub(super) fn unexpected(&self) -> SearchError {
        self.syntax_at(self.next)
    }

    /// The error names the position of the misplaced token, or of the last token if the query ends
    /// too early, and the last word up to there.
    fn syntax_at(&self, position: usize) -> SearchError {
        let is_end = self.tokens[position].kind == Kind::End;
        let at = self.tokens[position - usize::from(is_end && position > 0)].at;
        let words = self.tokens[..=position].iter().rev();
        let word = words
            .map(|token| (token.kind, &token.text))
            .find(|(kind, _)| !kind.is_mark());
        let near = word.map(|(_, text)| String::from_utf8_lossy(text)).unwrap_or_default();
        SearchError::Syntax(format!("Syntax error at offset {at} near {near}"))
    }
}

pub(super) fn field_error(reason: &str, token: &Token) -> String {
    format!(
        "{reason} at offset {} near {}",
        token.at,
        String::from_utf8_lossy(&token.text)
    )
}

fn is_missing(token: &Token) -> bool {
    token.text.eq_ignore_ascii_case(b"ismissing")
}

/// Two negations are none.
fn negated(node: Node) -> Node {
    match node.kind {
        NodeKind::Not(inner) if node.options.is_plain() => *inner,
        _ => Node::of(NodeKind::Not(Box::new(node))),
    }
}

/// A number is a word that has no stem.
fn number_word(text: &[u8]) -> Node {
    let mut node = Node::word(folded(text));
    node.options.verbatim = true;
    node
}

/// Joins two conditions. A first condition of the same kind absorbs the second, unless it is
/// limited to some fields.
fn joined(
    first: Option<Node>,
    second: Option<Node>,
    make: impl Fn(Vec<Node>) -> NodeKind,
    children: impl Fn(&mut NodeKind) -> Option<&mut Vec<Node>>,
) -> Option<Node> {
    let (mut first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (first, second) => return first.or(second),
    };
    if first.options.fields == ALL_FIELDS
        && let Some(children) = children(&mut first.kind)
    {
        children.push(second);
        return Some(first);
    }
    Some(Node::of(make(vec![first, second])))
}

/// Two alternatives as one condition.
pub(super) fn joined_any(first: Option<Node>, second: Option<Node>) -> Option<Node> {
    joined(first, second, NodeKind::Any, |kind| match kind {
        NodeKind::Any(children) => Some(children),
        _ => None,
    })
}

pub(super) fn joined_every(first: Option<Node>, second: Option<Node>) -> Option<Node> {
    let every = |children| NodeKind::Every { children, exact: false };
    joined(first, second, every, |kind| match kind {
        NodeKind::Every { children, exact: false } => Some(children),
        _ => None,
    })
}

/// Words in quotes must follow each other. Stop words are sought too, and never found.
pub(super) fn phrase(text: &[u8]) -> Node {
    const SEPARATORS: &[u8] = b" \t,./(){}[]:;~!@#%^&*-=+|'`\"<>?";
    let (mut words, mut word, mut escaped) = (Vec::new(), Vec::new(), false);
    for &byte in text {
        if SEPARATORS.contains(&byte) && !escaped {
            words.push(std::mem::take(&mut word));
        } else {
            word.push(byte);
        }
        escaped = !escaped && byte == b'\\';
    }
    words.push(word);
    let words = words.into_iter().filter(|word| !word.is_empty());
    let children = words.map(|word| Node::word(folded(&unescaped(&word)))).collect();
    let mut node = Node::of(NodeKind::Every { children, exact: true });
    node.options.verbatim = true;
    node
}

/// A backslash in a wildcard's text quotes the next byte for the query, for example a quotation
/// mark; `*` and `?` keep their meaning.
fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.iter();
    let next = || match bytes.next() {
        Some(b'\\') => bytes.next().or(Some(&b'\\')),
        other => other,
    };
    std::iter::from_fn(next).copied().collect()
}

fn set_attribute(node: &mut Node, name: &str, value: &str) -> Parsed<()> {
    let refused = || SearchError::Attribute(format!("Invalid value ({value}) for `{name}`"));
    match name.to_ascii_lowercase().as_str() {
        "weight" => {
            let weight = value
                .parse::<f64>()
                .ok()
                .filter(|weight| *weight >= 0.0 && weight.is_finite());
            node.options.weight = weight.ok_or_else(refused)?;
        }
        "slop" => {
            let slop = value
                .parse::<i32>()
                .ok()
                .filter(|slop| *slop >= -1)
                .ok_or_else(refused)?;
            node.options.slop = u32::try_from(slop).ok();
            node.options.names_order = slop >= 0;
        }
        "inorder" => {
            node.options.in_order = truth(value).ok_or_else(refused)?;
            node.options.names_order = true;
        }
        "phonetic" => node.options.sounds = Some(truth(value).ok_or_else(refused)?),
        _ => return Err(SearchError::Attribute(format!("Invalid attribute {name}"))),
    }
    Ok(())
}

fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
