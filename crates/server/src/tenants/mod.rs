//! The logical databases as the server serves them.
//!
//! A database's layers are built when a client connects and dropped after an idle time, so an idle
//! database costs only its entry in the catalogue. Durable state of a layer is in the engine; timed
//! work on its database's keys (expiry, indexes being filled) waits until a client connects again,
//! without a visible difference for readers.
//!
//! ```text
//!   password, signature, secret --catalogue--> database --open--> its layers, made or found
//! ```
//!
//! There are never two layers of one kind for one database, because their connections would not see
//! each other. Both building and dropping hold the lock of `open`, and a layer in use is not
//! dropped. Only the last old connections of a database that must reconnect have a layer of their
//! own.

pub mod admission_control;
pub mod moving;
pub mod turns;
pub mod users;

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::{BriefWaits, Busy, Durability, PartitionId};
use quartet_layer_redis::DatabaseLogin;
use quartet_layer_redis::Directory;
use quartet_layer_redis::Redis;
use quartet_layer_redis::access::acl::DEFAULT_USER;
use quartet_model::{DatabaseId, LayerId};
use quartet_tenancy::{Access, Catalogue, CatalogueError, Changed, Database, Definition, Share, Turns};

use crate::layers::kind::{DatabaseLayer, LayerKind, Opening};
use crate::layers::parts::Parts;
use crate::tenants::moving::Moves;
use crate::tenants::users::READER;

pub struct Tenants {
    pub catalogue: Catalogue,
    pub parts: Parts,
    /// The layers that a database can have.
    pub kinds: Vec<LayerKind>,
    /// One for each partition, as each has a lock.
    shares: Vec<Share>,
    /// For the default database.
    turns: Turns,
    active_micros: AtomicU64,
    open: Mutex<HashMap<DatabaseId, Arc<OpenDatabase>>>,
    /// Databases that left for another partition: connections that have sent nothing since are
    /// still in their layers here.
    left: Mutex<Vec<Arc<OpenDatabase>>>,
    pub moves: Moves,
    /// Held while a database of another home is forgotten.
    finishing: Mutex<()>,
    itself: Weak<Tenants>,
}

/// A database in current or recent use, with those of its layers that were needed.
pub struct OpenDatabase {
    pub database: Arc<Database>,
    layers: Vec<Slot>,
    /// Requests over HTTP that are being answered.
    in_use: AtomicUsize,
    used_micros: AtomicU64,
    /// The database has left for another partition: nothing here is of use.
    is_left: AtomicBool,
}

/// One layer of a database, after its first use.
struct Slot {
    id: LayerId,
    layer: OnceLock<Arc<dyn DatabaseLayer>>,
    /// Held while a layer is built and not yet usable.
    making: Mutex<()>,
}

/// A request over HTTP in progress: the database's rows remain until its end.
pub struct Entered {
    open: Arc<OpenDatabase>,
}

/// Idle time after which a database's layers are dropped.
const IDLE_MICROS: u64 = 30_000_000;
/// A database is active if it executed a request within this time.
const ACTIVE_MICROS: u64 = 300_000;
/// Time limit of the wait for requests that are being answered.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of the wait for a deletion, which continues by itself.
const DELETION_TIMEOUT: Duration = Duration::from_secs(10);

impl Tenants {
    pub fn new(catalogue: Catalogue, parts: Parts, kinds: Vec<LayerKind>) -> Arc<Tenants> {
        Arc::new_cyclic(|itself| Tenants {
            catalogue,
            kinds,
            shares: parts.partitions.iter().map(|_| Share::default()).collect(),
            parts,
            turns: Turns::default(),
            active_micros: AtomicU64::new(0),
            open: Mutex::default(),
            left: Mutex::default(),
            moves: Moves::default(),
            finishing: Mutex::default(),
            itself: itself.clone(),
        })
    }

    pub fn directory(&self) -> Box<dyn Directory> {
        Box::new(TenantDirectory(self.itself.clone()))
    }

    /// The Redis layer of a database. Not to be called with the partition's lock held.
    pub fn redis(&self, database: &Arc<Database>) -> Result<Option<Arc<Redis>>, Busy> {
        let _brief = BriefWaits::begin();
        let mut open = self.open.lock();
        let Some(entry) = self.entry(&mut open, database)? else {
            return Ok(None);
        };
        // Under the lock of `open`: a database whose layers are closed meanwhile would have an
        // unknown layer.
        self.layer_of(&entry, LayerId::Redis).map(Some)
    }

    /// A layer of the entered database. It is built at its first use, which takes the partition's
    /// lock and waits for it briefly.
    pub fn layer<L: DatabaseLayer>(&self, entered: &Entered, id: LayerId) -> Result<Arc<L>, Busy> {
        self.layer_of(&entered.open, id)
    }

    fn layer_of<L: DatabaseLayer>(&self, open: &OpenDatabase, id: LayerId) -> Result<Arc<L>, Busy> {
        let slot = open.slot(id).expect("a layer that is served");
        if slot.layer.get().is_none() {
            self.make(open, slot)?;
        }
        Ok(slot.typed().expect("made above, by the row of this type"))
    }

    fn make(&self, open: &OpenDatabase, slot: &Slot) -> Result<(), Busy> {
        let _brief = BriefWaits::begin();
        let _making = slot.making.lock();
        if slot.layer.get().is_some() {
            return Ok(());
        }
        let kind = self
            .kinds
            .iter()
            .find(|kind| kind.id == slot.id)
            .expect("a slot a kind");
        let opening = Opening {
            parts: &self.parts,
            database: &open.database,
            directory: &|| self.directory(),
        };
        let made = (kind.open)(&opening)?;
        slot.layer.get_or_init(|| made);
        Ok(())
    }

    /// Starts the answer to a request over HTTP; `None` if the database is being deleted. `Busy`
    /// while it moves to another partition.
    pub fn enter(&self, database: &Arc<Database>) -> Result<Option<Entered>, Busy> {
        let mut all = self.open.lock();
        Ok(self.entry(&mut all, database)?.map(Entered::new))
    }

    fn entry(
        &self,
        open: &mut HashMap<DatabaseId, Arc<OpenDatabase>>,
        database: &Arc<Database>,
    ) -> Result<Option<Arc<OpenDatabase>>, Busy> {
        if database.is_closed() {
            return Ok(None);
        }
        // Clients of another home's database are not led here.
        if database.is_held() || self.elsewhere(database).is_some() {
            return Err(Busy);
        }
        let make = || {
            Arc::new(OpenDatabase {
                database: database.clone(),
                layers: self.kinds.iter().map(Slot::of).collect(),
                in_use: AtomicUsize::new(0),
                used_micros: AtomicU64::new(0),
                is_left: AtomicBool::new(false),
            })
        };
        let entry = open.entry(database.id).or_insert_with(make);
        entry
            .used_micros
            .store(self.parts.engine.now_micros(), Ordering::Relaxed);
        Ok(Some(entry.clone()))
    }

    fn list_open(&self) -> Vec<Arc<OpenDatabase>> {
        self.open.lock().values().cloned().collect()
    }

    /// Redis connections that are in other databases than the default one.
    pub fn redis_connections(&self) -> usize {
        if self.catalogue.is_empty() {
            return 0;
        }
        let (open, leaving) = (self.list_open(), self.left.lock());
        open.iter().chain(&*leaving).map(|open| open.connections()).sum()
    }

    /// Redis connections of one database.
    pub fn connections_of(&self, database: DatabaseId) -> usize {
        let open = self.open.lock().get(&database).cloned();
        let leaving = self.left_of(database);
        open.iter().chain(&leaving).map(|open| open.connections()).sum()
    }

    /// Returns for each kind of layer in how many databases beside the default one it is in memory.
    pub fn layers_open(&self) -> Vec<(&'static str, usize)> {
        let open = self.list_open();
        let count = |kind: &LayerKind| {
            let slots = open.iter().filter_map(|open| open.slot(kind.id));
            (kind.name, slots.filter(|slot| slot.layer.get().is_some()).count())
        };
        self.kinds.iter().map(count).collect()
    }

    /// Wakes every connection: its wait may have ended.
    pub fn wake_all(&self) {
        let (open, leaving) = (self.list_open(), self.left.lock());
        for open in open.iter().chain(&*leaving) {
            open.layers().for_each(|layer| layer.wake_connections());
        }
    }

    fn left_of(&self, database: DatabaseId) -> Vec<Arc<OpenDatabase>> {
        let leaving = self.left.lock();
        let connections = leaving.iter().filter(|open| open.database.id == database);
        connections.cloned().collect()
    }

    /// The Redis layers of the databases in use.
    pub fn redis_layers(&self) -> Vec<Arc<Redis>> {
        let open = self.list_open();
        open.iter()
            .filter_map(|open| open.slot(LayerId::Redis)?.typed())
            .collect()
    }

    /// Work in the background, a little at a time, called about ten times a second.
    pub fn maintain(&self) {
        if self.catalogue.is_empty() {
            return;
        }
        self.count_active();
        for open in self.list_open() {
            // A write here holds a deletion up as any request does.
            let entered = Entered::new(open);
            entered.open.maintain(self.parts.engine.now_micros());
        }
    }

    fn count_active(&self) {
        let since_micros = self.parts.engine.now_micros().saturating_sub(ACTIVE_MICROS);
        let open = self.list_open();
        let mut active = vec![0; self.shares.len()];
        let place = |database: &Database| self.parts.partitions.place(database.partition());
        active[0] = usize::from(self.active_micros.load(Ordering::Relaxed) >= since_micros);
        for database in open.iter().map(|open| &open.database) {
            active[place(database)] += usize::from(database.meter.active_micros() >= since_micros);
        }
        for (share, active) in self.shares.iter().zip(active) {
            share.set_active(active);
        }
    }

    /// The partition of a request's database, if something keeps its lock or the database leaves.
    /// `None` is the default database, which is not looked for if there is one partition.
    pub fn busy_partition(&self, database: impl FnOnce() -> Option<Arc<Database>>) -> Option<PartitionId> {
        let partitions = &self.parts.partitions;
        let database = if partitions.count() == 1 { None } else { database() };
        let is_held = database.as_ref().is_some_and(|database| database.is_held());
        let id = database.map_or(PartitionId(0), |database| database.partition());
        (is_held || partitions.engine(id).is_busy()).then_some(id)
    }

    /// Gives back what idle connections and idle databases hold, and finishes deletions. Called
    /// about once a second.
    pub fn tidy(&self) {
        if self.catalogue.is_empty() {
            return;
        }
        for open in self.list_open() {
            if !open.is_away() {
                open.layers().for_each(|layer| layer.tidy());
            }
        }
        self.drop_idle();
        // Others may be waited for on a thread of its own.
        if !self.catalogue.is_apart() {
            self.tell_homes();
        }
        for database in self.catalogue.unfinished() {
            if self.elsewhere(&database).is_none() {
                self.finish_deletion(&database);
            }
        }
    }

    /// Tells partitions what they have not heard of yet.
    pub fn tell_homes(&self) {
        if let Err(error) = self.catalogue.tell_again() {
            tracing::warn!(%error, "a partition has not received a change of its databases yet");
        }
        for database in self.catalogue.unfinished() {
            if self.elsewhere(&database).is_some() {
                self.finish_deletion(&database);
            }
        }
    }

    /// Other homes serve the databases of all partitions but the first.
    #[inline]
    pub fn is_apart(&self) -> bool {
        self.catalogue.is_apart()
    }

    /// The partition of the database, if another home serves it.
    #[inline]
    pub fn elsewhere(&self, database: &Database) -> Option<PartitionId> {
        let partition = database.partition();
        self.catalogue.is_elsewhere(partition).then_some(partition)
    }

    /// Returns true while a database moves to another partition.
    pub fn is_any_moving(&self) -> bool {
        self.catalogue.is_any_moving()
    }

    /// Applies a decision of the catalogue's home about databases of the served partition. When
    /// this returns, the change is durable here, and applies to all new connections.
    pub fn take_push(&self, number: u64, push: &[u8]) -> Result<(), CatalogueError> {
        let changed = self.catalogue.take(number, push, |database| self.let_go(database))?;
        for Changed { database, before } in changed {
            let decided = database.definition();
            let opens_as_before = before.credentials == decided.credentials && before.durability == decided.durability;
            if database.is_closed() || !opens_as_before {
                self.close_layers(&database);
            } else if let Some(open) = self.open.lock().get(&database.id) {
                open.layers().for_each(|layer| layer.configure(&database));
            }
        }
        Ok(())
    }

    /// Ends all connections of a closed database. Returns true if none that can write remains.
    fn let_go(&self, database: &Database) -> bool {
        let _brief = BriefWaits::begin();
        self.take_from(&mut self.open.lock(), database)
    }

    fn take_from(&self, open: &mut HashMap<DatabaseId, Arc<OpenDatabase>>, database: &Database) -> bool {
        for left in self.left_of(database.id) {
            left.layers().for_each(|layer| layer.close_connections());
        }
        if let Some(entry) = open.get(&database.id) {
            entry.layers().for_each(|layer| layer.close_connections());
            if !entry.writes_nothing() {
                return false;
            }
        }
        open.remove(&database.id);
        true
    }

    fn drop_idle(&self) {
        let since_micros = self.parts.engine.now_micros().saturating_sub(IDLE_MICROS);
        let mut open = self.open.lock();
        open.retain(|_, entry| entry.used_micros.load(Ordering::Relaxed) > since_micros || !entry.is_unused());
        self.left.lock().retain(|entry| !entry.is_unused());
    }

    /// Writes down what was used: now and then, and when the server stops.
    pub fn keep_usage(&self, at_the_end: bool) {
        if !self.catalogue.is_empty() {
            self.catalogue.keep_usage(at_the_end);
        }
    }

    /// Changes the definition of a database. A new durability applies to new connections: the
    /// existing connections are closed. Nothing is acknowledged with relaxed durability after the
    /// record that ends it, which lets other nodes read the database.
    pub fn change(&self, name: &str, change: impl Fn(&mut Definition)) -> Result<Arc<Database>, CatalogueError> {
        let present = self.catalogue.named(name);
        let before = present.as_ref().map(|database| database.definition().durability);
        let becomes_strict = present.filter(|database| {
            let mut after = Definition::clone(&database.definition());
            change(&mut after);
            before != Some(Durability::Always) && after.durability == Durability::Always
        });
        if let Some(database) = &becomes_strict {
            self.end_requests(database)?;
        }
        let changed = self.catalogue.change(name, change);
        becomes_strict.iter().for_each(|database| database.release());
        let database = changed?;
        if before != Some(database.definition().durability) {
            self.close_layers(&database);
        } else if let Some(open) = self.open.lock().get(&database.id) {
            open.layers().for_each(|layer| layer.configure(&database));
        }
        Ok(database)
    }

    /// Holds a database, closes its layers, and waits until every request over HTTP has ended.
    /// `Busy`: one takes long, and nothing is held.
    fn end_requests(&self, database: &Database) -> Result<(), Busy> {
        database.hold();
        let open = self.open.lock().get(&database.id).cloned();
        self.close_layers(database);
        let started = std::time::Instant::now();
        let is_quiet = || open.as_ref().is_none_or(|open| open.in_use.load(Ordering::SeqCst) == 0);
        while !is_quiet() {
            if started.elapsed() >= REQUESTS_TIMEOUT {
                database.release();
                return Err(Busy);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Forces the connections of a database to reconnect.
    pub fn close_layers(&self, database: &Database) {
        let open = self.open.lock().remove(&database.id);
        for open in open.iter().chain(&self.left_of(database.id)) {
            open.layers().for_each(|layer| layer.close_connections());
        }
    }

    /// Deletes a database and waits until nothing of it is left, or for as long as is reasonable.
    pub fn delete(&self, name: &str) -> Result<(), CatalogueError> {
        let database = self.catalogue.close(name)?;
        let started = std::time::Instant::now();
        while !self.finish_deletion(&database) && started.elapsed() < DELETION_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Removes a closed database's rows, when its layers are unused. Returns true if it was
    /// removed.
    fn finish_deletion(&self, database: &Database) -> bool {
        let _brief = BriefWaits::begin();
        // One that is being moved ends that first.
        if self.catalogue.is_moving(database.id) {
            return false;
        }
        if self.elsewhere(database).is_some() {
            // Its home ends all connections, which may take a while.
            let finishing = self.finishing.try_lock();
            return finishing.is_some() && self.forget(database);
        }
        let mut open = self.open.lock();
        if !self.take_from(&mut open, database) {
            return false;
        }
        // With the lock: two that finish the same deletion would both count on being the only one.
        self.forget(database)
    }

    fn forget(&self, database: &Database) -> bool {
        let current = self.catalogue.numbered(database.id);
        if current.is_none_or(|current| !std::ptr::eq(&*current, database)) {
            return true;
        }
        match self.catalogue.forget(database) {
            Ok(()) => true,
            Err(CatalogueError::Busy(_) | CatalogueError::NoHome(_)) => false,
            Err(error) => {
                tracing::error!(%error, "deleting a database");
                false
            }
        }
    }

    /// Drops every layer: the server stops.
    pub fn close(&self) {
        self.moves.stop();
        for open in self.list_open() {
            open.layers().for_each(|layer| layer.save());
        }
        self.keep_usage(true);
        self.open.lock().clear();
        self.left.lock().clear();
    }
}

impl Slot {
    fn of(kind: &LayerKind) -> Slot {
        Slot {
            id: kind.id,
            layer: OnceLock::new(),
            making: Mutex::default(),
        }
    }

    /// The layer by its type, if it was made.
    fn typed<L: DatabaseLayer>(&self) -> Option<Arc<L>> {
        let layer: Arc<dyn Any + Send + Sync> = self.layer.get()?.clone();
        layer.downcast().ok()
    }
}

impl OpenDatabase {
    fn slot(&self, id: LayerId) -> Option<&Slot> {
        self.layers.iter().find(|slot| slot.id == id)
    }

    /// The layers that were built.
    fn layers(&self) -> impl Iterator<Item = &Arc<dyn DatabaseLayer>> {
        self.layers.iter().filter_map(|slot| slot.layer.get())
    }

    fn connections(&self) -> usize {
        self.layers().map(|layer| layer.connections()).sum()
    }

    /// Returns true if no layer is in use.
    fn is_unused(&self) -> bool {
        self.in_use.load(Ordering::SeqCst) == 0 && self.layers().all(|layer| Arc::strong_count(layer) == 1)
    }

    /// Returns true if no writer remains: streams, which only read, do not count.
    fn writes_nothing(&self) -> bool {
        let is_harmless =
            |layer: &Arc<dyn DatabaseLayer>| !layer.is_written_by_holders() || Arc::strong_count(layer) == 1;
        self.in_use.load(Ordering::SeqCst) == 0 && self.layers().all(is_harmless)
    }

    /// It leaves for another partition, or has left.
    fn is_away(&self) -> bool {
        self.is_left.load(Ordering::SeqCst) || self.database.is_held()
    }

    fn maintain(&self, now_micros: u64) {
        if self.database.is_closed() || self.is_away() {
            return;
        }
        for layer in self.layers() {
            if layer.maintain(&self.database) {
                self.used_micros.store(now_micros, Ordering::Relaxed);
            }
        }
    }
}

impl Entered {
    fn new(open: Arc<OpenDatabase>) -> Entered {
        open.in_use.fetch_add(1, Ordering::SeqCst);
        Entered { open }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.open.in_use.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The Redis layers' view of the databases.
struct TenantDirectory(Weak<Tenants>);

impl Directory for TenantDirectory {
    /// The token is the password of the user `default` and of the user named like the database; the
    /// read-only token is the password of `default_ro`. A user of the database logs in as
    /// `DATABASE/USER`.
    fn find(&self, name: &[u8], password: &[u8]) -> Option<DatabaseLogin> {
        let tenants = self.0.upgrade()?;
        if tenants.catalogue.is_empty() {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?;
        let database_login = |database: &Database, user: &[u8]| DatabaseLogin {
            database: database.id,
            name: name.as_bytes().to_vec(),
            user: user.to_vec(),
            password: password.to_vec(),
        };
        if let Some((database, user)) = name.split_once('/') {
            let database = tenants.catalogue.named(database)?;
            return Some(database_login(&database, user.as_bytes()));
        }
        let (database, access) = tenants.catalogue.by_secret(password)?;
        let user = redis_user(access)?;
        let is_its = name.as_bytes() == DEFAULT_USER || name.as_bytes() == user || name == database.definition().name;
        is_its.then(|| database_login(&database, user))
    }

    fn open(&self, database: DatabaseId) -> Result<Option<Arc<Redis>>, Busy> {
        let tenants = self.0.upgrade();
        let database = tenants
            .as_ref()
            .and_then(|tenants| tenants.catalogue.numbered(database));
        match (tenants, database) {
            (Some(tenants), Some(database)) => tenants.redis(&database),
            _ => Ok(None),
        }
    }

    fn is_elsewhere(&self, database: DatabaseId) -> bool {
        let Some(tenants) = self.0.upgrade().filter(|tenants| tenants.is_apart()) else {
            return false;
        };
        let database = tenants.catalogue.numbered(database);
        database.is_some_and(|database| tenants.elsewhere(&database).is_some())
    }
}

fn redis_user(access: Access) -> Option<&'static [u8]> {
    match access {
        Access::Full => Some(DEFAULT_USER),
        Access::ReadOnly => Some(READER),
        Access::Fauna => None,
    }
}
