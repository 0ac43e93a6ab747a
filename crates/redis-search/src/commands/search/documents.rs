//! FT.ADD, FT.SAFEADD, FT.DEL, FT.GET and FT.MGET: documents as clients of search 1 write and read
//! them. Search 2 keeps these commands for such clients, and does not document them.
//!
//! A document is a hash; it is in the index if the index's prefixes and filter take the hash. Texts
//! and order of checks follow recorded replies of search 2.10.

use quartet_layer_redis::module_api::hashes::{self, Change, Deadline, Edits, FIELD_BYTES_MAX};
use quartet_layer_redis::module_api::{Context, ErrorReply, Kind, Outcome, parse};
use quartet_search::error::SearchError;
use quartet_search::index;
use quartet_search::redis::aggregate::{Expression, Record, Value};
use quartet_search::text::analysis::Language;
use quartet_wire_resp::Arguments;

use super::contents::{Contents, property};
use super::lookup::{find, words, words_between};
use super::{content, upkeep};
use crate::errors::IntoReply;
use crate::indexes::{Definition, Index, Words};

/// Fields of a document that FT.ADD writes beside the request's own.
const SCORE: &[u8] = b"__score";
const LANGUAGE: &[u8] = b"__language";
const PAYLOAD: &[u8] = b"__payload";

/// An error in the words of search 2.10, without a code.
fn refused(text: impl Into<String>) -> ErrorReply {
    text.into().into()
}

/// The request of FT.ADD.
struct Added<'w> {
    index: &'w [u8],
    key: &'w [u8],
    score: &'w [u8],
    /// An existing key is written.
    replaces: bool,
    /// An existing key keeps its other fields.
    is_partial: bool,
    /// Only an existing key is written.
    only_existing: bool,
    language: Option<&'w [u8]>,
    payload: Option<&'w [u8]>,
    /// An existing key is written only if this is true for it.
    condition: Option<&'w [u8]>,
    /// Names and values in turn.
    pairs: &'w [&'w [u8]],
}

impl<'w> Added<'w> {
    fn parse(words: &'w [&'w [u8]]) -> Result<Added<'w>, ErrorReply> {
        let mut added = Added {
            index: words[0],
            key: words[1],
            score: words[2],
            replaces: false,
            is_partial: false,
            only_existing: false,
            language: None,
            payload: None,
            condition: None,
            pairs: &[],
        };
        let score = parse::float(added.score).ok_or_else(|| refused("Could not parse document score"))?;
        if !(0.0..=1.0).contains(&score) {
            return Err(refused("Score must be between 0 and 1"));
        }
        let mut words = Words::new(&words[3..]);
        let argument = |words: &mut Words<'w>, option: &str| {
            let missing = || refused(format!("{option}: Expected an argument, but none provided"));
            words.next().ok_or_else(missing)
        };
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"REPLACE" => added.replaces = true,
                b"PARTIAL" => added.is_partial = true,
                b"NOCREATE" => added.only_existing = true,
                b"LANGUAGE" => added.language = Some(argument(&mut words, "LANGUAGE")?),
                b"PAYLOAD" => added.payload = Some(argument(&mut words, "PAYLOAD")?),
                b"IF" => added.condition = Some(argument(&mut words, "IF")?),
                b"FIELDS" => {
                    added.pairs = words.several(words.left(), "FIELDS")?;
                    added.check()?;
                    return Ok(added);
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    return Err(refused(format!("Unknown keyword `{word}` provided")));
                }
            }
        }
        Err(refused("No field list found"))
    }

    fn check(&self) -> Result<(), ErrorReply> {
        if !self.pairs.len().is_multiple_of(2) {
            return Err(refused("Fields must be specified in FIELD VALUE pairs"));
        }
        let is_known = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| Language::of_name(name).is_ok());
        if !self.language.is_none_or(is_known) {
            return Err(refused("Unsupported language"));
        }
        match self.names_and_values().all(|(name, _)| name.len() <= FIELD_BYTES_MAX) {
            true => Ok(()),
            false => Err(refused(format!("A field's name has at most {FIELD_BYTES_MAX} bytes"))),
        }
    }

    /// The hash's fields in the order in which they are written. A score of 1 is that of any
    /// document, and is written only over another.
    fn names_and_values(&self) -> impl Iterator<Item = (&'w [u8], &'w [u8])> + use<'w> {
        let score = (self.is_partial || parse::float(self.score) != Some(1.0)).then_some((SCORE, self.score));
        let language = self.language.map(|language| (LANGUAGE, language));
        let payload = self.payload.map(|payload| (PAYLOAD, payload));
        let pairs = self.pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        pairs.chain(score).chain(language).chain(payload)
    }

    /// Returns true if the condition holds for the key as it is.
    fn is_wanted(&self, context: &mut Context<'_, '_>, index: &Index) -> Result<bool, ErrorReply> {
        let Some(condition) = self.condition else {
            return Ok(true);
        };
        let condition = Expression::parse(condition).into_reply()?;
        let workspace = context.groups.workspace();
        let keys = &mut context.keys();
        let Some(contents) = Contents::find(keys, index, self.key, workspace) else {
            return Ok(true);
        };
        let mut record = Record::of_filter();
        for name in condition.properties() {
            let Some((_, field)) = index.definition.schema.find(name.as_bytes()) else {
                let text = format!("Property `{name}` not loaded nor in pipeline");
                return Err(SearchError::NoProperty(text).into_reply());
            };
            if let Some(text) = contents.text(keys, &field.path) {
                record.set(name, property(field, Value::Text(text), true));
            }
        }
        Ok(condition.value(&record).is_ok_and(|value| value.is_true()))
    }
}

/// FT.ADD index key score [REPLACE] [PARTIAL] [NOCREATE] [LANGUAGE language] [PAYLOAD payload]
/// [IF expression] FIELDS [name value] ...
pub fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 3)?;
    let added = Added::parse(&words)?;
    let index = find(context, arguments, added.index, false)?;
    let entry = context.keys().find(added.key);
    if entry.as_ref().is_some_and(|entry| entry.kind != Kind::Hash) {
        return Err(refused("Invalid Redis key"));
    }
    if entry.is_some() && !added.replaces {
        return Err(refused("Document already exists"));
    }
    if entry.is_none() && added.only_existing {
        return Err(refused("Document does not exist"));
    }
    if !added.is_wanted(context, &index)? {
        context.reply.simple("NOADD");
        return Ok(());
    }
    let partial = entry.filter(|_| added.is_partial);
    if partial.is_none() {
        context.keys().remove(added.key);
    }
    let mut edits = Edits::default();
    for (name, value) in added.names_and_values() {
        let deadline = Deadline::Never;
        edits.set(name, Change::Set { value, deadline });
    }
    if !edits.is_empty() {
        hashes::apply(context, added.key, partial.as_ref(), edits);
    }
    context.reply.ok();
    Ok(())
}

/// FT.DEL index key [DD]. The key goes whether it is in the index or not, as at the original.
pub fn delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words_between(arguments, 2, 3)?;
    find(context, arguments, words[0], false)?;
    let is_removed = context.keys().remove(words[1]);
    context.reply.integer(is_removed.into());
    Ok(())
}

pub fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words_between(arguments, 2, 2)?;
    let index = find(context, arguments, words[0], false)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    write_document(context, &index, words[1])?;
    Ok(Outcome::Done)
}

pub fn get_several(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words(arguments, 2)?;
    let index = find(context, arguments, words[0], false)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    context.reply.array(words.len() - 1);
    for key in &words[1..] {
        write_document(context, &index, key)?;
    }
    Ok(Outcome::Done)
}

/// The fields and values of a hash in the index; null for another key, nothing of a document of
/// JSON.
fn write_document(context: &mut Context<'_, '_>, index: &Index, key: &[u8]) -> Result<(), ErrorReply> {
    let is_indexed = index::id_of_key(&mut upkeep::rows(context.tx, index), key).is_some();
    let contents = is_indexed.then(|| content::contents(context, index, key)).flatten();
    let Some(contents) = contents else {
        context.reply.null();
        return Ok(());
    };
    let mut pairs = match contents.is_hash() {
        true => contents.all(&mut context.keys_of(0), 1),
        false => Vec::new(),
    };
    content::check_memory(context)?;
    pairs.retain(|(name, _)| !is_about_document(&index.definition, name));
    context.reply.array(2 * pairs.len());
    for (name, value) in pairs {
        context.reply.bulk(&name);
        context.reply.bulk(&value.bytes());
    }
    Ok(())
}

/// Returns true for the fields with a document's language, score and payload, which are not shown:
/// the fields that the index names, or else the fields that FT.ADD writes.
fn is_about_document(definition: &Definition, name: &[u8]) -> bool {
    let named = |field: &Option<String>, default: &[u8]| match field {
        Some(field) => field.as_bytes() == name,
        None => default == name,
    };
    named(&definition.language_field, LANGUAGE)
        || named(&definition.score_field, SCORE)
        || named(&definition.payload_field, PAYLOAD)
}
