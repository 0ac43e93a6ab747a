//! Numbers of documents, bytes and failures of indexes.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use quartet_engine::Row;
use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::keys_range;
use quartet_model::next_prefix;
use quartet_search::index::State;

use crate::indexes::catalogue::Catalogue;
use crate::indexes::failures::Failures;
use crate::indexes::pace::Paces;
use crate::indexes::rows::TransactionRows;
use crate::indexes::stored::StoredIndex;

/// Most rows in a sample of lengths, of one index and of all together.
pub const SAMPLE: u64 = 1_000;
const SAMPLE_OF_ALL: u64 = 10_000;

/// The numbers of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFigures {
    pub name: Vec<u8>,
    /// The family of its commands: `ft` or `search`.
    pub commands: &'static str,
    pub documents: u64,
    /// Documents without postings so far.
    pub unsettled: u64,
    /// Bytes of its rows: exact while there are few, else estimated from an even sample.
    pub stored_bytes: u64,
    /// Keys that are still to be looked at until it is filled, about.
    pub keys_left: u64,
    /// Seconds until it is filled, about; `None` while that is not known.
    pub seconds_left: Option<u64>,
    /// Documents that could not be indexed, by the type of the field that they failed for.
    pub failures: Vec<(&'static str, u64)>,
}

impl IndexFigures {
    fn with_pace(self, paces: &Paces, number: &UniqueId) -> IndexFigures {
        let seconds_left = match self.keys_left {
            0 => Some(0),
            _ => paces.seconds_left(number),
        };
        IndexFigures { seconds_left, ..self }
    }
}

/// The figures of all indexes, in the order of their names.
pub fn figures(tx: &mut Transaction<'_>, catalogue: &Catalogue, paces: &Paces) -> Vec<IndexFigures> {
    let count = catalogue.indexes().count() + catalogue.key_indexes().count();
    let sample = (SAMPLE_OF_ALL / count.max(1) as u64).clamp(1, SAMPLE);
    let mut all = Vec::with_capacity(count);
    for index in catalogue.indexes() {
        let schema = &index.definition.schema;
        let kinds: Vec<_> = schema.fields().map(|(_, field)| field.kind.name()).collect();
        let figures = of_index(tx, index.as_ref(), "ft", &kinds, sample);
        all.push(figures.with_pace(paces, index.number()));
    }
    for index in catalogue.key_indexes() {
        let schema = &index.definition.schema;
        let kinds: Vec<_> = schema.fields().map(|(_, field)| field.kind.name()).collect();
        let figures = of_index(tx, index.as_ref(), "search", &kinds, sample);
        all.push(figures.with_pace(paces, index.number()));
    }
    all
}

/// The figures of an index. `kinds`: the types of its fields.
fn of_index(
    tx: &mut Transaction<'_>,
    index: &impl StoredIndex,
    commands: &'static str,
    kinds: &[&'static str],
    sample: u64,
) -> IndexFigures {
    let mut rows = TransactionRows {
        tx,
        prefix: index.rows_prefix(),
    };
    let state = State::read(&mut rows);
    let (start, end) = keys_range(0);
    let keys_left = index.progress(tx).map_or(0, |progress| {
        let keys = tx.count(&start, &end) as f64;
        (keys * (1.0 - progress.share())).ceil() as u64
    });
    let mut failures: Vec<(&'static str, u64)> = Vec::new();
    for (field, count) in Failures::read(tx, index.number()).by_field() {
        let kind = kinds.get(usize::from(field)).copied().unwrap_or(WHOLE);
        match failures.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, total)) => *total += count,
            None => failures.push((kind, count)),
        }
    }
    IndexFigures {
        name: index.name().to_vec(),
        commands,
        documents: state.documents,
        unsettled: state.unsettled(),
        stored_bytes: stored_bytes(tx, index, sample),
        keys_left,
        seconds_left: None,
        failures,
    }
}

/// The sizes of indexes as they were estimated, each with the state that it was estimated in. An
/// index whose documents and rows are as many, and whose last document is the same, is taken to
/// have the same size.
#[derive(Default)]
pub struct KnownSizes(Mutex<BTreeMap<UniqueId, (State, u64, u64)>>);

/// Sizes that are kept. Those of dropped indexes are forgotten with all others.
const SIZES_MAX: usize = 4096;

impl KnownSizes {
    /// Bytes of an index's rows, see [`stored_bytes`].
    pub fn of(&self, tx: &mut Transaction<'_>, index: &impl StoredIndex) -> u64 {
        let start = index.rows_prefix();
        let total = tx.count(&start, &next_prefix(&start));
        let state = State::read(&mut TransactionRows { tx, prefix: start });
        let figure = self.0.lock().get(index.number()).copied();
        if let Some((known_state, known_total, bytes)) = figure
            && (known_state, known_total) == (state, total)
        {
            return bytes;
        }
        let bytes = stored_bytes(tx, index, SAMPLE);
        let mut figures = self.0.lock();
        if figures.len() >= SIZES_MAX {
            figures.clear();
        }
        figures.insert(*index.number(), (state, total, bytes));
        bytes
    }
}

/// The name for documents that failed for other reasons than a field's value.
const WHOLE: &str = "DOCUMENT";

/// Bytes of an index's rows, from the lengths of at most about `sample` of them.
fn stored_bytes(tx: &mut Transaction<'_>, index: &impl StoredIndex, sample: u64) -> u64 {
    let start = index.rows_prefix();
    bytes_below(tx, &start, sample)
}

/// Approximate bytes of an index's rows with one of these tags.
pub fn bytes_of(tx: &mut Transaction<'_>, index: &impl StoredIndex, tags: &[u8], sample: u64) -> u64 {
    let sampled_bytes = |tag: &u8| {
        let start = [&index.rows_prefix()[..], &[*tag]].concat();
        bytes_below(tx, &start, sample)
    };
    tags.iter().map(sampled_bytes).sum()
}

/// Approximate bytes of the rows with a prefix.
fn bytes_below(tx: &mut Transaction<'_>, start: &[u8], sample: u64) -> u64 {
    let end = next_prefix(start);
    let total = tx.count(start, &end);
    let step = total.div_ceil(sample).max(1);
    let (mut bytes, mut read) = (0, 0);
    for at in (0..total).step_by(step as usize) {
        bytes += tx.nth(start, &end, at).as_ref().map_or(0, Row::stored_bytes);
        read += 1;
    }
    match read {
        0 => 0,
        read => (u128::from(bytes) * u128::from(total) / read) as u64,
    }
}
