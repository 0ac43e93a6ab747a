//! One partition on a disk in memory with a clock that only the test advances. `QUARTET_ENGINE`
//! selects the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quartet_engine::{
    Dependency, Durability, Engine, EngineOptions, ExecuteError, OpenError, Parts, Space, StoreKind, Transaction,
};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_log::FileLogOptions;
use quartet_model::{DatabaseId, LayerId};

pub const ALWAYS: Space = space(1, Durability::Always);
/// The same rows as `ALWAYS`, under a relaxed mode.
pub const RELAXED: Space = space(1, Durability::Interval);
pub const OTHER_RELAXED: Space = space(2, Durability::Interval);

const fn space(database: u16, durability: Durability) -> Space {
    Space {
        database: DatabaseId(database),
        layer: LayerId::Redis,
        durability,
    }
}

pub struct World {
    pub disk: FaultyDisk,
    pub clock: Arc<ManualClock>,
    pub failures: Arc<AtomicUsize>,
    pub segment_bytes: u64,
    pub checkpoint_log_bytes: u64,
    pub epoch_bytes_max: usize,
    pub log_retention_bytes: u64,
    pub log_retention: Duration,
    pub store: Option<StoreKind>,
}

impl Default for World {
    fn default() -> World {
        World {
            disk: FaultyDisk::default(),
            clock: Arc::default(),
            failures: Arc::default(),
            segment_bytes: 4096,
            checkpoint_log_bytes: 1 << 30,
            epoch_bytes_max: 1 << 20,
            log_retention_bytes: 1 << 30,
            log_retention: Duration::ZERO,
            store: std::env::var("QUARTET_ENGINE")
                .ok()
                .map(|name| StoreKind::parse(&name).unwrap()),
        }
    }
}

impl World {
    pub fn try_open(&self) -> Result<Engine, OpenError> {
        let failures = self.failures.clone();
        let log = FileLogOptions {
            segment_bytes: self.segment_bytes,
            ..FileLogOptions::default()
        };
        Engine::open_with(
            Parts::with_file_log(Arc::new(self.disk.clone()), self.clock.clone(), log),
            EngineOptions {
                kept_bytes: EngineOptions::default().kept_bytes.min(self.segment_bytes / 4),
                checkpoint_log_bytes: self.checkpoint_log_bytes,
                epoch_bytes_max: self.epoch_bytes_max,
                log_retention_bytes: self.log_retention_bytes,
                log_retention: self.log_retention,
                store: self.store,
                cache_bytes: 1 << 20,
                ..EngineOptions::default()
            },
            Box::new(move |_| {
                failures.fetch_add(1, Ordering::SeqCst);
            }),
            &mut |_| {},
        )
    }

    pub fn is_ssd(&self) -> bool {
        self.store == Some(StoreKind::Ssd)
    }

    pub fn open(&self) -> Engine {
        self.try_open().unwrap()
    }
}

/// Runs a transaction that cannot fail, except on a momentarily full disk: then it is retried.
pub fn execute<R>(engine: &Engine, space: Space, mut body: impl FnMut(&mut Transaction<'_>) -> R) -> (R, Dependency) {
    loop {
        let outcome: Result<_, ExecuteError<()>> = engine.partition().execute(space, |tx| Ok(body(tx)));
        if !matches!(outcome, Err(ExecuteError::DiskFull(_))) {
            return outcome.unwrap();
        }
        std::thread::yield_now();
    }
}

pub fn set(engine: &Engine, space: Space, key: &[u8], value: &[u8]) -> Dependency {
    execute(engine, space, |tx| drop(tx.set(key, value))).1
}

/// SplitMix64: the same sequence on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
