//! Any payload with a right trailer is a value or an error, and a value comes back from its own payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_layer_redis::rdb;

fuzz_target!(|data: &[u8]| {
    let payload = rdb::seal(data.to_vec());
    if let Ok(value) = rdb::value::restore(&payload) {
        let again = rdb::value::restore(&rdb::value::dump(&value));
        assert_eq!(again.as_ref(), Ok(&value));
    }
    let _ = rdb::functions::restore(&payload);
});
