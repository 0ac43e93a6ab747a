//! Rows of mapped ranges in the layout of FoundationDB's C header.
//!
//! ```text
//!   byte    0 key          12 value         24 the outcome of its query     104
//!                                              range: begin selector, end     1
//!                                              selector, rows, their number,
//!                                              room
//!                                              value: key, value, is there    0
//! ```
//!
//! The original's header describes the range only; its library overlays the value. The last word
//! distinguishes them.

use std::ffi::c_int;

use quartet_client::{Mapped, MappedRows};

use crate::rows::{FDBKey, FDBKeyValue};

/// One row. 112 bytes, aligned to eight.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FDBMappedKeyValue {
    row: FDBKeyValue,
    outcome: Outcome,
    kind: u64,
}

const VALUE: u64 = 0;
const RANGE: u64 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
union Outcome {
    range: Range,
    value: Found,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    begin: FDBKeySelector,
    end: FDBKeySelector,
    rows: *const FDBKeyValue,
    count: c_int,
    room: c_int,
    /// Whether there are more, and other words of the original: there never are.
    rest: [u64; 3],
}

#[repr(C, packed(4))]
#[derive(Clone, Copy)]
struct FDBKeySelector {
    key: FDBKey,
    or_equal: c_int,
    offset: c_int,
}

#[repr(C, packed(4))]
#[derive(Clone, Copy)]
struct Found {
    key: FDBKey,
    value: FDBKey,
    is_there: u8,
}

const _: () = assert!(size_of::<FDBMappedKeyValue>() == 112);
const _: () = assert!(std::mem::offset_of!(FDBMappedKeyValue, outcome) == 24);
const _: () = assert!(std::mem::offset_of!(FDBMappedKeyValue, kind) == 104);
const _: () = assert!(std::mem::offset_of!(Range, rows) == 40);

/// Rows, and the arrays of pointers into them.
pub(crate) struct MappedKeyValues {
    _rows: MappedRows,
    _ranges: Vec<Vec<FDBKeyValue>>,
    array: Vec<FDBMappedKeyValue>,
    more: bool,
}

// SAFETY: the pointers lead into the buffers beside them, which nobody changes.
unsafe impl Send for MappedKeyValues {}

impl MappedKeyValues {
    pub fn new(rows: MappedRows) -> MappedKeyValues {
        let (mut ranges, mut array) = (Vec::new(), Vec::with_capacity(rows.rows.len()));
        for row in &rows.rows {
            let (kind, outcome) = match &row.mapped {
                Mapped::Value { key, value } => {
                    let value = value.as_deref();
                    let found = Found {
                        key: FDBKey::of(key),
                        value: FDBKey::of(value.unwrap_or_default()),
                        is_there: u8::from(value.is_some()),
                    };
                    (VALUE, Outcome { value: found })
                }
                Mapped::Range { begin, end, rows } => {
                    let rows = rows.iter().map(|(key, value)| FDBKeyValue::new(key, value));
                    let rows: Vec<FDBKeyValue> = rows.collect();
                    let count = c_int::try_from(rows.len()).unwrap_or(c_int::MAX);
                    let range = Range {
                        begin: first_at_or_after(begin),
                        end: first_at_or_after(end),
                        rows: rows.as_ptr(),
                        count,
                        room: count,
                        rest: [0; 3],
                    };
                    ranges.push(rows);
                    (RANGE, Outcome { range })
                }
            };
            array.push(FDBMappedKeyValue {
                row: FDBKeyValue::new(&row.key, &row.value),
                outcome,
                kind,
            });
        }
        MappedKeyValues {
            more: rows.more,
            _rows: rows,
            _ranges: ranges,
            array,
        }
    }

    pub fn array(&self) -> (*const FDBMappedKeyValue, usize, bool) {
        (self.array.as_ptr(), self.array.len(), self.more)
    }
}

fn first_at_or_after(key: &[u8]) -> FDBKeySelector {
    FDBKeySelector {
        key: FDBKey::of(key),
        or_equal: 0,
        offset: 1,
    }
}
