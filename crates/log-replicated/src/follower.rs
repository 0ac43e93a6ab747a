//! Reads a partition's log from a position on, and checks that it continues the history before.
//!
//! The sequence is authoritative. A watch's record is taken if it is the next one and fits the
//! chain; otherwise it only triggers a read by range. A range starts at the last applied record,
//! which shows that the log still holds this node's history: a log that lacks that record and does
//! not continue after it was restored from a backup.
//!
//! Chunks are delivered as one epoch, at the last of them. A Term record in between ends the group:
//! it never happened.
//!
//! A record that points to an object is delivered once the object is here. If the store does not
//! have it, the range is read again: trimming drops a record before its object is removed, so an
//! object that is missing while its record is still there is lost.

use quartet_model::{LogSequence, Version};

use crate::objects::Download;
use crate::place::Place;
use crate::pointer::ObjectAnswer;
use crate::record::{Body, Record, hash};
use crate::sequencer::{Answer, Hint, Request};
use crate::stop::StopReason;
use crate::words::{Position, RecordHash, Term, Writer};

/// Number of records per range: at most 16 MiB.
pub const RANGE_RECORDS: u32 = 32;
/// Chunks of one group, at most: more than the longest epoch has.
const CHUNKS_MAX: u32 = 64;

/// A record's effect on the log's reader, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The history up to this record: a node that stores it may restart there, unless it is within
    /// a group.
    pub position: Position,
    /// The record's length in bytes, as stored.
    pub stored_bytes: usize,
    /// The effect.
    pub content: Content,
}

/// The content of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Apply this epoch.
    Epoch(Vec<u8>),
    /// No effect yet: a chunk of an incomplete group.
    Part,
    /// A term starts; commit versions in it are above the floor.
    Term {
        /// The term.
        term: Term,
        /// Its home.
        writer: Writer,
        /// The floor.
        floor: Version,
    },
    /// Take the state hash here.
    Mark,
    /// The home's state hash at a mark.
    Hash {
        /// The mark.
        at: LogSequence,
        /// The hash.
        state: u128,
    },
}

/// The effect of a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hinted {
    /// It was the next record.
    Delivered(Delivery),
    /// It was known already.
    Nothing,
    /// Records may be missing: read by range.
    ReadRange,
}

/// The reader of one partition's log. After an error it delivers no more records: the caller must
/// create a new reader at a known position.
#[derive(Clone, Debug)]
pub struct Follower {
    place: Place,
    position: Position,
    /// The start of the last requested range.
    asked: LogSequence,
    /// It starts after the last delivered record, instead of with it.
    asked_for_rest: bool,
    /// The chunks of an unfinished group.
    group: Vec<Vec<u8>>,
    /// The object of the next record, which is being read.
    download: Option<Download>,
    /// The record with an object that was missing from the store.
    missing: Option<RecordHash>,
}

impl Follower {
    /// Reads after `position`, which must not be between the chunks of a group.
    pub fn new(place: Place, position: Position) -> Follower {
        let (asked, group) = (position.sequence, Vec::new());
        Follower {
            place,
            position,
            asked,
            asked_for_rest: false,
            group,
            download: None,
            missing: None,
        }
    }

    /// The last record delivered.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The partition.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns true between the chunks of a group, where a node cannot restart.
    pub fn is_within_group(&self) -> bool {
        !self.group.is_empty()
    }

    /// Returns true if the next request is for a piece of an object.
    pub fn reads_object(&self) -> bool {
        self.download.is_some()
    }

    /// Returns the read of the following records, starting with the last delivered one; or, if that
    /// points to an object, of the object's next piece. Its answer is passed to `take`; one request
    /// is outstanding at a time.
    pub fn request(&mut self) -> Request {
        if let Some(download) = &self.download {
            return Request::Object(download.request(&self.place));
        }
        (self.asked, self.asked_for_rest) = (self.position.sequence, false);
        self.range()
    }

    /// As `request`, without the last delivered record: mostly nothing, so it costs the sequencer
    /// little. It does not show whether the log still holds the history before.
    pub fn request_rest(&mut self) -> Request {
        if self.download.is_some() {
            return self.request();
        }
        (self.asked, self.asked_for_rest) = (self.position.sequence.next(), true);
        self.range()
    }

    fn range(&self) -> Request {
        Request::Range {
            from: self.place.record_key(self.asked),
            until: self.place.records_end(),
            limit: RANGE_RECORDS,
        }
    }

    /// Takes the answer to the last `request`, and returns what is new in it, and whether the log
    /// holds more. Hints may have moved this reader on meanwhile.
    pub fn take(&mut self, answer: Answer) -> Result<(Vec<Delivery>, bool), StopReason> {
        let (entries, more) = match answer {
            Answer::Entries { entries, more } => (entries, more),
            Answer::Object(answer) => return self.take_piece(answer),
            _ => return Err(StopReason::Confused("a range")),
        };
        self.reaches_back(&entries)?;
        let mut deliveries = Vec::new();
        for (key, bytes) in entries {
            let at = self.place.sequence_of(&key);
            let at = at.ok_or(StopReason::Confused("a range"))?;
            if at > self.position.sequence {
                match self.deliver(at, &bytes)? {
                    Some(delivery) => deliveries.push(delivery),
                    None => return Ok((deliveries, true)),
                }
            }
        }
        Ok((deliveries, more || self.download.is_some()))
    }

    /// Takes a piece of the next record's object. Afterwards the log must be read again.
    fn take_piece(&mut self, answer: ObjectAnswer) -> Result<(Vec<Delivery>, bool), StopReason> {
        let mut download = self.download.take().ok_or(StopReason::Confused("an object"))?;
        let at = download.position.sequence;
        match answer {
            ObjectAnswer::Bytes(piece) if download.take(&piece) => {}
            ObjectAnswer::Bytes(_) => return Err(StopReason::DamagedObject { at }),
            ObjectAnswer::Missing => {
                self.missing = Some(download.position.hash);
                return Ok((Vec::new(), true));
            }
            _ => return Err(StopReason::Confused("an object")),
        }
        if !download.is_whole() {
            self.download = Some(download);
            return Ok((Vec::new(), true));
        }
        let (position, stored_bytes) = (download.position, download.stored_bytes);
        let epoch = download.into_epoch().ok_or(StopReason::DamagedObject { at })?;
        self.position = position;
        let content = Content::Epoch(epoch);
        let delivery = Delivery {
            position,
            stored_bytes,
            content,
        };
        Ok((vec![delivery], true))
    }

    /// Takes a hint of the records' range.
    pub fn hint(&mut self, hint: &Hint) -> Hinted {
        let Hint::Put { key, value } = hint else {
            return Hinted::ReadRange;
        };
        match self.place.sequence_of(key) {
            Some(at) if at <= self.position.sequence => Hinted::Nothing,
            Some(at) => match self.deliver(at, value) {
                Ok(Some(delivery)) => Hinted::Delivered(delivery),
                Ok(None) | Err(_) => Hinted::ReadRange,
            },
            None => Hinted::Nothing,
        }
    }

    /// The log must hold the last delivered record if the range starts with it, or start after it
    /// because that was trimmed: the last record is never trimmed.
    fn reaches_back(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StopReason> {
        if self.asked_for_rest {
            return Ok(());
        }
        let applied = self.position.sequence;
        let Some((key, bytes)) = entries.first() else {
            let (is_new, applied) = (self.asked == LogSequence::ZERO, self.asked);
            return is_new.then_some(()).ok_or(StopReason::EndsBefore { applied });
        };
        match self.place.sequence_of(key) {
            Some(at) if at == applied && hash(bytes) != self.position.hash => Err(StopReason::BrokenChain { at }),
            _ => Ok(()),
        }
    }

    /// Verifies a record found at `at`; it has no effect unless it is the next. Returns `None` if
    /// its object must be read first.
    fn deliver(&mut self, at: LogSequence, bytes: &[u8]) -> Result<Option<Delivery>, StopReason> {
        let next = self.position.sequence.next();
        if at != next {
            return Err(StopReason::Trimmed { next, first: at });
        }
        let record = Record::decode(bytes).map_err(|why| StopReason::Unreadable { at, why })?;
        self.check(at, &record)?;
        let position = Position {
            sequence: at,
            hash: hash(bytes),
            term: record.term,
            writer: record.writer,
        };
        let stored_bytes = bytes.len();
        if let Body::Object(pointer) = record.body {
            if self.is_within_group() {
                return Err(StopReason::BrokenGroup { at });
            }
            if self.missing == Some(position.hash) {
                return Err(StopReason::LostObject { at });
            }
            let is_begun = |download: &Download| download.position == position;
            if !self.download.as_ref().is_some_and(is_begun) {
                self.download = Some(Download::new(position, stored_bytes, pointer));
            }
            return Ok(None);
        }
        let content = self.content(at, record)?;
        (self.position, self.download) = (position, None);
        Ok(Some(Delivery {
            position,
            stored_bytes,
            content,
        }))
    }

    fn check(&self, at: LogSequence, record: &Record) -> Result<(), StopReason> {
        if record.cluster != self.place.cluster {
            let found = record.cluster;
            return Err(StopReason::OtherCluster { at, found });
        }
        if record.partition != self.place.partition || record.sequence != at {
            return Err(StopReason::Misplaced { at });
        }
        if record.before != self.position.hash {
            return Err(StopReason::BrokenChain { at });
        }
        let fits = match record.body {
            Body::Term { .. } | Body::Founding { .. } => record.term == self.position.term.next(),
            _ => record.term == self.position.term && record.writer == self.position.writer,
        };
        let term = record.term;
        fits.then_some(()).ok_or(StopReason::WrongTerm { at, term })
    }

    fn content(&mut self, at: LogSequence, record: Record) -> Result<Content, StopReason> {
        let broken = StopReason::BrokenGroup { at };
        match record.body {
            Body::Term { floor } | Body::Founding { floor, .. } => {
                self.group.clear();
                let (term, writer) = (record.term, record.writer);
                Ok(Content::Term { term, writer, floor })
            }
            Body::Chunk { index, count, bytes } => self.chunk(index, count, bytes).ok_or(broken),
            _ if self.is_within_group() => Err(broken),
            Body::Epoch(epoch) => Ok(Content::Epoch(epoch)),
            Body::Mark => Ok(Content::Mark),
            Body::Hash { at, state } => Ok(Content::Hash { at, state }),
            Body::Object(_) => Err(broken),
        }
    }

    fn chunk(&mut self, index: u32, count: u32, bytes: Vec<u8>) -> Option<Content> {
        let follows = index as usize == self.group.len() && count <= CHUNKS_MAX;
        if !follows {
            return None;
        }
        self.group.push(bytes);
        let is_whole = self.group.len() == count as usize;
        let epoch = is_whole.then(|| std::mem::take(&mut self.group).concat());
        Some(epoch.map_or(Content::Part, Content::Epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ClusterId, PartitionId};

    fn follower() -> Follower {
        let place = Place::new("/x", ClusterId(1), PartitionId(0));
        Follower::new(place.clone(), place.beginning())
    }

    fn first_record(place: &Place) -> (Vec<u8>, Vec<u8>) {
        let record = Record {
            cluster: place.cluster,
            partition: place.partition,
            sequence: LogSequence(1),
            term: Term(1),
            writer: Writer::default(),
            before: place.beginning().hash,
            body: Body::Term { floor: Version(1) },
        };
        (place.record_key(LogSequence(1)), record.encode())
    }

    /// A follower of a new log requested a range, which was empty; the first record's hint overtook
    /// that answer. The follower took the answer for a log that ends before its own position, and
    /// stopped. It now remembers the start of its request.
    #[test]
    fn a_hint_that_overtakes_an_empty_range_is_no_contradiction() {
        let mut follower = follower();
        let nothing = Answer::Entries {
            entries: Vec::new(),
            more: false,
        };
        let Request::Range { from, .. } = follower.request() else {
            panic!("a follower reads by range");
        };
        let (key, value) = first_record(follower.place());
        assert!(from < key);
        let hinted = follower.hint(&Hint::Put { key, value });
        assert!(matches!(hinted, Hinted::Delivered(_)));
        assert_eq!(follower.take(nothing.clone()), Ok((Vec::new(), false)));
        follower.request();
        let applied = LogSequence(1);
        assert_eq!(follower.take(nothing), Err(StopReason::EndsBefore { applied }));
    }

    #[test]
    fn a_log_with_another_last_record_is_another() {
        let mut follower = follower();
        let (key, value) = first_record(follower.place());
        follower.hint(&Hint::Put {
            key: key.clone(),
            value: value.clone(),
        });
        follower.request();
        let mut other = value;
        other[70] ^= 1;
        let answer = Answer::Entries {
            entries: vec![(key, other)],
            more: false,
        };
        let at = LogSequence(1);
        assert_eq!(follower.take(answer), Err(StopReason::BrokenChain { at }));
    }

    #[test]
    fn a_hint_of_nothing_is_harmless() {
        let mut follower = follower();
        let hint = |key: Vec<u8>| Hint::Put {
            key,
            value: b"no record".to_vec(),
        };
        let (record, term) = (first_record(follower.place()).0, follower.place().term_key());
        assert_eq!(follower.hint(&hint(record)), Hinted::ReadRange);
        assert_eq!(follower.hint(&hint(term)), Hinted::Nothing);
        assert_eq!(follower.hint(&Hint::Missed), Hinted::ReadRange);
    }
}
