//! Futures: the pending results of operations.
//!
//! A future becomes ready once, on the network thread or when it is cancelled. Each of its
//! callbacks is called once, inside the call that sets it if the future is ready by then, and never
//! under a lock. The future owns the memory lent by getters, and keeps it until the future is
//! destroyed, or released as often as the memory was lent.

use std::ffi::{CString, c_char, c_double, c_int, c_void};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use parking_lot::{Condvar, Mutex};
use quartet_client::{ErrorCode, StoredValue};
use tokio::task::AbortHandle;

use crate::mapped::{FDBMappedKeyValue, MappedKeyValues};
use crate::network;
use crate::pointers::{into_handle, shared, take_handle, write};
use crate::rows::{FDBKey, FDBKeyValue, length_of};
use crate::{Code, guarded};

pub struct FDBFuture {
    state: Mutex<State>,
    became_ready: Condvar,
}

struct State {
    result: Option<Result<Value, ErrorCode>>,
    callbacks: Vec<Callback>,
    task: Option<AbortHandle>,
    /// Drops the task's resources inside the call that cancels, instead of later in the task.
    let_go: Option<Box<dyn FnOnce() + Send>>,
    borrows: usize,
    released: bool,
}

type FDBCallback = unsafe extern "C" fn(*mut FDBFuture, *mut c_void);

#[derive(Clone, Copy)]
struct Callback {
    function: FDBCallback,
    parameter: *mut c_void,
}

// SAFETY: the caller of `fdb_future_set_callback` allows the call from any thread.
unsafe impl Send for Callback {}

/// The contents of a future, in the representation that C reads.
pub(crate) enum Value {
    Nothing,
    Int64(i64),
    Uint64(u64),
    Double(f64),
    Key(Vec<u8>),
    Optional(Option<StoredValue>),
    KeyValues(KeyValues),
    MappedKeyValues(MappedKeyValues),
    Keys(Keys),
    Strings(Strings),
}

/// Rows, and the array of pointers into them.
pub(crate) struct KeyValues {
    _rows: Vec<(Vec<u8>, Vec<u8>)>,
    array: Vec<FDBKeyValue>,
    more: bool,
}

pub(crate) struct Keys {
    _keys: Vec<Vec<u8>>,
    array: Vec<FDBKey>,
}

pub(crate) struct Strings {
    _strings: Vec<CString>,
    array: Vec<*const c_char>,
}

// SAFETY: the pointers refer to the buffers in the same struct, which are immutable.
unsafe impl Send for KeyValues {}
unsafe impl Send for Keys {}
unsafe impl Send for Strings {}

impl KeyValues {
    pub fn new(rows: Vec<(Vec<u8>, Vec<u8>)>, more: bool) -> KeyValues {
        KeyValues {
            array: rows.iter().map(|(key, value)| FDBKeyValue::new(key, value)).collect(),
            _rows: rows,
            more,
        }
    }
}

impl Keys {
    pub fn new(keys: Vec<Vec<u8>>) -> Keys {
        Keys {
            array: keys.iter().map(|key| FDBKey::of(key)).collect(),
            _keys: keys,
        }
    }
}

impl Strings {
    pub fn new(strings: Vec<String>) -> Strings {
        let strings: Vec<CString> = strings.into_iter().filter_map(|text| CString::new(text).ok()).collect();
        Strings {
            array: strings.iter().map(|text| text.as_ptr()).collect(),
            _strings: strings,
        }
    }
}

/// Completes a future even if its work is dropped.
pub(crate) struct Completion(Option<Arc<FDBFuture>>);

impl Completion {
    pub fn complete(mut self, result: Result<Value, ErrorCode>) {
        if let Some(future) = self.0.take() {
            future.complete(result);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(future) = &self.0 {
            future.complete(Err(ErrorCode::BROKEN_PROMISE));
        }
    }
}

impl FDBFuture {
    fn new() -> Arc<FDBFuture> {
        Arc::new(FDBFuture {
            state: Mutex::new(State {
                result: None,
                callbacks: Vec::new(),
                task: None,
                let_go: None,
                borrows: 0,
                released: false,
            }),
            became_ready: Condvar::new(),
        })
    }

    /// A future that is ready.
    pub fn ready(result: Result<Value, ErrorCode>) -> *mut FDBFuture {
        let future = FDBFuture::new();
        future.state.lock().result = Some(result);
        into_handle(future)
    }

    /// Returns a future of the result of `work`, which runs on the network thread.
    pub fn of(work: impl Future<Output = Result<Value, ErrorCode>> + Send + 'static) -> *mut FDBFuture {
        let Some(runtime) = network::runtime() else {
            return FDBFuture::ready(Err(ErrorCode::NETWORK_NOT_SETUP));
        };
        let future = FDBFuture::new();
        let completion = Completion(Some(future.clone()));
        let task = runtime.spawn(async move {
            let result = work.await;
            completion.complete(result);
        });
        future.state.lock().task = Some(task.abort_handle());
        into_handle(future)
    }

    /// The same for work that holds a place: the place is free when the call that cancels returns.
    pub fn of_place(work: impl Future<Output = Result<Value, ErrorCode>> + Send + 'static) -> *mut FDBFuture {
        let held = Arc::new(Mutex::new(Some(Box::pin(work))));
        let polled = held.clone();
        let handle = FDBFuture::of(poll_fn(move |context| match polled.lock().as_mut() {
            Some(work) => work.as_mut().poll(context),
            None => Poll::Ready(Err(ErrorCode::OPERATION_CANCELLED)),
        }));
        // The work is polled only on the network thread. A call that cancels on that thread may be
        // inside of it, and leaves it to the task.
        let let_go = move || {
            let work = match network::is_network_thread() {
                true => held.try_lock(),
                false => Some(held.lock()),
            };
            drop(work.and_then(|mut work| work.take()));
        };
        // SAFETY: the handle was created above and is not shared yet.
        let future = unsafe { shared(handle) };
        let mut state = future.state.lock();
        if state.result.is_none() {
            state.let_go = Some(Box::new(let_go));
        }
        drop(state);
        handle
    }

    /// Returns a future that the owner of the completion makes ready.
    pub fn completed_by(begin: impl FnOnce(Completion)) -> *mut FDBFuture {
        if network::runtime().is_none() {
            return FDBFuture::ready(Err(ErrorCode::NETWORK_NOT_SETUP));
        }
        let future = FDBFuture::new();
        begin(Completion(Some(future.clone())));
        into_handle(future)
    }

    /// Makes it ready, unless it is.
    fn complete(self: &Arc<FDBFuture>, result: Result<Value, ErrorCode>) {
        let mut state = self.state.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result);
        state.task = None;
        let let_go = state.let_go.take();
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        drop(let_go);
        self.became_ready.notify_all();
        callbacks.into_iter().for_each(|callback| self.call(callback));
    }

    fn call(self: &Arc<FDBFuture>, callback: Callback) {
        // SAFETY: the caller of `fdb_future_set_callback` gave a function and what to call it with;
        // the future is alive, since `self` holds it.
        unsafe { (callback.function)(Arc::as_ptr(self).cast_mut(), callback.parameter) };
    }

    fn cancel(self: &Arc<FDBFuture>) {
        let mut state = self.state.lock();
        let (task, let_go) = (state.task.take(), state.let_go.take());
        drop(state);
        if let Some(let_go) = let_go {
            let_go();
        }
        self.complete(Err(ErrorCode::OPERATION_CANCELLED));
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Gives `read` the value to lend from.
    fn lend<T>(&self, read: impl FnOnce(&Value) -> Option<T>) -> Result<T, ErrorCode> {
        let mut state = self.state.lock();
        if state.released {
            return Err(ErrorCode::FUTURE_RELEASED);
        }
        let value = match &state.result {
            None => return Err(ErrorCode::FUTURE_NOT_SET),
            Some(Err(code)) => return Err(*code),
            Some(Ok(value)) => read(value).ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?,
        };
        state.borrows += 1;
        Ok(value)
    }

    fn error(&self) -> Result<(), ErrorCode> {
        let state = self.state.lock();
        match &state.result {
            _ if state.released => Err(ErrorCode::FUTURE_RELEASED),
            None => Err(ErrorCode::FUTURE_NOT_SET),
            Some(Err(code)) => Err(*code),
            Some(Ok(_)) => Ok(()),
        }
    }

    /// Returns lent memory. It is freed when all of it is returned.
    fn release(&self) {
        let mut state = self.state.lock();
        if state.borrows == 0 {
            return;
        }
        state.borrows -= 1;
        if state.borrows == 0 {
            state.released = true;
            state.result = Some(Ok(Value::Nothing));
        }
    }
}

/// # Safety
/// See the crate's documentation; so it is with every function here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_destroy(future: *mut FDBFuture) {
    guarded(|| {
        if let Some(future) = unsafe { take_handle(future) } {
            future.cancel();
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_cancel(future: *mut FDBFuture) {
    guarded(|| {
        unsafe { shared(future) }.cancel();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_release_memory(future: *mut FDBFuture) {
    guarded(|| {
        unsafe { shared(future) }.release();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_block_until_ready(future: *mut FDBFuture) -> Code {
    guarded(|| {
        let future = unsafe { shared(future) };
        let mut state = future.state.lock();
        if state.result.is_none() && network::is_network_thread() {
            return Err(ErrorCode::BLOCKED_FROM_NETWORK_THREAD);
        }
        while state.result.is_none() {
            future.became_ready.wait(&mut state);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_is_ready(future: *mut FDBFuture) -> c_int {
    c_int::from(unsafe { shared(future) }.state.lock().result.is_some())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_set_callback(
    future: *mut FDBFuture,
    function: Option<FDBCallback>,
    parameter: *mut c_void,
) -> Code {
    guarded(|| {
        let function = function.ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?;
        let callback = Callback { function, parameter };
        let future = unsafe { shared(future) };
        let mut state = future.state.lock();
        if state.result.is_none() {
            state.callbacks.push(callback);
            return Ok(());
        }
        drop(state);
        future.call(callback);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_error(future: *mut FDBFuture) -> Code {
    guarded(|| unsafe { shared(future) }.error())
}

/// Copies the number that `pick` finds in a ready value. `pick` returns `None` for a value of
/// another type, which is the caller's error.
///
/// # Safety
///
/// As of the function of the interface that calls it.
unsafe fn copy<T>(future: *mut FDBFuture, out: *mut T, pick: impl FnOnce(&Value) -> Option<T>) -> Code {
    guarded(|| {
        let number = unsafe { shared(future) }.lend(pick)?;
        unsafe { write(out, number) };
        Ok(())
    })
}

/// The same for an array, its length, and whether more rows follow if `out_more` is given.
///
/// # Safety
///
/// As of the function of the interface that calls it.
unsafe fn copy_array<T>(
    future: *mut FDBFuture,
    out_array: *mut *const T,
    out_count: *mut c_int,
    out_more: Option<*mut c_int>,
    pick: impl FnOnce(&Value) -> Option<(*const T, usize, bool)>,
) -> Code {
    guarded(|| {
        let (array, count, more) = unsafe { shared(future) }.lend(pick)?;
        unsafe { write(out_array, array) };
        unsafe { write(out_count, c_int::try_from(count).unwrap_or(c_int::MAX)) };
        if let Some(out_more) = out_more {
            unsafe { write(out_more, c_int::from(more)) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_int64(future: *mut FDBFuture, out: *mut i64) -> Code {
    unsafe {
        copy(future, out, |value| match value {
            Value::Int64(number) => Some(*number),
            _ => None,
        })
    }
}

/// The name of `fdb_future_get_int64` before API version 620.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_version(future: *mut FDBFuture, out: *mut i64) -> Code {
    unsafe { fdb_future_get_int64(future, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_uint64(future: *mut FDBFuture, out: *mut u64) -> Code {
    unsafe {
        copy(future, out, |value| match value {
            Value::Uint64(number) => Some(*number),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_bool(future: *mut FDBFuture, out: *mut c_int) -> Code {
    unsafe {
        copy(future, out, |value| match value {
            Value::Int64(number) => Some(c_int::from(*number != 0)),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_double(future: *mut FDBFuture, out: *mut c_double) -> Code {
    unsafe {
        copy(future, out, |value| match value {
            Value::Double(number) => Some(*number),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_key(
    future: *mut FDBFuture,
    out_key: *mut *const u8,
    out_length: *mut c_int,
) -> Code {
    guarded(|| {
        let (key, length) = unsafe { shared(future) }.lend(|value| match value {
            Value::Key(key) => Some((key.as_ptr(), length_of(key))),
            _ => None,
        })?;
        unsafe { write(out_key, key) };
        unsafe { write(out_length, length) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_value(
    future: *mut FDBFuture,
    out_present: *mut c_int,
    out_value: *mut *const u8,
    out_length: *mut c_int,
) -> Code {
    guarded(|| {
        let (present, start, length) = unsafe { shared(future) }.lend(|value| match value {
            Value::Optional(Some(value)) => Some((1, value.as_ptr(), length_of(value))),
            Value::Optional(None) => Some((0, std::ptr::null(), 0)),
            // The status of a client is read as either.
            Value::Key(key) => Some((1, key.as_ptr(), length_of(key))),
            _ => None,
        })?;
        unsafe { write(out_present, present) };
        unsafe { write(out_value, start) };
        unsafe { write(out_length, length) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_keyvalue_array(
    future: *mut FDBFuture,
    out_array: *mut *const FDBKeyValue,
    out_count: *mut c_int,
    out_more: *mut c_int,
) -> Code {
    unsafe {
        copy_array(future, out_array, out_count, Some(out_more), |value| match value {
            Value::KeyValues(rows) => Some((rows.array.as_ptr(), rows.array.len(), rows.more)),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_mappedkeyvalue_array(
    future: *mut FDBFuture,
    out_array: *mut *const FDBMappedKeyValue,
    out_count: *mut c_int,
    out_more: *mut c_int,
) -> Code {
    unsafe {
        copy_array(future, out_array, out_count, Some(out_more), |value| match value {
            Value::MappedKeyValues(rows) => Some(rows.array()),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_key_array(
    future: *mut FDBFuture,
    out_array: *mut *const FDBKey,
    out_count: *mut c_int,
) -> Code {
    unsafe {
        copy_array(future, out_array, out_count, None, |value| match value {
            Value::Keys(keys) => Some((keys.array.as_ptr(), keys.array.len(), false)),
            _ => None,
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_future_get_string_array(
    future: *mut FDBFuture,
    out_strings: *mut *const *const c_char,
    out_count: *mut c_int,
) -> Code {
    unsafe {
        copy_array(future, out_strings, out_count, None, |value| match value {
            Value::Strings(strings) => Some((strings.array.as_ptr(), strings.array.len(), false)),
            _ => None,
        })
    }
}
