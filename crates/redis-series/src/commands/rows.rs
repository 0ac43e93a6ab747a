//! Chunks as rows.
//!
//! ```text
//! 'E' id 'c' first timestamp (8), piece (2), big-endian
//!     up to PIECE_BYTES bytes of the chunk's data, then a state; only that of the last piece counts
//! ```
//!
//! So an appended sample is one patch: the bytes after the old data, with the new state. Chunks
//! are in the order of their first timestamps; a series without samples has none.

use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_layer_redis::module_api::{Elements, ErrorReply, Workspace};

use crate::chunk::{Chunk, State, append_samples};
use crate::codec::{Bits, Sample};
use crate::{Encoding, Malformed};

/// Bytes of data in a row. With the state it fits into an allocator's class of 1 KiB.
pub const PIECE_BYTES: usize = 912;
const TAG: u8 = b'c';
const NAME_BYTES: usize = 11;
const START: &[u8] = b"c";
const END: &[u8] = b"d";

type Name = [u8; NAME_BYTES];

fn name_of(first: u64, piece: usize) -> Name {
    let mut name = [TAG; NAME_BYTES];
    name[1..9].copy_from_slice(&first.to_be_bytes());
    name[9..].copy_from_slice(&(piece as u16).to_be_bytes());
    name
}

fn parsed(name: &[u8]) -> Option<(u64, usize)> {
    let [TAG, rest @ ..] = name else { return None };
    let (first, piece) = rest.split_first_chunk::<8>()?;
    Some((
        u64::from_be_bytes(*first),
        u16::from_be_bytes(piece.try_into().ok()?).into(),
    ))
}

/// The name of a row's chunk and piece, which a version has written.
fn place(name: &[u8]) -> (u64, usize) {
    parsed(name).expect("the name of a piece")
}

fn split_state(first: u64, value: &[u8]) -> Result<(&[u8], State), Malformed> {
    let data_bytes = value.len().checked_sub(State::BYTES).ok_or(Malformed)?;
    let (data, state) = value.split_at(data_bytes);
    Ok((data, State::from_bytes(state, first)?))
}

/// Returns the first timestamp and the piece's number, if a version could have written the row.
pub fn check_piece(name: &[u8], value: &[u8]) -> Option<(u64, usize)> {
    let (first, piece) = parsed(name)?;
    let (data, state) = split_state(first, value).ok()?;
    let is_sound = data.len() <= PIECE_BYTES && state.first.timestamp <= state.context.last.timestamp;
    is_sound.then_some((first, piece))
}

/// The last chunk's state, and its last piece.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    pub state: State,
    piece: usize,
    /// The last byte of the data, if it is not full.
    partial: u8,
}

/// The rows of a series.
pub struct Rows<'k, 't> {
    pub tx: &'k mut Transaction<'t>,
    pub elements: Elements,
    pub encoding: Encoding,
}

impl Rows<'_, '_> {
    /// The end of the series; `None`: it has no samples.
    pub fn tail(&mut self) -> Option<Tail> {
        let row = self.elements.last(self.tx, START, Some(END))?;
        let (first, piece) = place(Elements::name(&row));
        let (data, state) = split_state(first, row.value()).expect("a piece of a chunk");
        Some(Tail {
            state,
            piece,
            partial: data.last().copied().unwrap_or_default(),
        })
    }

    /// Appends a later sample to the last chunk, unless it is full.
    pub fn append(&mut self, tail: &Tail, sample: Sample) -> bool {
        let mut state = tail.state;
        let used = state.bits as usize % 8;
        let mut bits = Bits::default();
        if used > 0 {
            bits = Bits {
                bytes: vec![tail.partial],
                count: used,
            };
        }
        let start = state.bits as usize / 8;
        if !state.push(self.encoding, sample, &mut bits) {
            return false;
        }
        let first = state.first.timestamp;
        let state_bytes = state.to_bytes();
        let offset = start.saturating_sub(tail.piece * PIECE_BYTES);
        let (part, next) = bits.bytes.split_at(bits.bytes.len().min(PIECE_BYTES - offset));
        if !part.is_empty() {
            let bytes = [part, &state_bytes].concat();
            self.elements
                .patch(self.tx, &name_of(first, tail.piece), offset, &bytes);
        }
        if !next.is_empty() {
            let bytes = [next, &state_bytes].concat();
            self.elements.set(self.tx, &name_of(first, tail.piece + 1), &bytes);
        }
        true
    }

    /// Starts a chunk after the last.
    pub fn start_chunk(&mut self, size: u32, sample: Sample) {
        let (state, bits) = State::start(self.encoding, size, sample);
        self.write(&Chunk {
            state,
            data: bits.bytes,
        });
    }

    /// Writes a chunk in place of the one with its first timestamp.
    pub fn write(&mut self, chunk: &Chunk) {
        let first = chunk.state.first.timestamp;
        let state_bytes = chunk.state.to_bytes();
        let pieces = chunk.data.len().div_ceil(PIECE_BYTES).max(1);
        for piece in 0..pieces {
            let start = piece * PIECE_BYTES;
            let data = &chunk.data[start..chunk.data.len().min(start + PIECE_BYTES)];
            self.elements
                .set(self.tx, &name_of(first, piece), &[data, &state_bytes].concat());
        }
        let (start, end) = (name_of(first, pieces), name_of(first.saturating_add(1), 0));
        self.elements.clear_range(self.tx, &start, Some(&end));
    }

    /// Removes the chunk with this first timestamp.
    pub fn remove(&mut self, first: u64) {
        let (start, end) = (name_of(first, 0), name_of(first.saturating_add(1), 0));
        self.elements.clear_range(self.tx, &start, Some(&end));
    }

    /// Removes the chunks before the one with this first timestamp.
    pub fn remove_before(&mut self, first: u64) {
        self.elements.clear_range(self.tx, START, Some(&name_of(first, 0)));
    }

    /// The chunk with a timestamp, or the first one if all are later.
    pub fn chunk_around(&mut self, timestamp: u64) -> Option<Chunk> {
        let mut chunks = Chunks::new(timestamp, u64::MAX, false);
        chunks.next(self)
    }
}

/// Chunks in their order or against it, one at a time.
pub struct Chunks {
    start: Option<Name>,
    end: Option<Name>,
    from: u64,
    is_reverse: bool,
    is_done: bool,
    has_start: bool,
}

impl Chunks {
    /// Chunks that may have samples of `from..=to`: the first may end before them.
    pub fn new(from: u64, to: u64, is_reverse: bool) -> Chunks {
        Chunks {
            start: None,
            end: (to < u64::MAX).then(|| name_of(to + 1, 0)),
            from,
            is_reverse,
            is_done: false,
            has_start: false,
        }
    }

    /// The start of the chunk with `from`, once for all calls.
    fn find_start(&mut self, rows: &mut Rows<'_, '_>) {
        if self.has_start {
            return;
        }
        self.has_start = true;
        let behind = name_of(self.from.saturating_add(1), 0);
        let before = rows.elements.last(rows.tx, START, Some(&behind));
        self.start = before.map(|row| name_of(place(Elements::name(&row)).0, 0));
    }

    /// The next chunk.
    pub fn next(&mut self, rows: &mut Rows<'_, '_>) -> Option<Chunk> {
        if self.is_done {
            return None;
        }
        self.find_start(rows);
        let mut gathered = Gathered::new(self.is_reverse);
        let start = self.start.as_ref().map_or(START, |name| name.as_slice());
        let end = self.end.as_ref().map_or(END, |name| name.as_slice());
        if start < end {
            rows.elements
                .scan(rows.tx, start, Some(end), self.is_reverse, &mut |name, value| {
                    let (first, piece) = place(name);
                    gathered.add(first, piece, value)
                });
        }
        let chunk = gathered.chunk();
        match &chunk {
            None => self.is_done = true,
            Some(chunk) if self.is_reverse => self.end = Some(name_of(chunk.state.first.timestamp, 0)),
            Some(chunk) => self.start = Some(name_of(chunk.state.first.timestamp + 1, 0)),
        }
        chunk
    }
}

/// The pieces of a chunk, in their order.
struct Gathered {
    is_reverse: bool,
    first: Option<u64>,
    state: Option<State>,
    pieces: Vec<Vec<u8>>,
}

impl Gathered {
    fn new(is_reverse: bool) -> Gathered {
        Gathered {
            is_reverse,
            first: None,
            state: None,
            pieces: Vec::new(),
        }
    }

    fn add(&mut self, first: u64, piece: usize, value: &[u8]) -> ControlFlow<()> {
        if self.first.is_some_and(|known| known != first) {
            return ControlFlow::Break(());
        }
        self.first = Some(first);
        let (data, state) = split_state(first, value).expect("a piece of a chunk");
        if !self.is_reverse || self.state.is_none() {
            self.state = Some(state);
        }
        self.pieces.push(data.to_vec());
        match self.is_reverse && piece == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn chunk(mut self) -> Option<Chunk> {
        let state = self.state?;
        if self.is_reverse {
            self.pieces.reverse();
        }
        let data = match &mut self.pieces[..] {
            [only] => std::mem::take(only),
            pieces => pieces.concat(),
        };
        Some(Chunk { state, data })
    }
}

/// Timestamps, both included.
#[derive(Clone, Copy)]
pub struct TimeRange {
    pub from: u64,
    pub to: u64,
}

/// The samples of chunks, one block at a time, with a limit on their memory.
pub struct Blocks<'m> {
    chunks: Chunks,
    from: u64,
    to: u64,
    workspace: Workspace<'m>,
    taken: usize,
}

impl<'m> Blocks<'m> {
    pub fn new(TimeRange { from, to }: TimeRange, is_reverse: bool, workspace: Workspace<'m>) -> Blocks<'m> {
        Blocks {
            chunks: Chunks::new(from, to, is_reverse),
            from,
            to,
            workspace,
            taken: 0,
        }
    }

    /// The samples of the next chunk that are in the range, in the order of the chunks; `None` at
    /// the end.
    pub fn next(&mut self, rows: &mut Rows<'_, '_>) -> Result<Option<Vec<Sample>>, ErrorReply> {
        let Some(chunk) = self.chunks.next(rows) else {
            return Ok(None);
        };
        let bytes = chunk.state.count as usize * size_of::<Sample>() + chunk.data.len();
        if bytes > self.taken {
            self.workspace.take(bytes - self.taken)?;
            self.taken = bytes;
        }
        let mut samples = Vec::with_capacity(chunk.state.count as usize);
        append_samples(rows.encoding, &chunk.state, &chunk.data, &mut samples).expect("a chunk");
        let end = samples.partition_point(|sample| sample.timestamp <= self.to);
        samples.truncate(end);
        let start = samples.partition_point(|sample| sample.timestamp < self.from);
        samples.drain(..start);
        if self.chunks.is_reverse {
            samples.reverse();
        }
        Ok(Some(samples))
    }
}
