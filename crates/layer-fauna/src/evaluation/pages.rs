//! Pages: a part of a set, or of its history, and the cursors to the adjacent parts.
//!
//! `after` names the first element of a page, `before` the first one after it. The given cursor is
//! always returned on its own side, even if there is nothing beyond it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::permitted::Readable;
use crate::evaluation::sets::Element;
use crate::language::api_version::ApiVersion;
use crate::language::error::wrong_type;
use crate::language::error::{Errors, Result, Within, no_history};
use crate::language::render;
use crate::language::value::as_set;
use crate::language::value::{Fields, Items, Origin, Page, Ref, Set, Target, Timestamp, Value};
use crate::storage::documents::reference;
use crate::storage::documents::{Version, difference};
use crate::storage::indexes::{self, entries_prefix, former_prefix};
use crate::storage::order;
use crate::storage::ranges::Shape;
use crate::storage::ranges::{Range, document_key, edge_of};
use crate::storage::rows::{self, DOCUMENT_BYTES};

const SIZE_DEFAULT: i64 = 64;
const SIZE_MAX: i64 = 100_000;
/// Events that one history may have.
const EVENTS_MAX: usize = 1_000_000;
/// The bytes of an event without its data, with its key and its place in lists.
const EVENT_BYTES: usize = 320;

/// The parameters of a page.
pub struct Request {
    pub cursor: Cursor,
    /// The position of the cursor in the form, from the inside out.
    pub cursor_place: &'static [&'static str],
    pub size: Size,
    pub sources: bool,
}

/// The number of elements of a page. Zero if the requested number is smaller, and then nothing
/// beyond is reported either.
#[derive(Clone, Copy)]
pub struct Size(i64);

impl Size {
    pub fn asked(size: Option<i64>) -> Size {
        Size(size.unwrap_or(SIZE_DEFAULT).min(SIZE_MAX))
    }

    fn shown(self) -> usize {
        self.0.max(0) as usize
    }

    /// The cursor on the far side of a page that shows nothing: an empty page stays where it is.
    fn stays_at(self, cursor: Option<Value>) -> Option<Value> {
        cursor.filter(|_| self.0 == 0)
    }
}

pub enum Cursor {
    Start,
    After(Value),
    Before(Value),
}

impl Cursor {
    fn given(&self) -> Option<&Value> {
        match self {
            Cursor::Start => None,
            Cursor::After(cursor) | Cursor::Before(cursor) => Some(cursor),
        }
    }
}

impl Request {
    /// Places the errors of a cursor at the cursor.
    fn placed<T>(&self, read: Result<T>) -> Result<T> {
        self.cursor_place.iter().fold(read, |read, key| read.within(key))
    }
}

impl Evaluation<'_> {
    /// A page of a set, of a built-in collection, or of the one document that a ref names.
    pub fn page(&mut self, of: &Value, request: Request) -> Result<Value> {
        if let Some(Value::Ref(reference)) = request.cursor.given() {
            request.placed(self.check_defined(reference))?;
        }
        let set = match (as_set(of), of) {
            (Some(set), _) => set,
            (None, Value::Ref(document)) => Arc::new(Set::Singleton(document.clone())),
            (None, other) => return Err(wrong_type("Ref or Set", other)),
        };
        match &*set {
            Set::Events(of) => self.page_of_events(of, request),
            set if set.is_history() => self.page_of_events(of, request),
            _ => self.page_of_set(&set, request),
        }
    }

    fn page_of_set(&mut self, set: &Arc<Set>, request: Request) -> Result<Value> {
        let shape = self.shape(set)?;
        let readable = self.readable(set).within("paginate")?;
        let mut range = Range::default();
        // Reading backwards, the elements after a cursor have smaller keys.
        let (towards_start, cursor) = match &request.cursor {
            Cursor::Start => (false, None),
            Cursor::After(cursor) => (false, Some(cursor)),
            Cursor::Before(cursor) => (true, Some(cursor)),
        };
        if let Some(cursor) = cursor {
            let edge = edge_of(cursor.one_or_many(), &shape, &self.schema);
            match (towards_start, shape.backwards) {
                (false, false) => range.start = edge,
                (false, true) => range.end = Some(edge.behind()),
                (true, false) => range.end = Some(edge),
                (true, true) => range.start = edge.behind(),
            }
        }
        let backwards = shape.backwards != towards_start;
        let size = request.size.shown();
        let mut elements = self.elements(&readable, &range, backwards, size.saturating_add(1))?;
        self.step(elements.len())?;
        let beyond = (elements.len() > size).then(|| elements.pop()).flatten();
        let (mut before, mut after) = (None, None);
        let echoed = cursor.map(echo);
        if towards_start {
            // The elements are in descending order from the cursor.
            elements.reverse();
            after = echoed.clone();
            before = match (&beyond, elements.first(), size) {
                (_, _, 0) => request.size.stays_at(echoed),
                (Some(_), Some(first), _) => Some(element_cursor(first, &shape)),
                _ => None,
            };
        } else {
            before = echoed.clone().or(before);
            after = match (&beyond, size) {
                (_, 0) => request.size.stays_at(echoed),
                (Some(beyond), _) => Some(element_cursor(beyond, &shape)),
                (None, _) => after,
            };
        }
        if request.sources {
            let cursors = elements.iter().map(|element| element_cursor(element, &shape)).collect();
            let data = self.with_sources(&readable, &elements)?;
            return Ok(page(before, after, Items::new(data), Origin::Cursors(cursors)));
        }
        Ok(page_of_elements(before, after, elements, &shape))
    }

    /// Each element with the leaf sets that contain it.
    fn with_sources(&mut self, of: &Readable, elements: &[Element]) -> Result<Vec<Value>> {
        let mut leaves = Vec::new();
        collect_leaves(&of.set, &mut leaves);
        let mut data = Vec::new();
        for element in elements {
            self.work(leaves.len())?;
            let mut sources = Vec::new();
            for leaf in &leaves {
                if self.has_equal(leaf, element)? {
                    sources.push(Value::Set(leaf.clone()));
                }
            }
            self.make(sources.len() * std::mem::size_of::<Value>())?;
            data.push(Value::record([
                ("value", element.value()),
                ("sources", Value::array(sources)),
            ]));
        }
        Ok(data)
    }

    /// Returns true if a set that is not made of several has an element that shows the same.
    fn has_equal(&mut self, leaf: &Arc<Set>, element: &Element) -> Result<bool> {
        let shape = self.shape(leaf)?;
        let group = match (element.values.len(), shape.reversals.len()) {
            (0, 0) => document_key(&element.reference, &self.schema).to_vec(),
            (own, other) if own == other => edge_of(&element.values, &shape, &self.schema)
                .position()
                .unwrap_or_default(),
            _ => return Ok(false),
        };
        Ok(!self.unchecked(leaf, &Range::prefix(&group), false, 1)?.is_empty())
    }

    pub fn page_of_events(&mut self, of: &Value, request: Request) -> Result<Value> {
        let version = self.version;
        let cursor = match request.cursor.given() {
            None => None,
            Some(cursor) => Some(request.placed(self.event_cursor(cursor))?),
        };
        let mut events = self.readable_events(of, "paginate")?;
        let total = events.len();
        let position = cursor
            .as_ref()
            .map_or(0, |(key, _)| events.partition_point(|event| event.key < *key));
        let size = request.size.shown();
        let (start, end) = match &request.cursor {
            Cursor::Before(_) => (position.saturating_sub(size), position),
            _ => (position, position.saturating_add(size).min(total)),
        };
        let event_at = |index: usize| {
            let event = events.get(index).filter(|_| size > 0);
            event.map(|event| event.cursor(version))
        };
        let echoed = cursor.map(|(_, value)| value);
        let (before, after) = match (&request.cursor, size) {
            (Cursor::Start, _) => (None, event_at(end)),
            (Cursor::After(_), 0) => (echoed.clone(), request.size.stays_at(echoed)),
            (Cursor::Before(_), 0) => (request.size.stays_at(echoed.clone()), echoed),
            (Cursor::After(_), _) => (echoed, event_at(end)),
            (Cursor::Before(_), _) => ((start > 0).then(|| event_at(start)).flatten(), echoed),
        };
        let own = source_of(&Value::Set(Arc::new(Set::Events(of.clone()))));
        let with_source = |event: Event| match request.sources {
            false => event.value(version),
            true => Value::record([
                ("value", event.value(version)),
                (
                    "sources",
                    Value::array(own.clone().map_or(event.sources, |own| vec![own])),
                ),
            ]),
        };
        self.make((end - start) * 2 * EVENT_BYTES)?;
        let cursors = events[start..end].iter().map(|event| event.cursor(version)).collect();
        let data = events.drain(start..end).map(with_source).collect();
        Ok(page(before, after, Items::new(data), Origin::Cursors(cursors)))
    }

    /// The position among events that a cursor names, and the cursor as a page shows it: an event
    /// without its data. A cursor that names a time but no document is after all events of that
    /// time, and is shown as null (as in the original).
    pub fn event_cursor(&mut self, cursor: &Value) -> Result<(EventKey, Value)> {
        let is_written_out = matches!(cursor, Value::Object(_));
        let (ts, action, document, data) = match cursor {
            Value::Object(fields) => self.parts_of_event(fields)?,
            Value::Null => (Timestamp(i64::MAX as u64), "add", None, None),
            Value::Int(_) | Value::Time(_) | Value::Date(_) => (self.moment(cursor)?, "add", None, None),
            other => return Err(wrong_type("Object, Integer, Time, or Date", other)),
        };
        let key = EventKey {
            ts,
            document: match &document {
                Some(document) => document_key(document, &self.schema).to_vec(),
                None if is_written_out => vec![0xff; DOCUMENT_BYTES + 1],
                None => Vec::new(),
            },
            removal: action == "remove",
        };
        let event = |document| Event {
            key: key.clone(),
            action,
            document,
            data,
            sources: Vec::new(),
        };
        let value = match document {
            Some(document) => event(document).value(self.version),
            None if is_written_out => Value::Null,
            None => Value::record([
                ("ts", ts.value()),
                ("action", Value::string(action_in(action, self.version))),
            ]),
        };
        Ok((key, value))
    }

    /// Returns the parts of an event that was written out: its time, its action, its document and
    /// its values. Each goes with those before it; all faults are reported.
    fn parts_of_event(&self, fields: &Fields) -> Result<(Timestamp, &'static str, Option<Ref>, Option<Value>)> {
        let document_key = ["document", "instance", "resource"]
            .into_iter()
            .find(|key| fields.get(key).is_some());
        let data_key = if document_key == Some("resource") {
            "values"
        } else {
            "data"
        };
        let keys = ["ts", "action", document_key.unwrap_or("document"), data_key];
        let count = fields.entries.len();
        if count == 0 || keys.iter().take(count).any(|key| fields.get(key).is_none()) {
            let keys: Vec<&str> = fields.entries.iter().map(|(key, _)| &**key).collect();
            let message = format!("Cannot create event cursor with keys {}", keys.join(", "));
            return Err(Errors::argument(message));
        }
        let ts = match fields.get("ts").unwrap_or(&Value::Null) {
            ts @ Value::Int(_) => self.moment(ts),
            other => Err(wrong_type("Integer", other)),
        };
        let document = match fields.get(keys[2]) {
            None => Ok(None),
            Some(Value::Ref(document)) => Ok(Some(document.clone())),
            Some(other) => Err(wrong_type("Ref", other)),
        };
        let action = fields.get("action");
        let action = match action.map(|action| action.as_str().map(|action| &**action)) {
            None | Some(Some("add" | "create")) => Ok("add"),
            Some(Some("remove" | "delete")) => Ok("remove"),
            Some(Some("update")) => Ok("update"),
            Some(_) => {
                let other = action.unwrap_or(&Value::Null);
                Err(wrong_type("String 'create', 'update', or 'delete'", other))
            }
        };
        match (ts.within("ts"), document.within(keys[2]), action.within("action")) {
            (Ok(ts), Ok(document), Ok(action)) => {
                let data = fields
                    .get(data_key)
                    .map(|data| Value::array(data.one_or_many().to_vec()));
                Ok((ts, action, document, data))
            }
            (ts, document, action) => {
                let wrong = [ts.err(), document.err(), action.err()];
                Err(Errors(
                    wrong.into_iter().flatten().flat_map(|errors| errors.0).collect(),
                ))
            }
        }
    }

    /// Returns the readable part of the history of a document or a set.
    pub fn readable_events(&mut self, of: &Value, key: &'static str) -> Result<Vec<Event>> {
        let permitted = self.permitted_history(of)?.ok_or_else(Errors::denied).within(key)?;
        let Set::Events(of) = &*permitted.set else {
            return Err(Errors::denied());
        };
        let mut events = self.events(of)?;
        if permitted.is_checked {
            events.retain(|event| self.may_read(&event.document));
        }
        Ok(events)
    }

    /// The history of a document or a set, oldest first.
    pub fn events(&mut self, of: &Value) -> Result<Vec<Event>> {
        let mut events = match as_set(of) {
            Some(set) => self.set_events(&set)?,
            None => match of {
                Value::Ref(document) => self.document_events(document)?,
                Value::Document(document) => self.document_events(&document.reference)?,
                other => return Err(wrong_type("Ref or Set", other)),
            },
        };
        if events.len() > EVENTS_MAX {
            return Err(Errors::argument("Event history exceeds the size limit."));
        }
        if let Some(source) = source_of(of) {
            for event in &mut events {
                event.sources = vec![source.clone()];
            }
        }
        events.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(events)
    }

    fn document_events(&mut self, document: &Ref) -> Result<Vec<Event>> {
        if let Target::Native(_) = document.target {
            return self.set_events(&Set::Documents(document.clone()));
        }
        let place = self.resolve(document)?;
        let versions = self.counted_document(&place, |evaluation| evaluation.history(&place));
        let mut events = Vec::new();
        let mut former: Option<Arc<Fields>> = None;
        for version in versions {
            let (action, data) = match (&former, version.fields()) {
                (None, Some(new)) => ("create", shown_data(new)),
                (Some(old), Some(new)) => {
                    let (old, new) = (data_of(old), data_of(new));
                    ("update", Value::Object(Arc::new(difference(&old, &new))))
                }
                (_, None) => ("delete", Value::Null),
            };
            events.push(self.event(&version, action, document, Some(data))?);
            former = version.fields().cloned();
        }
        Ok(events)
    }

    fn event(&mut self, version: &Version, action: &'static str, document: &Ref, data: Option<Value>) -> Result<Event> {
        self.work(1)?;
        self.make(EVENT_BYTES + data.as_ref().map_or(0, |data| data.size().bytes as usize))?;
        Ok(Event {
            key: EventKey {
                ts: version.ts,
                document: document_key(document, &self.schema).to_vec(),
                removal: matches!(action, "delete" | "remove"),
            },
            action,
            document: document.clone(),
            data,
            sources: Vec::new(),
        })
    }

    fn set_events(&mut self, set: &Set) -> Result<Vec<Event>> {
        match set {
            Set::Match { index, terms } => self.match_events(index, terms.as_ref()),
            Set::Singleton(document) => self.presence_events(document),
            Set::Documents(collection) => {
                let mut events = Vec::new();
                for document in self.documents_ever(collection)? {
                    self.work(1)?;
                    events.extend(self.presence_events(&document)?);
                }
                Ok(events)
            }
            Set::Events(of) => self.events(of),
            Set::Filter(..) | Set::Range { .. } | Set::Reverse(_) => Err(no_history()),
            Set::Distinct(of) => self.events(of),
            Set::Union(parts) => self.united_events(parts),
            Set::Intersection(parts) => self.combined_events(parts, |members| !members.contains(&false)),
            Set::Difference(parts) => {
                self.combined_events(parts, |members| members[0] && !members[1..].contains(&true))
            }
            Set::Join(source, with) => self.joined_events(source, with),
        }
    }

    fn match_events(&mut self, reference_of_index: &Ref, terms: Option<&Value>) -> Result<Vec<Event>> {
        let (schema, index) = self.index(reference_of_index)?;
        let terms = terms.map_or(&[][..], Value::one_or_many);
        if terms.len() != index.terms.len() {
            self.count_read_of_index(&schema, &index, &[], 0);
            return Ok(Vec::new());
        }
        let key = indexes::terms_key(terms, &schema);
        let before = self.cost.bytes_read;
        let (now, then) = (
            entries_prefix(schema.database(), &index, &key),
            former_prefix(schema.database(), &index, &key),
        );
        let mut spans = Vec::new();
        for (key, row) in self.view.rows(&now.0, &now.end(), false, EVENTS_MAX) {
            self.cost.bytes_read += (key.len() + row.len()) as u64;
            spans.push((
                key,
                indexes::entry_values(&row, 16, &schema),
                rows::number_at(&row, 0),
                None,
            ));
        }
        for (key, row) in self.view.rows(&then.0, &then.end(), false, EVENTS_MAX) {
            self.cost.bytes_read += (key.len() + row.len()) as u64;
            let removed = rows::number_at(&key, then.0.len());
            spans.push((
                key,
                indexes::entry_values(&row, 8, &schema),
                rows::number_at(&row, 0),
                Some(removed),
            ));
        }
        self.count_read_of_index(&schema, &index, &key, self.cost.bytes_read - before);
        let mut events = Vec::new();
        for (key, values, added, removed) in spans {
            let (collection, id) = rows::document_of_entry(&key);
            let Some(document) = reference(&schema, collection, id) else {
                continue;
            };
            let minimum = self.minimum(&schema, collection);
            if removed.is_some_and(|removed| removed <= minimum) {
                continue;
            }
            let data = (!values.is_empty()).then(|| Value::array(values));
            for (micros, action) in [(Some(added), "add"), (removed, "remove")] {
                let Some(ts) = micros.map(Timestamp).filter(|ts| self.at.is_none_or(|at| *ts <= at)) else {
                    continue;
                };
                let version = Version { ts, contents: None };
                events.push(self.event(&version, action, &document, data.clone())?);
            }
        }
        Ok(events)
    }

    /// The creations and deletions of a document.
    fn presence_events(&mut self, document: &Ref) -> Result<Vec<Event>> {
        let place = self.resolve(document)?;
        let mut present = false;
        let mut events = Vec::new();
        let versions = self.counted_document(&place, |evaluation| evaluation.history(&place));
        for version in versions {
            let is_present = version.contents.is_some();
            if is_present != present {
                let action = if is_present { "add" } else { "remove" };
                events.push(self.event(&version, action, document, None)?);
            }
            present = is_present;
        }
        Ok(events)
    }

    /// The documents that a collection has, or had as far as its history goes.
    fn documents_ever(&mut self, collection: &Ref) -> Result<Vec<Ref>> {
        let schema = self.schema_in(&collection.scope)?;
        let number = match &collection.target {
            Target::Native(native) => *native as u64,
            _ => {
                let definition = schema.collection(&collection.id());
                definition
                    .ok_or_else(|| Errors::invalid_ref("collection", &collection.id()))?
                    .number
            }
        };
        let mut ids = std::collections::BTreeSet::new();
        for kind in [b'D', b'H'] {
            let prefix = rows::Key::of(schema.database(), kind).number(number);
            self.view.scan(&prefix.0, &prefix.end(), false, &mut |key, _| {
                ids.insert(rows::number_at(key, prefix.0.len()));
                match ids.len() < EVENTS_MAX {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
        }
        Ok(ids
            .into_iter()
            .filter_map(|id| reference(&schema, number, id))
            .collect())
    }
}

/// The position of an event in a history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    ts: Timestamp,
    document: Vec<u8>,
    removal: bool,
}

#[derive(Clone, Debug)]
pub struct Event {
    key: EventKey,
    action: &'static str,
    document: Ref,
    data: Option<Value>,
    /// The sets that report it.
    sources: Vec<Value>,
}

impl Event {
    pub fn key(&self) -> &EventKey {
        &self.key
    }

    pub fn ts(&self) -> Timestamp {
        self.key.ts
    }

    pub fn document(&self) -> &Ref {
        &self.document
    }

    pub fn action(&self) -> &'static str {
        self.action
    }

    pub fn is_removal(&self) -> bool {
        self.key.removal
    }

    /// Puts events together that are one, reported by several sets. Equal events are beside each
    /// other.
    pub fn merged(events: Vec<Event>, is_same: impl Fn(&Event, &Event) -> bool) -> Vec<Event> {
        let mut merged: Vec<Event> = Vec::with_capacity(events.len());
        let mut reported: HashSet<String> = HashSet::new();
        for event in events {
            match merged.last_mut() {
                Some(previous) if is_same(previous, &event) => {
                    if reported.is_empty() {
                        reported.extend(previous.sources.iter().map(render::compact));
                    }
                    let sources = event.sources.into_iter();
                    previous
                        .sources
                        .extend(sources.filter(|source| reported.insert(render::compact(source))));
                }
                _ => {
                    reported.clear();
                    merged.push(event);
                }
            }
        }
        merged
    }

    /// Returns the key of the added or removed element: a document with its values.
    pub fn element(&self) -> Vec<u8> {
        let values = self.data.as_ref().map_or_else(String::new, render::compact);
        [&self.key.document, values.as_bytes()].concat()
    }

    /// As a page shows the element.
    pub fn element_value(&self) -> Value {
        match self.data.as_ref().map_or(&[][..], Value::one_or_many) {
            [] => Value::Ref(self.document.clone()),
            [single] => single.clone(),
            several => Value::array(several.to_vec()),
        }
    }

    /// The same event at the same time, as an addition or a removal.
    pub fn turned(&self, comes: bool) -> Event {
        let mut event = self.clone();
        event.key.removal = !comes;
        event.action = if comes { "add" } else { "remove" };
        event
    }

    /// For a document's event without the changes; for a set's the whole.
    fn cursor(&self, version: ApiVersion) -> Value {
        match self.action {
            "add" | "remove" => self.value(version),
            _ => Event {
                data: None,
                ..self.clone()
            }
            .value(version),
        }
    }

    /// As a version of the API shows it.
    pub fn value(&self, version: ApiVersion) -> Value {
        let document = match version {
            ApiVersion::V2_0 => "resource",
            ApiVersion::V2_1 => "instance",
            _ => "document",
        };
        let is_of_set = matches!(self.action, "add" | "remove");
        let data = match (version, is_of_set) {
            (ApiVersion::V2_0, true) => self.data.clone().map(|data| ("values".into(), data)),
            (ApiVersion::V2_0, false) => None,
            _ => self.data.clone().map(|data| ("data".into(), data)),
        };
        let head = [
            ("ts".into(), self.key.ts.value()),
            ("action".into(), Value::string(action_in(self.action, version))),
            (document.into(), Value::Ref(self.document.clone())),
        ];
        Value::object(head.into_iter().chain(data).collect())
    }
}

/// The set that reports the events of another: a set itself, or a history's own set. A composed set
/// leaves that to its parts.
fn source_of(set: &Value) -> Option<Value> {
    let is_whole = |set: &Set| matches!(set, Set::Match { .. } | Set::Documents(_) | Set::Singleton(_));
    let set = as_set(set)?;
    let tells = match &*set {
        Set::Events(of) => as_set(of).is_none_or(|of| is_whole(&of)),
        set => is_whole(set),
    };
    tells.then_some(Value::Set(set))
}

/// Returns an inserted version of the history, as a version of the API shows it.
pub fn inserted(version: ApiVersion, ts: Timestamp, action: &'static str, document: Ref, data: Value) -> Value {
    let key = EventKey {
        ts,
        document: Vec::new(),
        removal: false,
    };
    let event = Event {
        key,
        action,
        document,
        data: Some(data),
        sources: Vec::new(),
    };
    event.value(version)
}

/// The oldest version has only create and delete.
fn action_in(action: &'static str, version: ApiVersion) -> &'static str {
    match (version, action) {
        (ApiVersion::V2_0, "delete" | "remove") => "delete",
        (ApiVersion::V2_0, _) => "create",
        (_, action) => action,
    }
}

fn data_of(fields: &Fields) -> Fields {
    let data = fields.get("data").and_then(Value::as_object);
    data.map_or_else(Fields::default, |data| Fields::new(data.entries.clone()))
}

fn shown_data(fields: &Fields) -> Value {
    fields.get("data").cloned().unwrap_or(Value::Null)
}

fn page(before: Option<Value>, after: Option<Value>, data: Items, origin: Origin) -> Value {
    Value::Page(Arc::new(Page {
        before,
        after,
        data: Arc::new(data),
        origin: Arc::new(origin),
    }))
}

fn page_of_elements(before: Option<Value>, after: Option<Value>, elements: Vec<Element>, shape: &Shape) -> Value {
    let (mut members, mut documents) = (Vec::with_capacity(elements.len()), Vec::with_capacity(elements.len()));
    let values = elements.first().map_or(0, |element| element.values.len());
    for element in elements {
        let (value, document) = element.into_parts();
        members.push(value);
        documents.push(document);
    }
    let members = Arc::new(Items::new(members));
    Value::Page(Arc::new(Page {
        before,
        after,
        data: members.clone(),
        origin: Arc::new(Origin::Elements {
            shown: members,
            documents,
            values,
            repeats_ref: shape.repeats_ref,
        }),
    }))
}

/// A cursor is returned as an array.
fn echo(cursor: &Value) -> Value {
    match cursor {
        Value::Array(_) => cursor.clone(),
        scalar => Value::array(vec![scalar.clone()]),
    }
}

fn element_cursor(element: &Element, shape: &Shape) -> Value {
    let document = Value::Ref(element.reference.clone());
    let mut cursor = element.values.clone();
    if shape.repeats_ref {
        cursor.push(document.clone());
    }
    cursor.push(document);
    Value::array(cursor)
}

/// The sets that elements are from: the parts of composed sets, including reversed ones.
fn collect_leaves(set: &Arc<Set>, leaves: &mut Vec<Arc<Set>>) {
    let mut each = |value: &Value| {
        if let Some(set) = as_set(value) {
            collect_leaves(&set, leaves);
        }
    };
    match &**set {
        Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => parts.iter().for_each(each),
        Set::Distinct(of) | Set::Filter(of, _) | Set::Range { of, .. } => each(of),
        Set::Match { .. } | Set::Documents(_) | Set::Singleton(_) | Set::Reverse(_) => leaves.push(set.clone()),
        Set::Join(..) | Set::Events(_) => {}
    }
}

/// The smaller or the larger of two values.
pub fn extreme(first: Value, other: Value, larger: bool) -> Value {
    let order = order::compare(&first, &other);
    match if larger { order.is_gt() } else { order.is_lt() } {
        true => first,
        false => other,
    }
}

/// Parses the cursor of a page as an object: with `after` or `before`. Null means none.
pub fn cursor_of(cursor: &Value) -> Result<(Cursor, &'static [&'static str])> {
    let single = match cursor {
        Value::Null => return Ok((Cursor::Start, &[])),
        Value::Object(fields) if fields.entries.len() == 1 => fields.entries.first(),
        _ => None,
    };
    match single.map(|(key, value)| (&**key, value.clone())) {
        Some(("after", value)) => Ok((Cursor::After(value), &["after", "cursor"])),
        Some(("before", value)) => Ok((Cursor::Before(value), &["before", "cursor"])),
        _ => Err(Errors::argument(
            "Invalid cursor object. Expected an object with either 'before' or 'after' key in it.",
        ))
        .within("cursor"),
    }
}
