//! A filter in JSON as clauses over the fields of a schema.
//!
//! ```text
//! filter:     { name: condition, .., $must | $and | $should | $or | $mustNot: operand, $boost }
//! operand:    { name: condition, .. }, each one is a clause | [filter, ..]
//! condition:  value, as $smart | { operator: value, .., $boost }
//! ```

use std::ops::Bound;

use serde_json::{Map, Value as Json};

use crate::upstash::analysis::{Analyzer, Token};
use crate::upstash::automata::{Automaton, DISTANCE_MAX, Near};
use crate::upstash::dates;
use crate::upstash::schema::{FieldType, Schema, TypedField};
use crate::upstash::value::{Value, facet};

/// Deepest nesting of a filter.
const DEPTH_MAX: usize = 32;

/// Most conditions and words of a filter.
const CLAUSES_MAX: usize = 1024;

/// Longest filter, in bytes.
pub const FILTER_BYTES_MAX: usize = 1 << 20;

/// The greatest distance of a phrase's word from its place.
const SLOP_MAX: u64 = 1000;

/// The worth of the ways in which smart matching finds words, the surest first: the words as a
/// phrase, near each other, one by one, and with an error.
const SMART_PHRASE: f32 = 10.0;
const SMART_NEAR: f32 = 5.0;
const SMART_WORD: f32 = 3.0;
const SMART_SLOP: u32 = 2;

/// A part of a filter. A clause that matches a document gives it a score.
#[derive(Clone, Debug)]
pub enum Clause {
    /// Every document, with a score of one.
    All,
    /// No document.
    Nothing,
    /// Documents with a term, by BM25.
    Term {
        /// The number of a TEXT field.
        field: u16,
        /// The word.
        word: String,
    },
    /// Documents with words in their order, by BM25 of all.
    Phrase {
        /// The number of a TEXT field.
        field: u16,
        /// Two words or more, with their places.
        words: Vec<(u32, String)>,
        /// The greatest distance of words from their places.
        slop: u32,
        /// The phrase must be followed by a word with this prefix.
        prefix: Option<(u32, String)>,
    },
    /// Documents with a term that a pattern matches, with a score of one.
    Pattern {
        /// The number of a TEXT field.
        field: u16,
        /// The pattern.
        automaton: Automaton,
    },
    /// Documents with a value, by how rare it is.
    Equal {
        /// The number of the field.
        field: u16,
        /// The bytes of the value.
        value: Vec<u8>,
    },
    /// Documents with a value between two, with a score of one.
    Range {
        /// The number of the field.
        field: u16,
        /// The first value.
        from: Bound<Vec<u8>>,
        /// The last value.
        to: Bound<Vec<u8>>,
    },
    /// Documents that match every clause of `must`, or a clause of `should` if `must` is empty, and
    /// no clause of `must_not`. The scores of all matching clauses are added.
    Boolean {
        /// All of them have to match.
        must: Vec<Clause>,
        /// They add to the score.
        should: Vec<Clause>,
        /// Documents that match one are left out.
        must_not: Vec<Clause>,
    },
    /// The same documents with another weight.
    Boost(f32, Box<Clause>),
}

/// Reads a filter. An empty one matches every document.
pub fn parse(schema: &Schema, filter: &[u8]) -> Result<Clause, String> {
    if filter.len() > FILTER_BYTES_MAX {
        return Err(format!("a filter has at most {FILTER_BYTES_MAX} bytes"));
    }
    let filter: Json = serde_json::from_slice(filter).map_err(|error| format!("invalid JSON in filter: {error}"))?;
    let Json::Object(filter) = filter else {
        return Err("filter must be a JSON object".into());
    };
    let mut parser = Parser {
        schema,
        analyzer: Analyzer::new(schema.language),
        clauses: 0,
    };
    parser.filter(&filter, 0)
}

/// A field of the schema, and its number there.
struct NumberedField {
    number: u16,
    definition: TypedField,
}

struct Parser<'p> {
    schema: &'p Schema,
    analyzer: Analyzer,
    clauses: usize,
}

impl Parser<'_> {
    fn filter(&mut self, filter: &Map<String, Json>, depth: usize) -> Result<Clause, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a filter nests at most {DEPTH_MAX} deep"));
        }
        let (mut must, mut should, mut must_not) = (Vec::new(), Vec::new(), Vec::new());
        let (mut boost, mut is_empty) = (None, true);
        for (name, value) in filter {
            is_empty &= name == "$boost";
            match name.as_str() {
                "$must" | "$and" => must.extend(self.operand(name, value, depth)?),
                "$should" => should.extend(self.operand(name, value, depth)?),
                "$or" => must.push(any(self.operand(name, value, depth)?)),
                "$mustNot" => must_not.extend(self.operand(name, value, depth)?),
                "$boost" => boost = Some(number(name, value)?),
                name => must.push(self.condition(name, value)?),
            }
        }
        let clause = match (must.len(), should.len(), must_not.len()) {
            _ if is_empty => Clause::All,
            (1, 0, 0) => must.remove(0),
            _ => Clause::Boolean { must, should, must_not },
        };
        Ok(boosted(clause, boost))
    }

    /// Reads the operand of an operator: one object of conditions, or several filters.
    fn operand(&mut self, name: &str, value: &Json, depth: usize) -> Result<Vec<Clause>, String> {
        match value {
            Json::Array(filters) => {
                let filters = filters.iter().map(|filter| match filter {
                    Json::Object(filter) => self.filter(filter, depth + 1),
                    _ => Err(format!("{name} must hold JSON objects")),
                });
                filters.collect()
            }
            Json::Object(conditions) => {
                let (mut clauses, mut boost) = (Vec::new(), None);
                for (name, value) in conditions {
                    if name == "$boost" {
                        boost = Some(number(name, value)?);
                        continue;
                    }
                    let single = Map::from_iter([(name.clone(), value.clone())]);
                    clauses.push(self.filter(&single, depth + 1)?);
                }
                Ok(clauses.into_iter().map(|clause| boosted(clause, boost)).collect())
            }
            _ => Err(format!("{name} must be a JSON object or array")),
        }
    }

    fn condition(&mut self, name: &str, value: &Json) -> Result<Clause, String> {
        if name.starts_with('$') {
            return Err(match name {
                "$ann" => "$ann needs an embedding model, which this server does not have".into(),
                _ => format!("Unknown operator: {name}"),
            });
        }
        let (number, definition) = self.schema.find(name).ok_or_else(|| format!("Unknown field: {name}"))?;
        let definition = definition.clone();
        let field = NumberedField { number, definition };
        let Json::Object(operators) = value else {
            return self.smart(&field, value);
        };
        self.operators(&field, operators)
    }

    fn operators(&mut self, field: &NumberedField, operators: &Map<String, Json>) -> Result<Clause, String> {
        let name = &field.definition.name;
        let (mut clauses, mut boost) = (Vec::new(), None);
        let (mut from, mut to, mut is_range) = (Bound::Unbounded, Bound::Unbounded, false);
        for (operator, value) in operators {
            is_range |= matches!(operator.as_str(), "$gt" | "$gte" | "$lt" | "$lte");
            match operator.as_str() {
                "$boost" => boost = Some(number(operator, value)?),
                "$eq" => clauses.push(self.equal(field, value)?),
                "$smart" => clauses.push(self.smart(field, value)?),
                "$in" => {
                    let Json::Array(values) = value else {
                        return Err(format!("$in of field '{name}' must be an array"));
                    };
                    let values = values.iter().map(|value| self.equal(field, value));
                    clauses.push(any(values.collect::<Result<_, _>>()?));
                }
                "$gt" | "$gte" => from = self.bound(&field.definition, operator, value)?,
                "$lt" | "$lte" => to = self.bound(&field.definition, operator, value)?,
                "$phrase" => clauses.push(self.phrase(field, value)?),
                "$fuzzy" => clauses.push(self.fuzzy(field, value)?),
                "$regex" => {
                    let pattern = text(field, operator, value)?;
                    let lower_case = !matches!(field.definition.kind, FieldType::Text { no_tokenize: true, .. });
                    let automaton = Automaton::regex(pattern, lower_case);
                    let automaton = automaton.map_err(|reason| format!("$regex of field '{name}': {reason}"))?;
                    self.add(1)?;
                    let field = field.number;
                    clauses.push(Clause::Pattern { field, automaton });
                }
                unknown => return Err(format!("Unknown field operator: {unknown}")),
            }
        }
        if is_range {
            self.add(1)?;
            let field = field.number;
            clauses.push(Clause::Range { field, from, to });
        }
        let clause = match clauses.len() {
            0 => return Err(format!("Field '{name}' has no operator")),
            1 => clauses.remove(0),
            _ => all(clauses),
        };
        Ok(boosted(clause, boost))
    }

    fn add(&mut self, count: usize) -> Result<(), String> {
        self.clauses += count;
        match self.clauses <= CLAUSES_MAX {
            true => Ok(()),
            false => Err(format!("a filter has at most {CLAUSES_MAX} conditions and words")),
        }
    }

    fn tokens(&mut self, field: &NumberedField, text: &str) -> Result<Vec<Token>, String> {
        let tokens = self.analyzer.tokens(field.definition.kind, text);
        self.add(tokens.len())?;
        Ok(tokens)
    }

    /// A word, or words as a phrase; any other value as it is.
    fn equal(&mut self, field: &NumberedField, value: &Json) -> Result<Clause, String> {
        if field.definition.kind.is_text() {
            let text = text(field, "$eq", value)?;
            let tokens = self.tokens(field, text)?;
            return Ok(phrase(field.number, tokens, 0));
        }
        self.add(1)?;
        let field_value = of_json(&field.definition, value)?;
        let equal = field_value.map(|value| Clause::Equal {
            field: field.number,
            value: value.sorted(),
        });
        Ok(equal.unwrap_or(Clause::Nothing))
    }

    fn smart(&mut self, field: &NumberedField, value: &Json) -> Result<Clause, String> {
        if !field.definition.kind.is_text() {
            return self.equal(field, value);
        }
        let value_text = text(field, "$smart", value)?;
        let quoted = value_text
            .strip_prefix('"')
            .and_then(|value_text| value_text.strip_suffix('"'));
        if let Some(quoted) = quoted {
            let tokens = self.tokens(field, quoted)?;
            return Ok(phrase(field.number, tokens, 0));
        }
        let tokens = self.tokens(field, value_text)?;
        let Some(last) = tokens.last().map(|token| token.term.clone()) else {
            return Ok(Clause::Nothing);
        };
        self.add(2 * tokens.len() + 3)?;
        let number = field.number;
        let words: Vec<String> = tokens.iter().map(|token| token.term.clone()).collect();
        let pattern = |word: &str, prefix: bool| {
            let word = Near {
                word: word.chars().collect(),
                distance: 1,
                swaps: true,
                prefix,
            };
            near(number, word)
        };
        let mut should = Vec::new();
        if tokens.len() > 1 {
            let (first, near) = (
                phrase(number, tokens, 0),
                self.analyzer.tokens(field.definition.kind, value_text),
            );
            should.push(boosted(first, Some(SMART_PHRASE)));
            should.push(boosted(phrase(number, near, SMART_SLOP), Some(SMART_NEAR)));
        }
        for word in words {
            let exact = Clause::Term {
                field: number,
                word: word.clone(),
            };
            should.push(boosted(exact, Some(SMART_WORD)));
            should.push(pattern(&word, false));
        }
        should.push(pattern(&last, true));
        Ok(any(should))
    }

    fn phrase(&mut self, field: &NumberedField, value: &Json) -> Result<Clause, String> {
        let name = &field.definition.name;
        let Json::Object(options) = value else {
            let text = text(field, "$phrase", value)?;
            let tokens = self.tokens(field, text)?;
            return Ok(phrase(field.number, tokens, 0));
        };
        let (mut phrase_text, mut slop, mut prefix) = (None, 0, false);
        for (option, value) in options {
            match option.as_str() {
                "value" => phrase_text = Some(text(field, "$phrase", value)?),
                "slop" => {
                    let wrong = || format!("slop of field '{name}' must be a number up to {SLOP_MAX}");
                    slop = value.as_u64().filter(|slop| *slop <= SLOP_MAX).ok_or_else(wrong)? as u32;
                }
                "prefix" => prefix = truth(option, value)?,
                unknown => return Err(format!("Unknown option of $phrase: {unknown}")),
            }
        }
        if slop > 0 && prefix {
            return Err("$phrase takes either slop or prefix".into());
        }
        let phrase_text = phrase_text.ok_or_else(|| format!("$phrase of field '{name}' has no value"))?;
        let mut tokens = self.tokens(field, phrase_text)?;
        if !prefix {
            return Ok(phrase(field.number, tokens, slop));
        }
        let Some(last) = tokens.pop() else {
            return Ok(Clause::Nothing);
        };
        if tokens.is_empty() {
            let automaton = Automaton::Prefix(last.term);
            return Ok(Clause::Pattern {
                field: field.number,
                automaton,
            });
        }
        let words = tokens.into_iter().map(|token| (token.position, token.term));
        Ok(Clause::Phrase {
            field: field.number,
            words: words.collect(),
            slop: 0,
            prefix: Some((last.position, last.term)),
        })
    }

    fn fuzzy(&mut self, field: &NumberedField, value: &Json) -> Result<Clause, String> {
        let name = &field.definition.name;
        let (mut word, mut distance, mut swaps, mut prefix) = (None, 1, true, false);
        match value {
            Json::Object(options) => {
                for (option, value) in options {
                    match option.as_str() {
                        "value" => word = Some(text(field, "$fuzzy", value)?),
                        "distance" => {
                            let wrong = || format!("distance of field '{name}' must be from 0 to {DISTANCE_MAX}");
                            let read = value.as_u64().filter(|distance| *distance <= DISTANCE_MAX as u64);
                            distance = read.ok_or_else(wrong)? as usize;
                        }
                        "transpositionCostOne" => swaps = truth(option, value)?,
                        "prefix" => prefix = truth(option, value)?,
                        unknown => return Err(format!("Unknown option of $fuzzy: {unknown}")),
                    }
                }
            }
            value => word = Some(text(field, "$fuzzy", value)?),
        }
        let word = word.ok_or_else(|| format!("$fuzzy of field '{name}' has no value"))?;
        let tokens = self.tokens(field, word)?;
        let pattern = |token: &Token| {
            let word = Near {
                word: token.term.chars().collect(),
                distance,
                swaps,
                prefix,
            };
            near(field.number, word)
        };
        Ok(match tokens.len() {
            0 => Clause::Nothing,
            1 => pattern(&tokens[0]),
            _ => all(tokens.iter().map(pattern).collect()),
        })
    }

    /// An end of a range. Whole numbers are compared with others by the next that is in the range.
    fn bound(&self, field: &TypedField, operator: &str, value: &Json) -> Result<Bound<Vec<u8>>, String> {
        let is_range = field.kind.is_numeric() || matches!(field.kind, FieldType::Date | FieldType::Keyword);
        if !is_range {
            let (name, kind) = (&field.name, field.kind.name());
            return Err(format!(
                "Operator {operator} does not fit field '{name}' of type {kind}"
            ));
        }
        let (is_low, is_open) = (operator.starts_with("$g"), operator.len() == 3);
        let of = |value: Value| match is_open {
            true => Bound::Excluded(value.sorted()),
            false => Bound::Included(value.sorted()),
        };
        if let Some(value) = of_json(field, value)? {
            return Ok(of(value));
        }
        // A number between two integers, or out of range.
        let number = value.as_f64().unwrap_or(0.0);
        let next = if is_low { number.ceil() } else { number.floor() };
        let sorted = match field.kind {
            FieldType::U64 if next >= 0.0 => Value::U64(next as u64),
            FieldType::U64 => Value::U64(0),
            _ => Value::I64(next as i64),
        };
        let is_beyond = match field.kind {
            FieldType::U64 => !(0.0..18_446_744_073_709_551_616.0).contains(&next),
            FieldType::Date => true,
            _ => next.abs() >= 9_223_372_036_854_775_808.0,
        };
        Ok(match is_beyond {
            false => Bound::Included(sorted.sorted()),
            // Everything is above the least, or below the greatest.
            true if is_low == (next < 0.0) => Bound::Unbounded,
            true if is_low => Bound::Excluded(vec![u8::MAX; 8]),
            true => Bound::Excluded(vec![0; 8]),
        })
    }
}

fn all(must: Vec<Clause>) -> Clause {
    Clause::Boolean {
        must,
        should: Vec::new(),
        must_not: Vec::new(),
    }
}

fn any(mut should: Vec<Clause>) -> Clause {
    match should.len() {
        0 => Clause::Nothing,
        1 => should.remove(0),
        _ => Clause::Boolean {
            must: Vec::new(),
            should,
            must_not: Vec::new(),
        },
    }
}

fn boosted(clause: Clause, boost: Option<f32>) -> Clause {
    match boost {
        Some(boost) => Clause::Boost(boost, Box::new(clause)),
        None => clause,
    }
}

fn phrase(field: u16, mut tokens: Vec<Token>, slop: u32) -> Clause {
    match tokens.len() {
        0 => Clause::Nothing,
        1 => Clause::Term {
            field,
            word: tokens.remove(0).term,
        },
        _ => Clause::Phrase {
            field,
            words: tokens.into_iter().map(|token| (token.position, token.term)).collect(),
            slop,
            prefix: None,
        },
    }
}

fn near(field: u16, word: Near) -> Clause {
    let automaton = Automaton::Near(word);
    Clause::Pattern { field, automaton }
}

fn number(name: &str, value: &Json) -> Result<f32, String> {
    let number = value
        .as_f64()
        .map(|number| number as f32)
        .filter(|number| number.is_finite());
    number.ok_or_else(|| format!("{name} must be a number"))
}

fn truth(name: &str, value: &Json) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("{name} must be true or false"))
}

fn text<'j>(field: &NumberedField, operator: &str, value: &'j Json) -> Result<&'j str, String> {
    let name = &field.definition.name;
    if !field.definition.kind.is_text() {
        let kind = field.definition.kind.name();
        return Err(format!(
            "Operator {operator} does not fit field '{name}' of type {kind}"
        ));
    }
    value.as_str().ok_or_else(|| format!("Field '{name}' takes a string"))
}

/// A value of the filter as one of the field; nothing if no document can have it.
fn of_json(field: &TypedField, value: &Json) -> Result<Option<Value>, String> {
    let wrong = |expected: &str| Err(format!("Field '{}' takes {expected}", field.name));
    Ok(match (field.kind, value) {
        (FieldType::U64, Json::Number(number)) => number
            .as_u64()
            .or_else(|| {
                let number = number.as_f64()?;
                let is_whole = number.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(&number);
                is_whole.then_some(number as u64)
            })
            .map(Value::U64),
        (FieldType::I64, Json::Number(number)) => number
            .as_i64()
            .or_else(|| {
                let number = number.as_f64()?;
                let is_whole = number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0;
                is_whole.then_some(number as i64)
            })
            .map(Value::I64),
        (FieldType::F64, Json::Number(number)) => number.as_f64().map(Value::F64),
        (FieldType::U64 | FieldType::I64 | FieldType::F64, _) => return wrong("a number"),
        (FieldType::Bool, Json::Bool(truth)) => Some(Value::Bool(*truth)),
        (FieldType::Bool, _) => return wrong("true or false"),
        (FieldType::Date, Json::String(text)) => match dates::parse(text) {
            Some(micros) => Some(Value::Date(micros)),
            None => return wrong("a date as RFC 3339 writes it"),
        },
        (FieldType::Date, Json::Number(number)) if number.is_i64() => {
            let millis = number.as_i64().expect("a whole number");
            millis.checked_mul(1000).map(Value::Date)
        }
        (FieldType::Date, _) => return wrong("a date as RFC 3339 writes it"),
        (FieldType::Keyword, Json::String(text)) => Some(Value::Text(text.clone())),
        (FieldType::Facet, Json::String(text)) => match facet(text) {
            Some(path) => Some(Value::Text(path)),
            None => return wrong("a path that begins with /"),
        },
        (FieldType::Keyword | FieldType::Facet | FieldType::Text { .. }, _) => return wrong("a string"),
    })
}

impl Clause {
    /// A word of a field as a term.
    pub(super) fn term(field: u16, word: &str) -> Vec<u8> {
        [&field.to_be_bytes(), word.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::analysis::Language;

    fn schema() -> Schema {
        let fields = ["TEXT", "U64", "DATE", "KEYWORD", "FACET", "BOOL", "F64"].map(|kind| TypedField {
            name: kind.to_ascii_lowercase(),
            kind: FieldType::of_name(kind).unwrap(),
            fast: true,
            from: None,
        });
        Schema::new(fields.into(), Language::English).unwrap()
    }

    fn parsed(filter: &str) -> Result<Clause, String> {
        parse(&schema(), filter.as_bytes())
    }

    #[test]
    fn wrong_filters_say_why() {
        for (filter, expected) in [
            ("[]", "filter must be a JSON object"),
            (r#"{"nope": 1}"#, "Unknown field: nope"),
            (r#"{"text": {"$not": 1}}"#, "Unknown field operator: $not"),
            (r#"{"$xor": []}"#, "Unknown operator: $xor"),
            (r#"{"u64": "one"}"#, "Field 'u64' takes a number"),
            (
                r#"{"u64": {"$phrase": "a"}}"#,
                "Operator $phrase does not fit field 'u64' of type U64",
            ),
            (
                r#"{"text": {"$gt": "a"}}"#,
                "Operator $gt does not fit field 'text' of type TEXT",
            ),
            (
                r#"{"text": {"$fuzzy": {"value": "a", "distance": 3}}}"#,
                "distance of field 'text' must be from 0 to 2",
            ),
            (
                r#"{"text": {"$phrase": {"value": "a", "slop": 1, "prefix": true}}}"#,
                "$phrase takes either slop or prefix",
            ),
            (
                r#"{"date": "today"}"#,
                "Field 'date' takes a date as RFC 3339 writes it",
            ),
            (r#"{"facet": "a/b"}"#, "Field 'facet' takes a path that begins with /"),
            (r#"{"text": {}}"#, "Field 'text' has no operator"),
        ] {
            assert_eq!(parsed(filter).unwrap_err(), expected, "{filter}");
        }
        assert!(parsed("{").unwrap_err().starts_with("invalid JSON in filter"));
        let deep = format!("{}{{}}{}", r#"{"$must":["#.repeat(40), "]}".repeat(40));
        assert_eq!(parsed(&deep).unwrap_err(), "a filter nests at most 32 deep");
        let wide = format!(r#"{{"text": {{"$eq": "{}"}}}}"#, "a ".repeat(2000));
        assert_eq!(
            parsed(&wide).unwrap_err(),
            "a filter has at most 1024 conditions and words"
        );
    }

    #[test]
    fn ends_of_ranges_between_whole_numbers_are_the_next_within() {
        let low = |filter: &str| match parsed(filter).unwrap() {
            Clause::Range { from, to, .. } => (from, to),
            other => panic!("{other:?}"),
        };
        let number = |number| Value::U64(number).sorted();
        assert_eq!(
            low(r#"{"u64": {"$gt": 10.5}}"#),
            (Bound::Included(number(11)), Bound::Unbounded)
        );
        assert_eq!(
            low(r#"{"u64": {"$lt": 10.5}}"#),
            (Bound::Unbounded, Bound::Included(number(10)))
        );
        assert_eq!(
            low(r#"{"u64": {"$gt": 10}}"#),
            (Bound::Excluded(number(10)), Bound::Unbounded)
        );
        assert_eq!(low(r#"{"u64": {"$gt": -1}}"#), (Bound::Unbounded, Bound::Unbounded));
        assert_eq!(
            low(r#"{"u64": {"$lt": -1}}"#),
            (Bound::Unbounded, Bound::Excluded(number(0)))
        );
    }
}
