//! Any bytes, cut anywhere, mean the same requests as the whole; and no bytes panic.
//! The first byte picks the limits and the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_resp::{Limits, Parsed, Parser, ProtocolError};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let limits = if choice & 1 == 0 {
        Limits::default()
    } else {
        Limits::unauthenticated()
    };
    let piece_bytes = usize::from(choice >> 1) + 1;
    let whole = requests([stream], &limits);
    let pieces = requests(stream.chunks(piece_bytes), &limits);
    assert_eq!(whole, pieces);
});

type Requests = Vec<Vec<Vec<u8>>>;

/// The requests up to the end of the stream or the first error.
fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> (Requests, Option<ProtocolError>) {
    let (mut parser, mut buffer, mut found) = (Parser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let rest = &buffer[start..];
            match parser.parse(rest, limits) {
                Ok(Parsed::Request { consumed }) => {
                    found.push(parser.arguments(rest).iter().map(<[u8]>::to_vec).collect());
                    start += consumed;
                }
                Ok(Parsed::Nothing { consumed }) => start += consumed,
                Ok(Parsed::Incomplete { needed_hint }) => {
                    assert!(needed_hint > 0);
                    break;
                }
                Err(error) => return (found, Some(error)),
            }
        }
        buffer.drain(..start);
    }
    (found, None)
}
