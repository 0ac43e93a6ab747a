//! Parameters that CONFIG GET and SET know. The ones on a command's path are atomics of their own.

use std::sync::atomic::AtomicI64;

macro_rules! parameters {
    ($($field:ident = $default:expr;)*) => {
        /// The parameters that commands consult.
        pub struct Config {
            $(pub $field: AtomicI64,)*
        }

        impl Default for Config {
            fn default() -> Config {
                Config { $($field: AtomicI64::new($default),)* }
            }
        }
    };
}

parameters! {
    hash_max_listpack_entries = 128;
    hash_max_listpack_value = 64;
    list_max_listpack_size = 128;
    set_max_intset_entries = 512;
    zset_max_listpack_entries = 128;
    zset_max_listpack_value = 64;
    hll_sparse_max_bytes = 3000;
    slowlog_log_slower_than = 10_000;
    slowlog_max_len = 128;
}
