//! Any bytes as a line of an import in Ion: an item or none, never a panic or an overflowing stack;
//! an item that is written again is read as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_layer_dynamodb::wire::ion;

fuzz_target!(|data: &[u8]| {
    if let Some(item) = ion::read_line(data) {
        let mut line = Vec::new();
        ion::write_line(&item, &mut line);
        assert_eq!(ion::read_line(&line), Some(item));
    }
});
