//! The position of a record of a node's file log in the log that the nodes share.
//!
//! ```text
//! payload   0 u64 | place bytes u32 | place | an epoch's transactions
//! place     hash of the record as the sequencer has it u128 | term u64 | node u64 | incarnation u64 | kind u8
//!           | hash of the record before it in this file log u128
//! kind      0 whole, 1 part, 2 founding, 3 end
//! ```
//!
//! The file log has each record of the shared log under the same sequence. A chunk of an unfinished
//! group is a record with only a place, marked as a part: no history starts after it. The file
//! log's last record is never trimmed, so a node always knows its position.
//!
//! A founding record is the first of a cluster that started with this folder's data. Only a
//! founding record may follow records without a place, or a checkpoint whose record the log does
//! not have.
//!
//! An end is the last record of a cluster that has ended with this folder's data: the folder is a
//! server's from then on, which appends records without a place, and may found the next cluster.
//!
//! Opening verifies that the records after the checkpoint are one chain that starts with the
//! checkpoint's own record. The last record, which the sequencer has as well, proves that the chain
//! belongs to the cluster.

use quartet_log::{Cause, Log, LogError};
use quartet_log_replicated::{NodeId, Place, Position, RecordHash, Term, Writer};
use quartet_model::{EffectsReader, LogSequence, Version, place_header, split_place};
use quartet_store::Position as StorePosition;

pub(crate) const PLACE_BYTES: usize = 16 + 3 * 8 + 1 + 16;
/// The hash before a record that has none with a place before it in its file log.
pub(crate) const NONE_BEFORE: RecordHash = RecordHash(0);

/// The kind of a record of a node's file log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole = 0,
    /// A chunk that is followed by more of its group.
    Part = 1,
    /// The first record of a cluster that started with this folder's data.
    Founding = 2,
    /// The cluster has ended before this record, which only this folder has.
    End = 3,
}

impl Kind {
    /// Returns the kind of a record.
    pub fn of(is_part: bool) -> Kind {
        if is_part { Kind::Part } else { Kind::Whole }
    }
}

/// The place of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub position: Position,
    pub kind: Kind,
    /// The hash of the record before it in the same file log.
    pub before: RecordHash,
}

impl Placed {
    /// Returns the bytes that precede the record's transactions.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = place_header(PLACE_BYTES as u32).to_vec();
        let position = &self.position;
        bytes.extend_from_slice(&position.hash.0.to_le_bytes());
        for number in [position.term.0, position.writer.node.0, position.writer.incarnation] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.kind as u8);
        bytes.extend_from_slice(&self.before.0.to_le_bytes());
        bytes
    }

    /// Reads the place of a record; `None` if it has none.
    pub fn of(sequence: LogSequence, payload: &[u8]) -> Option<Placed> {
        let place: &[u8; PLACE_BYTES] = split_place(payload).0?.try_into().ok()?;
        let number = |at: usize| u64::from_le_bytes(place[at..at + 8].try_into().expect("eight bytes"));
        let hash = |at: usize| u128::from_le_bytes(place[at..at + 16].try_into().expect("sixteen bytes"));
        let writer = Writer {
            node: NodeId(number(24)),
            incarnation: number(32),
        };
        let position = Position {
            sequence,
            hash: RecordHash(hash(0)),
            term: Term(number(16)),
            writer,
        };
        let kind = [Kind::Whole, Kind::Part, Kind::Founding, Kind::End]
            .into_iter()
            .find(|kind| *kind as u8 == place[40])?;
        let before = RecordHash(hash(41));
        Some(Placed { position, kind, before })
    }
}

/// The data folders that are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// The folder of a single server.
    Server,
    /// The folder of a node.
    Node,
    /// Either: the folder before or during the founding of a cluster.
    Either,
    /// The folder of a node before or during the end of its cluster.
    Ending,
}

impl Folder {
    /// Every record after the first with a place has one.
    fn is_nodes(self) -> bool {
        matches!(self, Folder::Node | Folder::Ending)
    }
}

/// The places of the records that are replayed.
pub(crate) struct Places {
    /// The last record that is not a part.
    pub whole: Option<Position>,
    /// The hash of the last record.
    pub last: RecordHash,
    /// The last record is the end of a cluster.
    pub has_ended: bool,
    folder: Folder,
    checkpoint: StorePosition,
    /// The record before the next one to be noted.
    previous: Previous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Previous {
    /// Not read, or there is none.
    Unknown,
    /// A record or a checkpoint of a single server.
    Unplaced,
    Placed,
}

/// The file log is not what the folder's owner has written.
#[derive(Debug, thiserror::Error)]
enum OtherLog {
    #[error(
        "this data directory belongs to a standalone server, not to a node of a cluster: it founds a cluster where \
         none exists; empty it to join one"
    )]
    Alone,
    #[error("this data directory belongs to a node of a cluster: start it with its log")]
    Shared,
    #[error("the record does not continue the one before it: the files are of different histories")]
    BrokenChain,
    #[error("the checkpoint has not been taken at this record: the files are of different histories")]
    OtherCheckpoint,
}

impl Places {
    /// Starts with a folder's `checkpoint`. `is_held`: the log contains the checkpoint's record. It
    /// is unknown for a server's folder: the log's last record decides there.
    pub fn new(folder: Folder, checkpoint: StorePosition, is_held: bool) -> Places {
        let is_behind_data = folder != Folder::Server && checkpoint.sequence > LogSequence::ZERO && !is_held;
        Places {
            whole: None,
            last: NONE_BEFORE,
            has_ended: false,
            folder,
            checkpoint,
            previous: if is_behind_data {
                Previous::Unplaced
            } else {
                Previous::Unknown
            },
        }
    }

    /// Notes a record.
    pub fn note(&mut self, sequence: LogSequence, payload: &[u8]) -> Result<(), Cause> {
        let placed = Placed::of(sequence, payload);
        let Some(placed) = placed else {
            let is_behind_a_place = self.previous == Previous::Placed;
            (self.previous, self.has_ended) = (Previous::Unplaced, false);
            return match (self.folder, is_behind_a_place) {
                (Folder::Server, true) => Err(OtherLog::Shared.into()),
                (folder, true) if folder.is_nodes() => Err(OtherLog::Alone.into()),
                _ => Ok(()),
            };
        };
        match self.previous {
            // A server follows no chain. Its log ends with a record of its own, or with a
            // cluster's end.
            _ if self.folder == Folder::Server => {}
            Previous::Unplaced if placed.kind != Kind::Founding => return Err(OtherLog::Alone.into()),
            Previous::Placed if placed.before != self.last => return Err(OtherLog::BrokenChain.into()),
            _ => {}
        }
        if sequence == self.checkpoint.sequence
            && newest_version(payload)?.is_some_and(|newest| newest != self.checkpoint.version)
        {
            return Err(OtherLog::OtherCheckpoint.into());
        }
        self.has_ended = placed.kind == Kind::End;
        match placed.kind {
            Kind::End => (self.previous, self.last, self.whole) = (Previous::Unplaced, NONE_BEFORE, None),
            kind => {
                (self.previous, self.last) = (Previous::Placed, placed.position.hash);
                if kind != Kind::Part {
                    self.whole = Some(placed.position);
                }
            }
        }
        Ok(())
    }

    /// Records the last record of a log that had nothing to replay, if it has one.
    pub fn note_last(&mut self, log: &dyn Log) -> Result<(), LogError> {
        let (tail, source) = (log.tail(), log.source());
        let is_held = source.starts()?.first().is_some_and(|first| *first <= tail);
        if self.previous != Previous::Unknown || !is_held {
            return Ok(());
        }
        match source.cursor(tail).next(tail)? {
            Some(record) => self.note(record.sequence, record.payload).map_err(LogError::Damaged),
            None => Ok(()),
        }
    }

    /// Refuses a node's folder whose checkpoint is of no record of its log: a server's, or one out
    /// of a backup, that has not founded a cluster. Refuses a server's folder if its last record
    /// has a place and is no end.
    pub fn end(&self) -> Result<(), LogError> {
        let reaches = self.whole.map_or(LogSequence::ZERO, |whole| whole.sequence);
        let is_alone = self.previous == Previous::Unplaced || reaches < self.checkpoint.sequence;
        let other = match self.folder {
            Folder::Server if self.previous == Previous::Placed => OtherLog::Shared,
            Folder::Node if is_alone => OtherLog::Alone,
            Folder::Ending if is_alone && !self.has_ended => OtherLog::Alone,
            _ => return Ok(()),
        };
        Err(LogError::Damaged(other.into()))
    }

    /// The last whole record; the start of `place` if there is none.
    pub fn position(&self, place: &Place) -> Position {
        self.whole.unwrap_or_else(|| place.beginning())
    }
}

/// The version of the newest transaction of a record, if it has any.
fn newest_version(payload: &[u8]) -> Result<Option<Version>, Cause> {
    let (mut reader, mut newest) = (EffectsReader::new(payload), None);
    while let Some((version, _)) = reader.next_transaction()? {
        newest = Some(version);
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(sequence: u64, before: u128, kind: Kind) -> (LogSequence, Vec<u8>) {
        let position = Position {
            sequence: LogSequence(sequence),
            hash: RecordHash(100 + u128::from(sequence)),
            term: Term(3),
            writer: Writer {
                node: NodeId(2),
                incarnation: u64::MAX - 1,
            },
        };
        let before = RecordHash(before);
        let place = Placed { position, kind, before };
        (position.sequence, place.encode())
    }

    #[test]
    fn a_place_is_read_as_written() {
        for kind in [Kind::Whole, Kind::Part, Kind::Founding, Kind::End] {
            let (sequence, place) = placed(7, u128::MAX - 5, kind);
            let payload = [&place[..], b"transactions"].concat();
            let read = Placed::of(sequence, &payload).unwrap();
            assert_eq!((read.kind, read.before), (kind, RecordHash(u128::MAX - 5)));
            assert_eq!(read.encode(), place);
            assert_eq!(split_place(&payload).1, b"transactions");
        }
        assert_eq!(Placed::of(LogSequence(7), b"no place"), None);
    }

    /// Opens a node's folder whose checkpoint is at `checkpoint`, which is in the log if `is_held`.
    fn check(checkpoint: u64, is_held: bool, records: &[(LogSequence, Vec<u8>)]) -> Result<Option<u64>, String> {
        check_as(Folder::Node, checkpoint, is_held, records)
    }

    fn check_as(
        folder: Folder,
        checkpoint: u64,
        is_held: bool,
        records: &[(LogSequence, Vec<u8>)],
    ) -> Result<Option<u64>, String> {
        let checkpoint = StorePosition {
            sequence: LogSequence(checkpoint),
            version: Version(50),
        };
        let mut places = Places::new(folder, checkpoint, is_held);
        for (sequence, payload) in records {
            places.note(*sequence, payload).map_err(|error| error.to_string())?;
        }
        places.end().map_err(|error| error.to_string())?;
        Ok(places.whole.map(|whole| whole.sequence.0))
    }

    /// A restored folder was opened as a node's: its checkpoint was at record 2,000 and its log was
    /// empty, so the node took its position to be before record 1 of the cluster, and its file log
    /// left out every record of the cluster up to the 2,000th. All acknowledged writes in these
    /// records were lost at a restart. Such a folder is now refused unless it has founded the
    /// cluster.
    #[test]
    fn a_checkpoint_is_of_a_record_of_the_nodes_own_log() {
        let unplaced = |sequence| (LogSequence(sequence), Vec::new());
        assert_eq!(check(0, false, &[]), Ok(None));
        assert_eq!(check(0, false, &[placed(1, 0, Kind::Whole)]), Ok(Some(1)));
        assert!(check(9, false, &[]).is_err(), "restored");
        assert!(check(9, false, &[placed(10, 0, Kind::Whole)]).is_err(), "restored");
        assert!(check(9, true, &[unplaced(9)]).is_err(), "a server's own");
        assert!(check(9, true, &[placed(9, 0, Kind::Whole), unplaced(10)]).is_err());
        assert_eq!(check(9, false, &[placed(10, 0, Kind::Founding)]), Ok(Some(10)));
        let founded = [unplaced(9), placed(10, 0, Kind::Founding), placed(11, 110, Kind::Whole)];
        assert_eq!(check(9, true, &founded), Ok(Some(11)));
    }

    /// A node's folder becomes a server's only by the end of its cluster, and a node's again only
    /// by the founding of the next.
    #[test]
    fn a_folder_changes_its_owner_only_by_an_end_and_a_founding() {
        let unplaced = |sequence| (LogSequence(sequence), Vec::new());
        let (node, end) = (placed(9, 7, Kind::Whole), placed(10, 109, Kind::End));
        let ended = [node.clone(), end.clone()];
        let as_server = |records: &[_]| check_as(Folder::Server, 5, false, records).is_ok();
        assert!(as_server(&ended) && as_server(&[node.clone(), end.clone(), unplaced(11)]));
        assert!(!as_server(std::slice::from_ref(&node)) && !as_server(&[node.clone(), unplaced(10)]));
        assert!(check(9, true, &ended).is_err(), "no node goes on from there");
        assert!(check(9, true, &[node.clone(), end.clone(), placed(11, 110, Kind::Whole)]).is_err());
        assert!(
            check(9, true, &[node.clone(), placed(10, 1, Kind::End)]).is_err(),
            "chain"
        );
        let founded = [
            node.clone(),
            end,
            unplaced(11),
            placed(12, 0, Kind::Founding),
            placed(13, 112, Kind::Whole),
        ];
        assert_eq!(check(9, true, &founded), Ok(Some(13)));
        assert!(!as_server(&founded), "a node's again");
        assert_eq!(check_as(Folder::Ending, 9, true, &ended), Ok(None));
        assert_eq!(check_as(Folder::Ending, 9, true, &[node]), Ok(Some(9)));
        assert!(check_as(Folder::Ending, 9, true, &founded[..3]).is_err(), "a server's");
    }

    #[test]
    fn the_log_after_a_checkpoint_is_one_chain_from_its_record() {
        let chain = [
            placed(9, 7, Kind::Whole),
            placed(10, 109, Kind::Part),
            placed(11, 110, Kind::Whole),
        ];
        assert_eq!(check(9, true, &chain), Ok(Some(11)));
        let gap = [placed(9, 7, Kind::Whole), placed(10, 108, Kind::Whole)];
        assert!(check(9, true, &gap).unwrap_err().contains("different histories"));
        // A record with a transaction of another version than the checkpoint's.
        let (sequence, place) = placed(9, 7, Kind::Whole);
        for (version, is_sound) in [(50_u64, true), (51, false)] {
            let payload = [&place[..], &version.to_le_bytes(), &[0; 4]].concat();
            assert_eq!(check(9, true, &[(sequence, payload)]).is_ok(), is_sound, "{version}");
        }
    }
}
