//! Any bytes, cut anywhere, are the same requests of the key-value protocol as the whole, and what
//! is understood is the same when it is written and read again. As a reply they are read in every
//! form, or refused. The first byte picks the largest frame and the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_wire_keyvalue::{RangeReply, Reply, Request, Welcome, next_frame};

const LENGTH_BYTES: usize = 4;
/// Upper bound on the memory of a bound or mutation beyond its size on the wire; a list takes twice
/// as much while it grows.
const EXPANSION: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let frame_bytes_max = if choice & 1 == 0 { 64 } else { 1 << 20 };
    let piece_bytes = usize::from(choice >> 1) + 1;
    let whole = requests([stream], frame_bytes_max);
    let pieces = requests(stream.chunks(piece_bytes), frame_bytes_max);
    assert_eq!(whole, pieces);
    read_replies(stream);
});

/// The requests, written again, up to the end of the stream or the first that is refused. True if
/// one was.
fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, frame_bytes_max: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut consumed = 0;
        loop {
            let frame = match next_frame(&buffer[consumed..], frame_bytes_max) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return (found, true),
            };
            assert!(frame.bytes <= LENGTH_BYTES + frame_bytes_max);
            let Ok(request) = Request::parse(&frame) else {
                return (found, true);
            };
            found.push(written(frame.id, &request, frame.bytes));
            consumed += frame.bytes;
        }
        buffer.drain(..consumed);
        assert!(
            buffer.len() < LENGTH_BYTES + frame_bytes_max,
            "what is not understood yet is bounded"
        );
    }
    (found, false)
}

/// The request's frame, after it was seen to be read as the same.
fn written(id: u32, request: &Request<'_>, frame_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.put(id, &mut bytes);
    assert!(bytes.len() <= frame_bytes, "nothing is read that was not there");
    if let Request::Commit(commit) = request {
        let kept = size_of_val(&*commit.read_conflicts)
            + size_of_val(&*commit.write_conflicts)
            + size_of_val(&*commit.mutations);
        assert!(
            kept <= EXPANSION * frame_bytes,
            "what is kept follows from what has come"
        );
    }
    let again = next_frame(&bytes, bytes.len()).unwrap().unwrap();
    assert_eq!(Request::parse(&again).as_ref(), Ok(request));
    bytes
}

fn read_replies(stream: &[u8]) {
    if let Ok(Some(frame)) = next_frame(stream, stream.len())
        && let Ok(Reply::Failed { detail, .. }) = Reply::parse(&frame)
    {
        assert!(Reply::conflict_positions(detail).len() <= detail.len());
    }
    let _ = (Reply::number(stream), Reply::value(stream), Welcome::parse(stream));
    if let Ok(keys) = Reply::keys(stream) {
        assert!(keys.len() <= stream.len());
    }
    if let Ok(range) = RangeReply::parse(stream) {
        assert!(range.rows().count() <= stream.len());
    }
}
