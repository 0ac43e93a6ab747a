//! The DynamoDB layer: the operations of the service on one logical database.
//!
//! ```text
//!   body --shape--> JSON tree --operation--> typed request --one transaction--> reply and what it must wait for
//! ```
//!
//! A request is one call of [`DynamoDb::answer`]: it parses outside the partition's lock, executes under it, and writes
//! its JSON outside again; pages of Query and Scan only collect rows under the lock. Indexes, expiries and stream records
//! are rows written by the transaction of the item they describe, so they are never stale.
//!
//! Nothing here knows a socket, a thread or the wall clock: time arrives with the transaction, and the server calls
//! [`DynamoDb::maintain`] now and then for what nobody asked for: expiry, filling of new indexes, forgetting.

mod attributes;
mod batch;
pub mod calendar;
mod capacity;
mod catalog;
mod elsewhere;
pub mod expression;
pub mod failure;
mod items;
pub mod json;
mod key;
mod kind;
mod legacy;
mod maintenance;
mod number;
mod operations;
mod partiql;
mod read;
pub mod region;
mod search;
mod settings;
mod shape;
mod source;
mod stored;
mod streams;
mod table;
mod tables;
#[cfg(test)]
mod testing;
mod throughput;
mod transact;
mod value;
mod write;

use std::sync::Arc;

use quartet_engine::{Busy, Engine, ExecuteError, Hold, Space, Transaction};

pub use failure::{Exception, Failure};
pub use operations::Target;
pub use throughput::Throughput;

use crate::catalog::Catalog;
use crate::json::Json;

/// The layer over one logical database.
pub struct DynamoDb {
    pub engine: Arc<Engine>,
    pub space: Space,
    /// Region and account that stand in resource names.
    pub region: String,
    /// Each region has tables of its own.
    pub regions_are_separate: bool,
    pub account: String,
    /// Host and port as clients reach them.
    pub endpoint: String,
    /// What tables may consume.
    pub throughput: Arc<Throughput>,
    catalog: Arc<Catalog>,
    others: region::OtherRegions,
}

/// What a request is answered with, once `hold` is durable.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    pub hold: Hold,
    /// It is an error because something keeps the partition, and the request may be answered again later.
    pub is_busy: bool,
}

/// The body of a reply, or why there is none, and what either depends on.
pub(crate) type Outcome = (Result<Vec<u8>, Failure>, Hold);

/// A request that can be judged without looking at the state depends on nothing.
pub(crate) fn settled<R>(result: Result<R, Failure>) -> (Result<R, Failure>, Hold) {
    (result, Hold::ZERO)
}

/// SDKs repeat a request that ends in this.
const OUT_OF_MEMORY: &str = "Internal server error: the server is out of memory. Delete something, or try again later.";

impl Reply {
    /// The answer to a request that was refused.
    pub fn refusing(failure: &Failure) -> Reply {
        Reply {
            status: failure.status(),
            body: failure.body(),
            hold: Hold::ZERO,
            is_busy: failure.exception == Exception::ServiceUnavailable,
        }
    }
}

impl DynamoDb {
    pub fn new(engine: Arc<Engine>, space: Space) -> DynamoDb {
        DynamoDb {
            engine,
            space,
            region: region::HOME.into(),
            regions_are_separate: false,
            account: "000000000000".into(),
            endpoint: "localhost:8000".into(),
            throughput: Arc::new(Throughput::unlimited()),
            catalog: Arc::default(),
            others: region::OtherRegions::default(),
        }
    }

    /// Answers a request. `target` is what the header X-Amz-Target says, `request` the parsed body.
    pub fn answer(&self, target: &Target, request: &Json<'_>) -> Reply {
        let (result, hold) = match request {
            Json::Object(_) => self.run(target, request),
            _ => settled(Err(Failure::serialization("Unexpected value type in payload"))),
        };
        match result {
            Ok(body) => Reply {
                status: 200,
                body,
                hold,
                is_busy: false,
            },
            Err(failure) => Reply {
                hold,
                ..Reply::refusing(&failure)
            },
        }
    }

    fn run(&self, target: &Target, request: &Json<'_>) -> Outcome {
        let operation = target.operation();
        match shape::check(operation.input, request) {
            Ok(()) if self.engine.memory().is_short() && target.makes_larger(request) => {
                settled(Err(Failure::new(Exception::InternalServer, OUT_OF_MEMORY)))
            }
            Ok(()) => (operation.run)(self, request),
            Err(failure) => settled(Err(failure)),
        }
    }

    /// Runs `body` as one transaction under the partition's lock.
    pub(crate) fn execute<R>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, Failure>,
    ) -> (Result<R, Failure>, Hold) {
        let mut home = match self.engine.home_in_time() {
            Ok(home) => home,
            Err(Busy) => return settled(Err(Failure::busy())),
        };
        match home.execute(self.space, body) {
            Ok((answer, hold)) => (Ok(answer), hold),
            Err(ExecuteError::Layer(failure, hold)) => (Err(failure), hold),
            // SDKs repeat a request that the service could not serve.
            Err(ExecuteError::DiskFull(hold) | ExecuteError::Unreadable(hold)) => (
                Err(Failure::new(Exception::InternalServer, "Internal server error")),
                hold,
            ),
            Err(ExecuteError::NotHome) => {
                settled(Err(Failure::new(Exception::InternalServer, "Internal server error")))
            }
            Err(ExecuteError::TooLarge(hold)) => (
                Err(Failure::validation("Item size has exceeded the maximum allowed size")),
                hold,
            ),
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
        let (executed, hold) = self.execute(|transaction| execute(transaction, &parsed));
        (executed.map(|executed| write(parsed, executed)), hold)
    }

    pub(crate) fn table_arn(&self, table: &str) -> String {
        format!("arn:aws:dynamodb:{}:{}:table/{table}", self.region, self.account)
    }
}
