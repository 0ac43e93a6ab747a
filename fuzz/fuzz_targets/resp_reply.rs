//! Decoding and skipping agree on any bytes, and neither panics; a double survives being printed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_resp::{Value, decode, format_double, skip};

fuzz_target!(|data: &[u8]| {
    let decoded = decode(data);
    let length = decoded
        .as_ref()
        .map(|found| found.as_ref().map(|(_, consumed)| *consumed))
        .map_err(|error| *error);
    assert_eq!(length, skip(data));
    if let Ok(Some((Value::Double(value), _))) = decoded
        && !value.is_nan()
    {
        let mut text = Vec::new();
        format_double(value, &mut text);
        assert_eq!(std::str::from_utf8(&text).unwrap().parse(), Ok(value));
    }
});
