//! All logical databases but the default one: rows of the engine's system space, and an index of
//! them in memory.
//!
//! ```text
//! 'D' id   the definition, as JSON
//! 'U' id   in the partition that has it: what the database has used, as JSON
//! 'I'      the id that was given last
//! 'T'      the number of the last push: `pushes`
//! 'C' id   in the partition that has it: the definition once more: `copies`
//! 'M' id   its move to another partition, while that is under way: `moves`
//! 'H' id   in the partition to or from which it was moved: whether it is there
//! 'R' 'A'  the operator's own credentials: `operator`
//! ```
//!
//! A change is a transaction like any other: it is in the log before it is in the index, and its
//! author gets an answer once it is durable. An idle database costs nothing but its entry in the
//! index. An id is reused only after all others, and only when no rows of its former database are
//! left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;
use quartet_engine::{Busy, Durability, Engine, PartitionId, Space, Transaction};
use quartet_model::{DatabaseId, LayerId, hexadecimal};
use serde::Serialize;

use crate::definition::{Definition, Hash, KeptCredentials, Move, is_name};
use crate::meter::{Meter, Usage};
use crate::partitions::{NUMBER, Partitions, number_in, number_row};
use crate::pushes::{Homes, Push, TAKEN, take, taken};
use crate::quotas::Limits;
use crate::rows::{COPY, CatalogueError, PLACE, json, outcome, read, read_row, row, space, write};
use crate::share::Turns;

/// An entry of the index. Connections that serve the database hold it meanwhile.
pub struct Database {
    pub id: DatabaseId,
    partition: AtomicU32,
    /// The count of its moves.
    moves: AtomicU64,
    /// The database is about to move to another partition: new requests wait briefly.
    is_held: AtomicBool,
    definition: RwLock<Arc<Definition>>,
    pub limits: Limits,
    pub meter: Meter,
    pub turns: Turns,
    /// It is being deleted.
    closed: AtomicBool,
}

/// The rights of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Full,
    ReadOnly,
    /// The admin of Fauna's tree.
    Fauna,
}

/// The secrets of a database, as they are shown once.
#[derive(Clone, Debug, Serialize)]
pub struct Secrets {
    pub token: String,
    pub read_only_token: String,
    pub fauna_key: String,
    pub access_key_id: String,
    pub secret_access_key: String,
}

/// A database that a push was about.
pub struct Changed {
    pub database: Arc<Database>,
    /// As it was defined.
    pub before: Arc<Definition>,
}

/// Fills a buffer with unpredictable bytes.
pub type Random = Box<dyn Fn(&mut [u8]) + Send + Sync>;

pub struct Catalogue {
    partitions: Arc<Partitions>,
    seen: Seen,
    random: Random,
    index: RwLock<Index>,
    /// True if there is no database: callers then need not take the lock.
    is_empty: AtomicBool,
    /// Changes are made one after the other.
    pub(crate) changing: parking_lot::Mutex<()>,
    /// The databases that are being moved.
    pub(crate) moving: parking_lot::Mutex<BTreeMap<u16, Move>>,
    /// The databases that are being restored.
    restoring: parking_lot::Mutex<BTreeMap<u16, Arc<parking_lot::Mutex<Restoring>>>>,
    /// Partitions that may not have received a change.
    pub(crate) untold: parking_lot::Mutex<BTreeSet<PartitionId>>,
}

/// The part of a server's or of a cluster's databases that a catalogue sees.
pub(crate) enum Seen {
    /// All of them, and this process is home of all partitions.
    Together,
    /// All of them. Partitions after the first have homes of their own, which admit clients
    /// according to the pushes that they took.
    Apart(Box<dyn Homes>),
    /// The databases of one partition after the first, according to the pushes that it took.
    OnePartition,
    /// All of them, at a node that is not home.
    Replica,
}

/// A database that rows of a backup are written to. It counts as deleted until it is whole, so
/// nothing of it remains after a crash or at another home.
struct Restoring {
    database: Arc<Database>,
    used_micros: u64,
    has_ended: bool,
}

/// Without rows for this time a restore has ended.
const RESTORE_IDLE_MICROS: u64 = 120_000_000;

#[derive(Default)]
struct Index {
    by_id: BTreeMap<u16, Arc<Database>>,
    by_name: HashMap<String, u16>,
    by_secret: HashMap<Hash, (u16, Access)>,
    by_access_key: HashMap<String, u16>,
}

/// The first that is given: 1 is the default database.
const FIRST_ID: u16 = 2;

impl Database {
    fn new(id: u16, definition: Definition, usage: &Usage) -> Database {
        Database {
            id: DatabaseId(id),
            partition: AtomicU32::new(definition.partition),
            moves: AtomicU64::new(times_moved(&definition)),
            is_held: AtomicBool::new(false),
            limits: Limits::of(&definition.quotas),
            closed: AtomicBool::new(definition.deleted),
            definition: RwLock::new(Arc::new(definition)),
            meter: Meter::from_usage(usage),
            turns: Turns::default(),
        }
    }

    pub fn definition(&self) -> Arc<Definition> {
        self.definition.read().clone()
    }

    /// Returns true once no new operation may start.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// It has all rows of the database.
    #[inline]
    pub fn partition(&self) -> PartitionId {
        PartitionId(self.partition.load(Ordering::SeqCst))
    }

    /// The count of its moves: anything built over the previous partition is of no use after
    /// another move.
    #[inline]
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Admits no request until [`Database::release`], because the database is about to move to
    /// another partition.
    pub fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
    }

    pub fn release(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }

    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// The space of one layer's rows of this database.
    pub fn space(&self, layer: LayerId) -> Space {
        Space {
            database: self.id,
            layer,
            durability: self.definition.read().durability,
        }
    }

    pub(crate) fn define(&self, definition: Definition) {
        self.limits.set(&definition.quotas);
        self.partition.store(definition.partition, Ordering::SeqCst);
        self.moves.store(times_moved(&definition), Ordering::SeqCst);
        self.closed.store(definition.deleted, Ordering::SeqCst);
        *self.definition.write() = Arc::new(definition);
    }
}

fn times_moved(definition: &Definition) -> u64 {
    definition.moved.map_or(0, |moved| moved.times)
}

impl Index {
    fn add(&mut self, database: Arc<Database>) {
        let (id, definition) = (database.id.0, database.definition());
        if !definition.deleted {
            let credentials = &definition.credentials;
            self.by_secret.insert(credentials.token, (id, Access::Full));
            self.by_secret
                .insert(credentials.read_only_token, (id, Access::ReadOnly));
            self.by_secret.insert(credentials.fauna_key, (id, Access::Fauna));
            let keys = credentials.access_keys.keys();
            self.by_access_key.extend(keys.map(|key| (key.clone(), id)));
        }
        self.by_name.insert(definition.name.clone(), id);
        self.by_id.insert(id, database);
    }

    /// Looks through all of it, however few they are.
    fn remove(&mut self, ids: &BTreeSet<u16>) {
        self.by_secret.retain(|_, (owner, _)| !ids.contains(owner));
        self.by_access_key.retain(|_, owner| !ids.contains(owner));
        self.by_name.retain(|_, owner| !ids.contains(owner));
        self.by_id.retain(|id, _| !ids.contains(id));
    }

    fn named(&self, name: &str) -> Option<&Arc<Database>> {
        self.by_id.get(self.by_name.get(name)?)
    }
}

impl Catalogue {
    /// Reads the catalogue. Deletions that the server's end interrupted are left to
    /// [`Catalogue::unfinished`].
    ///
    /// Errors: the partitions differ from the catalogue's.
    pub fn open(partitions: Arc<Partitions>, random: Random) -> Result<Catalogue, CatalogueError> {
        let catalogue = Catalogue::read_rows(partitions, Seen::Together, random)?;
        identify(&catalogue.partitions, &catalogue.index.read())?;
        for (_, engine) in catalogue.partitions.iter() {
            // A home that was deposed while it moved a database has left it closed.
            engine.unfence_all();
        }
        catalogue.verify_places()?;
        catalogue.go_on()?;
        Ok(catalogue)
    }

    /// The same where this process is home only of the first partition, and others are reached
    /// through `homes`. They have every definition when this returns.
    pub fn open_apart(
        partitions: Arc<Partitions>,
        homes: Box<dyn Homes>,
        random: Random,
    ) -> Result<Catalogue, CatalogueError> {
        let catalogue = Catalogue::read_rows(partitions, Seen::Apart(homes), random)?;
        catalogue.engine().unfence_all();
        catalogue.go_on()?;
        Ok(catalogue)
    }

    /// The databases of one partition after the first, as its own log has them. `partitions`
    /// consists of that partition.
    pub fn open_one(partitions: Arc<Partitions>, random: Random) -> Result<Catalogue, CatalogueError> {
        let catalogue = Catalogue::read_rows(partitions, Seen::OnePartition, random)?;
        catalogue.engine().unfence_all();
        Ok(catalogue)
    }

    pub(crate) fn read_rows(
        partitions: Arc<Partitions>,
        seen: Seen,
        random: Random,
    ) -> Result<Catalogue, CatalogueError> {
        let mut definitions = Vec::new();
        let tag = if matches!(seen, Seen::OnePartition) { COPY } else { b'D' };
        let reader = partitions.first().reader(space(Durability::Always))?;
        reader.scan(&[tag], &[tag + 1], false, &mut |key, value| {
            let id = key.get(1..3).and_then(|id| id.try_into().ok()).map(u16::from_be_bytes);
            let id = id.expect("a row of the catalogue carries an id");
            definitions.push((id, read_row::<Definition>(value)));
            ControlFlow::Continue(())
        });
        if reader.is_unreadable() {
            return Err(CatalogueError::Unreadable);
        }
        drop(reader);
        if matches!(seen, Seen::OnePartition) {
            // A database that has left names its new partition.
            definitions.retain(|(_, definition)| partitions.has(PartitionId(definition.partition)));
        }
        let mut index = Index::default();
        for (id, definition) in definitions {
            let usage = match seen {
                Seen::Replica => Usage::default(),
                _ => kept_usage(&partitions, id, PartitionId(definition.partition))?,
            };
            index.add(Arc::new(Database::new(id, definition, &usage)));
        }
        Ok(Catalogue {
            partitions,
            seen,
            random,
            is_empty: AtomicBool::new(index.by_id.is_empty()),
            index: RwLock::new(index),
            changing: parking_lot::Mutex::default(),
            moving: parking_lot::Mutex::default(),
            restoring: parking_lot::Mutex::default(),
            untold: parking_lot::Mutex::default(),
        })
    }

    /// Completes operations that the server's end, or the previous home's, interrupted.
    fn go_on(&self) -> Result<(), CatalogueError> {
        self.fence()?;
        self.end_moves()?;
        self.settle_all_copies()
    }

    #[cfg(test)]
    pub(crate) fn into_partitions(self) -> Arc<Partitions> {
        self.partitions
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Returns true if partitions after the first have homes of their own.
    #[inline]
    pub fn is_apart(&self) -> bool {
        matches!(self.seen, Seen::Apart(_))
    }

    /// Returns true while a database moves to another partition.
    pub fn is_any_moving(&self) -> bool {
        !self.moving.lock().is_empty()
    }

    /// Returns true if requests to databases of this partition are for another home.
    #[inline]
    pub fn is_elsewhere(&self, partition: PartitionId) -> bool {
        partition != PartitionId(0) && self.is_apart()
    }

    /// The engine that has the catalogue's rows.
    pub(crate) fn engine(&self) -> &Engine {
        self.partitions.first()
    }

    /// There is no database but the default one. One load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed)
    }

    /// In the order of their ids.
    pub fn list(&self) -> Vec<Arc<Database>> {
        self.index.read().by_id.values().cloned().collect()
    }

    pub fn named(&self, name: &str) -> Option<Arc<Database>> {
        self.find(|index| index.named(name).cloned())
    }

    pub fn numbered(&self, id: DatabaseId) -> Option<Arc<Database>> {
        self.find(|index| index.by_id.get(&id.0).cloned())
    }

    /// The database that a token, a password or Fauna's key opens.
    pub fn by_secret(&self, secret: &[u8]) -> Option<(Arc<Database>, Access)> {
        self.find(|index| {
            let (id, access) = *index.by_secret.get(&Hash::of(secret))?;
            Some((index.by_id.get(&id)?.clone(), access))
        })
    }

    /// The database that has an access key, and the key's secret.
    pub fn by_access_key(&self, key: &str) -> Option<(Arc<Database>, String)> {
        self.find(|index| {
            let database = index.by_id.get(index.by_access_key.get(key)?)?.clone();
            let secret = database.definition().credentials.access_keys.get(key)?.clone();
            Some((database, secret))
        })
    }

    /// The database that has an access key, or had it until a change in progress.
    pub fn owner_of_access_key(&self, key: &str) -> Option<Arc<Database>> {
        self.find(|index| index.by_id.get(index.by_access_key.get(key)?).cloned())
    }

    fn find<T>(&self, look: impl FnOnce(&Index) -> Option<T>) -> Option<T> {
        if self.is_empty() {
            None
        } else {
            look(&self.index.read())
        }
    }

    /// Creates a database with new credentials, in the partition with the least data. Only the hash
    /// of the returned secrets is kept; they cannot be shown again.
    pub fn create(&self, mut definition: Definition) -> Result<(Arc<Database>, Secrets), CatalogueError> {
        let _changing = self.changing.lock();
        definition.partition = self.partition_with_least().0;
        self.add(definition)
    }

    /// Creates a database that no client is admitted to until [`Catalogue::end_restore`]. It is in
    /// the first partition, at the catalogue's home.
    pub fn begin_restore(&self, mut definition: Definition) -> Result<(Arc<Database>, Secrets), CatalogueError> {
        let _changing = self.changing.lock();
        definition.deleted = true;
        self.add(definition)
    }

    /// Writes to a database that is being restored.
    pub fn restore<T, E: From<CatalogueError>>(
        &self,
        name: &str,
        write: impl FnOnce(&Arc<Engine>, DatabaseId) -> Result<T, E>,
    ) -> Result<T, E> {
        let restoring = self.restoring(name)?;
        let mut restoring = restoring.lock();
        if restoring.has_ended {
            return Err(CatalogueError::Unknown.into());
        }
        let written = write(self.partitions.engine(PartitionId(0)), restoring.database.id);
        restoring.used_micros = self.engine().now_micros();
        written
    }

    /// Admits clients to a restored database, which has this number of rows.
    pub fn end_restore(&self, name: &str, rows: u64) -> Result<Arc<Database>, CatalogueError> {
        let restoring = self.restoring(name)?;
        let mut restoring = restoring.lock();
        if restoring.has_ended {
            return Err(CatalogueError::Unknown);
        }
        let database = restoring.database.clone();
        let row_count = self.engine().rows_of(database.id)?.iter().sum();
        if row_count != rows {
            return Err(CatalogueError::Incomplete {
                expected: rows,
                found: row_count,
            });
        }
        let _changing = self.changing.lock();
        self.decide(&database, |definition| definition.deleted = false)?;
        restoring.has_ended = true;
        self.restoring.lock().remove(&database.id.0);
        Ok(database)
    }

    /// Ends a restore without its database.
    pub fn cancel_restore(&self, name: &str) -> Result<(), CatalogueError> {
        let restoring = self.restoring(name)?;
        let mut restoring = restoring.lock();
        restoring.has_ended = true;
        self.restoring.lock().remove(&restoring.database.id.0);
        Ok(())
    }

    fn restoring(&self, name: &str) -> Result<Arc<parking_lot::Mutex<Restoring>>, CatalogueError> {
        let database = self.named(name).ok_or(CatalogueError::Unknown)?;
        let restoring = self.restoring.lock().get(&database.id.0).cloned();
        restoring.ok_or(CatalogueError::Unknown)
    }

    fn add(&self, mut definition: Definition) -> Result<(Arc<Database>, Secrets), CatalogueError> {
        if !is_name(&definition.name) {
            return Err(CatalogueError::BadName);
        }
        let existing = self.index.read().named(&definition.name).cloned();
        if let Some(existing) = existing {
            let is_restored = self.restoring.lock().contains_key(&existing.id.0);
            return Err(match existing.is_closed() {
                false => CatalogueError::Exists,
                true if is_restored => CatalogueError::BeingRestored,
                true => CatalogueError::BeingDeleted,
            });
        }
        let (secrets, credentials) = self.make_secrets();
        definition.credentials = credentials;
        definition.created_micros = self.engine().now_micros();
        let id = self.free_id()?;
        self.write(|tx| {
            tx.set(b"I", &id.to_be_bytes());
            self.number_step(tx, &mut definition);
            tx.set(&row(b'D', id), &json(&definition));
        })?;
        let database = Arc::new(Database::new(id, definition, &Usage::default()));
        if database.is_closed() {
            let restoring = Restoring {
                database: database.clone(),
                used_micros: self.engine().now_micros(),
                has_ended: false,
            };
            self.restoring.lock().insert(id, Arc::new(restoring.into()));
        }
        self.index.write().add(database.clone());
        self.is_empty.store(false, Ordering::SeqCst);
        if let Err(error) = self.tell(&database) {
            // No client learns its credentials. After a failed log nothing more is decided.
            if !matches!(error, CatalogueError::LogFailed) {
                drop(self.decide(&database, |definition| definition.deleted = true));
            }
            return Err(error);
        }
        Ok((database, secrets))
    }

    /// Changes what is decided about a database, its name and credentials aside.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Definition)) -> Result<Arc<Database>, CatalogueError> {
        let _changing = self.changing.lock();
        let database = self.present(name)?;
        self.decide(&database, change)?;
        Ok(database)
    }

    /// Decides about a database, in the catalogue and then in the partition that has it. If the
    /// second fails it holds all the same, and is not to be answered.
    fn decide(&self, database: &Arc<Database>, change: impl FnOnce(&mut Definition)) -> Result<(), CatalogueError> {
        let before = database.definition();
        let mut definition = Definition::clone(&before);
        change(&mut definition);
        self.write(|tx| {
            self.number_step(tx, &mut definition);
            tx.set(&row(b'D', database.id.0), &json(&definition));
        })?;
        let opens_as_before = before.credentials == definition.credentials && before.deleted == definition.deleted;
        database.define(definition);
        if opens_as_before {
            return self.tell(database);
        }
        if !self.is_elsewhere(database.partition()) {
            self.index_anew(std::slice::from_ref(database));
            return self.tell(database);
        }
        // Its home accepts the old credentials, and from some later moment the new credentials:
        // requests with either are for this database.
        self.index.write().add(database.clone());
        self.tell(database)?;
        self.index_anew(std::slice::from_ref(database));
        Ok(())
    }

    /// Rebuilds the index entries of the databases: from now on only the credentials of their
    /// definitions find them.
    pub(crate) fn index_anew(&self, databases: &[Arc<Database>]) {
        let mut index = self.index.write();
        index.remove(&databases.iter().map(|database| database.id.0).collect());
        databases.iter().for_each(|database| index.add(database.clone()));
    }

    /// Gives the step of a transaction its number, where there are several partitions.
    pub(crate) fn number_step(&self, tx: &mut Transaction<'_>, definition: &mut Definition) {
        if self.partitions.count() > 1 {
            definition.revision = tx.commit_version().0;
            tx.set(TAKEN, &definition.revision.to_be_bytes());
        }
    }

    /// Takes a push for the single partition of this catalogue. A change is in the log before it
    /// takes effect here, so no later home refuses credentials that have admitted a client. A
    /// database to be cleared is closed first; `let_go` returns true once it has no users.
    ///
    /// Returns the databases concerned, with their previous definitions. `Busy`: the caller repeats
    /// the push.
    pub fn take(
        &self,
        number: u64,
        push: &[u8],
        let_go: impl FnOnce(&Database) -> bool,
    ) -> Result<Vec<Changed>, CatalogueError> {
        let push = Push::parse(push)?;
        let _changing = self.changing.lock();
        let (partition, engine) = self.partitions.iter().next().expect("one partition");
        if let Push::Clear { id, .. } = push
            && taken(engine)? < number
            && let Some(database) = self.numbered(DatabaseId(id))
        {
            database.closed.store(true, Ordering::SeqCst);
            if !let_go(&database) {
                return Err(CatalogueError::Busy(Busy));
            }
        }
        take(partition, engine, number, &push)?;
        let mut changed = Vec::new();
        let mut leave = |database: Arc<Database>| {
            database.closed.store(true, Ordering::SeqCst);
            self.index.write().remove(&BTreeSet::from([database.id.0]));
            changed.push(Changed {
                before: database.definition(),
                database,
            });
        };
        match push {
            Push::Fence => {}
            Push::Clear { id, .. } => self.numbered(DatabaseId(id)).into_iter().for_each(leave),
            Push::Exactly {
                first,
                last,
                definitions,
            } => {
                let is_here = |definition: &Definition| definition.partition == partition.0;
                let databases = self.list().into_iter();
                let databases = databases.filter(|database| (first..=last).contains(&database.id.0));
                let absent = databases.filter(|database| !definitions.get(&database.id.0).is_some_and(is_here));
                absent.collect::<Vec<_>>().into_iter().for_each(&mut leave);
                let mut present = Vec::new();
                for (id, definition) in definitions.into_iter().filter(|(_, definition)| is_here(definition)) {
                    let existing = self.numbered(DatabaseId(id));
                    let before = existing.as_ref().map(|existing| existing.definition());
                    let database = match existing {
                        Some(existing) => {
                            existing.define(definition);
                            existing
                        }
                        None => Arc::new(Database::new(
                            id,
                            definition,
                            &kept_usage(&self.partitions, id, partition)?,
                        )),
                    };
                    present.push(database.clone());
                    changed.extend(before.map(|before| Changed { database, before }));
                }
                self.index_anew(&present);
                self.is_empty.fetch_and(present.is_empty(), Ordering::SeqCst);
            }
        }
        Ok(changed)
    }

    /// Replaces all credentials of a database with new credentials.
    pub fn renew_credentials(&self, name: &str) -> Result<(Arc<Database>, Secrets), CatalogueError> {
        let (secrets, credentials) = self.make_secrets();
        let database = self.change(name, |definition| definition.credentials = credentials)?;
        Ok((database, secrets))
    }

    /// Closes a database permanently: no client is admitted. Its rows remain until
    /// [`Catalogue::forget`].
    pub fn close(&self, name: &str) -> Result<Arc<Database>, CatalogueError> {
        self.change(name, |definition| definition.deleted = true)
    }

    /// Databases that were closed and not forgotten before the server ended, and databases after
    /// an abandoned restore.
    pub fn unfinished(&self) -> Vec<Arc<Database>> {
        self.end_idle_restores();
        let restoring = self.restoring.lock();
        self.list()
            .into_iter()
            .filter(|database| database.is_closed() && !restoring.contains_key(&database.id.0))
            .collect()
    }

    fn end_idle_restores(&self) {
        let now_micros = self.engine().now_micros();
        self.restoring.lock().retain(|_, restoring| {
            let Some(mut restoring) = restoring.try_lock() else {
                return true;
            };
            restoring.has_ended = now_micros.saturating_sub(restoring.used_micros) > RESTORE_IDLE_MICROS;
            !restoring.has_ended
        });
    }

    /// Removes the rows of a closed database, and then its definition. None of its layers may be in
    /// use.
    pub fn forget(&self, database: &Database) -> Result<(), CatalogueError> {
        assert!(database.is_closed(), "only a closed database is forgotten");
        let id = database.id.0;
        if self.partitions.count() > 1 {
            // Durable there before the row is deleted: a power cut could restore the rows after the
            // id was given to another database.
            self.clear_everywhere(database)?;
        }
        if database.partition() == PartitionId(0) {
            // In a single log the order is enough.
            self.engine().clear_database(database.id)?;
        }
        self.write(|tx| {
            tx.clear(&row(PLACE, id));
            tx.clear(&row(b'D', id));
            tx.clear(&row(b'U', id));
        })?;
        self.index.write().remove(&BTreeSet::from([id]));
        Ok(())
    }

    /// The usage of a database: as it is counted here, or as this process' replica of its partition
    /// has it from another home.
    pub fn usage_of(&self, database: &Database, now_micros: u64) -> Result<Usage, CatalogueError> {
        match self.is_elsewhere(database.partition()) {
            true => kept_usage(&self.partitions, database.id.0, database.partition()),
            false => Ok(database.meter.usage(now_micros)),
        }
    }

    /// Writes down what has been used since the last time. `at_the_end`: of every database,
    /// durably.
    pub fn keep_usage(&self, at_the_end: bool) {
        let now_micros = self.engine().now_micros();
        let used = |database: &Arc<Database>| database.meter.take_changed() && !database.is_closed();
        let used: Vec<_> = self.list().into_iter().filter(used).collect();
        let durability = if at_the_end {
            Durability::Always
        } else {
            Durability::Interval
        };
        for (id, engine) in self.partitions.iter() {
            if self.is_elsewhere(id) {
                continue;
            }
            let used = used.iter().filter(|database| database.partition() == id);
            let used: Vec<_> = used.collect();
            if used.is_empty() {
                continue;
            }
            let Ok(mut partition) = engine.partition_in_time() else {
                // They are written down next time.
                used.iter().for_each(|database| database.meter.put_changed_back());
                continue;
            };
            let written = partition.execute(space(durability), |tx| {
                for database in &used {
                    tx.set(&row(b'U', database.id.0), &json(&database.meter.usage(now_micros)));
                }
                Ok(())
            });
            // On a full disk they are written with the next change: they only grow.
            drop(outcome(written));
            let moved = used.iter().filter(|database| database.partition() != id);
            moved.for_each(|database| database.meter.put_changed_back());
        }
    }

    pub(crate) fn present(&self, name: &str) -> Result<Arc<Database>, CatalogueError> {
        let index = self.index.read();
        let database = index.named(name).filter(|database| !database.is_closed());
        database.cloned().ok_or(CatalogueError::Unknown)
    }

    /// Sizes that are nearly the same count as the same, and then the number of databases decides:
    /// many that are made before any is filled are spread.
    fn partition_with_least(&self) -> PartitionId {
        let index = self.index.read();
        let databases = |id: PartitionId| {
            let count = index
                .by_id
                .values()
                .filter(|database| database.partition() == id)
                .count();
            count + usize::from(id == PartitionId(0))
        };
        let sizes = self.partitions.iter();
        let sizes = sizes.map(|(id, engine)| (engine.live_bytes() / SAME_SIZE_BYTES, databases(id), id));
        sizes.min().map_or(PartitionId(0), |(_, _, id)| id)
    }

    fn free_id(&self) -> Result<u16, CatalogueError> {
        let last = self.read(b"I")?;
        let last = last.and_then(|id| id.try_into().ok()).map(u16::from_be_bytes);
        let first = last.and_then(|last| last.checked_add(1)).unwrap_or(FIRST_ID);
        let index = self.index.read();
        let mut candidates = (first..=u16::MAX - 1).chain(FIRST_ID..first);
        candidates
            .find(|id| !index.by_id.contains_key(id))
            .ok_or(CatalogueError::Full)
    }

    /// One row of the system space.
    pub(crate) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CatalogueError> {
        read(self.engine(), key)
    }

    /// Runs `body` as a transaction and waits until it is durable.
    pub(crate) fn write(&self, body: impl FnOnce(&mut Transaction<'_>)) -> Result<(), CatalogueError> {
        write(self.engine(), body)
    }

    fn make_secrets(&self) -> (Secrets, KeptCredentials) {
        let secrets = Secrets {
            token: format!("qt_{}", self.digits(24)),
            read_only_token: format!("qr_{}", self.digits(24)),
            fauna_key: format!("qf_{}", self.digits(24)),
            access_key_id: format!("QK{}", self.digits(9).to_ascii_uppercase()),
            secret_access_key: self.digits(24),
        };
        let access_key = (secrets.access_key_id.clone(), secrets.secret_access_key.clone());
        let credentials = KeptCredentials {
            token: Hash::of(secrets.token.as_bytes()),
            read_only_token: Hash::of(secrets.read_only_token.as_bytes()),
            fauna_key: Hash::of(secrets.fauna_key.as_bytes()),
            access_keys: BTreeMap::from([access_key]),
        };
        (secrets, credentials)
    }

    /// Random bytes of a key, two digits each.
    fn digits(&self, count: usize) -> String {
        let mut bytes = vec![0; count];
        (self.random)(&mut bytes);
        hexadecimal(&bytes)
    }
}

/// The usage of a database, as its partition has it.
fn kept_usage(partitions: &Partitions, id: u16, partition: PartitionId) -> Result<Usage, CatalogueError> {
    if !partitions.has(partition) {
        return Ok(Usage::default());
    }
    let reader = partitions.engine(partition).reader(space(Durability::Always))?;
    let usage = reader.get(&row(b'U', id));
    match reader.is_unreadable() {
        true => Err(CatalogueError::Unreadable),
        false => Ok(usage.map(|usage| read_row(&usage)).unwrap_or_default()),
    }
}

/// Verifies that each partition has the number under which it was opened. A partition without rows
/// is assigned its number.
fn identify(partitions: &Partitions, index: &Index) -> Result<(), CatalogueError> {
    let mut all = index.by_id.values();
    if let Some(database) = all.find(|database| !partitions.has(database.partition())) {
        return Err(CatalogueError::NoPartition {
            name: database.definition().name.clone(),
            partition: database.partition().0,
        });
    }
    for (id, engine) in partitions.iter() {
        let reader = engine.reader(space(Durability::Always))?;
        let row = reader.get(NUMBER);
        if reader.is_unreadable() {
            return Err(CatalogueError::Unreadable);
        }
        drop(reader);
        let stored = match row {
            Some(row) => Some(number_in(&row).ok_or(CatalogueError::Damaged("a partition's number"))?),
            None => (id == PartitionId(0)).then_some(id),
        };
        match stored {
            Some(stored) if stored == id => {}
            Some(stored) => {
                return Err(CatalogueError::OtherPartition {
                    expected: id.0,
                    found: stored.0,
                });
            }
            None if index.by_id.values().any(|database| database.partition() == id) => {
                return Err(CatalogueError::LostPartition(id.0));
            }
            None => write(engine, |tx| drop(tx.set(NUMBER, &number_row(id))))?,
        }
    }
    Ok(())
}

/// Two partitions that differ by less are of the same size to a new database.
const SAME_SIZE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use quartet_engine::{DatabaseCopyError, EngineOptions, Row};
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_model::Version;

    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn open(disk: &Arc<FaultyDisk>) -> Catalogue {
        open_all(std::slice::from_ref(disk)).unwrap()
    }

    /// A partition on each disk.
    fn open_all(disks: &[Arc<FaultyDisk>]) -> Result<Catalogue, CatalogueError> {
        let open = |disk: &Arc<FaultyDisk>| {
            let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
            let clock = Arc::new(ManualClock::new(NOW));
            let engine = Engine::open(disk.clone(), clock, EngineOptions::default(), failure, &mut |_| {});
            Arc::new(engine.unwrap())
        };
        let partitions = Arc::new(Partitions::new(disks.iter().map(open).collect()));
        let next = std::sync::atomic::AtomicU64::new(0);
        let random = move |bytes: &mut [u8]| {
            let number = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            bytes[..8].copy_from_slice(&number);
        };
        Catalogue::open(partitions, Box::new(random))
    }

    fn end(catalogue: Catalogue) {
        catalogue.keep_usage(true);
        let partitions = Arc::into_inner(catalogue.partitions).expect("nobody else has the partitions");
        for engine in partitions.into_engines() {
            Arc::into_inner(engine)
                .expect("nobody else has an engine")
                .close()
                .unwrap();
        }
    }

    fn definition(name: &str) -> Definition {
        Definition::new(name, Durability::Always)
    }

    fn two_disks() -> Vec<Arc<FaultyDisk>> {
        (0..2).map(|_| Arc::new(FaultyDisk::new())).collect()
    }

    /// Puts a row into the database, durably.
    fn fill(catalogue: &Catalogue, database: &Database) {
        let engine = catalogue.partitions.engine(database.partition());
        let body = |tx: &mut Transaction<'_>| drop(tx.set(b"key", b"value"));
        let written = engine.partition().execute(database.space(LayerId::Redis), |tx| {
            body(tx);
            Ok::<_, std::convert::Infallible>(())
        });
        let (_, dependency) = written.unwrap_or_else(|_| panic!("the row is written"));
        assert!(engine.wait_durable(dependency));
    }

    fn has_row(catalogue: &Catalogue, partition: u32, id: DatabaseId) -> bool {
        let space = Space {
            database: id,
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        let engine = catalogue.partitions.engine(PartitionId(partition));
        engine.reader(space).unwrap().get(b"key").is_some()
    }

    #[test]
    fn databases_are_spread_and_each_is_whole_in_its_partition() {
        let disks = two_disks();
        let catalogue = open_all(&disks).unwrap();
        let made = ["a", "b", "c", "d"].map(|name| catalogue.create(definition(name)).unwrap().0);
        // The default database counts as one of the first partition's.
        assert_eq!(made.each_ref().map(|database| database.partition().0), [1, 0, 1, 0]);
        made.iter().for_each(|database| fill(&catalogue, database));
        end(catalogue);
        let catalogue = open_all(&disks).unwrap();
        for database in &made {
            let reopened = catalogue.numbered(database.id).unwrap();
            assert_eq!(reopened.partition(), database.partition());
            let rows = [0, 1].map(|partition| has_row(&catalogue, partition, database.id));
            assert_eq!(rows, [database.partition().0 == 0, database.partition().0 == 1]);
        }
        end(catalogue);
    }

    #[test]
    fn partitions_that_are_not_those_of_the_catalogue_are_refused() {
        let disks = two_disks();
        let catalogue = open_all(&disks).unwrap();
        catalogue.create(definition("shop")).unwrap();
        end(catalogue);
        let refused = |disks: &[Arc<FaultyDisk>]| open_all(disks).err().unwrap();
        assert!(matches!(
            refused(&disks[..1]),
            CatalogueError::NoPartition { partition: 1, .. }
        ));
        assert!(matches!(
            refused(&disks[1..]),
            CatalogueError::OtherPartition { found: 1, .. }
        ));
        let emptied = [disks[0].clone(), Arc::new(FaultyDisk::new())];
        assert!(matches!(refused(&emptied), CatalogueError::LostPartition(1)));
        end(open_all(&disks).unwrap());
    }

    /// Power fails at any sync of either disk, and each keeps a random part of its unsynced data.
    #[test]
    fn after_a_power_cut_a_database_is_where_the_catalogue_says_or_nowhere() {
        let (disks, cuts) = (two_disks(), Arc::<parking_lot::Mutex<Vec<[FaultyDisk; 2]>>>::default());
        let catalogue = open_all(&disks).unwrap();
        for disk in &disks {
            let (disks, cuts) = (disks.clone(), cuts.clone());
            disk.before_syncs(Arc::new(move || cuts.lock().push([disks[0].fork(), disks[1].fork()])));
        }
        let (shop, _) = catalogue.create(definition("shop")).unwrap();
        fill(&catalogue, &shop);
        let filled = cuts.lock().len();
        let closed = catalogue.close("shop").unwrap();
        let is_closed = cuts.lock().len();
        catalogue.forget(&closed).unwrap();
        let forgotten = cuts.lock().len();
        let (news, _) = catalogue.create(definition("news")).unwrap();
        fill(&catalogue, &news);
        disks.iter().for_each(|disk| disk.before_syncs(Arc::new(|| ())));
        end(catalogue);
        assert_eq!((shop.partition().0, news.partition().0), (1, 1));
        let cuts = std::mem::take(&mut *cuts.lock());
        assert!(filled < is_closed && is_closed < forgotten && forgotten < cuts.len());
        for (number, cut) in cuts.iter().enumerate() {
            for seed in 0..4 {
                let forks = cut.each_ref().map(|disk| {
                    let disk = disk.fork();
                    disk.before_syncs(Arc::new(|| ()));
                    disk.crash_keeping_some(seed);
                    Arc::new(disk)
                });
                let catalogue = open_all(&forks).unwrap();
                for database in [&shop, &news] {
                    let is_known = catalogue.numbered(database.id).is_some();
                    assert!(
                        is_known || !has_row(&catalogue, 1, database.id),
                        "cut {number}, seed {seed}"
                    );
                    assert!(!has_row(&catalogue, 0, database.id));
                }
                if (filled..is_closed).contains(&number) {
                    assert!(has_row(&catalogue, 1, shop.id), "cut {number}, seed {seed}");
                }
                if number >= forgotten {
                    assert!(catalogue.numbered(shop.id).is_none(), "cut {number}, seed {seed}");
                }
                end(catalogue);
            }
        }
    }

    #[test]
    fn a_database_is_found_by_what_opens_it_also_after_a_restart() {
        let disk = Arc::new(FaultyDisk::new());
        let catalogue = open(&disk);
        assert!(catalogue.is_empty());
        let (shop, secrets) = catalogue.create(definition("shop")).unwrap();
        let (news, _) = catalogue.create(definition("news")).unwrap();
        assert_ne!(shop.id, news.id);
        assert!(matches!(
            catalogue.create(definition("shop")),
            Err(CatalogueError::Exists)
        ));
        assert!(matches!(
            catalogue.create(definition("default")),
            Err(CatalogueError::BadName)
        ));
        shop.meter.command(&shop.limits, NOW).unwrap();
        end(catalogue);

        let catalogue = open(&disk);
        let (database, access) = catalogue.by_secret(secrets.token.as_bytes()).unwrap();
        assert_eq!((database.id, access), (shop.id, Access::Full));
        let (database, access) = catalogue.by_secret(secrets.read_only_token.as_bytes()).unwrap();
        assert_eq!((database.id, access), (shop.id, Access::ReadOnly));
        let (database, secret) = catalogue.by_access_key(&secrets.access_key_id).unwrap();
        assert_eq!((database.id, secret), (shop.id, secrets.secret_access_key));
        assert!(catalogue.by_secret(b"guess").is_none());
        assert_eq!(database.meter.usage(NOW).commands_of_day, 1);
        end(catalogue);
    }

    #[test]
    fn old_credentials_end_when_new_credentials_start() {
        let catalogue = open(&Arc::new(FaultyDisk::new()));
        let (_, old) = catalogue.create(definition("shop")).unwrap();
        let (_, new) = catalogue.renew_credentials("shop").unwrap();
        assert!(catalogue.by_secret(old.token.as_bytes()).is_none());
        assert!(catalogue.by_access_key(&old.access_key_id).is_none());
        assert!(catalogue.by_secret(new.token.as_bytes()).is_some());
        end(catalogue);
    }

    #[test]
    fn a_change_holds_from_then_on() {
        let catalogue = open(&Arc::new(FaultyDisk::new()));
        let (shop, _) = catalogue.create(definition("shop")).unwrap();
        assert!(shop.limits.check_request(100).is_ok());
        let change = |definition: &mut Definition| definition.quotas.request_bytes = Some(10);
        catalogue.change("shop", change).unwrap();
        assert!(shop.limits.check_request(100).is_err());
        assert!(matches!(
            catalogue.change("nosuch", change),
            Err(CatalogueError::Unknown)
        ));
        end(catalogue);
    }

    #[test]
    fn the_operators_credentials_are_rows() {
        let disk = Arc::new(FaultyDisk::new());
        let catalogue = open(&disk);
        assert!(catalogue.root_key().unwrap().is_none() && catalogue.access_key().unwrap().is_none());
        let access_key = ("QK1".to_owned(), "secret".to_owned());
        catalogue.keep_root_key(Hash([7; 32])).unwrap();
        catalogue.keep_access_key(&access_key).unwrap();
        end(catalogue);

        let catalogue = open(&disk);
        assert_eq!(catalogue.root_key().unwrap(), Some(Hash([7; 32])));
        assert_eq!(catalogue.access_key().unwrap(), Some(access_key));
        assert_eq!(found(&catalogue), Vec::<String>::new());
        end(catalogue);
    }

    fn found(catalogue: &Catalogue) -> Vec<String> {
        let invariants: Vec<Box<dyn quartet_engine::Invariants>> = vec![Box::<crate::CatalogueInvariants>::default()];
        let findings = catalogue.engine().judge(&invariants).unwrap().kept;
        catalogue.engine().repair(&findings).unwrap();
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn broken_rows_are_found_and_repaired_where_possible() {
        let catalogue = open(&Arc::new(FaultyDisk::new()));
        let (shop, _) = catalogue.create(definition("shop")).unwrap();
        shop.meter.command(&shop.limits, NOW).unwrap();
        catalogue.keep_usage(true);
        assert_eq!(found(&catalogue), Vec::<String>::new());
        let twin = catalogue.engine().reader(space(Durability::Always)).unwrap();
        let twin = twin.get(&row(b'D', shop.id.0)).unwrap();
        let planted = catalogue.write(|tx| {
            tx.set(&row(b'U', 900), b"{}");
            tx.set(&row(b'D', 901), b"no JSON");
            tx.set(&row(b'D', 902), &twin);
            tx.set(b"R", b"not 32 bytes");
            tx.set(b"A", b"no secret");
        });
        planted.unwrap();
        let stray = Space {
            database: DatabaseId(77),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        let written = catalogue.engine().partition().execute(stray, |tx| {
            tx.set(b"key", b"value");
            Ok(())
        });
        outcome(written).unwrap();
        let expected = [
            "the definition of database 901 cannot be read",
            "databases 2 and 902 share a name or a credential",
            "what a database has used cannot be read, or is of none",
            "database 77 has rows and is not in the catalogue",
            "the root key's hash cannot be read",
            "DynamoDB's access key cannot be read",
        ];
        let all = found(&catalogue);
        for text in expected {
            assert!(all.iter().any(|finding| finding.starts_with(text)), "{text}: {all:?}");
        }
        // Findings that only a person can decide are still there.
        let remaining = found(&catalogue);
        assert!(
            remaining.len() < all.len() && !remaining.iter().any(|finding| finding.starts_with("what a database")),
            "{remaining:?}"
        );
        end(catalogue);
    }

    /// A server that ended between the closing and the forgetting finishes when it opens.
    #[test]
    fn nothing_of_a_deleted_database_is_left() {
        let disk = Arc::new(FaultyDisk::new());
        let catalogue = open(&disk);
        let (shop, secrets) = catalogue.create(definition("shop")).unwrap();
        let written = catalogue
            .engine()
            .partition()
            .execute(shop.space(LayerId::Redis), |tx| {
                tx.set(b"key", b"value");
                Ok(())
            });
        outcome(written).unwrap();
        catalogue.close("shop").unwrap();
        assert!(catalogue.by_secret(secrets.token.as_bytes()).is_none());
        end(catalogue);

        let catalogue = open(&disk);
        let unfinished = catalogue.unfinished();
        assert_eq!(unfinished.len(), 1);
        catalogue.forget(&unfinished[0]).unwrap();
        catalogue.engine().partition().free_cleared();
        assert_eq!(catalogue.engine().stored_bytes(unfinished[0].id), 0);
        assert!(catalogue.named("shop").is_none());
        let (again, _) = catalogue.create(definition("shop")).unwrap();
        assert_ne!(again.id, unfinished[0].id);
        end(catalogue);
    }

    /// A restore ends with all of its rows; a crash before leaves nothing of it.
    #[test]
    fn a_restored_database_is_there_once_it_is_whole() {
        let disk = Arc::new(FaultyDisk::new());
        let catalogue = open(&disk);
        let row = |version| {
            let key = [&[0, 9, LayerId::Redis as u8][..], b"key"].concat();
            Row::new(&key, b"value", Version(version))
        };
        let put = |engine: &Arc<Engine>, id| engine.put_rows(id, vec![row(7)]).map_err(CatalogueError::from);
        let (shop, secrets) = catalogue.begin_restore(definition("shop")).unwrap();
        catalogue.restore("shop", put).unwrap();
        for refused in [
            catalogue.create(definition("shop")),
            catalogue.begin_restore(definition("shop")),
        ] {
            assert!(matches!(refused, Err(CatalogueError::BeingRestored)));
        }
        assert!(catalogue.by_secret(secrets.token.as_bytes()).is_none() && catalogue.unfinished().is_empty());
        end(catalogue);

        let catalogue = open(&disk);
        assert!(matches!(catalogue.restore("shop", put), Err(CatalogueError::Unknown)));
        assert!(matches!(
            catalogue.create(definition("shop")),
            Err(CatalogueError::BeingDeleted)
        ));
        let unfinished = catalogue.unfinished();
        assert_eq!(
            unfinished.iter().map(|database| database.id).collect::<Vec<_>>(),
            [shop.id]
        );
        catalogue.forget(&unfinished[0]).unwrap();
        let (_, secrets) = catalogue.begin_restore(definition("shop")).unwrap();
        let ahead = catalogue.engine().now_micros() + 100_000_000;
        let put_ahead = |engine: &Arc<Engine>, id| Ok(engine.put_rows(id, vec![row(ahead)]));
        let put_ahead = catalogue.restore::<_, CatalogueError>("shop", put_ahead).unwrap();
        assert!(matches!(put_ahead, Err(DatabaseCopyError::Ahead(100))), "{put_ahead:?}");
        catalogue.restore("shop", put).unwrap();
        let incomplete = catalogue.end_restore("shop", 2);
        assert!(matches!(
            incomplete,
            Err(CatalogueError::Incomplete { expected: 2, found: 1 })
        ));
        catalogue.end_restore("shop", 1).unwrap();
        let (restored, _) = catalogue.by_secret(secrets.token.as_bytes()).unwrap();
        let reader = catalogue.engine().reader(restored.space(LayerId::Redis)).unwrap();
        assert_eq!(reader.get(b"key").as_deref(), Some(&b"value"[..]));
        drop(reader);
        assert!(matches!(catalogue.cancel_restore("shop"), Err(CatalogueError::Unknown)));
        end(catalogue);

        let catalogue = open(&disk);
        assert!(catalogue.by_secret(secrets.token.as_bytes()).is_some());
        end(catalogue);
    }
}
