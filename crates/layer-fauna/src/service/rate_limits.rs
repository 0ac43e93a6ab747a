//! The operations of each credential per second: of reading, of writing and of computing.
//!
//! One bucket for each credential and kind, filled over time, at most to one second's amount. A
//! query runs if its bucket is not empty, and its cost is subtracted afterwards, so later queries
//! pay for a large one. Only valid secrets have buckets; full ones are dropped.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::evaluation::Cost;
use crate::language::error::{Code, Errors, Result};

/// Operations of each kind, in the order of [`KINDS`].
pub type Operations = [u64; 3];

const KINDS: [&str; 3] = ["read", "write", "compute"];
/// Seconds of the rate beyond which debts do not grow.
const DEBT_SECONDS_MAX: f64 = 10.0;
/// Number of buckets above which full ones are removed.
const BUCKETS_MANY: usize = 10_000;

impl Cost {
    /// Drops what the reply of a failed query does not report.
    pub fn report_failure(&mut self) {
        (self.read_operations, self.write_operations) = (0, 0);
        self.bytes_written = 0;
    }

    /// Reads and writes are counted as they happen; computing counts per 50 calls, at least one.
    pub fn operations(&self) -> Operations {
        [
            self.read_operations,
            self.write_operations,
            self.steps.div_ceil(50).max(1),
        ]
    }
}

#[derive(Default)]
pub struct RateLimits {
    /// Operations per second; `None` means unlimited.
    per_second: Option<Operations>,
    buckets: Mutex<HashMap<[u8; 32], Bucket>>,
}

struct Bucket {
    left: [f64; 3],
    filled_micros: u64,
}

impl Bucket {
    fn fill(&mut self, per_second: &Operations, now_micros: u64) {
        let seconds = now_micros.saturating_sub(self.filled_micros) as f64 / 1e6;
        self.filled_micros = self.filled_micros.max(now_micros);
        for (tokens, rate) in self.left.iter_mut().zip(per_second) {
            *tokens = (*tokens + seconds * *rate as f64).min(*rate as f64);
        }
    }

    fn is_full(&self, per_second: &Operations) -> bool {
        self.left
            .iter()
            .zip(per_second)
            .all(|(tokens, rate)| *tokens >= *rate as f64)
    }
}

impl RateLimits {
    pub fn new(per_second: Option<Operations>) -> RateLimits {
        RateLimits {
            per_second,
            ..RateLimits::default()
        }
    }

    pub fn are_set(&self) -> bool {
        self.per_second.is_some()
    }

    /// Refuses a credential that has nothing left of some kind.
    pub fn check(&self, credential: &[u8; 32], now_micros: u64) -> Result<()> {
        let Some(per_second) = &self.per_second else {
            return Ok(());
        };
        let mut buckets = self.buckets.lock();
        let Some(bucket) = buckets.get_mut(credential) else {
            return Ok(());
        };
        bucket.fill(per_second, now_micros);
        match bucket.left.iter().position(|tokens| *tokens <= 0.0) {
            Some(kind) => Err(Errors::protocol(
                Code::TooManyRequests,
                format!("Rate limit for {} exceeded", KINDS[kind]),
            )),
            None => Ok(()),
        }
    }

    /// The kinds that a credential has exhausted, in the header's form.
    pub fn exceeded(&self, credential: &[u8; 32]) -> String {
        let buckets = self.buckets.lock();
        let tokens = buckets.get(credential).map_or([1.0; 3], |bucket| bucket.left);
        let empty = KINDS.iter().zip(tokens).filter(|(_, tokens)| *tokens <= 0.0);
        empty.map(|(kind, _)| *kind).collect::<Vec<_>>().join(",")
    }

    /// Takes what a query has cost.
    pub fn charge(&self, credential: &[u8; 32], operations: &Operations, now_micros: u64) {
        let Some(per_second) = &self.per_second else { return };
        let mut buckets = self.buckets.lock();
        if buckets.len() > BUCKETS_MANY {
            buckets.retain(|_, bucket| {
                bucket.fill(per_second, now_micros);
                !bucket.is_full(per_second)
            });
        }
        let bucket = buckets.entry(*credential).or_insert_with(|| Bucket {
            left: per_second.map(|rate| rate as f64),
            filled_micros: now_micros,
        });
        bucket.fill(per_second, now_micros);
        for (index, tokens) in bucket.left.iter_mut().enumerate() {
            let rate = per_second[index] as f64;
            *tokens = (*tokens - operations[index] as f64).max(-rate * DEBT_SECONDS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_by_waiting() {
        let limits = RateLimits::new(Some([10, 10, 10]));
        let (key, other) = ([1; 32], [2; 32]);
        let second = 1_000_000;
        assert!(limits.check(&key, second).is_ok());
        limits.charge(&key, &[0, 25, 1], second);
        let refused = limits.check(&key, second).unwrap_err();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.0[0].description, "Rate limit for write exceeded");
        assert_eq!(limits.exceeded(&key), "write");
        assert!(limits.check(&other, second).is_ok());
        assert!(limits.check(&key, 2 * second).is_err());
        assert!(limits.check(&key, 3 * second).is_ok());
    }

    #[test]
    fn no_limit_refuses_no_request() {
        let limits = RateLimits::default();
        limits.charge(&[1; 32], &[u64::MAX; 3], 1);
        assert!(limits.check(&[1; 32], 1).is_ok() && !limits.are_set());
    }
}
