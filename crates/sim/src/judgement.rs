//! The violations that the checker finds, and the mistakes planted for it.

use quartet_model::Version;

/// A violation of the engine's guarantees.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    #[error("version {} was acknowledged, and a crash left everything only up to {}", acknowledged.0, recovered.0)]
    Lost { acknowledged: Version, recovered: Version },
    #[error("a crash left version {}, which never committed", recovered.0)]
    Unknown { recovered: Version },
    #[error("version {} was given after {}", version.0, last.0)]
    VersionAgain { version: Version, last: Version },
    #[error("{} is not what was written last", String::from_utf8_lossy(key))]
    State { key: Vec<u8> },
    #[error("the accounts hold {found}, not {expected}")]
    Money { found: u64, expected: u64 },
    #[error("what was durable cannot be read back: {0}")]
    Damage(String),
    #[error("a transaction was refused: {0}")]
    Refused(String),
}

/// A deliberate mistake that the checker must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The disk says that it has synced, and has not.
    LyingDisk,
    /// Clients are answered before their writes are durable.
    EarlyAnswers,
    /// Transactions are not certified against their reads.
    UncertifiedReads,
}
