//! Any payload with a right trailer is a value or an error, and a value's own payload gives one
//! with the same payload. The values themselves may differ in what DUMP does not tell: when a
//! consumer was last given something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_rdb as rdb;

fuzz_target!(|data: &[u8]| {
    let payload = rdb::seal(data.to_vec());
    if let Ok(value) = rdb::value::restore(&payload) {
        let dumped = rdb::value::dump(&value);
        let again = rdb::value::restore(&dumped).expect("what was dumped");
        assert_eq!(rdb::value::dump(&again), dumped);
    }
    let _ = rdb::functions::restore(&payload);
});
