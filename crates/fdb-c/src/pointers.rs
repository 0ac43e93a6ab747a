//! Arguments that are pointers, as Rust sees them.

use std::ffi::c_int;
use std::sync::Arc;

/// The bytes that a pointer and a length describe; none if the length is not positive or the
/// pointer is null.
///
/// # Safety
/// `length` bytes can be read at `start` as long as the result is used.
pub(crate) unsafe fn bytes<'a>(start: *const u8, length: c_int) -> &'a [u8] {
    match usize::try_from(length) {
        Ok(length) if length > 0 && !start.is_null() => unsafe { std::slice::from_raw_parts(start, length) },
        _ => &[],
    }
}

/// The handle for C: it owns one count of the `Arc`.
pub(crate) fn into_handle<T>(shared: Arc<T>) -> *mut T {
    Arc::into_raw(shared).cast_mut()
}

/// The object of a handle, kept alive by a count of its own.
///
/// # Safety
/// `handle` was returned by `into_handle` and has not been passed to `take_handle`.
pub(crate) unsafe fn shared<T>(handle: *const T) -> Arc<T> {
    unsafe {
        Arc::increment_strong_count(handle);
        Arc::from_raw(handle)
    }
}

/// Ends a handle and returns the count that it owned.
///
/// # Safety
/// `handle` was returned by `into_handle`, and is not used afterwards.
pub(crate) unsafe fn take_handle<T>(handle: *mut T) -> Option<Arc<T>> {
    (!handle.is_null()).then(|| unsafe { Arc::from_raw(handle.cast_const()) })
}

/// Writes through an out-pointer, unless it is null.
///
/// # Safety
/// `out` is null or can be written to.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) {
    if !out.is_null() {
        unsafe { out.write_unaligned(value) };
    }
}
