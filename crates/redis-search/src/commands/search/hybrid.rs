//! FT.HYBRID: combines the ranks or scores of a search for words and a search for vectors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome};
use quartet_search::error::SearchError;
use quartet_search::hits::Hit;
use quartet_search::index::document::Sortable;
use quartet_search::index::schema::FieldKind;
use quartet_search::index::vector_kind::Metric;
use quartet_search::redis::aggregate::{self, Record, Step, Use, Value};
use quartet_search::redis::execute::{HITS_MAX, Request, Scorer};
use quartet_search::redis::query::{
    Expander, HybridPolicy, Nearest, NearestOptions, Node, NodeKind, Query, VectorRange,
};
use quartet_search::time::Parts;
use quartet_wire_resp::{Arguments, Protocol};

use super::aggregate::{AggregateArguments, Pieces, Remaining, Source, apply, fields_of, open_cursor, write_pairs};
use super::arguments::Common;
use super::content;
use super::lookup::{count_part, counted, words};
use super::plan::{self, Execution, PHASES, Plan, QueryStage};
use super::reports::Reports;
use crate::errors::IntoReply;
use crate::indexes::query_memory::Held;
use crate::indexes::{Index, RecordForm, Words, refused};

/// The number of searches, if the request gives it.
const SEARCHES: u64 = 2;
const WINDOW_DEFAULT: usize = 20;
const CONSTANT_DEFAULT: f64 = 60.0;
const NEAREST_DEFAULT: usize = 10;
const ALPHA_DEFAULT: f64 = 0.3;
const BETA_DEFAULT: f64 = 0.7;
const RESULTS_DEFAULT: usize = 10;

const KEY: &str = "__key";
const SCORE: &str = "__score";

/// The search for words.
struct TextPart {
    query: Vec<u8>,
    scorer: Scorer,
    score_name: Option<String>,
}

enum Nearness {
    Nearest { count: usize, candidates: Option<usize> },
    Within { radius: f64 },
}

/// The search for vectors.
struct VectorPart {
    field: u16,
    metric: Metric,
    vector: Vec<u8>,
    nearness: Nearness,
    filter: Option<Filter>,
    score_name: Option<String>,
}

/// Which documents the search for vectors is among.
struct Filter {
    query: Vec<u8>,
    /// Returns true if the request has a policy.
    has_policy: bool,
    policy: Option<HybridPolicy>,
}

enum Method {
    /// By rank.
    Reciprocal { constant: f64 },
    /// By score, each with its factor.
    Linear { alpha: f64, beta: f64 },
}

struct Combination {
    method: Method,
    window: usize,
    score_name: Option<String>,
}

/// As many words as are counted, two by two: each name with its value.
fn counted_pairs<'w>(words: &mut Words<'w>, option: &str) -> Result<Vec<(String, &'w [u8])>, ErrorReply> {
    let listed = words.counted(option)?;
    if listed.len() % 2 != 0 {
        return Err(refused(format!("{option} takes pairs of names and values")));
    }
    let pairs = listed.chunks(2);
    Ok(pairs
        .map(|pair| (String::from_utf8_lossy(pair[0]).to_ascii_uppercase(), pair[1]))
        .collect())
}

fn unrecognized(name: &str, option: &str) -> ErrorReply {
    SearchError::Unrecognized(format!("Unknown argument `{name}` in {option}")).into_reply()
}

fn number<N: std::str::FromStr>(name: &str, word: &[u8]) -> Result<N, ErrorReply> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| refused(format!("Invalid {name} value")))
}

fn score_name(words: &mut Words<'_>) -> Result<Option<String>, ErrorReply> {
    match words.take("YIELD_SCORE_AS") {
        true if words.left() == 0 => Err(refused("Missing argument value for YIELD_SCORE_AS")),
        true => Ok(Some(words.text("YIELD_SCORE_AS")?)),
        false => Ok(None),
    }
}

fn refuse_dialect(words: &Words<'_>) -> Result<(), ErrorReply> {
    match words.peek().is_some_and(|word| word.eq_ignore_ascii_case(b"DIALECT")) {
        true => Err(no_dialect()),
        false => Ok(()),
    }
}

fn no_dialect() -> ErrorReply {
    refused(
        "DIALECT is not supported in FT.HYBRID or any of its subqueries. Please check the documentation on \
         search-default-dialect configuration.",
    )
}

impl TextPart {
    fn read(words: &mut Words<'_>) -> Result<TextPart, ErrorReply> {
        let count = words
            .peek()
            .and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
        if let Some(count) = count {
            words.next();
            if count != SEARCHES {
                return Err(refused("FT.HYBRID currently supports only two subqueries"));
            }
        }
        if !words.take("SEARCH") {
            return Err(refused("SEARCH argument is required"));
        }
        let query = words.argument("SEARCH")?;
        let (mut scorer, mut name) = (Scorer::default(), None);
        loop {
            if words.take("SCORER") {
                let name = words.text("SCORER")?;
                let unknown = || refused(format!("No such scorer {name}"));
                scorer = Scorer::of_name(&name).ok_or_else(unknown)?;
            } else if let Some(given_name) = score_name(words)? {
                name = Some(given_name);
            } else {
                return Ok(TextPart {
                    query: query.to_vec(),
                    scorer,
                    score_name: name,
                });
            }
        }
    }
}

impl VectorPart {
    fn read(index: &Index, words: &mut Words<'_>) -> Result<VectorPart, ErrorReply> {
        refuse_dialect(words)?;
        if !words.take("VSIM") {
            return Err(refused("VSIM argument is required"));
        }
        let name = words.argument("VSIM")?;
        let missing = || refused("Missing @ prefix for vector field name");
        let name = name.strip_prefix(b"@").ok_or_else(missing)?;
        let unknown = || refused(format!("Unknown field `{}`", String::from_utf8_lossy(name)));
        let (field, vector_field) = index.definition.schema.find(name).ok_or_else(unknown)?;
        let FieldKind::Vector(kind) = &vector_field.kind else {
            return Err(refused("Expected a VECTOR field"));
        };
        let vector = words.argument("VSIM")?.to_vec();
        refuse_dialect(words)?;
        let mut part = VectorPart {
            field,
            metric: kind.metric(),
            vector,
            nearness: Nearness::Nearest {
                count: NEAREST_DEFAULT,
                candidates: None,
            },
            filter: None,
            score_name: None,
        };
        loop {
            if words.take("KNN") {
                part.nearness = nearest(words)?;
            } else if words.take("RANGE") {
                part.nearness = within(words)?;
            } else if part.filter.is_none() && words.take("FILTER") {
                part.filter = Some(filter(words)?);
            } else if let Some(name) = score_name(words)? {
                part.score_name = Some(name);
            } else {
                return Ok(part);
            }
        }
    }

    /// From 0 to 1, the greater the nearer.
    fn score(&self, distance: f64) -> f64 {
        match self.metric {
            Metric::L2 => 1.0 / (1.0 + distance),
            Metric::Cosine | Metric::InnerProduct => 1.0 - distance / 2.0,
        }
    }
}

fn nearest(words: &mut Words<'_>) -> Result<Nearness, ErrorReply> {
    let (mut count, mut candidates) = (None, None);
    for (name, value) in counted_pairs(words, "KNN")? {
        match name.as_str() {
            "K" => count = Some(number::<usize>("K", value)?).filter(|count| *count > 0),
            "EF_RUNTIME" => candidates = Some(number("EF_RUNTIME", value)?),
            _ => return Err(unrecognized(&name, "KNN")),
        }
    }
    let count = count.ok_or_else(|| refused("Missing required argument K"))?;
    Ok(Nearness::Nearest { count, candidates })
}

fn within(words: &mut Words<'_>) -> Result<Nearness, ErrorReply> {
    let mut radius = None;
    for (name, value) in counted_pairs(words, "RANGE")? {
        match name.as_str() {
            "RADIUS" => radius = Some(number::<f64>("RADIUS", value)?).filter(|radius| *radius >= 0.0),
            // A range is exact.
            "EPSILON" => _ = number::<f64>("EPSILON", value)?,
            _ => return Err(unrecognized(&name, "RANGE")),
        }
    }
    let radius = radius.ok_or_else(|| refused("Missing required argument RADIUS"))?;
    Ok(Nearness::Within { radius })
}

/// A query, or the number of words of the filter, and then the query as the first of them.
fn filter(words: &mut Words<'_>) -> Result<Filter, ErrorReply> {
    if words.left() == 0 {
        return Err(refused("Missing argument count for FILTER"));
    }
    let word = words.argument("FILTER")?;
    let count = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse::<usize>().ok());
    let Some(count) = count else {
        return Ok(Filter {
            query: word.to_vec(),
            has_policy: false,
            policy: None,
        });
    };
    if count > words.left() {
        let provided = words.left();
        return Err(syntax(format!(
            "Not enough arguments in FILTER, specified {count} but provided only {provided}"
        )));
    }
    let mut words = Words::new(words.several(count, "FILTER")?);
    let missing = || refused("Missing filter-expression for FILTER");
    let query = words.next().ok_or_else(missing)?;
    let (mut policy, mut batch_size) = (None, None);
    while words.left() > 0 {
        if words.take("POLICY") {
            let name = words.text("POLICY")?;
            policy = Some(match name.to_ascii_uppercase().as_str() {
                "ADHOC" => HybridPolicy::AdHoc,
                "BATCHES" => HybridPolicy::Batches,
                _ => return Err(refused("POLICY: Invalid value for argument")),
            });
        } else if words.take("BATCH_SIZE") {
            batch_size = Some(words.number::<u64>("BATCH_SIZE")?);
        } else {
            let word = String::from_utf8_lossy(words.peek().unwrap_or_default()).into_owned();
            return Err(refused(format!("{word}: Unknown argument")));
        }
    }
    if policy == Some(HybridPolicy::AdHoc) && batch_size.is_some() {
        return Err(SearchError::BatchSize.into_reply());
    }
    Ok(Filter {
        query: query.to_vec(),
        has_policy: policy.is_some() || batch_size.is_some(),
        policy,
    })
}

fn syntax(text: impl Into<String>) -> ErrorReply {
    SearchError::Syntax(text.into()).into_reply()
}

impl Default for Combination {
    fn default() -> Combination {
        Combination {
            method: Method::Reciprocal {
                constant: CONSTANT_DEFAULT,
            },
            window: WINDOW_DEFAULT,
            score_name: None,
        }
    }
}

impl Combination {
    /// Reads what follows the word COMBINE.
    fn read(words: &mut Words<'_>) -> Result<Combination, ErrorReply> {
        let mut combination = Combination::default();
        let is_linear = words.take("LINEAR");
        if !is_linear && !words.take("RRF") {
            return Err(refused("COMBINE: Invalid value for argument"));
        }
        let (mut constant, mut alpha, mut beta) = (CONSTANT_DEFAULT, None, None);
        let is_counted = words
            .peek()
            .is_some_and(|word| word.first().is_some_and(u8::is_ascii_digit));
        let pairs = if is_counted {
            counted_pairs(words, "COMBINE")?
        } else {
            Vec::new()
        };
        for (name, value) in pairs {
            match name.as_str() {
                "CONSTANT" if !is_linear => constant = number("CONSTANT", value)?,
                "ALPHA" if is_linear => alpha = Some(number("ALPHA", value)?),
                "BETA" if is_linear => beta = Some(number("BETA", value)?),
                "WINDOW" => combination.window = number("WINDOW", value)?,
                "YIELD_SCORE_AS" => combination.score_name = Some(String::from_utf8_lossy(value).into_owned()),
                _ => return Err(unrecognized(&name, "COMBINE")),
            }
        }
        if combination.window == 0 || combination.window > HITS_MAX {
            return Err(refused("Invalid WINDOW value"));
        }
        if alpha.is_some() != beta.is_some() {
            let missing = if alpha.is_some() { "BETA" } else { "ALPHA" };
            return Err(syntax(format!("Missing value for {missing}")));
        }
        if let Some(name) = score_name(words)? {
            if combination.score_name.is_some() {
                return Err(refused("YIELD_SCORE_AS specified more than once"));
            }
            combination.score_name = Some(name);
        }
        combination.method = match is_linear {
            true => Method::Linear {
                alpha: alpha.unwrap_or(ALPHA_DEFAULT),
                beta: beta.unwrap_or(BETA_DEFAULT),
            },
            false => Method::Reciprocal { constant },
        };
        Ok(combination)
    }

    fn score(&self, text: Option<Ranked>, vector: Option<Ranked>) -> f64 {
        match self.method {
            Method::Reciprocal { constant } => {
                let reciprocal = |ranked: Option<Ranked>| ranked.map_or(0.0, |ranked| 1.0 / (constant + ranked.rank));
                reciprocal(text) + reciprocal(vector)
            }
            Method::Linear { alpha, beta } => {
                let score = |ranked: Option<Ranked>| ranked.map_or(0.0, |ranked| ranked.score);
                alpha * score(text) + beta * score(vector)
            }
        }
    }
}

/// The place of a document in one of the searches.
#[derive(Clone, Copy)]
struct Ranked {
    /// From 1.
    rank: f64,
    score: f64,
}

/// A document of either search.
struct Merged {
    hit: Hit,
    text: Option<Ranked>,
    vector: Option<Ranked>,
}

pub fn hybrid(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words(arguments, 5)?;
    let outcome = plan::run::<HybridPlan>(context, arguments, &words, Reports::dropped());
    counted(context, outcome)
}

/// FT.HYBRID: the index is searched for words and for vectors, the hits of both are merged, and the
/// steps of the request are applied to their records.
pub(super) struct HybridPlan {
    text: TextPart,
    vector: VectorPart,
    combination: Combination,
    /// Whether results are in the order of their scores before the steps.
    is_sorted: bool,
    arguments: AggregateArguments,
    text_stage: QueryStage,
    vector_stage: QueryStage,
    /// The properties that steps take from documents.
    properties: Vec<String>,
}

/// The results of FT.HYBRID.
pub(super) struct Answer<'c> {
    results: Results,
    /// The reports of each search.
    searches: [Reports; 2],
    _held: Held<'c>,
}

enum Results {
    /// The hits of each search, for cursors of their own.
    Apart([Vec<Hit>; 2]),
    Combined {
        /// The number before the last LIMIT.
        total: u64,
        records: Vec<Record>,
        micros: u64,
    },
}

impl Plan for HybridPlan {
    type Answer<'c> = Answer<'c>;

    fn parse(context: &Context<'_, '_>, request: plan::Request<'_>) -> Result<HybridPlan, ErrorReply> {
        let (index, mut words) = (request.index, request.words);
        let text = TextPart::read(&mut words)?;
        let vector = VectorPart::read(&index, &mut words)?;
        let Behind {
            combination,
            is_sorted,
            steps: mut arguments,
        } = Behind::read(context, &mut words)?;
        if arguments.common.names_dialect {
            return Err(no_dialect());
        }
        arguments.is_profiled(request.is_profiled)?;
        arguments.adds_scores = true;
        // Parts of this command cannot be written in the first dialect.
        arguments.common.dialect = arguments.common.dialect.max(2);
        let mut text_query = arguments.common.query(&index, &text.query)?;
        text_query.root.leave_tags_unscored();
        if text_query.nearest.is_some() || text_query.root.measures_distance() {
            return Err(SearchError::VectorExpression("FT.HYBRID SEARCH").into_reply());
        }
        let vector_query = vector_query(&index, &vector, &mut arguments)?;
        let named = [&text.score_name, &vector.score_name, &combination.score_name];
        let names: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
        let properties = used_properties(&index, &arguments, &names)?;
        let text_stage = QueryStage {
            index: index.clone(),
            query: text_query,
        };
        let vector_stage = QueryStage {
            index,
            query: vector_query,
        };
        Ok(HybridPlan {
            text,
            vector,
            combination,
            is_sorted,
            arguments,
            text_stage,
            vector_stage,
            properties,
        })
    }

    fn index(&self) -> &Arc<Index> {
        &self.text_stage.index
    }

    fn common(&self) -> &Common {
        &self.arguments.common
    }

    fn execute<'c>(&self, context: &mut Context<'c, '_>, run: &mut Execution<'_>) -> Result<Answer<'c>, ErrorReply> {
        let (word_hits, word_reports) = self.search_words(context, run)?;
        let (vector_hits, vector_reports) = self.search_vectors(context, run)?;
        run.reports.is_done_apart();
        let mut memory = content::memory(context);
        let results = match self.arguments.cursor {
            Some(_) => Results::Apart([word_hits, vector_hits]),
            None => {
                let merged = self.merged(word_hits, vector_hits, &mut run.reports);
                self.combined(context, run, &merged, &mut memory)?
            }
        };
        Ok(Answer {
            results,
            searches: [word_reports, vector_reports],
            _held: memory,
        })
    }

    fn reply(
        &self,
        context: &mut Context<'_, '_>,
        answer: Answer<'_>,
        mut run: Execution<'_>,
    ) -> Result<(), ErrorReply> {
        let reports = run.take_reports();
        let (total, records, micros) = match (answer.results, self.arguments.cursor) {
            (Results::Combined { total, records, micros }, _) => (total, records, micros),
            (Results::Apart(hits), cursor) => {
                let cursor = cursor.expect("searches stay apart for a cursor");
                return write_cursors(context, &self.source(), cursor, &hits, &run);
            }
        };
        let form = Form {
            micros,
            execution: &run,
            has_profile: reports.are_kept(),
        };
        write(context, total, &records, form);
        let warnings = [0, 1, 2].map(|phase| run.warnings_of(phase));
        reports.write_hybrid(context, answer.searches, warnings.each_ref().map(Vec::as_slice));
        Ok(())
    }
}

impl HybridPlan {
    fn source(&self) -> Source<'_> {
        let QueryStage { index, query } = &self.text_stage;
        Source {
            index,
            query,
            arguments: &self.arguments,
            fields: fields_of(index, &self.properties),
        }
    }

    fn search_words(
        &self,
        context: &mut Context<'_, '_>,
        execution: &Execution<'_>,
    ) -> Result<(Vec<Hit>, Reports), ErrorReply> {
        let mut reports = execution.reports.part();
        let request = Request {
            count: self.combination.window,
            scorer: self.text.scorer,
            with_places: aggregate::ask_for_terms(&self.arguments.steps),
            clock: reports.clock(),
            ..Request::default()
        };
        let mut answer = content::run(context, &self.text_stage, &request, execution.times[0])?;
        reports.is_searched(&mut answer, |answer| {
            vec![("Scorer", answer.total), ("Sorter", answer.hits.len() as u64)]
        });
        Ok((answer.hits, reports))
    }

    fn search_vectors(
        &self,
        context: &mut Context<'_, '_>,
        execution: &Execution<'_>,
    ) -> Result<(Vec<Hit>, Reports), ErrorReply> {
        let mut reports = execution.reports.part();
        let mut request = nearness_request(&self.vector, self.combination.window);
        request.clock = reports.clock();
        let mut answer = content::run(context, &self.vector_stage, &request, execution.times[1])?;
        reports.is_searched(&mut answer, |answer| {
            vec![("Metrics Applier", answer.hits.len() as u64)]
        });
        Ok((answer.hits, reports))
    }

    /// The documents of both searches with their combined scores. Equal scores remain in the order
    /// of their keys, and so do all documents without a requested order.
    fn merged(&self, word_hits: Vec<Hit>, vector_hits: Vec<Hit>, reports: &mut Reports) -> Vec<Merged> {
        let mut merged: BTreeMap<Vec<u8>, Merged> = BTreeMap::new();
        for (hit, rank) in word_hits.into_iter().zip(1..) {
            let (rank, score) = (f64::from(rank), hit.score);
            let document = Merged {
                text: Some(Ranked { rank, score }),
                vector: None,
                hit,
            };
            merged.insert(document.hit.key.clone(), document);
        }
        for (hit, rank) in vector_hits.into_iter().zip(1..) {
            let distance = match (&hit.distance, &hit.sorted_by) {
                (Some(distance), _) => *distance,
                (None, Some(Sortable::Number(distance))) => *distance,
                _ => continue,
            };
            let (rank, score) = (f64::from(rank), self.vector.score(distance));
            let entry = merged.entry(hit.key.clone()).or_insert(Merged {
                hit,
                text: None,
                vector: None,
            });
            entry.vector = Some(Ranked { rank, score });
        }
        let mut merged: Vec<Merged> = merged.into_values().collect();
        for document in &mut merged {
            document.hit.score = self.combination.score(document.text, document.vector);
        }
        reports.is_done("Hybrid Merger", merged.len());
        if self.is_sorted {
            merged.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
            reports.is_done("Sorter", merged.len());
        }
        merged
    }

    /// Applies the steps to the records of the documents.
    fn combined(
        &self,
        context: &mut Context<'_, '_>,
        run: &mut Execution<'_>,
        merged: &[Merged],
        memory: &mut Held<'_>,
    ) -> Result<Results, ErrorReply> {
        let (time, source) = (run.time(), self.source());
        let mut records = Vec::new();
        for document in merged {
            if content::is_over(records.len(), time).into_reply()? {
                break;
            }
            let properties = source.record(context, &document.hit)?;
            records.push(self.record(document, &properties));
        }
        run.reports.is_done("Loader", records.len());
        let (total, mut records) = apply(&self.arguments.steps, records, run, memory)?;
        let mut steps = self.arguments.steps.iter();
        if !steps.any(|step| matches!(step, Step::Limit { .. })) {
            records.truncate(RESULTS_DEFAULT);
        }
        let micros = context.engine().now_micros().saturating_sub(run.started_micros);
        Ok(Results::Combined { total, records, micros })
    }

    /// The record of a document: its key, the score and the loaded properties, the scores with
    /// names of their own, and then all others.
    fn record(&self, document: &Merged, properties: &Record) -> Record {
        let arguments = &self.arguments;
        let has_load = arguments.loads_all || !arguments.loaded.is_empty();
        // A name of its own is instead of the usual one.
        let keeps_score = self.combination.score_name.is_none() && (!has_load || wanted_score(arguments));
        let mut record = Record::default();
        record.set_matched(properties.matched().to_vec());
        if !has_load || is_grouped(&arguments.steps) {
            record.set(KEY, Value::Text(document.hit.key.clone()));
        }
        // The score has the position that LOAD gives it, or else the first.
        let in_front = (!arguments.loads(SCORE)).then_some(SCORE);
        let loaded = arguments.loaded.iter().map(|loaded| loaded.name.as_str());
        for name in in_front.into_iter().chain(loaded) {
            if properties.has(name) && (keeps_score || name != SCORE) {
                record.set(name, properties.get(name).clone());
            }
        }
        let scores = [
            (&self.text.score_name, document.text.map(|ranked| ranked.score)),
            (&self.vector.score_name, document.vector.map(|ranked| ranked.score)),
            (&self.combination.score_name, Some(document.hit.score)),
        ];
        for (name, score) in scores {
            if let (Some(name), Some(score)) = (name, score) {
                record.set(name, Value::Number(score));
            }
        }
        for (name, value) in properties.iter().filter(|(name, _)| keeps_score || *name != SCORE) {
            if !record.has(name) {
                record.set(name, value.clone());
            }
        }
        record
    }
}

/// A cursor over what each of the searches found, which are not combined.
fn write_cursors(
    context: &mut Context<'_, '_>,
    source: &Source<'_>,
    pieces: Pieces,
    hits: &[Vec<Hit>; 2],
    execution: &Execution<'_>,
) -> Result<(), ErrorReply> {
    let mut ids = Vec::new();
    for hits in hits {
        let records = hits.iter().map(|hit| {
            let mut record = Record::default();
            record.set(KEY, Value::Text(hit.key.clone()));
            let properties = source.record(context, hit)?;
            properties
                .iter()
                .for_each(|(name, value)| record.set(name, value.clone()));
            Ok::<_, ErrorReply>(record)
        });
        let records: VecDeque<Record> = records.collect::<Result<_, _>>()?;
        let remaining = Remaining {
            total: records.len() as u64,
            records,
            form: RecordForm::default(),
        };
        ids.push(open_cursor(context, source.index, remaining, pieces)?);
    }
    context.reply.map(3);
    for (name, id) in ["SEARCH", "VSIM"].into_iter().zip(ids) {
        context.reply.simple(name);
        context.reply.integer(id as i64);
    }
    write_warnings(context, execution);
    Ok(())
}

/// The arguments after the searches, in any order.
struct Behind {
    combination: Combination,
    /// Whether results are in the order of their scores before the steps: not with NOSORT.
    is_sorted: bool,
    steps: AggregateArguments,
}

impl Behind {
    fn read(context: &Context<'_, '_>, words: &mut Words<'_>) -> Result<Behind, ErrorReply> {
        let (mut combination, mut is_sorted) = (None, true);
        let mut steps = AggregateArguments::of_hybrid(context);
        while words.left() > 0 {
            if combination.is_none() && words.take("COMBINE") {
                combination = Some(Combination::read(words)?);
            } else if words.take("NOSORT") {
                is_sorted = false;
            } else {
                steps.next(words)?;
            }
        }
        steps.arrange();
        Ok(Behind {
            combination: combination.unwrap_or_default(),
            is_sorted,
            steps,
        })
    }
}

fn is_grouped(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::GroupBy { .. }))
}

/// Returns true if the combined score is requested by name.
fn wanted_score(arguments: &AggregateArguments) -> bool {
    let properties = aggregate::wanted(&arguments.steps, &|_| true);
    arguments.loads(SCORE) || properties.is_ok_and(|names| names.iter().any(|name| name == SCORE))
}

/// The properties that steps take from documents.
fn used_properties(index: &Index, arguments: &AggregateArguments, names: &[&str]) -> Result<Vec<String>, ErrorReply> {
    let is_given = |name: &str| arguments.gives(name) || names.contains(&name) || name == SCORE || name == KEY;
    let is_known = |used: &Use<'_>| is_given(used.name) || arguments.finds(index, used);
    let mut properties = aggregate::wanted(&arguments.steps, &is_known).into_reply()?;
    properties.retain(|name| !is_given(name));
    Ok(properties)
}

const DISTANCE: &str = "__vector_distance";

fn nearness_request(vector: &VectorPart, window: usize) -> Request {
    let (count, sort_by_distance) = match vector.nearness {
        Nearness::Nearest { count, .. } => (count.min(window), None),
        Nearness::Within { .. } => (window, Some((DISTANCE.to_owned(), true))),
    };
    Request {
        count,
        sort_by_distance,
        scorer: Scorer::DocScore,
        ..Request::default()
    }
}

fn vector_query(index: &Index, part: &VectorPart, arguments: &mut AggregateArguments) -> Result<Query, ErrorReply> {
    // A filter restricts and scores nothing, so its words are as they are written.
    let expander = std::mem::replace(&mut arguments.common.expander, Expander::Nothing);
    let filter = part.filter.as_ref();
    let filter_policy = filter.and_then(|filter| filter.policy);
    let is_range = matches!(part.nearness, Nearness::Within { .. });
    if is_range && filter.is_some_and(|filter| filter.has_policy) {
        return Err(SearchError::PolicyOfRange.into_reply());
    }
    let filter = filter
        .map(|filter| arguments.common.query(index, &filter.query))
        .transpose()?;
    arguments.common.expander = expander;
    let root = match filter {
        Some(query) if query.nearest.is_some() || query.root.measures_distance() => {
            return Err(SearchError::VectorExpression("FT.HYBRID VSIM FILTER").into_reply());
        }
        Some(query) if query.root.has_weight() => {
            return Err(SearchError::WeightInFilter.into_reply());
        }
        Some(query) => query.root,
        None => Node::of(NodeKind::All),
    };
    let (vector, parameter) = match part.vector.strip_prefix(b"$") {
        Some(name) => {
            let name = String::from_utf8_lossy(name).into_owned();
            let parameters = arguments.common.parameters.as_ref();
            let vector = parameters.and_then(|parameters| parameters.get(&name)).cloned();
            let missing = || SearchError::NoParameter(name.clone()).into_reply();
            (vector.ok_or_else(missing)?, name)
        }
        None => (part.vector.clone(), String::new()),
    };
    Ok(match part.nearness {
        Nearness::Nearest { count, candidates } => Query {
            root,
            nearest: Some(Nearest {
                count,
                field: part.field,
                vector,
                parameter,
                distance_name: DISTANCE.into(),
                options: NearestOptions {
                    candidates,
                    policy: filter_policy,
                    batch_size: None,
                },
            }),
        },
        Nearness::Within { radius } => {
            let range = Node::of(NodeKind::VectorRange(Box::new(VectorRange {
                field: part.field,
                radius,
                vector,
                parameter,
                distance_name: Some(DISTANCE.into()),
                epsilon: None,
            })));
            let root = match root.kind {
                NodeKind::All => range,
                _ => Node::of(NodeKind::Every {
                    children: vec![range, root],
                    exact: false,
                }),
            };
            Query { root, nearest: None }
        }
    })
}

/// Names the phases that timed out before they were complete.
fn write_warnings(context: &mut Context<'_, '_>, execution: &Execution<'_>) {
    if execution.parts.iter().any(Parts::was_over) {
        count_part(context);
    }
    let over = PHASES.iter().zip(execution.parts).filter(|(_, parts)| parts.was_over());
    let over = over.map(|(name, _)| format!("{} ({name})", content::TIME_WAS_OVER));
    let warnings: Vec<_> = execution.filling.clone().into_iter().chain(over).collect();
    context.reply.simple("warnings");
    context.reply.array(warnings.len());
    warnings.iter().for_each(|warning| context.reply.simple(warning));
}

/// The parts of the answer other than the records.
struct Form<'a> {
    micros: u64,
    execution: &'a Execution<'a>,
    /// A profile follows: in RESP3 as one pair more, in RESP2 as one element.
    has_profile: bool,
}

fn write(context: &mut Context<'_, '_>, total: u64, records: &[Record], form: Form<'_>) {
    match (context.reply.protocol(), form.has_profile) {
        (Protocol::Resp2, true) => context.reply.array(9),
        (Protocol::Resp3, true) => context.reply.map(5),
        (_, false) => context.reply.map(4),
    }
    context.reply.simple("total_results");
    context.reply.integer(total as i64);
    context.reply.simple("results");
    context.reply.array(records.len());
    for record in records {
        context.reply.map(record.iter().count());
        write_pairs(context, record);
    }
    write_warnings(context, form.execution);
    context.reply.simple("execution_time");
    // The resolution of the clock is a microsecond.
    context.reply.double(form.micros.max(1) as f64 / 1000.0);
}
