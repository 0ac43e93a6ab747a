//! FT.SEARCH, and what else reads an index without aggregating.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use quartet_layer_redis::module_api::{Context, ErrorReply, Outcome, Workspace};
use quartet_search::error::SearchError;
use quartet_search::hits::{Explanation, Found, Hit};
use quartet_search::index;
use quartet_search::index::State;
use quartet_search::index::document::Sortable;
use quartet_search::index::schema::FieldKind;
use quartet_search::redis::aggregate::{Value, sort_key};
use quartet_search::redis::execute::{Clock, HITS_MAX, Request, Scorer, hamming};
use quartet_search::redis::highlight::Matches;
use quartet_search::redis::query::Query;
use quartet_search::time::Time;
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, Taken, default_clock, limit, unknown};
use super::content;
use super::contents::Contents;
use super::lookup::{count_part, counted, find, words};
use super::plan::{self, Execution, Plan, QueryStage};
use super::reports::Reports;
use super::summaries::Summaries;
use crate::errors::IntoReply;
use crate::indexes::query_memory::Held;
use crate::indexes::{Index, Words, refused};

/// Most values that FT.TAGVALS answers.
const TAG_VALUES_MAX: usize = 1_000_000;

/// Memory for a place while its hit is shown.
const PLACE_BYTES: usize = 128;

/// The arguments of FT.SEARCH.
struct SearchArguments {
    common: Common,
    no_content: bool,
    with_scores: bool,
    with_payloads: bool,
    with_sort_keys: bool,
    with_ids: bool,
    /// Paths or names of fields, and the names under which they are answered.
    returned: Option<Vec<(String, String)>>,
    sort_by: Option<(String, bool)>,
    limit: (usize, usize),
    keys: Option<BTreeSet<Vec<u8>>>,
    explains_scores: bool,
    summaries: Summaries,
}

impl SearchArguments {
    fn read(context: &Context<'_, '_>, words: &mut Words<'_>) -> Result<SearchArguments, ErrorReply> {
        let mut arguments = SearchArguments {
            common: Common::new(context),
            no_content: false,
            with_scores: false,
            with_payloads: false,
            with_sort_keys: false,
            with_ids: false,
            returned: None,
            sort_by: None,
            limit: (0, 10),
            keys: None,
            explains_scores: false,
            summaries: Summaries::default(),
        };
        while words.left() > 0 {
            arguments.next(words)?;
        }
        match arguments.explains_scores && !arguments.with_scores {
            true => Err(refused("EXPLAINSCORE must be accompanied with WITHSCORES")),
            false => Ok(arguments),
        }
    }

    fn query_stage(&self, index: Arc<Index>, text: &[u8]) -> Result<QueryStage, ErrorReply> {
        let query = self.common.query(&index, text)?;
        Ok(QueryStage { index, query })
    }

    fn next(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        if words.take("NOCONTENT") {
            self.no_content = true;
        } else if words.take("WITHSCORES") {
            self.with_scores = true;
        } else if words.take("EXPLAINSCORE") {
            self.explains_scores = true;
        } else if self.summaries.take(words)? {
        } else if words.take("WITHPAYLOADS") {
            self.with_payloads = true;
        } else if words.take("WITHSORTKEYS") {
            self.with_sort_keys = true;
        } else if words.take("WITHRAWIDS") {
            self.with_ids = true;
        } else if words.take("RETURN") {
            self.returned(words)?;
        } else if words.take("SORTBY") {
            if self.sort_by.is_some() {
                return Err(refused("Multiple SORTBY steps are not allowed"));
            }
            let field = words.next().ok_or_else(|| refused("Bad SORTBY arguments"))?;
            let field = String::from_utf8_lossy(field).into_owned();
            let descends = words.take("DESC");
            if !descends {
                words.take("ASC");
            }
            self.sort_by = Some((field, !descends));
        } else if words.take("LIMIT") {
            self.limit = limit(words)?;
        } else if words.take("INKEYS") {
            let keys = words.counted("INKEYS")?;
            self.keys = Some(keys.iter().map(|key| key.to_vec()).collect());
        } else if words.take("GEOFILTER") {
            self.common.take_circle(words)?;
        } else if self.common.take(words)? == Taken::No {
            return Err(unknown(words));
        }
        Ok(())
    }

    fn returned(&mut self, words: &mut Words<'_>) -> Result<(), ErrorReply> {
        let fields = words.counted("RETURN")?;
        let mut fields = Words::new(fields);
        let mut returned = self.returned.take().unwrap_or_default();
        while let Some(path) = fields.next() {
            let path = String::from_utf8_lossy(path).into_owned();
            let name = match fields.take("AS") {
                true => {
                    let missing = || refused("RETURN path AS name - must be accompanied with NAME");
                    String::from_utf8_lossy(fields.next().ok_or_else(missing)?).into_owned()
                }
                false => path.clone(),
            };
            returned.push((path, name));
        }
        self.no_content |= returned.is_empty();
        self.returned = Some(returned);
        Ok(())
    }
}

/// The order of hits.
enum Order {
    Score,
    /// The distance of this name.
    Distance {
        name: String,
        ascends: bool,
    },
    /// The values of a SORTABLE field, which the index has.
    Field {
        at: u16,
        ascends: bool,
    },
    /// Scores by payloads, which the keys have.
    Payloads,
    /// The values of a field that the keys have.
    Values {
        at: u16,
        ascends: bool,
    },
}

impl Order {
    fn of(index: &Index, query: &Query, arguments: &SearchArguments) -> Result<Order, ErrorReply> {
        let (_, count) = arguments.limit;
        if count > HITS_MAX {
            return Err(SearchError::Limit(format!("LIMIT exceeds maximum of {HITS_MAX}")).into_reply());
        }
        let Some((name, ascends)) = &arguments.sort_by else {
            return Ok(match arguments.common.scorer {
                Scorer::Hamming => Order::Payloads,
                _ => Order::Score,
            });
        };
        let (name, ascends) = (name.clone(), *ascends);
        if query.distance_names().contains(&name.as_str()) {
            return Ok(Order::Distance { name, ascends });
        }
        let unknown = || SearchError::NoProperty(format!("Property `{name}` not loaded nor in schema"));
        let (at, field) = index
            .definition
            .schema
            .find(name.as_bytes())
            .ok_or_else(unknown)
            .into_reply()?;
        Ok(match field.sortable && query.nearest.is_none() {
            _ if count == 0 => Order::Score,
            true => Order::Field { at, ascends },
            false => Order::Values { at, ascends },
        })
    }

    /// Returns true if the order needs contents of keys, so that all hits are sorted here.
    fn needs_all(&self) -> bool {
        matches!(self, Order::Payloads | Order::Values { .. })
    }
}

pub fn search(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if arguments.len() == 2 {
        return Err(SearchError::NoQuery.into_reply());
    }
    let words = words(arguments, 2)?;
    let outcome = plan::run::<SearchPlan>(context, arguments, &words, Reports::dropped());
    counted(context, outcome)
}

/// FT.SEARCH: the index is searched, the hits are ordered, and their contents are read as they are
/// written.
pub(super) struct SearchPlan {
    stage: QueryStage,
    arguments: SearchArguments,
    order: Order,
}

/// The hits of a search.
pub(super) struct Hits<'c> {
    hits: Found,
    /// The number of the index's documents, if the answer depends on it.
    documents: u64,
    _held: Held<'c>,
}

impl Plan for SearchPlan {
    type Answer<'c> = Hits<'c>;

    fn parse(context: &Context<'_, '_>, request: plan::Request<'_>) -> Result<SearchPlan, ErrorReply> {
        let (index, mut words) = (request.index, request.words);
        let text = words.next().unwrap_or_default();
        let mut arguments = SearchArguments::read(context, &mut words)?;
        // A profile shows the progress of a timed-out search, under any setting.
        arguments.common.answers_parts |= request.is_profiled;
        arguments.summaries.check(&index.definition)?;
        let stage = arguments.query_stage(index, text)?;
        let order = Order::of(&stage.index, &stage.query, &arguments)?;
        Ok(SearchPlan {
            stage,
            arguments,
            order,
        })
    }

    fn index(&self) -> &Arc<Index> {
        &self.stage.index
    }

    fn common(&self) -> &Common {
        &self.arguments.common
    }

    fn execute<'c>(&self, context: &mut Context<'c, '_>, run: &mut Execution<'_>) -> Result<Hits<'c>, ErrorReply> {
        let (time, mut memory) = (run.time(), content::memory(context));
        let request = self.request(run.reports.clock());
        let (offset, count) = self.arguments.limit;
        let mut answer = content::run(context, &self.stage, &request, time)?;
        memory.set(content::bytes_of_hits(&answer.hits)).into_reply()?;
        if let Order::Payloads = self.order {
            self.score_by_payloads(context, &mut answer, time)?;
            page(&mut answer, offset, count);
        }
        let reports = &mut run.reports;
        reports.is_searched(&mut answer, |answer| self.stages(answer));
        if let Order::Values { at, ascends } = self.order {
            self.sort(context, &mut answer, at, ascends, time)?;
            page(&mut answer, offset, count);
            reports.is_done("Loader", answer.total as usize);
            reports.is_done("Sorter", answer.hits.len());
        }
        let documents = self.documents(context, time)?;
        Ok(Hits {
            hits: answer,
            documents,
            _held: memory,
        })
    }

    fn reply(&self, context: &mut Context<'_, '_>, answer: Hits<'_>, mut run: Execution<'_>) -> Result<(), ErrorReply> {
        let Hits { hits, documents, .. } = answer;
        run.reports.write_head(context);
        Answer {
            index: &self.stage.index,
            query: &self.stage.query,
            arguments: &self.arguments,
            documents,
        }
        .write(context, &hits, &run)?;
        if run.was_over() {
            count_part(context);
        }
        if !self.arguments.no_content && self.arguments.limit.1 > 0 {
            run.reports.is_done("Loader", hits.hits.len());
        }
        let reports = run.take_reports();
        reports.write(context, &run.warnings());
        Ok(())
    }
}

impl SearchPlan {
    /// The search of the index.
    fn request(&self, clock: Option<Clock>) -> Request {
        let (offset, count) = match self.order.needs_all() {
            true => (0, HITS_MAX),
            false => self.arguments.limit,
        };
        let common = &self.arguments.common;
        let mut request = Request {
            offset,
            count,
            scorer: common.scorer,
            slop: common.slop,
            in_order: common.in_order,
            keys: self.arguments.keys.clone(),
            with_places: self.arguments.summaries.are_asked() && !self.arguments.no_content,
            explains_scores: self.arguments.explains_scores,
            clock,
            ..Request::default()
        };
        match &self.order {
            Order::Distance { name, ascends } => request.sort_by_distance = Some((name.clone(), *ascends)),
            Order::Field { at, ascends } => request.sort_by = Some((*at, *ascends)),
            Order::Score | Order::Payloads | Order::Values { .. } => {}
        }
        request
    }

    /// The stages that choose the hits while the index is searched, with their results.
    fn stages(&self, answer: &Found) -> Vec<(&'static str, u64)> {
        let mut stages = Vec::new();
        if !self.stage.query.distance_names().is_empty() {
            stages.push(("Metrics Applier", answer.total));
        }
        if self.arguments.limit.1 == 0 {
            stages.push(("Counter", 1));
            return stages;
        }
        if self.arguments.sort_by.is_none() || self.arguments.with_scores {
            stages.push(("Scorer", answer.total));
        }
        if !matches!(self.order, Order::Values { .. }) {
            stages.push(("Sorter", answer.hits.len() as u64));
        }
        stages
    }

    /// The number of the index's documents, if summaries need it.
    fn documents(&self, context: &mut Context<'_, '_>, time: Time<'_>) -> Result<u64, ErrorReply> {
        if !self.arguments.summaries.are_asked() {
            return Ok(0);
        }
        let rows = content::rows(context, self.stage.index.as_ref(), time.question());
        time.found(rows.map(|mut rows| State::read(&mut rows).documents))
            .into_reply()
    }

    /// Scores by how much of the payloads is the same.
    fn score_by_payloads(
        &self,
        context: &mut Context<'_, '_>,
        answer: &mut Found,
        time: Time<'_>,
    ) -> Result<(), ErrorReply> {
        let field = self.stage.index.definition.payload_field.as_ref();
        let requested = self.arguments.common.payload.as_deref().unwrap_or_default();
        let mut done = 0;
        for hit in &mut answer.hits {
            if content::is_over(done, time).into_reply()? {
                break;
            }
            done += 1;
            let contents = content::contents(context, &self.stage.index, &hit.key).filter(Contents::is_hash);
            let payload = contents
                .zip(field)
                .and_then(|(contents, field)| contents.text(&mut context.keys_of(0), field));
            let score = hamming(requested, payload.as_deref().unwrap_or_default());
            hit.score = score.unwrap_or(0.0);
            let text = match (score, &payload) {
                (Some(score), Some(payload)) => {
                    let (length, bits) = (payload.len(), (1.0 / score - 1.0).round());
                    format!("String length is {length}. Bit count is {bits}. Result is (1 / count + 1) = {score:.2}")
                }
                _ => "Payloads provided to scorer vary in length".into(),
            };
            hit.explanation = hit.explanation.take().map(|_| Explanation {
                text,
                ..Explanation::default()
            });
        }
        answer.hits.truncate(done);
        answer
            .hits
            .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
        Ok(())
    }

    /// Sorts by the values of the field at `at`; keys without a value are last, equal keys are in
    /// the order of their names.
    fn sort(
        &self,
        context: &mut Context<'_, '_>,
        answer: &mut Found,
        at: u16,
        ascends: bool,
        time: Time<'_>,
    ) -> Result<(), ErrorReply> {
        let schema = &self.stage.index.definition.schema;
        let (field, dialect) = (schema.field(at), self.arguments.common.dialect);
        let mut done = 0;
        for hit in &mut answer.hits {
            if content::is_over(done, time).into_reply()? {
                break;
            }
            done += 1;
            let contents = content::contents(context, &self.stage.index, &hit.key);
            let value = contents.and_then(|contents| contents.sorting(&mut context.keys_of(0), field, dialect));
            hit.sorted_by = value.and_then(|value| match value {
                Value::Null => None,
                Value::Number(number) => Some(Sortable::Number(number)),
                other => Some(Sortable::Text(other.bytes())),
            });
        }
        answer.hits.truncate(done);
        answer.hits.sort_by(|a, b| a.by_value(b, ascends));
        Ok(())
    }
}

fn page(answer: &mut Found, offset: usize, count: usize) {
    let hits = std::mem::take(&mut answer.hits);
    answer.hits = hits.into_iter().skip(offset).take(count).collect();
}

/// Writes what was found.
struct Answer<'a> {
    index: &'a Index,
    query: &'a Query,
    arguments: &'a SearchArguments,
    /// The number of the index's documents, if the answer depends on it.
    documents: u64,
}

impl Answer<'_> {
    fn write(
        &self,
        context: &mut Context<'_, '_>,
        answer: &Found,
        execution: &Execution<'_>,
    ) -> Result<(), ErrorReply> {
        let (time, mut written) = (execution.time(), 0);
        match context.reply.protocol() {
            Protocol::Resp2 => {
                let elements = 1
                    + usize::from(self.arguments.with_scores)
                    + usize::from(self.arguments.with_payloads)
                    + usize::from(self.arguments.with_ids)
                    + usize::from(self.arguments.with_sort_keys)
                    + usize::from(!self.arguments.no_content);
                let mark = context.reply.mark();
                context.reply.integer(answer.total as i64);
                for hit in &answer.hits {
                    if context.reply.is_full() || content::is_over(written, time).into_reply()? {
                        break;
                    }
                    if !self.arguments.no_content {
                        content::fetch_next(context, &answer.hits, written);
                    }
                    self.plain(context, hit)?;
                    written += 1;
                }
                context.reply.array_since(mark, 1 + written * elements);
            }
            Protocol::Resp3 => {
                write_head(context, answer.total);
                let mark = context.reply.mark();
                for hit in &answer.hits {
                    if context.reply.is_full() || content::is_over(written, time).into_reply()? {
                        break;
                    }
                    if !self.arguments.no_content {
                        content::fetch_next(context, &answer.hits, written);
                    }
                    self.map(context, hit)?;
                    written += 1;
                }
                context.reply.array_since(mark, written);
                write_tail(context, &execution.warnings());
            }
        }
        Ok(())
    }

    fn plain(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<(), ErrorReply> {
        context.reply.bulk(&hit.key);
        if self.arguments.with_scores {
            write_score(context, hit);
        }
        if self.arguments.with_ids {
            context.reply.integer(hit.id as i64);
        }
        if self.arguments.with_payloads {
            self.payload(context, hit);
        }
        if self.arguments.with_sort_keys {
            self.sort_key(context, hit);
        }
        match self.arguments.no_content {
            true => Ok(()),
            false => self.content(context, hit, false),
        }
    }

    fn map(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<(), ErrorReply> {
        let arguments = self.arguments;
        let options = [
            arguments.with_scores,
            arguments.with_ids,
            arguments.with_payloads,
            arguments.with_sort_keys,
            !arguments.no_content,
        ];
        context.reply.map(2 + options.iter().filter(|is_set| **is_set).count());
        context.reply.simple("id");
        context.reply.bulk(&hit.key);
        if arguments.with_scores {
            context.reply.simple("score");
            write_score(context, hit);
        }
        if arguments.with_ids {
            context.reply.simple("id");
            context.reply.integer(hit.id as i64);
        }
        if arguments.with_payloads {
            context.reply.simple("payload");
            self.payload(context, hit);
        }
        if arguments.with_sort_keys {
            context.reply.simple("sortkey");
            self.sort_key(context, hit);
        }
        if !arguments.no_content {
            context.reply.simple("extra_attributes");
            self.content(context, hit, true)?;
        }
        context.reply.simple("values");
        context.reply.array(0);
        Ok(())
    }

    fn payload(&self, context: &mut Context<'_, '_>, hit: &Hit) {
        let field = self.index.definition.payload_field.as_ref();
        let contents = content::contents(context, self.index, &hit.key).filter(Contents::is_hash);
        let payload = contents
            .zip(field)
            .and_then(|(contents, field)| contents.text(&mut context.keys_of(0), field));
        match payload {
            Some(payload) => context.reply.bulk(&payload),
            None => context.reply.null(),
        }
    }

    fn sort_key(&self, context: &mut Context<'_, '_>, hit: &Hit) {
        let key = match &hit.sorted_by {
            Some(Sortable::Number(number)) => Some(format!("#{}", sort_key(*number)).into_bytes()),
            Some(Sortable::Text(text)) => Some([b"$", &text[..]].concat()),
            None => None,
        };
        match key {
            Some(key) => context.reply.bulk(&key),
            None => context.reply.null(),
        }
    }

    fn content(&self, context: &mut Context<'_, '_>, hit: &Hit, is_map: bool) -> Result<(), ErrorReply> {
        let mut workspace = context.workspace();
        let mut pairs = match &self.arguments.returned {
            Some(returned) => self.chosen(context, hit, returned, &mut workspace)?,
            None => self.everything(context, hit),
        };
        content::check_memory(context)?;
        pairs.retain(|(name, _)| !self.index.definition.hides(name));
        if self.arguments.summaries.are_asked() {
            self.summarize(context, hit, &mut pairs, &mut workspace)?;
        }
        match is_map {
            true => context.reply.map(pairs.len()),
            false => context.reply.array(2 * pairs.len()),
        }
        for (name, value) in pairs {
            context.reply.bulk(&name);
            match value {
                Value::Null => context.reply.null(),
                Value::Text(text) => context.reply.bulk(&text),
                value => context.reply.bulk(&value.bytes()),
            }
        }
        Ok(())
    }

    fn summarize(
        &self,
        context: &mut Context<'_, '_>,
        hit: &Hit,
        pairs: &mut [(Vec<u8>, Value)],
        workspace: &mut Workspace<'_>,
    ) -> Result<(), ErrorReply> {
        let schema = &self.index.definition.schema;
        let Some(contents) = content::contents(context, self.index, &hit.key) else {
            return Ok(());
        };
        // The places, by their positions and in their texts.
        workspace.take(hit.places.len().saturating_mul(PLACE_BYTES))?;
        let keys = &mut context.keys_of(0);
        let matches = Matches::find(schema, &hit.places, self.documents, |field| {
            contents.indexed_texts(keys, &field.path)
        });
        let summaries = &self.arguments.summaries;
        for (name, value) in pairs {
            if let Value::Text(text) = value {
                workspace.take(summaries.shown_bytes_max(schema, &matches, name, text))?;
                *text = summaries.shown(schema, &matches, name, std::mem::take(text));
            }
        }
        Ok(())
    }

    fn chosen(
        &self,
        context: &mut Context<'_, '_>,
        hit: &Hit,
        returned: &[(String, String)],
        workspace: &mut Workspace<'_>,
    ) -> Result<Vec<(Vec<u8>, Value)>, ErrorReply> {
        let Some(contents) = content::contents(context, self.index, &hit.key) else {
            return Ok(Vec::new());
        };
        let dialect = self.arguments.common.dialect;
        let mut pairs = Vec::new();
        let mut names = HashSet::new();
        for (path, name) in returned {
            // The first of several under one name counts.
            if names.contains(name) {
                continue;
            }
            let keys = &mut context.keys_of(0);
            let value = match self.index.definition.schema.find(path.as_bytes()) {
                Some((_, field)) => contents.shown_field(keys, field, dialect),
                None if path == "__key" => Some(Value::text(hit.key.as_slice())),
                None => match content::distance(self.query, hit, path) {
                    Some(distance) => Some(Value::Number(distance)),
                    None => contents.shown(keys, path, dialect),
                },
            };
            if let Some(value) = value {
                if let Value::Text(text) = &value {
                    workspace.take(text.len())?;
                }
                names.insert(name);
                pairs.push((name.as_bytes().to_vec(), value));
            }
        }
        Ok(pairs)
    }

    /// The distances, the field that was sorted by, and the others as the key has them.
    fn everything(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Vec<(Vec<u8>, Value)> {
        let Some(contents) = content::contents(context, self.index, &hit.key) else {
            return Vec::new();
        };
        let mut pairs = content::distances(self.query, hit);
        let dialect = self.arguments.common.dialect;
        let keys = &mut context.keys_of(0);
        let mut fields = contents.all(keys, dialect);
        let sorted_by = self.arguments.sort_by.as_ref();
        let sorted_by = sorted_by.and_then(|(name, _)| self.index.definition.schema.find(name.as_bytes()));
        if let Some((_, field)) = sorted_by {
            let first = fields.iter().position(|(name, _)| *name == field.path.as_bytes());
            match (first, contents.is_hash()) {
                (Some(first), true) => pairs.push(fields.remove(first)),
                (None, true) => {}
                (_, false) => {
                    let value = contents.sorted_by(keys, field, dialect);
                    pairs.extend(value.map(|value| (field.name.clone().into_bytes(), value)));
                }
            }
        }
        pairs.extend(fields);
        pairs
    }
}

fn write_score(context: &mut Context<'_, '_>, hit: &Hit) {
    if hit.explanation.is_some() {
        return write_explained(context, hit.score, hit.explanation.as_ref());
    }
    context.reply.double(hit.score);
}

/// Writes a score with its reason, if it has any.
pub(super) fn write_explained(context: &mut Context<'_, '_>, score: f64, explanation: Option<&Explanation>) {
    context.reply.array(1 + usize::from(explanation.is_some()));
    context.reply.double(score);
    if let Some(explanation) = explanation {
        write_explanation(context, explanation);
    }
}

fn write_explanation(context: &mut Context<'_, '_>, explanation: &Explanation) {
    let text = explanation.text.as_bytes();
    if explanation.parts.is_empty() {
        return context.reply.bulk(text);
    }
    context.reply.array(2);
    context.reply.bulk(text);
    context.reply.array(explanation.parts.len());
    let parts = explanation.parts.iter();
    parts.for_each(|part| write_explanation(context, part));
}

/// Writes the head of a RESP3 answer, up to the list of results.
pub fn write_head(context: &mut Context<'_, '_>, total: u64) {
    context.reply.map(5);
    context.reply.simple("attributes");
    context.reply.array(0);
    context.reply.simple("total_results");
    context.reply.integer(total as i64);
    context.reply.simple("format");
    context.reply.simple("STRING");
    context.reply.simple("results");
}

/// Its end, with what it warns of.
pub fn write_tail(context: &mut Context<'_, '_>, warnings: &[&str]) {
    context.reply.simple("warning");
    context.reply.array(warnings.len());
    warnings.iter().for_each(|warning| context.reply.simple(warning));
}

fn explained(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<String, ErrorReply> {
    let words = words(arguments, 2)?;
    let mut request = plan::Request::open(context, arguments, &words)?;
    let text = request.words.next().unwrap_or_default();
    let search = SearchArguments::read(context, &mut request.words)?;
    Ok(search.query_stage(request.index, text)?.explain())
}

pub fn explain(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let text = explained(context, arguments)?;
    context.reply.bulk(text.as_bytes());
    Ok(())
}

pub fn explain_lines(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let text = explained(context, arguments)?;
    let lines: Vec<&str> = text.split('\n').collect();
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.bulk(line.as_bytes()));
    Ok(())
}

pub fn tag_values(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let words = words(arguments, 2)?;
    let index = find(context, arguments, words[0], false)?;
    let field = index.definition.schema.find(words[1]);
    let (at, field) = field.ok_or_else(|| refused("No such field"))?;
    if !matches!(field.kind, FieldKind::Tag { .. }) {
        return Err(refused("Not a tag field"));
    }
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let is_over = default_clock(context);
    let mut values = context.groups.gathered_list();
    let mut rows = content::rows(context, index.as_ref(), &is_over).into_reply()?;
    index::tag_values(&mut rows, at, TAG_VALUES_MAX, &is_over, &mut |value| {
        values.push_on(value)
    })
    .into_reply()?;
    drop(rows);
    let values = values.all()?;
    context.reply.set(values.len());
    values.iter().for_each(|value| context.reply.bulk(value));
    Ok(Outcome::Done)
}
