//! Any bytes as an expression of APPLY or FILTER: a value or an error, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_search::redis::aggregate::{Expression, Record, Value};

fuzz_target!(|data: &[u8]| {
    let Ok(expression) = Expression::parse(data) else {
        return;
    };
    let mut record = Record::default();
    record.set("n", Value::Number(7.5));
    record.set("t", Value::text("Hello World"));
    if let Ok(value) = expression.value(&record) {
        value.bytes();
    }
});
