//! Compressed bodies, both ways.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::http::Head;

/// Shorter bodies are not worth it.
pub const COMPRESSED_BYTES_MIN: usize = 4096;

/// Bytes of a body that are expanded together.
const PIECE_BYTES: usize = 16 << 10;

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Broken, or compressed in an unknown way.
    Broken,
    TooLong,
    /// There is no memory for it.
    NoMemory,
}

/// The body as it was before the peer compressed it, if that is at most `bytes_max` long. `takes`
/// is called with the bytes that the body has at most from then on, before they are made; it
/// returns false if there is no memory for them.
pub fn decoded<'b>(
    head: &Head<'_>,
    body: &'b [u8],
    bytes_max: usize,
    takes: &mut dyn FnMut(usize) -> bool,
) -> Result<Cow<'b, [u8]>, Unreadable> {
    let Some(encoding) = head.values("content-encoding").next() else {
        return Ok(body.into());
    };
    match encoding {
        b"identity" | b"" => Ok(body.into()),
        b"gzip" => read_all(MultiGzDecoder::new(body), bytes_max, takes),
        b"deflate" => read_all(ZlibDecoder::new(body), bytes_max, takes),
        _ => Err(Unreadable::Broken),
    }
}

fn read_all<'b>(
    mut decoder: impl Read,
    bytes_max: usize,
    takes: &mut dyn FnMut(usize) -> bool,
) -> Result<Cow<'b, [u8]>, Unreadable> {
    let mut whole = Vec::new();
    let mut piece = [0; PIECE_BYTES];
    loop {
        let read = decoder.read(&mut piece).map_err(|_| Unreadable::Broken)?;
        match read {
            0 if whole.is_empty() => return Err(Unreadable::Broken),
            0 => return Ok(whole.into()),
            _ if whole.len() + read > bytes_max => return Err(Unreadable::TooLong),
            _ => {}
        }
        let missing = (whole.len() + read).saturating_sub(whole.capacity());
        if missing > 0 {
            // Until its bytes are copied there are two of them.
            let larger = (whole.capacity() * 2).max(PIECE_BYTES);
            if !takes(larger + whole.capacity()) {
                return Err(Unreadable::NoMemory);
            }
            whole.reserve_exact(larger - whole.len());
            if !takes(whole.capacity()) {
                return Err(Unreadable::NoMemory);
            }
        }
        whole.extend_from_slice(&piece[..read]);
    }
}

/// The body as the peer likes it, and the name of that encoding; `None` if it is best sent as it
/// is.
pub fn encoded(head: &Head<'_>, body: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    if body.len() <= COMPRESSED_BYTES_MIN {
        return None;
    }
    let encoding = preferred(head)?;
    Some((encoding, encoded_as(encoding, body)?))
}

/// The body in an encoding that the peer likes.
pub fn encoded_as(encoding: &'static str, body: &[u8]) -> Option<Vec<u8>> {
    let written = match encoding {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).and_then(|()| encoder.finish())
        }
        _ => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).and_then(|()| encoder.finish())
        }
    };
    written.ok()
}

/// The encoding with the highest weight in Accept-Encoding (RFC 9110, 12.5.3); of equals the first
/// that is named. A weight that cannot be read, or is above one, counts as one, as it does for the
/// service.
pub fn preferred(head: &Head<'_>) -> Option<&'static str> {
    let mut named: Vec<(&'static str, f32)> = Vec::new();
    let mut default_weight = 0.0;
    let values = head
        .values("accept-encoding")
        .filter_map(|value| std::str::from_utf8(value).ok());
    for element in values.flat_map(|value| value.split(',')) {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        let weight = weight(parameters);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" => named.push(("gzip", weight)),
            "deflate" => named.push(("deflate", weight)),
            "*" => default_weight = weight,
            _ => {}
        }
    }
    for name in ["gzip", "deflate"] {
        if !named.iter().any(|(encoding, _)| *encoding == name) {
            named.push((name, default_weight));
        }
    }
    let best = named.into_iter().filter(|(_, weight)| *weight > 0.0);
    best.reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(name, _)| name)
}

fn weight(parameters: &str) -> f32 {
    let Some((_, value)) = parameters.split_once("q=") else {
        return 1.0;
    };
    let text = value.split(';').next().unwrap_or_default().trim();
    text.parse::<f32>().map_or(1.0, |weight| weight.min(1.0))
}

#[cfg(test)]
mod tests {
    use httparse::Header;

    use super::*;

    /// Returns the result of `check` for a request with this one header.
    fn with_header<T>(name: &'static str, value: &'static str, check: impl FnOnce(&Head<'_>) -> T) -> T {
        let value = value.as_bytes();
        check(&Head {
            method: "POST",
            target: "/",
            headers: &[Header { name, value }],
        })
    }

    #[test]
    fn an_encoded_body_is_decoded() {
        let body = "x".repeat(10_000).into_bytes();
        for encoding in ["gzip", "deflate"] {
            let (name, compressed) = with_header("Accept-Encoding", encoding, |head| encoded(head, &body)).unwrap();
            assert_eq!(name, encoding);
            with_header("Content-Encoding", encoding, |head| {
                let decoded = |head: &Head<'_>, body, bytes_max| {
                    decoded(head, body, bytes_max, &mut |_| true).map(Cow::into_owned)
                };
                assert_eq!(decoded(head, &compressed, 10_000).unwrap(), body);
                assert_eq!(decoded(head, &compressed, 9_999), Err(Unreadable::TooLong));
                let half = &compressed[..compressed.len() / 2];
                assert_eq!(decoded(head, half, 10_000), Err(Unreadable::Broken));
                assert_eq!(decoded(head, b"", 10), Err(Unreadable::Broken));
                let mut consumed = 0;
                let few = super::decoded(head, &compressed, 10_000, &mut |bytes| {
                    consumed = bytes;
                    false
                });
                assert_eq!((few.map(drop), consumed), (Err(Unreadable::NoMemory), PIECE_BYTES));
            });
        }
        let unknown = with_header("Content-Encoding", "br", |head| {
            decoded(head, b"", 10, &mut |_| true).map(drop)
        });
        assert_eq!(unknown, Err(Unreadable::Broken));
    }

    #[test]
    fn weights_choose() {
        for (value, expected) in [
            ("identity", None),
            ("gzip;q=0", None),
            ("deflate, gzip", Some("deflate")),
            ("deflate;q=0.5, gzip;q=0.7", Some("gzip")),
            ("*", Some("gzip")),
            ("*, deflate", Some("deflate")),
            ("*, gzip;q=0.5", Some("deflate")),
            ("deflate;q=0.5, gzip;q=31", Some("gzip")),
            ("br", None),
        ] {
            assert_eq!(with_header("accept-encoding", value, preferred), expected, "{value}");
        }
    }
}
