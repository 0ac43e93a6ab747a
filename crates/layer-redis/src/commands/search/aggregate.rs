//! FT.AGGREGATE, and cursors over its results.

use std::collections::{HashSet, VecDeque};

use quartet_engine::Reserved;
use quartet_search::aggregate::{self, Expression, Grouping, Record, Reducer, Step, Use, Value, sort_key};
use quartet_search::query::Query;
use quartet_search::schema::Field;
use quartet_search::search::{HITS_MAX, Hit, Request};
use quartet_search::{Parts, SearchError, Time};
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, Taken, limit, unknown};
use super::content;
use super::contents::{self, Contents, DOCUMENT};
use super::lookup::{count_part, counted, find, words};
use super::profile::Profile;
use super::query::{write_explained, write_head, write_tail};
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::query_memory::Held;
use crate::indexes::{Cursor, Index, RecordForm, Words, refused};
use crate::keyspace::{Entry, Kind};

/// Most bytes of the records of one aggregation, about.
const RECORDS_BYTES_MAX: usize = 128 << 20;

/// Default number of records of a SORTBY.
const SORTED_DEFAULT: usize = 10;

/// Most properties of a SORTBY, as at the original.
const SORT_KEYS_MAX: usize = 8;

/// Most properties of a GROUPBY, as at the original.
const GROUP_KEYS_MAX: usize = u16::MAX as usize;

/// Default number of records of a piece.
pub(super) const COUNT_DEFAULT: usize = 1000;

/// Default lifetime of an idle cursor, and the longest lifetime that a request can set.
pub(super) const IDLE_MS_MAX: u64 = 300_000;

const CURSOR_GONE: &str = "SEARCH_CURSOR_NOT_FOUND Cursor not found";

/// The name under which the score is a property.
const SCORE: &str = "__score";

/// The name under which the key is a property.
const KEY: &str = "__key";

/// The arguments of FT.AGGREGATE.
pub(super) struct AggregateArguments {
    pub common: Common,
    pub adds_scores: bool,
    pub loads_all: bool,
    pub loaded: Vec<Loaded>,
    with_sort_keys: bool,
    form: RecordForm,
    /// Whether the names that LOAD, SORTBY and REDUCE take need an `@`, as those of FT.HYBRID do.
    names_are_marked: bool,
    pub steps: Vec<Step>,
    pub cursor: Option<(usize, u64)>,
    /// The order and the range requested since the last GROUPBY.
    arrangement: Option<Arrangement>,
}

/// A property that LOAD names.
pub(super) struct Loaded {
    /// A path, or the name of a field.
    pub path: String,
    pub name: String,
    /// The number of steps before it.
    at: usize,
}

/// SORTBY and LIMIT are one step, at the position of the first. The last LIMIT counts, and the
/// last of LIMIT and MAX.
#[derive(Default)]
struct Arrangement {
    /// The number of steps before it.
    at: usize,
    keys: Option<Vec<(String, bool)>>,
    offset: usize,
    /// The number of taken records; MAX 0 counts as an absent number.
    count: Option<usize>,
}

impl Arrangement {
    fn into_steps(self) -> Vec<Step> {
        let keys = self.keys.unwrap_or_default();
        let count = match self.count {
            None if keys.is_empty() => return Vec::new(),
            None => SORTED_DEFAULT,
            Some(count) => count,
        };
        let max = Some(self.offset.saturating_add(count));
        let offset = self.offset;
        let limit = Step::Limit { offset, count };
        match keys.is_empty() {
            true => vec![limit],
            false => vec![Step::SortBy { keys, max }, limit],
        }
    }
}

/// Options of the query, which precede the steps.
const OF_QUERY: &[&str] = &[
    "VERBATIM",
    "EXPANDER",
    "PAYLOAD",
    "NOSTOPWORDS",
    "LANGUAGE",
    "SCORER",
    "SLOP",
    "INORDER",
    "INFIELDS",
    "ADDSCORES",
    "WITHSCORES",
    "WITHSORTKEYS",
    "WITHPAYLOADS",
    "EXPLAINSCORE",
    "NOCONTENT",
];

fn is_of_query(word: &[u8]) -> bool {
    OF_QUERY
        .iter()
        .any(|option| word.eq_ignore_ascii_case(option.as_bytes()))
}

impl AggregateArguments {
    fn new(context: &Context<'_, '_>) -> AggregateArguments {
        AggregateArguments {
            common: Common::new(context),
            adds_scores: false,
            loads_all: false,
            loaded: Vec::new(),
            with_sort_keys: false,
            form: RecordForm::default(),
            names_are_marked: false,
            steps: Vec::new(),
            cursor: None,
            arrangement: None,
        }
    }

    /// Those of FT.HYBRID, to be read by `next`.
    pub fn of_hybrid(context: &Context<'_, '_>) -> AggregateArguments {
        AggregateArguments {
            names_are_marked: true,
            ..AggregateArguments::new(context)
        }
    }

    fn read(context: &Context<'_, '_>, words: &mut Words<'_>) -> Result<AggregateArguments, ErrorReply> {
        let mut arguments = AggregateArguments::new(context);
        while words.left() > 0 {
            arguments.next(words)?;
        }
        arguments.arrange();
        match arguments.form.explains_scores && !arguments.form.with_scores {
            true => Err(refused("EXPLAINSCORE must be accompanied with WITHSCORES")),
            false => Ok(arguments),
        }
    }

    /// Returns true if LOAD gives a property of this name from the field or path of this name.
    pub fn loads(&self, name: &str) -> bool {
        self.loaded
            .iter()
            .any(|loaded| loaded.path == name && loaded.name == name)
    }

    /// Returns true if LOAD gives a property of this name.
    pub fn gives(&self, name: &str) -> bool {
        self.loaded.iter().any(|loaded| loaded.name == name)
    }

    /// Whether documents have a property where it is used. An expression takes what LOAD named
    /// before it, and of other fields the SORTABLE ones. `LOAD *` gives a document whole, and of it
    /// the schema's fields.
    pub fn finds(&self, index: &Index, used: &Use<'_>) -> bool {
        let is_loaded = |loaded: &Loaded| loaded.name == used.name && loaded.at <= used.at;
        let field = index.definition.schema.find(used.name.as_bytes());
        let is_at_hand = field.is_some_and(|(_, field)| field.sortable || !used.in_expression);
        let has_all = index.definition.on != Kind::Json || field.is_some() || used.name == DOCUMENT;
        self.loads_all && has_all || is_at_hand || self.loaded.iter().any(is_loaded)
    }

    /// Reads the next argument.
    pub fn next(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        if self.has_steps() && words.peek().is_some_and(is_of_query) {
            return Err(unknown(words));
        }
        if words.take("ADDSCORES") {
            self.adds_scores = true;
        } else if words.take("LOAD") {
            self.load(words)?;
        } else if words.take("GROUPBY") {
            self.arrange();
            self.steps.push(group(words, self.names_are_marked)?);
        } else if words.take("SORTBY") {
            self.sort(words)?;
        } else if words.take("APPLY") {
            let written = words.text("APPLY/FILTER")?;
            let expression = Expression::parse(written.as_bytes())?;
            let name = match words.take("AS") {
                true => words.text("AS")?,
                false => written,
            };
            self.steps.push(Step::Apply { expression, name });
        } else if words.peek().is_some_and(|word| word.eq_ignore_ascii_case(b"FILTER")) {
            words.next();
            let written = words.text("APPLY/FILTER")?;
            self.steps.push(Step::Filter(Expression::parse(written.as_bytes())?));
        } else if words.take("LIMIT") {
            let (offset, count) = limit(words)?;
            let arrangement = self.arrangement();
            (arrangement.offset, arrangement.count) = (offset, Some(count));
        } else if words.take("WITHSORTKEYS") {
            self.with_sort_keys = true;
        } else if !self.names_are_marked && words.take("WITHSCORES") {
            self.form.with_scores = true;
        } else if !self.names_are_marked && words.take("EXPLAINSCORE") {
            self.form.explains_scores = true;
        } else if !self.names_are_marked && words.take("WITHPAYLOADS") {
            self.form.with_payloads = true;
        } else if !self.names_are_marked && words.take("NOCONTENT") {
            self.form.no_content = true;
        } else if words.take("WITHCOUNT") {
            self.form.with_count = true;
        } else if words.take("WITHCURSOR") {
            self.cursor = Some(with_cursor(words)?);
        } else if self.common.take(words)? == Taken::No {
            let is_next = |option: &&&str| {
                words
                    .peek()
                    .is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes()))
            };
            let of_search = ["SUMMARIZE", "HIGHLIGHT", "RETURN"].iter().find(is_next);
            return Err(match of_search {
                Some(option) => refused(format!("{option} is not supported on FT.AGGREGATE")),
                None if self.names_are_marked => {
                    let word = String::from_utf8_lossy(words.peek().unwrap_or_default()).into_owned();
                    refused(format!("{word}: Unknown argument"))
                }
                None => unknown(words),
            });
        }
        Ok(())
    }

    /// Returns true after the first step, from which on options of the query are refused; SORTBY
    /// and LIMIT do not count.
    fn has_steps(&self) -> bool {
        self.loads_all || !self.loaded.is_empty() || !self.steps.is_empty()
    }

    fn arrangement(&mut self) -> &mut Arrangement {
        let at = self.steps.len();
        self.arrangement.get_or_insert_with(|| Arrangement {
            at,
            ..Arrangement::default()
        })
    }

    /// Inserts the requested order and range into the steps.
    pub fn arrange(&mut self) {
        if let Some(arrangement) = self.arrangement.take() {
            let at = arrangement.at;
            let steps = arrangement.into_steps();
            let behind = self.loaded.iter_mut().filter(|loaded| loaded.at > at);
            behind.for_each(|loaded| loaded.at += steps.len());
            self.steps.splice(at..at, steps);
        }
    }

    fn sort(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let keys = sort_keys(words, self.names_are_marked)?;
        let arrangement = self.arrangement();
        if arrangement.keys.is_some() {
            return Err(refused(
                "Multiple SORTBY steps are not allowed. Sort multiple fields in a single step",
            ));
        }
        arrangement.keys = Some(keys);
        if words.take("MAX") {
            let max: usize = words.number("MAX")?;
            arrangement.count = (max > 0).then_some(max);
        }
        Ok(())
    }

    fn load(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        // The contents of documents are available until they are grouped, so they are loaded first.
        if self.steps.iter().any(|step| matches!(step, Step::GroupBy { .. })) {
            return Err(refused("LOAD cannot be applied after projectors or reducers"));
        }
        if words.take("*") {
            self.loads_all = true;
            return Ok(());
        }
        let is_count = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| word.parse::<usize>().is_ok());
        if words.peek().is_some_and(|word| !is_count(word)) {
            return Err(refused("Bad arguments for LOAD: Expected number of fields or `*`"));
        }
        let given = words.counted("LOAD")?;
        let mut given = Words::new(given);
        while let Some(path) = given.next() {
            if self.names_are_marked {
                check_mark(path, "LOAD")?;
            }
            let path = String::from_utf8_lossy(path.strip_prefix(b"@").unwrap_or(path)).into_owned();
            let name = match given.take("AS") {
                true => given.text("LOAD")?,
                false => path.clone(),
            };
            let at = self.steps.len();
            self.loaded.push(Loaded { path, name, at });
        }
        Ok(())
    }
}

fn check_mark(word: &[u8], option: &str) -> Result<(), ErrorReply> {
    match word.first() {
        Some(b'@' | b'$') => Ok(()),
        _ => Err(refused(format!(
            "Missing prefix: name requires '@' prefix, JSON path require '$' prefix, got: {} in {option}",
            String::from_utf8_lossy(word)
        ))),
    }
}

fn property(word: &[u8]) -> Result<String, ErrorReply> {
    let text = String::from_utf8_lossy(word);
    let wrong = || {
        refused(format!(
            "Bad arguments for GROUPBY: Unknown property `{text}`. Did you mean `@{text}`?"
        ))
    };
    text.strip_prefix('@').map(str::to_owned).ok_or_else(wrong)
}

fn group(words: &mut Words<'_>, names_are_marked: bool) -> Result<Step, ErrorReply> {
    let given = words.counted("GROUPBY")?;
    if given.len() > GROUP_KEYS_MAX {
        return Err(refused("Bad arguments for GROUPBY: Value is outside acceptable bounds"));
    }
    let properties = given.iter().map(|word| property(word)).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    let mut is_first = |name: &str| match names.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(ErrorReply::from(format!(
            "SEARCH_FIELD_DUP Property `{name}` specified more than once"
        ))),
    };
    properties.iter().try_for_each(|name| is_first(name))?;
    let mut reducers: Vec<(Reducer, String)> = Vec::new();
    while words.take("REDUCE") {
        let name = words.text("REDUCE")?;
        let arguments = words.counted("REDUCE")?;
        let arguments: Vec<String> = arguments
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let given_name = generated_name(&name, &arguments);
        // The names of properties are also taken without `@` here.
        let completed: Vec<String> = arguments.iter().map(|argument| format!("@{argument}")).collect();
        let upper = name.to_ascii_uppercase();
        for (at, completed) in completed.iter().enumerate() {
            let is_property = at == 0 && upper != "COUNT" && upper != "COLLECT" || at == 2 && upper == "FIRST_VALUE";
            if is_property && names_are_marked {
                check_mark(arguments[at].as_bytes(), &upper)?;
            }
            if is_property && !arguments[at].starts_with('@') {
                arguments[at] = completed;
            }
        }
        let reducer = Reducer::parse(&name, &arguments)?;
        let given_name = match words.take("AS") {
            true => words.text("AS")?,
            false => given_name,
        };
        is_first(&given_name)?;
        reducers.push((reducer, given_name));
    }
    Ok(Step::GroupBy { properties, reducers })
}

/// The original's generated name for an unnamed result.
fn generated_name(reducer: &str, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|argument| argument.strip_prefix('@').unwrap_or(argument))
        .collect();
    let name = format!("{reducer}{}", arguments.join(","));
    format!("__generated_alias{}", name.to_ascii_lowercase())
}

fn sort_keys(words: &mut Words<'_>, names_are_marked: bool) -> Result<Vec<(String, bool)>, ErrorReply> {
    let given = words.counted("SORTBY")?;
    let mut given = Words::new(given);
    let mut keys = Vec::new();
    while let Some(word) = given.next() {
        if keys.len() == SORT_KEYS_MAX {
            let text = format!("Cannot sort by more than {SORT_KEYS_MAX} fields");
            return Err(SearchError::Limit(text).into());
        }
        if names_are_marked {
            check_mark(word, "SORTBY")?;
        }
        let text = String::from_utf8_lossy(word);
        let wrong = || refused(format!("MISSING ASC or DESC after sort field ({text})"));
        let name = text.strip_prefix('@').ok_or_else(wrong)?.to_owned();
        let descends = given.take("DESC");
        if !descends {
            given.take("ASC");
        }
        keys.push((name, !descends));
    }
    Ok(keys)
}

fn with_cursor(words: &mut Words<'_>) -> Result<(usize, u64), ErrorReply> {
    let (mut count, mut idle_ms) = (COUNT_DEFAULT, IDLE_MS_MAX);
    loop {
        if words.take("COUNT") {
            count = piece_length(words)?;
        } else if words.take("MAXIDLE") {
            let asked: u64 = words.number("MAXIDLE")?;
            idle_ms = if asked == 0 {
                IDLE_MS_MAX
            } else {
                asked.min(IDLE_MS_MAX)
            };
        } else {
            return Ok((count, idle_ms));
        }
    }
}

fn piece_length(words: &mut Words<'_>) -> Result<usize, ErrorReply> {
    match words.number("COUNT")? {
        0 => Err(refused("Bad arguments for COUNT: Value is outside acceptable bounds")),
        count => Ok(count),
    }
}

pub fn aggregate(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if arguments.len() == 2 {
        return Err("SEARCH_QUERY_STRING_BAD No query string provided".into());
    }
    let given = words(arguments, 2)?;
    let outcome = run(context, arguments, &given, None);
    counted(context, outcome)
}

/// Runs FT.AGGREGATE with these words, for this request; `profile` adds a profile to the answer.
pub(super) fn run(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    given: &[&[u8]],
    mut profile: Option<Profile>,
) -> Result<Outcome, ErrorReply> {
    let index = find(context, arguments, given[0], false)?;
    let mut rest = Words::new(&given[1..]);
    let text = rest.next().unwrap_or_default();
    let mut asked = AggregateArguments::read(context, &mut rest)?;
    // A profile shows the progress of a timed-out search, under any setting.
    asked.common.answers_parts |= profile.is_some();
    if profile.is_some() && asked.cursor.is_some() {
        return Err(refused("FT.PROFILE does not support cursor"));
    }
    let query = asked.common.query(&index, text)?;
    let wanted = wanted(&index, &query, &asked)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let filling = content::filling_warning(context, &index);
    let has_scores = asked.adds_scores || asked.form.with_scores;
    let is_by_key = !has_scores && query.distance_names().is_empty();
    let request = Request {
        count: HITS_MAX,
        by_key: is_by_key,
        scorer: asked.common.scorer,
        slop: asked.common.slop,
        in_order: asked.common.in_order,
        with_places: aggregate::ask_for_terms(&asked.steps),
        explains_scores: asked.form.explains_scores,
        clock: profile.as_mut().map(|profile| {
            profile.is_parsed();
            profile.clock()
        }),
        ..Request::default()
    };
    let source = Source {
        index: &index,
        query: &query,
        asked: &asked,
        wanted: wanted_fields(&index, &wanted),
    };
    let (first, page) = paged(&asked.steps);
    let (is_over, is_late) = (asked.common.clock(context), asked.common.last_clock(context));
    let parts = Parts::until(&is_late);
    let time = asked.common.time(&is_over, &parts);
    let mut held = content::memory(context);
    // A profile has the time of each step, so there they are not done together.
    let grouping = first.first().filter(|_| profile.is_none()).and_then(Grouping::of);
    let needs_hits = !is_by_key || query.nearest.is_some() || request.with_places;
    let (rest, records) = match grouping {
        Some(grouping) if !needs_hits => {
            let keys = content::keys(context, &index, &query, &request, time)?;
            let found = keys.iter().map(Match::Key);
            (
                &first[1..],
                source.grouped(context, grouping, found, (time, &mut held))?,
            )
        }
        grouping => {
            let mut found = content::run(context, &index, &query, &request, time)?;
            held.set(content::bytes_of_hits(&found.hits))?;
            if let Some(profile) = &mut profile {
                let mut behind = Vec::new();
                if !query.distance_names().is_empty() {
                    behind.push(("Metrics Applier", found.total));
                }
                if has_scores {
                    behind.push(("Scorer", found.total));
                }
                profile.is_searched(&mut found, &behind);
            }
            let mut hits = found.hits;
            // Without scores and vectors the order is arbitrary; this is the order of the keys.
            if !is_by_key && query.nearest.is_none() && !has_scores {
                hits.sort_by(|a, b| a.key.cmp(&b.key));
            }
            match grouping {
                Some(grouping) => {
                    let found = hits.iter().map(Match::Hit);
                    (
                        &first[1..],
                        source.grouped(context, grouping, found, (time, &mut held))?,
                    )
                }
                None => (first, source.records(context, &hits, (time, &mut held))?),
            }
        }
    };
    if let Some(profile) = &mut profile {
        match source.needs_contents() {
            true => profile.is_done("Loader", records.len() as u64),
            false => profile.is_done_too(),
        }
    }
    let mut watch = |name: String, count: usize| {
        if let Some(profile) = &mut profile {
            profile.is_done(name, count as u64);
        }
    };
    let mut holds = |bytes| hold(&mut held, bytes);
    let records = aggregate::run(rest, records, (time, &mut holds), &mut watch)?;
    let total = records.len() as u64;
    let mut records = aggregate::run(page, records, (time, &mut holds), &mut watch)?;
    let usage = &context.groups.indexes().usage;
    usage.note_query(&index.number, asked.common.dialect);
    let sorted_by = asked.with_sort_keys.then(|| {
        let keys = records.iter().map(|record| shown_sort_key(&asked.steps, record));
        keys.collect::<Vec<_>>()
    });
    for record in &mut records {
        record.retain(|name| !index.definition.hides(name.as_bytes()));
    }
    if parts.was_over() {
        count_part(context);
    }
    let warnings = content::warnings(filling.as_deref(), &parts);
    let Some(cursor) = asked.cursor else {
        if profile.is_some() {
            Profile::write_head(context);
        }
        let records = (&records[..], sorted_by.as_deref(), asked.form);
        write_records(context, total, records, &warnings);
        if let Some(profile) = profile {
            profile.write(context, &warnings);
        }
        return Ok(Outcome::Done);
    };
    let mut records = VecDeque::from(records);
    let is_last = records.len() < cursor.0;
    let piece: Vec<Record> = records.drain(..cursor.0.min(records.len())).collect();
    let id = match is_last {
        true => 0,
        false => open_cursor(context, &index, (total, records, asked.form), cursor)?,
    };
    write_piece(context, total, (&piece, asked.form), id, &warnings);
    Ok(Outcome::Done)
}

/// Keeps records for a cursor of pieces and idle time like these. Returns its id.
pub(super) fn open_cursor(
    context: &mut Context<'_, '_>,
    index: &Index,
    (total, records, form): (u64, VecDeque<Record>, RecordForm),
    (count, idle_ms_max): (usize, u64),
) -> Result<u64, ErrorReply> {
    let cursor = Cursor {
        index: index.number,
        total,
        records,
        form,
        count,
        idle_ms_max,
        used_ms: context.now_ms,
        reserved: Reserved::new(context.engine().memory().clone()),
    };
    let (random, now_ms) = (context.random(), context.now_ms);
    context.cursors().add(cursor, now_ms, || random.below(1 << 31))
}

/// The properties of documents that the steps use, except those of LOAD.
fn wanted(index: &Index, query: &Query, asked: &AggregateArguments) -> Result<Vec<String>, ErrorReply> {
    let distances = query.distance_names();
    let is_distance = |name: &str| distances.contains(&name);
    let is_score = |name: &str| asked.adds_scores && name == SCORE;
    let is_known = |used: &Use<'_>| is_distance(used.name) || is_score(used.name) || asked.finds(index, used);
    let mut wanted = aggregate::wanted(&asked.steps, &is_known)?;
    wanted.retain(|name| !asked.gives(name) && !is_distance(name) && !is_score(name));
    Ok(wanted)
}

/// The fields of these names.
pub(super) fn wanted_fields<'i>(index: &'i Index, names: &[String]) -> Vec<&'i Field> {
    let schema = &index.definition.schema;
    let fields = names.iter().filter_map(|name| schema.find(name.as_bytes()));
    fields.map(|(_, field)| field).collect()
}

/// A match: a hit, or only its key if nothing else is needed.
enum Match<'m> {
    Hit(&'m Hit),
    Key(&'m [u8]),
}

impl Match<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Match::Hit(hit) => &hit.key,
            Match::Key(key) => key,
        }
    }
}

/// Makes records of hits.
pub(super) struct Source<'a> {
    pub index: &'a Index,
    pub query: &'a Query,
    pub asked: &'a AggregateArguments,
    /// The fields that the steps use, without the loaded fields.
    pub wanted: Vec<&'a Field>,
}

impl Source<'_> {
    fn records(
        &self,
        context: &mut Context<'_, '_>,
        hits: &[Hit],
        (time, held): (Time<'_>, &mut Held<'_>),
    ) -> Result<Vec<Record>, ErrorReply> {
        let (mut records, mut total_bytes) = (Vec::new(), 0);
        for hit in hits {
            if content::is_over(records.len(), time)? {
                break;
            }
            if self.needs_contents() {
                content::fetch_next(context, hits, records.len());
            }
            let record = self.record(context, hit);
            total_bytes += record.size();
            hold(held, total_bytes)?;
            records.push(record);
        }
        Ok(records)
    }

    /// The groups of all matches, of which no records are kept.
    fn grouped<'m>(
        &self,
        context: &mut Context<'_, '_>,
        mut grouping: Grouping<'_>,
        mut found: impl Iterator<Item = Match<'m>>,
        (time, held): (Time<'_>, &mut Held<'_>),
    ) -> Result<Vec<Record>, ErrorReply> {
        let (mut record, mut of_key) = (Record::default(), Hit::default());
        let mut count = 0;
        loop {
            let together: Vec<Match<'_>> = found.by_ref().take(content::CONTENTS_AT_ONCE).collect();
            if together.is_empty() {
                return Ok(grouping.records());
            }
            let mut entries = match self.needs_contents() {
                true => context.keys_of(0).find_each(together.iter().map(Match::key)),
                false => Vec::new(),
            }
            .into_iter();
            for one in together {
                let entry = entries.next().flatten();
                if content::is_over(count, time)? {
                    return Ok(grouping.records());
                }
                count += 1;
                record.clear();
                let hit = match one {
                    Match::Hit(hit) => hit,
                    Match::Key(key) => {
                        of_key.key.clear();
                        of_key.key.extend_from_slice(key);
                        &of_key
                    }
                };
                self.fill(context, hit, entry, &mut record);
                grouping.add(&record)?;
                hold(held, grouping.bytes())?;
            }
        }
    }

    /// Returns true if records need more than the data of a hit.
    fn needs_contents(&self) -> bool {
        let asked = self.asked;
        asked.loads_all || asked.form.with_payloads || !asked.loaded.is_empty() || !self.wanted.is_empty()
    }

    pub fn record(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Record {
        let mut record = Record::default();
        let entry = self
            .needs_contents()
            .then(|| context.keys_of(0).find(&hit.key))
            .flatten();
        self.fill(context, hit, entry, &mut record);
        record
    }

    /// Gives an empty record the hit's properties; those of its contents, if they are wanted, from
    /// its key's entry.
    fn fill(&self, context: &mut Context<'_, '_>, hit: &Hit, entry: Option<Entry>, record: &mut Record) {
        let mut known = HashSet::new();
        let places = hit.places.iter().filter(|place| known.insert(&*place.term));
        record.set_matched(places.map(|place| place.term.to_vec()).collect());
        for (name, distance) in content::distances(self.query, hit) {
            record.set(&String::from_utf8_lossy(&name), distance);
        }
        record.set_score(hit.score);
        record.set_explanation(hit.explanation.clone());
        if self.asked.adds_scores {
            record.set(SCORE, Value::Number(hit.score));
        }
        let keys = &mut context.keys_of(0);
        let Some(contents) = entry.and_then(|entry| Contents::of_entry(keys, self.index, entry)) else {
            return;
        };
        let dialect = self.asked.common.dialect;
        let schema = &self.index.definition.schema;
        if self.asked.form.with_payloads && contents.is_hash() {
            let field = self.index.definition.payload_field.as_ref();
            record.set_payload(field.and_then(|field| contents.text(keys, field)));
        }
        for Loaded { path, name, .. } in &self.asked.loaded {
            let known = schema.find(path.as_bytes());
            let value = match known {
                Some((_, field)) => contents.property(keys, field, (dialect, true)),
                None if path == KEY => Some(Value::Text(hit.key.clone())),
                None => contents.at_path(keys, path, dialect),
            };
            if let Some(value) = value {
                record.set(name, value);
            }
        }
        if self.asked.loads_all {
            for (name, value) in contents.all(keys, dialect) {
                let of_path = schema.fields().find(|(_, field)| field.path.as_bytes() == name);
                let value = match of_path.filter(|_| contents.is_hash()) {
                    Some((_, field)) => contents::property(field, value, true),
                    None => value,
                };
                record.set(&String::from_utf8_lossy(&name), value);
            }
        }
        for field in &self.wanted {
            // All fields of the hash are already loaded.
            let is_loaded = self.asked.loads_all && contents.is_hash() && field.path == field.name;
            if !is_loaded
                && let Value::Null = record.get(&field.name)
                && let Some(value) = contents.property(keys, field, (dialect, false))
            {
                record.set(&field.name, value);
            }
        }
    }
}

/// Counts the bytes of an aggregation's records or groups. Refuses more than there may be.
pub(super) fn hold(held: &mut Held<'_>, bytes: usize) -> Result<(), SearchError> {
    match bytes > RECORDS_BYTES_MAX {
        true => {
            let text = format!("An aggregation's records have at most {RECORDS_BYTES_MAX} bytes together");
            Err(SearchError::Limit(text))
        }
        false => held.set(bytes),
    }
}

/// The steps, and the final LIMIT together with the order before it. The total is that of LIMIT's
/// input.
pub(super) fn paged(steps: &[Step]) -> (&[Step], &[Step]) {
    let behind = match steps {
        [.., Step::SortBy { .. }, Step::Limit { .. }] => 2,
        [.., Step::Limit { .. }] => 1,
        _ => 0,
    };
    steps.split_at(steps.len() - behind)
}

fn write_piece(
    context: &mut Context<'_, '_>,
    total: u64,
    (records, form): (&[Record], RecordForm),
    id: u64,
    warnings: &[&str],
) {
    context.reply.array(2);
    write_records(context, total, (records, None, form), warnings);
    context.reply.integer(id as i64);
}

/// The value of the first property of the last SORTBY, in the form of a sorted search.
fn shown_sort_key(steps: &[Step], record: &Record) -> Option<Vec<u8>> {
    let keys = steps.iter().rev().find_map(|step| match step {
        Step::SortBy { keys, .. } => keys.first(),
        _ => None,
    });
    let (name, _) = keys?;
    match record.get(name).first() {
        Value::Null => None,
        Value::Number(number) => Some(format!("#{}", sort_key(*number)).into_bytes()),
        other => Some([&b"$"[..], &other.bytes()].concat()),
    }
}

/// Records, and their sort keys if requested.
type Sorted<'r> = (&'r [Record], Option<&'r [Option<Vec<u8>>]>, RecordForm);

fn write_records(context: &mut Context<'_, '_>, total: u64, (records, sorted_by, form): Sorted<'_>, warnings: &[&str]) {
    let optional = [
        form.with_scores,
        form.with_payloads,
        sorted_by.is_some(),
        !form.no_content,
    ];
    let parts = optional.into_iter().filter(|is_shown| *is_shown).count();
    let is_map = context.reply.protocol() == Protocol::Resp3;
    match is_map {
        true => {
            write_head(context, total);
            context.reply.array(records.len());
        }
        false => {
            context.reply.array(1 + records.len() * parts);
            context.reply.integer(total as i64);
        }
    }
    for (at, record) in records.iter().enumerate() {
        let name = |context: &mut Context<'_, '_>, name: &str| {
            if is_map {
                context.reply.simple(name);
            }
        };
        if is_map {
            context.reply.map(1 + parts);
        }
        if form.with_scores {
            name(context, "score");
            match form.explains_scores {
                true => write_explained(context, record.score(), record.explanation()),
                false => context.reply.double(record.score()),
            }
        }
        if form.with_payloads {
            name(context, "payload");
            match record.payload() {
                Some(payload) => context.reply.bulk(payload),
                None => context.reply.null(),
            }
        }
        if sorted_by.is_some() {
            name(context, "sortkey");
            write_sort_key(context, sorted_by, at);
        }
        if !form.no_content {
            name(context, "extra_attributes");
            context.reply.map(record.iter().count());
            write_pairs(context, record);
        }
        if is_map {
            context.reply.simple("values");
            context.reply.array(0);
        }
    }
    if is_map {
        write_tail(context, warnings);
    }
}

fn write_sort_key(context: &mut Context<'_, '_>, sorted_by: Option<&[Option<Vec<u8>>]>, at: usize) {
    match sorted_by.map(|keys| &keys[at]) {
        Some(Some(key)) => context.reply.bulk(key),
        Some(None) => context.reply.null(),
        None => {}
    }
}

pub(super) fn write_pairs(context: &mut Context<'_, '_>, record: &Record) {
    for (name, value) in record.iter() {
        context.reply.bulk(name.as_bytes());
        write_value(context, value);
    }
}

fn write_value(context: &mut Context<'_, '_>, value: &Value) {
    match value {
        Value::Null => context.reply.null(),
        Value::List(values) => {
            context.reply.array(values.len());
            values.iter().for_each(|value| write_value(context, value));
        }
        Value::Map(pairs) => {
            context.reply.map(pairs.len());
            for (name, value) in pairs {
                context.reply.bulk(name.as_bytes());
                write_value(context, value);
            }
        }
        Value::Path(values) => context.reply.bulk(&values.shown),
        other => context.reply.bulk(&other.bytes()),
    }
}

pub fn cursor(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let given = words(arguments, 3)?;
    let is = |word: &str| given[0].eq_ignore_ascii_case(word.as_bytes());
    let wrong = || refused("Bad cursor ID");
    let id: u64 = std::str::from_utf8(given[2])
        .ok()
        .and_then(|id| id.parse().ok())
        .ok_or_else(wrong)?;
    let mut rest = Words::new(&given[3..]);
    let count = match rest.take("COUNT") {
        true => Some(piece_length(&mut rest)?),
        false => None,
    };
    let now_ms = context.now_ms;
    let index = match find(context, arguments, given[1], false) {
        Ok(index) => index.number,
        Err(error) if error.text.starts_with("NOPERM") => return Err(error),
        Err(_) => return Err(CURSOR_GONE.into()),
    };
    if is("READ") {
        let mut cursor = context.cursors().take(&index, id, now_ms).ok_or(CURSOR_GONE)?;
        let total = cursor.total;
        let ((piece, is_last), form) = (cursor.piece(count), cursor.form);
        cursor.used_ms = now_ms;
        let next = if is_last { 0 } else { id };
        if !is_last {
            context.cursors().put_back(id, cursor);
        }
        // The empty piece at the end has no total, as at the original.
        let total = match piece.is_empty() && !form.with_count {
            true => 0,
            false => total,
        };
        write_piece(context, total, (&piece, form), next, &[]);
        Ok(())
    } else if is("DEL") {
        let gone = "SEARCH_CURSOR_NOT_FOUND Cursor does not exist";
        context.cursors().take(&index, id, now_ms).ok_or(gone)?;
        context.reply.ok();
        Ok(())
    } else {
        Err(refused("Unknown subcommand"))
    }
}
