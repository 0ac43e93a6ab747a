//! The DynamoDB layer: the operations of the service on one logical database.
//!
//! ```text
//!   body --shape--> JSON tree --operation--> typed request --one transaction--> reply and what it must wait for
//! ```
//!
//! A request is one call of [`DynamoDb::answer`]: it parses outside the partition's lock, executes
//! under it, and writes its JSON outside again; pages of Query and Scan only collect rows under the
//! lock. Indexes, expiries and stream records are rows written by the transaction of the item they
//! describe, so they are never stale.
//!
//! The layer has no socket, no thread and no wall clock: time is passed in with the transaction,
//! and the server calls [`DynamoDb::maintain`] at intervals for background work: expiry, filling of
//! new indexes, removal of old records.

mod background;
mod operations;
pub mod storage;
#[cfg(test)]
mod testing;
pub mod wire;

use quartet_engine::{Admission, Dependency};

pub use operations::Target;
pub use storage::buckets::Buckets;
pub use storage::changes::DynamoDbChanges;
pub use storage::invariants::DynamoDbInvariants;
pub use storage::layer::DynamoDb;
pub use storage::throughput::Throughput;
pub use wire::failure::{Exception, Failure};

pub(crate) use crate::storage::layer::{Outcome, settled};
use crate::wire::json::Json;

/// The reply to a request; send it once `dependency` is durable.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    pub dependency: Dependency,
    /// It is an error because something keeps the partition, and the request may be answered again
    /// later.
    pub is_busy: bool,
}

impl Reply {
    /// The answer to a request that was refused.
    pub fn refusing(failure: &Failure) -> Reply {
        Reply {
            status: failure.status(),
            body: failure.body(),
            dependency: Dependency::ZERO,
            is_busy: failure.exception == Exception::ServiceUnavailable,
        }
    }
}

impl DynamoDb {
    /// Answers a request. `target` is what the header X-Amz-Target says, `request` the parsed body.
    pub fn answer(&self, target: &Target, request: &Json<'_>) -> Reply {
        let (result, dependency) = match request {
            Json::Object(_) => self.run(target, request),
            _ => settled(Err(Failure::serialization("Unexpected value type in payload"))),
        };
        match result {
            Ok(body) => Reply {
                status: 200,
                body,
                dependency,
                is_busy: false,
            },
            Err(failure) => Reply {
                dependency,
                ..Reply::refusing(&failure)
            },
        }
    }

    fn run(&self, target: &Target, request: &Json<'_>) -> Outcome {
        let operation = target.operation();
        match wire::shape::check(operation.input, request) {
            Ok(()) => match self.engine.admission() {
                Admission::Refused if target.makes_larger(request) => settled(Err(Failure::out_of_memory())),
                Admission::Later if target.makes_larger(request) => settled(Err(Failure::busy())),
                _ => (operation.run)(self, request),
            },
            Err(failure) => settled(Err(failure)),
        }
    }
}
