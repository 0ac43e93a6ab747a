//! Any line of another node is a request or is refused, and a request is the same after it was
//! written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_server::protocol::NodeRequest;

fuzz_target!(|line: &str| {
    let Ok(request) = line.parse::<NodeRequest>() else {
        return;
    };
    assert_eq!(request.to_string().parse(), Ok(request));
});
