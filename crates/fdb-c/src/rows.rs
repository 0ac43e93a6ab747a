//! Keys and rows in the layout of FoundationDB's C header: pointers into buffers of a future.

use std::ffi::c_int;

#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct FDBKeyValue {
    key: *const u8,
    key_length: c_int,
    value: *const u8,
    value_length: c_int,
}

#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct FDBKey {
    key: *const u8,
    key_length: c_int,
}

impl FDBKey {
    pub fn of(key: &[u8]) -> FDBKey {
        FDBKey {
            key: key.as_ptr(),
            key_length: length_of(key),
        }
    }
}

impl FDBKeyValue {
    pub fn new(key: &[u8], value: &[u8]) -> FDBKeyValue {
        FDBKeyValue {
            key: key.as_ptr(),
            key_length: length_of(key),
            value: value.as_ptr(),
            value_length: length_of(value),
        }
    }
}

pub fn length_of(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).unwrap_or(c_int::MAX)
}
