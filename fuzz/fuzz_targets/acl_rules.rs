//! Any words are rules of a user or an error; and a line that is saved gives the same rules, to one
//! user alone. The first byte tells whether new users may use every channel; commas stand between
//! the words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_layer_redis::access::acl::parse_file;
use quartet_layer_redis::access::acl::rules::Rules;
use quartet_layer_redis::commands::own;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, words)) = data.split_first() else {
        return;
    };
    if let Ok(text) = std::str::from_utf8(words) {
        let _ = parse_file(&own().table, text, false);
    }
    let all_channels = choice & 1 == 0;
    let words: Vec<&[u8]> = words.split(|&byte| byte == b',').collect();
    let Ok(rules) = Rules::new(&own().table, all_channels).changed(&words, all_channels) else {
        return;
    };
    // Rules that are not UTF-8 are not saved.
    let Ok(line) = String::from_utf8(rules.line(b"u")) else {
        return;
    };
    let mut users = parse_file(&own().table, &line, !all_channels).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    assert_eq!(users.remove(b"u".as_slice()), Some(rules), "{line:?}");
    assert!(users.is_empty(), "{line:?}");
});
