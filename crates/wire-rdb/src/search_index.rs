//! Definitions of search indexes, as RediSearch saves them beside the keys.
//!
//! ```text
//! ft_index0: 2 count of indexes, the indexes, 0
//! index:   5 name, 2 flags, 2 count of fields, the fields, rule,
//!          2 count, 5 each       stop words, if the flags say so
//!          2 count, of each 5 word, 2 count, 5 group each     synonyms, if the flags say so
//!          2 milliseconds until an idle index goes, 2 count, 5 alias each
//! field:   5 name, 2 and 1 if another path follows, 5 path; 2 kind, 2 options, 2 place among sortable fields or -1
//!          TEXT: 2 place among texts, 4 weight     TAG: 2 flags, 5 separator (a byte)
//!          VECTOR: 2 bytes of a vector, vector     GEOSHAPE: 2 system, from version 23 on
//! vector:  2 algorithm: FLAT 0: 2 component, 2 dimensions, 2 metric, 2 several, 2 capacity, 2 block
//!          another one 2: 2 HNSW 1: 2 jobs, then as above but for the block, 2 M, 2 EF_CONSTRUCTION, 2 EF_RUNTIME
//!                         2 SVS 3: 2 threshold, as above but for both, 2 codes, 2 links, 2 window, 2 reduced, 2 window, 4 epsilon
//!          from version 25 on there is neither capacity nor block, HNSW ends with 4 epsilon
//!          before version 22 HNSW is an algorithm of its own, without jobs; before 21 there is no several
//!          version 27 has one more number behind HNSW
//! rule:    5 kind of keys, 2 count, 5 prefix each, 2 and 1 if each follows: 5 filter, 5 field of languages, of scores, of payloads
//!          4 score, 2 language, from version 24 on 2 whether all documents are indexed
//! ```
//!
//! Strings, except stop words and separators, have a trailing zero. Versions 17 to 27 (RediSearch
//! 2.0 to 8.10) are read; 23 is written, which RediSearch since 2.8 reads, or 25 (8.2) for
//! definitions that 23 cannot represent. Follows the observed output of RediSearch 2.10, and for
//! the other versions the source of its reader.

use crate::module::{self, c_text, double, end, number, text};
use crate::module::{write_c_text, write_double, write_end, write_number, write_text};
use crate::primitives::{Malformed, Reader};

pub(crate) const MODULE: u64 = module::number_of(b"ft_index0");

const VERSIONS: std::ops::RangeInclusive<u64> = 17..=27;
const VERSION: u64 = 23;
const VERSION_OF_PATHS: u64 = 18;
const VERSION_OF_VECTORS: u64 = 19;
const VERSION_OF_BLOBS: u64 = 20;
const VERSION_OF_SEVERAL: u64 = 21;
const VERSION_OF_TIERS: u64 = 22;
const VERSION_OF_SHAPES: u64 = 23;
const VERSION_OF_ALL_DOCUMENTS: u64 = 24;
const VERSION_OF_SVS: u64 = 25;
const VERSION_OF_RERANKING: u64 = 27;

// Flags of an index.
const OFFSETS: u64 = 0x01;
const FIELDS: u64 = 0x02;
const STOP_WORDS: u64 = 0x08;
const FREQUENCIES: u64 = 0x10;
const BYTE_OFFSETS: u64 = 0x40;
const MANY_TEXTS: u64 = 0x80;
const SYNONYMS: u64 = 0x100;
const TEMPORARY: u64 = 0x200;
const PHONETIC: u64 = 0x400;
const SKIPS_SCAN: u64 = 0x1000;
const PATHS: u64 = 0x4000;
const VECTORS: u64 = 0x8000;
const SUFFIXES: u64 = 0x1_0000;
const SHAPES: u64 = 0x4_0000;
const NOT_EMPTY: u64 = 0x8_0000;

/// Words of FT.CREATE that take something away, and the flags that are missing then.
const OMISSIONS: [(&str, u64); 4] = [
    ("NOFREQS", FREQUENCIES),
    ("NOFIELDS", FIELDS),
    ("NOOFFSETS", OFFSETS | BYTE_OFFSETS),
    ("NOHL", BYTE_OFFSETS),
];

// Options of a field.
const SORTABLE: u64 = 0x01;
const NO_STEM: u64 = 0x02;
const NO_INDEX: u64 = 0x04;
const SOUNDS: u64 = 0x08;
const UNF: u64 = 0x20;
const SUFFIX: u64 = 0x40;
const INDEX_EMPTY: u64 = 0x100;
const INDEX_MISSING: u64 = 0x200;

const CASE_SENSITIVE: u64 = 0x01;
/// Flags of every TAG field.
const TAG_FLAGS: u64 = 0x06;

const FLAT: u64 = 0;
const HNSW: u64 = 1;
const TIERED: u64 = 2;
const SVS: u64 = 3;
const BLOCK_VECTORS: u64 = 1024;

/// The milliseconds of an index that is not temporary.
const NEVER: u64 = -1000i64 as u64;
const NOWHERE: u64 = u64::MAX;

const LANGUAGES: [&str; 31] = [
    "english",
    "arabic",
    "basque",
    "catalan",
    "chinese",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "italian",
    "indonesian",
    "irish",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "armenian",
    "serbian",
    "yiddish",
    "tagalog",
    "malay",
];
const COMPONENTS: [(&str, u64); 6] = [
    ("FLOAT32", 4),
    ("FLOAT64", 8),
    ("BFLOAT16", 2),
    ("FLOAT16", 2),
    ("INT8", 1),
    ("UINT8", 1),
];
/// Components that version 23 knows.
const COMPONENTS_OF_23: u64 = 4;
const METRICS: [&str; 3] = ["L2", "IP", "COSINE"];
const CODES: [(&str, u64); 6] = [
    ("LVQ4", 4),
    ("LVQ8", 8),
    ("LVQ4x4", 4 | 4 << 8),
    ("LVQ4x8", 4 | 8 << 8),
    ("LeanVec4x8", 4 | 8 << 8 | 1 << 16),
    ("LeanVec8x8", 8 | 8 << 8 | 1 << 16),
];
/// The codes that replace Intel's on other processors.
const SCALAR_CODES: u64 = 1;
const EPSILON: f64 = 0.01;

/// An index as FT.CREATE and its kin have defined it.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchIndex {
    /// The name.
    pub name: Vec<u8>,
    /// Documents are JSON, else hashes.
    pub on_json: bool,
    /// The index contains the keys with one of these prefixes.
    pub prefixes: Vec<Vec<u8>>,
    /// FILTER.
    pub filter: Option<Vec<u8>>,
    /// A name that [`language`] knows, if it is another than English.
    pub language: Option<&'static str>,
    /// LANGUAGE_FIELD.
    pub language_field: Option<Vec<u8>>,
    /// SCORE.
    pub score: f64,
    /// SCORE_FIELD.
    pub score_field: Option<Vec<u8>>,
    /// PAYLOAD_FIELD.
    pub payload_field: Option<Vec<u8>>,
    /// NOFREQS, NOFIELDS, NOOFFSETS, NOHL and MAXTEXTFIELDS, as far as they were given.
    pub options: Vec<&'static str>,
    /// SKIPINITIALSCAN. The original fills such an index too when it loads it.
    pub skips_initial_scan: bool,
    /// INDEXALL.
    pub indexes_all: bool,
    /// Idle time before its removal, in milliseconds.
    pub idle_ms: Option<u64>,
    /// STOPWORDS, if it has its own.
    pub stop_words: Option<Vec<Vec<u8>>>,
    /// Words, each with the names of its groups.
    pub synonyms: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// Other names.
    pub aliases: Vec<Vec<u8>>,
    /// The fields in their order.
    pub fields: Vec<SearchField>,
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchField {
    /// The name in queries.
    pub name: Vec<u8>,
    /// The path of its value.
    pub path: Vec<u8>,
    /// How it is searched.
    pub kind: SearchFieldKind,
    /// SORTABLE.
    pub sortable: bool,
    /// UNF.
    pub keeps_case: bool,
    /// NOINDEX.
    pub no_index: bool,
    /// INDEXMISSING.
    pub index_missing: bool,
    /// INDEXEMPTY.
    pub index_empty: bool,
    /// WITHSUFFIXTRIE.
    pub with_suffixes: bool,
}

/// How a field is searched.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchFieldKind {
    /// TEXT.
    Text {
        /// WEIGHT.
        weight: f64,
        /// NOSTEM.
        no_stem: bool,
        /// PHONETIC; the language is not saved.
        sounds: bool,
    },
    /// NUMERIC.
    Numeric,
    /// GEO.
    Geo,
    /// TAG.
    Tag {
        /// The byte between two values; zero if there is none.
        separator: u8,
        /// CASESENSITIVE.
        case_sensitive: bool,
    },
    /// GEOSHAPE.
    Shape {
        /// Longitude and latitude, not a plane.
        is_spherical: bool,
    },
    /// VECTOR.
    Vector(Vector),
}

/// The parameters of a VECTOR field.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    /// How the vectors are kept.
    pub algorithm: Algorithm,
    /// TYPE, a name that [`component`] knows.
    pub component: &'static str,
    /// DIM.
    pub dimensions: u64,
    /// DISTANCE_METRIC, a name that [`metric`] knows.
    pub metric: &'static str,
    /// A document may have several.
    pub has_several: bool,
}

/// The storage of vectors. Each number is the code of the word with this name.
#[derive(Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// FLAT.
    Flat,
    /// HNSW.
    Hnsw {
        /// M.
        links: u64,
        /// EF_CONSTRUCTION.
        build: u64,
        /// EF_RUNTIME.
        search: u64,
        /// EPSILON.
        epsilon: f64,
    },
    /// SVS-VAMANA.
    SvsVamana {
        /// COMPRESSION, a name that [`codes`] knows.
        codes: Option<&'static str>,
        /// TRAINING_THRESHOLD; zero without COMPRESSION.
        training_threshold: u64,
        /// REDUCE; zero if nothing is.
        reduced: u64,
        /// GRAPH_MAX_DEGREE.
        links: u64,
        /// CONSTRUCTION_WINDOW_SIZE.
        build: u64,
        /// SEARCH_WINDOW_SIZE.
        search: u64,
        /// EPSILON.
        epsilon: f64,
    },
}

/// Returns the known name of a language that equals `name`.
pub fn language(name: &str) -> Option<&'static str> {
    LANGUAGES.into_iter().find(|language| *language == name)
}

/// Returns the known name of a vector's component that equals `name`.
pub fn component(name: &str) -> Option<&'static str> {
    COMPONENTS
        .into_iter()
        .find(|(component, _)| *component == name)
        .map(|(component, _)| component)
}

/// Returns the known name of a distance that equals `name`.
pub fn metric(name: &str) -> Option<&'static str> {
    METRICS.into_iter().find(|metric| *metric == name)
}

/// Returns the known name of codes that equals `name`.
pub fn codes(name: &str) -> Option<&'static str> {
    CODES.into_iter().find(|(code, _)| *code == name).map(|(code, _)| code)
}

impl SearchIndex {
    /// Returns the requests that make the index, its synonyms and its aliases, word by word. The
    /// first is FT.CREATE.
    pub fn requests(&self) -> Vec<Vec<Vec<u8>>> {
        let mut requests = vec![self.creation()];
        let mut groups: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
        for (word, names) in &self.synonyms {
            for name in names {
                match groups.iter_mut().find(|(group, _)| group == name) {
                    Some((_, words)) => words.push(word),
                    None => groups.push((name, vec![word])),
                }
            }
        }
        for (group, words) in groups {
            let mut request = Request::of("FT.SYNUPDATE");
            request.given(&self.name).given(group);
            words.iter().for_each(|word| _ = request.given(word));
            requests.push(request.0);
        }
        for alias in &self.aliases {
            let mut request = Request::of("FT.ALIASADD");
            request.given(alias).given(&self.name);
            requests.push(request.0);
        }
        requests
    }

    fn creation(&self) -> Vec<Vec<u8>> {
        let mut request = Request::of("FT.CREATE");
        request
            .given(&self.name)
            .word("ON")
            .word(if self.on_json { "JSON" } else { "HASH" });
        request.word("PREFIX").number(self.prefixes.len() as u64);
        self.prefixes.iter().for_each(|prefix| _ = request.given(prefix));
        request.named("FILTER", self.filter.as_deref());
        request.named("LANGUAGE", self.language.map(str::as_bytes));
        request.named("LANGUAGE_FIELD", self.language_field.as_deref());
        if self.score != 1.0 {
            request.word("SCORE").word(&self.score.to_string());
        }
        request.named("SCORE_FIELD", self.score_field.as_deref());
        request.named("PAYLOAD_FIELD", self.payload_field.as_deref());
        self.options.iter().for_each(|option| _ = request.word(option));
        if self.indexes_all {
            request.word("INDEXALL").word("ENABLE");
        }
        if let Some(idle_ms) = self.idle_ms {
            request.word("TEMPORARY").number(idle_ms.div_ceil(1000));
        }
        if let Some(words) = &self.stop_words {
            request.word("STOPWORDS").number(words.len() as u64);
            words.iter().for_each(|word| _ = request.given(word));
        }
        request.word("SCHEMA");
        self.fields
            .iter()
            .for_each(|field| field.ask(self.on_json, &mut request));
        request.0
    }
}

impl SearchField {
    fn ask(&self, on_json: bool, request: &mut Request) {
        request.given(&self.path);
        if self.name != self.path {
            request.word("AS").given(&self.name);
        }
        match &self.kind {
            SearchFieldKind::Text {
                weight,
                no_stem,
                sounds,
            } => {
                request.word("TEXT");
                if *weight != 1.0 {
                    request.word("WEIGHT").word(&weight.to_string());
                }
                request.flag("NOSTEM", *no_stem);
                if *sounds {
                    request.word("PHONETIC").word("dm:en");
                }
                request.flag("WITHSUFFIXTRIE", self.with_suffixes);
            }
            SearchFieldKind::Numeric => _ = request.word("NUMERIC"),
            SearchFieldKind::Geo => _ = request.word("GEO"),
            SearchFieldKind::Tag {
                separator,
                case_sensitive,
            } => {
                request.word("TAG");
                if *separator != if on_json { 0 } else { b',' } {
                    request.word("SEPARATOR").given(&[*separator]);
                }
                request.flag("CASESENSITIVE", *case_sensitive);
                request.flag("WITHSUFFIXTRIE", self.with_suffixes);
            }
            SearchFieldKind::Shape { is_spherical } => {
                request
                    .word("GEOSHAPE")
                    .word(if *is_spherical { "SPHERICAL" } else { "FLAT" });
            }
            SearchFieldKind::Vector(vector) => vector.ask(request),
        }
        request.flag("INDEXEMPTY", self.index_empty);
        request.flag("INDEXMISSING", self.index_missing);
        request.flag("SORTABLE", self.sortable);
        request.flag("UNF", self.sortable && self.keeps_case);
        request.flag("NOINDEX", self.no_index);
    }
}

impl Vector {
    fn ask(&self, request: &mut Request) {
        let number = |name: &'static str, number: u64| (name, number.to_string());
        let (name, parameters, epsilon) = match &self.algorithm {
            Algorithm::Flat => ("FLAT", Vec::new(), 0.0),
            Algorithm::Hnsw {
                links,
                build,
                search,
                epsilon,
            } => {
                let parameters = vec![
                    number("M", *links),
                    number("EF_CONSTRUCTION", *build),
                    number("EF_RUNTIME", *search),
                ];
                ("HNSW", parameters, *epsilon)
            }
            Algorithm::SvsVamana {
                codes,
                training_threshold,
                reduced,
                links,
                build,
                search,
                epsilon,
            } => {
                let mut parameters = vec![
                    number("GRAPH_MAX_DEGREE", *links),
                    number("CONSTRUCTION_WINDOW_SIZE", *build),
                    number("SEARCH_WINDOW_SIZE", *search),
                ];
                if let Some(codes) = codes {
                    parameters.push(("COMPRESSION", (*codes).to_owned()));
                    parameters.push(number("TRAINING_THRESHOLD", *training_threshold));
                    parameters.push(number("REDUCE", *reduced));
                }
                ("SVS-VAMANA", parameters, *epsilon)
            }
        };
        let mut pairs = vec![
            ("TYPE", self.component.to_owned()),
            ("DIM", self.dimensions.to_string()),
            ("DISTANCE_METRIC", self.metric.to_owned()),
        ];
        // Zero means the default.
        pairs.extend(parameters.into_iter().filter(|(_, value)| value != "0"));
        if epsilon != EPSILON && epsilon != 0.0 {
            pairs.push(("EPSILON", epsilon.to_string()));
        }
        request.word("VECTOR").word(name).number(pairs.len() as u64 * 2);
        for (name, value) in pairs {
            request.word(name).word(&value);
        }
    }

    fn needs_newer_form(&self) -> bool {
        let component = COMPONENTS.iter().position(|(name, _)| *name == self.component);
        matches!(self.algorithm, Algorithm::SvsVamana { .. })
            || component.is_none_or(|at| at as u64 >= COMPONENTS_OF_23)
    }
}

/// Words on their way into a request.
struct Request(Vec<Vec<u8>>);

impl Request {
    fn of(command: &str) -> Request {
        Request(vec![command.into()])
    }

    fn given(&mut self, word: &[u8]) -> &mut Request {
        self.0.push(word.to_vec());
        self
    }

    fn word(&mut self, word: &str) -> &mut Request {
        self.given(word.as_bytes())
    }

    fn number(&mut self, number: u64) -> &mut Request {
        self.word(&number.to_string())
    }

    fn flag(&mut self, word: &str, is_given: bool) {
        if is_given {
            self.word(word);
        }
    }

    fn named(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.word(name).given(value);
        }
    }
}

/// Returns the version that has a form for all of the indexes.
pub(crate) fn version_for(indexes: &[SearchIndex]) -> u64 {
    let fields = indexes.iter().flat_map(|index| &index.fields);
    let mut vectors = fields.filter_map(|field| match &field.kind {
        SearchFieldKind::Vector(vector) => Some(vector),
        _ => None,
    });
    match vectors.any(Vector::needs_newer_form) {
        true => VERSION_OF_SVS,
        false => VERSION,
    }
}

/// Writes the parts of indexes, without the module's number.
pub(crate) fn write(version: u64, indexes: &[SearchIndex], out: &mut Vec<u8>) {
    write_number(indexes.len() as u64, out);
    indexes.iter().for_each(|index| write_index(version, index, out));
    write_end(out);
}

fn write_index(version: u64, index: &SearchIndex, out: &mut Vec<u8>) {
    write_c_text(&index.name, out);
    write_number(flags(index), out);
    write_number(index.fields.len() as u64, out);
    let mut numbers = FieldNumbers::default();
    for field in &index.fields {
        write_field(version, field, &mut numbers, out);
    }
    write_rule(version, index, out);
    if let Some(words) = &index.stop_words {
        write_number(words.len() as u64, out);
        words.iter().for_each(|word| write_text(word, out));
    }
    if !index.synonyms.is_empty() {
        write_number(index.synonyms.len() as u64, out);
        for (word, groups) in &index.synonyms {
            write_c_text(word, out);
            write_c_texts(groups, out);
        }
    }
    write_number(index.idle_ms.unwrap_or(NEVER), out);
    write_c_texts(&index.aliases, out);
}

fn write_c_texts(texts: &[Vec<u8>], out: &mut Vec<u8>) {
    write_number(texts.len() as u64, out);
    texts.iter().for_each(|text| write_c_text(text, out));
}

fn flags(index: &SearchIndex) -> u64 {
    let has = |is: &dyn Fn(&SearchField) -> bool| index.fields.iter().any(is);
    let mut flags = OFFSETS | FIELDS | FREQUENCIES | BYTE_OFFSETS;
    for (word, missing) in OMISSIONS {
        if index.options.contains(&word) {
            flags &= !missing;
        }
    }
    for (flag, is_set) in [
        (MANY_TEXTS, index.options.contains(&"MAXTEXTFIELDS")),
        (STOP_WORDS, index.stop_words.is_some()),
        (SYNONYMS, !index.synonyms.is_empty()),
        (TEMPORARY, index.idle_ms.is_some()),
        (SKIPS_SCAN, index.skips_initial_scan),
        (PATHS, has(&|field| field.name != field.path)),
        (
            PHONETIC,
            has(&|field| matches!(field.kind, SearchFieldKind::Text { sounds: true, .. })),
        ),
        (VECTORS, has(&|field| matches!(field.kind, SearchFieldKind::Vector(_)))),
        (
            SHAPES,
            has(&|field| matches!(field.kind, SearchFieldKind::Shape { .. })),
        ),
        (
            SUFFIXES,
            has(&|field| field.with_suffixes && matches!(field.kind, SearchFieldKind::Text { .. })),
        ),
        (NOT_EMPTY, has(&|field| !field.index_empty)),
    ] {
        if is_set {
            flags |= flag;
        }
    }
    flags
}

/// Numbers of the next text field and of the next sortable field.
#[derive(Default)]
struct FieldNumbers {
    texts: u64,
    sortable: u64,
}

fn write_field(version: u64, field: &SearchField, numbers: &mut FieldNumbers, out: &mut Vec<u8>) {
    write_c_text(&field.name, out);
    write_optional((field.path != field.name).then_some(&field.path), out);
    let kind = match &field.kind {
        SearchFieldKind::Text { .. } => 0x01,
        SearchFieldKind::Numeric => 0x02,
        SearchFieldKind::Geo => 0x04,
        SearchFieldKind::Tag { .. } => 0x08,
        SearchFieldKind::Vector(_) => 0x10,
        SearchFieldKind::Shape { .. } => 0x20,
    };
    write_number(kind, out);
    let is_text = matches!(field.kind, SearchFieldKind::Text { .. } | SearchFieldKind::Tag { .. });
    let mut options = 0;
    for (option, is_set) in [
        (SORTABLE, field.sortable),
        (
            NO_STEM,
            matches!(field.kind, SearchFieldKind::Text { no_stem: true, .. }),
        ),
        (NO_INDEX, field.no_index),
        (SOUNDS, matches!(field.kind, SearchFieldKind::Text { sounds: true, .. })),
        // Values that have no case are kept as they are.
        (UNF, field.sortable && (field.keeps_case || !is_text)),
        (SUFFIX, field.with_suffixes),
        (INDEX_EMPTY, field.index_empty),
        (INDEX_MISSING, field.index_missing),
    ] {
        if is_set {
            options |= option;
        }
    }
    write_number(options, out);
    write_number(
        if field.sortable {
            counted(&mut numbers.sortable)
        } else {
            NOWHERE
        },
        out,
    );
    match &field.kind {
        SearchFieldKind::Text { weight, .. } => {
            write_number(counted(&mut numbers.texts), out);
            write_double(*weight, out);
        }
        SearchFieldKind::Tag {
            separator,
            case_sensitive,
        } => {
            write_number(TAG_FLAGS | if *case_sensitive { CASE_SENSITIVE } else { 0 }, out);
            write_text(&[*separator], out);
        }
        SearchFieldKind::Vector(vector) => write_vector(version, vector, out),
        SearchFieldKind::Shape { is_spherical } => write_number((*is_spherical).into(), out),
        SearchFieldKind::Numeric | SearchFieldKind::Geo => {}
    }
}

/// The number, and one more for the next.
fn counted(number: &mut u64) -> u64 {
    *number += 1;
    *number - 1
}

fn write_optional(text: Option<&Vec<u8>>, out: &mut Vec<u8>) {
    write_number(text.is_some().into(), out);
    if let Some(text) = text {
        write_c_text(text, out);
    }
}

fn write_vector(version: u64, vector: &Vector, out: &mut Vec<u8>) {
    let component = COMPONENTS.iter().position(|(name, _)| *name == vector.component);
    let component = component.unwrap_or_default();
    let metric = METRICS
        .iter()
        .position(|metric| *metric == vector.metric)
        .unwrap_or_default();
    let shared = [
        component as u64,
        vector.dimensions,
        metric as u64,
        vector.has_several.into(),
    ];
    let has_capacity = version < VERSION_OF_SVS;
    let mut write_all = |numbers: &[u64]| numbers.iter().for_each(|number| write_number(*number, out));
    write_all(&[vector.dimensions.saturating_mul(COMPONENTS[component].1)]);
    match &vector.algorithm {
        Algorithm::Flat => {
            write_all(&[FLAT]);
            write_all(&shared);
            if has_capacity {
                write_all(&[BLOCK_VECTORS, BLOCK_VECTORS]);
            }
        }
        Algorithm::Hnsw {
            links,
            build,
            search,
            epsilon,
        } => {
            write_all(&[TIERED, HNSW, 0]);
            write_all(&shared);
            if has_capacity {
                write_all(&[BLOCK_VECTORS]);
            }
            write_all(&[*links, *build, *search]);
            if !has_capacity {
                write_double(*epsilon, out);
            }
        }
        Algorithm::SvsVamana {
            codes,
            training_threshold,
            reduced,
            links,
            build,
            search,
            epsilon,
        } => {
            write_all(&[TIERED, SVS, *training_threshold]);
            write_all(&shared);
            let codes = codes.and_then(|codes| CODES.iter().find(|(name, _)| *name == codes));
            write_all(&[
                codes.map_or(0, |(_, number)| *number),
                *links,
                *build,
                *reduced,
                *search,
            ]);
            write_double(*epsilon, out);
        }
    }
}

fn write_rule(version: u64, index: &SearchIndex, out: &mut Vec<u8>) {
    write_c_text(if index.on_json { b"JSON" } else { b"HASH" }, out);
    write_c_texts(&index.prefixes, out);
    for text in [
        &index.filter,
        &index.language_field,
        &index.score_field,
        &index.payload_field,
    ] {
        write_optional(text.as_ref(), out);
    }
    write_double(index.score, out);
    let language = index.language.unwrap_or(LANGUAGES[0]);
    let language = LANGUAGES.iter().position(|name| *name == language);
    write_number(language.unwrap_or_default() as u64, out);
    if version >= VERSION_OF_ALL_DOCUMENTS {
        write_number(index.indexes_all.into(), out);
    }
}

/// Reads the parts of indexes.
pub(crate) fn read(version: u64, reader: &mut Reader<'_>) -> Result<Vec<SearchIndex>, Malformed> {
    if !VERSIONS.contains(&version) {
        return Err(Malformed);
    }
    let mut indexes = Vec::new();
    for _ in 0..number(reader)? {
        indexes.push(read_index(version, reader)?);
    }
    end(reader)?;
    Ok(indexes)
}

fn read_index(version: u64, reader: &mut Reader<'_>) -> Result<SearchIndex, Malformed> {
    let (name, flags) = (c_text(reader)?, number(reader)?);
    let mut fields = Vec::new();
    for _ in 0..number(reader)? {
        fields.push(read_field(version, reader)?);
    }
    let mut index = read_rule(version, reader)?;
    index.name = name;
    index.fields = fields;
    index.skips_initial_scan = flags & SKIPS_SCAN > 0;
    let omitted = OMISSIONS.into_iter().filter(|(word, missing)| match *word {
        // Without offsets nothing can be highlighted.
        "NOHL" => flags & (OFFSETS | BYTE_OFFSETS) == OFFSETS,
        "NOOFFSETS" => flags & OFFSETS == 0,
        _ => flags & missing == 0,
    });
    index.options = omitted.map(|(word, _)| word).collect();
    if flags & MANY_TEXTS > 0 {
        index.options.push("MAXTEXTFIELDS");
    }
    if flags & STOP_WORDS > 0 {
        index.stop_words = Some(texts(reader, text)?);
    }
    if flags & SYNONYMS > 0 {
        for _ in 0..number(reader)? {
            index.synonyms.push((c_text(reader)?, texts(reader, c_text)?));
        }
    }
    let idle_ms = number(reader)?;
    index.idle_ms = (flags & TEMPORARY > 0).then_some(idle_ms);
    index.aliases = texts(reader, c_text)?;
    Ok(index)
}

type ReadText = fn(&mut Reader<'_>) -> Result<Vec<u8>, Malformed>;

fn texts(reader: &mut Reader<'_>, read: ReadText) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut texts = Vec::new();
    for _ in 0..number(reader)? {
        texts.push(read(reader)?);
    }
    Ok(texts)
}

fn optional(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    match number(reader)? {
        0 => Ok(None),
        _ => c_text(reader).map(Some),
    }
}

fn read_field(version: u64, reader: &mut Reader<'_>) -> Result<SearchField, Malformed> {
    let name = c_text(reader)?;
    let path = match version >= VERSION_OF_PATHS {
        true => optional(reader)?,
        false => None,
    };
    let (kind, options) = (number(reader)?, number(reader)?);
    number(reader)?;
    // A field of several kinds is made by other modules only.
    let kind = match kind {
        0x01 => {
            number(reader)?;
            SearchFieldKind::Text {
                weight: double(reader)?,
                no_stem: options & NO_STEM > 0,
                sounds: options & SOUNDS > 0,
            }
        }
        0x02 => SearchFieldKind::Numeric,
        0x04 => SearchFieldKind::Geo,
        0x08 => {
            let case_sensitive = number(reader)? & CASE_SENSITIVE > 0;
            let [separator] = text(reader)?[..] else {
                return Err(Malformed);
            };
            SearchFieldKind::Tag {
                separator,
                case_sensitive,
            }
        }
        0x10 if version >= VERSION_OF_VECTORS => SearchFieldKind::Vector(read_vector(version, reader)?),
        0x20 => SearchFieldKind::Shape {
            is_spherical: version >= VERSION_OF_SHAPES && number(reader)? > 0,
        },
        _ => return Err(Malformed),
    };
    Ok(SearchField {
        path: path.unwrap_or_else(|| name.clone()),
        name,
        kind,
        sortable: options & SORTABLE > 0,
        keeps_case: options & UNF > 0,
        no_index: options & NO_INDEX > 0,
        index_missing: options & INDEX_MISSING > 0,
        index_empty: options & INDEX_EMPTY > 0,
        with_suffixes: options & SUFFIX > 0,
    })
}

fn read_vector(version: u64, reader: &mut Reader<'_>) -> Result<Vector, Malformed> {
    if version >= VERSION_OF_BLOBS {
        number(reader)?;
    }
    let algorithm = match number(reader)? {
        TIERED if version >= VERSION_OF_TIERS => number(reader)?,
        HNSW if version >= VERSION_OF_TIERS => return Err(Malformed),
        algorithm => algorithm,
    };
    let training_threshold = match algorithm {
        HNSW | SVS if version >= VERSION_OF_TIERS => number(reader)?,
        _ => 0,
    };
    let (component, dimensions, metric) = (number(reader)?, number(reader)?, number(reader)?);
    let has_several = version >= VERSION_OF_SEVERAL && number(reader)? > 0;
    if version < VERSION_OF_SVS {
        number(reader)?;
    }
    let algorithm = match algorithm {
        FLAT => {
            if version < VERSION_OF_SVS {
                number(reader)?;
            }
            Algorithm::Flat
        }
        HNSW => {
            let (links, build, search) = (number(reader)?, number(reader)?, number(reader)?);
            let epsilon = match version >= VERSION_OF_SVS {
                true => double(reader)?,
                false => EPSILON,
            };
            if version >= VERSION_OF_RERANKING {
                number(reader)?;
            }
            Algorithm::Hnsw {
                links,
                build,
                search,
                epsilon,
            }
        }
        SVS if version >= VERSION_OF_SVS => read_svs(training_threshold, reader)?,
        _ => return Err(Malformed),
    };
    Ok(Vector {
        algorithm,
        component: name_at(&COMPONENTS.map(|(name, _)| name), component)?,
        dimensions,
        metric: name_at(&METRICS, metric)?,
        has_several,
    })
}

fn read_svs(training_threshold: u64, reader: &mut Reader<'_>) -> Result<Algorithm, Malformed> {
    let (codes, links, build) = (number(reader)?, number(reader)?, number(reader)?);
    let (reduced, search, epsilon) = (number(reader)?, number(reader)?, double(reader)?);
    let codes = match codes {
        0 => None,
        SCALAR_CODES => Some("LVQ8"),
        _ => {
            let row = CODES.iter().find(|(_, code)| *code == codes);
            Some(row.ok_or(Malformed)?.0)
        }
    };
    Ok(Algorithm::SvsVamana {
        training_threshold,
        // Other codes take no REDUCE.
        reduced: codes
            .filter(|codes| codes.starts_with("LeanVec"))
            .map_or(0, |_| reduced),
        codes,
        links,
        build,
        search,
        epsilon,
    })
}

fn name_at(names: &[&'static str], at: u64) -> Result<&'static str, Malformed> {
    let name = usize::try_from(at).ok().and_then(|at| names.get(at));
    name.copied().ok_or(Malformed)
}

fn read_rule(version: u64, reader: &mut Reader<'_>) -> Result<SearchIndex, Malformed> {
    let on_json = match c_text(reader)?.as_slice() {
        b"HASH" => false,
        b"JSON" => true,
        _ => return Err(Malformed),
    };
    let prefixes = texts(reader, c_text)?;
    let filter = optional(reader)?;
    let language_field = optional(reader)?;
    let score_field = optional(reader)?;
    let payload_field = optional(reader)?;
    let (score, language) = (double(reader)?, name_at(&LANGUAGES, number(reader)?)?);
    let indexes_all = version >= VERSION_OF_ALL_DOCUMENTS && number(reader)? > 0;
    Ok(SearchIndex {
        name: Vec::new(),
        on_json,
        prefixes,
        filter,
        language: Some(language).filter(|language| *language != LANGUAGES[0]),
        language_field,
        score,
        score_field,
        payload_field,
        options: Vec::new(),
        skips_initial_scan: false,
        indexes_all,
        idle_ms: None,
        stop_words: None,
        synonyms: Vec::new(),
        aliases: Vec::new(),
        fields: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
