//! DynamoDB over HTTP: which requests are for the layer, who may ask, and the headers around the answers.
//!
//! Checked in this order: method and content type, size, target, signature, JSON; the rest is the layer's.

mod signature;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, SERVER};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Response, StatusCode};
use quartet_engine::Hold;
use quartet_layer_dynamodb::json::Json;
use quartet_layer_dynamodb::{DynamoDb, Exception, Failure, Reply, Target};

use crate::compression::{self, Unreadable};
use crate::http_connection::{HttpAnswer, HttpLayer};
use signature::Verifier;

const BODY_BYTES_MAX: usize = 16 << 20;
/// Headers, and the request line, may be this long.
const HEAD_BYTES_MAX: usize = 16 << 10;
const JSON: &str = "application/x-amz-json-1.0";

/// The layer as HTTP sees it.
pub struct DynamoDbHttp {
    pub layer: DynamoDb,
    verifier: Verifier,
    request_ids: RequestIds,
}

impl DynamoDbHttp {
    /// With no `access_keys` any is accepted.
    pub fn new(layer: DynamoDb, access_keys: &[(String, String)]) -> DynamoDbHttp {
        let seed = layer.engine.now_micros();
        DynamoDbHttp {
            layer,
            verifier: Verifier::new(access_keys),
            request_ids: RequestIds(AtomicU64::new(seed)),
        }
    }

    fn post(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        let kind = content_type(&head.headers);
        let Some(kind) = kind else {
            return plain(StatusCode::NOT_FOUND, "<UnknownOperationException/>\n");
        };
        let Some(sent) = body else {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "");
        };
        let reply = match compression::decoded(&head.headers, sent.clone(), BODY_BYTES_MAX) {
            Ok(body) => self.reply(head, &sent, &body),
            Err(Unreadable::TooLong) => return plain(StatusCode::PAYLOAD_TOO_LARGE, ""),
            Err(Unreadable::Broken) => refused(&Failure::new(
                Exception::InternalServer,
                "The request body cannot be decoded",
            )),
        };
        self.json(head, kind, reply)
    }

    fn reply(&self, head: &Parts, sent: &[u8], body: &[u8]) -> Reply {
        let target = head.headers.get("x-amz-target").and_then(|value| value.to_str().ok());
        let checked = Target::parse(target.unwrap_or_default()).and_then(|target| {
            let now_seconds = (self.layer.engine.now_micros() / 1_000_000) as i64;
            self.verifier.check(head, sent, now_seconds)?;
            let request = Json::parse(body).map_err(|_| Failure::serialization(""))?;
            Ok(self.layer.answer(&target, &request))
        });
        checked.unwrap_or_else(|failure| refused(&failure))
    }

    fn json(&self, head: &Parts, kind: &'static str, reply: Reply) -> HttpAnswer {
        let mut body = Bytes::from(reply.body);
        let compressed = compression::encoded(&head.headers, &body);
        let encoding = compressed.map(|(encoding, compressed)| {
            body = compressed;
            encoding
        });
        let checksum = crc32fast::hash(&body);
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert("x-amzn-requestid", self.request_ids.next());
        headers.insert("x-amz-crc32", HeaderValue::from(checksum));
        headers.insert(SERVER, HeaderValue::from_static("Server"));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        HttpAnswer {
            response,
            hold: reply.hold,
        }
    }
}

impl HttpLayer for DynamoDbHttp {
    fn maintain(&self) {
        self.layer.maintain();
    }

    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn answer(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer {
        let header_bytes: usize = head
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        let line_bytes = head.uri.path_and_query().map_or(0, |line| line.as_str().len());
        if header_bytes > HEAD_BYTES_MAX || line_bytes > HEAD_BYTES_MAX {
            return plain(StatusCode::BAD_REQUEST, "");
        }
        let mut answer = match (&head.method, head.uri.path()) {
            (&Method::POST, "/") => self.post(head, body),
            (&Method::GET, "/") => plain(StatusCode::OK, format!("healthy: {} ", host(head))),
            (&Method::OPTIONS, _) if head.headers.contains_key(ORIGIN) => preflight(&head.headers),
            _ => plain(StatusCode::NOT_FOUND, "<UnknownOperationException/>\n"),
        };
        if head.headers.contains_key(ORIGIN) {
            let headers = answer.response.headers_mut();
            headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
            let exposed = HeaderValue::from_static("x-amzn-requestid,x-amz-crc32,date");
            headers.insert("access-control-expose-headers", exposed);
        }
        answer
    }
}

/// The name by which the client reached the server.
fn host(head: &Parts) -> &str {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| head.uri.authority().map(|authority| authority.as_str()))
        .unwrap_or_default()
}

fn refused(failure: &Failure) -> Reply {
    Reply {
        status: failure.status(),
        body: failure.body(),
        hold: Hold::ZERO,
    }
}

/// The content type to answer in: the one of the request, if it is one that is spoken.
fn content_type(headers: &HeaderMap) -> Option<&'static str> {
    let given = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = given.split(';').next().unwrap_or_default().trim();
    [JSON, "application/json"]
        .into_iter()
        .find(|known| kind.eq_ignore_ascii_case(known))
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> HttpAnswer {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(SERVER, HeaderValue::from_static("Server"));
    HttpAnswer {
        response,
        hold: Hold::ZERO,
    }
}

/// A browser asks whether it may ask.
fn preflight(asked: &HeaderMap) -> HttpAnswer {
    let mut answer = plain(StatusCode::OK, "");
    let headers = answer.response.headers_mut();
    headers.insert("access-control-max-age", HeaderValue::from_static("172800"));
    for (question, reply) in [
        ("access-control-request-headers", "access-control-allow-headers"),
        ("access-control-request-method", "access-control-allow-methods"),
    ] {
        if let Some(value) = asked.get(question) {
            headers.insert(reply, value.clone());
        }
    }
    answer
}

/// Names for requests: 52 letters and digits, never the same twice in a run.
struct RequestIds(AtomicU64);

impl RequestIds {
    fn next(&self) -> HeaderValue {
        const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut state = self.0.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 52];
        for chunk in id.chunks_mut(12) {
            // SplitMix64: a permutation of the counter, so that neighbours look nothing alike.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            for digit in chunk {
                *digit = DIGITS[(mixed & 31) as usize];
                mixed >>= 5;
            }
        }
        HeaderValue::from_bytes(&id).expect("letters and digits")
    }
}
