//! The parts of a query that are about vectors.
//!
//! ```text
//! near    = "[" VECTOR_RANGE radius $vector "]"
//! nearest = "[" KNN count @field $vector { name value } [ AS name ] "]" [ attributes ]
//! ```

use crate::error::SearchError;
use crate::index::schema::{Field, FieldKind};
use crate::index::vector_kind::VectorKind;
use crate::redis::query::lexer::{Kind, Token};
use crate::redis::query::parser::{Parsed, Parser, field_error};
use crate::redis::query::tree::{HybridPolicy, Nearest, NearestOptions, Node, NodeKind, Query, VectorRange};

/// Attributes of the parts that are about vectors only.
const OF_VECTORS: [&str; 5] = [
    "yield_distance_as",
    "epsilon",
    "ef_runtime",
    "hybrid_policy",
    "batch_size",
];

fn refused(reason: &str) -> SearchError {
    SearchError::Value(format!("Error parsing vector similarity parameters: {reason}"))
}

fn positive(value: &str) -> Parsed<usize> {
    let number = value.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| refused("Invalid value was given"))
}

impl<'a> Parser<'a> {
    fn vector_field(&self, token: &Token) -> Parsed<(u16, &'a Field, &'a VectorKind)> {
        let (position, field) = self.field_of(token, |kind| matches!(kind, FieldKind::Vector(_)), "VECTOR")?;
        match &field.kind {
            FieldKind::Vector(kind) => Ok((position, field, kind)),
            _ => unreachable!("the field's kind was asked for"),
        }
    }

    /// A parameter that holds a vector of this kind, and its name.
    fn vector(&mut self, kind: &VectorKind) -> Parsed<(Vec<u8>, String)> {
        let parameter = self.expect(Kind::Parameter)?;
        let vector = self.parameter(&parameter.text)?.to_vec();
        kind.query(&vector)?;
        Ok((vector, String::from_utf8_lossy(&parameter.text).into_owned()))
    }

    pub(super) fn is_vector_range(&self) -> bool {
        self.is_word("VECTOR_RANGE")
    }

    /// At `VECTOR_RANGE`.
    pub(super) fn vector_range(&mut self, token: &Token) -> Parsed<Node> {
        self.advance();
        let radius = self.number()?;
        if self.peek() != Kind::Parameter {
            return Err(self.unexpected());
        }
        let (field, _, kind) = self.vector_field(token)?;
        let (vector, parameter) = self.vector(kind)?;
        self.expect_mark(b']')?;
        if radius < 0.0 {
            let text =
                format!("Error parsing vector similarity query: negative radius ({radius}) given in a range query");
            return Err(SearchError::Value(text));
        }
        Ok(Node::of(NodeKind::VectorRange(Box::new(VectorRange {
            field,
            radius,
            vector,
            parameter,
            distance_name: None,
            epsilon: None,
        }))))
    }

    pub(super) fn is_of_vectors(&self, node: &Node, attribute: &str) -> bool {
        let is_range = matches!(node.kind, NodeKind::VectorRange(_));
        is_range && OF_VECTORS.iter().any(|name| name.eq_ignore_ascii_case(attribute))
    }

    pub(super) fn set_vector_attribute(&self, node: &mut Node, name: &str, value: &str) -> Parsed<()> {
        let NodeKind::VectorRange(range) = &mut node.kind else {
            unreachable!("the attribute is for ranges of vectors");
        };
        let FieldKind::Vector(kind) = &self.schema.field(range.field).kind else {
            unreachable!("a range is of a VECTOR field");
        };
        match name.to_ascii_lowercase().as_str() {
            "yield_distance_as" => range.distance_name = Some(value.to_owned()),
            "epsilon" if kind.graph().is_some() => {
                let epsilon = value.parse::<f64>().ok().filter(|epsilon| *epsilon > 0.0);
                range.epsilon = Some(epsilon.ok_or_else(|| refused("Invalid value was given"))?);
            }
            "hybrid_policy" | "batch_size" => {
                return Err(refused("hybrid query attributes were sent for a non-hybrid query"));
            }
            _ => return Err(refused("Invalid option")),
        }
        Ok(())
    }

    /// Behind `=>`. `filters` if not every document is looked at.
    pub(super) fn nearest(&mut self, filters: bool) -> Parsed<Nearest> {
        self.expect_mark(b'[')?;
        let command = self.expect(Kind::Word)?;
        if !command.text.eq_ignore_ascii_case(b"KNN") {
            let reason = "Syntax error: Expecting Vector Similarity command";
            return Err(SearchError::Syntax(field_error(reason, &command)));
        }
        let count = self.count()?;
        let token = self.expect(Kind::Field)?;
        let (field, field_definition, kind) = self.vector_field(&token)?;
        let (vector, parameter) = self.vector(kind)?;
        let mut attributes = self.named_values()?;
        let mut name = None;
        if self.is_word("AS") {
            self.advance();
            name = Some(String::from_utf8_lossy(&self.word_text()?).into_owned());
        }
        self.expect_mark(b']')?;
        for (attribute, value) in self.attributes_behind()? {
            match attribute.to_ascii_lowercase().as_str() {
                "yield_distance_as" if name.is_some() => {
                    let attribute_name = name.unwrap_or_default();
                    let text =
                        format!("Distance field was specified twice for vector query: {attribute_name} and {value}");
                    return Err(SearchError::Attribute(text));
                }
                "yield_distance_as" => name = Some(value),
                "weight" => {}
                attribute_name if OF_VECTORS.contains(&attribute_name) => attributes.push((attribute, value)),
                _ => return Err(SearchError::Attribute(format!("Invalid attribute {attribute}"))),
            }
        }
        Ok(Nearest {
            count,
            field,
            vector,
            parameter,
            distance_name: name.unwrap_or_else(|| format!("__{}_score", field_definition.name)),
            options: options(kind, &attributes, filters)?,
        })
    }

    /// Names with their values, up to `AS` or the bracket.
    fn named_values(&mut self) -> Parsed<Vec<(String, String)>> {
        let mut attributes = Vec::new();
        while self.peek() == Kind::Word && !self.is_word("AS") {
            let name = self.advance();
            let value = self.word_text()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            attributes.push((text(&name.text), text(&value)));
        }
        Ok(attributes)
    }

    fn attributes_behind(&mut self) -> Parsed<Vec<(String, String)>> {
        if self.peek() != Kind::Arrow {
            return Ok(Vec::new());
        }
        self.advance();
        self.expect_mark(b'{')?;
        self.attributes()
    }

    /// Refuses names of distances that are repeated, or that are fields.
    pub(super) fn check_names(&self, query: &Query) -> Parsed<()> {
        let names = query.distance_names();
        for (at, name) in names.iter().enumerate() {
            if self.schema.find(name.as_bytes()).is_some() {
                return Err(SearchError::Value(format!(
                    "Property `{name}` already exists in schema"
                )));
            }
            if names[..at].contains(name) {
                return Err(SearchError::Value(format!(
                    "Property `{name}` specified more than once"
                )));
            }
        }
        Ok(())
    }
}

fn options(kind: &VectorKind, attributes: &[(String, String)], filters: bool) -> Parsed<NearestOptions> {
    let mut options = NearestOptions::default();
    for (at, (name, value)) in attributes.iter().enumerate() {
        if attributes[..at]
            .iter()
            .any(|(other_name, _)| other_name.eq_ignore_ascii_case(name))
        {
            return Err(refused("Parameter was specified twice"));
        }
        match name.to_ascii_lowercase().as_str() {
            "ef_runtime" if kind.graph().is_some() => options.candidates = Some(positive(value)?),
            "epsilon" if kind.graph().is_some() => {
                return Err(refused("range query attributes were sent for a non-range query"));
            }
            "batch_size" => options.batch_size = Some(positive(value)?),
            "hybrid_policy" => {
                options.policy = Some(match value.to_ascii_uppercase().as_str() {
                    "ADHOC_BF" => HybridPolicy::AdHoc,
                    "BATCHES" => HybridPolicy::Batches,
                    _ => return Err(refused("invalid hybrid policy was given")),
                });
            }
            _ => return Err(refused("Invalid option")),
        }
    }
    if !filters && (options.policy.is_some() || options.batch_size.is_some()) {
        return Err(refused("hybrid query attributes were sent for a non-hybrid query"));
    }
    match options {
        NearestOptions {
            policy: Some(HybridPolicy::AdHoc),
            batch_size: Some(_),
            ..
        } => Err(refused("'batch size' is irrelevant for 'ADHOC_BF' policy")),
        NearestOptions {
            policy: Some(HybridPolicy::AdHoc),
            candidates: Some(_),
            ..
        } => Err(refused("'EF_RUNTIME' is irrelevant for 'ADHOC_BF' policy")),
        options => Ok(options),
    }
}
