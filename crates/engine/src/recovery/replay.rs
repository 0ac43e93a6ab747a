//! Applying the log's records to the store that was opened, which reaches up to the record before
//! them.

use quartet_log::{Cause, LogError};
use quartet_model::{Effect, EffectsError, EffectsReader, Version};
use quartet_store::{PartitionStore, Read, Row, Store, StoreError};

use crate::options::OpenError;

/// Applies the log's records, in order, to the store that reaches up to them.
pub(crate) struct Replayer {
    pub store: PartitionStore,
    /// The version of the newest transaction applied.
    pub version: Version,
    pub transactions: u64,
    /// Why a record could not be applied, if it was not the record's fault.
    store_failure: Option<StoreError>,
}

impl Replayer {
    pub fn new(store: PartitionStore) -> Replayer {
        Replayer {
            version: store.applied().version,
            store,
            transactions: 0,
            store_failure: None,
        }
    }

    /// Why the log could not be opened: its own fault, or the store's.
    pub fn error(&mut self, log: LogError) -> OpenError {
        match self.store_failure.take() {
            Some(failure) => OpenError::Store(failure.into()),
            None => OpenError::Log(log),
        }
    }

    pub fn record(&mut self, payload: &[u8]) -> Result<(), Cause> {
        Ok(self.apply_epoch(payload)?)
    }

    fn apply_epoch(&mut self, payload: &[u8]) -> Result<(), EpochError> {
        let mut reader = EffectsReader::new(payload);
        while let Some((version, mut effects)) = reader.next_transaction()? {
            if version <= self.version {
                return Err(EpochError::VersionsOutOfOrder);
            }
            while let Some(effect) = effects.next() {
                let applied = apply(&mut self.store, version, effect?);
                applied.inspect_err(|failure| self.store_failure = Some(failure.clone()))?;
            }
            self.version = version;
            self.transactions += 1;
        }
        Ok(())
    }
}

/// A record that was written whole but cannot be what an engine wrote.
#[derive(Debug, thiserror::Error)]
enum EpochError {
    #[error(transparent)]
    Effects(#[from] EffectsError),
    #[error("a transaction is not newer than the one before it")]
    VersionsOutOfOrder,
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) fn apply(store: &mut PartitionStore, version: Version, effect: Effect<'_>) -> Result<(), StoreError> {
    match effect {
        Effect::Set { key, value } => store.set(Row::new(key, value, version)).map(drop),
        Effect::Row { key, value, version } => store.set(Row::new(key, value, version)).map(drop),
        Effect::Clear { key } => store.clear(key).map(drop),
        Effect::ClearRange { start, end } => store.clear_range(start, end).map(drop),
        Effect::Patch { key, offset, bytes } => {
            let old = store.get(key)?;
            let row = Row::patched(old.as_ref(), key, offset, bytes, version);
            store.set(row).map(drop)
        }
    }
}
