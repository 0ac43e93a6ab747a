//! A logical database on its way from one partition to another of the same process.
//!
//! ```text
//!   source   snapshot at S --rows--> target                       everybody goes on at the source
//!            log after S ---effects--> target                     as often as there is more
//!            fence: nothing of the database commits any more
//!            log up to the fence ---effects--> target             now both hold the same
//! ```
//!
//! Meanwhile the rows in the target belong to no layer. They keep their versions, and each
//! transaction that writes them commits above all of them, so versions of the database continue in
//! one order. The caller decides where the database is and clears the other partition afterwards:
//! the engine has no catalogue.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_model::{DatabaseId, Effect, Effects, EffectsError, EffectsReader, KeyRange, LayerId, Version};
use quartet_store::{PartitionSnapshot, Read, Row, StoreError};

use crate::engine::Engine;
use crate::log_reader::{LogReadError, LogReader};
use crate::options::Durability;
use crate::partition::busy::Busy;
use crate::partition::state::Dependency;
use crate::partition::transaction::Transaction;
use crate::partition::{ExecuteError, PartitionGuard};
use crate::space::{SPACE_BYTES, Space};
use crate::standing::Arrival;

/// Rows that are put into the target under one hold of its lock, at most, and about how many bytes.
const STEP_ROWS: usize = 256;
const STEP_BYTES: usize = 64 << 10;
/// Largest number of bytes written to the target and not yet synced: writes of its clients queue
/// after them.
const UNSYNCED_BYTES: usize = 1 << 20;
/// The lead that the version of a sent row may have over this machine's clock. Later commits land
/// above it.
const AHEAD_MICROS_MAX: u64 = 60_000_000;

/// Why a database was not copied. The source has all of it.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseCopyError {
    /// Something keeps a partition.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The source's log was trimmed before its changes were followed, or cannot be read.
    #[error("the log of the source: {0}")]
    Log(#[from] LogReadError),
    /// A record of the log is none.
    #[error("the log of the source: {0}")]
    Malformed(#[from] EffectsError),
    /// Rows of the source cannot be read.
    #[error("the source cannot be read: {0}")]
    Unreadable(#[from] StoreError),
    /// A disk has no room.
    #[error("the disk is full")]
    DiskFull,
    /// A partition could not take something.
    #[error("a partition cannot take the rows; see the server's log")]
    Refused,
    /// The rows are of no layer that this program knows.
    #[error("the database has rows of a layer that this program does not know")]
    UnknownLayer,
    /// The version of a sent row is newer than this machine's clock allows.
    #[error("a row's version is {0} s ahead of this server's clock")]
    Ahead(u64),
}

/// Progress figures of a copy, for observers.
#[derive(Debug, Default)]
pub struct CopyFigures {
    /// Rows of the snapshot that are in the target.
    pub rows: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Transactions of the source that were followed.
    pub transactions: AtomicU64,
}

/// A database that is being copied.
pub struct DatabaseCopy {
    /// `None` once all rows of it are in the target.
    snapshot: Option<PartitionSnapshot>,
    /// The last key of the previous step.
    after: Vec<u8>,
    log: LogReader,
    /// All of the source up to here is in the target, once the snapshot is.
    seen: Version,
    arrival: Arrival,
    writer: Writer,
}

/// Puts rows and effects into the target.
struct Writer {
    target: Arc<Engine>,
    /// From before the first row: the rows are valid as long as the target has been home from that
    /// arrival on.
    arrival: Arrival,
    database: DatabaseId,
    /// Bytes in the target that may not be durable yet, and what to wait for.
    unsynced_bytes: usize,
    newest: Dependency,
    figures: Arc<CopyFigures>,
}

impl Engine {
    /// Refuses transactions of the database in this engine, until [`Engine::unfence`] or until the
    /// engine is opened again. Returns a version after its last commit; once that version is
    /// durable it is in the log, before everything that follows. The caller waits for it by
    /// [`DatabaseCopy::arrival`]: a home may be deposed.
    pub fn fence(&self, database: DatabaseId) -> Result<Version, DatabaseCopyError> {
        let mut partition = self.partition_in_time()?;
        let version = mark(&mut partition, database)?;
        partition.state().fenced.push(database);
        Ok(version)
    }

    /// Commits a transaction that changes nothing, and returns its version: once that is durable,
    /// the log holds all that was committed before it.
    pub fn mark_version(&self) -> Result<Version, DatabaseCopyError> {
        mark(&mut self.partition_in_time()?, DatabaseId(0))
    }

    /// The database is here, or again.
    pub fn unfence(&self, database: DatabaseId) {
        self.partition().state().fenced.retain(|other| *other != database);
    }

    /// Lifts all fences. For a new home: its catalogue decides which databases are here.
    pub fn unfence_all(&self) {
        self.partition().state().fenced.clear();
    }

    /// Notifies all watches of the database that their keys may have changed, because the database
    /// has moved.
    pub fn tell_watchers(&self, database: DatabaseId) {
        self.partition().state().watches.tell_all(&database.0.to_be_bytes());
    }

    /// Removes all rows of a database, also if it is fenced. The caller waits for the returned
    /// dependency.
    pub fn clear_database(&self, database: DatabaseId) -> Result<Dependency, DatabaseCopyError> {
        let mut latest = Dependency::ZERO;
        for layer in LayerId::ALL {
            let mut partition = self.partition_in_time()?;
            let cleared = partition.execute_here(space(database, layer), |transaction| {
                transaction.deletes();
                transaction.clear_all();
                Ok(())
            });
            let ((), dependency) = cleared.map_err(refused)?;
            latest = latest.max(dependency);
        }
        Ok(latest)
    }

    /// The number of a database's rows in each of its spaces.
    pub fn rows_of(&self, database: DatabaseId) -> Result<Vec<u64>, DatabaseCopyError> {
        let (snapshot, ..) = self.snapshot();
        let count = |layer| {
            let range = KeyRange::prefix(&space(database, layer).prefix());
            snapshot.count(&range.start, &range.end)
        };
        Ok(LayerId::ALL.into_iter().map(count).collect::<Result<_, _>>()?)
    }

    /// Writes rows of another server's database as rows of `database`, which no layer serves yet:
    /// each keeps its version. Returns once they are durable. The server's own rows about a
    /// database are refused: they hold the other server's users.
    pub fn put_rows(self: &Arc<Self>, database: DatabaseId, rows: Vec<Row>) -> Result<(), DatabaseCopyError> {
        let mut writer = Writer {
            target: self.clone(),
            arrival: self.arrival(Durability::Always),
            database,
            unsynced_bytes: 0,
            newest: Dependency::ZERO,
            figures: Arc::default(),
        };
        let ahead_micros = |version: Version| version.0.saturating_sub(self.now_micros());
        let (mut step, mut layer, mut bytes, mut newest) = (Vec::new(), LayerId::System, 0, Version(0));
        for row in rows {
            let of = layer_of(row.key())?;
            if of == LayerId::System {
                return Err(DatabaseCopyError::UnknownLayer);
            }
            if ahead_micros(row.version()) > AHEAD_MICROS_MAX {
                return Err(DatabaseCopyError::Ahead(ahead_micros(row.version()) / 1_000_000));
            }
            if of != layer || step.len() == STEP_ROWS || bytes >= STEP_BYTES {
                writer.put_step(layer, newest, std::mem::take(&mut bytes), std::mem::take(&mut step))?;
                layer = of;
            }
            bytes += row.key().len() + row.value().len();
            newest = newest.max(row.version());
            let key = [&database.0.to_be_bytes(), &row.key()[size_of::<u16>()..]].concat();
            step.push(Row::new(&key, row.value(), row.version()));
        }
        writer.put_step(layer, newest, bytes, step)?;
        writer.settle()
    }

    /// Makes every later commit land above `version`.
    pub fn land_above(&self, version: Version) -> Result<(), Busy> {
        self.partition_in_time()?.land_above(version.0);
        Ok(())
    }
}

fn mark(partition: &mut PartitionGuard<'_>, database: DatabaseId) -> Result<Version, DatabaseCopyError> {
    let marked = partition.execute_here(space(database, LayerId::System), |transaction| {
        transaction.deletes();
        Ok(transaction.commit_version())
    });
    Ok(marked.map_err(refused)?.0)
}

impl DatabaseCopy {
    /// Starts to copy a database of `source` to `target`, which has no rows of it.
    pub fn begin(
        source: &Engine,
        target: Arc<Engine>,
        database: DatabaseId,
        figures: Arc<CopyFigures>,
    ) -> Result<DatabaseCopy, DatabaseCopyError> {
        let arrivals = [source, &*target].map(|engine| engine.arrival(Durability::Always));
        // In this order: everything after the snapshot is in records that the reader has yet to
        // return.
        let log = source.read_log(source.durable_sequence().next())?;
        let (snapshot, version, _) = source.snapshot();
        Ok(DatabaseCopy {
            snapshot: Some(snapshot),
            after: database.0.to_be_bytes().to_vec(),
            log,
            seen: version,
            arrival: arrivals[0],
            writer: Writer {
                target,
                arrival: arrivals[1],
                database,
                unsynced_bytes: 0,
                newest: Dependency::ZERO,
                figures,
            },
        })
    }

    /// Copies some rows. False: all of them are in the target.
    pub fn copy_some(&mut self) -> Result<bool, DatabaseCopyError> {
        let Some(snapshot) = &self.snapshot else {
            return Ok(false);
        };
        let end = KeyRange::prefix(&self.writer.database.0.to_be_bytes()).end;
        let (mut rows, mut bytes) = (Vec::<Row>::new(), 0);
        snapshot.scan(&self.after, &end, false, &mut |row| {
            let is_of_another_layer = rows.first().is_some_and(|first| first.key()[2] != row.key()[2]);
            if is_of_another_layer || rows.len() == STEP_ROWS || bytes >= STEP_BYTES {
                return ControlFlow::Break(());
            }
            bytes += row.key().len() + row.value().len();
            rows.push(row.clone());
            ControlFlow::Continue(())
        })?;
        let Some(last) = rows.last() else {
            self.snapshot = None;
            return Ok(false);
        };
        self.after = [last.key(), &[0]].concat();
        let layer = layer_of(last.key())?;
        let count = rows.len() as u64;
        self.writer.put_step(layer, self.seen, bytes, rows)?;
        let figures = &self.writer.figures;
        figures.rows.fetch_add(count, Ordering::Relaxed);
        figures.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Applies newly durable effects of the source, at most one record of its log. Returns false if
    /// there are none at present.
    pub fn follow_some(&mut self) -> Result<bool, DatabaseCopyError> {
        let Some(record) = self.log.next()? else {
            return Ok(false);
        };
        let mut transactions = EffectsReader::new(record.payload);
        while let Some((version, effects)) = transactions.next_transaction()? {
            if version > self.seen {
                self.writer.follow(version, effects)?;
                self.seen = version;
            }
        }
        Ok(true)
    }

    /// From before the first read: the copied rows are the source's as long as it has been home
    /// from that arrival on.
    pub fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Everything of the source up to this version is in the target.
    pub fn seen(&self) -> Version {
        self.seen
    }

    /// Waits until all that was copied is durable in the target.
    pub fn settle(&mut self) -> Result<(), DatabaseCopyError> {
        self.writer.settle()
    }
}

impl Writer {
    fn settle(&mut self) -> Result<(), DatabaseCopyError> {
        self.unsynced_bytes = 0;
        match self.target.wait_settled(self.newest, self.arrival) {
            true => Ok(()),
            false => Err(DatabaseCopyError::Refused),
        }
    }

    /// A transaction has one space. A large one is applied in parts: the database has no readers
    /// yet.
    fn follow(&mut self, version: Version, mut effects: Effects<'_>) -> Result<(), DatabaseCopyError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut layer = None;
        while let Some(effect) = effects.next() {
            let effect = effect?;
            if !effect.start().starts_with(&self.database.0.to_be_bytes()) {
                break;
            }
            let of = *layer.get_or_insert(layer_of(effect.start())?);
            let row = Kept::of(effect, version);
            bytes += row.bytes();
            rows.push(row);
            if rows.len() == STEP_ROWS || bytes >= STEP_BYTES {
                self.put_effects(of, version, std::mem::take(&mut bytes), std::mem::take(&mut rows))?;
            }
        }
        let Some(layer) = layer else {
            return Ok(());
        };
        if !rows.is_empty() {
            self.put_effects(layer, version, bytes, rows)?;
        }
        self.figures.transactions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// No rows are no transaction.
    fn put_step(
        &mut self,
        layer: LayerId,
        version: Version,
        bytes: usize,
        rows: Vec<Row>,
    ) -> Result<(), DatabaseCopyError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.put(layer, version, bytes, |transaction| {
            rows.into_iter().for_each(|row| transaction.put_row(row));
        })
    }

    fn put_effects(
        &mut self,
        layer: LayerId,
        version: Version,
        bytes: usize,
        effects: Vec<Kept>,
    ) -> Result<(), DatabaseCopyError> {
        self.put(layer, version, bytes, |transaction| {
            effects.into_iter().for_each(|effect| effect.apply(transaction));
        })
    }

    /// Executes in the target, above `version`.
    fn put(
        &mut self,
        layer: LayerId,
        version: Version,
        bytes: usize,
        body: impl FnOnce(&mut Transaction<'_>),
    ) -> Result<(), DatabaseCopyError> {
        let executed = {
            let mut partition = self.target.partition_in_time()?;
            partition.land_above(version.0);
            partition.execute_here(space(self.database, layer), |transaction| {
                body(transaction);
                Ok::<_, Infallible>(())
            })
        };
        let ((), dependency) = executed.map_err(refused)?;
        self.newest = self.newest.max(dependency);
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= UNSYNCED_BYTES {
            self.settle()?;
        }
        Ok(())
    }
}

/// An effect of the source, as the target is given it: with full keys.
enum Kept {
    Row(Row),
    Clear(Vec<u8>),
    ClearRange(Vec<u8>, Vec<u8>),
    Patch(Vec<u8>, usize, Vec<u8>, Version),
}

impl Kept {
    fn of(effect: Effect<'_>, version: Version) -> Kept {
        match effect {
            Effect::Set { key, value } => Kept::Row(Row::new(key, value, version)),
            Effect::Row { key, value, version } => Kept::Row(Row::new(key, value, version)),
            Effect::Clear { key } => Kept::Clear(key.to_vec()),
            Effect::ClearRange { start, end } => Kept::ClearRange(start.to_vec(), end.to_vec()),
            Effect::Patch { key, offset, bytes } => Kept::Patch(key.to_vec(), offset, bytes.to_vec(), version),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Kept::Row(row) => row.key().len() + row.value().len(),
            Kept::Clear(key) => key.len(),
            Kept::ClearRange(start, end) => start.len() + end.len(),
            Kept::Patch(key, _, bytes, _) => key.len() + bytes.len(),
        }
    }

    fn apply(self, transaction: &mut Transaction<'_>) {
        match self {
            Kept::Row(row) => transaction.put_row(row),
            Kept::Clear(key) => drop(transaction.clear(&key[SPACE_BYTES..])),
            Kept::ClearRange(start, end) => transaction.clear_full(start, end),
            Kept::Patch(key, offset, bytes, version) => {
                let old = transaction.get(&key[SPACE_BYTES..]);
                transaction.put_row(Row::patched(old.as_ref(), &key, offset, &bytes, version));
            }
        }
    }
}

fn refused(error: ExecuteError<Infallible>) -> DatabaseCopyError {
    match error {
        ExecuteError::DiskFull(_) => DatabaseCopyError::DiskFull,
        _ => DatabaseCopyError::Refused,
    }
}

fn space(database: DatabaseId, layer: LayerId) -> Space {
    Space {
        database,
        layer,
        durability: Durability::Always,
    }
}

fn layer_of(key: &[u8]) -> Result<LayerId, DatabaseCopyError> {
    let byte = key.get(2).copied();
    let layer = LayerId::ALL.into_iter().find(|layer| Some(*layer as u8) == byte);
    layer.ok_or(DatabaseCopyError::UnknownLayer)
}
