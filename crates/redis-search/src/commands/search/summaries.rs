//! SUMMARIZE and HIGHLIGHT of FT.SEARCH: parts of a hit's texts around the query's words, and marks
//! for these.

use quartet_layer_redis::module_api::ErrorReply;
use quartet_search::error::SearchError;
use quartet_search::index::schema::{FieldKind, Schema};
use quartet_search::redis::highlight::{Matches, Summary, Tags};

use crate::errors::IntoReply;
use crate::indexes::{Accepted, Definition, Words, refused};

/// A change and the fields that it is made to; all if there are no names.
struct Choice<T> {
    fields: Vec<Vec<u8>>,
    what: T,
}

impl<T> Choice<T> {
    fn of(&self, name: &str) -> Option<&T> {
        let is_chosen = self.fields.is_empty() || self.fields.iter().any(|field| field == name.as_bytes());
        is_chosen.then_some(&self.what)
    }
}

/// The arguments of both.
#[derive(Default)]
pub struct Summaries {
    summary: Option<Choice<Summary>>,
    tags: Option<Choice<Tags>>,
}

impl Summaries {
    pub fn are_asked(&self) -> bool {
        self.summary.is_some() || self.tags.is_some()
    }

    /// Reads the next argument if it is one of these.
    pub fn take(&mut self, words: &mut Words<'_>) -> Result<bool, ErrorReply> {
        if words.take("SUMMARIZE") {
            self.summary = Some(summarize(words).ok_or_else(|| refused("Bad arguments for SUMMARIZE"))?);
        } else if words.take("HIGHLIGHT") {
            self.tags = Some(highlight(words).ok_or_else(|| refused("Bad arguments for HIGHLIGHT"))?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Refuses names that are no fields of the index, and indexes that were made without this.
    pub fn check(&self, definition: &Definition) -> Result<(), ErrorReply> {
        let is_off = |option: &Accepted| matches!(option.0, "NOOFFSETS" | "NOHL");
        if self.are_asked() && definition.options.iter().any(is_off) {
            return Err(refused(
                "Cannot use highlight/summarize because NOOFSETS was specified at index level",
            ));
        }
        let schema = &definition.schema;
        let summary_fields = self.summary.iter().flat_map(|choice| &choice.fields);
        let tag_fields = self.tags.iter().flat_map(|choice| &choice.fields);
        for name in summary_fields.chain(tag_fields) {
            if schema.find(name).is_none() {
                let name = String::from_utf8_lossy(name);
                return Err(SearchError::NoProperty(format!("No such property `{name}`")).into_reply());
            }
        }
        Ok(())
    }

    /// Upper bound on the size of what [`Summaries::shown`] makes, in bytes.
    pub fn shown_bytes_max(&self, schema: &Schema, matches: &Matches, name: &[u8], value: &[u8]) -> usize {
        let Some((at, field)) = schema.find(name) else {
            return 0;
        };
        let summary = self.summary.as_ref().and_then(|choice| choice.of(&field.name));
        let tags = self.tags.as_ref().and_then(|choice| choice.of(&field.name));
        matches.shown_bytes_max(at, value, tags, summary)
    }

    /// The value of a field as it is answered.
    pub fn shown(&self, schema: &Schema, matches: &Matches, name: &[u8], value: Vec<u8>) -> Vec<u8> {
        let Some((at, field)) = schema.find(name) else {
            return value;
        };
        if matches!(field.kind, FieldKind::Vector(_)) {
            return value;
        }
        let summary = self.summary.as_ref().and_then(|choice| choice.of(&field.name));
        let tags = self.tags.as_ref().and_then(|choice| choice.of(&field.name));
        match (summary, tags) {
            (None, None) => value,
            (summary, tags) => matches.shown(at, &value, tags, summary),
        }
    }
}

fn fields(words: &mut Words<'_>) -> Option<Vec<Vec<u8>>> {
    if !words.take("FIELDS") {
        return Some(Vec::new());
    }
    let fields = words.counted("FIELDS").ok()?;
    Some(fields.iter().map(|field| field.to_vec()).collect())
}

fn summarize(words: &mut Words<'_>) -> Option<Choice<Summary>> {
    let (fields, mut summary) = (fields(words)?, Summary::default());
    loop {
        if words.take("FRAGS") {
            summary.fragments = words.number("FRAGS").ok()?;
        } else if words.take("LEN") {
            summary.words = words.number("LEN").ok()?;
        } else if words.take("SEPARATOR") {
            summary.separator = words.next()?.to_vec();
        } else {
            return Some(Choice { fields, what: summary });
        }
    }
}

fn highlight(words: &mut Words<'_>) -> Option<Choice<Tags>> {
    let (fields, mut tags) = (fields(words)?, Tags::default());
    if words.take("TAGS") {
        let [open, close] = words.several(2, "TAGS").ok()? else {
            return None;
        };
        tags = Tags {
            open: open.to_vec(),
            close: close.to_vec(),
        };
    }
    Some(Choice { fields, what: tags })
}
