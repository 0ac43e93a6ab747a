//! Rows of the system space, and the errors of reading and writing them.

use quartet_engine::{Busy, DatabaseCopyError, Dependency, Durability, Engine, ExecuteError, Space, Transaction};
use quartet_model::{DatabaseId, LayerId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The definition of a database in its own partition.
pub(crate) const COPY: u8 = b'C';
/// Whether a database that was moved is in this partition.
pub(crate) const PLACE: u8 = b'H';

#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("a database's name is 1 to 64 lower-case letters, digits and hyphens, and not 'default'")]
    BadName,
    #[error("there is a database of this name")]
    Exists,
    #[error("a database of this name is being deleted")]
    BeingDeleted,
    #[error("a database of this name is being restored")]
    BeingRestored,
    #[error("the database has {found} of its {expected} rows")]
    Incomplete { expected: u64, found: u64 },
    #[error("there is no database of this name")]
    Unknown,
    #[error("the limit on the number of databases is reached")]
    Full,
    #[error("the log has failed")]
    LogFailed,
    #[error("the disk is full")]
    DiskFull,
    #[error("the disk cannot be read")]
    Unreadable,
    #[error("{0} cannot be read: its row is damaged")]
    Damaged(&'static str),
    #[error("there is no partition {0}")]
    UnknownPartition(u32),
    #[error("the default database is in partition 0 and stays there")]
    Default,
    #[error("the database is being moved")]
    Moving,
    #[error("the database is not being moved")]
    NotMoving,
    #[error("partition {partition} and the catalogue disagree on the database {name}: one of them is older")]
    NotThere { name: String, partition: u32 },
    #[error("the database {name} is in partition {partition}, which is not there")]
    NoPartition { name: String, partition: u32 },
    #[error("what should be partition {expected} is partition {found}, perhaps of other data")]
    OtherPartition { expected: u32, found: u32 },
    #[error("partition {0} is empty, and the catalogue has databases in it")]
    LostPartition(u32),
    #[error("partition {0} has no home at the moment")]
    NoHome(u32),
    #[error("another node is home of the catalogue")]
    Stale,
    #[error("the partitions have homes at different nodes: this node takes over all of them; send the request again")]
    Apart,
    #[error("{0}")]
    Busy(#[from] Busy),
}

/// The database of the catalogue; no client's database has this number.
pub(crate) const SYSTEM: DatabaseId = DatabaseId(0);

pub(crate) fn space(durability: Durability) -> Space {
    Space {
        database: SYSTEM,
        layer: LayerId::System,
        durability,
    }
}

pub(crate) fn row(tag: u8, id: u16) -> [u8; 3] {
    let [high, low] = id.to_be_bytes();
    [tag, high, low]
}

/// Runs `body` as a transaction on the system space and waits until it is durable.
pub(crate) fn write<R>(engine: &Engine, body: impl FnOnce(&mut Transaction<'_>) -> R) -> Result<R, CatalogueError> {
    settled(engine.execute_durably(space(Durability::Always), |tx| {
        // Small and few, and without one no database could be deleted on a full disk.
        tx.deletes();
        Ok(body(tx))
    })?)
}

/// One row of the system space.
pub(crate) fn read(engine: &Engine, key: &[u8]) -> Result<Option<Vec<u8>>, CatalogueError> {
    let reader = engine.reader(space(Durability::Always))?;
    let value = reader.get(key);
    match reader.is_unreadable() {
        true => Err(CatalogueError::Unreadable),
        false => Ok(value),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("names and numbers are JSON")
}

/// Reads what this or an earlier version wrote.
pub(crate) fn read_row<T: DeserializeOwned>(value: &[u8]) -> T {
    serde_json::from_slice(value).expect("a row of the catalogue is what was written")
}

impl From<DatabaseCopyError> for CatalogueError {
    fn from(error: DatabaseCopyError) -> CatalogueError {
        match error {
            DatabaseCopyError::Busy(busy) => CatalogueError::Busy(busy),
            DatabaseCopyError::DiskFull => CatalogueError::DiskFull,
            DatabaseCopyError::Unreadable(_) => CatalogueError::Unreadable,
            _ => CatalogueError::LogFailed,
        }
    }
}

/// The layer's code never refuses here, and what it writes is small.
pub(crate) fn outcome(
    executed: Result<((), Dependency), ExecuteError<std::convert::Infallible>>,
) -> Result<Dependency, CatalogueError> {
    settled(executed.map(|((), dependency)| dependency))
}

pub(crate) fn settled<R>(executed: Result<R, ExecuteError<std::convert::Infallible>>) -> Result<R, CatalogueError> {
    match executed {
        Ok(answer) => Ok(answer),
        Err(ExecuteError::DiskFull(_)) => Err(CatalogueError::DiskFull),
        Err(ExecuteError::Unreadable(_)) => Err(CatalogueError::Unreadable),
        Err(ExecuteError::NotHome) => Err(CatalogueError::LogFailed),
        Err(ExecuteError::TooLarge(_)) => unreachable!("rows of the catalogue are small"),
        Err(ExecuteError::Layer(never, _)) => match never {},
    }
}
