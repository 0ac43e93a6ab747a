//! The key-value layer: ordered keys and interactive transactions, as FoundationDB has them.
//!
//! The client keeps the transaction: it reads at a version, gathers its writes and what conflicts
//! with them, and sends them whole. So the layer's part is small: it hands out read versions and
//! keeps the state at each readable for a while, resolves key selectors, reads ranges, and passes
//! commits to the engine. Keys of the protocol are the keys of the space.
//!
//! | file        | what it is                                                        |
//! |-------------|-------------------------------------------------------------------|
//! | `session`   | one connection's requests, the versions it reads at, its watches  |
//! | `batching`  | requests that arrived together, prefetched together               |
//! | `versions`  | the readable states, by version                                   |
//! | `selectors` | the key that a selector names                                     |
//! | `ranges`    | reading a range within limits                                     |
//! | `changes`   | the meaning of effects, for change feeds                          |
//! | `commit`    | from the protocol's transaction to the engine's                   |
//! | `watches`   | notification of a client that a value changed                     |
//! | `sizes`     | estimates: how large a range is, and where to cut it              |
//! | `invariants`| the invariants that `quartet check` verifies                      |
//! | `status`    | the server's status, as JSON                                      |
//! | `workload`  | counts of requests and their rates, for the status                |

mod batching;
mod changes;
mod commit;
mod invariants;
mod ranges;
mod selectors;
mod session;
mod sizes;
mod status;
mod versions;
mod watches;
mod workload;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use quartet_engine::{Admission, Engine, PartitionGuard, Space};
use quartet_wire_keyvalue::{ErrorCode, FRAME_BYTES_MAX};

pub use batching::{Together, first_requests};
pub use changes::KeyValueChanges;
pub use invariants::KeyValueInvariants;
pub use session::{Answered, Session};
pub use watches::Wake;

use crate::versions::Versions;
use crate::workload::Workload;

/// The end of the keys of ordinary transactions, and of transactions with access to system keys.
pub(crate) const USER_KEYS_END: &[u8] = b"\xff";
pub(crate) const SYSTEM_KEYS_END: &[u8] = b"\xff\xff";

/// A client stamps it to invalidate the schemas that layers cache. All transactions may read and
/// stamp it.
pub(crate) const METADATA_VERSION_KEY: &[u8] = b"\xff/metadataVersion";

pub(crate) fn keys_end(system: bool) -> &'static [u8] {
    if system { SYSTEM_KEYS_END } else { USER_KEYS_END }
}

/// A key that may be read. Keys that a client's library refuses are refused here too, since a
/// client may be any program.
pub(crate) fn check_readable_key(key: &[u8], system: bool) -> Result<(), ErrorCode> {
    let is_outside = key >= keys_end(system) && key != METADATA_VERSION_KEY;
    if is_outside {
        return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
    }
    Ok(())
}

/// Checks a bound of a range that is read or written.
pub(crate) fn check_bound(bound: &[u8], system: bool) -> Result<(), ErrorCode> {
    if bound > keys_end(system) {
        return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
    }
    Ok(())
}

/// Allowance of a frame beyond the largest transaction.
const FRAME_ROOM_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time for which a returned version remains readable, in microseconds.
    pub read_window_micros: u64,
    /// Most bytes of keys and values that a transaction may write and name as conflicts.
    pub transaction_bytes_max: usize,
    /// Most watches of one connection.
    pub watches_max: usize,
}

impl Options {
    /// No transaction can be allowed to be larger: it must fit a frame.
    pub const TRANSACTION_BYTES_MAX: usize = 128 << 20;

    /// Largest frame that a client has reason to send. A transaction that is a little too large is
    /// refused, not cut off.
    pub fn frame_bytes_max(&self) -> usize {
        FRAME_BYTES_MAX.min(self.transaction_bytes_max + FRAME_ROOM_BYTES)
    }
}

impl Default for Options {
    /// The limits of FoundationDB.
    fn default() -> Options {
        Options {
            read_window_micros: 5_000_000,
            transaction_bytes_max: 10_000_000,
            watches_max: 1_000_000,
        }
    }
}

/// The key-value layer of one logical database.
pub struct KeyValue {
    engine: Arc<Engine>,
    space: Space,
    options: Options,
    versions: Versions,
    /// Another number for each start of the server.
    instance: u64,
    sessions: AtomicUsize,
    workload: Workload,
    /// The memory of the watches of all sessions.
    watched_bytes: Arc<AtomicUsize>,
}

impl KeyValue {
    pub fn new(engine: Arc<Engine>, space: Space, options: Options, instance: u64) -> KeyValue {
        KeyValue {
            engine,
            space,
            options,
            versions: Versions::new(options.read_window_micros),
            instance,
            sessions: AtomicUsize::new(0),
            workload: Workload::default(),
            watched_bytes: Arc::default(),
        }
    }

    /// Releases unused states. Call it a few times a second.
    pub fn maintain(&self) {
        let is_short = self.engine.admission() != Admission::Now;
        self.versions.tidy(self.engine.now_micros(), is_short);
        if is_short {
            self.versions.forget_unused();
        }
    }

    /// The partition's lock, unless it is held for long.
    fn partition(&self) -> Option<PartitionGuard<'_>> {
        self.engine.partition_in_time().ok()
    }
}

/// A fresh engine in memory, and the space of its default database.
#[cfg(test)]
pub(crate) fn test_engine() -> (Engine, Space) {
    use quartet_engine::{Durability, EngineOptions};
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_model::{DatabaseId, LayerId};

    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let disk = Arc::new(FaultyDisk::new());
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::KeyValue,
        durability: Durability::None,
    };
    (engine, space)
}
