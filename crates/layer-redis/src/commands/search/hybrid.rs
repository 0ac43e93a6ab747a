//! FT.HYBRID: a search for words and one for vectors, whose ranks or scores are combined.

use std::collections::{BTreeMap, VecDeque};

use quartet_search::aggregate::{self, Record, Step, Use, Value};
use quartet_search::document::Sortable;
use quartet_search::query::{Expander, HybridPolicy, Nearest, NearestOptions, Node, NodeKind, Query, VectorRange};
use quartet_search::schema::FieldKind;
use quartet_search::search::{HITS_MAX, Hit, Request, Scorer};
use quartet_search::vectors::Metric;
use quartet_search::{Parts, SearchError};
use quartet_wire_resp::{Arguments, Protocol};

use super::aggregate::{AggregateArguments, Source, hold, open_cursor, paged, wanted_fields, write_pairs};
use super::content;
use super::lookup::{count_part, counted, find, words};
use super::profile::Profile;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
use crate::indexes::{Index, RecordForm, Words, refused};

/// The number of searches, if the request gives it.
const SEARCHES: u64 = 2;
const WINDOW_DEFAULT: usize = 20;
const CONSTANT_DEFAULT: f64 = 60.0;
const NEAREST_DEFAULT: usize = 10;
const ALPHA_DEFAULT: f64 = 0.3;
const BETA_DEFAULT: f64 = 0.7;
const RESULTS_DEFAULT: usize = 10;

/// In their order.
const STAGES: [&str; 3] = ["SEARCH", "VSIM", "POST PROCESSING"];

const KEY: &str = "__key";
const SCORE: &str = "__score";

/// The search for words.
struct TextPart<'w> {
    query: &'w [u8],
    scorer: Scorer,
    score_name: Option<String>,
}

enum Nearness {
    Nearest { count: usize, candidates: Option<usize> },
    Within { radius: f64 },
}

/// The search for vectors.
struct VectorPart<'w> {
    field: u16,
    metric: Metric,
    vector: &'w [u8],
    nearness: Nearness,
    filter: Option<Filter<'w>>,
    score_name: Option<String>,
}

/// Which documents the search for vectors is among.
struct Filter<'w> {
    query: &'w [u8],
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
    let given = words.counted(option)?;
    if given.len() % 2 != 0 {
        return Err(refused(format!("{option} takes pairs of names and values")));
    }
    let pairs = given.chunks(2);
    Ok(pairs
        .map(|pair| (String::from_utf8_lossy(pair[0]).to_ascii_uppercase(), pair[1]))
        .collect())
}

fn unrecognized(name: &str, option: &str) -> ErrorReply {
    SearchError::Unrecognized(format!("Unknown argument `{name}` in {option}")).into()
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

impl<'w> TextPart<'w> {
    fn read(words: &mut Words<'w>) -> Result<TextPart<'w>, ErrorReply> {
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
                let given = words.text("SCORER")?;
                let unknown = || refused(format!("No such scorer {given}"));
                scorer = Scorer::of_name(&given).ok_or_else(unknown)?;
            } else if let Some(given) = score_name(words)? {
                name = Some(given);
            } else {
                return Ok(TextPart {
                    query,
                    scorer,
                    score_name: name,
                });
            }
        }
    }
}

impl<'w> VectorPart<'w> {
    fn read(index: &Index, words: &mut Words<'w>) -> Result<VectorPart<'w>, ErrorReply> {
        refuse_dialect(words)?;
        if !words.take("VSIM") {
            return Err(refused("VSIM argument is required"));
        }
        let name = words.argument("VSIM")?;
        let missing = || refused("Missing @ prefix for vector field name");
        let name = name.strip_prefix(b"@").ok_or_else(missing)?;
        let unknown = || refused(format!("Unknown field `{}`", String::from_utf8_lossy(name)));
        let (field, known) = index.definition.schema.find(name).ok_or_else(unknown)?;
        let FieldKind::Vector(kind) = &known.kind else {
            return Err(refused("Expected a VECTOR field"));
        };
        let vector = words.argument("VSIM")?;
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
            } else if let Some(given) = score_name(words)? {
                part.score_name = Some(given);
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

/// A query, or how many words follow, the first of which is it.
fn filter<'w>(words: &mut Words<'w>) -> Result<Filter<'w>, ErrorReply> {
    if words.left() == 0 {
        return Err(refused("Missing argument count for FILTER"));
    }
    let word = words.argument("FILTER")?;
    let count = std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse::<usize>().ok());
    let Some(count) = count else {
        return Ok(Filter {
            query: word,
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
            let given = words.text("POLICY")?;
            policy = Some(match given.to_ascii_uppercase().as_str() {
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
        return Err(
            "SEARCH_ADHOC_BATCH_SIZE_IRRELEVANT 'batch size' is irrelevant for the selected policy \
                    (Error parsing vector similarity parameters)"
                .into(),
        );
    }
    Ok(Filter {
        query,
        has_policy: policy.is_some() || batch_size.is_some(),
        policy,
    })
}

fn syntax(text: impl Into<String>) -> ErrorReply {
    SearchError::Syntax(text.into()).into()
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
                let of_rank = |ranked: Option<Ranked>| ranked.map_or(0.0, |ranked| 1.0 / (constant + ranked.rank));
                of_rank(text) + of_rank(vector)
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
    let given = words(arguments, 5)?;
    let outcome = run(context, arguments, &given, None);
    counted(context, outcome)
}

/// Runs FT.HYBRID with these words, for this request; `profile` adds a profile to the answer.
pub(super) fn run(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    given: &[&[u8]],
    mut profile: Option<Profile>,
) -> Result<Outcome, ErrorReply> {
    let started_micros = context.engine().now_micros();
    let index = find(context, arguments, given[0], false)?;
    let mut rest = Words::new(&given[1..]);
    let text = TextPart::read(&mut rest)?;
    let vector = VectorPart::read(&index, &mut rest)?;
    let Behind {
        combination,
        is_sorted,
        steps: mut asked,
    } = Behind::read(context, &mut rest)?;
    if asked.common.names_dialect {
        return Err(no_dialect());
    }
    if profile.is_some() && asked.cursor.is_some() {
        return Err(refused("FT.PROFILE does not support cursor"));
    }
    // A profile shows the progress of a timed-out search, under any setting.
    asked.common.answers_parts |= profile.is_some();
    asked.adds_scores = true;
    // Parts of this command cannot be written in the first dialect.
    asked.common.dialect = asked.common.dialect.max(2);
    let mut text_query = asked.common.query(&index, text.query)?;
    text_query.root.leave_tags_unscored();
    if text_query.nearest.is_some() || text_query.root.measures_distance() {
        return Err("SEARCH_VECTOR_NOT_ALLOWED Vector expressions are not allowed in FT.HYBRID SEARCH".into());
    }
    let vector_query = vector_query(&index, &vector, &mut asked)?;
    let named = [&text.score_name, &vector.score_name, &combination.score_name];
    let names: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
    let wanted = wanted(&index, &asked, &names)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let filling = content::filling_warning(context, &index);
    if let Some(profile) = &mut profile {
        profile.is_parsed();
    }
    let mut of_search = profile.as_ref().map(Profile::part);
    let request = Request {
        count: combination.window,
        scorer: text.scorer,
        with_places: aggregate::ask_for_terms(&asked.steps),
        clock: of_search.as_ref().map(Profile::clock),
        ..Request::default()
    };
    let (is_over, is_late) = (asked.common.clock(context), asked.common.last_clock(context));
    let stages = STAGES.map(|_| Parts::until(&is_late));
    let [of_words, of_vectors, behind] = stages.each_ref().map(|parts| asked.common.time(&is_over, parts));
    let mut found = content::run(context, &index, &text_query, &request, of_words)?;
    if let Some(search) = &mut of_search {
        let behind = [("Scorer", found.total), ("Sorter", found.hits.len() as u64)];
        search.is_searched(&mut found, &behind);
    }
    let by_words = found.hits;
    let mut of_nearness = profile.as_ref().map(Profile::part);
    let mut request = nearness_request(&vector, combination.window);
    request.clock = of_nearness.as_ref().map(Profile::clock);
    let mut found = content::run(context, &index, &vector_query, &request, of_vectors)?;
    if let Some(search) = &mut of_nearness {
        let behind = [("Metrics Applier", found.hits.len() as u64)];
        search.is_searched(&mut found, &behind);
    }
    let by_vectors = found.hits;
    if let Some(profile) = &mut profile {
        profile.is_done_apart();
    }
    let source = Source {
        index: &index,
        query: &text_query,
        asked: &asked,
        wanted: wanted_fields(&index, &wanted),
    };
    if let Some(cursor) = asked.cursor {
        return write_cursors(
            context,
            &source,
            cursor,
            [&by_words, &by_vectors],
            (&stages, filling.as_deref()),
        );
    }
    let mut merged: BTreeMap<Vec<u8>, Merged> = BTreeMap::new();
    for (hit, rank) in by_words.into_iter().zip(1..) {
        let (rank, score) = (f64::from(rank), hit.score);
        let text = Some(Ranked { rank, score });
        merged.insert(
            hit.key.clone(),
            Merged {
                hit,
                text,
                vector: None,
            },
        );
    }
    for (hit, rank) in by_vectors.into_iter().zip(1..) {
        let distance = match (&hit.distance, &hit.sorted_by) {
            (Some(distance), _) => *distance,
            (None, Some(Sortable::Number(distance))) => *distance,
            _ => continue,
        };
        let (rank, score) = (f64::from(rank), vector.score(distance));
        let entry = merged.entry(hit.key.clone()).or_insert(Merged {
            hit,
            text: None,
            vector: None,
        });
        entry.vector = Some(Ranked { rank, score });
    }
    let mut merged: Vec<Merged> = merged.into_values().collect();
    for one in &mut merged {
        one.hit.score = combination.score(one.text, one.vector);
    }
    if let Some(profile) = &mut profile {
        profile.is_done("Hybrid Merger", merged.len() as u64);
    }
    // Equal scores remain in the order of their keys, and so do all results without a requested
    // order.
    if is_sorted {
        merged.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
        if let Some(profile) = &mut profile {
            profile.is_done("Sorter", merged.len() as u64);
        }
    }
    let has_load = asked.loads_all || !asked.loaded.is_empty();
    // A name of its own is instead of the usual one.
    let keeps_score = combination.score_name.is_none() && (!has_load || wanted_score(&asked));
    let mut records = Vec::new();
    for one in &merged {
        if content::is_over(records.len(), behind)? {
            break;
        }
        let of_source = source.record(context, &one.hit);
        let mut record = Record::default();
        record.set_matched(of_source.matched().to_vec());
        if !has_load || is_grouped(&asked.steps) {
            record.set(KEY, Value::Text(one.hit.key.clone()));
        }
        // The score has the position that LOAD gives it, or else the first.
        let in_front = (!asked.loads(SCORE)).then_some(SCORE);
        let loaded = asked.loaded.iter().map(|loaded| loaded.name.as_str());
        let first: Vec<&str> = in_front.into_iter().chain(loaded).collect();
        let of_first = first.iter().map(|name| (*name, of_source.get(name)));
        for (name, value) in of_first.filter(|(name, _)| of_source.has(name) && (keeps_score || *name != SCORE)) {
            record.set(name, value.clone());
        }
        let scores = [
            (&text.score_name, one.text.map(|ranked| ranked.score)),
            (&vector.score_name, one.vector.map(|ranked| ranked.score)),
            (&combination.score_name, Some(one.hit.score)),
        ];
        for (name, score) in scores {
            if let (Some(name), Some(score)) = (name, score) {
                record.set(name, Value::Number(score));
            }
        }
        for (name, value) in of_source.iter().filter(|(name, _)| keeps_score || *name != SCORE) {
            if !record.has(name) {
                record.set(name, value.clone());
            }
        }
        records.push(record);
    }
    if let Some(profile) = &mut profile {
        profile.is_done("Loader", records.len() as u64);
    }
    let (first, page) = paged(&asked.steps);
    let mut held = content::memory(context);
    let mut holds = |bytes| hold(&mut held, bytes);
    let mut watch = |name: String, count: usize| {
        if let Some(profile) = &mut profile {
            profile.is_done(name, count as u64);
        }
    };
    let records = aggregate::run(first, records, (behind, &mut holds), &mut watch)?;
    let total = records.len() as u64;
    let mut records = aggregate::run(page, records, (behind, &mut holds), &mut watch)?;
    let is_limited = asked.steps.iter().any(|step| matches!(step, Step::Limit { .. }));
    if !is_limited {
        records.truncate(RESULTS_DEFAULT);
    }
    let usage = &context.groups.indexes().usage;
    usage.note_query(&index.number, asked.common.dialect);
    let micros = context.engine().now_micros().saturating_sub(started_micros);
    let form = Form {
        micros,
        warnings: (&stages, filling.as_deref()),
        has_profile: profile.is_some(),
    };
    write(context, total, &records, form);
    if let Some((profile, searches)) = profile.zip(of_search.zip(of_nearness)) {
        let warnings = stages
            .each_ref()
            .map(|parts| content::warnings(filling.as_deref(), parts));
        let warnings = warnings.each_ref().map(Vec::as_slice);
        profile.write_hybrid(context, &[searches.0, searches.1], warnings);
    }
    Ok(Outcome::Done)
}

/// A cursor over what each of the searches found, which are not combined.
fn write_cursors(
    context: &mut Context<'_, '_>,
    source: &Source<'_>,
    cursor: (usize, u64),
    found: [&[Hit]; 2],
    warnings: Warnings<'_>,
) -> Result<Outcome, ErrorReply> {
    let mut ids = Vec::new();
    for hits in found {
        let records = hits.iter().map(|hit| {
            let mut record = Record::default();
            record.set(KEY, Value::Text(hit.key.clone()));
            let of_source = source.record(context, hit);
            of_source
                .iter()
                .for_each(|(name, value)| record.set(name, value.clone()));
            record
        });
        let records: VecDeque<Record> = records.collect();
        let total = records.len() as u64;
        ids.push(open_cursor(
            context,
            source.index,
            (total, records, RecordForm::default()),
            cursor,
        )?);
    }
    context.reply.map(3);
    for (name, id) in ["SEARCH", "VSIM"].into_iter().zip(ids) {
        context.reply.simple(name);
        context.reply.integer(id as i64);
    }
    write_warnings(context, warnings);
    Ok(Outcome::Done)
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
fn wanted_score(asked: &AggregateArguments) -> bool {
    let wanted = aggregate::wanted(&asked.steps, &|_| true);
    asked.loads(SCORE) || wanted.is_ok_and(|names| names.iter().any(|name| name == SCORE))
}

/// The properties that steps take from documents.
fn wanted(index: &Index, asked: &AggregateArguments, names: &[&str]) -> Result<Vec<String>, ErrorReply> {
    let is_given = |name: &str| asked.gives(name) || names.contains(&name) || name == SCORE || name == KEY;
    let is_known = |used: &Use<'_>| is_given(used.name) || asked.finds(index, used);
    let mut wanted = aggregate::wanted(&asked.steps, &is_known)?;
    wanted.retain(|name| !is_given(name));
    Ok(wanted)
}

const DISTANCE: &str = "__vector_distance";

fn nearness_request(vector: &VectorPart<'_>, window: usize) -> Request {
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

fn vector_query(index: &Index, part: &VectorPart<'_>, asked: &mut AggregateArguments) -> Result<Query, ErrorReply> {
    // A filter restricts and scores nothing, so its words are as they are written.
    let expander = std::mem::replace(&mut asked.common.expander, Expander::Nothing);
    let filter = part.filter.as_ref();
    let filter_policy = filter.and_then(|filter| filter.policy);
    let is_range = matches!(part.nearness, Nearness::Within { .. });
    if is_range && filter.is_some_and(|filter| filter.has_policy) {
        return Err(
            "SEARCH_HYBRID_ATTR_NON_HYBRID hybrid query attributes were sent for a non-hybrid query \
                    (Error parsing vector similarity parameters)"
                .into(),
        );
    }
    let filter = filter
        .map(|filter| asked.common.query(index, filter.query))
        .transpose()?;
    asked.common.expander = expander;
    let root = match filter {
        Some(query) if query.nearest.is_some() || query.root.measures_distance() => {
            return Err("SEARCH_VECTOR_NOT_ALLOWED Vector expressions are not allowed in FT.HYBRID VSIM FILTER".into());
        }
        Some(query) if query.root.has_weight() => {
            return Err("SEARCH_WEIGHT_NOT_ALLOWED Weight attributes are not allowed in FT.HYBRID VSIM FILTER".into());
        }
        Some(query) => query.root,
        None => Node::of(NodeKind::All),
    };
    let (vector, parameter) = match part.vector.strip_prefix(b"$") {
        Some(name) => {
            let name = String::from_utf8_lossy(name).into_owned();
            let parameters = asked.common.parameters.as_ref();
            let found = parameters.and_then(|parameters| parameters.get(&name)).cloned();
            let missing = || ErrorReply::from(format!("SEARCH_PARAM_NOT_FOUND No such parameter `{name}`"));
            (found.ok_or_else(missing)?, name)
        }
        None => (part.vector.to_vec(), String::new()),
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

/// The stages, and how far the index is if it is being filled.
type Warnings<'a> = (&'a [Parts<'a>], Option<&'a str>);

/// Names the stages that timed out before they were complete.
fn write_warnings(context: &mut Context<'_, '_>, (stages, filling): Warnings<'_>) {
    if stages.iter().any(Parts::was_over) {
        count_part(context);
    }
    let over = STAGES.iter().zip(stages).filter(|(_, parts)| parts.was_over());
    let over = over.map(|(name, _)| format!("{} ({name})", content::TIME_WAS_OVER));
    let warnings: Vec<_> = filling.map(str::to_owned).into_iter().chain(over).collect();
    context.reply.simple("warnings");
    context.reply.array(warnings.len());
    warnings.iter().for_each(|warning| context.reply.simple(warning));
}

/// The parts of the answer other than the records.
struct Form<'a> {
    micros: u64,
    warnings: Warnings<'a>,
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
    write_warnings(context, form.warnings);
    context.reply.simple("execution_time");
    // The resolution of the clock is a microsecond.
    context.reply.double(form.micros.max(1) as f64 / 1000.0);
}
