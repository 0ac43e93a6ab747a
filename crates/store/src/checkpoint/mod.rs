//! A snapshot as a stream of bytes, and back: the form of checkpoints, backups and a new replica's
//! first copy.
//!
//! ```text
//! header  "QUARTETC" | format version u32 | version u64 | log sequence u64 | crc u32
//! block   1 u8 | payload bytes u32 | crc u32 | payload: rows, each
//!             version u64 | key bytes u32 | value bytes u32 | key | value
//! ...
//! footer  2 u8 | payload bytes u32 | crc u32 | payload: row count u64 | state hash u128
//! ```
//!
//! All numbers are little-endian. A crc (CRC-32, IEEE) covers everything of its part except itself:
//! for the header the bytes before it, for a block or footer the tag, the length and the payload.
//! Rows ascend strictly by key over the whole stream, a block is closed once it holds 64 KiB, and
//! nothing follows the footer.
//!
//! The crcs find damage where it is; order, count and the state hash find blocks lost, repeated or
//! exchanged. Reading trusts no length: memory grows only as bytes arrive. A reader may see rows
//! before damage further on is found, so it must throw away what it gathered when the answer is an
//! error.

pub(crate) mod files;

use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use quartet_model::{LogSequence, Version, format};

use crate::hash::StateHasher;
use crate::interface::Snapshot;
pub use crate::open_error::CheckpointError;
use crate::position::Position;
use crate::row::Row;

/// A summary of the rows written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// The point of history of the rows.
    pub position: Position,
    /// The number of rows.
    pub rows: u64,
    /// Length of the whole stream, header and footer included.
    pub bytes: u64,
    /// As [`state_hash`](crate::state_hash) of the snapshot.
    pub state_hash: u128,
}

const MAGIC: &[u8; 8] = b"QUARTETC";
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const TAG_ROWS: u8 = 1;
pub(crate) const TAG_FOOTER: u8 = 2;
pub(crate) const FRAME_BYTES: usize = 9;
/// The header of a part: tag, length, checksum of its payload.
pub(crate) type FrameBytes = [u8; FRAME_BYTES];
pub(crate) const FOOTER_BYTES: usize = 24;
pub(crate) const ROW_HEADER_BYTES: usize = 16;
/// A block is closed once it reaches this; a large row makes a larger block.
const BLOCK_BYTES: usize = 64 * 1024;
/// No block is larger: twice the longest value and more.
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 30;

/// Writes all rows of the snapshot to `out`, without a flush or sync; calls `progress` with the
/// number of rows written after each block.
pub fn write(
    snapshot: impl Snapshot,
    position: Position,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> io::Result<CheckpointSummary> {
    let mut writer = Writer {
        out,
        bytes: 0,
        payload: Vec::new(),
        rows: 0,
        hasher: StateHasher::new(),
    };
    writer.header(position)?;
    let mut result = Ok(());
    let drained = snapshot.drain(&mut |row| {
        result = writer.row(row, progress);
        if result.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    result?;
    drained.map_err(io::Error::other)?;
    writer.finish(position, progress)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
    payload: Vec<u8>,
    rows: u64,
    hasher: StateHasher,
}

impl Writer<'_> {
    fn header(&mut self, position: Position) -> io::Result<()> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&format::written().to_le_bytes());
        header.extend_from_slice(&position.version.0.to_le_bytes());
        header.extend_from_slice(&position.sequence.0.to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        self.put(&header)
    }

    fn row(&mut self, row: &Row, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let (key, value) = (row.key(), row.value());
        let bytes = ROW_HEADER_BYTES + key.len() + value.len();
        if bytes > BLOCK_BYTES_MAX - BLOCK_BYTES {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a row too large for a checkpoint",
            ));
        }
        self.payload.extend_from_slice(&row.version().0.to_le_bytes());
        self.payload.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.payload.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.payload.extend_from_slice(key);
        self.hasher.push(row);
        self.rows += 1;
        if self.payload.len() + value.len() >= BLOCK_BYTES {
            return self.block(value, progress);
        }
        self.payload.extend_from_slice(value);
        Ok(())
    }

    /// Writes the gathered rows as a block; `last_value`, which is its end, is not copied.
    fn block(&mut self, last_value: &[u8], progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let payload = std::mem::take(&mut self.payload);
        self.part(TAG_ROWS, &payload, last_value)?;
        self.payload = payload;
        self.payload.clear();
        progress(self.rows);
        Ok(())
    }

    fn finish(mut self, position: Position, progress: &mut dyn FnMut(u64)) -> io::Result<CheckpointSummary> {
        if !self.payload.is_empty() {
            self.block(&[], progress)?;
        }
        let state_hash = self.hasher.finish();
        let mut footer = [0; FOOTER_BYTES];
        footer[..8].copy_from_slice(&self.rows.to_le_bytes());
        footer[8..].copy_from_slice(&state_hash.to_le_bytes());
        self.part(TAG_FOOTER, &footer, &[])?;
        Ok(CheckpointSummary {
            position,
            rows: self.rows,
            bytes: self.bytes,
            state_hash,
        })
    }

    fn part(&mut self, tag: u8, payload: &[u8], tail: &[u8]) -> io::Result<()> {
        let mut frame = [0; FRAME_BYTES];
        frame[0] = tag;
        frame[1..5].copy_from_slice(&((payload.len() + tail.len()) as u32).to_le_bytes());
        let crc = crc_of_part(&frame, payload, tail);
        frame[5..].copy_from_slice(&crc.to_le_bytes());
        self.put(&frame)?;
        self.put(payload)?;
        self.put(tail)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// Reads a checkpoint to its end and passes every row to `sink` in strictly ascending order of
/// keys; calls `progress` with the number of rows read, at intervals. After an error the rows
/// passed before are invalid.
///
/// Blocks are read and verified on a separate thread, while this thread builds the rows of earlier
/// blocks.
pub fn read(
    input: &mut (dyn Read + Send),
    sink: &mut dyn FnMut(Row),
    progress: &mut dyn FnMut(u64),
) -> Result<CheckpointSummary, CheckpointError> {
    // Nothing waits between the two: what is being verified and what is being taken apart is all
    // there is in memory.
    let (give, verified) = sync_channel(0);
    let (give_back, used) = channel();
    std::thread::scope(|scope| {
        let verify = move || Verifier::new(input).run(&give, &used);
        let verifying = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn_scoped(scope, verify)
            .map_err(|source| CheckpointError::Input { offset: 0, source })?;
        let mut rows = 0;
        for blocks in verified {
            let mut unread: &[u8] = &blocks;
            while let Some((row, behind)) = parse_row(unread) {
                unread = behind;
                rows += 1;
                sink(row);
            }
            progress(rows);
            // Fails harmlessly at the end, when the reader has stopped.
            let _ = give_back.send(blocks);
        }
        verifying
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Reads only the header: which point of history a checkpoint claims to hold, its content
/// unverified.
pub fn read_position(input: &mut dyn Read) -> Result<Position, CheckpointError> {
    Reader::new(input).header()
}

struct Reader<'a> {
    input: &'a mut dyn Read,
    /// Bytes read, and the start of the current part.
    offset: u64,
    part: u64,
    /// Payloads of the parts that were read, one after the other.
    payload: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(input: &'a mut dyn Read) -> Reader<'a> {
        Reader {
            input,
            offset: 0,
            part: 0,
            payload: Vec::new(),
        }
    }

    fn header(&mut self) -> Result<Position, CheckpointError> {
        let header: [u8; HEADER_BYTES] = self.array()?;
        if &header[..8] != MAGIC {
            return Err(self.damaged("no checkpoint's first bytes"));
        }
        if crc32fast::hash(&header[..28]) != u32_at(&header, 28) {
            return Err(self.damaged("a wrong checksum"));
        }
        match u32_at(&header, 8) {
            format if format::is_read(format) => {}
            other => return Err(CheckpointError::UnknownFormat(other)),
        }
        Ok(Position {
            version: Version(u64_at(&header, 12)),
            sequence: LogSequence(u64_at(&header, 20)),
        })
    }

    /// Reads the next block or footer and verifies its checksum; returns its tag, and its start in
    /// `payload`.
    fn part(&mut self) -> Result<(u8, usize), CheckpointError> {
        self.part = self.offset;
        let frame: FrameBytes = self.array()?;
        let (tag, bytes) = (frame[0], u32_at(&frame, 1) as usize);
        if tag != TAG_ROWS && tag != TAG_FOOTER {
            return Err(self.damaged("neither a block nor a footer"));
        }
        if bytes > BLOCK_BYTES_MAX {
            return Err(self.damaged("an impossible length"));
        }
        let start = self.payload.len();
        self.fill(bytes)?;
        if crc_of_part(&frame, &self.payload[start..], &[]) != u32_at(&frame, 5) {
            return Err(self.damaged("a wrong checksum"));
        }
        Ok((tag, start))
    }

    fn footer(&mut self, footer: &[u8], rows: u64, state_hash: u128) -> Result<(), CheckpointError> {
        let Ok(footer) = <[u8; FOOTER_BYTES]>::try_from(footer) else {
            return Err(self.damaged("a footer of a wrong length"));
        };
        if u64_at(&footer, 0) != rows {
            return Err(self.damaged("a row count unlike the rows"));
        }
        if footer[8..] != state_hash.to_le_bytes() {
            return Err(self.damaged("a state hash unlike the rows"));
        }
        self.part = self.offset;
        match self.some_bytes(1)? {
            0 => Ok(()),
            _ => Err(self.damaged("bytes behind the footer")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CheckpointError> {
        let start = self.payload.len();
        self.fill(N)?;
        let array = self.payload[start..].try_into();
        self.payload.truncate(start);
        Ok(array.expect("as many bytes as were asked for"))
    }

    /// Reads exactly `bytes` bytes to the end of `payload`.
    fn fill(&mut self, bytes: usize) -> Result<(), CheckpointError> {
        match self.some_bytes(bytes)? {
            read if read == bytes => Ok(()),
            _ => Err(self.damaged("a sudden end")),
        }
    }

    /// Reads `bytes` bytes, or up to the end of the input, to the end of `payload`, which grows as
    /// they arrive.
    fn some_bytes(&mut self, bytes: usize) -> Result<usize, CheckpointError> {
        let read = (&mut *self.input).take(bytes as u64).read_to_end(&mut self.payload);
        let read = read.map_err(|source| CheckpointError::Input {
            offset: self.offset,
            source,
        })?;
        self.offset += read as u64;
        Ok(read)
    }

    fn damaged(&self, what: &'static str) -> CheckpointError {
        CheckpointError::Damaged {
            offset: self.part,
            what,
        }
    }
}

/// Bytes of blocks that are passed on together; a larger block is passed on by itself.
const GIVEN_BYTES: usize = 1 << 20;

/// Reads blocks, and watches over what spans them.
struct Verifier<'a> {
    reader: Reader<'a>,
    rows: u64,
    last_key: Vec<u8>,
    hasher: StateHasher,
}

impl<'a> Verifier<'a> {
    fn new(input: &'a mut (dyn Read + Send)) -> Verifier<'a> {
        Verifier {
            reader: Reader::new(input),
            rows: 0,
            last_key: Vec::new(),
            hasher: StateHasher::new(),
        }
    }

    /// Passes on sound blocks, and receives used buffers.
    fn run(
        mut self,
        give: &SyncSender<Vec<u8>>,
        used: &Receiver<Vec<u8>>,
    ) -> Result<CheckpointSummary, CheckpointError> {
        let position = self.reader.header()?;
        loop {
            let (tag, start) = self.reader.part()?;
            if tag == TAG_FOOTER {
                let footer = self.reader.payload.split_off(start);
                return self.end(position, &footer, give);
            }
            self.block(start).map_err(|reason| self.reader.damaged(reason))?;
            if self.reader.payload.len() >= GIVEN_BYTES {
                let mut next = used.try_recv().unwrap_or_default();
                next.clear();
                // A dropped receiver has failed on its side.
                let _ = give.send(std::mem::replace(&mut self.reader.payload, next));
            }
        }
    }

    /// Verifies the rows of the block that starts at `start`.
    fn block(&mut self, start: usize) -> Result<(), &'static str> {
        let mut unread = &self.reader.payload[start..];
        if unread.is_empty() {
            return Err("a block without rows");
        }
        let mut last: &[u8] = &self.last_key;
        while !unread.is_empty() {
            let (row, behind) = RowBytes::parse(unread).ok_or("a row beyond its block")?;
            if self.rows > 0 && last >= row.key {
                return Err("rows out of order");
            }
            self.hasher.push_parts(row.key, row.value, row.version);
            self.rows += 1;
            (last, unread) = (row.key, behind);
        }
        self.last_key = last.to_vec();
        Ok(())
    }

    fn end(
        mut self,
        position: Position,
        footer: &[u8],
        give: &SyncSender<Vec<u8>>,
    ) -> Result<CheckpointSummary, CheckpointError> {
        let state_hash = self.hasher.finish();
        let _ = give.send(std::mem::take(&mut self.reader.payload));
        self.reader.footer(footer, self.rows, state_hash)?;
        Ok(CheckpointSummary {
            position,
            rows: self.rows,
            bytes: self.reader.offset,
            state_hash,
        })
    }
}

/// A row where it was read.
struct RowBytes<'a> {
    key: &'a [u8],
    value: &'a [u8],
    version: Version,
}

impl RowBytes<'_> {
    /// The first row of `payload`, and the remaining bytes.
    fn parse(payload: &[u8]) -> Option<(RowBytes<'_>, &[u8])> {
        let (header, tail) = payload.split_first_chunk::<ROW_HEADER_BYTES>()?;
        let (key, tail) = tail.split_at_checked(u32_at(header, 8) as usize)?;
        let (value, tail) = tail.split_at_checked(u32_at(header, 12) as usize)?;
        let version = Version(u64_at(header, 0));
        Some((RowBytes { key, value, version }, tail))
    }
}

pub(crate) fn parse_row(payload: &[u8]) -> Option<(Row, &[u8])> {
    let (row, tail) = RowBytes::parse(payload)?;
    Some((Row::new(row.key, row.value, row.version), tail))
}

pub(crate) fn crc_of_part(frame: &FrameBytes, payload: &[u8], tail: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..5]);
    hasher.update(payload);
    hasher.update(tail);
    hasher.finalize()
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{MemoryBuilder, MemorySnapshot, MemoryStore, Read as _, Store, state_hash};

    const POSITION: Position = Position {
        version: Version(1_234_567),
        sequence: LogSequence(89),
    };

    fn store(rows: u64, value_bytes: usize) -> MemoryStore {
        let mut store = MemoryStore::new();
        for number in 0..rows {
            let (key, value) = (format!("key:{number:06}"), vec![number as u8; value_bytes]);
            let row = Row::new(key.as_bytes(), &value, Version(number * 3));
            store.set(row).unwrap();
        }
        store
    }

    fn written(snapshot: MemorySnapshot) -> (Vec<u8>, CheckpointSummary) {
        let mut bytes = Vec::new();
        let summary = write(snapshot, POSITION, &mut bytes, &mut |_| {}).expect("a vector takes all bytes");
        (bytes, summary)
    }

    fn read_back(mut bytes: &[u8]) -> Result<(MemoryStore, CheckpointSummary), CheckpointError> {
        let mut builder = MemoryBuilder::new();
        let summary = read(&mut bytes, &mut |row| builder.push(row), &mut |_| {})?;
        Ok((builder.finish(), summary))
    }

    #[test]
    fn a_written_value_is_read() {
        for (rows, value_bytes) in [(0, 0), (1, 0), (5_000, 100), (3, 200_000)] {
            let store = store(rows, value_bytes);
            let (bytes, summary) = written(store.snapshot());
            assert_eq!((summary.rows, summary.bytes), (rows, bytes.len() as u64));
            assert_eq!(summary.state_hash, state_hash(&store, None).unwrap());
            let (read, read_summary) = read_back(&bytes).expect("an undamaged checkpoint");
            assert_eq!(read_summary, summary);
            assert_eq!(read.len(), rows);
            assert_eq!(state_hash(&read, None).unwrap(), summary.state_hash);
            assert_eq!(
                read_position(&mut bytes.as_slice()).expect("an undamaged header"),
                POSITION
            );
        }
    }

    #[test]
    fn progress_ascends_to_the_row_count() {
        let (mut heard, mut bytes) = (Vec::new(), Vec::new());
        write(store(5_000, 100).snapshot(), POSITION, &mut bytes, &mut |rows| {
            heard.push(rows)
        })
        .expect("written");
        assert!(heard.len() > 5 && heard.is_sorted());
        assert_eq!(heard.last(), Some(&5_000));
        let mut heard_again = Vec::new();
        read(&mut bytes.as_slice(), &mut drop, &mut |rows| heard_again.push(rows)).expect("read");
        assert!(heard_again.is_sorted());
        assert_eq!(heard_again.last(), Some(&5_000));
    }

    struct Counting<'b> {
        bytes: &'b [u8],
        read: &'b AtomicUsize,
    }

    impl Read for Counting<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.bytes.read(buffer)?;
            self.read.fetch_add(count, Ordering::Relaxed);
            Ok(count)
        }
    }

    /// Only the block being verified and the block being parsed are in memory, even if the speeds
    /// of the two threads differ much.
    #[test]
    fn little_is_read_ahead_of_the_rows() {
        let (bytes, _) = written(store(100_000, 100).snapshot());
        assert!(bytes.len() > 10 * GIVEN_BYTES);
        let (read_bytes, mut row_bytes, mut most) = (AtomicUsize::new(0), 0, 0);
        let mut input = Counting {
            bytes: &bytes,
            read: &read_bytes,
        };
        let mut sink = |row: Row| {
            row_bytes += ROW_HEADER_BYTES + row.key().len() + row.value().len();
            if row_bytes % 1000 == 0 {
                std::thread::yield_now();
            }
            most = most.max(read_bytes.load(Ordering::Relaxed) - row_bytes);
        };
        read(&mut input, &mut sink, &mut |_| {}).expect("an undamaged checkpoint");
        let (ahead_bytes, frames) = (GIVEN_BYTES + BLOCK_BYTES_MOST, bytes.len() - row_bytes);
        assert!(most <= 2 * ahead_bytes + frames, "{most} bytes ahead");
    }

    /// Largest block of these rows.
    const BLOCK_BYTES_MOST: usize = BLOCK_BYTES + 1000;

    #[test]
    fn every_flipped_bit_is_refused() {
        let (bytes, _) = written(store(20, 10).snapshot());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_back(&damaged).is_err(), "bit {bit} flipped");
        }
    }

    #[test]
    fn every_byte_set_to_255_or_0_is_refused() {
        let (bytes, _) = written(store(20, 10).snapshot());
        for (index, byte) in (0..bytes.len()).flat_map(|index| [(index, 0), (index, 0xff)]) {
            let mut damaged = bytes.clone();
            damaged[index] = byte;
            assert!(
                damaged == bytes || read_back(&damaged).is_err(),
                "byte {index} set to {byte}"
            );
        }
    }

    #[test]
    fn every_truncation_and_any_appendix_is_refused() {
        let (mut bytes, _) = written(store(20, 10).snapshot());
        for length in 0..bytes.len() {
            assert!(read_back(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
        bytes.push(0);
        assert!(read_back(&bytes).is_err());
    }

    /// Each block is sound in itself; only order, count and state hash can reveal it.
    #[test]
    fn lost_repeated_and_exchanged_blocks_are_refused() {
        let (bytes, _) = written(store(2_000, 100).snapshot());
        let parts = parts(&bytes);
        assert!(parts.len() >= 5, "a header, three blocks and a footer");
        let without: Vec<&[u8]> = [&parts[..2], &parts[3..]].concat();
        let repeated: Vec<&[u8]> = [&parts[..2], &parts[1..]].concat();
        let mut exchanged = parts.clone();
        exchanged.swap(1, 2);
        for (parts, reason) in [
            (without, "row count"),
            (repeated, "out of order"),
            (exchanged, "out of order"),
        ] {
            let error = read_back(&parts.concat()).err().expect("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    fn parts(bytes: &[u8]) -> Vec<&[u8]> {
        let (header, mut unread) = bytes.split_at(HEADER_BYTES);
        let mut parts = vec![header];
        while !unread.is_empty() {
            let (part, behind) = unread.split_at(FRAME_BYTES + u32_at(unread, 1) as usize);
            parts.push(part);
            unread = behind;
        }
        parts
    }

    #[test]
    fn errors_say_where_and_what() {
        let (mut bytes, _) = written(store(20, 10).snapshot());
        bytes[HEADER_BYTES + FRAME_BYTES] ^= 1;
        let error = read_back(&bytes).err().expect("refused").to_string();
        assert_eq!(
            error,
            "damaged checkpoint: a wrong checksum in the part that starts at byte 32"
        );
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        let (mut bytes, _) = written(store(0, 0).snapshot());
        bytes.truncate(HEADER_BYTES);
        bytes.push(TAG_ROWS);
        bytes.extend_from_slice(&(BLOCK_BYTES_MAX as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 100]);
        let mut input = bytes.as_slice();
        let mut reader = Reader::new(&mut input);
        reader.header().expect("an undamaged header");
        assert!(reader.part().is_err());
        assert!(reader.payload.capacity() < 1 << 20);
    }

    #[test]
    fn an_unknown_format_is_named() {
        for unknown in [0, 2, 4] {
            let (mut bytes, _) = written(store(0, 0).snapshot());
            bytes[8] = unknown;
            let crc = crc32fast::hash(&bytes[..28]).to_le_bytes();
            bytes[28..32].copy_from_slice(&crc);
            let Err(CheckpointError::UnknownFormat(named)) = read_back(&bytes) else {
                panic!("format {unknown} is read");
            };
            assert_eq!(named, u32::from(unknown));
        }
    }

    #[test]
    fn a_failing_output_ends_the_writing() {
        let mut full = [0; 1_000];
        let result = write(
            store(5_000, 100).snapshot(),
            POSITION,
            &mut full.as_mut_slice(),
            &mut |_| {},
        );
        assert_eq!(result.expect_err("no room").kind(), ErrorKind::WriteZero);
    }
}
