//! Requests cut at every byte, and every class of request that two readers could take apart
//! differently.

use super::*;

/// Returns the view of the first request in `input`.
fn check(input: &str) -> Result<Option<(String, usize, Framing, bool)>, Refusal> {
    let mut room = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let request = parse(input.as_bytes(), &mut room)?;
    Ok(request.map(|request| {
        let head = format!("{} {}", request.head.method, request.head.target);
        (head, request.head_bytes, request.framing, request.keeps_alive)
    }))
}

#[test]
fn a_head_is_seen_once_it_is_whole() {
    let head = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
    for length in 0..head.len() {
        assert_eq!(check(&head[..length]), Ok(None), "{length}");
    }
    let seen = ("POST /a?b=c".to_owned(), head.len(), Framing::Length(5), true);
    assert_eq!(check(&format!("{head}hello")), Ok(Some(seen)));
}

#[test]
fn headers_say_how_a_request_ends() {
    for (headers, framing, keeps_alive) in [
        ("HTTP/1.1\r\n", Framing::Length(0), true),
        ("HTTP/1.0\r\n", Framing::Length(0), false),
        ("HTTP/1.0\r\nConnection: Keep-Alive\r\n", Framing::Length(0), true),
        ("HTTP/1.1\r\nconnection: te, CLOSE\r\n", Framing::Length(0), false),
        ("HTTP/1.1\r\ntransfer-encoding: Chunked\r\n", Framing::Chunked, true),
        ("HTTP/1.1\r\ncontent-length: 0007\r\n", Framing::Length(7), true),
    ] {
        let (_, _, seen, keeps) = check(&format!("GET / {headers}\r\n")).unwrap().unwrap();
        assert_eq!((seen, keeps), (framing, keeps_alive), "{headers}");
    }
}

#[test]
fn targets_lose_what_is_for_proxies() {
    for (target, expected) in [
        ("/x://y", "/x://y"),
        ("http://host:1/a?b", "/a?b"),
        ("http://host?b", "?b"),
        ("http://host", "/"),
        ("*", "*"),
    ] {
        let (head, ..) = check(&format!("GET {target} HTTP/1.1\r\n\r\n")).unwrap().unwrap();
        assert_eq!(head, format!("GET {expected}"));
    }
}

#[test]
fn an_ambiguous_request_is_refused() {
    for (headers, refusal) in [
        (
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            Refusal::Malformed,
        ),
        (
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            Refusal::Malformed,
        ),
        ("content-length: 5\r\ncontent-length: 6\r\n", Refusal::Malformed),
        ("content-length: 5\r\nContent-Length: 5\r\n", Refusal::Malformed),
        ("content-length: 5, 5\r\n", Refusal::Malformed),
        ("content-length: +5\r\n", Refusal::Malformed),
        ("content-length: -5\r\n", Refusal::Malformed),
        ("content-length: 0x5\r\n", Refusal::Malformed),
        ("content-length: 5 6\r\n", Refusal::Malformed),
        ("content-length: \r\n", Refusal::Malformed),
        ("content-length: 99999999999999999999\r\n", Refusal::Malformed),
        ("content-length : 5\r\n", Refusal::Malformed),
        ("x: y\r\n content-length: 5\r\n", Refusal::Malformed),
        ("transfer-encoding: gzip, chunked\r\n", Refusal::UnknownCoding),
        ("transfer-encoding: chunked, identity\r\n", Refusal::UnknownCoding),
        ("transfer-encoding: xchunked\r\n", Refusal::UnknownCoding),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            Refusal::UnknownCoding,
        ),
        ("x: y\ncontent-length: 5\r\n", Refusal::Malformed),
        ("x: y\rcontent-length: 5\r\n", Refusal::Malformed),
        ("x: a\0b\r\n", Refusal::Malformed),
    ] {
        assert_eq!(
            check(&format!("POST / HTTP/1.1\r\n{headers}\r\n")),
            Err(refusal),
            "{headers}"
        );
    }
    let old = "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(check(old), Err(Refusal::Malformed));
}

#[test]
fn garbage_is_refused() {
    for garbage in [
        "\0",
        "GET\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "GET /\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "\x16\x03\x01",
    ] {
        assert_eq!(check(garbage), Err(Refusal::Malformed), "{garbage:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
    assert_eq!(check(&long), Err(Refusal::HeadTooLong));
    assert_eq!(check(&long[..HEAD_BYTES_MAX]), Err(Refusal::HeadTooLong));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
    assert_eq!(check(&many), Err(Refusal::HeadTooLong));
}

/// Reads a body that arrives in pieces of `piece` bytes; what is left over is returned too.
fn read(framing: Framing, input: &[u8], piece: usize, bytes_max: usize) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let mut reader = BodyReader::new(framing, bytes_max);
    let mut waiting = Vec::new();
    for bytes in input.chunks(piece) {
        waiting.extend_from_slice(bytes);
        let taken = reader.take(&waiting)?;
        waiting.drain(..taken);
    }
    let taken = reader.take(&waiting)?;
    waiting.drain(..taken);
    assert!(reader.is_done());
    assert_eq!(reader.is_too_long(), reader.total > bytes_max as u64);
    Ok((reader.body, waiting))
}

#[test]
fn bodies_may_be_cut_anywhere() {
    let chunks = b"5\r\nhello\r\n006;ext=\"a\"\r\n world\r\n0\r\nTrailer: x\r\n\r\nnext";
    for piece in 1..chunks.len() {
        let read_back = read(Framing::Chunked, chunks, piece, 100);
        assert_eq!(read_back, Ok((b"hello world".to_vec(), b"next".to_vec())), "{piece}");
        let too_long = read(Framing::Chunked, chunks, piece, 10);
        assert_eq!(too_long, Ok((Vec::new(), b"next".to_vec())), "{piece}");
        let plain = read(Framing::Length(5), b"hellonext", piece, 100);
        assert_eq!(plain, Ok((b"hello".to_vec(), b"next".to_vec())), "{piece}");
    }
    assert_eq!(read(Framing::Length(0), b"", 1, 100).map(|read| read.0), Ok(Vec::new()));
}

#[test]
fn broken_chunks_are_refused() {
    for chunks in [
        "x\r\n",
        "\r\n",
        " 5\r\nhello\r\n",
        "+5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "5\nhello\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloo\r\n",
        "5;a\rb\r\nhello\r\n",
        "10000000000000000\r\n",
        "0\r\nx: y\n\r\n",
    ] {
        let mut reader = BodyReader::new(Framing::Chunked, 100);
        assert_eq!(reader.take(chunks.as_bytes()), Err(Refusal::Malformed), "{chunks:?}");
    }
    let endless = "5;".to_owned() + &"x".repeat(2 * CHUNK_LINE_BYTES_MAX);
    let mut reader = BodyReader::new(Framing::Chunked, 100);
    assert_eq!(reader.take(endless.as_bytes()), Err(Refusal::Malformed));
}
