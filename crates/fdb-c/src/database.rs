//! Databases.

use std::ffi::{CStr, c_char, c_double, c_int};
use std::path::Path;
use std::sync::Arc;

use quartet_client::{Cluster, Database, ErrorCode};
use serde_json::json;

use crate::future::{FDBFuture, Value};
use crate::options::{self, DATABASE_OPTIONS};
use crate::pointers::{bytes, into_handle, shared, take_handle, write};
use crate::{Code, guarded, network};

/// The version of the emulated servers' protocol, 7.3.
const SERVER_PROTOCOL: u64 = 0x0FDB_00B0_7300_0000;

pub struct FDBDatabase {
    pub(crate) database: Database,
    /// Why no transaction of it can do anything.
    pub(crate) unusable: Option<ErrorCode>,
}

impl FDBDatabase {
    /// An unusable cluster file is reported by the transactions, as the original does.
    fn open(cluster: Result<Cluster, ErrorCode>) -> Result<Arc<FDBDatabase>, ErrorCode> {
        let runtime = network::runtime().ok_or(ErrorCode::NETWORK_NOT_SETUP)?.clone();
        let unusable = cluster.as_ref().err().copied();
        let cluster = cluster.unwrap_or_else(|_| Cluster {
            path: None,
            connection_string: String::new(),
            credential: String::new(),
            addresses: vec![String::new()],
            tls: false,
        });
        Ok(Arc::new(FDBDatabase {
            database: Database::open_on(cluster, network::tls_settings(), runtime),
            unusable,
        }))
    }
}

/// # Safety
/// See the crate's documentation; so it is with every function here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_create_database(path: *const c_char, out: *mut *mut FDBDatabase) -> Code {
    guarded(|| {
        let path = match path.is_null() {
            true => None,
            false => unsafe { CStr::from_ptr(path) }
                .to_str()
                .ok()
                .filter(|path| !path.is_empty()),
        };
        let database = FDBDatabase::open(Cluster::read(path.map(Path::new)))?;
        unsafe { write(out, into_handle(database)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_create_database_from_connection_string(
    text: *const c_char,
    out: *mut *mut FDBDatabase,
) -> Code {
    guarded(|| {
        if text.is_null() {
            return Err(ErrorCode::CONNECTION_STRING_INVALID);
        }
        let text = unsafe { CStr::from_ptr(text) };
        let cluster = text
            .to_str()
            .map_err(|_| ErrorCode::CONNECTION_STRING_INVALID)
            .and_then(Cluster::parse);
        let database = FDBDatabase::open(cluster)?;
        unsafe { write(out, into_handle(database)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_destroy(database: *mut FDBDatabase) {
    guarded(|| {
        drop(unsafe { take_handle(database) });
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_set_option(
    database: *mut FDBDatabase,
    option: c_int,
    value: *const u8,
    length: c_int,
) -> Code {
    guarded(|| {
        let value = unsafe { bytes(value, length) };
        options::check(DATABASE_OPTIONS, option, Some(value))?;
        let database = unsafe { shared(database) };
        if let Some(option) = options::of_database(option, value) {
            database.database.set_option(option);
        }
        Ok(())
    })
}

/// Whether the client is connected, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_get_client_status(database: *mut FDBDatabase) -> *mut FDBFuture {
    let database = unsafe { shared(database) };
    let healthy = database.unusable.is_none() && database.database.is_connected();
    let cluster = database.database.cluster();
    let addresses: Vec<_> = cluster
        .addresses
        .iter()
        .map(|address| json!({ "Address": address, "Status": if healthy { "connected" } else { "failed" } }))
        .collect();
    let status = json!({
        "Healthy": healthy,
        "ClusterID": cluster.credential.len(),
        "Coordinators": cluster.addresses,
        "CurrentCoordinator": cluster.addresses.first(),
        "Connections": addresses,
        "NumConnectionsFailed": i32::from(!healthy),
    });
    FDBFuture::ready(Ok(Value::Key(status.to_string().into_bytes())))
}

/// How busy the network thread is, from 0 to 1. It is not measured.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_database_get_main_thread_busyness(_database: *mut FDBDatabase) -> c_double {
    0.0
}

/// Completes with the servers' protocol once it differs from the expected one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_get_server_protocol(database: *mut FDBDatabase, expected: u64) -> *mut FDBFuture {
    let database = unsafe { shared(database) };
    FDBFuture::of(async move {
        database.database.begin().get_read_version().await?;
        if expected == SERVER_PROTOCOL {
            std::future::pending::<()>().await;
        }
        Ok(Value::Uint64(SERVER_PROTOCOL))
    })
}
