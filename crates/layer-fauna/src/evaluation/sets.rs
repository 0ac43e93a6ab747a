//! Sets: read within a range of keys, in either direction, a few elements at a time.
//!
//! Every element has a key: its values in index order, then its document. Sets of one shape share
//! one order of keys, and a cursor is a key or a prefix of one. `reverse` turns the direction of
//! reading, not the keys. Composed sets are in `combinations`.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::operations::{Counted, PARTS_WITHOUT_TERMS, parts_of_documents};
use crate::evaluation::permitted::{Readable, part};
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result, no_history};
use crate::language::value::native_of;
use crate::language::value::{Closure, Native, Ref, Set, Target, Timestamp, Value, as_set};
use crate::storage::documents::{Place, reference};
use crate::storage::indexes::{self, entries_prefix, former_prefix};
use crate::storage::order;
use crate::storage::ranges::{Range, Shape, edge_of};
use crate::storage::rows::{self, DOCUMENT_BYTES, Key};
use crate::storage::schema::{Index, Schema};

/// Elements that composed sets read from their parts at once.
const CHUNK: usize = 256;
pub const CHUNK_MAX: usize = 4096;
/// Upper bound on the size of entries that are read at once: more could not be shown.
const ENTRIES_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub struct Element {
    pub key: Vec<u8>,
    pub values: Vec<Value>,
    pub reference: Ref,
    /// The time of its addition to the set.
    pub added: Timestamp,
}

impl Element {
    /// As a page shows it: one value without its array, no values as the document.
    pub fn value(&self) -> Value {
        match self.values.as_slice() {
            [] => Value::Ref(self.reference.clone()),
            [single] => single.clone(),
            several => Value::array(several.to_vec()),
        }
    }

    /// As a page shows it, and the document it is of.
    pub fn into_parts(mut self) -> (Value, Ref) {
        let value = match self.values.len() {
            0 => Value::Ref(self.reference.clone()),
            1 => self.values.remove(0),
            _ => Value::array(self.values),
        };
        (value, self.reference)
    }

    /// Returns the key that it shares with the elements that sets hold for equal to it: the key of
    /// its values, or of its document if it has none.
    pub fn group(&self) -> &[u8] {
        match self.key.len() {
            ..=DOCUMENT_BYTES => &self.key,
            length => &self.key[..length - DOCUMENT_BYTES],
        }
    }

    /// Returns true if two show the same, not only equals.
    pub fn shows_the_same(&self, other: &Element) -> bool {
        let mut values = self.values.iter().zip(&other.values);
        self.group() == other.group() && values.all(|(a, b)| order::same(a, b))
    }

    /// Whether elements of its group may show something else: numbers are equal whether they are
    /// whole or not.
    pub fn has_equals_of_other_kinds(&self) -> bool {
        self.values.iter().any(|value| {
            matches!(
                value,
                Value::Int(_) | Value::Double(_) | Value::Array(_) | Value::Object(_)
            )
        })
    }
}

impl Evaluation<'_> {
    pub fn shape(&mut self, set: &Set) -> Result<Shape> {
        self.work(1)?;
        match set {
            Set::Match { index, .. } => {
                let (_, index) = self.index(index)?;
                Ok(Shape {
                    reversals: index.values.iter().map(|value| value.reverse).collect(),
                    ..Shape::default()
                })
            }
            Set::Documents(_) | Set::Singleton(_) => Ok(Shape::default()),
            Set::Events(of) => {
                let shape = as_set(of).map_or_else(|| Ok(Shape::default()), |of| self.shape(&of))?;
                Ok(Shape {
                    is_history: true,
                    ..shape
                })
            }
            Set::Reverse(of) => {
                let mut shape = self.shape(&*part(of)?)?;
                shape.backwards = !shape.backwards;
                shape.repeats_ref = shape.reversals.is_empty();
                Ok(shape)
            }
            Set::Distinct(of) | Set::Filter(of, _) | Set::Range { of, .. } => self.shape(&*part(of)?),
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
                    let parts = self.joined(&part(of)?, with)?;
                    let parts: Vec<Arc<Set>> = parts.into_iter().map(|part| part.set).collect();
                    Ok(Shape {
                        is_open: true,
                        ..self.shape_of_all(&parts, false)?
                    })
                }
            },
        }
    }

    fn common_shape(&mut self, parts: &[Arc<Set>]) -> Result<Shape> {
        self.shape_of_all(parts, true)
    }

    /// The shape of sets together, which may have to be compatible, each with the next.
    fn shape_of_all(&mut self, parts: &[Arc<Set>], are_checked: bool) -> Result<Shape> {
        let shapes: Vec<Shape> = parts.iter().map(|part| self.shape(part)).collect::<Result<_>>()?;
        let mut errors = Vec::new();
        for pair in shapes.windows(2).filter(|_| are_checked) {
            if !pair[0].is_compatible(&pair[1]) {
                errors.extend(Errors::argument("Sets are not compatible.").0);
            }
        }
        Errors::unless_empty(errors)?;
        let Some(first) = shapes.first() else {
            return Ok(Shape::default());
        };
        match shapes.iter().all(|shape| first.has_keys_of(shape)) {
            true => Ok(first.clone()),
            false => Ok(first.mixed()),
        }
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

    /// The first elements of the range in reading direction that may be read, at most `limit`.
    pub fn elements(&mut self, of: &Readable, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        if !of.is_checked {
            return self.unchecked(&of.set, range, backwards, limit);
        }
        let (mut readable, mut range) = (Vec::new(), range.clone());
        loop {
            let missing = limit - readable.len();
            let chunk = self.unchecked(&of.set, &range, backwards, missing)?;
            let last = chunk.last().filter(|_| chunk.len() == missing);
            let last = last.map(|last| last.key.clone());
            readable.extend(chunk.into_iter().filter(|element| self.may_read(&element.reference)));
            match last {
                Some(last) if readable.len() < limit => range = range.after(&last, backwards),
                _ => return Ok(readable),
            }
            self.step(missing)?;
        }
    }

    /// The first elements of the range, whether they may be read or not. Fewer than `limit` only if
    /// there are no more.
    pub fn unchecked(&mut self, set: &Set, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        self.step(1)?;
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        match set {
            Set::Union(parts) | Set::Intersection(parts) | Set::Difference(parts) if self.is_mixed(parts)? => {
                let parts = parts.iter().map(|value| part(value).map(Readable::wholly));
                let parts: Vec<Readable> = parts.collect::<Result<_>>()?;
                self.mixed(set, &parts, range, backwards, limit)
            }
            Set::Match { index, terms } => self.matched(index, terms.as_ref(), range, backwards, limit),
            Set::Documents(collection) => self.documents(collection, range, backwards, limit),
            Set::Singleton(document) => self.singleton(document, range),
            Set::Events(_) => Err(no_history()),
            Set::Reverse(of) => self.unchecked(&*part(of)?, range, backwards, limit),
            Set::Union(parts) => self.union(parts, range, backwards, limit),
            Set::Intersection(parts) => self.intersection(parts, range, backwards, limit),
            Set::Difference(parts) => self.difference(parts, range, backwards, limit),
            Set::Distinct(of) => {
                let of = Readable::wholly(part(of)?);
                self.distinct(&of, range, backwards, limit)
            }
            Set::Filter(of, predicate) => self.filtered(&*part(of)?, predicate, range, backwards, limit),
            Set::Join(of, with) => {
                let parts = self.joined(&part(of)?, with)?;
                match self.have_keys_of_one_form(parts.iter().map(|part| &*part.set))? {
                    true => self.united_least(&parts, range, backwards, limit),
                    false => self.mixed(set, &parts, range, backwards, limit),
                }
            }
            Set::Range { of, from, to } => {
                let of = part(of)?;
                let range = self.narrowed(&of, from, to, range)?;
                self.unchecked(&of, &range, backwards, limit)
            }
        }
    }

    /// All elements in the set's own direction, a chunk at a time, until `visit` breaks.
    pub fn each_element(
        &mut self,
        of: &Readable,
        visit: &mut dyn FnMut(&mut Self, &Element) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let backwards = self.shape(&of.set)?.backwards;
        let mut range = Range::default();
        loop {
            let elements = self.elements(of, &range, backwards, CHUNK)?;
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
            return Err(inactive(&index));
        }
        let terms = terms.map_or(&[][..], Value::one_or_many);
        if terms.len() != index.terms.len() {
            self.count_read_of_index(&schema, &index, &[], 0);
            return Ok(Vec::new());
        }
        let key = indexes::terms_key(terms, &schema);
        let before = self.cost.bytes_read;
        if self.at.is_some() {
            self.check_index_retained(&schema, &index)?;
        }
        let mut elements = self.entries_now(&schema, &index, &key, range, backwards, limit)?;
        if let Some(at) = self.at {
            elements.extend(self.entries_then(&schema, &index, &key, range, at));
            merge_sorted(&mut elements, backwards, limit);
        }
        self.count_read_of_index(&schema, &index, &key, self.cost.bytes_read - before);
        put_into_scope(&mut elements, &reference.scope);
        Ok(elements)
    }

    /// Counts `bytes` that were read of an index under these terms.
    pub fn count_read_of_index(&mut self, schema: &Schema, index: &Index, terms_key: &[u8], bytes: u64) {
        let parts = match index.terms.is_empty() {
            true => PARTS_WITHOUT_TERMS,
            false => 1,
        };
        self.count_read(
            Counted::of((schema.database().0, index.number, terms_key)),
            parts,
            bytes,
        );
    }

    fn check_index_retained(&mut self, schema: &Schema, index: &Index) -> Result<()> {
        for source in &index.sources {
            self.check_retained(schema, source.collection.unwrap_or(u64::MAX))?;
        }
        Ok(())
    }

    /// The present entries, except those added after the read time.
    fn entries_now(
        &mut self,
        schema: &Arc<Schema>,
        index: &Index,
        terms_key: &[u8],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let prefix = entries_prefix(schema.database(), index, terms_key);
        let (start, end) = range.within(&prefix);
        let (at, now, skip) = (self.at, self.now_micros, prefix.0.len());
        let mut ended_micros = 0;
        let mut elements = Vec::new();
        let mut bytes = 0;
        let mut visit = |key: &[u8], row: &[u8]| {
            let added = Timestamp(rows::number_at(row, 0));
            // The prefix is the same in all of them.
            bytes += key.len() - skip + row.len();
            if indexes::is_expired(row, now) {
                ended_micros = ended_micros.max(indexes::expiry_of(row));
            } else if at.is_none_or(|at| added <= at) {
                let values = indexes::entry_values(row, 16, schema);
                elements.extend(element(schema, &key[skip..], values, added));
            }
            match elements.len() < limit && bytes <= ENTRIES_BYTES_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        match index.serialized {
            true => self.view.scan(&start, &end, backwards, &mut visit),
            false => self.view.snapshot_scan(&start, &end, backwards, &mut visit),
        }
        self.cost.bytes_read += bytes as u64;
        self.show(ended_micros);
        match bytes <= ENTRIES_BYTES_MAX {
            true => Ok(elements),
            false => Err(Errors::new(Code::BadRequest, "Query result exceeds the size limit.")),
        }
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
            (added <= at && range.contains(key))
                .then(|| element(schema, key, indexes::entry_values(row, 8, schema), added))?
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
        self.check_retained(&schema, number)?;
        let prefix = Key::of(schema.database(), b'D').number(number);
        let (start, end) = range.of_documents(number, &prefix);
        let before = self.cost.bytes_read;
        let mut elements = match self.at {
            None => self.documents_now(&schema, &prefix, &start, &end, backwards, limit),
            Some(_) => self.documents_then(&schema, number, &start, &end, backwards, limit),
        };
        let of = Counted::of((schema.database().0, number));
        self.count_read(of, parts_of_documents(number), self.cost.bytes_read - before);
        put_into_scope(&mut elements, &collection.scope);
        Ok(elements)
    }

    fn documents_now(
        &mut self,
        schema: &Arc<Schema>,
        prefix: &Key,
        start: &[u8],
        end: &[u8],
        backwards: bool,
        limit: usize,
    ) -> Vec<Element> {
        let (now, number) = (self.now_micros, rows::number_at(&prefix.0, prefix.0.len() - 8));
        let mut ended_micros = 0;
        let mut elements = Vec::new();
        let mut bytes = 0;
        self.view.scan(start, end, backwards, &mut |key, row| {
            // A row counts by its time and its expiry.
            bytes += key.len() + 16;
            let id = rows::number_at(key, prefix.0.len());
            match indexes::is_expired(row, now) {
                true => ended_micros = ended_micros.max(indexes::expiry_of(row)),
                false => elements.extend(document_element(schema, number, id, row)),
            }
            match elements.len() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        self.cost.bytes_read += bytes as u64;
        self.show(ended_micros);
        elements
    }

    /// Walks the ids of current and former documents together and keeps those alive at the read
    /// time.
    fn documents_then(
        &mut self,
        schema: &Arc<Schema>,
        number: u64,
        start: &[u8],
        end: &[u8],
        backwards: bool,
        limit: usize,
    ) -> Vec<Element> {
        let database = schema.database();
        let ids = Key::of(database, b'D').number(number).0.len();
        let mut numbers = std::collections::BTreeSet::new();
        self.view.scan(start, end, false, &mut |key, _| {
            numbers.insert(rows::number_at(key, ids));
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
                numbers.insert(rows::number_at(key, ids));
                ControlFlow::Continue(())
            });
        let ids: Vec<u64> = match backwards {
            true => numbers.into_iter().rev().collect(),
            false => numbers.into_iter().collect(),
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
        self.check_retained(&place.schema, place.collection)?;
        let live = self.counted_document(&place, |evaluation| evaluation.live(&place));
        let Some((added, _)) = live else {
            return Ok(Vec::new());
        };
        let element = plain_element(place.collection, place.id, document.clone(), added);
        Ok(match range.contains(&element.key) {
            true => vec![element],
            false => Vec::new(),
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
        self.chosen(of, range, backwards, limit, &mut |evaluation, element| {
            let verdict = evaluation.apply(predicate, element.value());
            let keep = verdict.and_then(|verdict| match verdict {
                Value::Bool(keep) => Ok(keep),
                other => Err(wrong_type("Boolean", &other)),
            });
            keep.map_err(|errors| errors.placed_at(&predicate.lambda.place))
        })
    }

    /// Returns the chosen elements of a set.
    pub fn chosen(
        &mut self,
        of: &Set,
        range: &Range,
        backwards: bool,
        limit: usize,
        keep: &mut dyn FnMut(&mut Self, &Element) -> Result<bool>,
    ) -> Result<Vec<Element>> {
        let (mut retained, mut range) = (Vec::new(), range.clone());
        loop {
            let chunk = self.unchecked(of, &range, backwards, CHUNK.max(limit.min(CHUNK_MAX)))?;
            let Some(last) = chunk.last().map(|last| last.key.clone()) else {
                return Ok(retained);
            };
            for element in chunk {
                self.step(1)?;
                if keep(self, &element)? {
                    retained.push(element);
                }
                if retained.len() == limit {
                    return Ok(retained);
                }
            }
            range = range.after(&last, backwards);
        }
    }

    /// The part of a range between two bounds, both inclusive and given by the first values.
    fn narrowed(&mut self, of: &Set, from: &Value, to: &Value, range: &Range) -> Result<Range> {
        let shape = self.shape(of)?;
        let schema = self.schema.clone();
        let edge = |bound: &Value| edge_of(bound.one_or_many(), &shape, &schema);
        let (mut from, mut to) = (edge(from), edge(to));
        if shape.backwards {
            std::mem::swap(&mut from, &mut to);
        }
        Ok(range.narrowed(from, Some(to.behind())))
    }
}

pub fn inactive(index: &Index) -> Errors {
    Errors::new(
        Code::InstanceNotFoundHere,
        format!("Index '{}' is not active.", index.name),
    )
}

fn plain_element(collection: u64, id: u64, reference: Ref, added: Timestamp) -> Element {
    Element {
        key: rows::entry_document(collection, id).to_vec(),
        values: Vec::new(),
        reference,
        added,
    }
}

fn document_element(schema: &Arc<Schema>, collection: u64, id: u64, row: &[u8]) -> Option<Element> {
    let reference = match native_of(collection) {
        Some(native) if native.has_names() => {
            let (_, fields) = rows::decode_version(row, schema.as_ref());
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
    let (collection, id) = rows::document_of_entry(key);
    let reference = reference(schema, collection, id)?;
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
    elements.dedup_by(|a, b| a.key == b.key);
    elements.truncate(limit);
}
