//! Indexes that are keys of type `search`, as Upstash has them: what SEARCH.CREATE defines.
//!
//! The key holds the index's number and is removed like other keys; its removal drops the index.
//! Its definition and its rows are stored with those of other indexes.

use quartet_engine::Transaction;
use quartet_layer_redis::module_api::{ErrorReply, Kind};
use quartet_search::text::analysis::Language;
use quartet_search::upstash::{FieldType, Schema, TypedField};

use crate::indexes::stored::{IndexHead, KEY_INDEX_TAG, StoredIndex, read_row, row_parts};
use crate::indexes::words::Words;

const PREFIX_OF_STREAM: &str = "ERR PREFIX is not supported for indexes on a stream";

/// Most prefixes of an index.
const PREFIXES_MAX: usize = 1024;

/// An index as SEARCH.CREATE defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDefinition {
    /// The kind of keys that are looked at: strings, hashes or documents; or a stream.
    pub on: Kind,
    /// The index contains the keys with one of these prefixes; none is a prefix of another. An
    /// index on a stream has the stream's name here.
    pub prefixes: Vec<Vec<u8>>,
    pub schema: Schema,
}

/// Options of SEARCH.CREATE that are no part of the definition.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    pub skips_initial_scan: bool,
    pub exists_ok: bool,
}

impl KeyDefinition {
    /// Parses the words of SEARCH.CREATE after the name.
    pub fn parse(words: &[&[u8]]) -> Result<(KeyDefinition, CreateOptions), ErrorReply> {
        let mut words = Words::new(words);
        let (mut on, mut prefixes, mut language) = (None, None, Language::default());
        let mut options = CreateOptions::default();
        loop {
            let Some(word) = words.next() else {
                return Err("ERR SCHEMA is missing".into());
            };
            match word.to_ascii_uppercase().as_slice() {
                b"SCHEMA" => break,
                b"SKIPINITIALSCAN" => options.skips_initial_scan = true,
                b"EXISTSOK" => options.exists_ok = true,
                b"ON" => {
                    on = Some(kind(&mut words)?);
                    if on == Some(Kind::Stream) {
                        if prefixes.is_some() {
                            return Err(PREFIX_OF_STREAM.into());
                        }
                        let stream = words.next().ok_or("ERR ON STREAM names no stream")?;
                        prefixes = Some(vec![stream.to_vec()]);
                    }
                }
                b"PREFIX" if on == Some(Kind::Stream) => return Err(PREFIX_OF_STREAM.into()),
                b"PREFIX" => prefixes = Some(self::prefixes(&mut words)?),
                b"LANGUAGE" => {
                    let name = text(&mut words, "LANGUAGE")?;
                    let unknown = |_| format!("ERR Unknown language: {name}");
                    language = Language::of_name(&name).map_err(unknown)?;
                }
                _ => return Err(format!("ERR Unknown argument: {}", String::from_utf8_lossy(word)).into()),
            }
        }
        let on = on.ok_or("ERR ON is missing")?;
        let prefixes = prefixes.ok_or("ERR PREFIX is missing")?;
        let schema = Schema::new(fields(&mut words, on)?, language).map_err(|reason| format!("ERR {reason}"))?;
        let definition = KeyDefinition { on, prefixes, schema };
        Ok((definition, options))
    }

    /// The word for the kind of its keys.
    pub fn kind_name(&self) -> &'static str {
        match self.on {
            Kind::Hash => "HASH",
            Kind::Json => "JSON",
            Kind::Stream => "STREAM",
            _ => "STRING",
        }
    }
}

fn kind(words: &mut Words<'_>) -> Result<Kind, ErrorReply> {
    let name = text(words, "ON")?;
    match name.to_ascii_uppercase().as_str() {
        "HASH" => Ok(Kind::Hash),
        "JSON" => Ok(Kind::Json),
        "STRING" => Ok(Kind::String),
        "STREAM" => Ok(Kind::Stream),
        _ => Err(format!("ERR Unknown data type: {name}").into()),
    }
}

fn prefixes(words: &mut Words<'_>) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let count = text(words, "PREFIX")?.parse().ok();
    let count = count.filter(|count| (1..=PREFIXES_MAX).contains(count));
    let count = count.ok_or_else(|| format!("ERR PREFIX takes from 1 to {PREFIXES_MAX} prefixes"))?;
    let listed = words
        .several(count, "PREFIX")
        .map_err(|_| "ERR PREFIX names fewer prefixes than it says")?;
    let prefixes: Vec<Vec<u8>> = listed.iter().map(|prefix| prefix.to_vec()).collect();
    for (at, prefix) in prefixes.iter().enumerate() {
        let covers = |(other_at, other): (usize, &Vec<u8>)| other_at != at && other.starts_with(prefix);
        if prefixes.iter().enumerate().any(covers) {
            let prefix = String::from_utf8_lossy(prefix);
            return Err(format!("ERR Prefix '{prefix}' covers another").into());
        }
    }
    Ok(prefixes)
}

fn fields(words: &mut Words<'_>, on: Kind) -> Result<Vec<TypedField>, ErrorReply> {
    let mut fields = Vec::new();
    while words.left() > 0 {
        let name = text(words, "SCHEMA")?;
        let type_name = text(words, &name)?;
        if type_name.eq_ignore_ascii_case("HYBRID") {
            return Err(format!("ERR Field '{name}' is HYBRID, and this server has no embedding model").into());
        }
        let unknown = || format!("ERR Unknown type of field '{name}': {type_name}");
        let mut kind = FieldType::of_name(&type_name).ok_or_else(unknown)?;
        let (mut fast, mut from) = (false, None);
        loop {
            if let FieldType::Text { no_tokenize, no_stem } = &mut kind {
                if words.take("NOTOKENIZE") {
                    *no_tokenize = true;
                    continue;
                }
                if words.take("NOSTEM") {
                    *no_stem = true;
                    continue;
                }
            }
            if !matches!(kind, FieldType::Text { .. }) && words.take("FAST") {
                fast = true;
            } else if words.take("FROM") {
                from = Some(text(words, "FROM")?);
            } else {
                break;
            }
        }
        // A hash and an entry have no members, and so no path: a dot is part of a name.
        if matches!(on, Kind::Hash | Kind::Stream) && from.as_deref() == Some("") {
            return Err("ERR FROM names no field".into());
        }
        fields.push(TypedField { name, kind, fast, from });
    }
    Ok(fields)
}

fn text(words: &mut Words<'_>, option: &str) -> Result<String, ErrorReply> {
    let word = words.next().ok_or_else(|| format!("ERR {option} has no argument"))?;
    String::from_utf8(word.to_vec()).map_err(|_| format!("ERR The argument of {option} is no UTF-8").into())
}

/// An index as SEARCH.CREATE defines it, and where it is stored.
#[derive(Clone, Debug)]
pub struct KeyIndex {
    pub head: IndexHead,
    pub definition: KeyDefinition,
    /// Keys that existed before it may be missing.
    pub skips_initial_scan: bool,
}

impl KeyIndex {
    /// It is about the entries of one stream.
    pub fn is_on_stream(&self) -> bool {
        self.definition.on == Kind::Stream
    }

    /// The name of that stream.
    pub fn stream(&self) -> &[u8] {
        &self.definition.prefixes[0]
    }

    /// Writes a definition with a number of its own.
    pub fn create(tx: &mut Transaction<'_>, name: &[u8], request: &[&[u8]]) -> Result<KeyIndex, ErrorReply> {
        let (definition, options) = KeyDefinition::parse(request)?;
        let index = KeyIndex {
            head: IndexHead::create(tx, name),
            definition,
            skips_initial_scan: options.skips_initial_scan,
        };
        index.write_row(tx, request);
        Ok(index)
    }

    /// Returns the words of SEARCH.CREATE after the name, as they were given; none without an
    /// index of this name.
    pub fn request(tx: &mut Transaction<'_>, name: &[u8]) -> Vec<Vec<u8>> {
        let row = tx.get(&KeyIndex::row_key(name));
        let words = row.as_ref().map(|row| row_parts(row.value()).2);
        words.into_iter().flatten().map(<[u8]>::to_vec).collect()
    }

    /// Reads a row. Panics if no version has written it.
    pub(super) fn read(name: &[u8], row: &[u8]) -> KeyIndex {
        let (head, words) = read_row(name, row);
        let words: Vec<&[u8]> = words.collect();
        let (definition, options) = KeyDefinition::parse(&words).expect("what was accepted once");
        KeyIndex {
            head,
            definition,
            skips_initial_scan: options.skips_initial_scan,
        }
    }
}

/// Its aliases stay when it goes, as at Upstash.
impl StoredIndex for KeyIndex {
    const TAG: u8 = KEY_INDEX_TAG;
    const ALIAS_TAG: u8 = b'k';

    fn head(&self) -> &IndexHead {
        &self.head
    }

    fn on(&self) -> Kind {
        self.definition.on
    }

    fn prefixes(&self) -> &[Vec<u8>] {
        &self.definition.prefixes
    }

    fn covers(&self, name: &[u8]) -> bool {
        match self.is_on_stream() {
            true => name == self.stream(),
            false => self.prefixes().iter().any(|prefix| name.starts_with(prefix)),
        }
    }
}
