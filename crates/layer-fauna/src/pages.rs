//! Pages: a stretch of a set, or of its history, and the cursors to the stretches beside it.
//!
//! `after` names the first element of a page, `before` the first one behind it. The cursor that was given always comes back on
//! its own side, whether there is anything there or not.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::documents::{Version, difference};
use crate::error::{Errors, Result, Within};
use crate::evaluation::{Evaluation, wrong_type};
use crate::indexes::{self, entries_prefix, former_prefix};
use crate::order;
use crate::permitted::Readable;
use crate::ranges::{Range, document_key, edge_of};
use crate::render;
use crate::rows;
use crate::sets::{Element, Shape, as_set, reference};
use crate::value::{Fields, Items, Page, Ref, Set, Target, Timestamp, Value};

const SIZE_DEFAULT: i64 = 64;
const SIZE_MAX: i64 = 100_000;
/// Events that one history may have.
const EVENTS_MAX: usize = 1_000_000;

/// What a page is asked for.
pub struct Request {
    pub cursor: Cursor,
    pub size: usize,
    pub sources: bool,
}

pub enum Cursor {
    Start,
    After(Value),
    Before(Value),
}

impl Request {
    pub fn size(size: Option<i64>) -> usize {
        size.unwrap_or(SIZE_DEFAULT).clamp(0, SIZE_MAX) as usize
    }
}

impl Evaluation<'_> {
    /// A page of a set, of a built-in collection, or of the one document that a ref names.
    pub fn page(&mut self, of: &Value, request: Request) -> Result<Value> {
        let set = match (as_set(of), of) {
            (Some(set), _) => set,
            (None, Value::Ref(document)) => Arc::new(Set::Singleton(document.clone())),
            (None, other) => return Err(wrong_type("Ref or Set", other)),
        };
        match &*set {
            Set::Events(of) => self.page_of_events(of, request),
            _ => self.page_of_set(&set, request),
        }
    }

    fn page_of_set(&mut self, set: &Arc<Set>, request: Request) -> Result<Value> {
        let shape = self.shape(set)?;
        let readable = self.readable(set)?;
        let mut range = Range::default();
        // Reading backwards, what comes after a cursor has smaller keys.
        let (towards_start, cursor) = match &request.cursor {
            Cursor::Start => (false, None),
            Cursor::After(cursor) => (false, Some(cursor)),
            Cursor::Before(cursor) => (true, Some(cursor)),
        };
        if let Some(cursor) = cursor.filter(|cursor| !cursor.is_null()) {
            let edge = edge_of(cursor.one_or_many(), &shape, &self.schema);
            match (towards_start, shape.backwards) {
                (false, false) => range.start = edge,
                (false, true) => range.end = Some(edge.behind()),
                (true, false) => range.end = Some(edge),
                (true, true) => range.start = edge.behind(),
            }
        }
        let backwards = shape.backwards != towards_start;
        let mut elements = self.elements(&readable, &range, backwards, request.size.saturating_add(1))?;
        self.step(elements.len())?;
        let beyond = (elements.len() > request.size).then(|| elements.pop()).flatten();
        let (mut before, mut after) = (None, None);
        let given = cursor.map(echo);
        if towards_start {
            // The elements came from the cursor downwards.
            elements.reverse();
            after = given.clone();
            before = match (&beyond, elements.first(), request.size) {
                (_, _, 0) => given,
                (Some(_), Some(first), _) => Some(element_cursor(first, &shape)),
                _ => None,
            };
        } else {
            before = given.clone().or(before);
            after = match (&beyond, request.size) {
                (_, 0) => given,
                (Some(beyond), _) => Some(element_cursor(beyond, &shape)),
                (None, _) => after,
            };
        }
        let data = match request.sources {
            false => elements.iter().map(Element::value).collect(),
            true => self.with_sources(&readable, &elements)?,
        };
        Ok(page(before, after, data))
    }

    /// Each element with the sets among the leaves that it comes from.
    fn with_sources(&mut self, of: &Readable, elements: &[Element]) -> Result<Vec<Value>> {
        let mut leaves = Vec::new();
        collect_leaves(&of.set, &mut leaves);
        let mut data = Vec::new();
        for element in elements {
            let mut sources = Vec::new();
            for leaf in &leaves {
                let range = Range::prefix(element.group());
                if !self.unchecked(leaf, &range, false, 1)?.is_empty() {
                    sources.push(Value::Set(leaf.clone()));
                }
            }
            data.push(Value::record([
                ("value", element.value()),
                ("sources", Value::array(sources)),
            ]));
        }
        Ok(data)
    }

    pub fn page_of_events(&mut self, of: &Value, request: Request) -> Result<Value> {
        let mut events = self.readable_events(of)?;
        let position = |cursor: &Value, events: &[Event]| -> Result<usize> {
            let key = self.event_key(cursor)?;
            Ok(events.partition_point(|event| event.key < key))
        };
        let total = events.len();
        let (start, end) = match &request.cursor {
            Cursor::Start => (0, request.size.min(total)),
            Cursor::After(cursor) => {
                let start = position(cursor, &events)?;
                (start, start.saturating_add(request.size).min(total))
            }
            Cursor::Before(Value::Null) => (total.saturating_sub(request.size), total),
            Cursor::Before(cursor) => {
                let end = position(cursor, &events)?;
                (end.saturating_sub(request.size), end)
            }
        };
        let event_at = |index: usize| events.get(index).map(|event| event.cursor());
        let (before, after) = match &request.cursor {
            Cursor::Start => (None, (request.size > 0).then(|| event_at(end)).flatten()),
            Cursor::After(cursor) => (Some(cursor.clone()), event_at(end)),
            Cursor::Before(cursor) => ((start > 0).then(|| event_at(start)).flatten(), Some(cursor.clone())),
        };
        let with_source = |event: Event| match request.sources {
            false => event.value(),
            true => Value::record([("value", event.value()), ("sources", Value::array(vec![of.clone()]))]),
        };
        let data = events.drain(start..end).map(with_source).collect();
        Ok(page(before, after, data))
    }

    fn event_key(&self, cursor: &Value) -> Result<EventKey> {
        let whole = |ts: Timestamp| EventKey {
            ts,
            document: Vec::new(),
            removal: false,
        };
        match cursor {
            Value::Object(fields) => {
                let ts = fields
                    .get("ts")
                    .ok_or_else(|| Errors::argument("Event expected, Object provided."))?;
                let document = match fields.get("document").or(fields.get("resource")) {
                    Some(Value::Ref(document)) => document_key(document, &self.schema).to_vec(),
                    _ => Vec::new(),
                };
                let removal = fields
                    .string("action")
                    .is_some_and(|action| matches!(&**action, "delete" | "remove"));
                Ok(EventKey {
                    ts: self.moment(ts)?,
                    document,
                    removal,
                })
            }
            Value::Array(items) if items.values.len() == 1 => self.event_key(&items.values[0]),
            Value::Null => Ok(whole(Timestamp(0))),
            other => self.moment(other).map(whole),
        }
    }

    /// What of the history of a document or a set may be read.
    fn readable_events(&mut self, of: &Value) -> Result<Vec<Event>> {
        let permitted = self.permitted_history(of)?.ok_or_else(Errors::denied)?;
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
        events.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(events)
    }

    fn document_events(&mut self, document: &Ref) -> Result<Vec<Event>> {
        if let Target::Native(_) = document.target {
            return self.set_events(&Set::Documents(document.clone()));
        }
        let place = self.resolve(document)?;
        let versions = self.history(&place);
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
            events.push(self.event(&version, action, document, Some(data)));
            former = version.fields().cloned();
        }
        Ok(events)
    }

    fn event(&self, version: &Version, action: &'static str, document: &Ref, data: Option<Value>) -> Event {
        Event {
            key: EventKey {
                ts: version.ts,
                document: document_key(document, &self.schema).to_vec(),
                removal: matches!(action, "delete" | "remove"),
            },
            action,
            document: document.clone(),
            data,
        }
    }

    fn set_events(&mut self, set: &Set) -> Result<Vec<Event>> {
        match set {
            Set::Match { index, terms } => self.match_events(index, terms.as_ref()),
            Set::Singleton(document) => self.presence_events(document),
            Set::Documents(collection) => {
                let mut events = Vec::new();
                for document in self.documents_ever(collection)? {
                    events.extend(self.presence_events(&document)?);
                }
                Ok(events)
            }
            Set::Events(_) | Set::Filter(..) | Set::Range { .. } => {
                Err(Errors::argument("Set does not support events history."))
            }
            Set::Reverse(of) | Set::Distinct(of) => {
                let of = as_set(of).ok_or_else(|| wrong_type("Set", of))?;
                self.set_events(&of)
            }
            Set::Union(parts) => self.combined_events(parts, |members| members.contains(&true)),
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
            return Ok(Vec::new());
        }
        let key = indexes::terms_key(terms, &schema);
        let (now, then) = (
            entries_prefix(schema.database(), &index, &key),
            former_prefix(schema.database(), &index, &key),
        );
        let mut spans = Vec::new();
        for (key, row) in self.view.rows(&now.0, &now.end(), false, EVENTS_MAX) {
            spans.push((
                key,
                indexes::entry_values(&row, 16, &schema),
                rows::number_at(&row, 0),
                None,
            ));
        }
        for (key, row) in self.view.rows(&then.0, &then.end(), false, EVENTS_MAX) {
            let removed = rows::number_at(&key, then.0.len());
            spans.push((
                key,
                indexes::entry_values(&row, 8, &schema),
                rows::number_at(&row, 0),
                Some(removed),
            ));
        }
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
            let mut push = |micros: u64, action| {
                let version = Version {
                    ts: Timestamp(micros),
                    contents: None,
                };
                if self.at.is_none_or(|at| version.ts <= at) {
                    events.push(self.event(&version, action, &document, data.clone()));
                }
            };
            push(added, "add");
            if let Some(removed) = removed {
                push(removed, "remove");
            }
        }
        Ok(events)
    }

    /// When a document came into being and when it went.
    fn presence_events(&mut self, document: &Ref) -> Result<Vec<Event>> {
        let place = self.resolve(document)?;
        let mut present = false;
        let mut events = Vec::new();
        for version in self.history(&place) {
            let is_present = version.contents.is_some();
            if is_present != present {
                let action = if is_present { "add" } else { "remove" };
                events.push(self.event(&version, action, document, None));
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
                let found = schema.collection(&collection.id());
                found
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

/// Where an event stands in a history.
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
}

impl Event {
    pub fn key(&self) -> &EventKey {
        &self.key
    }

    pub fn ts(&self) -> Timestamp {
        self.key.ts
    }

    pub fn is_removal(&self) -> bool {
        self.key.removal
    }

    /// What came or left: a document with its values.
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

    /// The same of the same time, as coming or as leaving.
    pub fn turned(&self, comes: bool) -> Event {
        let mut event = self.clone();
        event.key.removal = !comes;
        event.action = if comes { "add" } else { "remove" };
        event
    }

    fn cursor(&self) -> Value {
        Value::record([
            ("ts", self.key.ts.value()),
            ("action", Value::string(self.action)),
            ("document", Value::Ref(self.document.clone())),
        ])
    }

    fn value(&self) -> Value {
        let head = [
            ("ts".into(), self.key.ts.value()),
            ("action".into(), Value::string(self.action)),
            ("document".into(), Value::Ref(self.document.clone())),
        ];
        let data = self.data.clone().map(|data| ("data".into(), data));
        Value::object(head.into_iter().chain(data).collect())
    }
}

fn data_of(fields: &Fields) -> Fields {
    let data = fields.get("data").and_then(Value::as_object);
    data.map_or_else(Fields::default, |data| Fields::new(data.entries.clone()))
}

fn shown_data(fields: &Fields) -> Value {
    fields.get("data").cloned().unwrap_or(Value::Null)
}

pub fn page(before: Option<Value>, after: Option<Value>, data: Vec<Value>) -> Value {
    Value::Page(Arc::new(Page {
        before,
        after,
        data: Arc::new(Items::new(data)),
    }))
}

/// A cursor comes back as an array.
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

fn collect_leaves(set: &Set, leaves: &mut Vec<Arc<Set>>) {
    let mut each = |value: &Value| match as_set(value) {
        Some(set) if matches!(*set, Set::Match { .. } | Set::Documents(_) | Set::Singleton(_)) => leaves.push(set),
        Some(set) => collect_leaves(&set, leaves),
        None => {}
    };
    match set {
        Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => parts.iter().for_each(each),
        Set::Distinct(of) | Set::Reverse(of) | Set::Filter(of, _) | Set::Range { of, .. } => each(of),
        Set::Match { index, terms } => leaves.push(Arc::new(Set::Match {
            index: index.clone(),
            terms: terms.clone(),
        })),
        Set::Documents(of) => leaves.push(Arc::new(Set::Documents(of.clone()))),
        Set::Singleton(of) => leaves.push(Arc::new(Set::Singleton(of.clone()))),
        Set::Join(..) | Set::Events(_) => {}
    }
}

/// The smaller or the larger of two values.
pub fn extreme(one: Value, other: Value, larger: bool) -> Value {
    match order::compare(&one, &other).is_ge() == larger {
        true => one,
        false => other,
    }
}

impl Evaluation<'_> {
    /// The cursor that a page is asked with: `after`, `before`, or an object with one of them.
    pub fn cursor(&self, after: Option<&Value>, before: Option<&Value>, cursor: Option<&Value>) -> Result<Cursor> {
        if let Some(after) = after {
            return Ok(Cursor::After(after.clone()));
        }
        if let Some(before) = before {
            return Ok(Cursor::Before(before.clone()));
        }
        match cursor {
            None | Some(Value::Null) => Ok(Cursor::Start),
            Some(Value::Object(fields)) => match (fields.get("after"), fields.get("before")) {
                (Some(after), _) => Ok(Cursor::After(after.clone())),
                (None, Some(before)) => Ok(Cursor::Before(before.clone())),
                (None, None) => Err(wrong_type("Cursor", &Value::Object(fields.clone()))).within("cursor"),
            },
            Some(other) => Err(wrong_type("Cursor", other)).within("cursor"),
        }
    }
}
