//! The quotas of a logical database's requests, and each protocol's words for an exceeded one.
//!
//! Redis's texts are Upstash's (its documentation, "Troubleshooting"); DynamoDB's exceptions are
//! those of its "Error handling" page, and SDKs retry those for throttling; Fauna answers 429.

use std::sync::Arc;

use quartet_engine::Engine;
use quartet_layer_dynamodb::{Exception, Failure};
use quartet_layer_redis::access::admission_control::{Admission, AdmissionControl, Cost, Growth};
use quartet_tenancy::{Charge, Database, Exceeded};

/// Wraps the Redis layer of one database.
pub struct RedisAdmissionControl {
    database: Arc<Database>,
    engine: Arc<Engine>,
}

impl RedisAdmissionControl {
    pub fn new(database: Arc<Database>, engine: Arc<Engine>) -> RedisAdmissionControl {
        RedisAdmissionControl { database, engine }
    }

    fn check(&self, admission: &Admission) -> Result<(), Exceeded> {
        self.database.limits.check_request(admission.request_bytes)?;
        // A database that evicts makes room for rows by itself.
        let stored_bytes = |beside_rows_bytes: u64| match self.database.definition().eviction {
            true => beside_rows_bytes,
            false => beside_rows_bytes.saturating_add(self.engine.stored_bytes(self.database.id)),
        };
        let limits = &self.database.limits;
        match admission.growth {
            Growth::None => Ok(()),
            Growth::Little { beside_rows_bytes } => limits.check_reserve(stored_bytes(beside_rows_bytes)),
            Growth::Full { beside_rows_bytes } => limits.check_stored(stored_bytes(beside_rows_bytes)),
        }
    }
}

impl AdmissionControl for RedisAdmissionControl {
    fn admit(&self, admission: &Admission) -> Result<(), String> {
        if self.database.is_closed() {
            return Err("ERR the database was deleted".into());
        }
        let meter = &self.database.meter;
        if let Err(exceeded) = self.check(admission) {
            meter.refuse();
            return Err(redis_text(exceeded));
        }
        let charge = match admission.cost {
            Cost::Free => return Ok(()),
            Cost::Read => Charge::READ,
            Cost::Write => Charge::WRITE,
        };
        meter
            .command(&self.database.limits, admission.now_micros)
            .map_err(redis_text)?;
        meter.charge(charge);
        Ok(())
    }

    fn took(&self, micros: u64) {
        self.database.meter.durations.add(micros);
    }

    fn transferred(&self, bytes_in: usize, bytes_out: usize) {
        if bytes_in + bytes_out > 0 {
            self.database.meter.transferred(bytes_in, bytes_out);
        }
    }

    fn check_connections(&self, open: usize) -> Result<(), String> {
        let checked = self.database.limits.check_connections(open);
        checked.map_err(|exceeded| {
            self.database.meter.refuse();
            redis_text(exceeded)
        })
    }

    fn script_micros_max(&self) -> u64 {
        self.database.limits.script_micros()
    }

    fn script_bytes_max(&self) -> usize {
        let stored_bytes = self.database.limits.stored_bytes().unwrap_or(u64::MAX);
        stored_bytes.clamp(SCRIPT_BYTES_LEAST, SCRIPT_BYTES_MOST) as usize
    }
}

/// A script may take as much memory as its database may hold, within these bounds.
const SCRIPT_BYTES_LEAST: u64 = 4 << 20;
const SCRIPT_BYTES_MOST: u64 = 64 << 20;

/// Returns the exceeded quota, if the database is full.
pub fn has_no_room(database: &Database, engine: &Engine) -> Option<Exceeded> {
    database.limits.check_stored(engine.stored_bytes(database.id)).err()
}

/// Counts a request over HTTP, or returns the exceeded quota.
pub fn admit(database: &Database, request_bytes: usize, now_micros: u64) -> Result<(), Exceeded> {
    if let Err(exceeded) = database.limits.check_request(request_bytes) {
        database.meter.refuse();
        return Err(exceeded);
    }
    database.meter.command(&database.limits, now_micros)
}

fn redis_text(exceeded: Exceeded) -> String {
    format!("ERR {}", text(exceeded))
}

/// Describes the exceeded quota in a sentence.
pub fn text(exceeded: Exceeded) -> String {
    match exceeded {
        Exceeded::CommandsPerSecond { limit } => format!("max commands per second exceeded. Limit: {limit}"),
        Exceeded::CommandsPerDay { limit, usage } => {
            format!("max daily request limit exceeded. Limit: {limit}, Usage: {usage}")
        }
        Exceeded::RequestBytes { limit, usage } => {
            format!("max request size exceeded. Limit: {limit} bytes, Actual: {usage} bytes")
        }
        Exceeded::StoredBytes { limit, usage } => {
            format!("DB capacity quota exceeded. Limit: {limit} bytes, Usage: {usage} bytes")
        }
        Exceeded::Connections { limit, usage } => {
            format!("max concurrent connections exceeded. Limit: {limit}, Usage: {usage}")
        }
    }
}

/// The same as DynamoDB's exception.
pub fn dynamodb_failure(exceeded: Exceeded) -> Failure {
    let exception = match exceeded {
        Exceeded::CommandsPerSecond { .. } => Exception::Throttling,
        Exceeded::CommandsPerDay { .. } => Exception::RequestLimitExceeded,
        Exceeded::RequestBytes { .. } | Exceeded::StoredBytes { .. } | Exceeded::Connections { .. } => {
            Exception::LimitExceeded
        }
    };
    Failure::new(exception, text(exceeded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_its_own_words() {
        for (exceeded, redis, exception) in [
            (
                Exceeded::CommandsPerSecond { limit: 5 },
                "ERR max commands per second exceeded. Limit: 5",
                Exception::Throttling,
            ),
            (
                Exceeded::CommandsPerDay { limit: 5, usage: 5 },
                "ERR max daily request limit exceeded. Limit: 5, Usage: 5",
                Exception::RequestLimitExceeded,
            ),
            (
                Exceeded::RequestBytes { limit: 5, usage: 7 },
                "ERR max request size exceeded. Limit: 5 bytes, Actual: 7 bytes",
                Exception::LimitExceeded,
            ),
            (
                Exceeded::StoredBytes { limit: 5, usage: 7 },
                "ERR DB capacity quota exceeded. Limit: 5 bytes, Usage: 7 bytes",
                Exception::LimitExceeded,
            ),
            (
                Exceeded::Connections { limit: 5, usage: 5 },
                "ERR max concurrent connections exceeded. Limit: 5, Usage: 5",
                Exception::LimitExceeded,
            ),
        ] {
            assert_eq!(redis_text(exceeded), redis);
            assert_eq!(dynamodb_failure(exceeded).exception, exception);
        }
    }
}
