//! The layer over one logical database, as its operations see it: what it is set up with, and its
//! one way to a transaction.

use std::sync::Arc;

use quartet_engine::{Busy, Dependency, Engine, ExecuteError, FollowingPeriod, MustWrite, Space, Transaction};

use crate::storage::buckets::{Buckets, NoBuckets};
use crate::storage::catalog::Catalog;
use crate::storage::region;
use crate::storage::throughput::Throughput;
use crate::{Exception, Failure};

/// The layer over one logical database.
pub struct DynamoDb {
    pub engine: Arc<Engine>,
    pub space: Space,
    /// Another node is home: the layer reads this node's replica, in this period, and never writes.
    pub replica: Option<FollowingPeriod>,
    /// Region and account in resource names.
    pub region: String,
    /// Each region has tables of its own.
    pub regions_are_separate: bool,
    pub account: String,
    /// Host and port as clients reach them.
    pub endpoint: String,
    /// The limits on the consumption of tables.
    pub throughput: Arc<Throughput>,
    /// The targets of exports and sources of imports.
    pub buckets: Arc<dyn Buckets>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) others: region::OtherRegions,
}

/// The body of a reply, or why there is none, and what either depends on.
pub(crate) type Outcome = (Result<Vec<u8>, Failure>, Dependency);

/// A request that can be answered without reading the state depends on nothing.
pub(crate) fn settled<R>(result: Result<R, Failure>) -> (Result<R, Failure>, Dependency) {
    (result, Dependency::ZERO)
}

/// A transaction's outcome as a request's.
fn answered<R>(executed: Result<(R, Dependency), ExecuteError<Failure>>) -> (Result<R, Failure>, Dependency) {
    match executed {
        Ok((answer, dependency)) => (Ok(answer), dependency),
        Err(ExecuteError::Layer(failure, dependency)) => (Err(failure), dependency),
        // SDKs repeat a request that the service could not serve.
        Err(ExecuteError::DiskFull(dependency) | ExecuteError::Unreadable(dependency)) => (
            Err(Failure::new(Exception::InternalServer, "Internal server error")),
            dependency,
        ),
        Err(ExecuteError::NotHome) => settled(Err(Failure::new(Exception::InternalServer, "Internal server error"))),
        Err(ExecuteError::TooLarge(dependency)) => (
            Err(Failure::validation("Item size has exceeded the maximum allowed size")),
            dependency,
        ),
    }
}

impl DynamoDb {
    pub fn new(engine: Arc<Engine>, space: Space) -> DynamoDb {
        DynamoDb {
            engine,
            space,
            replica: None,
            region: region::HOME.into(),
            regions_are_separate: false,
            account: "000000000000".into(),
            endpoint: "localhost:8000".into(),
            throughput: Arc::new(Throughput::unlimited()),
            buckets: Arc::new(NoBuckets),
            catalog: Arc::default(),
            others: region::OtherRegions::default(),
        }
    }

    /// Runs `body` as one transaction under the partition's lock. A replica is busy for all that is
    /// for the home.
    pub(crate) fn execute<R>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> (Result<R, Failure>, Dependency) {
        if self.replica.is_some() {
            return settled(Err(Failure::busy()));
        }
        let mut partition = match self.engine.partition_in_time() {
            Ok(partition) => partition,
            Err(Busy) => return settled(Err(Failure::busy())),
        };
        answered(partition.execute(self.space, body))
    }

    /// The same, and waits until what it did and saw is durable.
    pub(crate) fn execute_durably<R>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match self.engine.execute_durably(self.space, body) {
            Ok(executed) => answered(executed.map(|answer| (answer, Dependency::ZERO))).0,
            Err(Busy) => Err(Failure::busy()),
        }
    }

    /// Runs `body` as one transaction that only reads, beside others. Should it write after all, it
    /// runs once more as any other does.
    pub(crate) fn read<R>(
        &self,
        body: impl Fn(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> (Result<R, Failure>, Dependency) {
        let partition = match self.replica {
            None => self.engine.read_in_time(),
            Some(period) => self.engine.read_replica_in_time(period),
        };
        let mut partition = match partition {
            Ok(partition) => partition,
            Err(Busy) => return settled(Err(Failure::busy())),
        };
        let executed = partition.execute(self.space, &body);
        drop(partition);
        match executed {
            Ok(Err(ExecuteError::NotHome)) if self.replica.is_some() => settled(Err(Failure::busy())),
            Ok(executed) => answered(executed),
            Err(MustWrite) => self.execute(body),
        }
    }

    /// Parses without the state, executes with it, and writes the reply without it again.
    pub(crate) fn respond<P, R>(
        &self,
        parsed: Result<P, Failure>,
        execute: impl FnOnce(&mut Transaction<'_>, &P) -> Result<R, Failure>,
        write: impl FnOnce(P, R) -> Vec<u8>,
    ) -> Outcome {
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(failure) => return settled(Err(failure)),
        };
        let (executed, dependency) = self.execute(|transaction| execute(transaction, &parsed));
        (executed.map(|executed| write(parsed, executed)), dependency)
    }

    /// As `respond`, for what only reads.
    pub(crate) fn respond_to_read<P, R>(
        &self,
        parsed: Result<P, Failure>,
        execute: impl Fn(&mut Transaction<'_>, &P) -> Result<R, Failure>,
        write: impl FnOnce(P, R) -> Vec<u8>,
    ) -> Outcome {
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(failure) => return settled(Err(failure)),
        };
        let (executed, dependency) = self.read(|transaction| execute(transaction, &parsed));
        (executed.map(|executed| write(parsed, executed)), dependency)
    }

    pub(crate) fn table_arn(&self, table: &str) -> String {
        format!("arn:aws:dynamodb:{}:{}:table/{table}", self.region, self.account)
    }
}
