//! Compressed bodies, both ways.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::http::Head;

/// Shorter bodies are not worth it.
pub const COMPRESSED_BYTES_MIN: usize = 4096;

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Broken, or compressed in an unknown way.
    Broken,
    TooLong,
}

/// The body as it was before the peer compressed it, if that is at most `bytes_max` long.
pub fn decoded<'b>(head: &Head<'_>, body: &'b [u8], bytes_max: usize) -> Result<Cow<'b, [u8]>, Unreadable> {
    let Some(encoding) = head.values("content-encoding").next() else {
        return Ok(body.into());
    };
    match encoding {
        b"identity" | b"" => Ok(body.into()),
        b"gzip" => read_all(MultiGzDecoder::new(body), bytes_max),
        b"deflate" => read_all(ZlibDecoder::new(body), bytes_max),
        _ => Err(Unreadable::Broken),
    }
}

fn read_all<'b>(decoder: impl Read, bytes_max: usize) -> Result<Cow<'b, [u8]>, Unreadable> {
    let mut whole = Vec::new();
    let read = decoder.take(bytes_max as u64 + 1).read_to_end(&mut whole);
    match read {
        Ok(0) | Err(_) => Err(Unreadable::Broken),
        Ok(_) if whole.len() > bytes_max => Err(Unreadable::TooLong),
        Ok(_) => Ok(whole.into()),
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
    let mut others = 0.0;
    let values = head
        .values("accept-encoding")
        .filter_map(|value| std::str::from_utf8(value).ok());
    for element in values.flat_map(|value| value.split(',')) {
        let (name, parameters) = element.split_once(';').unwrap_or((element, ""));
        let weight = weight(parameters);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" => named.push(("gzip", weight)),
            "deflate" => named.push(("deflate", weight)),
            "*" => others = weight,
            _ => {}
        }
    }
    for name in ["gzip", "deflate"] {
        if !named.iter().any(|(known, _)| *known == name) {
            named.push((name, others));
        }
    }
    let best = named.into_iter().filter(|(_, weight)| *weight > 0.0);
    best.reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(name, _)| name)
}

fn weight(parameters: &str) -> f32 {
    let Some((_, rest)) = parameters.split_once("q=") else {
        return 1.0;
    };
    let text = rest.split(';').next().unwrap_or_default().trim();
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
                assert_eq!(decoded(head, &compressed, 10_000).unwrap(), body);
                assert_eq!(decoded(head, &compressed, 9_999), Err(Unreadable::TooLong));
                let half = &compressed[..compressed.len() / 2];
                assert_eq!(decoded(head, half, 10_000), Err(Unreadable::Broken));
                assert_eq!(decoded(head, b"", 10), Err(Unreadable::Broken));
            });
        }
        let unknown = with_header("Content-Encoding", "br", |head| decoded(head, b"", 10).map(drop));
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
