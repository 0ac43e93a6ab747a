//! Transactions.

use std::ffi::c_int;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_client::{ConflictKind, ErrorCode, MutationKind, RangeOptions, Selector, Transaction};

use crate::database::FDBDatabase;
use crate::errors;
use crate::future::{FDBFuture, KeyValues, Keys, Strings, Value};
use crate::mapped::MappedKeyValues;
use crate::options::{self, TRANSACTION_OPTIONS};
use crate::pointers::{bytes, into_handle, shared, take_handle, write};
use crate::{Code, guarded};

const TAGS_MAX: usize = 5;
const TAG_BYTES_MAX: usize = 255;

pub struct FDBTransaction {
    transaction: Transaction,
    /// The reason why all its operations fail, permanently.
    unusable: Option<ErrorCode>,
    labels: Mutex<Labels>,
}

/// The checks of options that change nothing.
#[derive(Default)]
struct Labels {
    tags: usize,
    has_identifier: bool,
}

impl FDBTransaction {
    pub fn begin(database: &FDBDatabase, unusable: Option<ErrorCode>) -> Arc<FDBTransaction> {
        let transaction = FDBTransaction {
            transaction: database.database.begin(),
            unusable,
            labels: Mutex::default(),
        };
        transaction.fail_if_unusable();
        Arc::new(transaction)
    }

    fn fail_if_unusable(&self) {
        if let Some(code) = self.unusable {
            self.transaction.fail(code);
        }
    }

    /// A value that is not allowed fails the transaction's later requests.
    fn set_option(&self, number: c_int, value: &[u8]) -> Result<(), ErrorCode> {
        let option = options::find(TRANSACTION_OPTIONS, number)?;
        let set = options::check_value(option, Some(value))
            .and_then(|()| self.check_labels(number, value))
            .and_then(|()| match options::of_transaction(number, value) {
                Some(option) => self.transaction.set_option(option),
                None => Ok(()),
            });
        if let Err(code) = set {
            self.transaction.fail(code);
        }
        Ok(())
    }

    fn check_labels(&self, number: c_int, value: &[u8]) -> Result<(), ErrorCode> {
        let mut labels = self.labels.lock();
        match number {
            403 => labels.has_identifier = true,
            404 if !labels.has_identifier => return Err(ErrorCode::CLIENT_INVALID_OPERATION),
            800 | 801 if value.len() > TAG_BYTES_MAX => return Err(ErrorCode::TAG_TOO_LONG),
            800 | 801 if labels.tags >= TAGS_MAX => return Err(ErrorCode::TOO_MANY_TAGS),
            800 | 801 => labels.tags += 1,
            _ => {}
        }
        Ok(())
    }
}

/// # Safety
/// See the crate's documentation; so it is with every function here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_create_transaction(
    database: *mut FDBDatabase,
    out: *mut *mut FDBTransaction,
) -> Code {
    guarded(|| {
        let database = unsafe { shared(database) };
        let transaction = FDBTransaction::begin(&database, database.unusable);
        unsafe { write(out, into_handle(transaction)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_destroy(transaction: *mut FDBTransaction) {
    guarded(|| {
        drop(unsafe { take_handle(transaction) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_cancel(transaction: *mut FDBTransaction) {
    guarded(|| {
        unsafe { shared(transaction) }.transaction.cancel();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_reset(transaction: *mut FDBTransaction) {
    guarded(|| {
        let transaction = unsafe { shared(transaction) };
        transaction.transaction.reset();
        *transaction.labels.lock() = Labels::default();
        transaction.fail_if_unusable();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set_option(
    transaction: *mut FDBTransaction,
    option: c_int,
    value: *const u8,
    length: c_int,
) -> Code {
    guarded(|| unsafe { shared(transaction).set_option(option, bytes(value, length)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set_read_version(transaction: *mut FDBTransaction, version: i64) {
    guarded(|| {
        unsafe { shared(transaction) }.transaction.set_read_version(version);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_read_version(transaction: *mut FDBTransaction) -> *mut FDBFuture {
    let version = unsafe { shared(transaction) }.transaction.get_read_version();
    FDBFuture::of(async move { Ok(Value::Int64(i64::try_from(version.await?).unwrap_or(i64::MAX))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let key = unsafe { bytes(key, key_length) };
    FDBFuture::completed_by(|completion| {
        let take = move |value: Result<_, _>| completion.complete(value.map(Value::Optional));
        unsafe { shared(transaction) }
            .transaction
            .take_value(key, snapshot != 0, take);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    or_equal: c_int,
    offset: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let selector = Selector::new(unsafe { bytes(key, key_length) }, or_equal != 0, offset);
    let key = unsafe { shared(transaction) }
        .transaction
        .get_key(&selector, snapshot != 0);
    FDBFuture::of(async move { Ok(Value::Key(key.await?)) })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // The interface is what it is.
pub unsafe extern "C" fn fdb_transaction_get_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    begin_or_equal: c_int,
    begin_offset: c_int,
    end: *const u8,
    end_length: c_int,
    end_or_equal: c_int,
    end_offset: c_int,
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    snapshot: c_int,
    reverse: c_int,
) -> *mut FDBFuture {
    let options = match range_options(limit, target_bytes, mode, iteration, reverse != 0) {
        Ok(options) => options,
        Err(code) => return FDBFuture::ready(Err(code)),
    };
    let begin = Selector::new(unsafe { bytes(begin, begin_length) }, begin_or_equal != 0, begin_offset);
    let end = Selector::new(unsafe { bytes(end, end_length) }, end_or_equal != 0, end_offset);
    let rows = unsafe { shared(transaction) }
        .transaction
        .get_range(&begin, &end, options, snapshot != 0);
    FDBFuture::of(async move {
        let rows = rows.await?;
        Ok(Value::KeyValues(KeyValues::new(rows.rows, rows.more)))
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // The interface is what it is.
pub unsafe extern "C" fn fdb_transaction_get_mapped_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    begin_or_equal: c_int,
    begin_offset: c_int,
    end: *const u8,
    end_length: c_int,
    end_or_equal: c_int,
    end_offset: c_int,
    mapper: *const u8,
    mapper_length: c_int,
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    snapshot: c_int,
    reverse: c_int,
) -> *mut FDBFuture {
    let options = match range_options(limit, target_bytes, mode, iteration, reverse != 0) {
        Ok(options) => options,
        Err(code) => return FDBFuture::ready(Err(code)),
    };
    let begin = Selector::new(unsafe { bytes(begin, begin_length) }, begin_or_equal != 0, begin_offset);
    let end = Selector::new(unsafe { bytes(end, end_length) }, end_or_equal != 0, end_offset);
    let mapper = unsafe { bytes(mapper, mapper_length) };
    let rows =
        unsafe { shared(transaction) }
            .transaction
            .get_mapped_range(&begin, &end, mapper, options, snapshot != 0);
    FDBFuture::of(async move { Ok(Value::MappedKeyValues(MappedKeyValues::new(rows.await?))) })
}

const UNLIMITED: c_int = -1;
const MODE_EXACT: c_int = 0;
const MODE_ITERATOR: c_int = -1;
/// The sizes that an iterator requests: the first ten, of which the last applies from then on.
const ITERATOR_BYTES: [usize; 10] = [
    4096, 6144, 9216, 13_824, 20_736, 31_104, 46_656, 69_984, 80_000, 120_000,
];

/// The limits of one request of a range.
fn range_options(
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    reverse: bool,
) -> Result<RangeOptions, ErrorCode> {
    let rows_max = usize::try_from(limit).unwrap_or(0);
    let given_bytes = usize::try_from(target_bytes).unwrap_or(0);
    let mode_bytes = match mode {
        -2 | 4 => 80_000,
        MODE_ITERATOR => {
            let step = usize::try_from(iteration).unwrap_or(0);
            let step = step.checked_sub(1).ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?;
            ITERATOR_BYTES[step.min(ITERATOR_BYTES.len() - 1)]
        }
        MODE_EXACT if rows_max == 0 && given_bytes == 0 => return Err(ErrorCode::EXACT_MODE_WITHOUT_LIMITS),
        MODE_EXACT => 0,
        1 => 256,
        2 => 1000,
        3 => 4096,
        _ => return Err(ErrorCode::CLIENT_INVALID_OPERATION),
    };
    if limit < UNLIMITED || target_bytes < UNLIMITED {
        return Err(ErrorCode::RANGE_LIMITS_INVALID);
    }
    let bytes_max = match (given_bytes, mode_bytes) {
        (0, bytes) | (bytes, 0) => bytes,
        (given, by_mode) => given.min(by_mode),
    };
    Ok(RangeOptions {
        rows_max,
        bytes_max,
        reverse,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_set(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    value: *const u8,
    value_length: c_int,
) {
    guarded(|| {
        let (key, value) = unsafe { (bytes(key, key_length), bytes(value, value_length)) };
        unsafe { shared(transaction) }.transaction.set(key, value);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_clear(transaction: *mut FDBTransaction, key: *const u8, key_length: c_int) {
    guarded(|| {
        let key = unsafe { bytes(key, key_length) };
        unsafe { shared(transaction) }.transaction.clear(key);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_clear_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
) {
    guarded(|| {
        let (begin, end) = unsafe { (bytes(begin, begin_length), bytes(end, end_length)) };
        unsafe { shared(transaction) }.transaction.clear_range(begin, end);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_atomic_op(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    operand: *const u8,
    operand_length: c_int,
    operation: c_int,
) {
    guarded(|| {
        let transaction = unsafe { shared(transaction) };
        let (key, operand) = unsafe { (bytes(key, key_length), bytes(operand, operand_length)) };
        match mutation_kind(operation) {
            Some(kind) => transaction.transaction.atomic(kind, key, operand),
            None => transaction.transaction.fail(ErrorCode::INVALID_MUTATION_TYPE),
        }
        Ok(())
    });
}

/// Set and the clears are no atomic operations, and neither are the numbers that only the
/// original's servers use.
fn mutation_kind(operation: c_int) -> Option<MutationKind> {
    let number = u8::try_from(operation).ok()?;
    match MutationKind::numbered(number)? {
        MutationKind::Set | MutationKind::Clear | MutationKind::ClearRange => None,
        kind => Some(kind),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_add_conflict_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
    kind: c_int,
) -> Code {
    guarded(|| {
        let kind = match kind {
            0 => ConflictKind::Read,
            1 => ConflictKind::Write,
            _ => return Err(ErrorCode::CLIENT_INVALID_OPERATION),
        };
        let (begin, end) = unsafe { (bytes(begin, begin_length), bytes(end, end_length)) };
        unsafe { shared(transaction) }
            .transaction
            .add_conflict_range(begin, end, kind)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_commit(transaction: *mut FDBTransaction) -> *mut FDBFuture {
    FDBFuture::completed_by(|completion| {
        let take = move |done: Result<(), _>| completion.complete(done.map(|()| Value::Nothing));
        unsafe { shared(transaction) }.transaction.commit_and_tell(take);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_committed_version(
    transaction: *mut FDBTransaction,
    out: *mut i64,
) -> Code {
    guarded(|| {
        let version = unsafe { shared(transaction) }.transaction.committed_version();
        unsafe { write(out, version) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_versionstamp(transaction: *mut FDBTransaction) -> *mut FDBFuture {
    let stamp = unsafe { shared(transaction) }.transaction.versionstamp();
    FDBFuture::of(async move { Ok(Value::Key(stamp.await?.to_vec())) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_on_error(transaction: *mut FDBTransaction, code: Code) -> *mut FDBFuture {
    let transaction = unsafe { shared(transaction) };
    let retried = transaction.transaction.on_error(errors::number(code));
    FDBFuture::of(async move {
        retried.await?;
        transaction.fail_if_unusable();
        Ok(Value::Nothing)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_watch(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    let key = unsafe { bytes(key, key_length) };
    let changed = unsafe { shared(transaction) }.transaction.watch(key);
    FDBFuture::of_place(async move { changed.await.map(|()| Value::Nothing) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_approximate_size(transaction: *mut FDBTransaction) -> *mut FDBFuture {
    let size = unsafe { shared(transaction) }.transaction.approximate_size();
    FDBFuture::of(async move { Ok(Value::Int64(size.await?)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_estimated_range_size_bytes(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
) -> *mut FDBFuture {
    let (begin, end) = unsafe { (bytes(begin, begin_length), bytes(end, end_length)) };
    let size = unsafe { shared(transaction) }
        .transaction
        .estimated_range_bytes(begin, end);
    FDBFuture::of(async move { Ok(Value::Int64(size.await?)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_range_split_points(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
    piece_bytes: i64,
) -> *mut FDBFuture {
    let (begin, end) = unsafe { (bytes(begin, begin_length), bytes(end, end_length)) };
    split_points(&*unsafe { shared(transaction) }, begin, end, piece_bytes, -1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_range_split_points_with_limit(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
    piece_bytes: i64,
    limit: c_int,
) -> *mut FDBFuture {
    let (begin, end) = unsafe { (bytes(begin, begin_length), bytes(end, end_length)) };
    split_points(&*unsafe { shared(transaction) }, begin, end, piece_bytes, limit)
}

fn split_points(
    transaction: &FDBTransaction,
    begin: &[u8],
    end: &[u8],
    piece_bytes: i64,
    limit: c_int,
) -> *mut FDBFuture {
    let limit = u32::try_from(limit).ok();
    let points = transaction.transaction.split_points(begin, end, piece_bytes, limit);
    FDBFuture::of(async move { Ok(Value::Keys(Keys::new(points.await?))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_addresses_for_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    let key = unsafe { bytes(key, key_length) };
    let addresses = unsafe { shared(transaction) }.transaction.addresses_of(key);
    FDBFuture::of(async move { Ok(Value::Strings(Strings::new(addresses.await?))) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_total_cost(_transaction: *mut FDBTransaction) -> *mut FDBFuture {
    FDBFuture::ready(Ok(Value::Int64(0)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_transaction_get_tag_throttled_duration(
    _transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    FDBFuture::ready(Ok(Value::Double(0.0)))
}
