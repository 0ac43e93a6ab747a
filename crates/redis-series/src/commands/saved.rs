//! A series as RedisTimeSeries saves it: in dumps and RDB files.
//!
//! ```text
//! name, retention, chunk bytes, options, last timestamp, last value, samples, duplicate policy,
//! source: 1 and its name, or 0; ignored time, ignored difference, labels: count, pairs
//! rules: count, (destination, bucket, alignment, aggregator, start, [valid since version 9], state)
//! chunks: count, then of each compressed chunk:
//!   size, samples, bits, first value, first timestamp, last timestamp, last difference, last value,
//!   leading and trailing zeros, data of `size` bytes
//! of each uncompressed one: first timestamp, samples, size, data of `size` bytes
//! ```
//!
//! References to other series are in files, and not in dumps, as at the original.

use quartet_layer_redis::module_api::Keyspace;
use quartet_wire_rdb::Part;
use quartet_wire_rdb::series::Series as Saved;

use super::definition::{Definition, DuplicatePolicy, Labels, Rule, labels_of};
use super::gatherings::{self, Gathering};
use super::references::{NamedRule, References, link};
use super::rows::Chunks;
use super::series::{LAST_TIMESTAMP, Series, write_chunks};
use crate::aggregation::{Accumulator, Aggregator, Figure};
use crate::chunk::{Chunk, State, check};
use crate::codec::{Context, Sample};
use crate::{Encoding, Malformed};

const UNCOMPRESSED: u64 = 1;
const COMPRESSED: u64 = 2;
const SAMPLE_BYTES: usize = 16;
const NO_BUCKET: u64 = u64::MAX;
/// Largest chunk. The original makes none beyond a few megabytes.
const CHUNK_BYTES_MAX: u32 = 64 << 20;

fn number(number: u64) -> Part {
    Part::Number(number)
}

fn text(text: &[u8]) -> Part {
    Part::Text(text.to_vec())
}

/// The references of a series, by the present names.
pub fn references(keys: &mut Keyspace<'_, '_>, series: &Series) -> References {
    let source = gatherings::source(keys, series).map(|(source, _)| source.name);
    let mut named = Vec::new();
    for rule in &series.definition.rules {
        if let Some(destination) = gatherings::destination(keys, series, rule) {
            named.push(NamedRule {
                destination: destination.name,
                rule: *rule,
                gathering: gatherings::gathering(keys, series, rule),
            });
        }
    }
    References { source, rules: named }
}

fn save_rules(rules: &[NamedRule], parts: &mut Vec<Part>) {
    parts.push(number(rules.len() as u64));
    for NamedRule {
        destination,
        rule,
        gathering,
    } in rules
    {
        parts.extend([
            text(destination),
            number(rule.bucket_ms),
            number(rule.alignment),
            number(rule.aggregator as u64),
            number(gathering.start.unwrap_or(NO_BUCKET)),
        ]);
        parts.extend(gathering.accumulator.figures().into_iter().map(|figure| match figure {
            Figure::Double(double) => Part::Double(double),
            Figure::Number(figure) => number(figure),
        }));
    }
}

/// The parts of a series with these references.
pub fn save(keys: &mut Keyspace<'_, '_>, series: &Series, references: &References) -> Saved {
    let definition = &series.definition;
    let mut rows = series.rows(keys);
    let mut chunks = Chunks::new(0, u64::MAX, false);
    let (mut chunk_count, mut samples, mut last) = (0, 0, Sample::default());
    let mut of_chunks = Vec::new();
    while let Some(chunk) = chunks.next(&mut rows) {
        chunk_count += 1;
        samples += u64::from(chunk.state.count);
        last = chunk.state.context.last;
        save_chunk(definition.encoding, chunk, &mut of_chunks);
    }
    if chunk_count == 0 {
        chunk_count = 1;
        save_empty_chunk(definition, &mut of_chunks);
    }
    let options = match definition.encoding {
        Encoding::Compressed => COMPRESSED,
        Encoding::Uncompressed => UNCOMPRESSED,
    };
    let labels = labels_of(&series.entry);
    let mut parts = vec![
        text(&series.name),
        number(definition.retention_ms),
        number(definition.chunk_bytes.into()),
        number(options),
        number(last.timestamp),
        Part::Double(last.value),
        number(samples),
        number(definition.policy.map_or(0, |policy| policy as u64)),
        number(references.source.is_some().into()),
    ];
    parts.extend(references.source.iter().map(|source| text(source)));
    parts.extend([
        number(definition.ignored_ms),
        Part::Double(definition.ignored_difference),
        number(labels.len() as u64),
    ]);
    for (label, value) in labels {
        parts.extend([text(label), text(value)]);
    }
    save_rules(&references.rules, &mut parts);
    parts.push(number(chunk_count));
    parts.extend(of_chunks);
    Saved::new(parts)
}

fn save_chunk(encoding: Encoding, chunk: Chunk, parts: &mut Vec<Part>) {
    let Chunk { state, mut data } = chunk;
    let context = &state.context;
    match encoding {
        Encoding::Compressed => {
            data.resize(state.size as usize, 0);
            parts.extend([
                number(state.size.into()),
                number(state.count.into()),
                number(state.bits.into()),
                number(state.first.value.to_bits()),
                number(state.first.timestamp),
                number(context.last.timestamp),
                number(context.delta),
                number(context.last.value.to_bits()),
                number(context.zeros.0.into()),
                number(context.zeros.1.into()),
                Part::Text(data),
            ]);
        }
        Encoding::Uncompressed => {
            let size = state.size as usize;
            data.resize(size.max(data.len()), 0);
            parts.extend([
                number(state.first.timestamp),
                number(state.count.into()),
                number(data.len() as u64),
                Part::Text(data),
            ]);
        }
    }
}

fn save_empty_chunk(definition: &Definition, parts: &mut Vec<Part>) {
    let size = definition.chunk_bytes;
    let data = Part::Text(vec![0; size as usize]);
    match definition.encoding {
        Encoding::Compressed => {
            parts.extend([number(size.into())].into_iter().chain((0..7).map(|_| number(0))));
            parts.extend([number(32), number(32), data]);
        }
        Encoding::Uncompressed => parts.extend([number(0), number(0), number(size.into()), data]),
    }
}

/// A series that was saved.
pub struct Restored {
    definition: Definition,
    labels: Labels,
    chunks: Vec<Chunk>,
    references: References,
}

struct Parts<'p>(std::slice::Iter<'p, Part>);

impl<'p> Parts<'p> {
    fn number(&mut self) -> Result<u64, Malformed> {
        match self.0.next() {
            Some(Part::Number(number)) => Ok(*number),
            _ => Err(Malformed),
        }
    }

    fn double(&mut self) -> Result<f64, Malformed> {
        match self.0.next() {
            Some(Part::Double(double)) => Ok(*double),
            _ => Err(Malformed),
        }
    }

    fn text(&mut self) -> Result<&'p [u8], Malformed> {
        match self.0.next() {
            Some(Part::Text(text)) => Ok(text),
            _ => Err(Malformed),
        }
    }

    fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }
}

/// Reads a series and verifies all of its chunks.
pub fn read(saved: &Saved) -> Result<Restored, Malformed> {
    let version = saved.version;
    let mut parts = Parts(saved.parts.iter());
    parts.text()?;
    let retention_ms = parts.number()?;
    let chunk_bytes = parts.small()?;
    let options = parts.number()?;
    let encoding = match options & UNCOMPRESSED {
        0 => Encoding::Compressed,
        _ => Encoding::Uncompressed,
    };
    parts.number()?;
    parts.double()?;
    parts.number()?;
    let policy = match if version >= 3 { parts.number()? } else { 0 } {
        0 => None,
        number => Some(DuplicatePolicy::numbered(number).ok_or(Malformed)?),
    };
    let mut references = References::default();
    if parts.number()? != 0 {
        references.source = Some(parts.text()?.to_vec()).filter(|source| !source.is_empty());
    }
    let (ignored_ms, ignored_difference) = match version >= 8 {
        true => (parts.number()?, parts.double()?),
        false => (0, 0.0),
    };
    let mut labels = Labels::default();
    for _ in 0..parts.number()? {
        let (label, value) = (parts.text()?, parts.text()?);
        if label.is_empty() {
            return Err(Malformed);
        }
        labels.0.push((label.to_vec(), value.to_vec()));
    }
    for _ in 0..parts.number()? {
        references.rules.push(read_rule(&mut parts, version)?);
    }
    let mut chunks = Vec::new();
    for _ in 0..parts.number()? {
        let chunk = match encoding {
            Encoding::Compressed => read_compressed(&mut parts)?,
            Encoding::Uncompressed => read_uncompressed(&mut parts)?,
        };
        chunks.extend(chunk);
    }
    let is_at_end = parts.0.next().is_none();
    let is_sound = (1..=CHUNK_BYTES_MAX).contains(&chunk_bytes)
        && chunk_bytes.is_multiple_of(8)
        && retention_ms <= LAST_TIMESTAMP
        && ignored_ms <= LAST_TIMESTAMP
        && is_at_end
        && rises(encoding, &chunks)?;
    let definition = Definition {
        encoding,
        policy,
        chunk_bytes,
        retention_ms,
        ignored_ms,
        ignored_difference,
        source: None,
        rules: Vec::new(),
    };
    let restored = Restored {
        definition,
        labels,
        chunks,
        references,
    };
    is_sound.then_some(restored).ok_or(Malformed)
}

/// Checks every chunk, and that each starts after the last.
fn rises(encoding: Encoding, chunks: &[Chunk]) -> Result<bool, Malformed> {
    for chunk in chunks {
        check(encoding, chunk)?;
    }
    let ends = |chunk: &Chunk| (chunk.state.first.timestamp, chunk.state.context.last.timestamp);
    Ok(chunks.windows(2).all(|pair| ends(&pair[0]).1 < ends(&pair[1]).0))
}

fn read_rule(parts: &mut Parts<'_>, version: u64) -> Result<NamedRule, Malformed> {
    // Older states have other parts, and no server that is left writes them.
    if version < 7 {
        return Err(Malformed);
    }
    let destination = parts.text()?.to_vec();
    let (bucket_ms, alignment) = (parts.number()?, parts.number()?);
    let aggregator = Aggregator::numbered(parts.number()?).ok_or(Malformed)?;
    let start = Some(parts.number()?).filter(|start| *start != NO_BUCKET);
    let has_values = if version >= 9 {
        parts.number()? != 0
    } else {
        start.is_some()
    };
    if !(1..=LAST_TIMESTAMP).contains(&bucket_ms) || alignment > LAST_TIMESTAMP {
        return Err(Malformed);
    }
    let mut next = || match parts.0.next()? {
        Part::Number(number) => Some(Figure::Number(*number)),
        Part::Double(double) => Some(Figure::Double(*double)),
        Part::Text(_) => None,
    };
    let accumulator = Accumulator::of_figures(aggregator, !has_values, &mut next)?;
    Ok(NamedRule {
        destination,
        rule: Rule {
            destination: Default::default(),
            aggregator,
            bucket_ms,
            alignment,
        },
        gathering: Gathering { start, accumulator },
    })
}

fn is_whole(data: &[u8], size: u32) -> bool {
    data.len() == size as usize && size <= CHUNK_BYTES_MAX
}

/// Reads a chunk; `None`: it is empty.
fn read_compressed(parts: &mut Parts<'_>) -> Result<Option<Chunk>, Malformed> {
    let (size, count, bits) = (parts.small()?, parts.small()?, parts.small()?);
    let first_value = f64::from_bits(parts.number()?);
    let first = Sample {
        timestamp: parts.number()?,
        value: first_value,
    };
    let last_timestamp = parts.number()?;
    let delta = parts.number()?;
    let last = Sample {
        timestamp: last_timestamp,
        value: f64::from_bits(parts.number()?),
    };
    let zeros = (parts.number()?, parts.number()?);
    let data = parts.text()?;
    if count == 0 {
        return Ok(None);
    }
    let is_sound = is_whole(data, size) && zeros.0 <= 64 && zeros.1 <= 64 && zeros.0 + zeros.1 <= 64;
    let state = State {
        size,
        count,
        bits,
        first,
        context: Context {
            last,
            delta,
            zeros: (zeros.0 as u8, zeros.1 as u8),
        },
    };
    let used = data.get(..state.data_bytes()).filter(|_| is_sound && count / 4 <= bits);
    let mut data = used.ok_or(Malformed)?.to_vec();
    // Bits after the last are zeros, for the next sample.
    if let Some(last) = data.last_mut().filter(|_| bits % 8 > 0) {
        *last &= (1 << (bits % 8)) - 1;
    }
    Ok(Some(Chunk { state, data }))
}

fn read_uncompressed(parts: &mut Parts<'_>) -> Result<Option<Chunk>, Malformed> {
    parts.number()?;
    let (count, size) = (parts.small()?, parts.small()?);
    let data = parts.text()?;
    if count == 0 {
        return Ok(None);
    }
    let used = data
        .get(..count as usize * SAMPLE_BYTES)
        .filter(|_| is_whole(data, size));
    let used = used.ok_or(Malformed)?;
    let number = |at: usize| u64::from_le_bytes(used[at..at + 8].try_into().expect("eight bytes"));
    let sample = |at: usize| Sample {
        timestamp: number(at),
        value: f64::from_bits(number(at + 8)),
    };
    let (first, last) = (sample(0), sample(used.len() - SAMPLE_BYTES));
    let state = State {
        size,
        count,
        bits: used.len() as u32 * 8,
        first,
        context: Context {
            last,
            ..Context::of_first(first)
        },
    };
    Ok(Some(Chunk {
        state,
        data: used.to_vec(),
    }))
}

/// Creates a key with a series that was saved, and links it with the series that it refers to.
pub fn restore(keys: &mut Keyspace<'_, '_>, name: &[u8], restored: Restored) {
    let Restored {
        definition,
        labels,
        chunks,
        references,
    } = restored;
    let mut series = Series::create(keys, name, definition, &labels);
    write_chunks(keys, &series, &chunks);
    link(keys, &mut series, references);
}
