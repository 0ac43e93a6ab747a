//! Any bytes, cut anywhere, are the same requests of HTTP/1.1 as the whole; no bytes panic, and
//! what is kept of them is bounded. The first byte picks the most bytes of a body and the size of
//! the pieces.
#![no_main]

use std::mem::MaybeUninit;

use libfuzzer_sys::fuzz_target;
use quartet_server::framing::{BodyReader, Framing, HEAD_BYTES_MAX, HEADERS_MAX, Refusal, parse};

/// Bytes that one read may bring beyond the awaited ones.
const LINE_BYTES_MAX: usize = 4096 + 2;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let body_bytes_max = if choice & 1 == 0 { 20 } else { 1 << 20 };
    let piece_bytes = usize::from(choice >> 1) + 1;
    let whole = requests([stream], body_bytes_max);
    let pieces = requests(stream.chunks(piece_bytes), body_bytes_max);
    assert_eq!(whole, pieces);
});

/// Head and body as they were understood; no body if it was too long.
type Request = (String, Option<Vec<u8>>);

/// The requests up to the end of the stream, the last that says that it is the last, or the first
/// refusal. True if it was refused.
fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, body_bytes_max: usize) -> (Vec<Request>, bool) {
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    let mut current: Option<Current> = None;
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match step(&mut current, &mut buffer, body_bytes_max) {
                Ok(Step::Whole(request)) => found.push(request),
                Ok(Step::Last(request)) => {
                    found.push(request);
                    return (found, false);
                }
                Ok(Step::NeedsMore) => break,
                Err(_) => return (found, true),
            }
        }
        let waits_for_bytes_max = if current.is_some() {
            LINE_BYTES_MAX
        } else {
            HEAD_BYTES_MAX
        };
        assert!(
            buffer.len() <= waits_for_bytes_max,
            "what is not understood yet is bounded"
        );
    }
    (found, false)
}

/// A request whose body is being read.
struct Current {
    head: String,
    reader: BodyReader,
    keeps_alive: bool,
}

enum Step {
    Whole(Request),
    Last(Request),
    NeedsMore,
}

/// Takes what it understands from the beginning of the buffer.
fn step(current: &mut Option<Current>, buffer: &mut Vec<u8>, body_bytes_max: usize) -> Result<Step, Refusal> {
    if current.is_none() {
        let mut room = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Some(request) = parse(buffer, &mut room)? else {
            return Ok(Step::NeedsMore);
        };
        let head = format!("{:?} {:?} {}", request.head, request.framing, request.expects_continue);
        assert!(
            !request.is_old || matches!(request.framing, Framing::Length(_)),
            "HTTP/1.0 has no chunks"
        );
        let (head_bytes, framing, keeps_alive) = (request.head_bytes, request.framing, request.keeps_alive);
        assert!(head_bytes <= buffer.len());
        buffer.drain(..head_bytes);
        let reader = BodyReader::new(framing, body_bytes_max);
        *current = Some(Current {
            head,
            reader,
            keeps_alive,
        });
    }
    let reading = current.as_mut().expect("a head was seen");
    let taken = reading.reader.take(buffer)?;
    buffer.drain(..taken);
    assert!(reading.reader.body.capacity() <= 2 * body_bytes_max.min(reading.reader.total as usize).max(8));
    if !reading.reader.is_done() {
        return Ok(Step::NeedsMore);
    }
    let done = current.take().expect("it is being read");
    let is_kept = !done.reader.is_too_long();
    let request = (done.head, is_kept.then_some(done.reader.body));
    Ok(if done.keeps_alive {
        Step::Whole(request)
    } else {
        Step::Last(request)
    })
}
