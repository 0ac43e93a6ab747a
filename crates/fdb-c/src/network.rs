//! API version, the network thread, its options.
//!
//! The network is a runtime of one thread, which the program lends by calling `fdb_run_network`.
//! Nothing starts before `fdb_setup_network`, so a program may fork before that call.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;
use quartet_client::{ErrorCode, TlsSettings};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use crate::options::{self, NETWORK_OPTIONS};
use crate::pointers::bytes;
use crate::{Code, guarded};

const API_VERSION_MIN: c_int = 13;
const API_VERSION_MAX: c_int = 800;
const VARIABLES: &str = "FDB_NETWORK_OPTION_";

/// The value of `fdb_get_client_version`: release, hash of the source, protocol.
const CLIENT_VERSION: &CStr = c"7.3.79,0000000000000000000000000000000000000000,fdb00b073000000";

static API_VERSION: AtomicI32 = AtomicI32::new(0);
static NETWORK: Mutex<Network> = Mutex::new(Network::New);
/// State of the network, from when it is set up; a process has one.
static RUNTIME: OnceLock<Handle> = OnceLock::new();
static NETWORK_THREAD: OnceLock<ThreadId> = OnceLock::new();
static HAS_STOPPED: AtomicBool = AtomicBool::new(false);
static TLS: Mutex<TlsSettings> = Mutex::new(TlsSettings {
    authorities: None,
    certificate: None,
    key: None,
    verify_peers: None,
});
static HOOKS: Mutex<Vec<Hook>> = Mutex::new(Vec::new());

enum Network {
    New,
    SetUp {
        runtime: Runtime,
        stop: watch::Sender<bool>,
    },
    Running {
        stop: watch::Sender<bool>,
    },
    Stopped,
}

struct Hook {
    function: unsafe extern "C" fn(*mut c_void),
    parameter: *mut c_void,
}

// SAFETY: the caller of `fdb_add_network_thread_completion_hook` allows the call from the network
// thread.
unsafe impl Send for Hook {}

/// The runtime of transactions' waits, unless it has stopped.
pub(crate) fn runtime() -> Option<&'static Handle> {
    RUNTIME.get().filter(|_| !HAS_STOPPED.load(Ordering::Acquire))
}

pub(crate) fn is_network_thread() -> bool {
    NETWORK_THREAD.get() == Some(&std::thread::current().id())
}

/// The current TLS options.
pub(crate) fn tls_settings() -> TlsSettings {
    TLS.lock().clone()
}

pub(crate) fn api_version() -> c_int {
    API_VERSION.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_select_api_version_impl(runtime_version: c_int, header_version: c_int) -> Code {
    guarded(|| {
        if api_version() != 0 {
            return Err(ErrorCode::API_VERSION_ALREADY_SET);
        }
        if runtime_version > header_version {
            return Err(ErrorCode::API_VERSION_INVALID);
        }
        if header_version > API_VERSION_MAX || runtime_version < API_VERSION_MIN {
            return Err(ErrorCode::API_VERSION_NOT_SUPPORTED);
        }
        options_of_environment().map_err(|_| ErrorCode::ENVIRONMENT_VARIABLE_OPTION)?;
        API_VERSION.store(runtime_version, Ordering::Relaxed);
        Ok(())
    })
}

/// Reads the network's options from environment variables; several values of one are separated by
/// colons.
fn options_of_environment() -> Result<(), ErrorCode> {
    for option in NETWORK_OPTIONS {
        let name = format!("{VARIABLES}{}", option.name.to_uppercase());
        let Some(values) = std::env::var_os(name) else {
            continue;
        };
        for value in values.to_string_lossy().split(':') {
            set_option(option.number, options::from_text(option, value)?.as_deref())?;
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_max_api_version() -> c_int {
    API_VERSION_MAX
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_get_client_version() -> *const c_char {
    CLIENT_VERSION.as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_network_set_option(option: c_int, value: *const u8, length: c_int) -> Code {
    guarded(|| {
        let value = (!value.is_null()).then(|| unsafe { bytes(value, length) });
        set_option(option, value)
    })
}

fn set_option(option: c_int, value: Option<&[u8]>) -> Result<(), ErrorCode> {
    options::check(NETWORK_OPTIONS, option, value)?;
    options::apply_tls(option, value.unwrap_or_default(), &mut TLS.lock())
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_setup_network() -> Code {
    guarded(|| {
        let mut network = NETWORK.lock();
        if !matches!(*network, Network::New) {
            return Err(ErrorCode::NETWORK_ALREADY_SETUP);
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|_| ErrorCode::PLATFORM_ERROR)?;
        let stop = watch::Sender::new(false);
        // This is the only place that sets it, and it runs once.
        let _ = RUNTIME.set(runtime.handle().clone());
        *network = Network::SetUp { runtime, stop };
        Ok(())
    })
}

/// Runs what transactions wait for, on the caller's thread, until `fdb_stop_network`.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_run_network() -> Code {
    guarded(|| {
        let mut network = NETWORK.lock();
        let (runtime, stop) = match std::mem::replace(&mut *network, Network::Stopped) {
            Network::SetUp { runtime, stop } => (runtime, stop),
            Network::New => {
                *network = Network::New;
                return Err(ErrorCode::NETWORK_NOT_SETUP);
            }
            other => {
                *network = other;
                return Err(ErrorCode::NETWORK_CANNOT_BE_RESTARTED);
            }
        };
        let mut stopped = stop.subscribe();
        *network = Network::Running { stop };
        let _ = NETWORK_THREAD.set(std::thread::current().id());
        drop(network);
        // The sender lives as long as the network runs.
        let _ = runtime.block_on(stopped.wait_for(|stopped| *stopped));
        *NETWORK.lock() = Network::Stopped;
        HAS_STOPPED.store(true, Ordering::Release);
        // Requests in progress fail as their task is dropped.
        drop(runtime);
        let hooks = std::mem::take(&mut *HOOKS.lock());
        for hook in hooks {
            // SAFETY: the program gave the function and what to call it with.
            unsafe { (hook.function)(hook.parameter) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn fdb_stop_network() -> Code {
    guarded(|| {
        match &*NETWORK.lock() {
            Network::New => return Err(ErrorCode::NETWORK_NOT_SETUP),
            Network::SetUp { stop, .. } | Network::Running { stop } => drop(stop.send_replace(true)),
            Network::Stopped => {}
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_add_network_thread_completion_hook(
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    parameter: *mut c_void,
) -> Code {
    guarded(|| {
        let function = function.ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?;
        HOOKS.lock().push(Hook { function, parameter });
        Ok(())
    })
}
