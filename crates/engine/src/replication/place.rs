//! The position of a record of a node's file log in the log that the nodes share.
//!
//! ```text
//! payload   0 u64 | place bytes u32 | place | an epoch's transactions
//! place     hash of the record as the sequencer has it u128 | term u64 | node u64 | incarnation u64 | part u8
//! ```
//!
//! The file log has each record of the shared log under the same sequence. A chunk whose group goes
//! on is a record with a place alone, marked as a part: no history begins behind it. The file log's
//! last record is never trimmed, so a node always knows where it stands.

use quartet_log::{Cause, Log, LogError};
use quartet_log_replicated::{NodeId, Place, Position, RecordHash, Term, Writer};
use quartet_model::{LogSequence, place_header, split_place};

pub(crate) const PLACE_BYTES: usize = 16 + 3 * 8 + 1;

/// Returns what stands before the transactions of the record at `position`.
pub(crate) fn placed(position: &Position, is_part: bool) -> Vec<u8> {
    let mut bytes = place_header(PLACE_BYTES as u32).to_vec();
    bytes.extend_from_slice(&position.hash.0.to_le_bytes());
    for number in [position.term.0, position.writer.node.0, position.writer.incarnation] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.push(u8::from(is_part));
    bytes
}

/// Returns the position of a record, and whether it is a part; `None` if it has no place.
pub(crate) fn position_of(sequence: LogSequence, payload: &[u8]) -> Option<(Position, bool)> {
    let place: &[u8; PLACE_BYTES] = split_place(payload).0?.try_into().ok()?;
    let number = |at: usize| u64::from_le_bytes(place[at..at + 8].try_into().expect("eight bytes"));
    let hash = u128::from_le_bytes(place[..16].try_into().expect("sixteen bytes"));
    let writer = Writer {
        node: NodeId(number(24)),
        incarnation: number(32),
    };
    let position = Position {
        sequence,
        hash: RecordHash(hash),
        term: Term(number(16)),
        writer,
    };
    Some((position, place[40] == 1))
}

/// The places of the records that are replayed.
pub(crate) struct Places {
    /// The last record that is not a part.
    pub whole: Option<Position>,
    is_shared: bool,
    /// A record has been noted.
    is_known: bool,
}

/// The file log is of the other kind.
#[derive(Debug, thiserror::Error)]
enum OtherLog {
    #[error("this data directory belongs to a standalone server, not to a node of a cluster")]
    Alone,
    #[error("this data directory belongs to a node of a cluster: start it with its log")]
    Shared,
}

impl Places {
    /// For a log that is shared, or is not.
    pub fn new(is_shared: bool) -> Places {
        Places {
            whole: None,
            is_shared,
            is_known: false,
        }
    }

    /// Notes a record.
    pub fn note(&mut self, sequence: LogSequence, payload: &[u8]) -> Result<(), Cause> {
        self.is_known = true;
        match (position_of(sequence, payload), self.is_shared) {
            (Some((position, false)), true) => self.whole = Some(position),
            (Some((_, true)), true) | (None, false) => {}
            (Some(_), false) => return Err(OtherLog::Shared.into()),
            (None, true) => return Err(OtherLog::Alone.into()),
        }
        Ok(())
    }

    /// Records the last record of a log that had nothing to replay, if it has one.
    pub fn note_last(&mut self, log: &dyn Log) -> Result<(), LogError> {
        let (tail, source) = (log.tail(), log.source());
        let is_held = source.starts()?.first().is_some_and(|first| *first <= tail);
        if self.is_known || !is_held {
            return Ok(());
        }
        match source.cursor(tail).next(tail)? {
            Some(record) => self.note(record.sequence, record.payload).map_err(LogError::Damaged),
            None => Ok(()),
        }
    }

    /// The last whole record; the beginning of `place` if there is none.
    pub fn position(&self, place: &Place) -> Position {
        self.whole.unwrap_or_else(|| place.beginning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_written() {
        let position = Position {
            sequence: LogSequence(7),
            hash: RecordHash(u128::MAX - 5),
            term: Term(3),
            writer: Writer {
                node: NodeId(2),
                incarnation: u64::MAX - 1,
            },
        };
        for is_part in [false, true] {
            let payload = [&placed(&position, is_part)[..], b"transactions"].concat();
            assert_eq!(position_of(LogSequence(7), &payload), Some((position, is_part)));
            assert_eq!(split_place(&payload).1, b"transactions");
        }
        assert_eq!(position_of(LogSequence(7), b"no place"), None);
    }
}
