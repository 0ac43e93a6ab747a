//! FT.SEARCH, and what else reads an index without aggregating.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};

use quartet_search::aggregate::{Value, sort_key};
use quartet_search::document::Sortable;
use quartet_search::highlight::Matches;
use quartet_search::index::State;
use quartet_search::query::Query;
use quartet_search::schema::FieldKind;
use quartet_search::search::{Explanation, Found, HITS_MAX, Hit, Request, Scorer, hamming};
use quartet_search::{Parts, SearchError, Time, index};
use quartet_wire_resp::{Arguments, Protocol};

use super::arguments::{Common, Taken, limit, unknown};
use super::content;
use super::contents::Contents;
use super::lookup::{count_part, counted, find, words};
use super::profile::Profile;
use super::summaries::Summaries;
use crate::handler::command_memory::Workspace;
use crate::handler::context::Context;
use crate::handler::definition::{ErrorReply, Outcome};
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
        let given = words.counted("RETURN")?;
        let mut given = Words::new(given);
        let mut returned = self.returned.take().unwrap_or_default();
        while let Some(path) = given.next() {
            let path = String::from_utf8_lossy(path).into_owned();
            let name = match given.take("AS") {
                true => {
                    let missing = || refused("RETURN path AS name - must be accompanied with NAME");
                    String::from_utf8_lossy(given.next().ok_or_else(missing)?).into_owned()
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

/// The origin of the order of hits.
enum Order {
    /// By score, by distance, or by a SORTABLE field: the search does it.
    Found,
    /// By the values of a field that the keys hold.
    Values(u16, bool),
}

pub fn search(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if arguments.len() == 2 {
        return Err("SEARCH_QUERY_STRING_BAD No query string provided".into());
    }
    let given = words(arguments, 2)?;
    let outcome = run(context, arguments, &given, None);
    counted(context, outcome)
}

/// Runs FT.SEARCH with these words, for this request; `profile` adds a profile to the answer.
pub(super) fn run(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    given: &[&[u8]],
    mut profile: Option<Profile>,
) -> Result<Outcome, ErrorReply> {
    let index = find(context, arguments, given[0], false)?;
    let mut rest = Words::new(&given[1..]);
    let text = rest.next().unwrap_or_default();
    let mut asked = SearchArguments::read(context, &mut rest)?;
    // A profile shows the progress of a timed-out search, under any setting.
    asked.common.answers_parts |= profile.is_some();
    asked.summaries.check(&index.definition)?;
    let query = asked.common.query(&index, text)?;
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let filling = content::filling_warning(context, &index);
    let (order, mut request) = order(&index, &query, &asked)?;
    if let Some(profile) = &mut profile {
        profile.is_parsed();
        request.clock = Some(profile.clock());
    }
    let (is_over, is_late) = (asked.common.clock(context), asked.common.last_clock(context));
    let parts = Parts::until(&is_late);
    let time = asked.common.time(&is_over, &parts);
    let mut held = content::memory(context);
    let mut found = content::run(context, &index, &query, &request, time)?;
    held.set(content::bytes_of_hits(&found.hits))?;
    if asked.common.scorer == Scorer::Hamming && asked.sort_by.is_none() {
        score_by_payloads(context, &index, &mut found, (&asked, time))?;
        page(&mut found, asked.limit);
    }
    if let Some(profile) = &mut profile {
        let behind = stages(&asked, &query, &found, &order);
        profile.is_searched(&mut found, &behind);
    }
    match order {
        Order::Found => {}
        Order::Values(field, ascends) => {
            let dialect = asked.common.dialect;
            sort(context, &index, &mut found, (field, ascends, dialect), time)?;
            page(&mut found, asked.limit);
            if let Some(profile) = &mut profile {
                profile.is_done("Loader", found.total);
                profile.is_done("Sorter", found.hits.len() as u64);
            }
        }
    }
    let documents = match asked.summaries.are_asked() {
        true => {
            let rows = content::rows(context, index.as_ref(), time.question());
            time.found(rows.map(|mut rows| State::read(&mut rows).documents))?
        }
        false => 0,
    };
    let usage = &context.groups.indexes().usage;
    usage.note_query(&index.number, asked.common.dialect);
    if profile.is_some() {
        Profile::write_head(context);
    }
    Answer {
        index: &index,
        query: &query,
        asked: &asked,
        documents,
        filling: filling.as_deref(),
    }
    .write(context, &found, time, &parts)?;
    if parts.was_over() {
        count_part(context);
    }
    if let Some(mut profile) = profile {
        if !asked.no_content && asked.limit.1 > 0 {
            profile.is_done("Loader", found.hits.len() as u64);
        }
        profile.write(context, &content::warnings(filling.as_deref(), &parts));
    }
    Ok(Outcome::Done)
}

/// The stages of a search that choose its hits while the index is searched, with their results.
fn stages(asked: &SearchArguments, query: &Query, found: &Found, order: &Order) -> Vec<(&'static str, u64)> {
    let mut stages = Vec::new();
    if !query.distance_names().is_empty() {
        stages.push(("Metrics Applier", found.total));
    }
    if asked.limit.1 == 0 {
        stages.push(("Counter", 1));
        return stages;
    }
    if asked.sort_by.is_none() || asked.with_scores {
        stages.push(("Scorer", found.total));
    }
    if let Order::Found = order {
        stages.push(("Sorter", found.hits.len() as u64));
    }
    stages
}

/// Scores by how much of the payloads is the same.
fn score_by_payloads(
    context: &mut Context<'_, '_>,
    index: &Index,
    found: &mut Found,
    (asked, time): (&SearchArguments, Time<'_>),
) -> Result<(), ErrorReply> {
    let field = index.definition.payload_field.as_ref();
    let wanted = asked.common.payload.as_deref().unwrap_or_default();
    let mut done = 0;
    for hit in &mut found.hits {
        if content::is_over(done, time)? {
            break;
        }
        done += 1;
        let contents = content::contents(context, index, &hit.key).filter(Contents::is_hash);
        let payload = contents
            .zip(field)
            .and_then(|(contents, field)| contents.text(&mut context.keys_of(0), field));
        let score = hamming(wanted, payload.as_deref().unwrap_or_default());
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
    found.hits.truncate(done);
    found
        .hits
        .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
    Ok(())
}

fn order(index: &Index, query: &Query, asked: &SearchArguments) -> Result<(Order, Request), ErrorReply> {
    let common = &asked.common;
    let (offset, count) = asked.limit;
    let mut request = Request {
        offset,
        count,
        scorer: common.scorer,
        sort_by: None,
        sort_by_distance: None,
        slop: common.slop,
        in_order: common.in_order,
        by_key: false,
        keys: asked.keys.clone(),
        with_places: asked.summaries.are_asked() && !asked.no_content,
        explains_scores: asked.explains_scores,
        clock: None,
        codes: None,
    };
    if count > HITS_MAX {
        return Err(SearchError::Limit(format!("LIMIT exceeds maximum of {HITS_MAX}")).into());
    }
    let all = |order, mut request: Request| {
        (request.offset, request.count) = (0, HITS_MAX);
        Ok((order, request))
    };
    let Some((name, ascends)) = &asked.sort_by else {
        if common.scorer == Scorer::Hamming {
            return all(Order::Found, request);
        }
        return Ok((Order::Found, request));
    };
    if query.distance_names().contains(&name.as_str()) {
        request.sort_by_distance = Some((name.clone(), *ascends));
        return Ok((Order::Found, request));
    }
    let unknown = || SearchError::NoProperty(format!("Property `{name}` not loaded nor in schema"));
    let (at, field) = index.definition.schema.find(name.as_bytes()).ok_or_else(unknown)?;
    if count == 0 {
        return Ok((Order::Found, request));
    }
    if field.sortable && query.nearest.is_none() {
        request.sort_by = Some((at, *ascends));
        return Ok((Order::Found, request));
    }
    all(Order::Values(at, *ascends), request)
}

fn page(found: &mut Found, (offset, count): (usize, usize)) {
    let hits = std::mem::take(&mut found.hits);
    found.hits = hits.into_iter().skip(offset).take(count).collect();
}

/// Sorts by the values of the keys; keys without a value are last, equal keys are in the order of
/// their names.
fn sort(
    context: &mut Context<'_, '_>,
    index: &Index,
    found: &mut Found,
    (at, ascends, dialect): (u16, bool, u8),
    time: Time<'_>,
) -> Result<(), ErrorReply> {
    let field = index.definition.schema.field(at);
    let mut done = 0;
    for hit in &mut found.hits {
        if content::is_over(done, time)? {
            break;
        }
        done += 1;
        let contents = content::contents(context, index, &hit.key);
        let value = contents.and_then(|contents| contents.sorting(&mut context.keys_of(0), field, dialect));
        hit.sorted_by = value.and_then(|value| match value {
            Value::Null => None,
            Value::Number(number) => Some(Sortable::Number(number)),
            other => Some(Sortable::Text(other.bytes())),
        });
    }
    found.hits.truncate(done);
    let compare = |a: &Sortable, b: &Sortable| match (a, b) {
        (Sortable::Number(a), Sortable::Number(b)) => a.total_cmp(b),
        (Sortable::Text(a), Sortable::Text(b)) => a.cmp(b),
        (Sortable::Number(_), Sortable::Text(_)) => Ordering::Less,
        (Sortable::Text(_), Sortable::Number(_)) => Ordering::Greater,
    };
    found.hits.sort_by(|a, b| {
        let by_value = match (&a.sorted_by, &b.sorted_by) {
            (Some(a), Some(b)) if ascends => compare(a, b),
            (Some(a), Some(b)) => compare(b, a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        by_value.then_with(|| a.key.cmp(&b.key))
    });
    Ok(())
}

/// Writes what was found.
struct Answer<'a> {
    index: &'a Index,
    query: &'a Query,
    asked: &'a SearchArguments,
    /// The number of the index's documents, if the answer depends on it.
    documents: u64,
    /// Says how far the index is, if it is being filled.
    filling: Option<&'a str>,
}

impl Answer<'_> {
    fn write(
        &self,
        context: &mut Context<'_, '_>,
        found: &Found,
        time: Time<'_>,
        parts: &Parts<'_>,
    ) -> Result<(), ErrorReply> {
        let mut written = 0;
        match context.reply.protocol() {
            Protocol::Resp2 => {
                let of_hit = 1
                    + usize::from(self.asked.with_scores)
                    + usize::from(self.asked.with_payloads)
                    + usize::from(self.asked.with_ids)
                    + usize::from(self.asked.with_sort_keys)
                    + usize::from(!self.asked.no_content);
                let mark = context.reply.mark();
                context.reply.integer(found.total as i64);
                for hit in &found.hits {
                    if context.reply.is_full() || content::is_over(written, time)? {
                        break;
                    }
                    if !self.asked.no_content {
                        content::fetch_next(context, &found.hits, written);
                    }
                    self.plain(context, hit)?;
                    written += 1;
                }
                context.reply.array_since(mark, 1 + written * of_hit);
            }
            Protocol::Resp3 => {
                write_head(context, found.total);
                let mark = context.reply.mark();
                for hit in &found.hits {
                    if context.reply.is_full() || content::is_over(written, time)? {
                        break;
                    }
                    if !self.asked.no_content {
                        content::fetch_next(context, &found.hits, written);
                    }
                    self.map(context, hit)?;
                    written += 1;
                }
                context.reply.array_since(mark, written);
                write_tail(context, &content::warnings(self.filling, parts));
            }
        }
        Ok(())
    }

    fn plain(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<(), ErrorReply> {
        context.reply.bulk(&hit.key);
        if self.asked.with_scores {
            write_score(context, hit);
        }
        if self.asked.with_ids {
            context.reply.integer(hit.id as i64);
        }
        if self.asked.with_payloads {
            self.payload(context, hit);
        }
        if self.asked.with_sort_keys {
            self.sort_key(context, hit);
        }
        match self.asked.no_content {
            true => Ok(()),
            false => self.content(context, hit, false),
        }
    }

    fn map(&self, context: &mut Context<'_, '_>, hit: &Hit) -> Result<(), ErrorReply> {
        let asked = self.asked;
        let options = [
            asked.with_scores,
            asked.with_ids,
            asked.with_payloads,
            asked.with_sort_keys,
            !asked.no_content,
        ];
        context.reply.map(2 + options.iter().filter(|is_set| **is_set).count());
        context.reply.simple("id");
        context.reply.bulk(&hit.key);
        if asked.with_scores {
            context.reply.simple("score");
            write_score(context, hit);
        }
        if asked.with_ids {
            context.reply.simple("id");
            context.reply.integer(hit.id as i64);
        }
        if asked.with_payloads {
            context.reply.simple("payload");
            self.payload(context, hit);
        }
        if asked.with_sort_keys {
            context.reply.simple("sortkey");
            self.sort_key(context, hit);
        }
        if !asked.no_content {
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
        let mut pairs = match &self.asked.returned {
            Some(returned) => self.chosen(context, hit, returned, &mut workspace)?,
            None => self.everything(context, hit),
        };
        pairs.retain(|(name, _)| !self.index.definition.hides(name));
        if self.asked.summaries.are_asked() {
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
        let summaries = &self.asked.summaries;
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
        let dialect = self.asked.common.dialect;
        let mut pairs = Vec::new();
        let mut known = HashSet::new();
        for (path, name) in returned {
            // The first of several under one name counts.
            if known.contains(name) {
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
                known.insert(name);
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
        let dialect = self.asked.common.dialect;
        let keys = &mut context.keys_of(0);
        let mut fields = contents.all(keys, dialect);
        let sorted_by = self.asked.sort_by.as_ref();
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
    let given = words(arguments, 2)?;
    let index = find(context, arguments, given[0], false)?;
    let mut rest = Words::new(&given[1..]);
    let text = rest.next().unwrap_or_default();
    let asked = SearchArguments::read(context, &mut rest)?;
    let query = asked.common.query(&index, text)?;
    Ok(query.explain(&index.definition.schema))
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
    let given = words(arguments, 2)?;
    let index = find(context, arguments, given[0], false)?;
    let field = index.definition.schema.find(given[1]);
    let (at, field) = field.ok_or_else(|| refused("No such field"))?;
    if !matches!(field.kind, FieldKind::Tag { .. }) {
        return Err(refused("Not a tag field"));
    }
    if let Some(outcome) = content::wait(context, &index)? {
        return Ok(outcome);
    }
    let is_over = Common::new(context).clock(context);
    let mut rows = content::rows(context, index.as_ref(), &is_over)?;
    let values = index::tag_values(&mut rows, at, TAG_VALUES_MAX, &is_over)?;
    context.reply.set(values.len());
    values.iter().for_each(|value| context.reply.bulk(value));
    Ok(Outcome::Done)
}
