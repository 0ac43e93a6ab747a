//! Sets: asked for their elements within a range of keys, in either direction, a few at a time.
//!
//! Every element has a key: its values in index order, then its document. Sets of one shape share one order of keys, so a
//! union is a merge of its parts, an intersection or a difference asks the other parts for single keys, and a cursor is a key
//! or the beginning of one. `reverse` turns the direction of reading, not the keys.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::codec;
use crate::documents::{Place, native_of};
use crate::error::{Code, Errors, Result, Within};
use crate::evaluation::{Evaluation, wrong_type};
use crate::indexes::{self, entries_prefix, former_prefix};
use crate::order::KeyWriter;
use crate::rows::{self, Key};
use crate::schema::{Index, Schema};
use crate::value::{Closure, Native, Ref, Set, Target, Timestamp, Value};

/// Elements that derived sets ask of their parts at once.
const CHUNK: usize = 256;
/// Elements of the source of a join.
const JOIN_SOURCE_MAX: usize = 100_000;

#[derive(Clone, Debug)]
pub struct Element {
    pub key: Vec<u8>,
    pub values: Vec<Value>,
    pub reference: Ref,
    /// When it came into the set.
    pub added: Timestamp,
}

impl Element {
    /// As a page shows it: one value stands for itself, no values for the document.
    pub fn value(&self) -> Value {
        match self.values.as_slice() {
            [] => Value::Ref(self.reference.clone()),
            [single] => single.clone(),
            several => Value::array(several.to_vec()),
        }
    }
}

/// What sets must share to be combined.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// For each value, whether it is in reverse order.
    pub reversals: Vec<bool>,
    /// Elements are listed from the last to the first.
    pub backwards: bool,
    /// Neither an index nor a collection itself: cursors of such sets repeat the ref.
    pub derived: bool,
}

/// Part of the keys of a set: from `start`, until before `end` (`None`: no end).
#[derive(Clone, Debug, Default)]
pub struct Range {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Range {
    fn point(key: &[u8]) -> Range {
        Range {
            start: key.to_vec(),
            end: Some([key, &[0]].concat()),
        }
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The part behind `key` in the direction of reading.
    fn after(&self, key: &[u8], backwards: bool) -> Range {
        let mut rest = self.clone();
        if backwards {
            rest.end = Some(key.to_vec());
        } else {
            rest.start = [key, &[0]].concat();
        }
        rest
    }

    fn within(&self, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
        let start = prefix.clone().bytes(&self.start).0;
        let end = self
            .end
            .as_ref()
            .map_or_else(|| prefix.end(), |end| prefix.clone().bytes(end).0);
        (start, end)
    }
}

/// The set that a value stands for: a set, or the ref of a built-in collection.
pub fn as_set(value: &Value) -> Option<Arc<Set>> {
    match value {
        Value::Set(set) => Some(set.clone()),
        Value::Ref(reference) if matches!(reference.target, Target::Native(_)) => {
            Some(Arc::new(Set::Documents(reference.clone())))
        }
        _ => None,
    }
}

fn part(value: &Value) -> Result<Arc<Set>> {
    as_set(value).ok_or_else(|| wrong_type("Set", value))
}

impl Evaluation<'_> {
    pub fn shape(&mut self, set: &Set) -> Result<Shape> {
        let plain = Shape {
            reversals: Vec::new(),
            backwards: false,
            derived: false,
        };
        match set {
            Set::Match { index, .. } => {
                let (_, index) = self.index(index)?;
                Ok(Shape {
                    reversals: index.values.iter().map(|value| value.reverse).collect(),
                    ..plain
                })
            }
            Set::Documents(_) | Set::Singleton(_) | Set::Events(_) => Ok(plain),
            Set::Reverse(of) => {
                let mut shape = self.shape(&*part(of)?)?;
                shape.backwards = !shape.backwards;
                shape.derived = true;
                Ok(shape)
            }
            Set::Distinct(of) | Set::Filter(of, _) | Set::Range { of, .. } => {
                let shape = self.shape(&*part(of)?)?;
                Ok(Shape { derived: true, ..shape })
            }
            Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) => {
                let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
                self.common_shape(&parts)
            }
            Set::Join(of, with) => match with {
                Value::Ref(index) => {
                    let set = Set::Match {
                        index: index.clone(),
                        terms: None,
                    };
                    self.shape(&set)
                }
                _ => {
                    let parts = self.joined(of, with)?;
                    self.common_shape(&parts)
                }
            },
        }
    }

    fn common_shape(&mut self, parts: &[Arc<Set>]) -> Result<Shape> {
        let mut common: Option<Shape> = None;
        for part in parts {
            let shape = Shape {
                derived: true,
                ..self.shape(part)?
            };
            match &common {
                Some(common) if *common != shape => return Err(Errors::argument("Sets are not compatible.")),
                _ => common = Some(shape),
            }
        }
        Ok(common.unwrap_or(Shape {
            reversals: Vec::new(),
            backwards: false,
            derived: true,
        }))
    }

    /// The schema and the index that a ref names.
    pub fn index(&mut self, reference: &Ref) -> Result<(Arc<Schema>, Arc<Index>)> {
        let schema = self.schema_in(&reference.scope)?;
        let name = match &reference.target {
            Target::Named(Native::Indexes, name) => name.clone(),
            _ => return Err(wrong_type("Index Ref", &Value::Ref(reference.clone()))),
        };
        match schema.index(&name).cloned() {
            Some(index) => Ok((schema, index)),
            None => Err(Errors::invalid_ref("index", &name)),
        }
    }

    /// The first elements of the range in reading direction, at most `limit`.
    pub fn elements(&mut self, set: &Set, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        self.step(1)?;
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        match set {
            Set::Match { index, terms } => self.matched(index, terms.as_ref(), range, backwards, limit),
            Set::Documents(collection) => self.documents(collection, range, backwards, limit),
            Set::Singleton(document) => self.singleton(document, range),
            Set::Events(_) => Err(Errors::argument("Set does not support events history.")),
            Set::Reverse(of) => self.elements(&*part(of)?, range, backwards, limit),
            Set::Union(parts) => {
                let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
                self.union(&parts, range, backwards, limit)
            }
            Set::Intersection(parts) => self.sieve(parts, true, range, backwards, limit),
            Set::Difference(parts) => self.sieve(parts, false, range, backwards, limit),
            Set::Distinct(of) => self.distinct(&*part(of)?, range, backwards, limit),
            Set::Filter(of, predicate) => self.filtered(&*part(of)?, predicate, range, backwards, limit),
            Set::Join(of, with) => {
                let parts = self.joined(of, with)?;
                self.union(&parts, range, backwards, limit)
            }
            Set::Range { of, from, to } => {
                let of = part(of)?;
                let range = self.narrowed(&of, from, to, range)?;
                self.elements(&of, &range, backwards, limit)
            }
        }
    }

    /// All elements in the set's own direction, a chunk at a time, until `visit` breaks.
    pub fn each_element(
        &mut self,
        set: &Set,
        visit: &mut dyn FnMut(&mut Self, &Element) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let backwards = self.shape(set)?.backwards;
        let mut range = Range::default();
        loop {
            let elements = self.elements(set, &range, backwards, CHUNK)?;
            self.step(elements.len())?;
            for element in &elements {
                if visit(self, element)?.is_break() {
                    return Ok(());
                }
            }
            match elements.last() {
                Some(last) if elements.len() == CHUNK => range = range.after(&last.key, backwards),
                _ => return Ok(()),
            }
        }
    }

    fn matched(
        &mut self,
        reference: &Ref,
        terms: Option<&Value>,
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let (schema, index) = self.index(reference)?;
        if !index.active {
            let message = format!("Index '{}' is not active.", index.name);
            return Err(Errors::new(Code::InstanceNotFoundHere, message));
        }
        let terms = terms.map_or(&[][..], Value::one_or_many);
        let unrestricted = self.permit_index(reference, terms)?;
        if terms.len() != index.terms.len() {
            return Ok(Vec::new());
        }
        let key = indexes::terms_key(terms, &schema);
        if self.at.is_some() {
            self.check_index_retained(&schema, &index)?;
        }
        self.readable(
            unrestricted,
            range,
            backwards,
            limit,
            &mut |evaluation, range, limit| {
                let mut elements = evaluation.entries_now(&schema, &index, &key, range, backwards, limit);
                if let Some(at) = evaluation.at {
                    elements.extend(evaluation.entries_then(&schema, &index, &key, range, at));
                    merge_sorted(&mut elements, backwards, limit);
                }
                put_into_scope(&mut elements, &reference.scope);
                elements
            },
        )
    }

    /// Of what `fetch` finds, what may be read; as many as are asked for, if there are.
    fn readable(
        &mut self,
        unrestricted: bool,
        range: &Range,
        backwards: bool,
        limit: usize,
        fetch: &mut dyn FnMut(&mut Self, &Range, usize) -> Vec<Element>,
    ) -> Result<Vec<Element>> {
        let (mut kept, mut range) = (Vec::new(), range.clone());
        loop {
            let wanted = limit - kept.len();
            let found = fetch(self, &range, wanted);
            if unrestricted {
                return Ok(found);
            }
            let last = found
                .last()
                .filter(|_| found.len() == wanted)
                .map(|last| last.key.clone());
            kept.extend(found.into_iter().filter(|element| self.may_read(&element.reference)));
            match last {
                Some(last) if kept.len() < limit => range = range.after(&last, backwards),
                _ => return Ok(kept),
            }
            self.step(wanted)?;
        }
    }

    fn check_index_retained(&mut self, schema: &Schema, index: &Index) -> Result<()> {
        for source in &index.sources {
            self.check_retained(schema, source.collection.unwrap_or(u64::MAX))?;
        }
        Ok(())
    }

    /// The entries there are; those that came after the time reads are for left out.
    fn entries_now(
        &mut self,
        schema: &Arc<Schema>,
        index: &Index,
        terms_key: &[u8],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Vec<Element> {
        let prefix = entries_prefix(schema.database(), index, terms_key);
        let (start, end) = range.within(&prefix);
        let (at, now, skip) = (self.at, self.now_micros, prefix.0.len());
        let mut elements = Vec::new();
        let mut bytes = 0;
        let mut visit = |key: &[u8], row: &[u8]| {
            let added = Timestamp(rows::number_at(row, 0));
            bytes += key.len() + row.len();
            if at.is_none_or(|at| added <= at) && !indexes::is_expired(row, now) {
                let values = indexes::entry_values(row, 16, schema);
                elements.extend(element(schema, &key[skip..], values, added));
            }
            match elements.len() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        match index.serialized {
            true => self.view.scan(&start, &end, backwards, &mut visit),
            false => self.view.scan_unjudged(&start, &end, backwards, &mut visit),
        }
        self.cost.bytes_read += bytes as u64;
        elements
    }

    /// The entries that were there at a time and have left since.
    fn entries_then(
        &mut self,
        schema: &Arc<Schema>,
        index: &Index,
        terms_key: &[u8],
        range: &Range,
        at: Timestamp,
    ) -> Vec<Element> {
        let prefix = former_prefix(schema.database(), index, terms_key);
        let start = prefix.clone().number(at.0.saturating_add(1));
        let skip = prefix.0.len() + 8;
        let rows = self.view.rows(&start.0, &prefix.end(), false, usize::MAX);
        let elements = rows.iter().filter_map(|(key, row)| {
            let key = &key[skip..];
            let added = Timestamp(rows::number_at(row, 0));
            let inside = *key >= *range.start && range.end.as_ref().is_none_or(|end| *key < **end);
            (added <= at && inside).then(|| element(schema, key, indexes::entry_values(row, 8, schema), added))?
        });
        elements.collect()
    }

    fn documents(&mut self, collection: &Ref, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        let schema = self.schema_in(&collection.scope)?;
        let number = match &collection.target {
            Target::Native(native) => *native as u64,
            Target::Named(Native::Collections, name) => match schema.collection(name) {
                Some(collection) => collection.number,
                None => return Err(Errors::invalid_ref("collection", name)),
            },
            _ => return Err(wrong_type("Collection Ref", &Value::Ref(collection.clone()))),
        };
        self.permit_collection(collection)?;
        self.check_retained(&schema, number)?;
        let prefix = Key::of(schema.database(), b'D').number(number);
        let unrestricted = self.authorization.reads_everything();
        self.readable(
            unrestricted,
            range,
            backwards,
            limit,
            &mut |evaluation, range, limit| {
                let (start, end) = document_range(range, number, &prefix);
                let mut elements = match evaluation.at {
                    None => evaluation.documents_now(&schema, &prefix, (&start, &end), backwards, limit),
                    Some(_) => evaluation.documents_then(&schema, number, (&start, &end), backwards, limit),
                };
                put_into_scope(&mut elements, &collection.scope);
                elements
            },
        )
    }

    fn documents_now(
        &mut self,
        schema: &Arc<Schema>,
        prefix: &Key,
        (start, end): (&[u8], &[u8]),
        backwards: bool,
        limit: usize,
    ) -> Vec<Element> {
        let (now, number) = (self.now_micros, rows::number_at(&prefix.0, prefix.0.len() - 8));
        let mut elements = Vec::new();
        self.view.scan(start, end, backwards, &mut |key, row| {
            let id = rows::number_at(key, prefix.0.len());
            if !indexes::is_expired(row, now) {
                elements.extend(document_element(schema, number, id, row));
            }
            match elements.len() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        elements
    }

    /// Walks the ids of current and former documents together and keeps those that were alive.
    fn documents_then(
        &mut self,
        schema: &Arc<Schema>,
        number: u64,
        (start, end): (&[u8], &[u8]),
        backwards: bool,
        limit: usize,
    ) -> Vec<Element> {
        let database = schema.database();
        let ids = Key::of(database, b'D').number(number).0.len();
        let mut found = std::collections::BTreeSet::new();
        self.view.scan(start, end, false, &mut |key, _| {
            found.insert(rows::number_at(key, ids));
            ControlFlow::Continue(())
        });
        let kind = Key::of(database, b'D').0.len() - 1;
        let as_history = |key: &[u8]| {
            let mut key = key.to_vec();
            if let Some(byte) = key.get_mut(kind) {
                *byte = b'H';
            }
            key
        };
        self.view
            .scan(&as_history(start), &as_history(end), false, &mut |key, _| {
                found.insert(rows::number_at(key, ids));
                ControlFlow::Continue(())
            });
        let ids: Vec<u64> = match backwards {
            true => found.into_iter().rev().collect(),
            false => found.into_iter().collect(),
        };
        let alive = ids.into_iter().filter_map(|id| {
            let reference = reference(schema, number, id)?;
            let place = Place {
                schema: schema.clone(),
                collection: number,
                id,
                reference: reference.clone(),
            };
            let (added, _) = self.live(&place)?;
            Some(plain_element(number, id, reference, added))
        });
        alive.take(limit).collect()
    }

    fn singleton(&mut self, document: &Ref, range: &Range) -> Result<Vec<Element>> {
        let place = self.resolve(document)?;
        let Some((added, _)) = self.live(&place) else {
            return Ok(Vec::new());
        };
        if !self.may_read(document) {
            return Ok(Vec::new());
        }
        let element = plain_element(place.collection, place.id, document.clone(), added);
        let inside = element.key >= range.start && range.end.as_ref().is_none_or(|end| element.key < *end);
        Ok(if inside { vec![element] } else { Vec::new() })
    }

    fn union(&mut self, parts: &[Arc<Set>], range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            elements.extend(self.elements(part, range, backwards, limit).within_index(index)?);
            // Long unions keep no more than they can show.
            if elements.len() > CHUNK.max(limit) * 4 {
                merge_sorted(&mut elements, backwards, limit);
            }
        }
        merge_sorted(&mut elements, backwards, limit);
        Ok(elements)
    }

    /// The elements of the first part that are (or are not) in the others.
    fn sieve(
        &mut self,
        parts: &[Value],
        wanted: bool,
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
        let Some((first, others)) = parts.split_first() else {
            return Ok(Vec::new());
        };
        self.chosen(first, range, backwards, limit, &mut |evaluation, element| {
            for other in others {
                let found = evaluation.elements(other, &Range::point(&element.key), false, 1)?;
                if found.is_empty() == wanted {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn filtered(
        &mut self,
        of: &Set,
        predicate: &Closure,
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        self.chosen(of, range, backwards, limit, &mut |evaluation, element| match evaluation
            .apply(predicate, element.value())
            .within("filter")?
        {
            Value::Bool(keep) => Ok(keep),
            other => Err(wrong_type("Boolean", &other)).within("filter"),
        })
    }

    fn chosen(
        &mut self,
        of: &Set,
        range: &Range,
        backwards: bool,
        limit: usize,
        keep: &mut dyn FnMut(&mut Self, &Element) -> Result<bool>,
    ) -> Result<Vec<Element>> {
        let (mut kept, mut range) = (Vec::new(), range.clone());
        loop {
            let chunk = self.elements(of, &range, backwards, CHUNK.max(limit.min(4096)))?;
            let Some(last) = chunk.last().map(|last| last.key.clone()) else {
                return Ok(kept);
            };
            for element in chunk {
                self.step(1)?;
                if keep(self, &element)? {
                    kept.push(element);
                }
                if kept.len() == limit {
                    return Ok(kept);
                }
            }
            range = range.after(&last, backwards);
        }
    }

    /// One element for each combination of values.
    fn distinct(&mut self, of: &Set, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        let mut previous: Option<Vec<u8>> = None;
        self.chosen(of, range, backwards, limit, &mut |_, element| {
            let values = match element.values.is_empty() {
                true => element.key.clone(),
                false => element.key[..element.key.len().saturating_sub(16)].to_vec(),
            };
            let is_new = previous.as_ref() != Some(&values);
            previous = Some(values);
            Ok(is_new)
        })
    }

    /// The sets that a join unites: one for each element of its source.
    fn joined(&mut self, of: &Value, with: &Value) -> Result<Vec<Arc<Set>>> {
        let source = part(of)?;
        let mut parts = Vec::new();
        let with = with.clone();
        self.each_element(&source, &mut |evaluation, element| {
            let joined = match &with {
                Value::Query(closure) => {
                    let value = evaluation.apply(closure, element.value()).within("with")?;
                    part(&value).within("with")?
                }
                Value::Ref(index) => Arc::new(Set::Match {
                    index: index.clone(),
                    terms: Some(element.value()),
                }),
                other => return Err(wrong_type("Lambda", other)).within("with"),
            };
            parts.push(joined);
            match parts.len() < JOIN_SOURCE_MAX {
                true => Ok(ControlFlow::Continue(())),
                false => Err(Errors::new(Code::BadRequest, "Join source exceeds the size limit.")),
            }
        })?;
        Ok(parts)
    }

    /// The part of a range between two bounds, both inclusive and given by the first values.
    fn narrowed(&mut self, of: &Set, from: &Value, to: &Value, range: &Range) -> Result<Range> {
        let shape = self.shape(of)?;
        let schema = self.schema.clone();
        let key = |bound: &Value| match bound {
            Value::Null => Vec::new(),
            bound => cursor_key(bound.one_or_many(), &shape, &schema),
        };
        let (mut from, mut to) = (key(from), key(to));
        if shape.backwards {
            std::mem::swap(&mut from, &mut to);
        }
        let mut narrowed = range.clone();
        if from > narrowed.start {
            narrowed.start = from;
        }
        if !to.is_empty() {
            let end = quartet_model::next_prefix(&to);
            if narrowed.end.as_ref().is_none_or(|old| end < *old) {
                narrowed.end = Some(end);
            }
        }
        Ok(narrowed)
    }
}

/// The beginning of keys that a cursor or a bound names: values first, then the document.
pub fn cursor_key(cursor: &[Value], shape: &Shape, schema: &Schema) -> Vec<u8> {
    let mut writer = KeyWriter::ordered(schema);
    for (value, reverse) in cursor.iter().zip(&shape.reversals) {
        writer.value(value, *reverse);
    }
    let mut key = writer.bytes;
    if let Some(Value::Ref(reference)) = cursor.get(shape.reversals.len()) {
        key.extend(document_key(reference, schema));
    }
    key
}

/// A document as it ends the keys of elements.
fn document_key(reference: &Ref, schema: &Schema) -> Vec<u8> {
    use crate::codec::Names;
    let (collection, id) = match &reference.target {
        Target::Document(collection, id) => (schema.number(Native::Collections, collection), *id as u64),
        Target::Numbered(native, id) => (Some(*native as u64), *id as u64),
        Target::Named(native, name) => {
            let number = schema.number(*native, name).unwrap_or(u64::MAX);
            (Some(*native as u64), number)
        }
        Target::Native(native) => (Some(*native as u64), 0),
    };
    [collection.unwrap_or(u64::MAX).to_be_bytes(), id.to_be_bytes()].concat()
}

/// A range of element keys as a range of document rows.
fn document_range(range: &Range, number: u64, prefix: &Key) -> (Vec<u8>, Vec<u8>) {
    let collection = number.to_be_bytes();
    let bound = |key: &[u8], open: Vec<u8>| match key.get(..8) {
        Some(first) if *first == collection => prefix.clone().bytes(&key[8..]).0,
        Some(first) if *first < collection[..] => prefix.0.clone(),
        Some(_) => prefix.end(),
        None if key.is_empty() => open,
        None => match collection.starts_with(key) || *key < collection[..] {
            true => prefix.0.clone(),
            false => prefix.end(),
        },
    };
    let start = bound(&range.start, prefix.0.clone());
    let end = range
        .end
        .as_ref()
        .map_or_else(|| prefix.end(), |end| bound(end, prefix.end()));
    (start, end)
}

fn plain_element(collection: u64, id: u64, reference: Ref, added: Timestamp) -> Element {
    Element {
        key: [collection.to_be_bytes(), id.to_be_bytes()].concat(),
        values: Vec::new(),
        reference,
        added,
    }
}

/// The ref of a document by numbers; nothing if its collection is gone.
pub fn reference(schema: &Arc<Schema>, collection: u64, id: u64) -> Option<Ref> {
    use crate::codec::Names;
    let target = match native_of(collection) {
        Some(native) if native.has_names() => Target::Named(native, schema.name(native, id)?),
        Some(native) => Target::Numbered(native, id as i64),
        None => Target::Document(schema.collection_of(collection)?.name.clone(), id as i64),
    };
    Some(Ref::new(target))
}

fn document_element(schema: &Arc<Schema>, collection: u64, id: u64, row: &[u8]) -> Option<Element> {
    let reference = match native_of(collection) {
        Some(native) if native.has_names() => {
            let (_, fields) = codec::decode_version(row, schema.as_ref());
            Ref::named(native, fields.string("name")?.clone())
        }
        _ => reference(schema, collection, id)?,
    };
    Some(plain_element(
        collection,
        id,
        reference,
        Timestamp(rows::number_at(row, 0)),
    ))
}

fn element(schema: &Arc<Schema>, key: &[u8], values: Vec<Value>, added: Timestamp) -> Option<Element> {
    let tail = key.len().checked_sub(16)?;
    let reference = reference(schema, rows::number_at(key, tail), rows::number_at(key, tail + 8))?;
    Some(Element {
        key: key.to_vec(),
        values,
        reference,
        added,
    })
}

/// Refs of another database are shown with the way to it.
fn put_into_scope(elements: &mut [Element], scope: &Arc<[Arc<str>]>) {
    if !scope.is_empty() {
        elements
            .iter_mut()
            .for_each(|element| element.reference.scope = scope.clone());
    }
}

fn merge_sorted(elements: &mut Vec<Element>, backwards: bool, limit: usize) {
    elements.sort_by(|one, other| match backwards {
        false => one.key.cmp(&other.key),
        true => other.key.cmp(&one.key),
    });
    elements.dedup_by(|one, other| one.key == other.key);
    elements.truncate(limit);
}
