//! Builds the files of a partition from a backup's rows and records: the rows are loaded in order,
//! then the records are applied to the store. Meanwhile another thread writes earlier changes to
//! disk.

use std::sync::Arc;
use std::thread::JoinHandle;

use quartet_env::Disk;
use quartet_model::{Effect, EffectsReader, Version};
use quartet_store::{
    Flush, OpenError as StoreOpenError, PartitionFlushed, PartitionLoad, PartitionStore, Position, Read, StateHasher,
    Store, StoreError, StoreKind, StoreOptions, state_hash,
};

use crate::options::OpenError;
use crate::recovery::replay::apply;

/// A directory that is being filled. Until it is finished, it is nothing that could be opened.
pub struct Restoration {
    store: PartitionStore,
    /// Until the first transaction of a record. The store is empty as long.
    load: Option<PartitionLoad>,
    /// Hashes the loaded rows.
    hasher: StateHasher,
    is_wanted: IsWanted,
    version: Version,
    /// Put into the store since its last flush.
    unflushed_bytes: usize,
    flushing: Option<JoinHandle<Result<PartitionFlushed, StoreError>>>,
}

/// Which keys are restored.
pub type IsWanted = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A store on disk is flushed as often, so that memory does not hold everything.
const FLUSH_BYTES: usize = 64 << 20;

impl Restoration {
    /// Starts in an empty directory.
    pub fn begin(disk: Arc<dyn Disk>, kind: StoreKind, is_wanted: IsWanted) -> Result<Restoration, OpenError> {
        let options = StoreOptions {
            kind: Some(kind),
            ..StoreOptions::default()
        };
        let opened = PartitionStore::open(disk, &options, &mut |_| {})?;
        Ok(Restoration {
            load: Some(opened.store.begin_load()),
            store: opened.store,
            hasher: StateHasher::new(),
            is_wanted,
            version: Version::ZERO,
            unflushed_bytes: 0,
            flushing: None,
        })
    }

    /// Adds a row. Keys must ascend, and no row may follow a log record.
    pub fn row(&mut self, key: &[u8], value: &[u8], version: Version) -> Result<(), OpenError> {
        if !(self.is_wanted)(key) {
            return Ok(());
        }
        self.version = self.version.max(version);
        self.hasher.push_parts(key, value, version);
        let Some(load) = &mut self.load else {
            return Err(OpenError::Log(quartet_log::LogError::Damaged(
                "a row stands behind a record".into(),
            )));
        };
        load.push(key, value, version).map_err(failed)
    }

    /// Applies the transactions of a record whose versions are above `after` and at most `through`.
    /// Returns the newest of them, zero if there is none.
    pub fn record(&mut self, payload: &[u8], after: Version, through: Version) -> Result<Version, OpenError> {
        let malformed = |_| OpenError::Log(quartet_log::LogError::Damaged("a record is malformed".into()));
        let mut transactions = EffectsReader::new(payload);
        let mut newest = Version::ZERO;
        while let Some((version, mut effects)) = transactions.next_transaction().map_err(malformed)? {
            if version <= after || version > through {
                continue;
            }
            self.end_load(Position {
                version: self.version,
                ..Position::default()
            })?;
            while let Some(effect) = effects.next() {
                let effect = effect.map_err(malformed)?;
                let is_wanted = match effect {
                    Effect::Set { key, .. } | Effect::Patch { key, .. } | Effect::Row { key, .. } => {
                        (self.is_wanted)(key)
                    }
                    // Unwanted rows were never added, so a clear cannot remove any.
                    Effect::Clear { .. } | Effect::ClearRange { .. } => true,
                };
                if is_wanted {
                    apply(&mut self.store, version, effect).map_err(failed)?;
                }
            }
            newest = version;
        }
        self.version = self.version.max(newest);
        self.flush_if_due(payload.len())?;
        Ok(newest)
    }

    /// Writes what is left, as the state at `position`. How many rows there are, and their hash.
    pub fn finish(mut self, position: Position) -> Result<(u64, u128), OpenError> {
        let is_all_loaded = self.load.is_some();
        self.end_load(position)?;
        let is_on_disk = is_all_loaded && self.store.kind() == StoreKind::Ssd;
        if !is_on_disk {
            self.begin_flush(position)?;
            self.end_flush()?;
        }
        let hash = match is_all_loaded {
            true => self.hasher.finish(),
            false => state_hash(&self.store, None).map_err(failed)?,
        };
        Ok((self.store.len(), hash))
    }

    fn end_load(&mut self, position: Position) -> Result<(), OpenError> {
        match self.load.take() {
            Some(load) => self.store.end_load(load, position).map_err(failed),
            None => Ok(()),
        }
    }

    fn flush_if_due(&mut self, bytes: usize) -> Result<(), OpenError> {
        self.unflushed_bytes += bytes;
        if self.store.kind() == StoreKind::Memory || self.unflushed_bytes < FLUSH_BYTES {
            return Ok(());
        }
        let version = self.version;
        self.begin_flush(Position {
            version,
            ..Position::default()
        })
    }

    /// Starts a flush of the unflushed changes, after the previous flush has ended.
    fn begin_flush(&mut self, position: Position) -> Result<(), OpenError> {
        self.end_flush()?;
        self.unflushed_bytes = 0;
        let flush = self.store.begin_flush();
        let run = move || flush.run(position);
        let flushing = std::thread::Builder::new().name("restored rows".into()).spawn(run);
        self.flushing = Some(flushing.map_err(StoreOpenError::Io)?);
        Ok(())
    }

    fn end_flush(&mut self) -> Result<(), OpenError> {
        let Some(flushing) = self.flushing.take() else {
            return Ok(());
        };
        let flushed = flushing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        drop(self.store.end_flush(Some(flushed.map_err(failed)?)));
        Ok(())
    }
}

impl Drop for Restoration {
    /// The owner of an abandoned restore may remove the directory.
    fn drop(&mut self) {
        if let Some(flushing) = self.flushing.take() {
            let _ = flushing.join();
        }
    }
}

fn failed(error: StoreError) -> OpenError {
    OpenError::Store(StoreOpenError::Store(error))
}
