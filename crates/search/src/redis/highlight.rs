//! Marks the words of a query in the texts of documents, and cuts out the parts around them.
//!
//! Where a document has the words is known by their positions among all of its words, so its TEXT
//! fields are split into words again. Lengths are those of the original: a fragment holds words
//! that are less than [`APART_MAX`] words apart, and a word of the context is taken to have
//! [`WORD_BYTES`] bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::hits::Place;
use crate::index::document::POSITIONS_BETWEEN_VALUES;
use crate::index::schema::{Field, FieldKind, Schema};
use crate::text::analysis::{is_separator, spans};
use crate::text::marks;

/// Words that are so far apart are in two fragments.
const APART_MAX: u32 = 8;

/// The approximate length of a word of the context, in bytes.
const WORD_BYTES: usize = 6;

/// The tags around a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Before it.
    pub open: Vec<u8>,
    /// Behind it.
    pub close: Vec<u8>,
}

impl Default for Tags {
    fn default() -> Tags {
        Tags {
            open: b"<b>".to_vec(),
            close: b"</b>".to_vec(),
        }
    }
}

/// The extent of a text's excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The most fragments.
    pub fragments: usize,
    /// The approximate number of words around the matched words in each fragment.
    pub words: usize,
    /// The text after each fragment.
    pub separator: Vec<u8>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            fragments: 3,
            words: 20,
            separator: b"... ".to_vec(),
        }
    }
}

/// A word of the query in a text.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    span: Range<usize>,
    /// Its number among the text's words, without stop words.
    number: u32,
    term: usize,
    rarity: f64,
}

/// The words of a query in a field's text, which is the first if it has several.
struct OfField {
    text: Vec<u8>,
    found: Vec<Found>,
}

/// The matched words of a query in one document.
pub struct Matches(BTreeMap<u16, OfField>);

impl Matches {
    /// Looks for the places of a hit in the texts of its fields, of which one may have several.
    /// `documents` is how many there are.
    pub fn find(
        schema: &Schema,
        places: &[Place],
        documents: u64,
        mut texts: impl FnMut(&Field) -> Vec<Vec<u8>>,
    ) -> Matches {
        let mut positions = BTreeMap::new();
        let mut terms: BTreeMap<&[u8], usize> = BTreeMap::new();
        for place in places {
            let next = terms.len();
            let term = *terms.entry(&*place.term).or_insert(next);
            let term_documents = place.documents.max(1) as f64;
            let rarity = (1.0 + (documents as f64 + 1.0) / term_documents).log2().floor();
            positions.entry(place.position).or_insert((term, rarity));
        }
        let (mut position, mut fields_found) = (0_u32, BTreeMap::new());
        for (at, field) in schema.fields() {
            if !matches!(field.kind, FieldKind::Text { .. }) || field.no_index {
                continue;
            }
            for (number, text) in texts(field).into_iter().enumerate() {
                if number > 0 {
                    position = position.saturating_add(POSITIONS_BETWEEN_VALUES);
                }
                let first = position;
                let mut occurrences = Vec::new();
                for token in spans(&text).filter(|token| !schema.stop_words.contains(&token.term)) {
                    position += 1;
                    if let Some(&(term, rarity)) = positions.get(&position) {
                        occurrences.push(Found {
                            span: token.span,
                            number: position - first,
                            term,
                            rarity,
                        });
                    }
                }
                fields_found.entry(at).or_insert(OfField {
                    text,
                    found: occurrences,
                });
            }
        }
        Matches(fields_found)
    }

    /// Upper bound on the size of what [`Matches::shown`] makes, in bytes: marks and separators may
    /// be much longer than the text.
    pub fn shown_bytes_max(&self, field: u16, text: &[u8], tags: Option<&Tags>, summary: Option<&Summary>) -> usize {
        let words = self.0.get(&field).map_or(0, |field_matches| field_matches.found.len());
        let tag_bytes = tags.map_or(0, |tags| tags.open.len().saturating_add(tags.close.len()));
        let separators = summary.map_or(0, |summary| {
            summary.fragments.min(words).saturating_mul(summary.separator.len())
        });
        text.len()
            .saturating_add(words.saturating_mul(tag_bytes))
            .saturating_add(separators)
    }

    /// The text of a field with its words marked, or parts of it. Anything else that is shown of
    /// the field, as an array of its texts, stays as it is.
    pub fn shown(&self, field: u16, text: &[u8], tags: Option<&Tags>, summary: Option<&Summary>) -> Vec<u8> {
        let Some(field_matches) = self.0.get(&field).filter(|field_matches| field_matches.text == text) else {
            return text.to_vec();
        };
        let occurrences = &field_matches.found;
        match summary {
            None => marked(text, 0..text.len(), occurrences, tags),
            Some(summary) if !occurrences.is_empty() => summarized(text, occurrences, tags, summary),
            Some(summary) if tags.is_none() => text[..beginning(text, summary)].to_vec(),
            Some(_) => text.to_vec(),
        }
    }
}

fn marked(text: &[u8], range: Range<usize>, occurrences: &[Found], tags: Option<&Tags>) -> Vec<u8> {
    let Some(tags) = tags else {
        return text[range].to_vec();
    };
    let spans = occurrences.iter().map(|word| word.span.clone());
    marks::marked(text, range, spans, &tags.open, &tags.close)
}

/// The length of the excerpt from a text without matched words: whole words from its start.
fn beginning(text: &[u8], summary: &Summary) -> usize {
    let words = summary.fragments.saturating_mul(summary.words).saturating_add(1);
    let mut end = words.saturating_mul(WORD_BYTES).min(text.len());
    while end > 1 && !is_separator(text[end - 1]) {
        end -= 1;
    }
    while end > 1 && text[end - 1].is_ascii_whitespace() {
        end -= 1;
    }
    end
}

/// Matched words that are near each other.
struct Fragment<'f> {
    found: &'f [Found],
    score: f64,
}

impl<'f> Fragment<'f> {
    fn of(occurrences: &'f [Found]) -> Fragment<'f> {
        let mut terms = BTreeSet::new();
        let firsts = occurrences.iter().filter(|word| terms.insert(word.term));
        let score = firsts.map(|word| word.rarity).sum();
        Fragment {
            found: occurrences,
            score,
        }
    }

    fn range(&self) -> Range<usize> {
        self.found[0].span.start..self.found[self.found.len() - 1].span.end
    }

    /// The number of its other words.
    fn others(&self) -> usize {
        let words = self.found[self.found.len() - 1].number - self.found[0].number + 1;
        words as usize - self.found.len()
    }
}

fn summarized(text: &[u8], occurrences: &[Found], tags: Option<&Tags>, summary: &Summary) -> Vec<u8> {
    let near = |a: &Found, b: &Found| b.number - a.number - 1 < APART_MAX;
    let mut fragments: Vec<Fragment<'_>> = occurrences.chunk_by(near).map(Fragment::of).collect();
    fragments.sort_by(|a, b| b.score.total_cmp(&a.score));
    fragments.truncate(summary.fragments);
    fragments.sort_by_key(|fragment| fragment.range().start);
    let mut out = Vec::new();
    for (at, fragment) in fragments.iter().enumerate() {
        let range = fragment.range();
        let around = summary
            .words
            .saturating_sub(fragment.others())
            .saturating_mul(WORD_BYTES)
            / 2;
        let least = at.checked_sub(1).map_or(0, |before| fragments[before].range().end);
        let most = fragments.get(at + 1).map_or(text.len(), |behind| behind.range().start);
        let start = range.start.saturating_sub(around).max(least);
        let end = range.end.saturating_add(around).min(most);
        out.extend_from_slice(before(&text[start..range.start]));
        out.extend(marked(text, range.clone(), fragment.found, tags));
        out.extend_from_slice(behind(&text[range.end..end]));
        out.extend_from_slice(&summary.separator);
    }
    out
}

/// Without the word that is cut, and what separates it from the next.
fn before(context: &[u8]) -> &[u8] {
    let cut = context.iter().take_while(|byte| !is_separator(**byte)).count();
    let context = &context[cut..];
    let separators = context.iter().take_while(|byte| is_separator(**byte)).count();
    &context[separators..]
}

fn behind(mut context: &[u8]) -> &[u8] {
    while context.len() > 1 && !is_separator(context[context.len() - 1]) {
        context = &context[..context.len() - 1];
    }
    while context.len() > 1 && is_separator(context[context.len() - 1]) {
        context = &context[..context.len() - 1];
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str = "Redis is an open source in-memory data structure store. It is used as a database, cache and \
                         message broker. Redis provides data structures such as strings.";

    fn shown(text: &str, words: &[&str], tags: Option<&Tags>, summary: Option<&Summary>) -> String {
        let schema = Schema::new(vec![Field::text("a", 1.0), Field::text("b", 1.0)]).unwrap();
        let tokens: Vec<_> = spans(text.as_bytes())
            .filter(|token| !schema.stop_words.contains(&token.term))
            .collect();
        let places = tokens
            .iter()
            .zip(3..)
            .filter(|(token, _)| words.iter().any(|word| word.as_bytes() == token.term));
        let places: Vec<_> = places
            .map(|(token, position)| Place {
                position,
                term: token.term.as_slice().into(),
                documents: 1,
            })
            .collect();
        let matches = Matches::find(&schema, &places, 3, |field| {
            vec![if field.name == "a" {
                b"two words".to_vec()
            } else {
                text.into()
            }]
        });
        let output = matches.shown(1, text.as_bytes(), tags, summary);
        assert!(output.len() <= matches.shown_bytes_max(1, text.as_bytes(), tags, summary));
        String::from_utf8(output).unwrap()
    }

    fn summary(words: usize) -> Summary {
        Summary {
            words,
            ..Summary::default()
        }
    }

    /// As the original showed them.
    #[test]
    fn texts_are_shown_as_the_original_does() {
        let tags = Tags::default();
        assert_eq!(
            shown("hello world", &["hello"], Some(&tags), None),
            "<b>hello</b> world"
        );
        let short = summary(4);
        assert_eq!(
            shown(REDIS, &["database"], None, Some(&short)),
            "used as a database, cache and... "
        );
        assert_eq!(
            shown(REDIS, &["database"], None, Some(&Summary::default())),
            "source in-memory data structure store. It is used as a database, cache and message broker. Redis provides \
             data structures... "
        );
        assert_eq!(
            shown(REDIS, &["database", "redis"], Some(&tags), Some(&summary(5))),
            "<b>Redis</b> is an open source in-memory data structure store. It is used as a <b>database</b>, cache and \
             message broker. <b>Redis</b>... "
        );
        assert_eq!(
            shown("hello world", &["hello"], Some(&tags), Some(&summary(1))),
            "<b>hello</b> ... "
        );
        assert_eq!(
            shown(REDIS, &[], None, Some(&summary(3))),
            "Redis is an open source in-memory data structure store. It"
        );
        assert_eq!(shown(REDIS, &[], Some(&tags), Some(&summary(3))), REDIS);
    }

    /// Positions leave a gap of 100 between texts of a field, and continue in the next field.
    #[test]
    fn of_several_texts_the_first_is_marked() {
        let schema = Schema::new(vec![Field::text("a", 1.0), Field::text("b", 1.0)]).unwrap();
        let positions = [2, 102, 103].map(|position| Place {
            position,
            term: b"word".as_slice().into(),
            documents: 1,
        });
        let matches = Matches::find(&schema, &positions, 1, |field| match field.name.as_str() {
            "a" => vec![b"one word".to_vec(), b"word".to_vec()],
            _ => vec![b"word two".to_vec()],
        });
        let tags = Tags::default();
        let output = |field, text: &[u8]| String::from_utf8(matches.shown(field, text, Some(&tags), None)).unwrap();
        assert_eq!(output(0, b"one word"), "one <b>word</b>");
        assert_eq!(output(1, b"word two"), "<b>word</b> two");
        let all = br#"["one word","word"]"#;
        assert_eq!(output(0, all).as_bytes(), all);
    }

    #[test]
    fn any_text_is_shown() {
        let none = Summary {
            fragments: 0,
            ..Summary::default()
        };
        assert_eq!(shown(REDIS, &["database"], None, Some(&none)), "");
        assert_eq!(shown("", &[], None, Some(&summary(usize::MAX))), "");
    }
}
