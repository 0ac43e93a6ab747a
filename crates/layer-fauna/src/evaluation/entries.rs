//! Entries of indexes, as a query writes them: with each version of a document, with a rewritten
//! history, and for documents that were there before the index.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::Stamp;

use crate::evaluation::Evaluation;
use crate::language::casefold::casefold;
use crate::language::codec::{self, Encoder};
use crate::language::error::{Code, Errors, Result};
use crate::language::expression::Effect;
use crate::language::value::{Contents, Document, Fields, Native, Timestamp, Value};
use crate::storage::documents::{Place, Version, expiry_micros, reference};
use crate::storage::indexes::{
    Entry, entries_prefix, entry, entry_values, extract, flatten, former_prefix, is_expired, same_all,
};
use crate::storage::rows::{self, Key};
use crate::storage::schema::{Component, Extract, Index, Source};

/// Longer components are dropped.
const COMPONENT_BYTES_MAX: u64 = 32_767;
/// Entries of one index that one document may have.
const ENTRIES_MAX: usize = 100_000;
/// Most outdated entries that one removal drops.
const DROPPED_MAX: usize = 8;

impl Evaluation<'_> {
    /// The entries of a version.
    pub fn entries(&mut self, index: &Index, place: &Place, ts: Timestamp, contents: &Contents) -> Result<Vec<Entry>> {
        let Some(source) = index.source_of(place.collection) else {
            return Ok(Vec::new());
        };
        let document = |ts| {
            Value::Document(Arc::new(Document {
                reference: place.reference.clone(),
                ts,
                contents: contents.clone(),
                is_new: false,
            }))
        };
        // The place of an entry cannot wait for the commit: as a term the time of a version is
        // null, now and later.
        let mut terms = self.combinations(&index.terms, source, &document(Timestamp::PENDING));
        let timeless = terms.iter_mut().flatten();
        timeless
            .filter(|term| matches!(term, Value::TransactionTime))
            .for_each(|term| *term = Value::Null);
        let values = self.combinations(&index.values, source, &document(ts));
        if terms.len().saturating_mul(values.len()) > ENTRIES_MAX {
            return Err(Errors::new(
                Code::BadRequest,
                "Too many index entries for one document.",
            ));
        }
        if let ([terms], [values]) = (terms.as_slice(), values.as_slice()) {
            return Ok(vec![entry(index, &place.schema, terms.clone(), values.clone())]);
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = HashSet::new();
        for terms in &terms {
            for values in &values {
                let entry = entry(index, &place.schema, terms.clone(), values.clone());
                let bytes = entry.terms_key.len() + entry.values_key.len();
                self.make(bytes)?;
                // The order of texts is what costs most of an entry.
                self.step(1 + bytes / 16)?;
                if seen.insert((entry.terms_key.clone(), entry.values_key.clone())) {
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }

    /// Every combination of the components' values. Without components: one empty combination.
    fn combinations(&mut self, components: &[Component], source: &Source, document: &Value) -> Vec<Vec<Value>> {
        let mut combinations = vec![Vec::with_capacity(components.len())];
        for component in components {
            let values = self.component(component, source, document);
            if let [value] = values.as_slice() {
                combinations
                    .iter_mut()
                    .for_each(|combination| combination.push(value.clone()));
                continue;
            }
            let longer = combinations.iter().flat_map(|combination: &Vec<Value>| {
                values.iter().map(move |value| {
                    let mut combination = combination.clone();
                    combination.push(value.clone());
                    combination
                })
            });
            combinations = longer.take(ENTRIES_MAX + 1).collect();
        }
        let is_empty = |combination: &Vec<Value>| !combination.is_empty() && combination.iter().all(Value::is_null);
        combinations.retain(|combination| !is_empty(combination));
        combinations
    }

    /// Returns the values of a component: at least one, which may be null.
    fn component(&mut self, component: &Component, source: &Source, document: &Value) -> Vec<Value> {
        let mut values = Vec::new();
        match &component.extract {
            Extract::Field(path) => extract(document, path, &mut values),
            Extract::Binding(name) => {
                let bound = self.binding(name, source, document);
                flatten(&bound, &mut values);
            }
        }
        if component.casefold {
            for value in &mut values {
                if let Value::String(text) = value {
                    *value = Value::string(casefold(text));
                }
            }
        }
        values.retain(|value| value.size().bytes <= COMPONENT_BYTES_MAX);
        if values.is_empty() {
            values.push(Value::Null);
        }
        values
    }

    /// A binding that fails is null.
    fn binding(&mut self, name: &str, source: &Source, document: &Value) -> Value {
        let binding = source.bindings.iter().find(|(key, _)| **key == *name);
        let Some((_, closure)) = binding else {
            return Value::Null;
        };
        let allowed = std::mem::replace(&mut self.allowed, Effect::Pure);
        let allowed_in = std::mem::replace(&mut self.allowed_in, "index bindings");
        let value = self.apply(closure, document.clone());
        (self.allowed, self.allowed_in) = (allowed, allowed_in);
        value.unwrap_or(Value::Null)
    }

    /// Writes what a new version changes in the indexes over its collection, and returns the number
    /// of entries added and removed.
    pub fn write_index_changes(
        &mut self,
        place: &Place,
        old: Option<&Version>,
        new: Option<&Arc<Fields>>,
    ) -> Result<usize> {
        let schema = place.schema.clone();
        let indexes = schema.indexes_over(place.collection);
        if indexes.is_empty() {
            return Ok(0);
        }
        let mut changed = 0;
        let new = new.map(|fields| Contents::from(fields.clone()));
        for index in indexes {
            let before = match old {
                Some(Version {
                    ts,
                    contents: Some(contents),
                }) => self.entries(index, place, *ts, contents)?,
                _ => Vec::new(),
            };
            let after = match &new {
                Some(contents) => self.entries(index, place, Timestamp::PENDING, contents)?,
                None => Vec::new(),
            };
            let expiry = new.as_ref().map_or(0, |contents| {
                expiry_micros(place, Timestamp::PENDING, contents.ttl(), self.now_micros)
            });
            changed += self.change_entries(index, place, &before, &after, expiry)?;
            let former = old.map_or(0, |old| self.expiry_of(place, old));
            if expiry != former {
                self.change_expiry(index, place, &after, expiry);
            }
        }
        Ok(changed)
    }

    /// The expiry of a version, in microseconds; 0: never.
    fn expiry_of(&self, place: &Place, version: &Version) -> u64 {
        let contents = version.contents.as_ref();
        contents.map_or(0, |contents| {
            expiry_micros(place, version.ts, contents.ttl(), self.now_micros)
        })
    }

    fn change_entries(
        &mut self,
        index: &Index,
        place: &Place,
        before: &[Entry],
        after: &[Entry],
        expiry: u64,
    ) -> Result<usize> {
        let mut changed = 0;
        let (before_keys, after_keys) = (by_key(before), by_key(after));
        for entry in before {
            if !has(&after_keys, entry) {
                self.remove_entry(index, place, entry);
                changed += 1;
            }
        }
        for entry in after {
            if !has(&before_keys, entry) {
                self.add_entry(index, place, entry, Timestamp::PENDING, expiry)?;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Adds the entries of a document that existed before the index.
    pub fn index_document(&mut self, index: &Index, place: &Place) -> Result<()> {
        let Some(Version {
            ts,
            contents: Some(contents),
        }) = self.current(place)
        else {
            return Ok(());
        };
        let expiry = expiry_micros(place, ts, contents.ttl(), self.now_micros);
        for entry in self.entries(index, place, ts, &contents)? {
            self.add_entry(index, place, &entry, ts, expiry)?;
        }
        Ok(())
    }

    /// Returns the documents that an index covers, after the finished documents, by collection and
    /// id.
    pub fn covered_documents(&mut self, index: &Index, done: &[u8], limit: usize) -> Vec<Place> {
        let schema = self.schema.clone();
        let natives = Native::ALL.into_iter().map(|native| native as u64);
        let users = schema.collections().map(|collection| collection.number);
        let mut collections: Vec<u64> = natives.chain(users).filter(|number| index.covers(*number)).collect();
        collections.sort_unstable();
        let mut places = Vec::new();
        for collection in collections {
            let all = Key::of(schema.database(), b'D');
            let prefix = all.clone().number(collection);
            let after = match done.is_empty() {
                true => Vec::new(),
                false => all.bytes(done).byte(0).0,
            };
            let start = prefix.0.clone().max(after);
            self.view.scan(&start, &prefix.end(), false, &mut |key, _| {
                if places.len() == limit {
                    return ControlFlow::Break(());
                }
                let id = rows::number_at(key, prefix.0.len());
                if let Some(reference) = reference(&schema, collection, id) {
                    places.push(Place {
                        schema: schema.clone(),
                        collection,
                        id,
                        reference,
                    });
                }
                ControlFlow::Continue(())
            });
        }
        places
    }

    /// Entries that stay end when their document does.
    fn change_expiry(&mut self, index: &Index, place: &Place, entries: &[Entry], expiry: u64) {
        for entry in entries {
            let prefix = entries_prefix(place.database(), index, &entry.terms_key);
            let key = prefix.bytes(&entry.values_key).bytes(&place.in_entries());
            if let Some(row) = self.view.get(&key.0)
                && rows::number_at(&row, 0) != Timestamp::PENDING.0
                && row.len() >= 16
            {
                let mut row = row.to_vec();
                row[8..16].copy_from_slice(&expiry.to_be_bytes());
                self.view.writing().set(&key.0, &row);
            }
        }
    }

    pub fn add_entry(&mut self, index: &Index, place: &Place, entry: &Entry, ts: Timestamp, expiry: u64) -> Result<()> {
        let prefix = entries_prefix(place.database(), index, &entry.terms_key);
        let prefix_bytes = prefix.0.len();
        let same = prefix.bytes(&entry.values_key);
        if same.0.len() > 60_000 {
            return Err(Errors::new(Code::BadRequest, "Index entry exceeds the size limit."));
        }
        if index.unique {
            self.check_unique(&same, &same.clone().bytes(&place.in_entries()))?;
        }
        let key = same.bytes(&place.in_entries());
        if ts == Timestamp::PENDING && self.restore_entry(index, place, entry, &key, expiry) {
            return Ok(());
        }
        let mut row = Encoder {
            bytes: [ts.0.to_be_bytes(), expiry.to_be_bytes()].concat(),
            stamps: rows::stamp_if_pending(ts, 0),
        };
        row.array(&entry.values, place.schema.as_ref());
        self.cost.bytes_written += (key.0.len() + row.bytes.len()) as u64;
        self.check_written()?;
        let stamps: Vec<Stamp> = entry
            .stamps
            .iter()
            .map(|stamp| Stamp {
                offset: stamp.offset + prefix_bytes,
                ..*stamp
            })
            .collect();
        self.view.writing().set_stamped(&key.0, &stamps, row.bytes, row.stamps);
        Ok(())
    }

    /// An entry that this very transaction has taken away has never left.
    fn restore_entry(&mut self, index: &Index, place: &Place, entry: &Entry, key: &Key, expiry: u64) -> bool {
        let former = former_prefix(place.database(), index, &entry.terms_key).number(Timestamp::PENDING.0);
        let former = former.bytes(&entry.values_key).bytes(&place.in_entries());
        let Some(row) = self.view.get(&former.0) else {
            return false;
        };
        if !same_all(&entry_values(&row, 8, &place.schema), &entry.values) {
            return false;
        }
        let row = [&row[..8], &expiry.to_be_bytes(), row.get(8..).unwrap_or_default()].concat();
        let transaction = self.view.writing();
        transaction.clear(&former.0);
        transaction.set(&key.0, &row);
        true
    }

    fn check_unique(&mut self, same: &Key, own: &Key) -> Result<()> {
        let rows = self.view.rows(&same.0, &same.end(), false, 2);
        let duplicates = rows.iter().filter(|(key, _)| *key != own.0);
        let now = self.now_micros;
        let alive = duplicates.filter(|(_, row)| !is_expired(row, now)).count();
        match alive {
            0 => Ok(()),
            _ => Err(Errors::new(Code::InstanceNotUnique, "document is not unique.")),
        }
    }

    fn remove_entry(&mut self, index: &Index, place: &Place, entry: &Entry) {
        let prefix = entries_prefix(place.database(), index, &entry.terms_key);
        let key = prefix.bytes(&entry.values_key).bytes(&place.in_entries());
        let Some(row) = self.view.get(&key.0) else {
            return;
        };
        let transaction = self.view.writing();
        transaction.clear(&key.0);
        let added = rows::number_at(&row, 0);
        if added == Timestamp::PENDING.0 {
            return;
        }
        let former = former_prefix(place.database(), index, &entry.terms_key);
        let stamp = codec::stamp(former.0.len());
        let former_key = former.clone().number(Timestamp::PENDING.0);
        let former_key = former_key.bytes(&entry.values_key).bytes(&place.in_entries());
        let value = [&row[..8], row.get(16..).unwrap_or_default()].concat();
        self.cost.bytes_written += (former_key.0.len() + value.len()) as u64;
        transaction.set_stamped(&former_key.0, &[stamp], value, Vec::new());
        self.drop_outdated_entries(place, &former);
    }

    fn drop_outdated_entries(&mut self, place: &Place, former: &Key) {
        let cutoff = self
            .now_micros
            .saturating_sub(self.history_micros(&place.schema, place.collection));
        let end = former.clone().number(cutoff).0;
        let mut old: Vec<Vec<u8>> = Vec::new();
        self.view.snapshot_scan(&former.0, &end, false, &mut |key, _| {
            old.push(key.to_vec());
            match old.len() < DROPPED_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        for key in old {
            self.view.writing().clear(&key);
        }
    }

    /// Brings the entries of a document in line with a rewritten chain of versions.
    pub fn rewrite_entries(&mut self, place: &Place, before: &[Version], after: &[Version]) -> Result<()> {
        let schema = place.schema.clone();
        let expiry = after.last().map_or(0, |last| self.expiry_of(place, last));
        for index in schema.indexes_over(place.collection) {
            for span in self.spans(index, place, before)? {
                self.clear_span(index, place, &span);
            }
            for span in self.spans(index, place, after)? {
                self.put_span(index, place, &span, expiry)?;
            }
        }
        Ok(())
    }

    /// The lifetimes of the entries of a chain of versions.
    fn spans(&mut self, index: &Index, place: &Place, versions: &[Version]) -> Result<Vec<Span>> {
        let mut open: Vec<Span> = Vec::new();
        let mut spans = Vec::new();
        for version in versions {
            let entries = match &version.contents {
                Some(contents) => self.entries(index, place, version.ts, contents)?,
                None => Vec::new(),
            };
            let version_keys = by_key(&entries);
            let stays = |span: &Span| has(&version_keys, &span.entry);
            let (retained, ended): (Vec<Span>, Vec<Span>) = open.into_iter().partition(stays);
            drop(version_keys);
            spans.extend(ended.into_iter().map(|span| Span {
                removed: Some(version.ts),
                ..span
            }));
            let retained_keys = by_key(retained.iter().map(|span| &span.entry));
            let is_new = entries.iter().map(|entry| !has(&retained_keys, entry));
            let is_new: Vec<bool> = is_new.collect();
            drop(retained_keys);
            open = retained;
            let new = entries.into_iter().zip(is_new).filter(|(_, is_new)| *is_new);
            open.extend(new.map(|(entry, _)| Span {
                entry,
                added: version.ts,
                removed: None,
            }));
        }
        spans.extend(open);
        Ok(spans)
    }

    fn span_key(&self, index: &Index, place: &Place, span: &Span) -> Key {
        let entry = &span.entry;
        let prefix = match span.removed {
            None => entries_prefix(place.database(), index, &entry.terms_key),
            Some(removed) => former_prefix(place.database(), index, &entry.terms_key).number(removed.0),
        };
        prefix.bytes(&entry.values_key).bytes(&place.in_entries())
    }

    fn clear_span(&mut self, index: &Index, place: &Place, span: &Span) {
        let key = self.span_key(index, place, span);
        self.view.writing().clear(&key.0);
    }

    fn put_span(&mut self, index: &Index, place: &Place, span: &Span, expiry: u64) -> Result<()> {
        if span.removed.is_none() {
            return self.add_entry(index, place, &span.entry, span.added, expiry);
        }
        let key = self.span_key(index, place, span);
        let mut row = Encoder {
            bytes: span.added.0.to_be_bytes().to_vec(),
            ..Encoder::default()
        };
        row.array(&span.entry.values, place.schema.as_ref());
        self.view.writing().set(&key.0, &row.bytes);
        Ok(())
    }
}

/// Entries by their place; each has one.
type ByKey<'e> = HashMap<(&'e [u8], &'e [u8]), &'e Entry>;

fn by_key<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> ByKey<'e> {
    let entries = entries.into_iter();
    entries
        .map(|entry| ((entry.terms_key.as_slice(), entry.values_key.as_slice()), entry))
        .collect()
}

/// The entries have an entry that may replace this entry.
fn has(entries: &ByKey<'_>, entry: &Entry) -> bool {
    let other = entries.get(&(entry.terms_key.as_slice(), entry.values_key.as_slice()));
    other.is_some_and(|other| entry.is(other))
}

/// An entry, when it was added, and when it was removed.
struct Span {
    entry: Entry,
    added: Timestamp,
    removed: Option<Timestamp>,
}
