//! Vectors that are compared one by one (FLAT), in short and in memory: most of them need not be
//! read to know that they are not among the nearest.
//!
//! ```text
//! 'b' field block   documents with vectors among a block of ids (4 bytes), the sum of the hashes of their ids and vectors
//!                   (16 bytes)
//! ```
//!
//! A block in memory belongs to one such row and serves every snapshot and transaction that sees
//! the same row, also after a rollback. So it is never stale and needs no invalidation.
//!
//! A *code* has eight bits a component, and a scale. How far it is from its vector is known, so it
//! gives bounds for the distance, rounding included. Vectors whose least distance is greater than
//! the greatest of enough others are left out; the rest are read and compared: the answer is that
//! of comparing all.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::SearchError;
use crate::index::layout::{after, block_row, field_prefix, vector_row};
use crate::index::vector_kind::VectorKind;
use crate::rows::{DocumentId, Rows, WriteRows, id_of};
use crate::vectors::cache::Resident;
use crate::vectors::metric::QueryVector;
use crate::vectors::quantized::{Coded, CodedQuery};
use crate::vectors::resident_graph::Image;

/// Ids of a block. After a change of one of its vectors the next search reads the whole block
/// again.
const BLOCK_IDS: u64 = 256;

/// The contents of a block of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    documents: u32,
    sum: u128,
}

impl Mark {
    fn of_row(row: &[u8]) -> Mark {
        let (documents, sum) = row.split_first_chunk().expect("a mark begins with a count");
        Mark {
            documents: u32::from_be_bytes(*documents),
            sum: u128::from_be_bytes(sum.try_into().expect("a mark ends with a sum")),
        }
    }

    fn add(&mut self, id: DocumentId, vectors: &[u8]) {
        self.documents += 1;
        self.sum = self.sum.wrapping_add(xxh3_128_with_seed(vectors, id));
    }

    fn to_row(self) -> Vec<u8> {
        [&self.documents.to_be_bytes()[..], &self.sum.to_be_bytes()].concat()
    }
}

/// The vectors of a document were added to its field.
pub(crate) fn added(rows: &mut dyn WriteRows, field: u16, id: DocumentId, vectors: &[u8]) {
    let key = block_row(field, id / BLOCK_IDS);
    let mut mark = rows.get(&key).map_or_else(Mark::default, |row| Mark::of_row(&row));
    mark.add(id, vectors);
    rows.set(&key, &mark.to_row());
}

/// Returns true if the marks of a field without a graph are those of its vectors.
pub(crate) fn are_marked(rows: &mut dyn Rows, field: u16) -> bool {
    let mut marks: BTreeMap<u64, Mark> = BTreeMap::new();
    let vectors = field_prefix(b'v', field);
    rows.scan(&vectors, &after(&vectors), &mut |key, vectors| {
        let id = id_of(key);
        marks.entry(id / BLOCK_IDS).or_default().add(id, vectors);
        ControlFlow::Continue(())
    });
    let (mut are_same, prefix) = (true, field_prefix(b'b', field));
    rows.scan(&prefix, &after(&prefix), &mut |key, row| {
        are_same &= marks.remove(&id_of(key)) == Some(Mark::of_row(row));
        ControlFlow::Continue(())
    });
    are_same && marks.is_empty()
}

/// The vectors of a document are about to be removed. Does nothing if the field has a graph.
pub(crate) fn removed(rows: &mut dyn WriteRows, field: u16, id: DocumentId) {
    let key = block_row(field, id / BLOCK_IDS);
    let Some(row) = rows.get(&key) else { return };
    let vectors = rows.get(&vector_row(field, id)).expect("a document has its vectors");
    let mark = Mark::of_row(&row);
    let mark = Mark {
        documents: mark.documents - 1,
        sum: mark.sum.wrapping_sub(xxh3_128_with_seed(&vectors, id)),
    };
    match mark.documents {
        0 => rows.clear(&key),
        _ => rows.set(&key, &mark.to_row()),
    }
}

/// The code of one vector of a document.
#[derive(Debug)]
struct Entry {
    id: DocumentId,
    coded: Coded,
}

/// The codes of a block of ids.
#[derive(Debug)]
struct Block {
    mark: Mark,
    /// Ascending by id; several of a document follow each other.
    entries: Vec<Entry>,
    /// One after the other.
    codes: Vec<i8>,
}

impl Block {
    /// Reads the vectors of a block.
    fn read(rows: &mut dyn Rows, field: u16, number: u64, mark: Mark, kind: &VectorKind) -> Block {
        let mut block = Block {
            mark,
            entries: Vec::with_capacity(mark.documents as usize),
            codes: Vec::with_capacity(mark.documents as usize * kind.dimensions()),
        };
        let first = number * BLOCK_IDS;
        let (start, end) = (vector_row(field, first), vector_row(field, first + BLOCK_IDS));
        rows.scan(&start, &end, &mut |key, stored| {
            for vector in stored.chunks_exact(kind.bytes()) {
                let coded = Coded::of(kind, &kind.components(vector), &mut block.codes);
                block.entries.push(Entry { id: id_of(key), coded });
            }
            ControlFlow::Continue(())
        });
        block
    }

    fn bytes(&self) -> usize {
        size_of::<Block>() + self.entries.len() * size_of::<Entry>() + self.codes.len()
    }
}

/// The images of the graphs of an index, by field.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<u16, Arc<Resident<Image>>>>);

impl Images {
    pub fn of_field(&self, field: u16) -> Arc<Resident<Image>> {
        self.0.lock().entry(field).or_default().clone()
    }

    fn bytes(&self) -> usize {
        self.0.lock().values().map(|image| image.bytes()).sum()
    }
}

/// The codes of an index's vectors, as far as there is room for them.
#[derive(Debug, Default)]
pub struct Codes {
    blocks: Mutex<HashMap<(u16, u64), Arc<Block>>>,
    bytes: AtomicUsize,
    /// The graphs of fields that have one.
    pub(crate) images: Images,
    bytes_max: AtomicUsize,
}

impl Codes {
    /// Their approximate size, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.images.bytes()
    }

    /// Returns true if searches have missed the image of a graph.
    pub fn are_images_wanted(&self) -> bool {
        self.images.0.lock().values().any(|image| image.is_wanted())
    }

    /// Returns true if there is room for these bytes more.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes() + bytes <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Sets up to how many bytes more of them are kept; none before.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Those of a field as the rows show it; nothing if there are vectors that no mark knows of.
    fn blocks(
        &self,
        rows: &mut dyn Rows,
        field: u16,
        kind: &VectorKind,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Arc<Block>>>, SearchError> {
        let mut marks = Vec::new();
        let prefix = field_prefix(b'b', field);
        rows.scan(&prefix, &after(&prefix), &mut |key, row| {
            marks.push((id_of(key), Mark::of_row(row)));
            ControlFlow::Continue(())
        });
        let marked = marks.iter().map(|(_, mark)| u64::from(mark.documents));
        let vectors = field_prefix(b'v', field);
        if marked.sum::<u64>() != rows.count(&vectors, &after(&vectors)) {
            return Ok(None);
        }
        let cached = self.known(field, &marks);
        let mut blocks = Vec::with_capacity(marks.len());
        for ((number, mark), cached) in marks.into_iter().zip(cached) {
            if is_over() {
                return Err(SearchError::Timeout);
            }
            blocks.push(cached.unwrap_or_else(|| {
                let block = Arc::new(Block::read(rows, field, number, mark, kind));
                self.keep(field, number, &block);
                block
            }));
        }
        Ok(Some(blocks))
    }

    /// The kept blocks with these marks. Drops blocks of the field that have no mark here.
    fn known(&self, field: u16, marks: &[(u64, Mark)]) -> Vec<Option<Arc<Block>>> {
        let mut blocks = self.blocks.lock();
        let entry_of_field = |(of, _): &&(u16, u64)| *of == field;
        if blocks.keys().filter(entry_of_field).count() > marks.len() {
            let numbers: BTreeSet<u64> = marks.iter().map(|(number, _)| *number).collect();
            blocks.retain(|(of, number), _| *of != field || numbers.contains(number));
            let bytes = blocks.values().map(|block| block.bytes()).sum();
            self.bytes.store(bytes, Ordering::Relaxed);
        }
        let block_of = |(number, mark): &(u64, Mark)| {
            let block = blocks.get(&(field, *number)).filter(|block| block.mark == *mark);
            block.cloned()
        };
        marks.iter().map(block_of).collect()
    }

    fn keep(&self, field: u16, number: u64, block: &Arc<Block>) {
        let key = (field, number);
        let mut blocks = self.blocks.lock();
        let before = blocks.get(&key).map_or(0, |block| block.bytes());
        let bytes = self.bytes() - before + block.bytes();
        if bytes <= self.bytes_max.load(Ordering::Relaxed) {
            blocks.insert(key, block.clone());
            self.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// The documents that may be among the `count` nearest to a vector, each with its distance;
    /// the nearest are among them, and all that are as near as the last. Nothing if codes say
    /// nothing of such vectors, or not all are marked.
    pub(crate) fn nearest(
        &self,
        rows: &mut dyn Rows,
        search: &FieldSearch<'_>,
        count: usize,
    ) -> Result<Option<Vec<(f64, DocumentId)>>, SearchError> {
        let FieldSearch {
            field,
            kind,
            vector,
            is_over,
            ..
        } = *search;
        let query = CodedQuery::new(kind, &vector.all_components());
        if !query.is_bounded() {
            return Ok(None);
        }
        let Some(blocks) = self.blocks(rows, field, kind, is_over)? else {
            return Ok(None);
        };
        let mut candidates = Candidates::new(count);
        for block in blocks {
            if is_over() {
                return Err(SearchError::Timeout);
            }
            let coded = block.entries.iter().zip(block.codes.chunks_exact(kind.dimensions()));
            let mut coded = coded.peekable();
            while let Some((entry, codes)) = coded.next() {
                let (mut least, mut greatest) = query.bounds(&entry.coded, codes);
                while let Some((entry, codes)) = coded.next_if(|(next, _)| next.id == entry.id) {
                    let bounds = query.bounds(&entry.coded, codes);
                    (least, greatest) = (least.min(bounds.0), greatest.min(bounds.1));
                }
                candidates.add(least, greatest, entry.id);
            }
        }
        candidates.compared(rows, field, vector, is_over)
    }
}

/// A search for the vectors of a field that are nearest to one.
#[derive(Clone, Copy)]
pub(crate) struct FieldSearch<'s> {
    pub field: u16,
    pub kind: &'s VectorKind,
    pub vector: &'s QueryVector,
    /// Codes and images in memory.
    pub codes: Option<&'s Codes>,
    pub is_over: &'s dyn Fn() -> bool,
}

/// Documents that may be among the nearest.
pub(crate) struct Candidates {
    count: usize,
    /// The least of the greatest distances, the greatest of these on top.
    greatest: BinaryHeap<Distance>,
    /// By their least distances.
    found: Vec<(Distance, DocumentId)>,
}

/// A distance, in the order of numbers.
#[derive(Clone, Copy, PartialEq)]
struct Distance(f64);

impl Eq for Distance {}

impl Ord for Distance {
    fn cmp(&self, other: &Distance) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Distance) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Candidates {
    pub fn new(count: usize) -> Candidates {
        Candidates {
            count,
            greatest: BinaryHeap::new(),
            found: Vec::new(),
        }
    }

    /// No document that is farther is among the nearest.
    fn reach(nearest: &BinaryHeap<Distance>, count: usize) -> f64 {
        match nearest.peek() {
            Some(reach) if nearest.len() >= count => reach.0,
            _ if count == 0 => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        }
    }

    fn keep(nearest: &mut BinaryHeap<Distance>, count: usize, distance: f64) {
        nearest.push(Distance(distance));
        if nearest.len() > count {
            nearest.pop();
        }
    }

    pub fn add(&mut self, least: f64, greatest: f64, id: DocumentId) {
        let reach = Candidates::reach(&self.greatest, self.count);
        if least > reach {
            return;
        }
        self.found.push((Distance(least), id));
        if greatest < reach {
            Candidates::keep(&mut self.greatest, self.count, greatest);
        }
    }

    /// The remaining candidates, ascending. They contain the nearest, and all candidates as near as
    /// the last of these.
    pub fn ids(self) -> Vec<DocumentId> {
        let reach = Candidates::reach(&self.greatest, self.count);
        let candidates = self.found.into_iter().filter(|(least, _)| least.0 <= reach);
        let mut ids: Vec<_> = candidates.map(|(_, id)| id).collect();
        ids.sort_unstable();
        ids
    }

    /// Reads and compares the remaining candidates, the likeliest first. Returns None if a
    /// candidate is absent: with vectors of colliding hashes, a client can forge a mark that also
    /// fits other vectors.
    pub fn compared(
        mut self,
        rows: &mut dyn Rows,
        field: u16,
        vector: &QueryVector,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<(f64, DocumentId)>>, SearchError> {
        let reach = Candidates::reach(&self.greatest, self.count);
        self.found.retain(|(least, _)| least.0 <= reach);
        self.found.sort_unstable();
        let (mut compared, mut nearest) = (Vec::new(), BinaryHeap::new());
        for (least, id) in self.found {
            if least.0 > Candidates::reach(&nearest, self.count) {
                break;
            }
            if compared.len() as u64 % BLOCK_IDS == BLOCK_IDS - 1 && is_over() {
                return Err(SearchError::Timeout);
            }
            let mut distance = f64::INFINITY;
            let is_there = rows.show(&vector_row(field, id), &mut |stored| {
                distance = vector.least_distance(stored);
            });
            if !is_there {
                return Ok(None);
            }
            Candidates::keep(&mut nearest, self.count, distance);
            compared.push((distance, id));
        }
        Ok(Some(compared))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hits::Found;
    use crate::index;
    use crate::index::document::Document;
    use crate::index::schema::{Field, FieldKind, Schema};
    use crate::index::vector_kind::{Component, Metric};
    use crate::redis::execute::{Request, search};
    use crate::redis::query::{Expander, Parameters, Query, parse};
    use crate::rows::MemoryRows;
    use crate::time::Time;
    use crate::vectors::fields::VectorFields;

    const DIMENSIONS: usize = 5;

    fn schema(component: Component, metric: Metric) -> Schema {
        let kind = VectorKind::new(component, DIMENSIONS, metric).unwrap();
        Schema::new(vec![Field::new("v", FieldKind::Vector(kind))]).unwrap()
    }

    fn blob(schema: &Schema, components: &[f64]) -> Vec<u8> {
        let FieldKind::Vector(kind) = &schema.field(0).kind else {
            unreachable!("the field is one of vectors");
        };
        let mut blob = Vec::new();
        components
            .iter()
            .for_each(|component| kind.push(*component, &mut blob).unwrap());
        blob
    }

    fn nearest(
        rows: &mut MemoryRows,
        schema: &Schema,
        vector: &[u8],
        count: usize,
        codes: Option<&Arc<Codes>>,
    ) -> Found {
        let mut parameters = Parameters::new();
        parameters.insert("q".into(), vector.to_vec());
        let text = format!("*=>[KNN {count} @v $q]");
        let query: Query = parse(schema, text.as_bytes(), &parameters, Expander::All).unwrap();
        let request = Request {
            count: 1000,
            codes: codes.cloned(),
            ..Request::default()
        };
        search(rows, schema, &query, &request, Time::until(&|| false)).unwrap()
    }

    fn component() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -2.0..2.0,
            2 => (-3i8..3).prop_map(f64::from),
            1 => prop_oneof![Just(0.0), Just(1e12), Just(-1e20), Just(f64::NAN), Just(f64::INFINITY)],
        ]
    }

    fn vector() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(component(), DIMENSIONS)
    }

    fn kinds() -> impl Strategy<Value = (Component, Metric)> {
        let components = [
            Component::Float32,
            Component::Float64,
            Component::Float16,
            Component::BFloat16,
        ];
        let metrics = [Metric::L2, Metric::InnerProduct, Metric::Cosine];
        (
            proptest::sample::select(components.to_vec()),
            proptest::sample::select(metrics.to_vec()),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The answer equals that of comparing every vector, for any kept blocks: of another state,
        /// or with other contents under the same ids.
        #[test]
        fn the_nearest_are_those_of_comparing_all(
            (component, metric) in kinds(),
            changes in proptest::collection::vec((0..600u32, proptest::option::weighted(0.8, vector())), 1..40),
            filled in proptest::collection::vec(vector(), 0..400),
            queries in proptest::collection::vec((vector(), 0..30usize), 1..6),
        ) {
            let (schema, mut rows) = (schema(component, metric), MemoryRows::default());
            let put = |rows: &mut MemoryRows, key: u32, components: &[f64]| {
                let value = blob(&schema, components);
                let document = Document::new(&schema, key.to_string().as_bytes(), |_| Some(value.clone())).unwrap();
                index::put(rows, &document, &VectorFields);
            };
            filled.iter().enumerate().for_each(|(key, vector)| put(&mut rows, key as u32, vector));
            let codes = Arc::new(Codes::default());
            codes.set_bytes_max(1 << 20);
            let before = rows.clone();
            for (key, vector) in &changes {
                match vector {
                    Some(vector) => put(&mut rows, *key, vector),
                    None => _ = index::remove(&mut rows, key.to_string().as_bytes(), &VectorFields),
                }
                let (vector, count) = &queries[0];
                let query = blob(&schema, vector);
                let found = nearest(&mut rows, &schema, &query, *count, Some(&codes));
                prop_assert_eq!(found, nearest(&mut rows, &schema, &query, *count, None));
            }
            for (vector, count) in &queries {
                let query = blob(&schema, vector);
                for rows in [&mut before.clone(), &mut rows.clone()] {
                    let found = nearest(rows, &schema, &query, *count, Some(&codes));
                    prop_assert_eq!(found, nearest(rows, &schema, &query, *count, None));
                }
            }
            let kept: usize = codes.blocks.lock().values().map(|block| block.bytes()).sum();
            prop_assert_eq!(codes.bytes(), kept);
        }
    }

    #[test]
    fn nothing_is_kept_without_room_and_no_mark_without_vectors() {
        let schema = schema(Component::Float32, Metric::L2);
        let (mut rows, codes) = (MemoryRows::default(), Arc::new(Codes::default()));
        let value = blob(&schema, &[1.0; DIMENSIONS]);
        let document = Document::new(&schema, b"a", |_| Some(value.clone())).unwrap();
        index::put(&mut rows, &document, &VectorFields);
        assert_eq!(nearest(&mut rows, &schema, &value, 3, Some(&codes)).total, 1);
        assert_eq!(codes.bytes(), 0);
        codes.set_bytes_max(1 << 20);
        assert_eq!(nearest(&mut rows, &schema, &value, 3, Some(&codes)).total, 1);
        assert!(codes.bytes() > 0);
        // A database whose vectors were written without marks is searched all the same.
        rows.clear(&block_row(0, 0));
        assert_eq!(nearest(&mut rows, &schema, &value, 3, Some(&codes)).total, 1);
        index::remove(&mut rows, b"a", &VectorFields);
        assert_eq!(nearest(&mut rows, &schema, &value, 3, Some(&codes)).total, 0);
        assert_eq!((rows.len(), codes.bytes()), (1, 0));
    }
}
