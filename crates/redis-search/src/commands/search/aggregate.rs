//! FT.AGGREGATE, and cursors over its results.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use quartet_engine::Reserved;
use quartet_layer_redis::module_api::{Context, Entry, ErrorReply, Kind, Outcome};
use quartet_search::error::SearchError;
use quartet_search::hits::Hit;
use quartet_search::index::schema::Field;
use quartet_search::redis::aggregate::{
    self, Budget, Expression, Grouping, Record, Reducer, Step, Use, Value, sort_key,
};
use quartet_search::redis::execute::{Clock, HITS_MAX, Request};
use quartet_search::redis::query::Query;
use quartet_search::time::Time;
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, Taken, limit, unknown};
use super::content;
use super::contents::{self, Contents, DOCUMENT};
use super::lookup::{count_part, counted, find, words};
use super::plan::{self, Execution, Plan, QueryStage};
use super::query::{write_explained, write_head, write_tail};
use super::reports::Reports;
use crate::errors::IntoReply;
use crate::indexes::query_memory::Held;
use crate::indexes::{Cursor, Index, RecordForm, Words, refused};
use crate::state::SearchGroups;

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

const CURSOR_GONE: SearchError = SearchError::NoCursor("not found");

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
    pub cursor: Option<Pieces>,
    /// The order and the range requested since the last GROUPBY.
    arrangement: Option<Arrangement>,
}

impl AggregateArguments {
    /// Prepares the request for FT.PROFILE, if that runs it.
    pub fn is_profiled(&mut self, is_profiled: bool) -> Result<(), ErrorReply> {
        // A profile shows the progress of a timed-out search, under any setting.
        self.common.answers_parts |= is_profiled;
        match is_profiled && self.cursor.is_some() {
            true => Err(refused("FT.PROFILE does not support cursor")),
            false => Ok(()),
        }
    }
}

/// The pieces of a cursor's records.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    /// The number of records of a piece.
    count: usize,
    /// The lifetime of the cursor between two requests.
    idle_ms_max: u64,
}

/// Records for a cursor.
pub(super) struct Remaining {
    pub total: u64,
    pub records: VecDeque<Record>,
    pub form: RecordForm,
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
    /// before it, and of other fields those that are SORTABLE. `LOAD *` gives a document whole, and
    /// of it the schema's fields.
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
            let expression = Expression::parse(written.as_bytes()).into_reply()?;
            let name = match words.take("AS") {
                true => words.text("AS")?,
                false => written,
            };
            self.steps.push(Step::Apply { expression, name });
        } else if words.peek().is_some_and(|word| word.eq_ignore_ascii_case(b"FILTER")) {
            words.next();
            let written = words.text("APPLY/FILTER")?;
            self.steps
                .push(Step::Filter(Expression::parse(written.as_bytes()).into_reply()?));
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
            let unsupported = ["SUMMARIZE", "HIGHLIGHT", "RETURN"].iter().find(is_next);
            return Err(match unsupported {
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
        let fields = words.counted("LOAD")?;
        let mut fields = Words::new(fields);
        while let Some(path) = fields.next() {
            if self.names_are_marked {
                check_mark(path, "LOAD")?;
            }
            let path = String::from_utf8_lossy(path.strip_prefix(b"@").unwrap_or(path)).into_owned();
            let name = match fields.take("AS") {
                true => fields.text("LOAD")?,
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
    let group_keys = words.counted("GROUPBY")?;
    if group_keys.len() > GROUP_KEYS_MAX {
        return Err(refused("Bad arguments for GROUPBY: Value is outside acceptable bounds"));
    }
    let properties = group_keys
        .iter()
        .map(|word| property(word))
        .collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    let mut is_first = |name: &str| match names.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(SearchError::PropertyTwice(name.into()).into_reply()),
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
        let reducer = Reducer::parse(&name, &arguments).into_reply()?;
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
    let options = words.counted("SORTBY")?;
    let mut options = Words::new(options);
    let mut keys = Vec::new();
    while let Some(word) = options.next() {
        if keys.len() == SORT_KEYS_MAX {
            let text = format!("Cannot sort by more than {SORT_KEYS_MAX} fields");
            return Err(SearchError::Limit(text).into_reply());
        }
        if names_are_marked {
            check_mark(word, "SORTBY")?;
        }
        let text = String::from_utf8_lossy(word);
        let wrong = || refused(format!("MISSING ASC or DESC after sort field ({text})"));
        let name = text.strip_prefix('@').ok_or_else(wrong)?.to_owned();
        let descends = options.take("DESC");
        if !descends {
            options.take("ASC");
        }
        keys.push((name, !descends));
    }
    Ok(keys)
}

fn with_cursor(words: &mut Words<'_>) -> Result<Pieces, ErrorReply> {
    let (mut count, mut idle_ms_max) = (COUNT_DEFAULT, IDLE_MS_MAX);
    loop {
        if words.take("COUNT") {
            count = piece_length(words)?;
        } else if words.take("MAXIDLE") {
            let idle_ms: u64 = words.number("MAXIDLE")?;
            idle_ms_max = match idle_ms {
                0 => IDLE_MS_MAX,
                idle_ms => idle_ms.min(IDLE_MS_MAX),
            };
        } else {
            return Ok(Pieces { count, idle_ms_max });
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
        return Err(SearchError::NoQuery.into_reply());
    }
    let words = words(arguments, 2)?;
    let outcome = plan::run::<AggregatePlan>(context, arguments, &words, Reports::dropped());
    counted(context, outcome)
}

/// FT.AGGREGATE: the index is searched, records are made of the matches, and the steps of the
/// request are applied to them.
pub(super) struct AggregatePlan {
    stage: QueryStage,
    arguments: AggregateArguments,
    /// The properties of documents that the steps use, except those of LOAD.
    properties: Vec<String>,
}

/// The records of an aggregation.
pub(super) struct Records<'c> {
    /// The number before the last LIMIT.
    total: u64,
    records: Vec<Record>,
    /// Their sort keys, on request.
    sort_keys: Option<Vec<Option<Vec<u8>>>>,
    _held: Held<'c>,
}

impl Plan for AggregatePlan {
    type Answer<'c> = Records<'c>;

    fn parse(context: &Context<'_, '_>, request: plan::Request<'_>) -> Result<AggregatePlan, ErrorReply> {
        let (index, mut words) = (request.index, request.words);
        let text = words.next().unwrap_or_default();
        let mut arguments = AggregateArguments::read(context, &mut words)?;
        arguments.is_profiled(request.is_profiled)?;
        let query = arguments.common.query(&index, text)?;
        let properties = used_properties(&index, &query, &arguments)?;
        Ok(AggregatePlan {
            stage: QueryStage { index, query },
            arguments,
            properties,
        })
    }

    fn index(&self) -> &Arc<Index> {
        &self.stage.index
    }

    fn common(&self) -> &Common {
        &self.arguments.common
    }

    fn execute<'c>(&self, context: &mut Context<'c, '_>, run: &mut Execution<'_>) -> Result<Records<'c>, ErrorReply> {
        let mut memory = content::memory(context);
        let (steps, records) = self.records(context, run, &mut memory)?;
        let (total, mut records) = apply(steps, records, run, &mut memory)?;
        let sort_keys = self.arguments.with_sort_keys.then(|| {
            let keys = records
                .iter()
                .map(|record| shown_sort_key(&self.arguments.steps, record));
            keys.collect()
        });
        for record in &mut records {
            record.retain(|name| !self.stage.index.definition.hides(name.as_bytes()));
        }
        Ok(Records {
            total,
            records,
            sort_keys,
            _held: memory,
        })
    }

    fn reply(
        &self,
        context: &mut Context<'_, '_>,
        answer: Records<'_>,
        mut run: Execution<'_>,
    ) -> Result<(), ErrorReply> {
        let Records { total, records, .. } = answer;
        if run.was_over() {
            count_part(context);
        }
        let reports = run.take_reports();
        let (warnings, form) = (run.warnings(), self.arguments.form);
        let Some(pieces) = self.arguments.cursor else {
            reports.write_head(context);
            let sort_keys = answer.sort_keys.as_deref();
            write_records(context, total, &records, sort_keys, form, &warnings);
            reports.write(context, &warnings);
            return Ok(());
        };
        let mut records = VecDeque::from(records);
        let is_last = records.len() < pieces.count;
        let piece: Vec<Record> = records.drain(..pieces.count.min(records.len())).collect();
        let id = match is_last {
            true => 0,
            false => {
                let remaining = Remaining { total, records, form };
                open_cursor(context, &self.stage.index, remaining, pieces)?
            }
        };
        write_piece(context, total, &piece, form, id, &warnings);
        Ok(())
    }
}

impl AggregatePlan {
    fn has_scores(&self) -> bool {
        self.arguments.adds_scores || self.arguments.form.with_scores
    }

    /// The search of the index.
    fn request(&self, clock: Option<Clock>) -> Request {
        let common = &self.arguments.common;
        Request {
            count: HITS_MAX,
            by_key: !self.has_scores() && self.stage.query.distance_names().is_empty(),
            scorer: common.scorer,
            slop: common.slop,
            in_order: common.in_order,
            with_places: aggregate::ask_for_terms(&self.arguments.steps),
            explains_scores: self.arguments.form.explains_scores,
            clock,
            ..Request::default()
        }
    }

    /// The records of the matches, and the steps that are left for them: a GROUPBY at the front is
    /// applied as the matches are found.
    fn records<'p>(
        &'p self,
        context: &mut Context<'_, '_>,
        run: &mut Execution<'_>,
        memory: &mut Held<'_>,
    ) -> Result<(&'p [Step], Vec<Record>), ErrorReply> {
        let (QueryStage { index, query }, time) = (&self.stage, run.time());
        let source = Source {
            index,
            query,
            arguments: &self.arguments,
            fields: fields_of(index, &self.properties),
        };
        let request = self.request(run.reports.clock());
        // A profile has the time of each step, so there they are not done together.
        let first = self.arguments.steps.first().filter(|_| !run.reports.are_kept());
        let grouping = first.and_then(Grouping::of);
        let steps = &self.arguments.steps[usize::from(grouping.is_some())..];
        let needs_hits = !request.by_key || query.nearest.is_some() || request.with_places;
        let records = match grouping {
            Some(grouping) if !needs_hits => {
                let keys = content::keys(context, &self.stage, &request, time)?;
                source.grouped(context, grouping, keys.iter().map(Match::Key), Limits { time, memory })?
            }
            Some(grouping) => {
                let hits = self.hits(context, run, &request, memory)?;
                source.grouped(context, grouping, hits.iter().map(Match::Hit), Limits { time, memory })?
            }
            None => {
                let hits = self.hits(context, run, &request, memory)?;
                source.records(context, &hits, Limits { time, memory })?
            }
        };
        match source.needs_contents() {
            true => run.reports.is_done("Loader", records.len()),
            false => run.reports.is_done_too(),
        }
        Ok((steps, records))
    }

    fn hits(
        &self,
        context: &mut Context<'_, '_>,
        run: &mut Execution<'_>,
        request: &Request,
        memory: &mut Held<'_>,
    ) -> Result<Vec<Hit>, ErrorReply> {
        let mut answer = content::run(context, &self.stage, request, run.time())?;
        memory.set(content::bytes_of_hits(&answer.hits)).into_reply()?;
        run.reports.is_searched(&mut answer, |answer| {
            let has_distances = !self.stage.query.distance_names().is_empty();
            let stages = [("Metrics Applier", has_distances), ("Scorer", self.has_scores())];
            let stages = stages.into_iter().filter(|(_, is_there)| *is_there);
            stages.map(|(name, _)| (name, answer.total)).collect()
        });
        // Without scores and vectors the order is arbitrary; this is the order of the keys.
        if !request.by_key && self.stage.query.nearest.is_none() && !self.has_scores() {
            answer.hits.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(answer.hits)
    }
}

/// Keeps records for a cursor of pieces and idle time like these. Returns its id.
pub(super) fn open_cursor(
    context: &mut Context<'_, '_>,
    index: &Index,
    remaining: Remaining,
    pieces: Pieces,
) -> Result<u64, ErrorReply> {
    let cursor = Cursor {
        index: index.head.number,
        total: remaining.total,
        records: remaining.records,
        form: remaining.form,
        count: pieces.count,
        idle_ms_max: pieces.idle_ms_max,
        used_ms: context.now_ms,
        reserved: Reserved::new(context.engine().memory().clone()),
    };
    let (random, now_ms) = (context.random(), context.now_ms);
    context.cursors().add(cursor, now_ms, || random.below(1 << 31))
}

/// The properties of documents that the steps use, except those of LOAD.
fn used_properties(index: &Index, query: &Query, arguments: &AggregateArguments) -> Result<Vec<String>, ErrorReply> {
    let distances = query.distance_names();
    let is_distance = |name: &str| distances.contains(&name);
    let is_score = |name: &str| arguments.adds_scores && name == SCORE;
    let is_known = |used: &Use<'_>| is_distance(used.name) || is_score(used.name) || arguments.finds(index, used);
    let mut properties = aggregate::wanted(&arguments.steps, &is_known).into_reply()?;
    properties.retain(|name| !arguments.gives(name) && !is_distance(name) && !is_score(name));
    Ok(properties)
}

/// The fields of these names.
pub(super) fn fields_of<'i>(index: &'i Index, names: &[String]) -> Vec<&'i Field> {
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

/// The limits of the work on records.
struct Limits<'l, 'h> {
    time: Time<'l>,
    memory: &'l mut Held<'h>,
}

/// Makes records of hits.
pub(super) struct Source<'a> {
    pub index: &'a Index,
    pub query: &'a Query,
    pub arguments: &'a AggregateArguments,
    /// The fields that the steps use, without the loaded fields.
    pub fields: Vec<&'a Field>,
}

impl Source<'_> {
    fn records(
        &self,
        context: &mut Context<'_, '_>,
        hits: &[Hit],
        limits: Limits<'_, '_>,
    ) -> Result<Vec<Record>, ErrorReply> {
        let Limits { time, memory } = limits;
        let (mut records, mut total_bytes) = (Vec::new(), 0);
        for hit in hits {
            if content::is_over(records.len(), time).into_reply()? {
                break;
            }
            if self.needs_contents() {
                content::fetch_next(context, hits, records.len());
            }
            let record = self.record(context, hit)?;
            total_bytes += record.size();
            hold(memory, total_bytes).into_reply()?;
            records.push(record);
        }
        Ok(records)
    }

    /// The groups of all matches. Keeps no records.
    fn grouped<'m>(
        &self,
        context: &mut Context<'_, '_>,
        mut grouping: Grouping<'_>,
        mut matches: impl Iterator<Item = Match<'m>>,
        limits: Limits<'_, '_>,
    ) -> Result<Vec<Record>, ErrorReply> {
        let Limits { time, memory } = limits;
        let (mut record, mut key_hit) = (Record::default(), Hit::default());
        let mut count = 0;
        loop {
            let together: Vec<Match<'_>> = matches.by_ref().take(content::CONTENTS_AT_ONCE).collect();
            if together.is_empty() {
                return Ok(grouping.records());
            }
            let mut entries = match self.needs_contents() {
                true => context.keys_of(0).find_each(together.iter().map(Match::key)),
                false => Vec::new(),
            }
            .into_iter();
            for matched in together {
                let entry = entries.next().flatten();
                if content::is_over(count, time).into_reply()? {
                    return Ok(grouping.records());
                }
                count += 1;
                record.clear();
                let hit = match matched {
                    Match::Hit(hit) => hit,
                    Match::Key(key) => {
                        key_hit.key.clear();
                        key_hit.key.extend_from_slice(key);
                        &key_hit
                    }
                };
                self.fill(context, hit, entry, &mut record)?;
                grouping.add(&record).into_reply()?;
                hold(memory, grouping.bytes()).into_reply()?;
            }
        }
    }

    /// Returns true if records need more than the data of a hit.
    fn needs_contents(&self) -> bool {
        let arguments = self.arguments;
        arguments.loads_all || arguments.form.with_payloads || !arguments.loaded.is_empty() || !self.fields.is_empty()
    }

    pub fn record(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<Record, ErrorReply> {
        let mut record = Record::default();
        let entry = self
            .needs_contents()
            .then(|| context.keys_of(0).find(&hit.key))
            .flatten();
        self.fill(context, hit, entry, &mut record)?;
        Ok(record)
    }

    /// Fills an empty record with the hit's properties, and with requested properties of its key's
    /// entry.
    fn fill(
        &self,
        context: &mut Context<'_, '_>,
        hit: &Hit,
        entry: Option<Entry>,
        record: &mut Record,
    ) -> Result<(), ErrorReply> {
        let mut terms = HashSet::new();
        let places = hit.places.iter().filter(|place| terms.insert(&*place.term));
        record.set_matched(places.map(|place| place.term.to_vec()).collect());
        for (name, distance) in content::distances(self.query, hit) {
            record.set(&String::from_utf8_lossy(&name), distance);
        }
        record.set_score(hit.score);
        record.set_explanation(hit.explanation.clone());
        if self.arguments.adds_scores {
            record.set(SCORE, Value::Number(hit.score));
        }
        let values = self.arguments.loaded.len() + self.fields.len();
        let workspace = context.groups.workspace();
        let keys = &mut context.keys_of(0);
        let contents = entry.and_then(|entry| Contents::of_entry(self.index, entry, values, workspace));
        let Some(contents) = contents else {
            return Ok(());
        };
        let dialect = self.arguments.common.dialect;
        let schema = &self.index.definition.schema;
        if self.arguments.form.with_payloads && contents.is_hash() {
            let field = self.index.definition.payload_field.as_ref();
            record.set_payload(field.and_then(|field| contents.text(keys, field)));
        }
        for Loaded { path, name, .. } in &self.arguments.loaded {
            let property = schema.find(path.as_bytes());
            let value = match property {
                Some((_, field)) => contents.property(keys, field, dialect, true),
                None if path == KEY => Some(Value::Text(hit.key.clone())),
                None => contents.at_path(keys, path, dialect),
            };
            if let Some(value) = value {
                record.set(name, value);
            }
        }
        if self.arguments.loads_all {
            for (name, value) in contents.all(keys, dialect) {
                let field = schema.fields().find(|(_, field)| field.path.as_bytes() == name);
                let value = match field.filter(|_| contents.is_hash()) {
                    Some((_, field)) => contents::property(field, value, true),
                    None => value,
                };
                record.set(&String::from_utf8_lossy(&name), value);
            }
        }
        for field in &self.fields {
            // All fields of the hash are already loaded.
            let is_loaded = self.arguments.loads_all && contents.is_hash() && field.path == field.name;
            if !is_loaded
                && let Value::Null = record.get(&field.name)
                && let Some(value) = contents.property(keys, field, dialect, false)
            {
                record.set(&field.name, value);
            }
        }
        content::check_memory(context)
    }
}

/// Counts the bytes of an aggregation's records or groups. Refuses more than there may be.
fn hold(memory: &mut Held<'_>, bytes: usize) -> Result<(), SearchError> {
    match bytes > RECORDS_BYTES_MAX {
        true => {
            let text = format!("An aggregation's records have at most {RECORDS_BYTES_MAX} bytes together");
            Err(SearchError::Limit(text))
        }
        false => memory.set(bytes),
    }
}

/// Applies steps to records. Returns the results, after the number of them before the last LIMIT.
pub(super) fn apply(
    steps: &[Step],
    records: Vec<Record>,
    run: &mut Execution<'_>,
    memory: &mut Held<'_>,
) -> Result<(u64, Vec<Record>), ErrorReply> {
    let (first, page) = paged(steps);
    let mut budget = Budget {
        time: run.time(),
        holds: &mut |bytes| hold(memory, bytes),
    };
    let mut watch = |name: String, count: usize| run.reports.is_done(name, count);
    let records = aggregate::run(first, records, &mut budget, &mut watch).into_reply()?;
    let total = records.len() as u64;
    let records = aggregate::run(page, records, &mut budget, &mut watch).into_reply()?;
    Ok((total, records))
}

/// The steps, and the final LIMIT together with the order before it. The total is that of LIMIT's
/// input.
fn paged(steps: &[Step]) -> (&[Step], &[Step]) {
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
    records: &[Record],
    form: RecordForm,
    id: u64,
    warnings: &[&str],
) {
    context.reply.array(2);
    write_records(context, total, records, None, form, warnings);
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

/// Writes records, with `sorted_by` as their sort keys if these are requested.
fn write_records(
    context: &mut Context<'_, '_>,
    total: u64,
    records: &[Record],
    sorted_by: Option<&[Option<Vec<u8>>]>,
    form: RecordForm,
    warnings: &[&str],
) {
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
    let words = words(arguments, 3)?;
    let is = |word: &str| words[0].eq_ignore_ascii_case(word.as_bytes());
    let wrong = || refused("Bad cursor ID");
    let id: u64 = std::str::from_utf8(words[2])
        .ok()
        .and_then(|id| id.parse().ok())
        .ok_or_else(wrong)?;
    let mut options = Words::new(&words[3..]);
    let count = match options.take("COUNT") {
        true => Some(piece_length(&mut options)?),
        false => None,
    };
    let now_ms = context.now_ms;
    let index = match find(context, arguments, words[1], false) {
        Ok(index) => index.head.number,
        Err(error) if error.text.starts_with("NOPERM") => return Err(error),
        Err(_) => return Err(CURSOR_GONE.into_reply()),
    };
    if is("READ") {
        let mut cursor = context
            .cursors()
            .take(&index, id, now_ms)
            .ok_or(CURSOR_GONE)
            .into_reply()?;
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
        write_piece(context, total, &piece, form, next, &[]);
        Ok(())
    } else if is("DEL") {
        let missing = SearchError::NoCursor("does not exist");
        context.cursors().take(&index, id, now_ms).ok_or(missing).into_reply()?;
        context.reply.ok();
        Ok(())
    } else {
        Err(refused("Unknown subcommand"))
    }
}
