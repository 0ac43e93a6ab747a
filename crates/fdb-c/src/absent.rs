//! Functions that exist to be found: some bindings look every name up when they load the library.
//! Their subjects (blob granules, operating a cluster) are not here, and they return
//! FoundationDB's error for that. Tenants can be opened as in a cluster that has none: every
//! request to one answers that it does not exist.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use quartet_client::ErrorCode;

use crate::database::FDBDatabase;
use crate::future::FDBFuture;
use crate::pointers::{into_handle, shared, take_handle, write};
use crate::transaction::FDBTransaction;
use crate::{Code, guarded};

macro_rules! failed_futures {
    ($($name:ident)*) => {
        $(
            /// Not supported. The arguments are not looked at.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> *mut FDBFuture {
                FDBFuture::ready(Err(ErrorCode::UNSUPPORTED_OPERATION))
            }
        )*
    };
}

macro_rules! failed_calls {
    ($($name:ident)*) => {
        $(
            /// Not supported. The arguments are not looked at.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> Code {
                c_int::from(ErrorCode::UNSUPPORTED_OPERATION.0)
            }
        )*
    };
}

macro_rules! null_results {
    ($($name:ident)*) => {
        $(
            /// Not supported. The arguments are not looked at.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> *mut c_void {
                std::ptr::null_mut()
            }
        )*
    };
}

failed_futures! {
    fdb_database_reboot_worker
    fdb_database_force_recovery_with_data_loss
    fdb_database_create_snapshot
    fdb_transaction_get_blob_granule_ranges
    fdb_transaction_summarize_blob_granules
    fdb_database_blobbify_range
    fdb_database_blobbify_range_blocking
    fdb_database_unblobbify_range
    fdb_database_list_blobbified_ranges
    fdb_database_verify_blob_range
    fdb_database_flush_blob_range
    fdb_database_purge_blob_granules
    fdb_database_wait_purge_granules_complete
    fdb_tenant_blobbify_range
    fdb_tenant_blobbify_range_blocking
    fdb_tenant_unblobbify_range
    fdb_tenant_list_blobbified_ranges
    fdb_tenant_verify_blob_range
    fdb_tenant_flush_blob_range
    fdb_tenant_purge_blob_granules
    fdb_tenant_wait_purge_granules_complete
}

failed_calls! {
    fdb_future_get_keyrange_array
    fdb_future_get_granule_summary_array
    fdb_result_get_keyvalue_array
    fdb_result_get_bg_mutations_array
}

null_results! {
    fdb_transaction_read_blob_granules
    fdb_transaction_read_blob_granules_start
    fdb_transaction_read_blob_granules_finish
}

/// There is never a result to destroy.
#[unsafe(no_mangle)]
pub extern "C" fn fdb_result_destroy(_result: *mut c_void) {}

/// A tenant of any name.
pub struct FDBTenant {
    database: Arc<FDBDatabase>,
}

impl FDBTenant {
    /// Why its transactions can do nothing.
    fn unusable(&self) -> ErrorCode {
        self.database.unusable.unwrap_or(ErrorCode::TENANT_NOT_FOUND)
    }
}

/// # Safety
/// See the crate's documentation; so it is with every function here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_database_open_tenant(
    database: *mut FDBDatabase,
    _name: *const u8,
    _name_length: c_int,
    out: *mut *mut FDBTenant,
) -> Code {
    guarded(|| {
        let database = unsafe { shared(database) };
        unsafe { write(out, into_handle(Arc::new(FDBTenant { database }))) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_create_transaction(tenant: *mut FDBTenant, out: *mut *mut FDBTransaction) -> Code {
    guarded(|| {
        let tenant = unsafe { shared(tenant) };
        let transaction = FDBTransaction::begin(&tenant.database, Some(tenant.unusable()));
        unsafe { write(out, into_handle(transaction)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_get_id(tenant: *mut FDBTenant) -> *mut FDBFuture {
    FDBFuture::ready(Err(unsafe { shared(tenant) }.unusable()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdb_tenant_destroy(tenant: *mut FDBTenant) {
    guarded(|| {
        drop(unsafe { take_handle(tenant) });
        Ok(())
    });
}
