//! Any path, query and body is a refusal or whole requests in RESP; any bytes are replies in JSON,
//! or none.
#![no_main]

use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use quartet_wire_resp::{Limits, Parsed, Parser, ReplyMemory};
use quartet_wire_rest::{
    Commands, Encoding, Json, commands_of_body, write_events, write_result, write_results, write_transaction,
};

/// Grants a bounded number of growths, and then none.
struct Memory(Cell<u32>);

impl ReplyMemory for Memory {
    fn take(&self, _: usize, _: usize) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }

    fn give_back(&self, _: usize) {}
}

fn check(commands: &Commands) {
    let mut bytes = 0;
    for index in 0..commands.len() {
        let request = commands.get(index).expect("an index within the length");
        let parsed = Parser::new().parse(request, &Limits::unlimited());
        assert!(matches!(parsed, Ok(Parsed::Request { consumed }) if consumed == request.len()));
        bytes += request.len();
        assert_eq!(commands.count_in(0, bytes), index + 1);
    }
    assert_eq!(commands.range(0, commands.len()).len(), bytes);
}

fuzz_target!(|data: &[u8]| {
    if let Ok(commands) = commands_of_body(data) {
        check(&commands);
        check(&commands.into_transaction());
    }
    let parts: Vec<&[u8]> = data.splitn(3, |&byte| byte == b'\n').collect();
    if let Ok(path) = std::str::from_utf8(parts[0]) {
        let query = parts.get(1).and_then(|query| std::str::from_utf8(query).ok());
        if let Ok(commands) = Commands::of_path(path, query, parts.get(2).copied().unwrap_or_default()) {
            check(&commands);
            assert_eq!(commands.len(), 1);
        }
    }
    for encoding in [Encoding::Text, Encoding::Base64] {
        let memory = Memory(Cell::new(u32::from(data.first().copied().unwrap_or_default())));
        let mut out = Json::new(encoding, &memory);
        let written = write_result(data, &mut out);
        assert!(written.is_none_or(|written| written.consumed <= data.len()));
        write_results(data, usize::MAX, &mut out);
        let _ = write_transaction(data, &mut out);
        assert!(std::str::from_utf8(&out.into_bytes()).is_ok());
    }
    let mut out = Vec::new();
    assert!(write_events(data, &mut out) <= data.len());
    assert!(std::str::from_utf8(&out).is_ok());
});
