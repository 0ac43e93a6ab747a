//! The numbers of options, and what their values must be.
//!
//! Integers are eight bytes, little-endian. Options that steer FoundationDB's cluster, its tracing
//! or its loading of other client libraries are accepted, so that programs which set them run; they
//! change nothing here.

use std::ffi::c_int;
use std::time::Duration;

use quartet_client::{DatabaseOption, ErrorCode, TlsSettings, TransactionOption};

pub(crate) struct OptionEntry {
    pub number: c_int,
    pub name: &'static str,
    pub value: OptionValue,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionValue {
    Nothing,
    /// Between these two, both included.
    Integer(i64, i64),
    /// Text or bytes, between these two lengths.
    Bytes(usize, usize),
}

use OptionValue::{Bytes, Integer, Nothing};

const ANY: OptionValue = Integer(i64::MIN, i64::MAX);
const TEXT: OptionValue = Bytes(0, usize::MAX);
const PERCENT: OptionValue = Integer(0, 100);
const MILLISECONDS: OptionValue = Integer(0, i32::MAX as i64);
const SIZE_LIMIT: OptionValue = Integer(32, 10_000_000);

const fn entry(number: c_int, name: &'static str, value: OptionValue) -> OptionEntry {
    OptionEntry { number, name, value }
}

pub(crate) static NETWORK_OPTIONS: &[OptionEntry] = &[
    entry(10, "local_address", TEXT),
    entry(20, "cluster_file", TEXT),
    entry(30, "trace_enable", TEXT),
    entry(31, "trace_roll_size", ANY),
    entry(32, "trace_max_logs_size", ANY),
    entry(33, "trace_log_group", TEXT),
    entry(34, "trace_format", TEXT),
    entry(35, "trace_clock_source", TEXT),
    entry(36, "trace_file_identifier", TEXT),
    entry(37, "trace_share_among_client_threads", Nothing),
    entry(38, "trace_initialize_on_setup", Nothing),
    entry(39, "trace_partial_file_suffix", TEXT),
    entry(40, "knob", TEXT),
    entry(41, "TLS_plugin", TEXT),
    entry(42, "TLS_cert_bytes", TEXT),
    entry(43, "TLS_cert_path", TEXT),
    entry(45, "TLS_key_bytes", TEXT),
    entry(46, "TLS_key_path", TEXT),
    entry(47, "TLS_verify_peers", TEXT),
    entry(48, "buggify_enable", Nothing),
    entry(49, "buggify_disable", Nothing),
    entry(50, "buggify_section_activated_probability", PERCENT),
    entry(51, "buggify_section_fired_probability", PERCENT),
    entry(52, "TLS_ca_bytes", TEXT),
    entry(53, "TLS_ca_path", TEXT),
    entry(54, "TLS_password", TEXT),
    entry(55, "TLS_disable_plaintext_connection", Nothing),
    entry(60, "disable_multi_version_client_api", Nothing),
    entry(61, "callbacks_on_external_threads", Nothing),
    entry(62, "external_client_library", TEXT),
    entry(63, "external_client_directory", TEXT),
    entry(64, "disable_local_client", Nothing),
    entry(65, "client_threads_per_version", Integer(1, 1024)),
    entry(66, "future_version_client_library", TEXT),
    entry(67, "retain_client_library_copies", Nothing),
    entry(68, "ignore_external_client_failures", Nothing),
    entry(69, "fail_incompatible_client", Nothing),
    entry(70, "disable_client_statistics_logging", Nothing),
    entry(71, "enable_slow_task_profiling", Nothing),
    entry(71, "enable_run_loop_profiling", Nothing),
    entry(72, "disable_client_bypass", Nothing),
    entry(80, "client_buggify_enable", Nothing),
    entry(81, "client_buggify_disable", Nothing),
    entry(82, "client_buggify_section_activated_probability", PERCENT),
    entry(83, "client_buggify_section_fired_probability", PERCENT),
    entry(84, "trace_ip", TEXT),
    entry(90, "distributed_client_tracer", TEXT),
    entry(91, "client_tmp_dir", TEXT),
    entry(1000, "supported_client_versions", TEXT),
    entry(1001, "external_client", Nothing),
    entry(1002, "external_client_transport_id", ANY),
];

pub(crate) static DATABASE_OPTIONS: &[OptionEntry] = &[
    entry(10, "location_cache_size", Integer(0, i32::MAX as i64)),
    entry(20, "max_watches", Integer(0, 1_000_000)),
    entry(21, "machine_id", TEXT),
    entry(22, "datacenter_id", TEXT),
    entry(26, "snapshot_ryw_enable", Nothing),
    entry(27, "snapshot_ryw_disable", Nothing),
    entry(
        405,
        "transaction_logging_max_field_length",
        Integer(-1, i32::MAX as i64),
    ),
    entry(500, "transaction_timeout", MILLISECONDS),
    entry(501, "transaction_retry_limit", Integer(-1, i32::MAX as i64)),
    entry(502, "transaction_max_retry_delay", MILLISECONDS),
    entry(503, "transaction_size_limit", SIZE_LIMIT),
    entry(504, "transaction_causal_read_risky", Nothing),
    entry(505, "transaction_include_port_in_address", Nothing),
    entry(506, "transaction_automatic_idempotency", Nothing),
    entry(700, "transaction_bypass_unreadable", Nothing),
    entry(701, "transaction_used_during_commit_protection_disable", Nothing),
    entry(702, "transaction_report_conflicting_keys", Nothing),
    entry(800, "use_config_database", Nothing),
    entry(900, "test_causal_read_risky", Integer(0, 100)),
];

pub(crate) static TRANSACTION_OPTIONS: &[OptionEntry] = &[
    entry(10, "causal_write_risky", Nothing),
    entry(20, "causal_read_risky", Nothing),
    entry(21, "causal_read_disable", Nothing),
    entry(23, "include_port_in_address", Nothing),
    entry(30, "next_write_no_write_conflict_range", Nothing),
    entry(40, "commit_on_first_proxy", Nothing),
    entry(50, "check_writes_enable", Nothing),
    entry(51, "read_your_writes_disable", Nothing),
    entry(52, "read_ahead_disable", Nothing),
    entry(110, "durability_datacenter", Nothing),
    entry(120, "durability_risky", Nothing),
    entry(130, "durability_dev_null_is_web_scale", Nothing),
    entry(200, "priority_system_immediate", Nothing),
    entry(201, "priority_batch", Nothing),
    entry(300, "initialize_new_database", Nothing),
    entry(301, "access_system_keys", Nothing),
    entry(302, "read_system_keys", Nothing),
    entry(303, "raw_access", Nothing),
    entry(304, "bypass_storage_quota", Nothing),
    entry(400, "debug_dump", Nothing),
    entry(401, "debug_retry_logging", TEXT),
    entry(402, "transaction_logging_enable", TEXT),
    entry(403, "debug_transaction_identifier", Bytes(0, 100)),
    entry(404, "log_transaction", Nothing),
    entry(
        405,
        "transaction_logging_max_field_length",
        Integer(-1, i32::MAX as i64),
    ),
    entry(406, "server_request_tracing", Nothing),
    entry(500, "timeout", MILLISECONDS),
    entry(501, "retry_limit", Integer(-1, i32::MAX as i64)),
    entry(502, "max_retry_delay", MILLISECONDS),
    entry(503, "size_limit", SIZE_LIMIT),
    entry(504, "idempotency_id", Bytes(16, 255)),
    entry(505, "automatic_idempotency", Nothing),
    entry(507, "read_server_side_cache_enable", Nothing),
    entry(508, "read_server_side_cache_disable", Nothing),
    entry(509, "read_priority_normal", Nothing),
    entry(510, "read_priority_low", Nothing),
    entry(511, "read_priority_high", Nothing),
    entry(600, "snapshot_ryw_enable", Nothing),
    entry(601, "snapshot_ryw_disable", Nothing),
    entry(700, "lock_aware", Nothing),
    entry(701, "used_during_commit_protection_disable", Nothing),
    entry(702, "read_lock_aware", Nothing),
    entry(710, "first_in_batch", Nothing),
    entry(711, "use_provisional_proxies", Nothing),
    entry(712, "report_conflicting_keys", Nothing),
    entry(713, "special_key_space_relaxed", Nothing),
    entry(714, "special_key_space_enable_writes", Nothing),
    entry(800, "tag", Bytes(0, usize::MAX)),
    entry(801, "auto_throttle_tag", Bytes(0, usize::MAX)),
    entry(900, "span_parent", Bytes(33, 33)),
    entry(1000, "expensive_clear_cost_estimation_enable", Nothing),
    entry(1100, "bypass_unreadable", Nothing),
    entry(1101, "use_grv_cache", Nothing),
    entry(1102, "skip_grv_cache", Nothing),
    entry(1103, "max_grv_queue_delay", ANY),
    entry(2000, "authorization_token", TEXT),
    entry(4000, "enable_replica_consistency_check", Nothing),
    entry(4001, "consistency_check_required_replicas", ANY),
];

pub(crate) fn find(table: &'static [OptionEntry], number: c_int) -> Result<&'static OptionEntry, ErrorCode> {
    let option = table.iter().find(|option| option.number == number);
    option.ok_or(ErrorCode::INVALID_OPTION)
}

/// Whether the option exists and may have this value.
pub(crate) fn check(table: &'static [OptionEntry], number: c_int, value: Option<&[u8]>) -> Result<(), ErrorCode> {
    check_value(find(table, number)?, value)
}

pub(crate) fn check_value(option: &OptionEntry, value: Option<&[u8]>) -> Result<(), ErrorCode> {
    let value = value.unwrap_or_default();
    let is_valid = match option.value {
        Nothing => value.is_empty(),
        Integer(min, max) => integer(value).is_some_and(|number| (min..=max).contains(&number)),
        Bytes(min, max) => (min..=max).contains(&value.len()),
    };
    if is_valid {
        Ok(())
    } else {
        Err(ErrorCode::INVALID_OPTION_VALUE)
    }
}

/// The value of an option that was given as text.
pub(crate) fn from_text(option: &OptionEntry, text: &str) -> Result<Option<Vec<u8>>, ErrorCode> {
    match option.value {
        Nothing => Ok(None),
        Integer(..) => {
            let number: i64 = text.parse().map_err(|_| ErrorCode::INVALID_OPTION_VALUE)?;
            Ok(Some(number.to_le_bytes().to_vec()))
        }
        Bytes(..) => Ok(Some(text.as_bytes().to_vec())),
    }
}

fn integer(value: &[u8]) -> Option<i64> {
    value.try_into().ok().map(i64::from_le_bytes)
}

/// Keeps what an option says about TLS, if it is one of those. Paths are read at once.
pub(crate) fn apply_tls(number: c_int, value: &[u8], tls: &mut TlsSettings) -> Result<(), ErrorCode> {
    let text = || std::str::from_utf8(value).map_err(|_| ErrorCode::INVALID_OPTION_VALUE);
    let file = || std::fs::read(text()?).map_err(|_| ErrorCode::TLS_ERROR);
    match number {
        42 => tls.certificate = Some(value.to_vec()),
        43 => tls.certificate = Some(file()?),
        45 => tls.key = Some(value.to_vec()),
        46 => tls.key = Some(file()?),
        47 => tls.verify_peers = Some(text()?.to_owned()),
        52 => tls.authorities = Some(value.to_vec()),
        53 => tls.authorities = Some(file()?),
        _ => {}
    }
    Ok(())
}

/// The meaning of a transaction's option here; `None`: nothing.
pub(crate) fn of_transaction(number: c_int, value: &[u8]) -> Option<TransactionOption> {
    let milliseconds = || Duration::from_millis(integer(value).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0));
    Some(match number {
        30 => TransactionOption::NextWriteNoWriteConflictRange,
        51 => TransactionOption::ReadYourWritesDisable,
        301 | 303 => TransactionOption::AccessSystemKeys,
        302 => TransactionOption::ReadSystemKeys,
        500 => TransactionOption::Timeout(Some(milliseconds()).filter(|timeout| !timeout.is_zero())),
        501 => TransactionOption::RetryLimit(integer(value).and_then(|limit| u32::try_from(limit).ok())),
        502 => TransactionOption::MaxRetryDelay(milliseconds()),
        503 => TransactionOption::SizeLimit(integer(value).and_then(|bytes| usize::try_from(bytes).ok())?),
        600 => TransactionOption::SnapshotReadYourWritesEnable,
        601 => TransactionOption::SnapshotReadYourWritesDisable,
        701 => TransactionOption::UsedDuringCommitProtectionDisable,
        702 => TransactionOption::ReadLockAware,
        712 => TransactionOption::ReportConflictingKeys,
        713 => TransactionOption::SpecialKeySpaceRelaxed,
        714 => TransactionOption::SpecialKeySpaceEnableWrites,
        1100 => TransactionOption::BypassUnreadable,
        _ => return None,
    })
}

/// The meaning of a database's option here; `None`: nothing.
pub(crate) fn of_database(number: c_int, value: &[u8]) -> Option<DatabaseOption> {
    let as_transaction = match number {
        20 => {
            return integer(value)
                .and_then(|count| usize::try_from(count).ok())
                .map(DatabaseOption::MaxWatches);
        }
        26 => 600,
        27 => 601,
        500..=503 => number,
        700 => 1100,
        701 => 701,
        702 => 712,
        _ => return None,
    };
    of_transaction(as_transaction, value).map(DatabaseOption::Transaction)
}
