//! A data folder without its sequencer: the end of its log, and the start of another cluster's
//! history after it.

use std::sync::Arc;

use quartet_env::Disk;
use quartet_log::{Log, LogError};
use quartet_log_replicated::{FoundedState, Place, Position, RecordHash};
use quartet_model::{LogSequence, Version};
use quartet_store::{PartitionStore, Read, StoreKind, StoreOptions, state_hash};

use crate::options::OpenError;
use crate::parts::Parts;
use crate::recovery::opening::{Recovered, recover};
use crate::replication::place::{Folder, Kind, NONE_BEFORE, Placed};

/// The files of a node that does not run.
pub struct OwnLog {
    log: Box<dyn Log>,
    place: Position,
    /// The hash of the last record, whole or not.
    chained: RecordHash,
    last: Version,
    has_ended: bool,
}

impl OwnLog {
    /// Reads the files of a node of the cluster of `place`. `kind`: `None` for the kind of the
    /// files.
    pub fn open(parts: Parts, kind: Option<StoreKind>, place: &Place) -> Result<OwnLog, OpenError> {
        OwnLog::read(parts, kind, place, Folder::Node)
    }

    /// The same, but the log may also end with the cluster's end.
    pub fn open_to_end(parts: Parts, kind: Option<StoreKind>, place: &Place) -> Result<OwnLog, OpenError> {
        OwnLog::read(parts, kind, place, Folder::Ending)
    }

    fn read(parts: Parts, kind: Option<StoreKind>, place: &Place, folder: Folder) -> Result<OwnLog, OpenError> {
        let recovered = open(parts.disk.clone(), parts, kind, folder)?;
        Ok(OwnLog {
            place: recovered.places.position(place),
            chained: recovered.places.last,
            has_ended: recovered.places.has_ended,
            last: recovered.last,
            log: recovered.log,
        })
    }

    /// Returns true if the log ends with a cluster's end.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The last record of the cluster, which its end follows.
    pub fn last_of_cluster(&self) -> LogSequence {
        let tail = self.log.tail();
        match self.has_ended {
            true => LogSequence(tail.0 - 1),
            false => tail,
        }
    }

    /// Appends the end of the cluster to the log, durably, unless the log has it. The folder is a
    /// server's then.
    pub fn end_cluster(mut self, floor: Version) -> Result<(), LogError> {
        if self.has_ended {
            return self.log.close();
        }
        let position = Position {
            sequence: self.log.tail().next(),
            ..self.place
        };
        end_with(self.log, &position, Kind::End, self.chained, floor)
    }

    /// The last whole record.
    pub fn position(&self) -> Position {
        self.place
    }

    /// The last record, which may be in a group without its end.
    pub fn tail(&self) -> LogSequence {
        self.log.tail()
    }

    /// The newest version.
    pub fn version(&self) -> Version {
        self.last
    }

    /// Appends the Term record with `position` to the log, durably.
    pub fn begin_term(self, position: &Position, floor: Version) -> Result<(), LogError> {
        end_with(self.log, position, Kind::Whole, self.chained, floor)
    }
}

/// The files of a partition before or during the founding of a cluster.
pub struct Founder {
    log: Box<dyn Log>,
    store: PartitionStore,
    /// The last whole record of the cluster, if the log has any.
    place: Option<Position>,
    last: Version,
}

impl Founder {
    /// Reads the files, of a server or of a node. `kind`: `None` for the kind of the files.
    pub fn open(parts: Parts, kind: Option<StoreKind>) -> Result<Founder, OpenError> {
        let recovered = open(parts.disk.clone(), parts, kind, Folder::Either)?;
        Ok(Founder {
            place: recovered.places.whole,
            last: recovered.last,
            log: recovered.log,
            store: recovered.store,
        })
    }

    /// Returns true if there are data that a new cluster must start with.
    pub fn has_data(&self) -> bool {
        self.log.tail() > LogSequence::ZERO || self.store.len() > 0
    }

    /// Returns true if the log ends with the record at `position`.
    pub fn has_founded(&self, position: &Position) -> bool {
        self.place == Some(*position)
    }

    /// The store's engine.
    pub fn kind(&self) -> StoreKind {
        self.store.kind()
    }

    /// The state that a founding record names. Reads all rows.
    pub fn state(&self) -> Result<FoundedState, OpenError> {
        Ok(FoundedState {
            last: self.log.tail(),
            version: self.last,
            state: state_hash(&self.store, None).map_err(quartet_store::OpenError::Store)?,
        })
    }

    /// Appends the founding record with `position` to the log, durably, unless it is already the
    /// last record.
    pub fn found(mut self, position: &Position, floor: Version) -> Result<(), LogError> {
        if self.has_founded(position) {
            return self.log.close();
        }
        end_with(self.log, position, Kind::Founding, NONE_BEFORE, floor)
    }
}

fn open(disk: Arc<dyn Disk>, parts: Parts, kind: Option<StoreKind>, folder: Folder) -> Result<Recovered, OpenError> {
    let options = StoreOptions {
        kind,
        ..StoreOptions::default()
    };
    recover(disk, parts.log, &options, folder, &mut |_| {})
}

/// The floor is the version of a transaction without effects.
fn end_with(
    mut log: Box<dyn Log>,
    position: &Position,
    kind: Kind,
    before: RecordHash,
    floor: Version,
) -> Result<(), LogError> {
    let tail = log.tail();
    debug_assert_eq!(tail.next(), position.sequence);
    let position = *position;
    let place = Placed { position, kind, before }.encode();
    let empty = [&floor.0.to_le_bytes()[..], &[0; 4]].concat();
    log.append(tail, &[&place, &empty])?;
    log.sync()?;
    log.close()
}
