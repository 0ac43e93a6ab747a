//! Throttling: what a table or a global index may consume a second, and what happens beyond ("Burst
//! capacity", "Maximum throughput for on-demand tables").
//!
//! Each limit has a bucket of units. A request is admitted while the bucket is not empty, and takes
//! its consumption, which is known only afterwards, possibly into debt: so a request larger than
//! the bucket still happens, and the next ones wait for it. Unused provisioned units are kept for
//! five minutes; an on-demand maximum applies to each second.
//!
//! Buckets are only in memory: after a restart they are full. Time is passed in with the request. A
//! table without limits has no buckets, and a full bucket is dropped.

use std::collections::HashMap;

use parking_lot::Mutex;
use quartet_engine::Transaction;

use crate::DynamoDb;
use crate::storage::capacity::Consumed;
use crate::storage::found::Found;
use crate::storage::table::{Index, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Writer, json_text};
use crate::wire::value::Item;

/// Seconds for which provisioned units are kept.
const BURST_SECONDS: f64 = 300.0;
/// Number of buckets below which no bucket is removed.
const SWEEP_BUCKETS_MIN: usize = 1024;

/// Whether units are of reading or of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    Read,
    Write,
}

/// The limit on consumption.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    units_per_second: f64,
    units_max: f64,
    on_demand: bool,
}

/// The units that are left at a time; fewer than none if the last request took more.
struct Bucket {
    units: f64,
    at_micros: u64,
    limit: Limit,
}

impl Bucket {
    fn full(limit: Limit, now_micros: u64) -> Bucket {
        Bucket {
            units: limit.units_max,
            at_micros: now_micros,
            limit,
        }
    }

    fn refill(&mut self, limit: Limit, now_micros: u64) {
        let seconds = now_micros.saturating_sub(self.at_micros) as f64 / 1e6;
        self.units = (self.units + seconds * limit.units_per_second).min(limit.units_max);
        self.at_micros = self.at_micros.max(now_micros);
        self.limit = limit;
    }
}

/// Number of the table, number of the index or 0 for the table itself, and what for.
type Place = (u32, u16, Use);

#[derive(Default)]
struct Buckets {
    kept: HashMap<Place, Bucket>,
    /// Number of buckets at which full buckets are removed.
    sweep_at: usize,
}

/// The buckets of all tables, or none at all.
pub struct Throughput {
    buckets: Option<Mutex<Buckets>>,
}

impl Throughput {
    /// Nothing is throttled.
    pub fn unlimited() -> Throughput {
        Throughput { buckets: None }
    }

    pub fn limited() -> Throughput {
        Throughput {
            buckets: Some(Mutex::default()),
        }
    }

    /// Returns true if the table or one of its indexes has a limit on its consumption.
    pub fn limits(&self, table: &Table) -> bool {
        let has_maximum = || table.indexes.iter().any(|index| index.on_demand_maximum.is_some());
        self.buckets.is_some() && (!table.capacity.on_demand || table.on_demand_maximum.is_some() || has_maximum())
    }

    /// Takes `units` from the bucket of a table or an index, if it has one, and says what was in it
    /// before.
    fn take(
        &self,
        now_micros: u64,
        table: &Table,
        index: Option<&Index>,
        use_: Use,
        units: f64,
    ) -> Option<(f64, Limit)> {
        let buckets = self.buckets.as_ref()?;
        let limit = limit(table, index, use_)?;
        let mut buckets = buckets.lock();
        let place = (table.id, index.map_or(0, |index| index.id), use_);
        let bucket = buckets
            .kept
            .entry(place)
            .or_insert_with(|| Bucket::full(limit, now_micros));
        bucket.refill(limit, now_micros);
        let before = bucket.units;
        bucket.units -= units;
        if buckets.kept.len() > buckets.sweep_at.max(SWEEP_BUCKETS_MIN) {
            buckets.sweep(now_micros);
        }
        Some((before, limit))
    }
}

impl Buckets {
    fn sweep(&mut self, now_micros: u64) {
        self.kept.retain(|_, bucket| {
            bucket.refill(bucket.limit, now_micros);
            bucket.units < bucket.limit.units_max
        });
        self.sweep_at = 2 * self.kept.len();
    }
}

/// Returns the limit on the consumption of a table or one of its global indexes; `None`: unlimited.
fn limit(table: &Table, index: Option<&Index>, use_: Use) -> Option<Limit> {
    let (capacity, maximum) = match index {
        Some(index) => (&index.capacity, index.on_demand_maximum),
        None => (&table.capacity, table.on_demand_maximum),
    };
    let units_of = |(read, write)| match use_ {
        Use::Read => read,
        Use::Write => write,
    };
    let on_demand = table.capacity.on_demand;
    let units = match on_demand {
        true => units_of(maximum?),
        false => units_of((capacity.read_units, capacity.write_units)),
    };
    (units > 0).then_some(Limit {
        units_per_second: units as f64,
        units_max: units as f64 * if on_demand { 1.0 } else { BURST_SECONDS },
        on_demand,
    })
}

impl DynamoDb {
    /// Refuses a request for which a table, or the global index that it reads, has no units left.
    pub(crate) fn admit(
        &self,
        transaction: &Transaction<'_>,
        table: &Table,
        index: Option<&Index>,
        use_: Use,
    ) -> Result<(), Failure> {
        let index = index.filter(|index| index.global);
        match self.throughput.take(transaction.now_micros(), table, index, use_, 0.0) {
            Some((tokens, limit)) if tokens <= 0.0 => Err(self.throttled(table, index, use_, limit)),
            _ => Ok(()),
        }
    }

    /// The same for the global indexes whose entries a write changes.
    pub(crate) fn admit_indexes(
        &self,
        transaction: &Transaction<'_>,
        table: &Table,
        old: &Found,
        new: Option<&Item>,
    ) -> Result<(), Failure> {
        if !self.throughput.limits(table) {
            return Ok(());
        }
        for index in table.indexes.iter().filter(|index| index.global) {
            let entry = |item: Option<&Item>| index.entry(table, item?);
            if let Err(throttled) = self.admit(transaction, table, Some(index), Use::Write)
                && entry(old.item()) != entry(new)
            {
                return Err(throttled);
            }
        }
        Ok(())
    }

    /// Takes what a request consumed from the buckets of the table and of its global indexes.
    pub(crate) fn charge(
        &self,
        transaction: &Transaction<'_>,
        table: &Table,
        use_: Use,
        consumed: impl FnOnce() -> Consumed,
    ) {
        if !self.throughput.limits(table) {
            return;
        }
        let (now_micros, consumed) = (transaction.now_micros(), consumed());
        // Local indexes live from the units of their table.
        let own = consumed.table + consumed.local.values().sum::<f64>();
        self.throughput.take(now_micros, table, None, use_, own);
        for (name, units) in &consumed.global {
            self.throughput.take(now_micros, table, table.index(name), use_, *units);
        }
    }

    fn throttled(&self, table: &Table, index: Option<&Index>, use_: Use, limit: Limit) -> Failure {
        let (exception, text) = match (limit.on_demand, index) {
            (true, _) => (
                Exception::Throttling,
                "Throughput exceeds the maximum OnDemandThroughput configured on table or index",
            ),
            (false, None) => (
                Exception::ProvisionedThroughputExceeded,
                "The level of configured provisioned throughput for the table was exceeded. \
                 Consider increasing your provisioning level with the UpdateTable API.",
            ),
            (false, Some(_)) => (
                Exception::ProvisionedThroughputExceeded,
                "The level of configured provisioned throughput for one or more global secondary indexes of the table was \
                 exceeded. Consider increasing your provisioning level for the under-provisioned global secondary indexes with \
                 the UpdateTable API",
            ),
        };
        let mut failure = Failure::new(exception, text);
        // The service's model spells the member of the two exceptions differently.
        let member = match exception {
            Exception::Throttling => "throttlingReasons",
            _ => "ThrottlingReasons",
        };
        failure.extra = Some((member, self.reasons(table, index, use_, limit)));
        failure
    }

    fn reasons(&self, table: &Table, index: Option<&Index>, use_: Use, limit: Limit) -> String {
        let (kind, resource) = match index {
            None => ("Table", self.table_arn(&table.name)),
            Some(index) => ("Index", format!("{}/index/{}", self.table_arn(&table.name), index.name)),
        };
        let why = match limit.on_demand {
            true => "MaxOnDemandThroughputExceeded",
            false => "ProvisionedThroughputExceeded",
        };
        let mut writer = Writer::default();
        writer.open(b'[');
        writer.open(b'{');
        writer.member("reason", &format!("{kind}{use_:?}{why}"));
        writer.member("resource", &resource);
        writer.close(b'}');
        writer.close(b']');
        json_text(writer.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    const SECOND: u64 = 1_000_000;

    fn table(id: u32) -> Table {
        let fixture = Fixture::start();
        let request = r#"{"TableName":"tab","KeySchema":[{"AttributeName":"p","KeyType":"HASH"}],
            "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}],
            "ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":2}}"#;
        assert_eq!(fixture.ask("CreateTable", request).status, 200);
        let result = fixture
            .layer
            .execute(|transaction| fixture.layer.table(transaction, "tab"));
        let mut table = Table::clone(&result.0.unwrap());
        table.id = id;
        table
    }

    #[test]
    fn buckets_fill_with_time_and_no_further() {
        let (throughput, table) = (Throughput::limited(), table(1));
        let take = |seconds: u64, units: f64| {
            throughput
                .take(seconds * SECOND, &table, None, Use::Write, units)
                .unwrap()
                .0
        };
        assert_eq!(take(0, 700.0), 600.0);
        assert_eq!(take(10, 0.0), -80.0);
        assert_eq!(take(60, 0.0), 20.0);
        assert_eq!(take(10_000, 0.0), 600.0);
        // A clock that was set back gives nothing and takes nothing.
        assert_eq!(take(9_000, 1.0), 600.0);
        assert_eq!(throughput.take(0, &table, None, Use::Read, 0.0).unwrap().0, 300.0);
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let throughput = Throughput::limited();
        let mut table = table(0);
        for id in 0..10_000 {
            table.id = id;
            throughput.take(u64::from(id) * SECOND, &table, None, Use::Write, 2.0);
        }
        let count = throughput.buckets.as_ref().unwrap().lock().kept.len();
        assert!(count <= SWEEP_BUCKETS_MIN + 1, "{count}");
    }

    #[test]
    fn an_unlimited_table_has_no_bucket() {
        let mut table = table(1);
        assert!(Throughput::unlimited().take(0, &table, None, Use::Write, 1.0).is_none());
        table.capacity.on_demand = true;
        assert!(!Throughput::limited().limits(&table));
        table.on_demand_maximum = Some((-1, 5));
        let throughput = Throughput::limited();
        assert!(throughput.take(0, &table, None, Use::Read, 1.0).is_none());
        assert_eq!(throughput.take(0, &table, None, Use::Write, 0.0).unwrap().0, 5.0);
    }
}
