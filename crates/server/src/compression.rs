//! Compressed bodies, both ways.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use hyper::http::HeaderMap;
use hyper::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};

/// Shorter bodies are not worth it.
const COMPRESSED_BYTES_MIN: usize = 4096;

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Broken, or compressed in an unknown way.
    Broken,
    TooLong,
}

/// The body as it was before the peer compressed it, if that is at most `bytes_max` long.
pub fn decoded(headers: &HeaderMap, body: Bytes, bytes_max: usize) -> Result<Bytes, Unreadable> {
    let Some(encoding) = headers.get(CONTENT_ENCODING) else {
        return Ok(body);
    };
    match encoding.as_bytes() {
        b"identity" | b"" => Ok(body),
        b"gzip" => read_all(MultiGzDecoder::new(body.as_ref()), bytes_max),
        b"deflate" => read_all(ZlibDecoder::new(body.as_ref()), bytes_max),
        _ => Err(Unreadable::Broken),
    }
}

fn read_all(decoder: impl Read, bytes_max: usize) -> Result<Bytes, Unreadable> {
    let mut whole = Vec::new();
    let read = decoder.take(bytes_max as u64 + 1).read_to_end(&mut whole);
    match read {
        Ok(0) | Err(_) => Err(Unreadable::Broken),
        Ok(_) if whole.len() > bytes_max => Err(Unreadable::TooLong),
        Ok(_) => Ok(whole.into()),
    }
}

/// The body as the peer likes it, and the name of that encoding; `None` if it is best sent as it is.
pub fn encoded(headers: &HeaderMap, body: &[u8]) -> Option<(&'static str, Bytes)> {
    if body.len() <= COMPRESSED_BYTES_MIN {
        return None;
    }
    let encoding = preferred(headers)?;
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
    Some((encoding, written.ok()?.into()))
}

/// The encoding with the highest weight in Accept-Encoding (RFC 9110, 12.5.3); of equals the first that is named. A weight
/// that cannot be read, or is above one, counts as one, as it does for the service.
fn preferred(headers: &HeaderMap) -> Option<&'static str> {
    let mut named: Vec<(&'static str, f32)> = Vec::new();
    let mut others = 0.0;
    let values = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
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
    use super::*;

    fn headers(name: hyper::http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, hyper::http::HeaderValue::from_static(value))])
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let body = "x".repeat(10_000);
        for encoding in ["gzip", "deflate"] {
            let (name, compressed) = encoded(&headers(ACCEPT_ENCODING, encoding), body.as_bytes()).unwrap();
            assert_eq!(name, encoding);
            let encoding = headers(CONTENT_ENCODING, encoding);
            assert_eq!(decoded(&encoding, compressed.clone(), 10_000).unwrap(), body);
            assert_eq!(decoded(&encoding, compressed.clone(), 9_999), Err(Unreadable::TooLong));
            assert_eq!(
                decoded(&encoding, compressed.slice(..compressed.len() / 2), 10_000),
                Err(Unreadable::Broken)
            );
            assert_eq!(decoded(&encoding, Bytes::new(), 10), Err(Unreadable::Broken));
        }
        assert_eq!(
            decoded(&headers(CONTENT_ENCODING, "br"), Bytes::new(), 10),
            Err(Unreadable::Broken)
        );
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
            assert_eq!(preferred(&headers(ACCEPT_ENCODING, value)), expected, "{value}");
        }
    }
}
