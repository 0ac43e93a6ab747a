//! Recovers the trustworthy blocks of a damaged checkpoint, one by one.
//!
//! A block that fails its checksum is lost. The next part starts where the lengths in the block's
//! rows lead, if a sound part is at that offset; else where the block's own length leads; else at
//! the first offset from which sound parts follow each other up to the footer at the end of the
//! file. So a value that looks like a part is not mistaken for one. A block with only a damaged
//! length is whole again once its checksum holds with the length computed from its rows.

use std::io;
use std::ops::ControlFlow;

use quartet_env::{Disk, File};
use quartet_model::Version;

use crate::checkpoint::files;
use crate::checkpoint::{
    BLOCK_BYTES_MAX, CheckpointError, FOOTER_BYTES, FRAME_BYTES, FrameBytes, HEADER_BYTES, ROW_HEADER_BYTES,
    TAG_FOOTER, TAG_ROWS, crc_of_part, parse_row, read_position, u32_at, u64_at,
};
use crate::damage::{Damage, Lost, Salvaged, note_likely};
use crate::hash::StateHasher;
use crate::open_error::OpenError;
use crate::options::StoreKind;
use crate::position::Position;
use crate::row::Row;

pub(super) fn salvage(
    disk: &dyn Disk,
    row: &mut dyn FnMut(Row) -> ControlFlow<()>,
    tell: &mut dyn FnMut(Damage),
) -> Result<Salvaged, OpenError> {
    let mut salvaged = Salvaged {
        kind: StoreKind::Memory,
        position: Position::default(),
        rows: 0,
        missing: None,
    };
    let Some(name) = files::newest(disk)? else {
        return Ok(salvaged);
    };
    let file = disk.open(&name)?;
    let parts = Parts {
        length: file.len()?,
        file,
    };
    let mut reading = Reading {
        name: &name,
        parts,
        row,
        tell,
        hasher: StateHasher::new(),
        last: None,
        newest: Version::ZERO,
        rows: 0,
        lost: None,
        is_damaged: false,
    };
    let stated = reading.position()?;
    salvaged.missing = reading.read()?;
    salvaged.rows = reading.rows;
    salvaged.position = stated.unwrap_or(Position {
        version: reading.newest,
        sequence: files::sequence_of(&name),
    });
    Ok(salvaged)
}

/// Access to a checkpoint's parts by offset.
struct Parts {
    file: Box<dyn File>,
    length: u64,
}

enum Part {
    Rows { payload: Vec<u8>, end: u64 },
    Footer { payload: Vec<u8> },
}

/// A damaged block: the start of the next part, and the block's payload if it could be repaired.
struct Resumed {
    next: u64,
    mended: Option<Vec<u8>>,
}

impl Parts {
    /// Reads up to `count` bytes from there.
    fn bytes(&self, offset: u64, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count.min(self.length.saturating_sub(offset)) as usize];
        let read = self.file.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn frame(&self, offset: u64) -> io::Result<Option<FrameBytes>> {
        Ok(self.bytes(offset, FRAME_BYTES as u64)?.try_into().ok())
    }

    /// The end of the part by its own length, if that is possible.
    fn end_by_frame(&self, offset: u64, frame: &FrameBytes) -> Option<u64> {
        let bytes = u64::from(u32_at(frame, 1));
        let end = offset + FRAME_BYTES as u64 + bytes;
        (bytes <= BLOCK_BYTES_MAX as u64 && end <= self.length).then_some(end)
    }

    /// The part at `offset`, if it is sound.
    fn sound(&self, offset: u64) -> io::Result<Option<Part>> {
        let Some(frame) = self.frame(offset)? else {
            return Ok(None);
        };
        let Some(end) = self
            .end_by_frame(offset, &frame)
            .filter(|_| frame[0] == TAG_ROWS || frame[0] == TAG_FOOTER)
        else {
            return Ok(None);
        };
        let payload = self.bytes(offset + FRAME_BYTES as u64, u64::from(u32_at(&frame, 1)))?;
        if crc_of_part(&frame, &payload, &[]) != u32_at(&frame, 5) {
            return Ok(None);
        }
        Ok(match frame[0] {
            TAG_ROWS if holds_rows(&payload) => Some(Part::Rows { payload, end }),
            TAG_FOOTER if payload.len() == FOOTER_BYTES && end == self.length => Some(Part::Footer { payload }),
            _ => None,
        })
    }

    /// Returns true if sound parts follow each other from there up to the footer.
    fn leads_to_the_end(&self, mut offset: u64) -> io::Result<bool> {
        while let Some(part) = self.sound(offset)? {
            match part {
                Part::Rows { end, .. } => offset = end,
                Part::Footer { .. } => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Finds the next part after the damaged block at `offset`.
    fn resume(&self, offset: u64) -> io::Result<Resumed> {
        let lost = |next| Resumed { next, mended: None };
        let Some(frame) = self.frame(offset)? else {
            return Ok(lost(self.length));
        };
        let length_end = self.end_by_frame(offset, &frame);
        let start = offset + FRAME_BYTES as u64;
        let mut at = start;
        while let Some((_, end)) = self.row(at)? {
            if Some(end) == length_end {
                return Ok(lost(end));
            }
            if self.sound(end)?.is_some() {
                let payload = self.bytes(start, end - start)?;
                let mut mended = [0; FRAME_BYTES];
                mended[0] = TAG_ROWS;
                mended[1..5].copy_from_slice(&(payload.len() as u32).to_le_bytes());
                let is_whole = crc_of_part(&mended, &payload, &[]) == u32_at(&frame, 5) && holds_rows(&payload);
                return Ok(Resumed {
                    next: end,
                    mended: is_whole.then_some(payload),
                });
            }
            at = end;
        }
        if let Some(end) = length_end
            && self.sound(end)?.is_some()
        {
            return Ok(lost(end));
        }
        for next in offset + 1..self.length {
            if self.sound(next)?.is_some() && self.leads_to_the_end(next)? {
                return Ok(lost(next));
            }
        }
        Ok(lost(self.length))
    }

    /// Parses the bytes at `offset` as a row. Returns its key, and the row's end.
    fn row(&self, offset: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
        let header = self.bytes(offset, ROW_HEADER_BYTES as u64)?;
        if header.len() < ROW_HEADER_BYTES {
            return Ok(None);
        }
        let (key, value) = (u64::from(u32_at(&header, 8)), u64::from(u32_at(&header, 12)));
        let key_start = offset + ROW_HEADER_BYTES as u64;
        let end = key_start + key + value;
        if end > self.length || key + value > BLOCK_BYTES_MAX as u64 {
            return Ok(None);
        }
        Ok(Some((self.bytes(key_start, key)?, end)))
    }
}

fn holds_rows(mut payload: &[u8]) -> bool {
    let is_empty = payload.is_empty();
    while let Some((_, remaining)) = parse_row(payload) {
        payload = remaining;
    }
    !is_empty && payload.is_empty()
}

struct Reading<'a> {
    name: &'a str,
    parts: Parts,
    row: &'a mut dyn FnMut(Row) -> ControlFlow<()>,
    tell: &'a mut dyn FnMut(Damage),
    hasher: StateHasher,
    /// The last row that was trusted.
    last: Option<Row>,
    newest: Version,
    rows: u64,
    /// The gap after that row, its upper bound unknown as yet.
    lost: Option<Lost>,
    is_damaged: bool,
}

impl Reading<'_> {
    /// Returns the header's position, or `None` if it cannot be read.
    fn position(&mut self) -> Result<Option<Position>, OpenError> {
        let header = self.parts.bytes(0, HEADER_BYTES as u64)?;
        match read_position(&mut header.as_slice()) {
            Ok(position) => Ok(Some(position)),
            Err(CheckpointError::Damaged { .. }) => {
                self.is_damaged = true;
                let name = self.name;
                (self.tell)(Damage::Mended(format!(
                    "the header of {name} cannot be read; what it says is known from the file's name and its rows"
                )));
                Ok(None)
            }
            Err(source) => Err(self.refused(source)),
        }
    }

    /// Reads all parts. Returns the number of missing rows, if the footer states it.
    fn read(&mut self) -> Result<Option<u64>, OpenError> {
        let mut offset = HEADER_BYTES as u64;
        while offset < self.parts.length {
            match self.parts.sound(offset)? {
                Some(Part::Rows { payload, end }) => {
                    self.block(&payload, offset)?;
                    offset = end;
                }
                Some(Part::Footer { payload }) => return self.footer(&payload, offset).map(Some),
                None => offset = self.damaged_block(offset)?,
            }
        }
        self.lose(offset, "the footer is not there", Vec::new());
        self.tell_lost(None);
        Ok(None)
    }

    fn block(&mut self, mut payload: &[u8], offset: u64) -> Result<(), OpenError> {
        while let Some((row, remaining)) = parse_row(payload) {
            payload = remaining;
            if self.last.as_ref().is_some_and(|last| last.key() >= row.key()) {
                let key = row.key().to_vec();
                self.lose(offset, "rows out of order", vec![key]);
                continue;
            }
            self.tell_lost(Some(row.key()));
            self.hasher.push(&row);
            self.newest = self.newest.max(row.version());
            self.rows += 1;
            self.last = Some(row.clone());
            if (self.row)(row).is_break() {
                return Err(io::Error::other("the rows that were read are not taken").into());
            }
        }
        Ok(())
    }

    /// Handles a damaged block. Returns the start of the next part.
    fn damaged_block(&mut self, offset: u64) -> Result<u64, OpenError> {
        let Resumed { next, mended } = self.parts.resume(offset)?;
        if let Some(payload) = mended {
            self.is_damaged = true;
            let name = self.name;
            (self.tell)(Damage::Mended(format!(
                "the length of a block of {name} at byte {offset}: its rows tell it, and the checksum agrees"
            )));
            self.block(&payload, offset)?;
            return Ok(next);
        }
        let likely = self.likely(offset, next)?;
        self.lose(offset, "a wrong checksum", likely);
        Ok(next)
    }

    /// The keys that the block's bytes name, as long as they make sense.
    fn likely(&self, offset: u64, end: u64) -> Result<Vec<Vec<u8>>, OpenError> {
        let mut likely: Vec<Vec<u8>> = Vec::new();
        let mut at = offset + FRAME_BYTES as u64;
        while at < end
            && let Some((key, behind)) = self.parts.row(at)?
        {
            let before = likely.last().map(Vec::as_slice).or(self.last.as_ref().map(Row::key));
            if behind > end || before.is_some_and(|before| before >= key.as_slice()) {
                break;
            }
            note_likely(&mut likely, &key);
            at = behind;
        }
        Ok(likely)
    }

    /// Records a gap after the last trusted row.
    fn lose(&mut self, offset: u64, reason: &str, likely: Vec<Vec<u8>>) {
        self.is_damaged = true;
        let what = format!("{} from byte {offset} on: {reason}", self.name);
        match &mut self.lost {
            Some(lost) => {
                lost.what = format!("{}; {what}", lost.what);
                likely.iter().for_each(|key| note_likely(&mut lost.likely, key));
            }
            None => {
                self.lost = Some(Lost {
                    from: self
                        .last
                        .as_ref()
                        .map_or(Vec::new(), |last| [last.key(), b"\0"].concat()),
                    before: None,
                    rows: None,
                    likely,
                    what,
                });
            }
        }
    }

    fn tell_lost(&mut self, before: Option<&[u8]>) {
        if let Some(mut lost) = self.lost.take() {
            lost.likely
                .retain(|key| before.is_none_or(|before| key.as_slice() < before));
            lost.before = before.map(<[u8]>::to_vec);
            (self.tell)(Damage::Lost(lost));
        }
    }

    fn footer(&mut self, payload: &[u8], offset: u64) -> Result<u64, OpenError> {
        let (said, rows) = (u64_at(payload, 0), self.rows);
        self.tell_lost(None);
        let hash = std::mem::replace(&mut self.hasher, StateHasher::new()).finish();
        let is_whole = said == rows && payload[8..] == hash.to_le_bytes();
        if !is_whole && !self.is_damaged {
            let what = "a footer unlike the rows";
            return Err(self.refused(CheckpointError::Damaged { offset, what }));
        }
        Ok(said.saturating_sub(rows))
    }

    fn refused(&self, source: CheckpointError) -> OpenError {
        OpenError::Checkpoint {
            file: self.name.to_owned(),
            source,
        }
    }
}
