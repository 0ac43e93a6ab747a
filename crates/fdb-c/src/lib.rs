//! `libfdb_c.so`: FoundationDB's C interface over Quartet's key-value client.
//!
//! Programs and bindings that load FoundationDB's library load this one instead and run unchanged
//! against Quartet. The functions, their arguments, the numbers of errors and options, and the
//! rules for threads and memory follow FoundationDB's C API documentation;
//! `include/foundationdb/fdb_c.h` declares them.
//!
//! | file          | what it is                                                          |
//! |---------------|---------------------------------------------------------------------|
//! | `network`     | API version, the network thread, its options                        |
//! | `future`      | futures: callbacks, getters, the memory they lend                   |
//! | `database`    | databases                                                           |
//! | `transaction` | transactions                                                        |
//! | `options`     | the numbers of options, and what their values must be               |
//! | `errors`      | texts and kinds of errors                                           |
//! | `pointers`    | arguments that are pointers, as Rust sees them                      |
//! | `absent`      | functions that exist to be found, and answer that they do nothing   |
//!
//! # Safety
//!
//! This is the only crate that is called from C, so it may contain unsafe code. Every function
//! relies on FoundationDB's documented contract with its caller: a pointer to a handle was returned
//! by this library and has not been destroyed; a pointer and a length describe bytes that can be
//! read during the call; an out-pointer can be written to. A handle is an `Arc` turned into a
//! pointer: a running operation has a clone of its own, so destroying a handle never frees memory
//! that another thread uses. No panic crosses the boundary: it becomes the error 4100.

#![allow(unsafe_code)]

mod absent;
mod database;
mod errors;
mod future;
mod mapped;
mod network;
mod options;
mod pointers;
mod transaction;

/// `fdb_error_t`.
pub(crate) type Code = std::ffi::c_int;

/// Runs what a function does; a panic becomes an error.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), quartet_client::ErrorCode>) -> Code {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    match done {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => Code::from(code.0),
        Err(_) => Code::from(quartet_client::ErrorCode::INTERNAL_ERROR.0),
    }
}
