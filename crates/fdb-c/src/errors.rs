//! Texts and kinds of errors.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

use parking_lot::Mutex;
use quartet_client::ErrorCode;

use crate::Code;

const RETRYABLE: c_int = 50_000;
const MAYBE_COMMITTED: c_int = 50_001;
const RETRYABLE_NOT_COMMITTED: c_int = 50_002;

/// The texts that were requested. They live as long as the process.
static TEXTS: LazyLock<Mutex<HashMap<&'static str, CString>>> = LazyLock::new(Mutex::default);

/// The largest number that the original takes for one of its own.
const CODE_MAX: u16 = 30_000;

pub(crate) fn number(code: Code) -> ErrorCode {
    let code = u16::try_from(code).ok().filter(|code| *code <= CODE_MAX);
    code.map_or(ErrorCode::UNKNOWN_ERROR, ErrorCode)
}

/// The text of an error. It stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_error(code: Code) -> *const c_char {
    let text = number(code).text();
    let mut texts = TEXTS.lock();
    let text = texts
        .entry(text)
        .or_insert_with(|| CString::new(text).expect("texts without a zero byte"));
    // Entries are never removed, and what a `CString` points to does not move with it.
    text.as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_error_predicate(predicate: c_int, code: Code) -> c_int {
    let code = number(code);
    let holds = match predicate {
        RETRYABLE => code.is_retryable(),
        MAYBE_COMMITTED => code.is_maybe_committed(),
        RETRYABLE_NOT_COMMITTED => code.is_retryable_not_committed(),
        _ => false,
    };
    c_int::from(holds)
}
