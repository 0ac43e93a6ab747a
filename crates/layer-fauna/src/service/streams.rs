//! Streams: events of a document or a set, from now on.
//!
//! The engine reports the changed rows of the target; a stream records them and, once they are
//! durable, reads from the history the events between the version up to which it has sent
//! everything and the durable one. So no event is sent twice, none is left out, and none can be
//! undone by a crash. The caller is checked again before each event.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_engine::{Busy, Dependency, PartitionGuard, WatchId};
use quartet_model::{KeyRange, Version as CommitVersion};

use crate::credentials::jwt;
use crate::evaluation::deadline::{Deadline, busy, unreadable};
use crate::evaluation::{Evaluation, STREAMS};
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result};
use crate::language::expression::Effect;
use crate::language::parse;
use crate::language::render;
use crate::language::value::native_of;
use crate::language::value::{Fields, Native, Ref, Set, Target, Timestamp, Value};
use crate::service::Fauna;
use crate::service::headers::{self, RequestHeaders, is_stream};
use crate::service::message::{Reply, Request, parse_body, refusal};
use crate::storage::documents::reference;
use crate::storage::documents::{Place, Version, difference};
use crate::storage::indexes::{self, entries_prefix, former_prefix};
use crate::storage::rows::{self, Key, Moment, Rewritten, View};
use crate::storage::schema::{Index, Schema};

/// A stream's next step.
pub enum StreamStep {
    Send(String),
    /// Poll again once this is durable.
    Wait(Dependency),
    /// Poll again when woken.
    Idle,
    /// The partition's lock is held: poll again once it is free.
    Busy,
    End,
}

/// The members of an event that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Action,
    Document,
    Diff,
    Prev,
    Index,
}

/// The target of a stream.
enum Watched {
    Document(Place),
    Documents {
        schema: Arc<Schema>,
        collection: u64,
    },
    Entries {
        schema: Arc<Schema>,
        index: Arc<Index>,
        terms: Vec<Value>,
        terms_key: Vec<u8>,
    },
}

/// The keys below the layer that have changed and are not sent yet.
type Changed = Arc<Mutex<BTreeSet<Vec<u8>>>>;

pub struct Stream {
    fauna: Arc<Fauna>,
    secret: String,
    target: Watched,
    fields: Vec<Field>,
    changed: Changed,
    watches: Vec<WatchId>,
    /// The dependency of opening it.
    opened: Dependency,
    /// Everything up to here has been sent.
    told: Timestamp,
    unsent: std::collections::VecDeque<String>,
    ended: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.fauna.engine.unwatch(std::mem::take(&mut self.watches));
    }
}

impl Fauna {
    /// Opens a stream for a stream request: returns the head of the answer, and the stream; or the
    /// refusal.
    pub fn stream(
        self: &Arc<Self>,
        request: Request<'_>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Option<std::result::Result<(Reply, Stream), Reply>> {
        let (_, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        if !is_stream(&request) {
            return None;
        }
        let request_headers = RequestHeaders::new(request.headers);
        let moment = self.moment();
        let dependency = moment
            .as_ref()
            .map_or(CommitVersion::ZERO, |moment| moment.reader.dependency);
        let opened = moment
            .map_err(|Busy| busy())
            .and_then(|moment| self.open_stream(moment, &request_headers, query, request.body, wake));
        let newest = self.engine.durable();
        let finish = |mut reply: Reply| {
            reply.headers.push(("x-txn-time", newest.0.to_string().into()));
            headers::complete(reply, &request_headers, &self.trace())
        };
        Some(match opened {
            Ok(stream) => {
                let reply = Reply {
                    status: 200,
                    headers: vec![
                        ("content-type", "application/json;charset=utf-8".into()),
                        ("x-fauna-stream-id", stream_id(&self.trace()).into()),
                    ],
                    body: String::new(),
                    dependency: CommitVersion::ZERO,
                    duration_micros: 0,
                    unanswered: None,
                };
                Ok((finish(reply), stream))
            }
            Err(errors) => Err(finish(Reply {
                dependency,
                ..refusal(&errors)
            })),
        })
    }

    fn open_stream(
        self: &Arc<Self>,
        moment: Moment,
        headers: &RequestHeaders<'_>,
        query: &str,
        body: &[u8],
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Stream> {
        headers.check()?;
        let secret = headers
            .secret()
            .ok_or_else(|| Errors::protocol(Code::Unauthorized, "Unauthorized"))?;
        let fields = fields(headers::parameter(query, "fields").as_deref())?;
        let changed: Changed = Arc::default();
        let mut view = View::Reader(&moment);
        let deadline = Deadline::new(true, moment.reader.now_micros, headers.query_timeout_ms());
        if jwt::is_token(&secret) {
            self.make_keys_ready(&mut view, &secret);
        }
        let caller = self.authenticate(&mut view, &secret)?;
        let parsed = parse_body(body).and_then(|json| parse::query(&json, headers.api_version()))?;
        let mut evaluation = self.evaluation(view, &caller, deadline, None)?;
        evaluation.version = headers.api_version();
        (evaluation.allowed, evaluation.allowed_in) = (Effect::Read, STREAMS);
        let value = evaluation.evaluate(&parsed.root)?;
        let target = target(&mut evaluation, &value)?;
        drop(evaluation);
        let mut stream = Stream {
            fauna: self.clone(),
            secret: secret.into_owned(),
            target,
            fields,
            changed,
            watches: Vec::new(),
            opened: Dependency::ZERO,
            told: Timestamp(0),
            unsent: Default::default(),
            ended: false,
        };
        stream.watch(wake).map_err(|Busy| busy())?;
        // Watching first, then looking: nothing falls between.
        let reader = self.moment().map_err(|Busy| busy())?.reader;
        stream.opened = reader.dependency;
        stream.told = Timestamp(reader.version.0);
        let start = format!("{{\"type\":\"start\",\"txn\":{0},\"event\":{0}}}\r\n", stream.told.0);
        stream.unsent.push_back(start);
        Ok(stream)
    }
}

/// Returns a stream's name in the logs of its client.
fn stream_id(trace: &[u8; 24]) -> String {
    (rows::number_at(trace, 0) >> 1).to_string()
}

/// The members of events: a trailing comma is a driver's habit.
fn fields(names: Option<&str>) -> Result<Vec<Field>> {
    let Some(names) = names else {
        return Ok(vec![Field::Action, Field::Document]);
    };
    let mut fields = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        fields.push(match name {
            "action" => Field::Action,
            "document" => Field::Document,
            "diff" => Field::Diff,
            "prev" => Field::Prev,
            "index" => Field::Index,
            other => {
                let message = format!("Invalid url parameter fields. Invalid field name '{other}'.");
                return Err(Errors::new(Code::InvalidUrlParameter, message));
            }
        });
    }
    Ok(fields)
}

fn target(evaluation: &mut Evaluation<'_>, value: &Value) -> Result<Watched> {
    let document = match value {
        Value::Document(document) => Some(document.reference.clone()),
        Value::Ref(reference) => Some(reference.clone()),
        _ => None,
    };
    // Schema objects cannot be followed.
    let document = document.filter(|reference| matches!(reference.target, Target::Document(..)));
    if let Some(document) = document {
        let place = evaluation.resolve(&document)?;
        return Ok(Watched::Document(place));
    }
    let set = match value {
        Value::Set(set) => Some(&**set),
        _ => None,
    };
    match set {
        Some(Set::Match { index, terms }) => {
            let (schema, index_schema) = evaluation.index(index)?;
            let terms: Vec<Value> = terms.as_ref().map_or(&[][..], Value::one_or_many).to_vec();
            Ok(Watched::Entries {
                terms_key: indexes::terms_key(&terms, &schema),
                schema,
                index: index_schema,
                terms,
            })
        }
        Some(Set::Documents(collection)) => {
            let schema = evaluation.schema_in(&collection.scope)?;
            let number = match &collection.target {
                Target::Native(native) => *native as u64,
                _ => {
                    let collection_number = schema.collection(&collection.id()).map(|collection| collection.number);
                    collection_number.ok_or_else(|| Errors::invalid_ref("collection", &collection.id()))?
                }
            };
            Ok(Watched::Documents {
                schema,
                collection: number,
            })
        }
        _ => {
            let mut errors = wrong_type("", value);
            let type_name = value.type_name();
            errors.0[0].description = format!("Expected a Document Ref or Version, or a Set Ref, got {type_name}.");
            Err(errors)
        }
    }
}

/// A single event.
struct StreamEvent {
    /// The time of its commit.
    ts: Timestamp,
    kind: &'static str,
    action: &'static str,
    members: Vec<(Field, Value)>,
    document: Ref,
}

impl Stream {
    fn prefixes(&self) -> Vec<Key> {
        match &self.target {
            Watched::Document(place) => vec![
                rows::document(place.database(), place.collection, place.id),
                rows::history(place.database(), place.collection, place.id),
                rows::rewritten(place.database(), place.collection, place.id),
            ],
            Watched::Documents { schema, collection } => vec![
                Key::of(schema.database(), b'D').number(*collection),
                Key::of(schema.database(), b'H').number(*collection),
            ],
            Watched::Entries {
                schema,
                index,
                terms_key,
                ..
            } => vec![
                entries_prefix(schema.database(), index, terms_key),
                former_prefix(schema.database(), index, terms_key),
            ],
        }
    }

    fn watch(&mut self, wake: Arc<dyn Fn() + Send + Sync>) -> std::result::Result<(), Busy> {
        let mut partition = self.fauna.engine.partition_in_time()?;
        for prefix in self.prefixes() {
            let (changed, wake) = (self.changed.clone(), wake.clone());
            let range = KeyRange::new(prefix.0.clone(), prefix.end());
            let noted = Arc::new(move |key: &[u8]| {
                changed.lock().insert(PartitionGuard::layer_key(key).to_vec());
                wake();
            });
            self.watches
                .push(partition.watch_range(self.fauna.space, &range, noted));
        }
        Ok(())
    }

    pub fn step(&mut self) -> StreamStep {
        if !self.fauna.engine.is_durable(self.opened) {
            return StreamStep::Wait(self.opened);
        }
        if let Some(event) = self.unsent.pop_front() {
            return StreamStep::Send(event);
        }
        if self.ended {
            return StreamStep::End;
        }
        let changed = std::mem::take(&mut *self.changed.lock());
        if changed.is_empty() {
            return StreamStep::Idle;
        }
        let fauna = self.fauna.clone();
        let Ok(moment) = fauna.moment() else {
            self.changed.lock().extend(changed);
            return StreamStep::Busy;
        };
        if moment.reader.dependency != CommitVersion::ZERO {
            self.changed.lock().extend(changed);
            return StreamStep::Wait(moment.reader.dependency);
        }
        let until = Timestamp(moment.reader.version.0);
        let mut result = self.tell(View::Reader(&moment), &changed, until);
        if moment.reader.is_unreadable() {
            self.unsent.clear();
            result = Err(unreadable());
        }
        self.told = self.told.max(until);
        if let Err(errors) = result {
            self.end(&errors, until);
        }
        self.step()
    }

    fn tell(&mut self, mut view: View<'_>, changed: &BTreeSet<Vec<u8>>, until: Timestamp) -> Result<()> {
        let fauna = self.fauna.clone();
        let lost = || Errors::new(Code::PermissionDenied, "Authorization lost during stream evaluation.");
        let caller = fauna.authenticate(&mut view, &self.secret).map_err(|_| lost())?;
        let mut evaluation = fauna
            .evaluation(view, &caller, Deadline::unlimited(), None)
            .map_err(|_| lost())?;
        let mut happenings = Vec::new();
        match &self.target {
            Watched::Document(place) => {
                self.versions(&mut evaluation, place, &mut happenings);
                self.rewritings(&mut evaluation, place, &mut happenings);
            }
            Watched::Documents { schema, collection } => {
                let skip = Key::of(schema.database(), b'D').0.len() + 8;
                let ids: BTreeSet<u64> = changed.iter().map(|key| rows::number_at(key, skip)).collect();
                for id in ids {
                    self.presence(&mut evaluation, schema, *collection, id, &mut happenings);
                }
            }
            Watched::Entries {
                schema,
                index,
                terms_key,
                ..
            } => {
                for key in changed {
                    self.entry(&mut evaluation, schema, index, terms_key, key, &mut happenings);
                }
            }
        }
        happenings.retain(|happening| happening.ts > self.told && happening.ts <= until);
        happenings.sort_by_key(|happening| (happening.ts, happening.action == "add"));
        if !matches!(self.target, Watched::Document(_)) {
            happenings.dedup_by(|one, other| {
                (one.ts, one.action, &one.document) == (other.ts, other.action, &other.document)
            });
        }
        for happening in happenings {
            if self.may_be_told(&mut evaluation, &happening)? {
                let event = self.event(&happening);
                self.unsent.push_back(event);
            }
        }
        Ok(())
    }

    /// Returns true if the caller may know of it, as things were then.
    fn may_be_told(&self, evaluation: &mut Evaluation<'_>, happening: &StreamEvent) -> Result<bool> {
        (evaluation.at, evaluation.present) = (Some(happening.ts), Some(happening.ts));
        let document = &happening.document;
        let set = match &self.target {
            Watched::Document(_) if happening.kind == "version" => return Ok(evaluation.may_read(document)),
            Watched::Document(_) => return Ok(evaluation.permit_history(document).is_ok()),
            Watched::Documents { schema, collection } => {
                let name = schema
                    .collection_of(*collection)
                    .map(|collection| collection.name.clone());
                let native = native_of(*collection).map(Ref::native);
                let named = || name.map(|name| Ref::named(Native::Collections, name));
                native.or_else(named).map(Set::Documents)
            }
            Watched::Entries { index, terms, .. } => Some(Set::Match {
                index: Ref::named(Native::Indexes, index.name.clone()),
                terms: Some(Value::array(terms.clone())),
            }),
        };
        let permitted = match set {
            Some(set) => evaluation.permitted(&Arc::new(set))?,
            None => None,
        };
        Ok(permitted.is_some_and(|permitted| !permitted.is_checked || evaluation.may_read(document)))
    }

    /// Gathers the versions that were inserted into the history of a document, or removed from it.
    fn rewritings(&self, evaluation: &mut Evaluation<'_>, place: &Place, happenings: &mut Vec<StreamEvent>) {
        let prefix = rows::rewritten(place.database(), place.collection, place.id);
        let start = prefix.clone().number(self.told.0.saturating_add(1));
        for (key, row) in evaluation.view.rows(&start.0, &prefix.end(), false, usize::MAX) {
            let committed = Timestamp(rows::number_at(&key, prefix.0.len()));
            for rewriting in rows::rewritings(&row) {
                let version = match rewriting.is_removal {
                    true => None,
                    false => evaluation
                        .version_at(place, rewriting.ts)
                        .filter(|version| version.ts == rewriting.ts),
                };
                let fields = version.as_ref().and_then(Version::fields).cloned().unwrap_or_default();
                happenings.push(StreamEvent {
                    ts: committed,
                    kind: "history_rewrite",
                    action: match rewriting.action {
                        Rewritten::Create => "create",
                        Rewritten::Update => "update",
                        Rewritten::Delete => "delete",
                    },
                    members: vec![(Field::Document, versioned(&place.reference, rewriting.ts, &fields))],
                    document: place.reference.clone(),
                });
            }
        }
    }

    fn versions(&self, evaluation: &mut Evaluation<'_>, place: &Place, happenings: &mut Vec<StreamEvent>) {
        // A version of the present is at the time of its commit; an inserted one is sent as such.
        let inserted = self.put_in(evaluation, place);
        let mut former: Option<Version> = None;
        for version in evaluation.versions_since(place, self.told) {
            if inserted.contains(&version.ts) {
                former = Some(version);
                continue;
            }
            let before = former.as_ref().and_then(Version::fields).cloned();
            let document = |ts: Timestamp, fields: &Fields| versioned(&place.reference, ts, fields);
            let empty = Fields::default();
            let (action, document, diff, prev) = match (&before, version.fields()) {
                (None, Some(new)) => (
                    "create",
                    document(version.ts, new),
                    document(version.ts, new),
                    document(version.ts, &empty),
                ),
                (Some(old), Some(new)) => {
                    let changes = difference(old, new);
                    let prev = document(former.as_ref().map_or(version.ts, |former| former.ts), old);
                    (
                        "update",
                        document(version.ts, new),
                        document(version.ts, &changes),
                        prev,
                    )
                }
                (Some(old), None) => {
                    let ts = former.as_ref().map_or(version.ts, |former| former.ts);
                    (
                        "delete",
                        document(ts, old),
                        document(version.ts, &empty),
                        document(ts, old),
                    )
                }
                (None, None) => continue,
            };
            happenings.push(StreamEvent {
                ts: version.ts,
                kind: "version",
                action,
                members: vec![(Field::Document, document), (Field::Diff, diff), (Field::Prev, prev)],
                document: place.reference.clone(),
            });
            former = Some(version);
        }
    }

    /// Returns the times, after the last sent event, at which versions were inserted into the
    /// history.
    fn put_in(&self, evaluation: &mut Evaluation<'_>, place: &Place) -> Vec<Timestamp> {
        let prefix = rows::rewritten(place.database(), place.collection, place.id);
        let start = prefix.clone().number(self.told.0.saturating_add(1));
        let rows = evaluation.view.rows(&start.0, &prefix.end(), false, usize::MAX);
        let put_in = |row: &[u8]| {
            let mut concerned: Vec<_> = rows::rewritings(row).collect();
            let is_removal = concerned.iter().any(|rewriting| rewriting.is_removal);
            concerned.pop().filter(|_| !is_removal)
        };
        rows.iter()
            .filter_map(|(_, row)| put_in(row))
            .map(|rewriting| rewriting.ts)
            .collect()
    }

    fn presence(
        &self,
        evaluation: &mut Evaluation<'_>,
        schema: &Arc<Schema>,
        collection: u64,
        id: u64,
        happenings: &mut Vec<StreamEvent>,
    ) {
        let Some(document) = reference(schema, collection, id) else {
            return;
        };
        let place = Place {
            schema: schema.clone(),
            collection,
            id,
            reference: document.clone(),
        };
        let mut present = false;
        for version in evaluation.versions_since(&place, self.told) {
            let is_present = version.contents.is_some();
            if is_present != present {
                let action = if is_present { "add" } else { "remove" };
                let source = document.collection().map_or(Value::Null, Value::Ref);
                let index = Value::record([("collection", source)]);
                happenings.push(set_happening(version.ts, action, &document, index));
            }
            present = is_present;
        }
    }

    fn entry(
        &self,
        evaluation: &mut Evaluation<'_>,
        schema: &Arc<Schema>,
        index: &Index,
        terms_key: &[u8],
        key: &[u8],
        happenings: &mut Vec<StreamEvent>,
    ) {
        let former = former_prefix(schema.database(), index, terms_key);
        let (collection, id) = rows::document_of_entry(key);
        let Some(document) = reference(schema, collection, id) else {
            return;
        };
        let Some(row) = evaluation.view.get(key) else { return };
        let has_left = key.starts_with(&former.0);
        let values = indexes::entry_values(&row, if has_left { 8 } else { 16 }, schema);
        let terms = match &self.target {
            Watched::Entries { terms, .. } => terms.clone(),
            _ => Vec::new(),
        };
        let index_value = Value::record([
            ("ref", Value::named(Native::Indexes, index.name.clone())),
            ("terms", Value::array(terms)),
            ("values", Value::array(values)),
        ]);
        let added = Timestamp(rows::number_at(&row, 0));
        happenings.push(set_happening(added, "add", &document, index_value.clone()));
        if has_left {
            let removed = Timestamp(rows::number_at(key, former.0.len()));
            happenings.push(set_happening(removed, "remove", &document, index_value));
        }
    }

    fn event(&self, happening: &StreamEvent) -> String {
        let mut members: Vec<(Arc<str>, Value)> = Vec::new();
        for field in &self.fields {
            let member = happening.members.iter().find(|(name, _)| name == field);
            let name = match field {
                Field::Action => {
                    members.push(("action".into(), Value::string(happening.action)));
                    continue;
                }
                Field::Document => "document",
                Field::Diff => "diff",
                Field::Prev => "prev",
                Field::Index => "index",
            };
            if let Some((_, value)) = member
                && !value.is_null()
            {
                members.push((name.into(), value.clone()));
            }
        }
        shown_event(happening.kind, happening.ts, Value::object(members))
    }

    fn end(&mut self, errors: &Errors, at: Timestamp) {
        self.ended = true;
        let event = errors.0.first().map_or(Value::Null, |error| {
            Value::record([
                ("code", Value::string(error.code.wire().0)),
                ("description", Value::string(error.description.as_str())),
            ])
        });
        self.unsent.push_back(shown_event("error", at, event));
    }
}

/// One event, as a line of its own.
fn shown_event(kind: &str, ts: Timestamp, event: Value) -> String {
    let event = render::compact(&event);
    format!("{{\"type\":\"{kind}\",\"txn\":{},\"event\":{event}}}\r\n", ts.0)
}

fn versioned(reference: &Ref, ts: Timestamp, fields: &Fields) -> Value {
    let head = [("ref".into(), Value::Ref(reference.clone())), ("ts".into(), ts.value())];
    Value::object(head.into_iter().chain(fields.entries.iter().cloned()).collect())
}

fn set_happening(ts: Timestamp, action: &'static str, document: &Ref, index: Value) -> StreamEvent {
    let document_value = Value::record([("ref", Value::Ref(document.clone())), ("ts", ts.value())]);
    StreamEvent {
        ts,
        kind: "set",
        action,
        members: vec![(Field::Document, document_value), (Field::Index, index)],
        document: document.clone(),
    }
}
