//! Quotas of a logical database, and the limit that a request exceeded.
//!
//! [`Quotas`] are an operator's settings; [`Limits`] are the same as atomics, which requests are
//! checked against, so that a change takes effect with the next request and a check takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// An operator's limits. An absent limit means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_second: Option<u64>,
    /// Days start at midnight UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_day: Option<u64>,
    /// Keys and values. Reading and deleting remain possible beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u64>,
    /// Redis connections, and streaming answers over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Time limit of one script; a tenth of a second unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_millis: Option<u64>,
}

/// Default time limit of a script: meanwhile, no other request of the partition is served.
const SCRIPT_MILLIS: u64 = 100;
const NONE: u64 = u64::MAX;

/// Quotas in force.
#[derive(Debug)]
pub struct Limits {
    pub(crate) commands_per_second: AtomicU64,
    pub(crate) commands_per_day: AtomicU64,
    stored_bytes: AtomicU64,
    request_bytes: AtomicU64,
    connections: AtomicU64,
    script_millis: AtomicU64,
}

impl Limits {
    pub fn of(quotas: &Quotas) -> Limits {
        let limits = Limits {
            commands_per_second: AtomicU64::new(NONE),
            commands_per_day: AtomicU64::new(NONE),
            stored_bytes: AtomicU64::new(NONE),
            request_bytes: AtomicU64::new(NONE),
            connections: AtomicU64::new(NONE),
            script_millis: AtomicU64::new(SCRIPT_MILLIS),
        };
        limits.set(quotas);
        limits
    }

    pub fn set(&self, quotas: &Quotas) {
        let store = |limit: &AtomicU64, value: Option<u64>| limit.store(value.unwrap_or(NONE), Ordering::Relaxed);
        store(&self.commands_per_second, quotas.commands_per_second);
        store(&self.commands_per_day, quotas.commands_per_day);
        store(&self.stored_bytes, quotas.stored_bytes);
        store(&self.request_bytes, quotas.request_bytes);
        store(&self.connections, quotas.connections);
        store(&self.script_millis, quotas.script_millis.or(Some(SCRIPT_MILLIS)));
    }

    pub fn check_request(&self, request_bytes: usize) -> Result<(), Exceeded> {
        within(&self.request_bytes, request_bytes as u64)
            .map_err(|(limit, usage)| Exceeded::RequestBytes { limit, usage })
    }

    /// Whether `stored_bytes` leave room for more.
    pub fn check_stored(&self, stored_bytes: u64) -> Result<(), Exceeded> {
        within(&self.stored_bytes, stored_bytes).map_err(|(limit, usage)| Exceeded::StoredBytes { limit, usage })
    }

    /// As [`Limits::check_stored`], for what works data off or moves it: that may also use a
    /// reserve of a quarter of the limit.
    pub fn check_reserve(&self, stored_bytes: u64) -> Result<(), Exceeded> {
        let reserve = self.stored_bytes.load(Ordering::Relaxed) / 4;
        self.check_stored(stored_bytes.saturating_sub(reserve))
    }

    /// Checks whether another connection may be opened besides `open` ones.
    pub fn check_connections(&self, open: usize) -> Result<(), Exceeded> {
        within(&self.connections, open as u64 + 1).map_err(|(limit, _)| Exceeded::Connections {
            limit,
            usage: open as u64,
        })
    }

    pub fn stored_bytes(&self) -> Option<u64> {
        Some(self.stored_bytes.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    pub fn request_bytes(&self) -> Option<u64> {
        Some(self.request_bytes.load(Ordering::Relaxed)).filter(|limit| *limit != NONE)
    }

    pub fn script_micros(&self) -> u64 {
        self.script_millis.load(Ordering::Relaxed).saturating_mul(1000)
    }
}

/// The limit and the usage, if that is more.
fn within(limit: &AtomicU64, usage: u64) -> Result<(), (u64, u64)> {
    let limit = limit.load(Ordering::Relaxed);
    if usage <= limit { Ok(()) } else { Err((limit, usage)) }
}

/// The quota that a request exceeded. Each layer reports it with its protocol's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Waiting a moment helps.
    CommandsPerSecond {
        limit: u64,
    },
    /// Waiting until midnight UTC helps.
    CommandsPerDay {
        limit: u64,
        usage: u64,
    },
    RequestBytes {
        limit: u64,
        usage: u64,
    },
    /// Deleting helps.
    StoredBytes {
        limit: u64,
        usage: u64,
    },
    Connections {
        limit: u64,
        usage: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_quota_is_no_limit_and_an_unknown_one_is_refused() {
        let limits = Limits::of(&Quotas::default());
        assert_eq!(limits.check_request(usize::MAX), Ok(()));
        assert_eq!(limits.check_connections(1_000_000), Ok(()));
        assert_eq!(limits.script_micros(), 100_000);
        assert!(serde_json::from_str::<Quotas>(r#"{"commands_per_minute": 1}"#).is_err());
    }

    #[test]
    fn a_limit_may_be_reached_and_not_exceeded() {
        let quotas = Quotas {
            stored_bytes: Some(10),
            connections: Some(2),
            ..Quotas::default()
        };
        let limits = Limits::of(&quotas);
        assert_eq!(limits.check_stored(10), Ok(()));
        assert_eq!(limits.check_reserve(12), Ok(()));
        assert!(limits.check_reserve(13).is_err());
        assert_eq!(
            limits.check_stored(11),
            Err(Exceeded::StoredBytes { limit: 10, usage: 11 })
        );
        assert_eq!(limits.check_connections(1), Ok(()));
        assert_eq!(
            limits.check_connections(2),
            Err(Exceeded::Connections { limit: 2, usage: 2 })
        );
        limits.set(&Quotas::default());
        assert_eq!(limits.check_stored(11), Ok(()));
    }
}
