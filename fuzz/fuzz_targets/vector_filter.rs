//! Any bytes as a condition of VSIM's FILTER, and the rest as attributes: an answer or an error,
//! never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_search::vectors::set::filter::{Filter, Malformed};

fuzz_target!(|data: &[u8]| {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (condition, attributes) = data.split_at(at);
    match Filter::parse(condition) {
        Ok(filter) => _ = filter.passes(attributes.get(1..).unwrap_or_default()),
        Err(Malformed::At(at)) => assert!(at <= condition.len()),
        Err(Malformed::TooLong) => {}
    }
});
