//! A node's own log without its sequencer: where it ends, and the beginning of another cluster's
//! history behind it.

use quartet_log::{Log, LogError};
use quartet_log_replicated::{Place, Position};
use quartet_model::{LogSequence, Version};
use quartet_store::{StoreKind, StoreOptions};

use crate::recovery::opening::recover;
use crate::replication::place::placed;
use crate::{OpenError, Parts};

/// The files of a node that does not run.
pub struct OwnLog {
    log: Box<dyn Log>,
    place: Position,
    last: Version,
}

impl OwnLog {
    /// Reads the files of a node of the cluster of `place`. `kind`: `None` for that of the files.
    pub fn open(parts: Parts, kind: Option<StoreKind>, place: &Place) -> Result<OwnLog, OpenError> {
        let options = StoreOptions {
            kind,
            ..StoreOptions::default()
        };
        let recovered = recover(parts.disk, parts.log, &options, true, &mut |_| {})?;
        Ok(OwnLog {
            place: recovered.places.position(place),
            last: recovered.last,
            log: recovered.log,
        })
    }

    /// The last whole record.
    pub fn position(&self) -> Position {
        self.place
    }

    /// The last record, which may be in a group whose end is missing.
    pub fn tail(&self) -> LogSequence {
        self.log.tail()
    }

    /// The newest version.
    pub fn version(&self) -> Version {
        self.last
    }

    /// Ends the log with the Term record that stands at `position`, durably.
    pub fn begin_term(mut self, position: &Position, floor: Version) -> Result<(), LogError> {
        let tail = self.log.tail();
        debug_assert_eq!(tail.next(), position.sequence);
        let empty = [&floor.0.to_le_bytes()[..], &[0; 4]].concat();
        self.log.append(tail, &[&placed(position, false), &empty])?;
        self.log.sync()?;
        self.log.close()
    }
}
