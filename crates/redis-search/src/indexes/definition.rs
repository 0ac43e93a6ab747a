//! Parses the words of FT.CREATE and FT.ALTER as a definition. Texts of errors are those observed
//! of search 2.10.

use quartet_layer_redis::module_api::{ErrorReply, Kind, parse};
use quartet_search::error::SearchError;
use quartet_search::index::schema::{Field, FieldKind, Schema};
use quartet_search::redis::aggregate::Expression;
use quartet_search::text::analysis::{Language, Phonetics, StopWords};
use quartet_search::text::shapes::System;

use crate::errors::IntoReply;
use crate::indexes::vectors::{self, Algorithm};
use crate::indexes::words::{Words, refused, text};

/// Options that change nothing that a search finds here: FT.INFO repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted(pub &'static str);

/// In the order in which FT.INFO shows them.
const OPTIONS: &[&str] = &["NOFREQS", "NOFIELDS", "NOOFFSETS", "NOHL", "MAXTEXTFIELDS"];

/// Most prefixes of an index.
const PREFIXES_MAX: usize = 1024;

/// An index as its requests define it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The kind of keys that are looked at: hashes or documents.
    pub on: Kind,
    /// The index contains the keys with one of these prefixes.
    pub prefixes: Vec<Vec<u8>>,
    /// Keys for which this is not true are not in the index.
    pub filter: Option<(String, Expression)>,
    pub names_language: bool,
    pub language_field: Option<String>,
    pub score: f64,
    pub score_field: Option<String>,
    pub payload_field: Option<String>,
    pub options: Vec<Accepted>,
    pub names_stop_words: bool,
    /// INDEXALL ENABLE was given, which changes nothing here.
    pub indexes_all: bool,
    pub skips_initial_scan: bool,
    /// Idle time after which it is removed together with its keys, in milliseconds.
    pub idle_ms: Option<u64>,
    /// It was altered without a scan, so documents may lack what was added.
    pub keeps_older: bool,
    pub schema: Schema,
    /// Names of fields with WITHSUFFIXTRIE, which speeds nothing up here.
    pub with_suffixes: Vec<String>,
    /// Names of VECTOR fields, with the requested algorithms.
    algorithms: Vec<(String, Algorithm)>,
    /// PHONETIC of the TEXT field that is being read.
    phonetics: Option<Phonetics>,
}

impl Definition {
    /// Returns true if this is the name of LANGUAGE_FIELD, SCORE_FIELD or PAYLOAD_FIELD, which no
    /// answer shows: `RLookup_GetLength` of the original passes over them.
    pub fn hides(&self, name: &[u8]) -> bool {
        let fields = [&self.language_field, &self.score_field, &self.payload_field];
        let mut names = fields.into_iter().flatten();
        names.any(|field| field.as_bytes() == name)
    }

    /// Parses the words of FT.CREATE after the name.
    pub fn parse(words: &[&[u8]]) -> Result<Definition, ErrorReply> {
        let mut words = Words::new(words);
        let mut definition = Definition {
            on: Kind::Hash,
            prefixes: vec![Vec::new()],
            filter: None,
            names_language: false,
            language_field: None,
            score: 1.0,
            score_field: None,
            payload_field: None,
            options: Vec::new(),
            names_stop_words: false,
            indexes_all: false,
            skips_initial_scan: false,
            idle_ms: None,
            keeps_older: false,
            schema: Schema::default(),
            with_suffixes: Vec::new(),
            algorithms: Vec::new(),
            phonetics: None,
        };
        loop {
            let Some(word) = words.next() else {
                return Err(refused("No schema found"));
            };
            if parse::is(word, "SCHEMA") {
                break;
            }
            definition.option(word, &mut words)?;
        }
        definition.fields(&mut words)?;
        Ok(definition)
    }

    /// Adds the fields of FT.ALTER, from its words after the name.
    pub fn alter(&mut self, words: &[&[u8]]) -> Result<(), ErrorReply> {
        let mut words = Words::new(words);
        self.keeps_older |= words.take("SKIPINITIALSCAN");
        if !words.take("SCHEMA") || !words.take("ADD") || words.left() == 0 {
            return Err(refused(
                "Unknown arguments of FT.ALTER: SCHEMA ADD and fields are expected",
            ));
        }
        self.fields(&mut words)
    }

    fn option(&mut self, word: &[u8], words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let upper = word.to_ascii_uppercase();
        match upper.as_slice() {
            b"ON" => {
                let kind = words.argument("ON")?;
                self.on = match kind.to_ascii_uppercase().as_slice() {
                    b"HASH" => Kind::Hash,
                    b"JSON" => Kind::Json,
                    _ => {
                        let type_name = String::from_utf8_lossy(kind);
                        return Err(refused(format!("Invalid rule type: {type_name}")));
                    }
                };
            }
            b"PREFIX" => {
                let prefixes = words.counted("PREFIX")?;
                if prefixes.len() > PREFIXES_MAX {
                    return Err(refused(format!("An index has at most {PREFIXES_MAX} prefixes")));
                }
                if !prefixes.is_empty() {
                    self.prefixes = prefixes.iter().map(|prefix| prefix.to_vec()).collect();
                }
            }
            b"FILTER" => {
                let written = words.text("FILTER")?;
                let expression = Expression::parse(written.as_bytes()).map_err(|error| error.text())?;
                self.filter = Some((written, expression));
            }
            b"LANGUAGE" => {
                let name = words.text("LANGUAGE")?;
                self.schema.language = Language::of_name(&name).map_err(|error| error.text())?;
                self.names_language = true;
            }
            b"LANGUAGE_FIELD" => self.language_field = Some(words.text("LANGUAGE_FIELD")?),
            b"SCORE" => {
                let score = words.argument("SCORE")?;
                let score = std::str::from_utf8(score).ok().and_then(|score| score.parse().ok());
                let score = score.filter(|score| (0.0..=1.0).contains(score));
                self.score = score.ok_or_else(|| refused("Invalid score"))?;
            }
            b"SCORE_FIELD" => self.score_field = Some(words.text("SCORE_FIELD")?),
            b"PAYLOAD_FIELD" => self.payload_field = Some(words.text("PAYLOAD_FIELD")?),
            b"STOPWORDS" => {
                self.schema.stop_words = StopWords::of(words.counted("STOPWORDS")?);
                self.names_stop_words = true;
            }
            b"SKIPINITIALSCAN" => self.skips_initial_scan = true,
            // An option of versions before 2.0, which every later one takes and passes over.
            b"NOSCOREIDX" => {}
            // Documents without a value are always found.
            b"INDEXALL" => {
                self.indexes_all = match words.argument("INDEXALL")?.to_ascii_uppercase().as_slice() {
                    b"ENABLE" => true,
                    b"DISABLE" => false,
                    _ => {
                        let text = "Invalid argument for `INDEXALL`, use ENABLE/DISABLE";
                        return Err(SearchError::IndexOption(text.into()).into_reply());
                    }
                };
            }
            b"TEMPORARY" => {
                let seconds: u64 = words.number("TEMPORARY")?;
                self.idle_ms = Some(seconds.saturating_mul(1000));
            }
            _ => return self.accept(word),
        }
        Ok(())
    }

    /// Takes an option that has no value.
    fn accept(&mut self, word: &[u8]) -> Result<(), ErrorReply> {
        let upper = word.to_ascii_uppercase();
        let listed = OPTIONS.iter().find(|option| option.as_bytes() == upper);
        let word_text = String::from_utf8_lossy(word);
        let unknown = || SearchError::Unrecognized(format!("Unknown argument `{word_text}`"));
        let option = Accepted(listed.ok_or_else(|| unknown().text())?);
        if !self.options.contains(&option) {
            self.options.push(option);
            let place = |option: &Accepted| OPTIONS.iter().position(|listed| *listed == option.0);
            self.options.sort_by_key(place);
        }
        Ok(())
    }

    fn fields(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let mut fields = Vec::new();
        if words.left() == 0 {
            return Err(refused("Fields arguments are missing"));
        }
        while let Some(path) = words.next() {
            let path = text(path)?;
            let name = match words.take("AS") {
                true => words.text("AS")?,
                false => path.clone(),
            };
            let without_type = || refused(format!("Field `{name}` does not have a type"));
            let kind = words.next().ok_or_else(without_type)?;
            fields.push(self.field(path, name.clone(), kind, words)?);
        }
        self.schema.add(fields).map_err(|error| error.text().into())
    }

    fn field(&mut self, path: String, name: String, kind: &[u8], words: &mut Words<'_>) -> Result<Field, ErrorReply> {
        let upper = kind.to_ascii_uppercase();
        let mut absence = Absence::default();
        let kind = match upper.as_slice() {
            b"TEXT" => self.text(&name, &mut absence, words)?,
            b"TAG" => self.tag(&name, &mut absence, words)?,
            b"NUMERIC" => FieldKind::Numeric,
            b"VECTOR" => self.vector(&name, words)?,
            b"GEO" => FieldKind::Geo,
            b"GEOSHAPE" => FieldKind::Shape(system(words)),
            _ => return Err(refused(format!("Invalid field type for field `{name}`"))),
        };
        let mut field = Field::new(&name, kind);
        field.path = path;
        field.phonetics = self.phonetics.take();
        self.modifiers(&mut field, &mut absence, words)?;
        (field.index_missing, field.index_empty) = (absence.missing, absence.empty);
        // A document's values are kept as they are.
        field.keeps_case |= field.sortable && self.on == Kind::Json;
        if field.no_index && field.index_missing {
            let name = &field.name;
            let text = format!("'Field `{name}` cannot be defined with both `NOINDEX` and `INDEXMISSING`'");
            return Err(refused(text));
        }
        Ok(field)
    }

    fn text(&mut self, name: &str, absence: &mut Absence, words: &mut Words<'_>) -> Result<FieldKind, ErrorReply> {
        let (mut weight, mut no_stem) = (1.0, false);
        loop {
            if words.take("WEIGHT") {
                weight = words.number("weight")?;
            } else if words.take("NOSTEM") {
                no_stem = true;
            } else if words.take("WITHSUFFIXTRIE") {
                self.with_suffixes.push(name.into());
            } else if words.take("PHONETIC") {
                self.phonetics = Some(phonetics(words)?);
            } else if !absence.take(words, true) {
                return Ok(FieldKind::Text { weight, no_stem });
            }
        }
    }

    fn tag(&mut self, name: &str, absence: &mut Absence, words: &mut Words<'_>) -> Result<FieldKind, ErrorReply> {
        let (mut separator, mut case_sensitive) = ((self.on == Kind::Hash).then_some(b','), false);
        loop {
            if words.take("SEPARATOR") {
                let word = words.next().ok_or_else(|| refused("SEPARATOR requires an argument"))?;
                let [byte] = word else {
                    let word_text = String::from_utf8_lossy(word);
                    let text = format!("Tag separator must be a single character. Got `{word_text}`");
                    return Err(refused(text));
                };
                separator = Some(*byte);
            } else if words.take("CASESENSITIVE") {
                case_sensitive = true;
            } else if words.take("WITHSUFFIXTRIE") {
                self.with_suffixes.push(name.into());
            } else if !absence.take(words, true) {
                return Ok(FieldKind::Tag {
                    separator,
                    case_sensitive,
                });
            }
        }
    }

    /// INDEXMISSING and INDEXEMPTY may precede or follow SORTABLE and NOINDEX; the original accepts
    /// options of a type only before those.
    fn modifiers(&mut self, field: &mut Field, absence: &mut Absence, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let is_vector = matches!(field.kind, FieldKind::Vector(_));
        let takes_empty = matches!(field.kind, FieldKind::Text { .. } | FieldKind::Tag { .. });
        loop {
            if !is_vector && words.take("SORTABLE") {
                field.sortable = true;
                field.keeps_case = words.take("UNF") || field.keeps_case;
            } else if !is_vector && words.take("NOINDEX") {
                field.no_index = true;
            } else if !absence.take(words, takes_empty) {
                return Ok(());
            }
        }
    }

    fn vector(&mut self, name: &str, words: &mut Words<'_>) -> Result<FieldKind, ErrorReply> {
        let algorithm = Algorithm::of_name(words.argument("vector similarity algorithm")?);
        let unknown = || refused("Bad arguments for vector similarity algorithm: Unknown argument");
        let algorithm = algorithm.ok_or_else(unknown)?;
        let count: usize = words.number("vector similarity number of parameters")?;
        if !count.is_multiple_of(2) {
            return Err(refused(format!(
                "Bad number of arguments for vector similarity index: got {count} but expected even number as \
                 algorithm parameters (should be submitted as named arguments)"
            )));
        }
        if count > words.left() {
            return Err(refused(format!("Expected {count} parameters but got {}", words.left())));
        }
        let pairs = words.several(count, "vector similarity number of parameters")?;
        let (kind, algorithm) = vectors::parse(algorithm, pairs).map_err(|error| error.text())?;
        self.algorithms.push((name.into(), algorithm));
        Ok(FieldKind::Vector(kind))
    }

    /// The requested algorithm of the vector field with this name.
    pub fn algorithm(&self, name: &str) -> &Algorithm {
        let algorithm_of = self.algorithms.iter().find(|(field, _)| field == name);
        algorithm_of.map_or(&Algorithm::Flat, |(_, algorithm)| algorithm)
    }
}

/// The options INDEXMISSING and INDEXEMPTY of a field. They are among those of TEXT and TAG, or
/// after the type.
#[derive(Default)]
struct Absence {
    missing: bool,
    empty: bool,
}

impl Absence {
    /// Returns true if the next word was one of the options.
    fn take(&mut self, words: &mut Words<'_>, takes_empty: bool) -> bool {
        if words.take("INDEXMISSING") {
            self.missing = true;
        } else if takes_empty && words.take("INDEXEMPTY") {
            self.empty = true;
        } else {
            return false;
        }
        true
    }
}

fn system(words: &mut Words<'_>) -> System {
    match words.take("FLAT") {
        true => System::Flat,
        false => {
            words.take("SPHERICAL");
            System::Spherical
        }
    }
}

fn phonetics(words: &mut Words<'_>) -> Result<Phonetics, ErrorReply> {
    let name = words.next().ok_or_else(|| refused("PHONETIC requires an argument"))?;
    let wrong = || {
        refused(
            "Matcher Format: <2 chars algorithm>:<2 chars language>. Support algorithms: double metaphone (dm). \
             Supported languages: English (en), French (fr), Portuguese (pt) and Spanish (es)",
        )
    };
    let name = std::str::from_utf8(name).map_err(|_| wrong())?;
    Phonetics::of_name(name).ok_or_else(wrong)
}
