//! The arguments that searches and aggregations share, and what they make of a schema and a query.

use std::sync::atomic::Ordering;

use quartet_layer_redis::module_api::{Context, ErrorReply, Kind};
use quartet_search::error::SearchError;
use quartet_search::index::schema::{FieldKind, Schema};
use quartet_search::redis::execute::{HITS_MAX, Scorer};
use quartet_search::redis::query::{
    Expander, Node, NodeKind, NumberRange, Options, Parameters, Query, parse, parse_first,
};
use quartet_search::text::analysis::{Language, StopWords};
use quartet_search::text::geo::{Circle, Place, Unit};
use quartet_search::time::{Parts, Time};

use super::contents;
use crate::errors::IntoReply;
use crate::indexes::{Index, Words, refused};

/// A search in a transaction or a script holds the database's lock, so its time is limited to this,
/// for any TIMEOUT.
const TIMEOUT_MS_MAX_WITH_LOCK: u64 = 5_000;

/// Longer searches would retain too many deleted versions.
const TIMEOUT_MS_MAX: u64 = 60_000;

/// The divisor of the time limit that gives the time reserved for the steps after a partial search.
const TIME_PARTS: u64 = 4;

/// The kind of an argument.
#[derive(PartialEq, Eq)]
pub enum Taken {
    Yes,
    No,
}

/// Arguments of FT.SEARCH as well as of FT.AGGREGATE and FT.EXPLAIN.
pub struct Common {
    pub expander: Expander,
    pub keeps_stop_words: bool,
    pub language: Option<Language>,
    pub scorer: Scorer,
    /// HAMMING compares it with payloads of documents.
    pub payload: Option<Vec<u8>>,
    pub slop: Option<u32>,
    pub in_order: bool,
    pub timeout_ms: u64,
    pub answers_parts: bool,
    pub dialect: u8,
    pub names_dialect: bool,
    pub parameters: Option<Parameters>,
    pub fields: Option<Vec<Vec<u8>>>,
    ranges: Vec<(Vec<u8>, NumberRange)>,
    circles: Vec<(Vec<u8>, Circle)>,
}

impl Common {
    pub fn new(context: &Context<'_, '_>) -> Common {
        let config = context.config();
        let timeout_ms = config.search_timeout.load(Ordering::Relaxed);
        Common {
            expander: Expander::default(),
            payload: None,
            keeps_stop_words: false,
            language: None,
            scorer: Scorer::default(),
            slop: None,
            in_order: false,
            timeout_ms: timeout_ms.max(0) as u64,
            answers_parts: config.search_answers_parts.load(Ordering::Relaxed) != 0,
            dialect: config.search_default_dialect.load(Ordering::Relaxed) as u8,
            names_dialect: false,
            parameters: None,
            fields: None,
            ranges: Vec::new(),
            circles: Vec::new(),
        }
    }

    /// Reads the next argument if it is one of these.
    pub fn take(&mut self, words: &mut Words<'_>) -> Result<Taken, ErrorReply> {
        if words.take("VERBATIM") {
            self.expander = Expander::Nothing;
        } else if words.take("EXPANDER") {
            self.expander = Expander::of_name(&words.text("EXPANDER")?);
        } else if words.take("PAYLOAD") {
            self.payload = Some(words.argument("PAYLOAD")?.to_vec());
        } else if words.take("WITHCOUNT") || words.take("WITHOUTCOUNT") {
            // A total counts all matches, for any of these words.
        } else if words.take("NOSTOPWORDS") {
            self.keeps_stop_words = true;
        } else if words.take("LANGUAGE") {
            let name = words.text("LANGUAGE")?;
            let unknown = |_| refused("No such language");
            self.language = Some(Language::of_name(&name).map_err(unknown)?);
        } else if words.take("SCORER") {
            let name = words.text("SCORER")?;
            let unknown = || refused(format!("No such scorer {name}"));
            self.scorer = Scorer::of_name(&name).ok_or_else(unknown)?;
        } else if words.take("SLOP") {
            // A negative distance is none.
            let slop: i64 = words.number("SLOP")?;
            self.slop = u32::try_from(slop).ok();
        } else if words.take("INORDER") {
            self.in_order = true;
        } else if words.take("TIMEOUT") {
            let word = words.next().ok_or_else(|| refused("Need argument for TIMEOUT"))?;
            let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            self.timeout_ms = number.ok_or_else(|| refused("TIMEOUT requires a non negative integer"))?;
        } else if words.take("DIALECT") {
            self.dialect = dialect(words)?;
            self.names_dialect = true;
        } else if words.take("PARAMS") {
            self.take_parameters(words)?;
        } else if words.take("FILTER") {
            self.range(words)?;
        } else if words.take("INFIELDS") {
            let fields = words.counted("INFIELDS")?;
            self.fields = Some(fields.iter().map(|field| field.to_vec()).collect());
        } else {
            return Ok(Taken::No);
        }
        Ok(Taken::Yes)
    }

    fn take_parameters(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        if self.parameters.is_some() {
            return Err(refused(
                "Multiple PARAMS are not allowed. Parameters can be defined only once",
            ));
        }
        let pairs = words.counted("PARAMS")?;
        if pairs.is_empty() || pairs.len() % 2 != 0 {
            return Err(refused("Parameters must be specified in PARAM VALUE pairs"));
        }
        let mut parameters = Parameters::new();
        for pair in pairs.chunks(2) {
            let name = String::from_utf8_lossy(pair[0]).into_owned();
            if parameters.insert(name.clone(), pair[1].to_vec()).is_some() {
                return Err(refused(format!("Duplicate parameter `{name}`")));
            }
        }
        self.parameters = Some(parameters);
        Ok(())
    }

    fn range(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let [field, low, high] = words.several(3, "FILTER").unwrap_or_default() else {
            return Err(refused("FILTER requires 3 arguments"));
        };
        let (from, from_excluded) = bound(low, "lower")?;
        let (to, to_excluded) = bound(high, "upper")?;
        let range = NumberRange {
            field: 0,
            from,
            from_included: !from_excluded,
            to,
            to_included: !to_excluded,
        };
        self.ranges.push((field.to_vec(), range));
        Ok(())
    }

    /// The arguments of GEOFILTER.
    pub fn take_circle(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        if words.left() < 5 {
            return Err(refused("GEOFILTER requires 5 arguments"));
        }
        let field = words.argument("GEOFILTER")?;
        let (longitude, latitude) = (words.number("<lon>")?, words.number("<lat>")?);
        let radius = words.number("<radius>")?;
        let unit = words.text("GEOFILTER")?;
        if Unit::of_name(&unit).is_none() {
            return Err(refused(format!("Unknown distance unit {unit}")));
        }
        let circle = Circle::new(Place { longitude, latitude }, radius, &unit).into_reply()?;
        self.circles.push((field.to_vec(), circle));
        Ok(())
    }

    /// The query over the index's fields.
    pub fn query(&self, index: &Index, query: &[u8]) -> Result<Query, ErrorReply> {
        let mut schema = index.definition.schema.clone();
        if self.keeps_stop_words {
            schema.stop_words = StopWords::of::<&[u8]>([]);
        }
        if let Some(language) = self.language {
            schema.language = language;
        }
        let parameters = self.parameters.clone().unwrap_or_default();
        let parse = if self.dialect == 1 { parse_first } else { parse };
        let mut query = parse(&schema, query, &parameters, self.expander).into_reply()?;
        self.check_order(index, &query.root)?;
        let has_no_fields = index.definition.options.iter().any(|option| option.0 == "NOFIELDS");
        if has_no_fields {
            query.root.forget_fields();
        }
        if let Some(fields) = &self.fields {
            let mask = fields.iter().fold(0, |mask, field| mask | bit(&schema, field));
            // With NOFIELDS a known field means all fields.
            if mask == 0 || !has_no_fields {
                query.root.restrict(mask);
            }
        }
        for (field, range) in &self.ranges {
            let condition = match schema.find(field) {
                Some((at, field_definition)) if field_definition.kind == FieldKind::Numeric => {
                    NodeKind::Numeric(NumberRange { field: at, ..*range })
                }
                _ => NodeKind::Empty,
            };
            query.root = both(query.root, Node::of(condition));
        }
        for (field, circle) in &self.circles {
            let condition = match schema.find(field) {
                Some((at, field_definition)) if field_definition.kind == FieldKind::Geo => NodeKind::Geo {
                    field: at,
                    circle: *circle,
                },
                _ => NodeKind::Empty,
            };
            query.root = both(query.root, Node::of(condition));
        }
        Ok(query)
    }

    /// Refuses an order or a distance of words in a field whose path has several values: their
    /// order is undefined.
    fn check_order(&self, index: &Index, query: &Node) -> Result<(), ErrorReply> {
        let fields = query.ordered_fields(self.slop.is_some() || self.in_order);
        let has_no_offsets = index.definition.options.iter().any(|option| option.0 == "NOOFFSETS");
        if fields == 0 || has_no_offsets || index.definition.on != Kind::Json {
            return Ok(());
        }
        let mut texts = index.definition.schema.texts();
        let unordered = texts.find(|(bit, field)| fields & bit != 0 && !contents::is_of_one_value(&field.path));
        match unordered {
            Some((_, field)) => Err(SearchError::Unordered(field.name.clone()).into_reply()),
            None => Ok(()),
        }
    }

    /// Returns true if the search, started at `started_micros`, must end: because of its deadline,
    /// or to continue on another thread.
    pub fn clock<'c>(&self, context: &Context<'c, '_>, started_micros: u64) -> impl Fn() -> bool + use<'c> {
        let timeout_ms_max = match self.answers_parts {
            true => timeout_ms_max(context) - timeout_ms_max(context) / TIME_PARTS,
            false => timeout_ms_max(context),
        };
        let timeout_ms = match self.timeout_ms {
            0 => timeout_ms_max,
            milliseconds => milliseconds.min(timeout_ms_max),
        };
        ends_at(context, started_micros + timeout_ms * 1000)
    }

    /// Returns true after the longest time limit, for any TIMEOUT.
    pub fn last_clock<'c>(&self, context: &Context<'c, '_>, started_micros: u64) -> impl Fn() -> bool + use<'c> {
        ends_at(context, started_micros + timeout_ms_max(context) * 1000)
    }

    /// The time of the search, whose answer may be a part if `search-on-timeout` says so.
    pub fn time<'t>(&self, is_over: &'t dyn Fn() -> bool, parts: &'t Parts<'t>) -> Time<'t> {
        match self.answers_parts {
            true => Time::for_parts(is_over, parts),
            false => Time::until(is_over),
        }
    }
}

/// [`Common::clock`] of a search that starts now and has no arguments.
pub fn default_clock<'c>(context: &Context<'c, '_>) -> impl Fn() -> bool + use<'c> {
    Common::new(context).clock(context, context.engine().now_micros())
}

fn timeout_ms_max(context: &Context<'_, '_>) -> u64 {
    match context.in_exec || context.client.is_script {
        true => TIMEOUT_MS_MAX_WITH_LOCK,
        false => TIMEOUT_MS_MAX,
    }
}

fn ends_at<'c>(context: &Context<'c, '_>, ends_micros: u64) -> impl Fn() -> bool + use<'c> {
    let groups = context.groups;
    move || {
        let now_micros = groups.engine().now_micros();
        now_micros > ends_micros || groups.must_end(now_micros)
    }
}

fn both(first: Node, second: Node) -> Node {
    let children = vec![first, second];
    Node {
        kind: NodeKind::Every { children, exact: false },
        options: Options::default(),
    }
}

fn bit(schema: &Schema, name: &[u8]) -> quartet_search::index::schema::FieldMask {
    let mut texts = schema.texts();
    let first = texts.find(|(_, field)| field.name.as_bytes() == name);
    first.map_or(0, |(bit, _)| bit)
}

fn bound(word: &[u8], which: &str) -> Result<(f64, bool), ErrorReply> {
    let excluded = word.strip_prefix(b"(");
    let number = std::str::from_utf8(excluded.unwrap_or(word)).ok();
    // Only the least is a lower bound without a number, and the greatest an upper one.
    let infinity = if which == "lower" {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    };
    let number = number
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|number| number.is_finite() || *number == infinity);
    let wrong = || refused(format!("Bad {which} range: {}", String::from_utf8_lossy(word)));
    Ok((number.ok_or_else(wrong)?, excluded.is_some()))
}

/// Reads the argument of DIALECT.
pub fn dialect(words: &mut Words<'_>) -> Result<u8, ErrorReply> {
    let word = words.next().ok_or_else(|| refused("Need an argument for DIALECT"))?;
    match std::str::from_utf8(word).ok().and_then(|word| word.parse::<u8>().ok()) {
        Some(dialect @ 1..=4) => Ok(dialect),
        _ => Err(refused("DIALECT requires a non negative integer >=1 and <= 4")),
    }
}

/// The arguments of LIMIT: how many are skipped, and taken.
pub fn limit(words: &mut Words<'_>) -> Result<(usize, usize), ErrorReply> {
    let [offset, count] = words.several(2, "LIMIT").unwrap_or_default() else {
        return Err(refused("LIMIT requires two arguments"));
    };
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
    match (number(offset), number(count)) {
        (Some(offset), Some(0)) if offset > 0 => {
            let text = "The `offset` of the LIMIT must be 0 when `num` is 0";
            Err(SearchError::Limit(text.into()).into_reply())
        }
        (Some(offset), _) if offset > HITS_MAX => {
            Err(SearchError::Limit(format!("OFFSET exceeds maximum of {HITS_MAX}")).into_reply())
        }
        (Some(offset), Some(count)) => Ok((offset, count)),
        _ => Err(refused("LIMIT needs two numeric arguments")),
    }
}

/// An argument that is none.
pub fn unknown(words: &Words<'_>) -> ErrorReply {
    let word = String::from_utf8_lossy(words.peek().unwrap_or_default()).into_owned();
    match word.eq_ignore_ascii_case("FORMAT") {
        true => refused("FORMAT is not served"),
        false => {
            let at = words.at();
            SearchError::Unrecognized(format!("Unknown argument `{word}` at position {at} for <main>")).into_reply()
        }
    }
}
