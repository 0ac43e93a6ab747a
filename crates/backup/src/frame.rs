//! The bytes of a part. Pure: no I/O.
//!
//! All numbers are little endian.
//!
//! ```text
//! part    "QUARTETP" | format version u32 = 1 | frames
//! frame   tag u8 | payload length u32 | CRC-32 of tag, length and payload u32 | payload
//!   1 rows     rows, each: version u64 | key length u32 | value length u32 | key | value
//!   2 record   sequence u64 | a record of the log: transactions and their effects
//! ```
//!
//! Reading trusts no length.

use quartet_model::{LogSequence, Version, format};
use quartet_store::Row;

use crate::BackupError;

pub(crate) const PART_MAGIC: &[u8; 8] = b"QUARTETP";
pub(crate) const PART_HEADER_BYTES: usize = 12;
const FRAME_HEADER_BYTES: usize = 9;
const TAG_ROWS: u8 = 1;
const TAG_RECORD: u8 = 2;
const ROW_HEADER_BYTES: usize = 16;

/// One frame of a part.
pub(crate) enum Frame<'a> {
    Rows(Rows<'a>),
    Record { sequence: LogSequence, payload: &'a [u8] },
}

/// The rows of a frame.
#[derive(Clone)]
pub(crate) struct Rows<'a> {
    unread: &'a [u8],
}

/// A row where it was received.
pub(crate) struct RowBytes<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub version: Version,
}

/// The header of a part.
pub(crate) fn part_header() -> Vec<u8> {
    [&PART_MAGIC[..], &format::written().to_le_bytes()].concat()
}

/// Appends a frame with the rows that `payload` holds.
pub(crate) fn put_rows(out: &mut Vec<u8>, payload: &[u8]) {
    put(out, TAG_ROWS, &[payload]);
}

/// Appends a frame with a record of the log.
pub(crate) fn put_record(out: &mut Vec<u8>, sequence: LogSequence, payload: &[u8]) {
    put(out, TAG_RECORD, &[&sequence.0.to_le_bytes(), payload]);
}

/// Appends a row to the payload of a frame.
pub(crate) fn put_row(payload: &mut Vec<u8>, row: &Row) {
    payload.extend_from_slice(&row.version().0.to_le_bytes());
    payload.extend_from_slice(&(row.key().len() as u32).to_le_bytes());
    payload.extend_from_slice(&(row.value().len() as u32).to_le_bytes());
    payload.extend_from_slice(row.key());
    payload.extend_from_slice(row.value());
}

fn put(out: &mut Vec<u8>, tag: u8, pieces: &[&[u8]]) {
    let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    let length = u32::try_from(bytes).expect("a frame below 4 GiB").to_le_bytes();
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&[tag]);
    checksum.update(&length);
    pieces.iter().for_each(|piece| checksum.update(piece));
    out.push(tag);
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum.finalize().to_le_bytes());
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// Iterates over the frames of `bytes`, which were read from `file` at `offset`.
pub(crate) struct Frames<'a> {
    pub file: &'a str,
    pub offset: u64,
    pub unread: &'a [u8],
}

impl<'a> Frames<'a> {
    /// The frames of a whole part.
    pub fn of_part(file: &'a str, bytes: &'a [u8]) -> Result<Frames<'a>, BackupError> {
        let damaged = |reason| BackupError::Damaged {
            file: file.to_owned(),
            offset: 0,
            reason,
        };
        let (header, unread) = bytes
            .split_at_checked(PART_HEADER_BYTES)
            .ok_or_else(|| damaged("the file is too short"))?;
        if &header[..8] != PART_MAGIC {
            return Err(damaged("it does not start as a part of a backup"));
        }
        match u32_at(header, 8) {
            Some(format) if format::is_read(format) => Ok(Frames {
                file,
                offset: PART_HEADER_BYTES as u64,
                unread,
            }),
            format => Err(BackupError::Format {
                file: file.to_owned(),
                format: format.unwrap_or_default(),
            }),
        }
    }

    /// The next frame; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Frame<'a>>, BackupError> {
        if self.unread.is_empty() {
            return Ok(None);
        }
        let frame = self.frame().map_err(|reason| BackupError::Damaged {
            file: self.file.to_owned(),
            offset: self.offset,
            reason,
        })?;
        Ok(Some(frame))
    }

    fn frame(&mut self) -> Result<Frame<'a>, &'static str> {
        let cut = "it ends inside a frame";
        let (header, unread) = self.unread.split_at_checked(FRAME_HEADER_BYTES).ok_or(cut)?;
        let length = u32_at(header, 1).ok_or(cut)?;
        let (payload, unread) = unread.split_at_checked(length as usize).ok_or(cut)?;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&header[..5]);
        checksum.update(payload);
        if u32_at(header, 5) != Some(checksum.finalize()) {
            return Err("the frame at this offset does not match its checksum");
        }
        let frame = match header[0] {
            TAG_ROWS => Frame::Rows(Rows { unread: payload }),
            TAG_RECORD => {
                let (sequence, payload) = payload.split_first_chunk::<8>().ok_or(cut)?;
                let sequence = LogSequence(u64::from_le_bytes(*sequence));
                Frame::Record { sequence, payload }
            }
            _ => return Err("a frame of an unknown kind"),
        };
        self.offset += (FRAME_HEADER_BYTES + length as usize) as u64;
        self.unread = unread;
        Ok(frame)
    }
}

impl<'a> Rows<'a> {
    /// The next row; `None` at the end.
    pub fn next(&mut self) -> Result<Option<RowBytes<'a>>, &'static str> {
        if self.unread.is_empty() {
            return Ok(None);
        }
        let cut = "a row ends beyond its frame";
        let (header, unread) = self.unread.split_at_checked(ROW_HEADER_BYTES).ok_or(cut)?;
        let version = u64::from_le_bytes(header[..8].try_into().map_err(|_| cut)?);
        let (key, unread) = unread
            .split_at_checked(u32_at(header, 8).ok_or(cut)? as usize)
            .ok_or(cut)?;
        let (value, unread) = unread
            .split_at_checked(u32_at(header, 12).ok_or(cut)? as usize)
            .ok_or(cut)?;
        self.unread = unread;
        let version = Version(version);
        Ok(Some(RowBytes { key, value, version }))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
