//! A row of the tables of metrics, and what rows are read from.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};

use quartet_engine::{Engine, PartitionId, Replication};
use quartet_layer_redis::Statistics as RedisStatistics;
use quartet_layer_redis::{Redis, Resources};
use quartet_tenancy::{DEFAULT_DATABASE, Usage};

use super::keys::KeyCounts;
use super::search::Indexes;
use crate::observability::exposition::{Exposition, Family, Kind, Unit};
use crate::tenants::Tenants;

/// A metric: what it is called, and how it is read.
pub struct Metric {
    pub family: Family,
    pub read: Read,
}

/// How a metric is read.
pub enum Read {
    /// One value without labels.
    Value(fn(&Sources<'_>) -> f64),
    /// One value for each partition, labelled if there are several.
    Partition(fn(&Engine) -> f64),
    /// One figure of the log that nodes share.
    Replication(fn(&Replication) -> f64),
    /// Writes a sample for each set of labels.
    Samples(fn(&Sources<'_>, &mut dyn Exposition)),
}

/// Metrics that are shown together.
pub struct Table {
    pub title: &'static str,
    /// The condition on which they are shown, in words and in code. The use of single databases is
    /// for operators.
    pub shown: &'static str,
    pub is_shown: fn(&Sources<'_>) -> bool,
    /// A home of partitions other than the first has these for each partition, by the label
    /// `partition`.
    pub is_by_service: bool,
    pub metrics: &'static [Metric],
}

/// The sources of metrics. Values that several of them share are read once.
pub struct Sources<'s> {
    /// The default database's layer.
    pub redis: &'s Redis,
    pub tenants: &'s Tenants,
    pub is_for_operators: bool,
    pub resources: Resources,
    /// Memory in use, as Redis counts it.
    pub used_bytes: u64,
    keys: OnceCell<KeyCounts>,
    indexes: OnceCell<Indexes>,
    databases: OnceCell<Databases>,
}

/// The databases other than the default one, in the order of their creation, so that the same
/// databases are always shown.
pub struct Databases {
    pub names: Vec<String>,
    pub figures: Vec<Figures>,
    /// The number of them with rows of their own.
    pub shown: OnceCell<usize>,
}

/// The use and the limits of one of them.
pub struct Figures {
    pub usage: Usage,
    pub stored_bytes: u64,
    pub connections: usize,
}

impl Metric {
    pub(super) const fn new(name: &'static str, kind: Kind, help: &'static str, read: Read) -> Metric {
        let unit = Unit::None;
        let family = Family { name, kind, unit, help };
        Metric { family, read }
    }

    pub const fn counter(name: &'static str, help: &'static str, read: fn(&Sources<'_>) -> f64) -> Metric {
        Metric::new(name, Kind::Counter, help, Read::Value(read))
    }

    pub const fn gauge(name: &'static str, help: &'static str, read: fn(&Sources<'_>) -> f64) -> Metric {
        Metric::new(name, Kind::Gauge, help, Read::Value(read))
    }

    pub const fn partition_counter(name: &'static str, help: &'static str, read: fn(&Engine) -> f64) -> Metric {
        Metric::new(name, Kind::Counter, help, Read::Partition(read))
    }

    pub const fn partition_gauge(name: &'static str, help: &'static str, read: fn(&Engine) -> f64) -> Metric {
        Metric::new(name, Kind::Gauge, help, Read::Partition(read))
    }

    pub const fn samples(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        read: fn(&Sources<'_>, &mut dyn Exposition),
    ) -> Metric {
        Metric::new(name, kind, help, Read::Samples(read))
    }

    pub const fn in_bytes(mut self) -> Metric {
        self.family.unit = Unit::Bytes;
        self
    }

    pub const fn in_seconds(mut self) -> Metric {
        self.family.unit = Unit::Seconds;
        self
    }
}

impl<'s> Sources<'s> {
    pub fn new(redis: &'s Redis, tenants: &'s Tenants, is_for_operators: bool) -> Sources<'s> {
        Sources {
            redis,
            tenants,
            is_for_operators,
            resources: (redis.process.resources)(),
            used_bytes: redis.used_bytes(),
            keys: OnceCell::new(),
            indexes: OnceCell::new(),
            databases: OnceCell::new(),
        }
    }

    pub fn redis_statistics(&self) -> &RedisStatistics {
        &self.redis.observation.statistics
    }

    pub fn keys(&self) -> &KeyCounts {
        self.keys.get_or_init(|| KeyCounts::read(self.redis))
    }

    pub fn indexes(&self) -> &Indexes {
        self.indexes.get_or_init(|| Indexes::read(self.redis))
    }

    pub fn databases(&self) -> &Databases {
        self.databases.get_or_init(|| {
            let (parts, all) = (&self.tenants.parts, self.tenants.catalogue.list());
            let now_micros = parts.engine.now_micros();
            let usage = |database| self.tenants.catalogue.usage_of(database, now_micros);
            let figures = all.iter().map(|database| Figures {
                usage: usage(database).unwrap_or_default(),
                stored_bytes: parts.engine_of(database).stored_bytes(database.id),
                connections: self.tenants.connections_of(database.id),
            });
            Databases {
                figures: figures.collect(),
                shown: OnceCell::new(),
                names: all.iter().map(|database| database.definition().name.clone()).collect(),
            }
        })
    }

    /// Returns true if the default database is served.
    pub fn has_default(&self) -> bool {
        self.tenants.parts.partitions.has(PartitionId(0))
    }

    /// Bytes of keys and values of the default database.
    pub fn default_stored_bytes(&self) -> u64 {
        self.redis.engine.stored_bytes(DEFAULT_DATABASE)
    }
}

/// The value of a counter.
pub fn count(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

/// 1 for true.
pub fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
