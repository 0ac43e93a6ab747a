//! Redis over REST: which request is which, who may ask, and the headers around the answers.
//!
//! `docs/rest.md` describes the protocol; `quartet-wire-rest` has its bytes.

mod events;
mod execution;
mod tokens;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use quartet_engine::Hold;
use quartet_layer_redis::Redis;
use quartet_model::Version;
use quartet_wire_rest::reply::write_text;
use quartet_wire_rest::{Commands, Encoding, commands_of_body, write_result, write_results, write_transaction};
use tokio::sync::watch;

use self::events::Events;
use self::execution::{Execution, Sessions};
use self::tokens::Tokens;
use crate::compression::{self, Unreadable};
use crate::http_connection::{Followed, HttpAnswer, Wake, Work};
use crate::settings::RestTokens;

/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// The latest commit that an answer can have seen. A client sends it along with its next request, so that a server that is
/// behind waits; this one never is.
const SYNC_TOKEN: HeaderName = HeaderName::from_static("upstash-sync-token");
const ENCODING: HeaderName = HeaderName::from_static("upstash-encoding");
const RESPONSE_FORMAT: HeaderName = HeaderName::from_static("upstash-response-format");

const METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::POST, Method::PUT];

pub struct Rest {
    sessions: Arc<Sessions>,
    tokens: Tokens,
}

/// How the replies to a request become its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One command.
    Single,
    Pipeline,
    Transaction,
}

/// What the client wishes for by headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json(Encoding),
    Resp2,
}

/// An answer that says no.
struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    fn bad(text: impl ToString) -> Refusal {
        Refusal {
            status: StatusCode::BAD_REQUEST,
            text: text.to_string(),
        }
    }

    fn answer(&self) -> HttpAnswer {
        let mut body = b"{\"error\":".to_vec();
        write_text(self.text.as_bytes(), &mut body);
        body.push(b'}');
        answer(self.status, JSON, body, Hold::ZERO)
    }
}

const JSON: &str = "application/json";

impl Rest {
    pub fn new(layer: Arc<Redis>, tokens: RestTokens, stop: watch::Receiver<bool>) -> Rest {
        Rest {
            sessions: Arc::new(Sessions::new(layer, stop)),
            tokens: Tokens::new(tokens),
        }
    }

    /// Answers, or gives what is left to be done on a thread that may be kept.
    pub fn begin(&self, head: &Parts, body: Option<Bytes>) -> Result<HttpAnswer, Work> {
        if head.method == Method::OPTIONS {
            return Ok(preflight());
        }
        let (mut execution, shape, format) = match self.prepared(head, body) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(refusal.answer()),
        };
        let headers = head.headers.clone();
        if execution.begin() {
            return Ok(answered(execution, shape, format, &headers));
        }
        Err(Box::new(move || {
            execution.finish();
            answered(execution, shape, format, &headers)
        }))
    }

    fn prepared(&self, head: &Parts, body: Option<Bytes>) -> Result<(Execution, Shape, Format), Refusal> {
        let user = self.authorized(head)?;
        let body = readable(&head.headers, body)?;
        let (commands, shape) = commands_of(head, &body)?;
        let format = format_of(&head.headers, shape)?;
        Ok((Execution::new(self.sessions.clone(), user, commands), shape, format))
    }

    fn authorized(&self, head: &Parts) -> Result<Arc<quartet_layer_redis::acl::User>, Refusal> {
        if !METHODS.contains(&head.method) {
            return Err(Refusal {
                status: StatusCode::METHOD_NOT_ALLOWED,
                text: format!("ERR method not allowed: {}", head.method),
            });
        }
        let user = self.tokens.user_of(self.sessions.layer(), head);
        user.map_err(|text| Refusal {
            status: StatusCode::UNAUTHORIZED,
            text: text.to_owned(),
        })
    }

    /// An event stream, if the request asks for one.
    pub fn follow(&self, head: &Parts, wake: Wake) -> Option<Followed> {
        let accepted = head.headers.get(ACCEPT)?.to_str().ok()?;
        let is_stream = accepted.contains("text/event-stream") && METHODS.contains(&head.method);
        let path = head.uri.path();
        let command = path.trim_start_matches('/').split('/').next()?.to_ascii_lowercase();
        let listens = matches!(command.as_str(), "subscribe" | "psubscribe" | "monitor");
        if !is_stream || !listens {
            return None;
        }
        Some(match self.events(head, wake) {
            Ok(followed) => Ok(followed),
            Err(refusal) => Err(refusal.answer()),
        })
    }

    fn events(
        &self,
        head: &Parts,
        wake: Wake,
    ) -> Result<(Response<()>, Box<dyn crate::http_connection::Follower>), Refusal> {
        let user = self.authorized(head)?;
        // A body is of no use to a subscription; clients send an empty array.
        let commands = Commands::of_path(head.uri.path(), None, b"").map_err(Refusal::bad)?;
        let mut session = self.sessions.listen(user, Box::new(move || wake()));
        let mut confirmation = Vec::new();
        let received = session.receive(commands.range(0, 1), &mut confirmation);
        if received.consumed == 0 {
            return Err(Refusal::bad("ERR all clients are paused"));
        }
        if let Some(error) = confirmation.strip_prefix(b"-") {
            return Err(Refusal::bad(String::from_utf8_lossy(error).trim_end()));
        }
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert("cache-control", HeaderValue::from_static("no-cache"));
        allow_pages(headers);
        let events = Events::new(session, confirmation, received.hold);
        Ok((response, Box::new(events)))
    }
}

/// The body without its compression.
fn readable(headers: &HeaderMap, body: Option<Bytes>) -> Result<Bytes, Refusal> {
    let too_long = || Refusal::bad(format!("ERR max request size exceeded. Limit: {BODY_BYTES_MAX} bytes"));
    let body = body.ok_or_else(too_long)?;
    compression::decoded(headers, body, BODY_BYTES_MAX).map_err(|unreadable| match unreadable {
        Unreadable::TooLong => too_long(),
        Unreadable::Broken => Refusal::bad("ERR the body's Content-Encoding cannot be read"),
    })
}

fn commands_of(head: &Parts, body: &[u8]) -> Result<(Commands, Shape), Refusal> {
    let commands = match head.uri.path() {
        "/pipeline" => commands_of_body(body).map(|commands| (commands, Shape::Pipeline)),
        "/multi-exec" => commands_of_body(body).map(|commands| (commands.into_transaction(), Shape::Transaction)),
        path => Commands::of_path(path, head.uri.query(), body).map(|commands| (commands, Shape::Single)),
    };
    commands.map_err(Refusal::bad)
}

fn format_of(headers: &HeaderMap, shape: Shape) -> Result<Format, Refusal> {
    let text = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let encoding = match text(ENCODING) {
        Some(b"base64") => Encoding::Base64,
        _ => Encoding::Text,
    };
    match text(RESPONSE_FORMAT) {
        None | Some(b"json") => Ok(Format::Json(encoding)),
        // A transaction answers in JSON whatever is asked for.
        Some(b"resp2") if shape == Shape::Transaction => Ok(Format::Json(encoding)),
        Some(b"resp2") if encoding == Encoding::Text => Ok(Format::Resp2),
        Some(b"resp2") => Err(Refusal::bad(
            "ERR base64 encoding is not possible with the response format resp2",
        )),
        Some(_) => Err(Refusal::bad("ERR unknown response format: json and resp2 are known")),
    }
}

fn answered(execution: Execution, shape: Shape, format: Format, headers: &HeaderMap) -> HttpAnswer {
    let (version, hold) = (execution.version, execution.hold);
    let (status, kind, body) = match format {
        Format::Json(encoding) => json(&execution.replies, shape, encoding),
        Format::Resp2 => resp2(execution.replies, shape),
    };
    let compressed = compression::encoded(headers, &body);
    let mut answer = match compressed {
        None => answer(status, kind, body, hold),
        Some((encoding, bytes)) => {
            let mut answer = answer(status, kind, Vec::new(), hold);
            *answer.response.body_mut() = bytes;
            let encoding = HeaderValue::from_static(encoding);
            answer.response.headers_mut().insert(CONTENT_ENCODING, encoding);
            answer
        }
    };
    answer.response.headers_mut().insert(SYNC_TOKEN, sync_token(version));
    answer
}

fn sync_token(version: Version) -> HeaderValue {
    HeaderValue::from(version.0)
}

fn json(replies: &[u8], shape: Shape, encoding: Encoding) -> (StatusCode, &'static str, Vec<u8>) {
    let mut body = Vec::with_capacity(replies.len() + 32);
    let is_error = match shape {
        Shape::Single => write_result(replies, encoding, &mut body).map(|written| written.is_error),
        Shape::Transaction => write_transaction(replies, encoding, &mut body).map(|written| written.is_error),
        Shape::Pipeline => {
            write_results(replies, usize::MAX, encoding, &mut body);
            Some(false)
        }
    };
    match is_error {
        Some(is_error) => (status_of(is_error), JSON, body),
        None => {
            let refusal = Refusal::bad("ERR the command answers nothing");
            (refusal.status, JSON, refusal.answer().response.into_body().to_vec())
        }
    }
}

fn resp2(replies: Vec<u8>, shape: Shape) -> (StatusCode, &'static str, Vec<u8>) {
    let is_error = shape == Shape::Single && replies.first() == Some(&b'-');
    (status_of(is_error), "application/octet-stream", replies)
}

fn status_of(is_error: bool) -> StatusCode {
    if is_error {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    }
}

fn answer(status: StatusCode, kind: &'static str, body: Vec<u8>, hold: Hold) -> HttpAnswer {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    allow_pages(headers);
    HttpAnswer { response, hold }
}

/// Web pages may ask: a token is shown by whoever has it, and no cookie is looked at.
fn allow_pages(headers: &mut HeaderMap) {
    headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
    headers.insert(
        "access-control-expose-headers",
        HeaderValue::from_static("upstash-sync-token"),
    );
}

fn preflight() -> HttpAnswer {
    let mut answer = answer(StatusCode::NO_CONTENT, JSON, Vec::new(), Hold::ZERO);
    let headers = answer.response.headers_mut();
    headers.remove(CONTENT_TYPE);
    let methods = HeaderValue::from_static("GET, HEAD, POST, PUT");
    headers.insert("access-control-allow-methods", methods);
    headers.insert(
        "access-control-allow-headers",
        HeaderValue::from_static("*, authorization"),
    );
    headers.insert("access-control-max-age", HeaderValue::from_static("86400"));
    answer
}
