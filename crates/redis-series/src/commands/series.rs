//! A series as commands find and change it.
//!
//! A change of samples changes the compactions in the same transaction.

use quartet_engine::UniqueId;
use quartet_layer_redis::module_api::{Context, Elements, Entry, ErrorReply, Header, Keyspace, WRONG_TYPE, Workspace};

use super::definition::{Definition, DuplicatePolicy, Labels, SERIES};
use super::rows::{Chunks, Rows, Tail, TimeRange};
use crate::Encoding;
use crate::chunk::Chunk;
use crate::codec::Sample;

/// The largest timestamp.
pub const LAST_TIMESTAMP: u64 = i64::MAX as u64;
pub const ABSENT: &str = "ERR TSDB: the key does not exist";
const TOO_OLD: &str = "ERR TSDB: Timestamp is older than retention";
const BLOCKED: &str = "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode";
const NAN: &str = "ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode, or \
                   either current or new value is NaN and DUPLICATE_POLICY is MAX/MIN/SUM";
/// A chunk that is larger by more than this part is split before a sample is inserted into it.
const SPLIT_FACTOR: f64 = 1.2;

/// A key with a series.
#[derive(Clone)]
pub struct Series {
    pub name: Vec<u8>,
    pub entry: Entry,
    pub definition: Definition,
}

/// The error for a key of another kind: the original puts its code before the code.
pub fn wrong_type() -> ErrorReply {
    format!("ERR {WRONG_TYPE}").into()
}

impl Series {
    /// The series of a key's row; `None` if it is of another kind.
    pub fn of_entry(name: &[u8], entry: Entry) -> Option<Series> {
        if entry.kind != SERIES {
            return None;
        }
        let definition = Definition::of_entry(&entry).expect("the row of a series");
        Some(Series {
            name: name.to_vec(),
            entry,
            definition,
        })
    }

    /// A key that a command reads.
    pub fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Series, ErrorReply> {
        let entry = context.read(name).ok_or(ABSENT)?;
        Series::of_entry(name, entry).ok_or_else(wrong_type)
    }

    /// A key that a command changes.
    pub fn to_change(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Series, ErrorReply> {
        let entry = context.keys().find(name).ok_or(ABSENT)?;
        Series::of_entry(name, entry).ok_or_else(wrong_type)
    }

    /// The series with this id of its elements, under any name.
    pub fn by_id(keys: &mut Keyspace<'_, '_>, id: &UniqueId) -> Option<Series> {
        let name = keys.name_by_id(id)?;
        let entry = keys.find(&name)?;
        Series::of_entry(&name, entry).filter(|series| series.id() == *id)
    }

    /// Creates a key, and finds it.
    pub fn create(keys: &mut Keyspace<'_, '_>, name: &[u8], definition: Definition, labels: &Labels) -> Series {
        let elements = keys.new_elements();
        definition.put(keys, name, elements.id(), Header::new(SERIES), labels);
        let entry = keys.find(name).expect("the key was just made");
        Series {
            name: name.to_vec(),
            entry,
            definition,
        }
    }

    /// Writes the changed definition with the labels that the key has.
    pub fn put(&mut self, keys: &mut Keyspace<'_, '_>) {
        let labels = Labels::of_entry(&self.entry);
        self.put_with(keys, &labels);
    }

    /// Writes the changed definition with other labels.
    pub fn put_with(&mut self, keys: &mut Keyspace<'_, '_>, labels: &Labels) {
        let header = Header::new(SERIES).expiry(self.entry.expiry_ms);
        self.definition.put(keys, &self.name, &self.id(), header, labels);
        self.entry = keys.find(&self.name).expect("the key was just written");
    }

    pub fn elements(&self) -> Elements {
        self.entry.elements()
    }

    /// The id that other series refer to this one by.
    pub fn id(&self) -> UniqueId {
        *self.entry.elements().id()
    }

    pub fn rows<'k, 't>(&self, keys: &'k mut Keyspace<'_, 't>) -> Rows<'k, 't> {
        Rows {
            tx: keys.tx,
            elements: self.elements(),
            encoding: self.definition.encoding,
        }
    }

    /// The last sample.
    pub fn last(&self, keys: &mut Keyspace<'_, '_>) -> Option<Sample> {
        let tail = self.rows(keys).tail();
        tail.map(|tail| tail.state.context.last)
    }

    /// The oldest timestamp that the retention keeps, counted from the last timestamp.
    pub fn oldest_kept(&self, last_timestamp: u64) -> u64 {
        match self.definition.retention_ms {
            0 => 0,
            retention_ms => last_timestamp.saturating_sub(retention_ms),
        }
    }
}

/// The outcome of an added sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was stored, and has this timestamp.
    Stored(u64),
    /// It is too close to the last sample, which has this timestamp.
    Ignored(u64),
}

/// Adds a sample by the series' policy for duplicates, or another. Compactions are the caller's
/// part.
pub fn add(
    keys: &mut Keyspace<'_, '_>,
    series: &Series,
    sample: Sample,
    policy: Option<DuplicatePolicy>,
) -> Result<(Added, Option<Sample>), &'static str> {
    let definition = &series.definition;
    let mut rows = series.rows(keys);
    let tail = rows.tail();
    let last = tail.map(|tail| tail.state.context.last);
    let last_timestamp = last.map_or(0, |last| last.timestamp);
    let age_ms = last_timestamp.saturating_sub(sample.timestamp);
    if definition.retention_ms > 0 && age_ms > definition.retention_ms {
        return Err(TOO_OLD);
    }
    let policy = policy.or(definition.policy).unwrap_or(DuplicatePolicy::Block);
    if let Some(last) = last
        && policy == DuplicatePolicy::Last
        && is_too_close(definition, last, sample)
    {
        return Ok((Added::Ignored(last.timestamp), Some(last)));
    }
    match tail {
        Some(tail) if sample.timestamp <= last_timestamp => {
            insert(&mut rows, definition, &tail, sample, policy)?;
        }
        tail => append(&mut rows, definition, tail.as_ref(), sample),
    }
    Ok((Added::Stored(sample.timestamp), last))
}

fn is_too_close(definition: &Definition, last: Sample, sample: Sample) -> bool {
    definition.source.is_none()
        && sample.timestamp >= last.timestamp
        && sample.timestamp - last.timestamp <= definition.ignored_ms
        && (sample.value - last.value).abs() <= definition.ignored_difference
}

/// Appends a later sample. A new chunk drops chunks older than the retention.
fn append(rows: &mut Rows<'_, '_>, definition: &Definition, tail: Option<&Tail>, sample: Sample) {
    if tail.is_some_and(|tail| rows.append(tail, sample)) {
        return;
    }
    if let Some(tail) = tail
        && definition.retention_ms > 0
    {
        let kept_from = tail
            .state
            .context
            .last
            .timestamp
            .saturating_sub(definition.retention_ms);
        drop_before(rows, kept_from);
    }
    rows.start_chunk(definition.chunk_bytes, sample);
}

/// Removes chunks that end before a timestamp.
fn drop_before(rows: &mut Rows<'_, '_>, kept_from: u64) {
    let mut chunks = Chunks::new(0, u64::MAX, false);
    let mut first_kept = None;
    while let Some(chunk) = chunks.next(rows) {
        if chunk.state.context.last.timestamp >= kept_from {
            first_kept = Some(chunk.state.first.timestamp);
            break;
        }
    }
    if let Some(first) = first_kept {
        rows.remove_before(first);
    }
}

/// Inserts a sample that is not later than the last.
fn insert(
    rows: &mut Rows<'_, '_>,
    definition: &Definition,
    tail: &Tail,
    sample: Sample,
    policy: DuplicatePolicy,
) -> Result<(), &'static str> {
    let encoding = definition.encoding;
    let from = sample.timestamp.min(tail.state.context.last.timestamp);
    let mut chunk = rows.chunk_around(from).expect("a series with a last sample");
    let mut samples = chunk.samples(encoding).expect("a chunk");
    let mut sample = sample;
    if let Ok(at) = samples.binary_search_by_key(&sample.timestamp, |sample| sample.timestamp) {
        sample.value = resolved(policy, samples[at].value, sample.value)?;
    }
    let old_first = chunk.state.first.timestamp;
    let is_to_split = f64::from(chunk.state.size) > f64::from(definition.chunk_bytes) * SPLIT_FACTOR;
    if is_to_split && samples.len() > 1 {
        let [first, second] = chunk.split(encoding, &samples);
        rows.write(&first);
        rows.write(&second);
        chunk = match sample.timestamp >= second.state.first.timestamp {
            true => second,
            false => first,
        };
        samples = chunk.samples(encoding).expect("a chunk");
    }
    let chunk_first = chunk.state.first.timestamp;
    match samples.binary_search_by_key(&sample.timestamp, |sample| sample.timestamp) {
        Ok(at) => samples[at] = sample,
        Err(at) => samples.insert(at, sample),
    }
    if chunk_first == old_first && sample.timestamp < old_first {
        rows.remove(old_first);
    }
    rows.write(&Chunk::of_samples(encoding, chunk.state.size, &samples));
    Ok(())
}

/// The value that stays of two with a timestamp.
fn resolved(policy: DuplicatePolicy, old: f64, new: f64) -> Result<f64, &'static str> {
    match policy {
        DuplicatePolicy::Block => Err(BLOCKED),
        DuplicatePolicy::First => Ok(old),
        DuplicatePolicy::Last => Ok(new),
        _ if old.is_nan() || new.is_nan() => Err(NAN),
        DuplicatePolicy::Minimum => Ok(if new < old { new } else { old }),
        DuplicatePolicy::Maximum => Ok(if new > old { new } else { old }),
        DuplicatePolicy::Sum => Ok(old + new),
    }
}

/// Removes the samples of `from..=to` and returns their number. Compactions are the caller's part.
pub fn delete(
    keys: &mut Keyspace<'_, '_>,
    series: &Series,
    TimeRange { from, to }: TimeRange,
    mut workspace: Workspace<'_>,
) -> Result<u64, ErrorReply> {
    if from > to {
        return Ok(0);
    }
    let encoding = series.definition.encoding;
    let mut rows = series.rows(keys);
    let mut chunks = Chunks::new(from, to, false);
    let mut deleted = 0;
    let mut removed_count = 0;
    while let Some(chunk) = chunks.next(&mut rows) {
        let state = &chunk.state;
        let (first, last) = (state.first.timestamp, state.context.last.timestamp);
        if last < from {
            continue;
        }
        if first >= from && last <= to {
            deleted += u64::from(state.count);
            rows.remove(first);
            continue;
        }
        let bytes = state.count as usize * size_of::<Sample>();
        if bytes > removed_count {
            workspace.take(bytes - removed_count)?;
            removed_count = bytes;
        }
        let mut samples = chunk.samples(encoding).expect("a chunk");
        samples.retain(|sample| !(from..=to).contains(&sample.timestamp));
        deleted += u64::from(state.count) - samples.len() as u64;
        if samples.len() < state.count as usize {
            rows.remove(first);
            if !samples.is_empty() {
                rows.write(&Chunk::of_samples(encoding, state.size, &samples));
            }
        }
    }
    Ok(deleted)
}

/// Figures of all chunks.
pub struct ChunkFigures {
    pub first: u64,
    pub last: u64,
    pub count: u64,
    pub size: u32,
}

/// Visits the chunks in their order.
pub fn each_chunk(keys: &mut Keyspace<'_, '_>, series: &Series, visit: &mut dyn FnMut(ChunkFigures)) {
    let mut rows = series.rows(keys);
    let mut chunks = Chunks::new(0, u64::MAX, false);
    while let Some(chunk) = chunks.next(&mut rows) {
        let state = &chunk.state;
        visit(ChunkFigures {
            first: state.first.timestamp,
            last: state.context.last.timestamp,
            count: state.count.into(),
            size: state.size,
        });
    }
}

/// Writes the samples of a whole series in place of those it has.
pub fn write_chunks(keys: &mut Keyspace<'_, '_>, series: &Series, chunks: &[Chunk]) {
    let mut rows = series.rows(keys);
    chunks.iter().for_each(|chunk| rows.write(chunk));
}

impl Default for Definition {
    fn default() -> Definition {
        Definition {
            encoding: Encoding::Compressed,
            policy: None,
            chunk_bytes: 4096,
            retention_ms: 0,
            ignored_ms: 0,
            ignored_difference: 0.0,
            source: None,
            rules: Vec::new(),
        }
    }
}
