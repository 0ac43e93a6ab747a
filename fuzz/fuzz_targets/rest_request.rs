//! Any path, query and body is a refusal or whole requests in RESP; any bytes are replies in JSON,
//! or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_resp::{Limits, Parsed, Parser};
use quartet_wire_rest::{
    Commands, Encoding, commands_of_body, write_events, write_result, write_results, write_transaction,
};

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
    let mut out = Vec::new();
    for encoding in [Encoding::Text, Encoding::Base64] {
        let written = write_result(data, encoding, &mut out);
        assert!(written.is_none_or(|written| written.consumed <= data.len()));
        assert_eq!(written.is_none(), out.is_empty());
        write_results(data, usize::MAX, encoding, &mut out);
        let _ = write_transaction(data, encoding, &mut out);
        assert!(std::str::from_utf8(&out).is_ok());
        out.clear();
    }
    assert!(write_events(data, &mut out) <= data.len());
    assert!(std::str::from_utf8(&out).is_ok());
});
