//! The options of a transaction, and of a database for all its transactions.
//!
//! Values are checked where an option is created, so the options here are valid. Options of
//! FoundationDB that steer its cluster are accepted by `fdb-c` and change nothing.

use std::time::Duration;

/// An option of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOption {
    /// The next mutation adds no write conflict range.
    NextWriteNoWriteConflictRange,
    /// Reads see what is stored and nothing of the transaction's own. Only before anything was read
    /// or written.
    ReadYourWritesDisable,
    /// Reads and writes reach keys from 0xff on.
    AccessSystemKeys,
    /// Reads do.
    ReadSystemKeys,
    /// `None`: no limit.
    Timeout(Option<Duration>),
    /// `None`: as often as it takes.
    RetryLimit(Option<u32>),
    /// Longest pause before a retry.
    MaxRetryDelay(Duration),
    /// Largest transaction, in bytes as the commit counts them.
    SizeLimit(usize),
    /// Snapshot reads see own writes as long as this option was set at least as often as its
    /// opposite.
    SnapshotReadYourWritesEnable,
    /// Snapshot reads see own writes once less often: see [`Self::SnapshotReadYourWritesEnable`].
    SnapshotReadYourWritesDisable,
    /// The transaction only reads.
    ReadLockAware,
    /// A conflict can be read at `\xff\xff/transaction/conflicting_keys/`.
    ReportConflictingKeys,
    /// Reads of special keys may start or end outside of a module, or span several.
    SpecialKeySpaceRelaxed,
    /// Special keys may be written.
    SpecialKeySpaceEnableWrites,
    /// Reads of keys and values with a pending versionstamp see the previous value.
    BypassUnreadable,
    /// Using a transaction while its commit is in flight is not an error of the commit.
    UsedDuringCommitProtectionDisable,
}

/// A default for all transactions that are created or reset from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseOption {
    /// An option of each transaction.
    Transaction(TransactionOption),
    /// Most watches at a time; one more fails with `TOO_MANY_WATCHES`.
    MaxWatches(usize),
}

/// The options in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub next_write_no_write_conflict: bool,
    pub read_your_writes_disabled: bool,
    pub writes_system_keys: bool,
    pub reads_system_keys: bool,
    pub timeout: Option<Duration>,
    pub retry_limit: Option<u32>,
    pub max_retry_delay: Duration,
    pub size_limit: usize,
    /// Snapshot reads see own writes while this is above zero.
    pub snapshot_read_your_writes: i32,
    pub is_read_only: bool,
    pub report_conflicting_keys: bool,
    pub special_keys_relaxed: bool,
    pub special_keys_writable: bool,
    pub bypass_unreadable: bool,
    pub used_during_commit_protection: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            next_write_no_write_conflict: false,
            read_your_writes_disabled: false,
            writes_system_keys: false,
            reads_system_keys: false,
            timeout: None,
            retry_limit: None,
            max_retry_delay: Duration::from_secs(1),
            size_limit: 10_000_000,
            snapshot_read_your_writes: 1,
            is_read_only: false,
            report_conflicting_keys: false,
            special_keys_relaxed: false,
            special_keys_writable: false,
            bypass_unreadable: false,
            used_during_commit_protection: true,
        }
    }
}

impl Options {
    pub fn set(&mut self, option: TransactionOption) {
        match option {
            TransactionOption::NextWriteNoWriteConflictRange => self.next_write_no_write_conflict = true,
            TransactionOption::ReadYourWritesDisable => self.read_your_writes_disabled = true,
            TransactionOption::AccessSystemKeys => {
                self.writes_system_keys = true;
                self.reads_system_keys = true;
            }
            TransactionOption::ReadSystemKeys => self.reads_system_keys = true,
            TransactionOption::Timeout(timeout) => self.timeout = timeout,
            TransactionOption::RetryLimit(limit) => self.retry_limit = limit,
            TransactionOption::MaxRetryDelay(delay) => self.max_retry_delay = delay,
            TransactionOption::SizeLimit(bytes) => self.size_limit = bytes,
            TransactionOption::SnapshotReadYourWritesEnable => self.snapshot_read_your_writes += 1,
            TransactionOption::SnapshotReadYourWritesDisable => self.snapshot_read_your_writes -= 1,
            TransactionOption::ReadLockAware => self.is_read_only = true,
            TransactionOption::ReportConflictingKeys => self.report_conflicting_keys = true,
            TransactionOption::SpecialKeySpaceRelaxed => self.special_keys_relaxed = true,
            TransactionOption::SpecialKeySpaceEnableWrites => self.special_keys_writable = true,
            TransactionOption::BypassUnreadable => self.bypass_unreadable = true,
            TransactionOption::UsedDuringCommitProtectionDisable => self.used_during_commit_protection = false,
        }
    }

    /// The options that remain after a reset by `on_error`: limits of time and number stay, all
    /// others return to the initial ones.
    pub fn after_retry(&self, defaults: &Options) -> Options {
        Options {
            timeout: self.timeout,
            retry_limit: self.retry_limit,
            max_retry_delay: self.max_retry_delay,
            ..defaults.clone()
        }
    }

    pub fn end_of_readable(&self) -> &'static [u8] {
        end_of_keys(self.reads_system_keys)
    }

    pub fn end_of_writable(&self) -> &'static [u8] {
        end_of_keys(self.writes_system_keys)
    }
}

fn end_of_keys(system: bool) -> &'static [u8] {
    match system {
        true => crate::SYSTEM_KEYS_END,
        false => crate::USER_KEYS_END,
    }
}
