//! Fails on inputs that begin with one word. `./test fuzz` runs it to see that a failure is a
//! failure, and that coverage leads the fuzzer: without it nobody guesses the word.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut letters = data.iter();
    for letter in b"quartet" {
        if letters.next() != Some(letter) {
            return;
        }
    }
    panic!("the planted panic");
});
